"""Small files as other programs lay them out: what the how-to of formats reads, and tests.

Law
---
1. h5py and PyTables write what netCDF4, AnnData, Cell Ranger, Keras, MATLAB, PyNWB and pandas would
   write; `tests/conformance/test_file_formats.py` writes with these where they are installed.
2. What is in a file follows from its name, so that examples can print.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tables

Where = str | Path


def ends_of(lengths: np.ndarray) -> np.ndarray:
    """Where rows of some lengths begin and end."""
    return np.concatenate([[0], np.cumsum(lengths)])


def write_weather(path: Where) -> None:
    """NetCDF-4: packed temperatures (time, lat, lon), with one that is missing."""
    with h5py.File(path, "w", track_order=True) as file:
        for number, (name, length) in enumerate({"time": 48, "lat": 5, "lon": 8}.items()):
            scale = file.create_dataset(name, data=np.arange(length, dtype="f8"))
            scale.make_scale(name)
            scale.attrs["_Netcdf4Dimid"] = np.int32(number)
        packed = np.arange(48 * 40, dtype="i2").reshape(48, 5, 8)
        packed[3, 2, 1] = -999
        made = file.create_dataset("t2m", data=packed, chunks=(12, 5, 8), compression="gzip")
        made.attrs.update(scale_factor=0.01, add_offset=273.15, _FillValue=np.int16(-999))
        for axis, name in enumerate(("time", "lat", "lon")):
            made.dims[axis].attach_scale(file[name])


def write_anndata(path: Where) -> None:
    """AnnData: 300 cells of 50 genes, sparse in X and dense in a layer, with columns of obs."""
    lengths = np.arange(300) % 4
    n_stored = int(lengths.sum())
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        file["X/data"] = np.arange(n_stored, dtype="f4")
        file["X/indices"] = (np.arange(n_stored) * 7 % 50).astype("i4")
        file["X/indptr"] = ends_of(lengths).astype("i4")
        file["X"].attrs.update({"encoding-type": "csr_matrix", "shape": np.array([300, 50])})
        file["layers/counts"] = np.arange(300 * 50, dtype="f4").reshape(300, 50)
        file["obs/n_genes"] = lengths
        file["obs/cell_type/codes"] = (np.arange(300) % 3).astype("i1")
        file["obs/cell_type/categories"] = ["B", "NK", "T"]
        file["var/_index"] = [f"gene {number}" for number in range(50)]


def write_10x(path: Where) -> None:
    """Cell Ranger: a matrix of 30 genes by 100 barcodes, by columns."""
    lengths = np.arange(100) % 3
    with h5py.File(path, "w") as file:
        matrix = file.create_group("matrix")
        matrix["data"] = np.arange(lengths.sum(), dtype="i4")
        matrix["indices"] = np.arange(lengths.sum(), dtype="i8") * 7 % 30
        matrix["indptr"] = ends_of(lengths).astype("i8")
        matrix["shape"] = np.array([30, 100], "i4")
        matrix["barcodes"] = np.array([b"AC%016d-1" % number for number in range(100)])
        matrix["features/name"] = np.array([b"GENE%d" % number for number in range(30)])


def write_keras(path: Where) -> None:
    """Keras 3: the weights of two dense layers."""
    with h5py.File(path, "w") as file:
        for layer, (inputs, outputs) in {"dense": (16, 8), "dense_1": (8, 2)}.items():
            kernel = np.arange(inputs * outputs, dtype="f4").reshape(inputs, outputs)
            file[f"layers/{layer}/vars/0"] = kernel
            file[f"layers/{layer}/vars/1"] = np.zeros(outputs, "f4")


def write_matlab(path: Where) -> None:
    """MATLAB 7.3: a matrix of 3 by 1000, a text, a logical value, and a sparse matrix."""
    with h5py.File(path, "w", userblock_size=512) as file:
        signal = np.arange(3000, dtype="f8").reshape(
            1000, 3
        )  # the first axis of MATLAB's is the last
        for name, data, kind in (
            ("signal", signal, "double"),
            ("title", np.array([[ord(letter)] for letter in "run 7"], "u2"), "char"),
            ("good", np.array([[1]], "u1"), "logical"),
        ):
            made = file.create_dataset(name, data=data)
            made.attrs["MATLAB_class"] = np.bytes_(kind)
        file["sparse/data"] = np.arange(1.0, 7.0)
        file["sparse/ir"] = np.array([0, 2, 1, 0, 1, 2], "u8")
        file["sparse/jc"] = np.array([0, 2, 3, 3, 6], "u8")
        file["sparse"].attrs.update(
            {"MATLAB_class": np.bytes_("double"), "MATLAB_sparse": np.uint64(3)}
        )
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")


def write_nwb(path: Where) -> None:
    """NWB: voltages of 4 channels over time, and the times of the spikes of 20 units."""
    lengths = np.arange(20) % 5
    with h5py.File(path, "w") as file:
        series = file.create_group("acquisition/ElectricalSeries")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        volts = np.arange(4000, dtype="i2").reshape(1000, 4)
        series.create_dataset("data", data=volts, chunks=(100, 4), compression="gzip")
        series["timestamps"] = np.arange(1000) / 1000
        file["units/spike_times"] = np.arange(lengths.sum()) / 100
        file["units/spike_times_index"] = np.cumsum(lengths).astype("u1")
        file["units/id"] = np.arange(20)


def write_pandas(path: Where) -> None:
    """pandas' HDFStore: a frame of two floats and a date in both formats."""
    with tables.open_file(str(path), "w") as file:
        frame = file.create_group("/", "frame")  # format="fixed"
        floats = np.arange(200.0).reshape(100, 2)
        dates = (np.arange(100)[:, None] * 86_400_000_000_000).astype("i8")
        for name, rows in (
            ("axis1", np.arange(100)),
            ("block0_items", np.array([b"high", b"low"])),
            ("block0_values", floats),
            ("block1_values", dates),
        ):
            file.create_array(frame, name, rows)
        table = np.zeros(100, [("index", "i8"), ("values_block_0", "f8", (2,)), ("day", "i8")])
        table["index"], table["values_block_0"], table["day"] = np.arange(100), floats, dates[:, 0]
        parent = file.create_group("/", "log")  # format="table"
        file.create_table(parent, "table", table, filters=tables.Filters(5, "blosc"))


#: Name of a file, and what writes it.
FILES: dict[str, Callable[[Any], None]] = {
    "weather.nc": write_weather,
    "cells.h5ad": write_anndata,
    "filtered.h5": write_10x,
    "model.weights.h5": write_keras,
    "run.mat": write_matlab,
    "session.nwb": write_nwb,
    "frames.h5": write_pandas,
}
