"""A careful look before a second try: chunks are read one by one, and each is named before.

Law
---
1. A reader takes this look at a task of which another died: if it dies too, the parent finds the
   chunk's name.
2. What is read is thrown away, and an exception with it: the task itself comes afterwards.
3. A chunk's name is its row-major number in the dataset's chunk grid + 1.

This file must never know why a reader died.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Sequence
from typing import Any


def name_chunks(dataset: Any, hull: Sequence[tuple[int, int]], mark: memoryview) -> None:
    """Read the chunks of a dataset that lie in a hull, each with its name in `mark`.

    Parameters
    ----------
    dataset : h5py.Dataset or tables.Leaf
        One that is not chunked is left alone.
    hull : sequence of (int, int)
        Begin and end along the first dimensions; all of the others.
    mark : memoryview
        Eight bytes; 0 at the end.
    """
    found = getattr(dataset, "chunks", None) or getattr(dataset, "chunkshape", None)
    if not found:
        return
    chunk = [int(extent) for extent in found]  # PyTables' are NumPy's numbers
    shape = [int(length) for length in dataset.shape]
    counts = [-(-length // extent) for length, extent in zip(shape, chunk, strict=True)]
    bounds = [*hull, *((0, length) for length in shape[len(hull) :])]
    along = [
        range(begin // extent, min(-(-end // extent), count)) if begin < end else range(0)
        for (begin, end), extent, count in zip(bounds, chunk, counts, strict=False)
    ]
    for place in itertools.product(*along):
        number = 0
        for at, count in zip(place, counts, strict=True):
            number = number * count + at
        _write(mark, number + 1)
        key = tuple(
            slice(at * extent, min((at + 1) * extent, length))
            for at, extent, length in zip(place, chunk, shape, strict=True)
        )
        with contextlib.suppress(Exception):
            dataset[key if len(key) > 1 else key[0]]
    _write(mark, 0)


def _write(mark: memoryview, number: int) -> None:
    mark[:] = number.to_bytes(8, sys.byteorder)
