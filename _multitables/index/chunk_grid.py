"""The chunk grid: each stored chunk has its row-major number in it.

Law
---
1. A chunk record that cannot be true is refused, with its address: with two chunks at one place, or
   one outside the grid, a stream would deliver rows from elsewhere.

Pure: this file must never ask an HDF5 library.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from _multitables.errors import UnsupportedDatasetError
from _multitables.index import hdf5_errors

#: Chunks are numbered in 64 bits.
MAX_GRID = 2**63

U64 = npt.NDArray[np.uint64]


def grid_of(dims: tuple[int, ...], chunk_dims: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks along each axis."""
    return tuple(-(-dim // chunk) for dim, chunk in zip(dims, chunk_dims, strict=True))


def grid_numbers(
    filename: str,
    path: str,
    dims: tuple[int, ...],
    chunk_dims: tuple[int, ...],
    records: U64,
) -> tuple[U64, npt.NDArray[np.intp]]:
    """Return the row-major numbers of `hdf5_metadata.chunk_records`, and the order that sorts them.

    Raises
    ------
    UnsupportedDatasetError
        The grid has more chunks than there are numbers.
    FileOpenError
        A record is outside the grid, between two of its places, or at the place of another.
    """
    offsets, grid = records[:, :-3], grid_of(dims, chunk_dims)
    if math.prod(grid) > MAX_GRID:
        raise UnsupportedDatasetError(
            f"{path!r} in {filename!r} has a grid of {math.prod(grid)} chunks "
            f"(expected at most {MAX_GRID})",
            advice="Read parts of it with h5py",
            path=path,
            filename=filename,
        )
    places, between = np.divmod(offsets, np.array(chunk_dims, np.uint64))
    outside = (places >= np.array(grid, np.uint64)).any(axis=1)
    number = np.zeros(len(records), np.uint64)
    for axis, extent in enumerate(grid):
        number = number * np.uint64(extent) + places[:, axis]
    order = np.argsort(number, kind="stable")
    again = np.zeros(len(records), np.bool_)
    again[order[1:]] = np.diff(number[order]) == 0
    checks = {
        f"lies outside the shape {dims}": outside,
        f"does not begin at a multiple of the chunk's dims {chunk_dims}": between.any(axis=1),
        "is listed twice": again,
    }
    for what, wrong in checks.items():
        for record in records[wrong][:1].tolist():
            raise hdf5_errors.damaged_index(filename, path, record, what)
    return number, order
