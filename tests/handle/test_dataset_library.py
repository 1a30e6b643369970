"""Datasets that the core does not read: a library does, in a process of its own.

Law
---
1. The oracle is h5py on the same file.
"""

from __future__ import annotations

import gc
import operator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import handle_datasets
import hdf5plugin
import numpy as np
import pytest
from elements import smooth
from handle_oracle import FAILED, Both, tried
from processes import children

import multitables


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Datasets that the core does not read."""
    path = tmp_path / "foreign.h5"
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["short"] = smooth((40, 6)).astype("<i2")
        texts = [f"é{number}" * number for number in range(12)]
        file.create_dataset("texts", data=texts, dtype=h5py.string_dtype())
        lists = file.create_dataset("lists", shape=(3, 2), dtype=h5py.vlen_dtype("<i2"))
        for row in range(3):
            lists[row, 1] = np.arange(row)
        file["rows"] = np.zeros(10, [("a", "<i4"), ("t", "S3"), ("b", "<f8", (2,))])
        file["rows"][...] = [(n, b"abc", (n, -n)) for n in range(10)]
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((40, 6), "<i4")
        layout[:30] = h5py.VirtualSource("source.h5", "short", (40, 6))[10:]
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)
        rows = h5py.VirtualSource(
            "source.h5", "rows", (10,), dtype=h5py.File(tmp_path / "source.h5")["rows"].dtype
        )
        layout = h5py.VirtualLayout((12,), rows.dtype)
        layout[:10] = rows
        file.create_virtual_dataset("rows", layout)
        for name, shape, kind in (
            ("texts", (12,), h5py.string_dtype()), ("lists", (3, 2), h5py.vlen_dtype("<i2")),
        ):  # fmt: skip
            layout = h5py.VirtualLayout(shape, kind)
            layout[...] = h5py.VirtualSource("source.h5", name, shape, dtype=kind)
            file.create_virtual_dataset(name, layout)
        file.create_dataset(
            "outside", data=smooth((20, 3)), external=[(str(tmp_path / "raw"), 0, 240)]
        )
        file.create_dataset(
            "zfp", data=smooth((64, 8), "<f4"), chunks=(16, 8), **hdf5plugin.Zfp(reversible=True)
        )
    return path


def test_what_only_a_library_reads(foreign: Path) -> None:
    keys: dict[str, list[Any]] = {
        "virtual": [(), 0, slice(5, 35, 3), [1, 33, 2], np.s_[25:, 2], np.s_[3:3],
                    np.s_[::-1, [0, 1]]],
        "rows": ["a", ("b", 3), ("a", "t"), ["t"], slice(8, 12), ("b", slice(1, 4)), 0],
        "texts": [(), 3, [5, 1], slice(2, 9, 3)],
        "lists": [(), 2, (1, 1), np.s_[:, 0]],
        "outside": [(), np.s_[3:17:2, 1], 5],
        "zfp": [(), 7, [3, 60], np.s_[::5, 3]],
    }  # fmt: skip
    with Both(foreign) as both:
        for name, indexes in keys.items():
            theirs = both.theirs[name]
            for key in indexes:
                want = tried(partial(operator.getitem, theirs, key))
                if want is FAILED:
                    want = handle_datasets.numpys(theirs, key)
                both.same(both.ours[name][key], want)
            assert len(list(both.ours[name])) == len(theirs)
        assert len(children()) == 1
        kept = both.ours["virtual"]
        assert kept.is_virtual
        assert both.ours["outside"].external == both.theirs["outside"].external
    assert not children()  # though there are objects of the file
    del both, kept
    gc.collect()


def test_a_virtual_dataset_that_grew(tmp_path: Path) -> None:
    """It is as long as its source is now; the file says how long that was."""
    path, shape = tmp_path / "grown.h5", (10, 4)
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file.create_dataset("x", data=smooth(shape), maxshape=(None, 4), chunks=(2, 4))
    with h5py.File(path, "w", libver="latest") as file:
        source = h5py.VirtualSource("source.h5", "x", shape, maxshape=(None, 4))
        layout = h5py.VirtualLayout((5, 4), "<i4", maxshape=(None, 4))
        layout[0 : h5py.h5s.UNLIMITED] = source[0 : h5py.h5s.UNLIMITED]
        file.create_virtual_dataset("x", layout)
    with Both(path) as both:
        both.dataset(both.ours["x"], both.theirs["x"])
        assert both.ours["x"].shape == shape
    del both
    gc.collect()


def test_no_library_reads_what_is_not_trusted(foreign: Path) -> None:
    with multitables.open(foreign, trusted=False) as file:
        assert file["rows"][0].dtype == file["rows"].dtype
        np.testing.assert_array_equal(file["outside"][0], file["outside"][:][0])
        for name in ("virtual", "zfp", "texts"):
            assert file[name].shape
            with pytest.raises(multitables.UnsupportedDatasetError, match="trusted=False"):
                file[name][0]
            with pytest.raises(multitables.UnsupportedDatasetError):
                file[name].stream()
    assert not children()


def test_what_a_library_lacks_is_named(foreign: Path) -> None:
    (foreign.parent / "raw").unlink()
    with multitables.open(foreign) as file, pytest.raises(FileNotFoundError, match="raw"):
        file["outside"][0]
    del file
    gc.collect()
