"""The study of kinds of files: what is written, what is read of it, and who reads wrongly.

Law
---
1. Files that are made of a plain one are compared with it; loops run in this process.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from runs import left_behind, measured, rows_of, study_run

import multitables
import multitables_benchmark
from _multitables.benchmark.data import special_files, workloads
from _multitables.benchmark.data.special_files import (
    LATEST,
    SHAPES,
    RaggedFile,
    VersionedCopy,
    VirtualCopy,
)
from _multitables.benchmark.data.workloads import PATH
from _multitables.benchmark.loops import csr_loop, file_loop
from _multitables.benchmark.studies.files import parts
from _multitables.benchmark.studies.setting import Setting

WORKLOAD = dataclasses.replace(parts.DATASETS["zlib"].workload("zlib", 0), rows=600, chunk_rows=64)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return workloads.in_directory(WORKLOAD, str(tmp_path_factory.mktemp("plain")))


def rows(filename: str) -> np.ndarray:
    with tables.open_file(filename) as file:
        return file.get_node(PATH)[:]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_virtual_copy(plain: str, shape: str, tmp_path: Path) -> None:
    copy = VirtualCopy("copy", WORKLOAD, plain, shape, 4)
    filename = special_files.in_directory(copy, str(tmp_path))
    expected = rows(plain)
    if shape == "tiles":
        expected[:, 63::64] = 0  # which no source has
    with h5py.File(filename) as file:
        assert len(file[PATH].virtual_sources()) == 4
        np.testing.assert_array_equal(file[PATH][:], expected)
    assert special_files.in_directory(copy, str(tmp_path)) == filename
    with pytest.raises(FileExistsError, match="holds something else"):
        special_files.in_directory(dataclasses.replace(copy, n_sources=2), str(tmp_path))


def test_a_versioned_copy(plain: str, tmp_path: Path) -> None:
    filename = special_files.in_directory(VersionedCopy("copy", WORKLOAD, plain, 5), str(tmp_path))
    listed = multitables.versions(filename)
    assert list(listed) == ["r0", "r1", "r2", "r3", "r4"]
    expected = rows(plain)
    with h5py.File(filename) as file:
        found = [file[f"{LATEST}/r{number}{PATH}"][:] for number in range(5)]
    np.testing.assert_array_equal(found[-1], expected)
    assert len(listed.diff("/data", "r3", "r4")) == 1
    for older, newer in itertools.pairwise(found):
        changed = np.flatnonzero((older != newer).any(axis=1)) // WORKLOAD.chunk_rows
        assert len(set(changed.tolist())) == 1


def test_ragged_rows(tmp_path: Path) -> None:
    made = RaggedFile("ragged", 50, 4)
    filename = special_files.in_directory(made, str(tmp_path))
    with h5py.File(filename) as file, tables.open_file(filename) as array:
        values, ends = file["values"][:], file["offsets"][:]
        np.testing.assert_array_equal(np.diff(ends), made.lengths())
        assert len(values) == made.n_values
        np.testing.assert_array_equal(np.concatenate(file["sequences"][:]), values)
        np.testing.assert_array_equal(np.concatenate(array.root.vlarray[:]), values)
        assert [len(text) for text in file["texts"][:]] == made.lengths().tolist()


def told(filename: str, recipe: str, **asked: Any) -> Any:
    request = {"recipe": recipe, "filename": filename, "options": {}, "verb": "check", **asked}
    return file_loop.LOOP.answer(multitables, request)["found"]


def test_all_read_the_same_selections(plain: str) -> None:
    for options in ({"rows": [3, 500, 7]}, {"inner": [[4, 9]]}):
        ours = {"path": PATH, "n_procs": 1, "shuffle": "", "options": options}
        theirs = told(plain, "h5py", paths=[PATH], options=options)
        assert told(plain, "multitables", **ours) == theirs
    assert theirs["rows"] == 600


@pytest.mark.parametrize("level", [0, 4])
def test_batches_of_a_sparse_matrix(level: int, tmp_path: Path) -> None:
    made = special_files.SparseFile("sparse", 700, level)
    filename = special_files.in_directory(made, str(tmp_path))
    asked = {"filename": filename, "n_procs": 1, "verb": "check"}

    def found(recipe: str, shuffle: str = "") -> Any:
        request = {**asked, "recipe": recipe, "shuffle": shuffle}
        answer = csr_loop.LOOP.answer(multitables, request)
        return {**answer["found"], "in_order": ""} if "found" in answer else answer

    with h5py.File(filename) as file:
        assert found("h5py")["rows"] == len(file["X/data"])
    for shuffle in ("chunks", "window"):
        assert found("multitables", shuffle) == found("h5py")
    for other in ("scdataset", "annbatch"):
        if not importlib.util.find_spec(other):
            assert other in found(other)["missing"]


def test_the_second_pass_is_timed(plain: str) -> None:
    found = told(plain, "h5py", paths=[PATH], verb="time")
    seconds, n_bytes = found["seconds"], found["n_bytes"]
    assert seconds > 0
    assert n_bytes == WORKLOAD.decoded_bytes


def test_smoke_of_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["files", "--smoke", "--part", "selected"]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert "zlib 3, every fourth row" in out
    assert "FAILED" not in out
    kept = rows_of("files")
    assert {row["part"] for row in kept} == {"selected"}
    assert {row["unit"] for row in kept} == {"MB/s"}
    assert left_behind(tmp_path) == []


def test_wrong_rows_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = parts.ours
    monkeypatch.setattr(parts, "ours", lambda *of, **more: right(*of, **more, rows=(0, 300)))
    setting = Setting(str(tmp_path), 1, 0, ("zlib",), (1,))
    whole, _odd, tiles = parts.virtual(setting)
    run = measured(study_run(tmp_path, whole, tiles))
    # beside tiles the plain file is only timed
    assert [row["contender"] for row in run.results.rows] == ["h5py", parts.PLAIN, "h5py"]
    assert ["300 rows instead of 2048" in one["fault"] for one in run.faults] == [True] * 3
    assert {one.verdict for one in run.targets} == {"not measured"}


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    assert (parts.MIN_OF_PLAIN, parts.MIN_OF_H5PY, parts.MIN_RAGGED) == (0.8, 5, 0.8)
    assert pytest.approx(0.9, abs=0.01) == parts.MIN_OF_UNVERSIONED  # 1.1 times the time
