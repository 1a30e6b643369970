"""What a collection leaves out, and the attributes of the groups in which its datasets lie.

1. The oracle is h5py: names by `fnmatch`, attributes group by group.
"""

from __future__ import annotations

import fnmatch
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
from hypothesis import given
from hypothesis import strategies as st
from shot_files import PATTERN

import multitables
from _multitables.index.names.pattern import parts_of
from multitables import MissingDatasetError, OptionsError, Streamer

KINDS = {name: shot_files.KINDS[name] for name in ("plain", "gzip", "scalar", "half")}
ATTRS = ("date", "units", "site")


def write(path: Path, shots: tuple[int, ...] = shot_files.SHOTS) -> Path:
    shot_files.write(path, shots, KINDS)
    with h5py.File(path, "a") as file:
        file.attrs["site"], file.attrs["other"] = f"site of {path.name}", 1
        for shot in shots:
            file[f"shots/{shot}"].attrs["date"] = shot * 10
        file[f"shots/{shots[0]}/signals"].attrs["units"] = "of the group"
        file["linked"] = h5py.SoftLink(f"/shots/{shots[0]}")
    return path


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("groups") / "shots.h5")


def groups_of(path: Path, shots: list[str]) -> dict[str, dict[str, Any]]:
    """The attributes that are wanted of the groups of some shots, as h5py reads them."""
    found = {}
    with h5py.File(path) as file:
        inside = [f"/shots/{shot}{end}" for shot in shots for end in ("", "/signals")]
        for group in ("/", "/shots", *inside):
            values = {name: value for name, value in file[group].attrs.items() if name in ATTRS}
            if values:
                found[group] = values
    return found


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("indexed", [False, True])
def test_attributes_of_groups(shots: Path, by: int, indexed: bool) -> None:
    if indexed:
        multitables.index_file(shots, progress=False)
    try:
        with Streamer(shots) as streamer:
            items = streamer.get_collection(PATTERN, by, attrs=ATTRS, n_procs=1)
            for item in items:
                expected = groups_of(shots, [item.key] if by == 0 else list(item))
                assert item.group_attrs == expected
                copied = pickle.loads(pickle.dumps(item.copy()))
                assert (copied.group_attrs, copied.attrs) == (expected, item.attrs)
                assert item.attrs[next(iter(item))]["units"].startswith("u")
            for item in streamer.get_collection(PATTERN, by, n_procs=1):
                assert item.group_attrs == {}
    finally:
        Path(f"{shots}.mtidx").unlink(missing_ok=True)


@pytest.mark.parametrize("by", [0, 1, "file"])
def test_groups_of_several_files(tmp_path: Path, by: int | str) -> None:
    parts = {write(tmp_path / "a.h5", (1, 2)): ["1", "2"], write(tmp_path / "b.h5", (3,)): ["3"]}
    first, second = parts
    items = Streamer(list(parts)).get_collection(PATTERN, by, attrs=ATTRS, n_procs=1)
    for item in items:
        if by == "file":
            expected = groups_of(Path(item.key), parts[Path(item.key)])
        elif by == 0:
            expected = groups_of(first if item.key in "12" else second, [item.key])
        else:  # the root group that comes first
            expected = groups_of(second, ["3"]) | groups_of(first, ["1", "2"])
        assert item.group_attrs == expected


def test_a_damaged_attribute_of_a_group(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", (1,))
    with h5py.File(path, "a") as file:
        file["shots/1"].attrs["site"] = "where the text of this attribute is"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"GCOL", b"gcol"))
    with pytest.raises(multitables.CorruptFileError):
        Streamer(path).get_collection(PATTERN, attrs="site")


NAMES = st.text("ab1", min_size=1, max_size=2)
PATTERNS = st.lists(
    st.sampled_from(["*", "a*", "?", "[ab]", "a", "b1", "*1"]), min_size=1, max_size=3
)


@given(
    st.sets(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=6),
    st.lists(PATTERNS, max_size=3),
    st.integers(0, 2),
)
def test_what_is_left_out(
    tmp_path_factory: pytest.TempPathFactory,
    datasets: set[tuple[str, ...]],
    exclude: list[list[str]],
    by: int,
) -> None:
    path = tmp_path_factory.mktemp("left") / "a.h5"
    with h5py.File(path, "w") as file:
        for names in datasets:
            file["/".join(names)] = np.array("/".join(names), "S")

    def is_out(names: tuple[str, ...]) -> bool:
        return any(
            all(fnmatch.fnmatchcase(name, part) for name, part in zip(names, parts, strict=False))
            for parts in exclude
        )

    expected = {names for names in datasets if not is_out(names)}
    paths = ["/" + "/".join(parts) for parts in exclude]
    if not expected:
        with pytest.raises(MissingDatasetError, match="nothing is left of"):
            Streamer(path).get_collection("/*/*/*", by, exclude=paths)
        return
    with Streamer(path).get_collection("/*/*/*", by, exclude=paths, n_procs=1) as items:
        found = {
            tuple(array.item().decode().split("/")) for item in items for array in item.values()
        }
    assert found == expected


def test_one_path_or_several(shots: Path) -> None:
    for exclude in ("/shots/*/signals/g*", ["shots/*/signals/gzip"], ("/shots/*/signals/g???",)):
        items = Streamer(shots).get_collection(PATTERN, exclude=exclude, n_procs=1)
        assert {name for item in items for name in item} == set(KINDS) - {"gzip"}
    with Streamer(shots, root_uep="/shots") as streamer:
        items = streamer.get_collection("/*/signals/*", exclude="/9", attrs="date", n_procs=1)
        for item in items:
            assert item.group_attrs == {f"/{item.key}": {"date": int(item.key) * 10}}
        assert "9" not in items.keys


def test_files_of_which_nothing_is_left_are_passed_over(tmp_path: Path) -> None:
    parts = [write(tmp_path / "a.h5", (1,)), write(tmp_path / "b.h5", (2,))]
    items = Streamer(parts).get_collection(PATTERN, exclude="/shots/1", n_procs=1)
    assert [item.key for item in items] == ["2"]


@pytest.mark.parametrize(
    ("given_options", "match"),
    [
        ({"exclude": "/a/b/c/d/e"}, "cannot name anything .*paths of 1 to 4 names"),
        ({"exclude": ""}, "cannot name anything"),
        ({"exclude": 3}, "exclude must be a str, or several"),
        ({"attrs": [1]}, "attrs must be a str, or several"),
    ],
)
def test_options_that_cannot_work(shots: Path, given_options: Any, match: str) -> None:
    with pytest.raises(OptionsError, match=match):
        Streamer(shots).get_collection(PATTERN, **given_options)


def test_parts_of_paths() -> None:
    assert parts_of("/a/./b//c/") == ["a", "b", "c"]
