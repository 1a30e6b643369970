"""The study of loaders: its files, who loads which samples, and the run.

Law
---
1. What each contender loads is compared with the project's class over h5py.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import left_behind, rows_of

import multitables
import multitables_benchmark
from _multitables.benchmark.contenders import loader_contenders
from _multitables.benchmark.contenders.loader_contenders import BY_NUMBER, PEER, UNIT
from _multitables.benchmark.contract import differs
from _multitables.benchmark.data import structures
from _multitables.benchmark.data.loader_files import SMALL_BYTES, WRITERS, LoaderFile
from _multitables.benchmark.loops import loader_loop
from _multitables.benchmark.loops.loader_classes import PROJECTS
from _multitables.benchmark.loops.loader_recipes import RECIPES
from _multitables.benchmark.studies.loaders import parts

N_FILES = {shape: min(2, one.n_files) for shape, one in parts.SHAPES.items()}
#: What reads formats of its own, and its module.
OTHERS = {"lance": "lance", "webdataset": "webdataset", "mosaic": "streaming"}


def request(shape: str, directory: Path, **more: Any) -> dict[str, Any]:
    files = [
        structures.in_directory(LoaderFile(shape, number, 2**17, level=1), str(directory))
        for number in range(N_FILES[shape])
    ]
    asked = {"shape": shape, "files": files, "workers": 0, "n_procs": 1, "seconds": 0.01}
    asked |= {"objects": [], "store": {}}
    return {**asked, "batch": 3, "checked": 4, "verb": "check", **more}


def found(asked: dict[str, Any], recipe: str) -> Any:
    answer = loader_loop.LOOP.answer(multitables, {**asked, "recipe": recipe})
    if "found" in answer:
        return {name: one for name, one in answer["found"].items() if name != "in_order"}
    return answer


@pytest.mark.parametrize("shape", PROJECTS)
def test_all_load_the_same_samples(shape: str, tmp_path: Path) -> None:
    asked = request(shape, tmp_path)
    right = found(asked, "h5py")
    assert right["rows"] == 4
    assert found(asked, "open") == right
    for recipe in RECIPES[shape].keys() - {"rows"}:
        answer = found(asked, recipe)
        if "missing" in answer:
            assert not importlib.util.find_spec(OTHERS[recipe])
        elif "absent" in answer:
            assert "this release" in answer["absent"]
            assert not hasattr(multitables, "Patches")
        else:
            assert answer == right, recipe


def test_patches_are_compared_in_any_order(tmp_path: Path) -> None:
    files = [
        structures.in_directory(LoaderFile("patches", number, SMALL_BYTES, level=1), str(tmp_path))
        for number in range(2)
    ]
    checks = {
        one.name: one.check()
        for one in loader_contenders.everybody("patches", files, 0.01)
        if one.name in (PEER, UNIT, BY_NUMBER)
    }
    assert len(checks) == 3
    assert all(one is not None and not differs(one, checks[PEER]) for one in checks.values())


def test_what_is_timed(tmp_path: Path) -> None:
    asked = request("molecules", tmp_path, verb="time", seconds=60)
    made = PROJECTS["molecules"](multitables.open, asked["files"])
    timed = found(asked, "h5py")
    assert timed["n"] == len(made)
    assert found(asked, "unit")["n_bytes"] == timed["n_bytes"]
    assert timed["n_bytes"] == sum(
        one.nbytes for number in range(len(made)) for one in made[number].values()
    )


def test_files_of_a_shape_differ(tmp_path: Path) -> None:
    asked = request("waves", tmp_path)
    first, second = (multitables.open(one)["H1/strain"][:100] for one in asked["files"])
    assert not np.array_equal(first, second)


def test_samples_of_different_lengths_come_one_by_one() -> None:
    made = loader_loop.together([{"x": np.arange(3)}, {"x": np.arange(2)}])
    assert loader_loop.size_of(made) == 2
    assert [one.shape[1] for one in loader_loop.samples(made)] == [24, 16]
    equal = loader_loop.together([{"x": np.arange(3)}, {"x": np.arange(3)}])
    assert equal["x"].shape == (2, 3)


def test_each_shape_is_somewhere() -> None:
    tables: list[Mapping[str, object]] = [WRITERS, RECIPES, loader_contenders.UNITS, parts.SHAPES]
    assert {frozenset(one) for one in tables} == {frozenset(PROJECTS)}
    for shape, names in loader_contenders.UNITS.items():
        assert sorted(names.values()) == sorted(RECIPES[shape])


def test_smoke_of_loaders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["loaders", "--smoke", "--part", "robots"]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert f"gzip 1: {UNIT} / " in out
    assert ">= 8.57x" in out
    assert "FAILED" not in out
    kept = {row["contender"] for row in rows_of("loaders")}
    assert {UNIT, "h5py", "multitables.open"} <= kept
    assert left_behind(tmp_path) == []
