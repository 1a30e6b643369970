"""The loops in which batches of a sparse matrix by rows are read and timed, as a child of its own.

Law
---
1. A recipe yields batches in random order, as values and their columns; all rows come once.
2. Each is used as its documentation advises for files on disk: runs of rows that lie together are
   shuffled (16 rows with scDataset, 512 with annbatch), and many batches are fetched at once.
   annbatch reads no HDF5, and gets the same matrix in zarr, written before the clock starts.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from . import passes, stream_loop
from .shell import Loop, opening

BATCH_ROWS = 256
#: Of scDataset: rows that are shuffled as one, and batches that are fetched at once.
RUN_ROWS = 16
BATCHES_AT_ONCE = 64
Pair = tuple[Any, Any]
Pass = Callable[[], Iterator[Pair]]


@contextlib.contextmanager
def _ours(library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    matrix = library.Ragged("/X/data", "/X/indptr", indices="/X/indices")
    options = {"shuffle": asked["shuffle"], "n_procs": asked["n_procs"]}
    with library.Streamer(asked["filename"]) as streamer:

        def batches() -> Iterator[Pair]:
            with streamer.get_batches(matrix, BATCH_ROWS, **options) as found:
                yield from ((batch.values, batch.indices) for batch in found)

        yield batches


@contextlib.contextmanager
def _h5py(_library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    """Not in random order, which nobody does with h5py alone: what is right."""
    h5py = importlib.import_module("h5py")

    def batches() -> Iterator[Pair]:
        with h5py.File(asked["filename"]) as file:
            ends = [*file["X/indptr"][::BATCH_ROWS].tolist(), len(file["X/data"])]
            for begin, end in itertools.pairwise(ends):
                yield file["X/data"][begin:end], file["X/indices"][begin:end]

    yield batches


class _Rows:
    """AnnData's view of the matrix in the file, with a length, as scDataset asks for."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        return self._matrix[rows]


@contextlib.contextmanager
def _scdataset(_library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    scdataset, anndata = map(importlib.import_module, ("scdataset", "anndata.io"))
    h5py = importlib.import_module("h5py")
    with h5py.File(asked["filename"]) as file:
        found = scdataset.scDataset(
            _Rows(anndata.sparse_dataset(file["X"])),
            scdataset.BlockShuffling(block_size=RUN_ROWS),
            batch_size=BATCH_ROWS,
            fetch_factor=BATCHES_AT_ONCE,
        )
        yield lambda: ((batch.data, batch.indices) for batch in found)


@contextlib.contextmanager
def _annbatch(_library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    annbatch, anndata = map(importlib.import_module, ("annbatch", "anndata.io"))
    zarr = importlib.import_module("zarr")
    with contextlib.suppress(ImportError):
        importlib.import_module("zarrs")  # which annbatch advises, as it is faster
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    copy = f"{asked['filename']}.zarr"
    if not os.path.exists(copy):
        h5py = importlib.import_module("h5py")
        with h5py.File(asked["filename"]) as file:
            matrix = anndata.sparse_dataset(file["X"]).to_memory()
        anndata.write_elem(zarr.open_group(copy, mode="w", zarr_format=3), "X", matrix)

    def batches() -> Iterator[Pair]:
        loader = annbatch.Loader(batch_size=BATCH_ROWS, shuffle=True)
        loader.add_dataset(anndata.sparse_dataset(zarr.open_group(copy, mode="r")["X"]))
        yield from ((batch["X"].data, batch["X"].indices) for batch in loader)

    yield batches


RECIPES: dict[str, Callable[[Any, dict[str, Any]], AbstractContextManager[Pass]]] = {
    "multitables": _ours,
    "h5py": _h5py,
    "scdataset": _scdataset,
    "annbatch": _annbatch,
}


def together(values: Any, columns: Any) -> Any:
    """Rows of a value's bits and its column, which is what is compared."""
    bits = np.ascontiguousarray(values, "<f4").view("<i4")
    return np.stack([bits.astype(np.int64), np.asarray(columns, np.int64)], axis=1)


def check(batches: Pass, _asked: Any) -> dict[str, Any]:
    """The digest of all values and their columns."""
    return stream_loop.digest_of(together(*batch) for batch in batches())


def timed(batches: Pass, asked: Any) -> dict[str, Any]:
    """The time of a second pass, whose bytes are those of values and columns."""
    return passes.time_second(lambda: itertools.chain.from_iterable(batches()), asked)


LOOP = Loop(opening(RECIPES, {"check": check, "time": timed}))
