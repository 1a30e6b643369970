"""The loops in which other libraries are checked and timed, as a child of its own.

Law
---
1. A recipe opens everything when it is entered, and gives all rows in order, as arrays. What is
   checked and timed of it is the same for all; the clock starts when it is open.
2. Each is written as its library documents it for the fastest reading; `n_procs` are its threads
   or processes, and it is given no more.
3. A library that is not there, or cannot read this, is an answer and no failure.
4. It is run as a program, beside `stream_loop`: standard library, NumPy, and the recipe's library.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

if __package__:
    from _benchmark.loops import refusals, stream_loop
    from _benchmark.loops.refusals import CannotReadError
else:  # run as a program
    import refusals  # type: ignore[import-not-found,no-redef]
    import stream_loop  # type: ignore[import-not-found,no-redef]
    from refusals import CannotReadError  # type: ignore[no-redef]

Slabs = Iterator[Any]


def _slices(asked: dict[str, Any]) -> Iterator[slice]:
    for start in range(0, asked["rows"], asked["slab_rows"]):
        yield slice(start, min(start + asked["slab_rows"], asked["rows"]))


def _one_by_one(read: Callable[[slice], Any], asked: dict[str, Any]) -> Slabs:
    """The slabs that `read` gives; threads have been started with a row, and codecs loaded."""
    read(slice(0, 1))
    return map(read, _slices(asked))


def _room(asked: dict[str, Any], array: Any, dtype: Any) -> Any:
    """Memory for a slab of `array`, touched: to be used again and again."""
    return np.full((asked["slab_rows"], *array.shape[1:]), 0, dtype)


@contextlib.contextmanager
def hidefix(asked: dict[str, Any]) -> Iterator[Slabs]:
    """Indexing: a pool of threads reads and decodes the chunks, into a new array."""
    os.environ["RAYON_NUM_THREADS"] = str(asked["n_procs"])  # the pool is made when it is needed
    library = importlib.import_module("hidefix")
    group, _, name = asked["path"].rpartition("/")
    try:
        dataset = library.Index(asked["filename"]).dataset(name, group or None)
    except RuntimeError as error:  # a backtrace may stand behind the first line
        first_line = str(error).partition("\n")[0]
        raise CannotReadError(f"{first_line} (it knows shuffle and deflate)") from error
    yield _one_by_one(lambda rows: dataset[(rows,)], asked)


@contextlib.contextmanager
def zarr(asked: dict[str, Any]) -> Iterator[Slabs]:
    """`get_basic_selection(out=...)`: a pool of threads decodes the chunks, into one array."""
    library = importlib.import_module("zarr")
    as_buffer = importlib.import_module("zarr.buffer.cpu").NDBuffer.from_numpy_array
    n = asked["n_procs"]
    in_flight = max(n, library.config.get("async.concurrency"))
    with library.config.set({"threading.max_workers": n, "async.concurrency": in_flight}):
        array = library.open_array(asked["zarr"], mode="r", zarr_format=2)
        room = _room(asked, array, array.dtype)

        def read(rows: slice) -> Any:
            slab = room[: rows.stop - rows.start]
            array.get_basic_selection(rows, out=as_buffer(slab))
            return slab

        yield _one_by_one(read, asked)


@contextlib.contextmanager
def tensorstore(asked: dict[str, Any]) -> Iterator[Slabs]:
    """Writing into an array of NumPy's; no chunk is kept, so that every pass decodes."""
    library = importlib.import_module("tensorstore")
    limit = {"limit": asked["n_procs"]}
    limits = {"data_copy_concurrency": limit, "file_io_concurrency": limit}
    context = library.Context({**limits, "cache_pool": {"total_bytes_limit": 0}})
    store = {"driver": "zarr", "kvstore": {"driver": "file", "path": asked["zarr"]}}
    array = library.open(store, open=True, read=True, context=context).result()
    room = _room(asked, array, array.dtype.numpy_dtype)
    target, from_zero = library.array(room, context=context), library.d[0].translate_to[0]

    def read(rows: slice) -> Any:
        n_rows = rows.stop - rows.start
        target[:n_rows].write(array[rows][from_zero]).result()
        return room[:n_rows]

    yield _one_by_one(read, asked)


class SlabDataset:
    """A map-style dataset of slabs; each worker opens the file once.

    The slab of no number is empty: with it a worker opens the file.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._slices = list(_slices(asked))
        self._dataset: Any = None

    def __len__(self) -> int:
        return len(self._slices)

    def __getitem__(self, number: int | None) -> Any:
        if self._dataset is None:
            self._dataset = _h5py_dataset(self._asked)
        return self._dataset[slice(0) if number is None else self._slices[number]]


def _h5py_dataset(asked: dict[str, Any]) -> Any:
    library = importlib.import_module("h5py")
    with contextlib.suppress(ImportError):
        importlib.import_module("hdf5plugin")  # registers filters like blosc
    return library.File(asked["filename"], "r")[asked["path"]]


@contextlib.contextmanager
def data_loader(asked: dict[str, Any]) -> Iterator[Slabs]:
    """A DataLoader of slabs in the order of the file, each read with h5py; its workers stay."""
    importlib.import_module("h5py")  # so that workers inherit it
    library = importlib.import_module("torch.utils.data")
    dataset, n = SlabDataset(asked), asked["n_procs"]
    order: list[int | None] = [None] * n
    loader = library.DataLoader(
        dataset, sampler=order, batch_size=None, num_workers=n, persistent_workers=True
    )
    for empty in loader:  # one of each worker: it runs, and has the file open
        del empty
    order[:] = range(len(dataset))

    def slabs() -> Slabs:
        for slab in loader:
            yield slab.numpy()

    yield slabs()


#: A pass over all rows in order, as arrays; nothing is read before the first is asked for.
RECIPES: dict[str, Callable[[dict[str, Any]], AbstractContextManager[Slabs]]] = {
    "hidefix": hidefix,
    "zarr": zarr,
    "tensorstore": tensorstore,
    "DataLoader": data_loader,
}


def check(slabs: Slabs) -> dict[str, Any]:
    """The digest of a pass."""
    return stream_loop.digest_of(slabs)


def timed(slabs: Slabs) -> tuple[float, int]:
    """Seconds and bytes of a pass."""
    seen_bytes = 0
    start = time.perf_counter()
    for slab in slabs:
        seen_bytes += slab.nbytes
    return time.perf_counter() - start, seen_bytes


VERBS: dict[str, Callable[[Slabs], Any]] = {"check": check, "time": timed}


def answer(_library: Any, asked: dict[str, Any]) -> Any:
    """Do what one request of the protocol asks of a pass."""

    def ask() -> Any:
        with RECIPES[asked["recipe"]](asked) as slabs:
            return VERBS[asked["verb"]](slabs)

    return refusals.answered(asked["recipe"], ask)


if __name__ == "__main__":
    stream_loop.serve(answer)
