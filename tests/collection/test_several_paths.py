"""Items of several paths in lock-step, and of wildcards that stand for any number of names.

Law
---
1. A molecule is a group at some depth, which has three datasets at three depths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import MissingDatasetError, OptionsError

MOLECULES = ["A/mol0", "A/mol1", "A/mol10", "B/sub/mol2", "top"]
PATHS = {"energy": "/**/energies", "xyz": "/**/conf/last/coords", "Z": "/**/conf/species"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "molecules.h5"
    with h5py.File(made, "w") as file:
        for number, name in enumerate(MOLECULES):
            n = number + 3
            group = file.create_group(name)
            group["energies"] = np.arange(n) * 0.5 + number
            group["conf/last/coords"] = np.arange(n * 6).reshape(n, 2, 3) + number
            group["conf/species"] = np.array([1, 6 + number])
        file["A/again"] = file["A/mol0"]
        file["soft"] = h5py.SoftLink("/B")
    return made


def read(path: Path, wanted: Any, **options: Any) -> dict[str, dict[str, np.ndarray]]:
    with multitables.Streamer(path).get_collection(wanted, order="key", **options) as items:
        keys = items.keys
        found = {item.key: {name: np.array(one) for name, one in item.items()} for item in items}
        assert list(found) == keys
    return found


@pytest.mark.parametrize("n_procs", [0, 1])
def test_three_datasets_at_three_depths(path: Path, n_procs: int) -> None:
    found = read(path, PATHS, n_procs=n_procs)
    with h5py.File(path) as file:
        # Of links to one group the shortest names stand for it, and of these the first.
        assert sorted(found) == sorted([*MOLECULES[1:], "A/again"])
        for key, item in found.items():
            assert set(item) == set(PATHS)
            for name, inside in PATHS.items():
                expected = file[inside.replace("**", key)][...]
                np.testing.assert_array_equal(item[name], expected)
    listed = read(path, list(PATHS.values()), n_procs=n_procs)
    assert {name for item in listed.values() for name in item} == {"energies", "coords", "species"}
    np.testing.assert_array_equal(listed["top"]["coords"], found["top"]["xyz"])


def test_any_number_of_names(path: Path) -> None:
    assert sorted(read(path, "/B/**")) == [
        "sub/mol2/conf/last/coords", "sub/mol2/conf/species", "sub/mol2/energies",
    ]  # fmt: skip
    assert sorted(read(path, "/**/mol[12]/energies", by=0)) == ["A", "B/sub"]
    assert sorted(read(path, "/**/mol[12]/energies", by=1)) == ["mol1", "mol2"]
    assert set(read(path, "/*/**/energies", by=0)) == {"A", "B", "soft", "top"}
    rest = read(path, {"e": "/A/*/energies", "all": "/A/*/**"})["mol1"]
    assert set(rest) == {"e", "all/energies", "all/conf/species", "all/conf/last/coords"}
    left = read(path, "/**/energies", exclude=["/A/mol1*", "/B/sub/mol2"])
    assert sorted(left) == ["A/again", "top"]


def test_files_have_the_items_together(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["C/mol9/energies"] = np.arange(2.0)
        file["C/mol9/conf/species"] = [1, 2]
        file["C/mol9/conf/last/coords"] = np.zeros((2, 2, 3))
    streamer = multitables.Streamer([path, other])
    with streamer.get_collection(PATHS, order="key", n_procs=0) as items:
        assert [item.key for item in items] == items.keys
        assert "C/mol9" in items.keys
        assert len(items.keys) == len(MOLECULES) + 1


@pytest.mark.parametrize(
    ("wanted", "options", "error", "match"),
    [
        (["/A/*/energies", "/A/mol0/energies"], {}, OptionsError, "has no wildcard"),
        (["/A/*/energies", "/*/*/energies"], {"by": 1}, OptionsError, "by is out of range"),
        (["/A/*/energies", "/A/*/*"], {}, OptionsError, "several datasets 'energies'"),
        (["/A/*/energies", "/A/*/nothing"], {}, MissingDatasetError, "nothing matches"),
        (["/A/*/energies", 3], {}, OptionsError, "path must be"),
        ("/**/nothing", {}, MissingDatasetError, "no 'nothing' in"),
        ("/**/energies", {"exclude": "/*"}, MissingDatasetError, "leaves out all"),
    ],
)
def test_refusals(path: Path, wanted: Any, options: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        multitables.Streamer(path).get_collection(wanted, **options)


@pytest.mark.parametrize("n_procs", [0, 1])
def test_items_by_number_and_by_key(path: Path, n_procs: int) -> None:
    with multitables.Streamer(path).get_collection(PATHS, n_procs=n_procs) as items:
        iterator = iter(items)
        next(iterator)  # an iteration goes on beside
        held = []
        for number, key in enumerate(items.keys):
            for item in (items[number], items[key], items[number - len(items.keys)]):
                assert item.key == key
                held.append(item)
        with h5py.File(path) as file:
            for item in held:
                for name, inside in PATHS.items():
                    expected = file[inside.replace("**", item.key)][...]
                    np.testing.assert_array_equal(item[name], expected)
        del item, held
        assert len(list(iterator)) == len(items.keys) - 1
        for wrong, error in [(9, IndexError), (-9, IndexError), ("A/mol", MissingDatasetError)]:
            with pytest.raises(error, match="there is no item"):
                items[wrong]
        with pytest.raises(MissingDatasetError, match="Did you mean 'A/mol1"):
            items.names("A/mol12")
    with pytest.raises(multitables.ClosedError):
        items[0]
