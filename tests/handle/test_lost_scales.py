"""Dimension scales that are deleted, or references to what is no dataset, through `dims`.

Law
---
1. The data and the other scales are as h5py has them, and the reason is said for each lost one.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import lost_scales
import numpy as np
import pytest

import multitables


@pytest.mark.parametrize("how", lost_scales.LOST)
def test_what_is_left(tmp_path: Path, how: str) -> None:
    reference, reason = lost_scales.LOST[how]
    path = lost_scales.write(tmp_path / "lost.h5", reference)
    with multitables.open(path) as file, h5py.File(path) as expected:
        for name in ("items/1/v", "items/2/w"):
            first = file[name].dims[0]
            assert (first.values(), first.keys(), first.items(), len(first)) == ([], [], [], 0)
            (why,) = first.missing
            assert isinstance(why, multitables.MissingDatasetError)
            assert reason in str(why)
            assert f"axis 0 of '/{name}'" in str(why)
            assert np.array_equal(file[name][()], expected[name][()])
        second = file["items/1/v"].dims[1]
        assert (second.keys(), second[0].name, second.missing) == (["u"], "/u", [])


def test_a_scale_of_texts_is_a_dataset(tmp_path: Path) -> None:
    path = lost_scales.write(tmp_path / "lost.h5", lost_scales.TEXTS)
    with multitables.open(path) as file:
        first = file["items/1/v"].dims[0]
        assert first.missing == []
        assert first["other"].asstr()[:].tolist() == ["a", "bé", "c"]


@pytest.mark.parametrize("listed", [np.arange(3), "scales", np.zeros((2, 2)), 1.5])
def test_a_list_that_is_no_list_of_scales(tmp_path: Path, listed: object) -> None:
    with h5py.File(tmp_path / "lost.h5", "w") as file:
        file["v"] = np.zeros((3, 4))
        file["v"].attrs["DIMENSION_LIST"] = listed
    with multitables.open(tmp_path / "lost.h5") as file:
        dims = file["v"].dims
        assert [axis.values() for axis in dims] == [[], []]
        assert all("the list of scales is" in str(why) for axis in dims for why in axis.missing)
        assert [len(axis.missing) for axis in dims] == [1, 1]


def test_a_list_of_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "lost.h5", "w") as file:
        file["v"] = np.zeros((3, 4))
        file["v"].attrs["DIMENSION_LIST"] = np.arange(2)
    with multitables.open(tmp_path / "lost.h5") as file:
        assert [len(axis.missing) for axis in file["v"].dims] == [1, 1]


def test_lists_of_fewer_axes_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        file["time"], file["v"] = np.arange(3.0), np.zeros((3, 4))
        file["time"].make_scale("time")
        one, all_axes = np.empty(1, h5py.ref_dtype), np.empty(1, object)
        one[0], all_axes[0] = file["time"].ref, one
        attrs = file["v"].attrs
        attrs.create("DIMENSION_LIST", all_axes, dtype=h5py.vlen_dtype(h5py.ref_dtype))
        attrs["DIMENSION_LABELS"] = ["rows"]
    with multitables.open(path) as file:  # HDF5 has what is listed, and may crash behind it
        dims = file["v"].dims
        assert [axis.label for axis in dims] == ["rows", ""]
        assert dims[0]["time"][:].tolist() == [0, 1, 2]
        assert (dims[1].keys(), dims[1].missing) == ([], [])


def test_a_closed_file_says_so(tmp_path: Path) -> None:
    path = lost_scales.write(tmp_path / "lost.h5", lost_scales.LOST["deleted"][0])
    file = multitables.open(path)
    dims = file["items/1/v"].dims
    assert len(dims[0].missing) == 1
    file.close()
    with pytest.raises(multitables.ClosedError):
        dims[1].values()
