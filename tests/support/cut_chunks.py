"""Chunks at the edge of a dataset as some writers store them: what the extent has, and no more.

Law
---
1. HDF5 reads them, as it asks for no element outside of the extent.
"""

from __future__ import annotations

import itertools
from typing import Any

import h5py
import numpy as np
from h5py import h5s


def cut_edges(made: h5py.Dataset, **options: Any) -> None:
    """Store the edge chunks anew, cut behind their last element in the extent.

    `options` are those of the dataset's filters.
    """
    kind, chunks = made.id.get_type(), made.chunks
    data = np.zeros((*made.shape, kind.get_size()), np.uint8)
    made.id.read(h5s.ALL, h5s.ALL, data, kind)
    steps = [range(0, dim, chunk) for dim, chunk in zip(made.shape, chunks, strict=True)]
    with h5py.File("twin", "w", driver="core", backing_store=False) as twin:
        for number, at in enumerate(itertools.product(*steps)):
            part = data[tuple(slice(a, a + n) for a, n in zip(at, chunks, strict=True))]
            whole = np.zeros((*chunks, data.shape[-1]), np.uint8)
            whole[tuple(map(slice, part.shape))] = part
            last = int(np.ravel_multi_index([n - 1 for n in part.shape[:-1]], chunks))
            cut = np.ascontiguousarray(whole.reshape(-1, data.shape[-1])[: last + 1])
            shape = (len(cut),)
            chunk = twin.create_dataset(f"{number}", shape, made.dtype, chunks=shape, **options)
            chunk.id.write(h5s.ALL, h5s.ALL, cut, kind)
            mask, stored = chunk.id.read_direct_chunk((0,))
            made.id.write_direct_chunk(at, bytes(stored), filter_mask=mask)
