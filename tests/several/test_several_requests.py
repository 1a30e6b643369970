"""Requests for rows of several files, as of one dataset that has them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import MissingDatasetError, OptionsError

ROWS = [30, 0, 50]
X = np.concatenate([np.arange(n * 4).reshape(n, 4) + 10_000 * at for at, n in enumerate(ROWS)])


@pytest.fixture
def names(tmp_path: Path) -> list[Path]:
    made, begin = [], 0
    for number, n in enumerate(ROWS):
        rows = X[begin : begin + n]
        made.append(tmp_path / f"part{number}.h5")
        with h5py.File(made[-1], "w") as file:
            file.create_dataset("x", data=rows, chunks=(8, 4), maxshape=(None, 4), shuffle=True)
            table = np.rec.fromarrays([rows[:, 0], rows[:, 1] * 0.5], names="a,b")
            file.create_dataset("table", data=table)
        begin += n
    return made


@pytest.mark.parametrize("n_procs", [0, 1])
@pytest.mark.parametrize("how", ["list", "pattern", "manifest"])
def test_rows_of_all_files(names: list[Path], n_procs: int, how: str) -> None:
    source: Any = names
    if how != "list":
        source = str(names[0].parent / "part*.h5")
    if how == "manifest":
        pattern, source = source, names[0].parent / "all.mtidx"
        multitables.index_files(pattern, to=source, progress=False)
    keys = [
        slice(None),
        slice(25, 40),
        [79, 3, 29, 30, 3],
        5,
        -1,
        (slice(10, 60, 7), 2),
        np.array([0]),
    ]
    with multitables.Reader(source, n_procs) as reader:
        dataset = reader.get_dataset("x")
        assert dataset.shape == X.shape
        for key in keys:
            np.testing.assert_array_equal(reader.request(dataset[key]).get(), X[key])
        stage = dataset.create_stage(10)
        request = reader.request(dataset[28:38], stage)
        np.testing.assert_array_equal(request.get(), X[28:38])
        table: Any = reader.get_dataset("table")
        np.testing.assert_array_equal(reader.request(table[28:32]).get()["b"], X[28:32, 1] * 0.5)
        np.testing.assert_array_equal(reader.request(table["a"][[0, 79]]).get(), X[[0, 79], 0])
        clips = dataset.clips(4)  # none has rows of two files
        assert clips.shape == (27 + 47, 4, 4)
        np.testing.assert_array_equal(reader.request(clips[[26, 27]]).get(), [X[26:30], X[30:34]])


def test_refusals(names: list[Path]) -> None:
    with multitables.Reader(names, 0) as reader:
        with pytest.raises(OptionsError, match="version needs a single file"):
            reader.get_dataset("x", version="r0")
        with pytest.raises(MissingDatasetError, match="part0"):
            reader.get_dataset("nothing")
        dataset = reader.get_dataset("x")
        with h5py.File(names[2], "r+") as file:
            file["x"].resize(90, axis=0)
        os.utime(names[2])
        with pytest.raises(multitables.FileChangedError, match="part2"):
            reader.request(dataset[40:]).get()
    with pytest.raises(multitables.ClosedError, match="the Reader of 3 files"):
        reader.request(dataset[0])
