"""A file that is kept between two uses is what the file is now.

Law
---
1. Others may write meanwhile. What changed, or is being written, is seen at the next use.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

import multitables
from _multitables.index.joined.kept_source import KeptSource


@pytest.fixture
def linked(h5: Path) -> Path:
    with h5py.File(h5.with_name("other.h5"), "w") as file:
        file["y"] = np.arange(5)
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(3)
        file["out"] = h5py.ExternalLink("other.h5", "/y")
    return h5


def test_what_was_read_is_kept(linked: Path) -> None:
    kept = KeptSource(linked, {}, keeps=True)
    with kept.open() as first:
        assert first.index("/x").n_rows == 3
        with kept.open() as meanwhile:
            assert meanwhile is not first
    with kept.open() as second:
        assert second.index("/out").n_rows == 5
    kept.close()
    with kept.open() as third:
        assert third not in (first, second)


@pytest.mark.parametrize("name", ["data.h5", "other.h5"])
def test_a_file_that_changed(linked: Path, name: str) -> None:
    kept = KeptSource(linked, {}, keeps=True)
    with kept.open() as source:
        source.index("/x")
        source.index("/out")
    with h5py.File(linked.with_name(name), "a") as file:  # no lock keeps others from it
        for path in ("x", "y"):
            if path in file:
                del file[path]
                file[path] = np.arange(4000)
    with kept.open() as source:
        assert source.index("/x" if name == "data.h5" else "/out").n_rows == 4000
    kept.close()


def test_a_file_that_is_being_written(linked: Path) -> None:
    with multitables.Reader(linked, n_procs=1) as reader:
        reader.get_dataset("/x")
        writing = pytest.raises(multitables.FileOpenError, match="open for writing")
        with h5py.File(linked, "a"), writing:
            reader.get_dataset("/x")
        os.remove(linked)
        with pytest.raises(multitables.MissingFileError):
            reader.get_dataset("/x")
