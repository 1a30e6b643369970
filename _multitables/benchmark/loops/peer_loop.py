"""The loops in which other libraries are checked and timed, as a child of its own.

Law
---
1. A recipe opens everything when it is entered, and gives all rows in order, as arrays. What is
   checked and timed of it is the same for all; the clock starts when it is open.
2. Each is written as its library documents it for the fastest reading; `n_procs` are its threads
   or processes, and it is given no more.
3. A library that is not there, or cannot read this, is an answer and no failure.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from . import passes, stream_loop
from .refusals import CannotReadError
from .shell import Loop, opening

Slabs = Iterator[Any]
Recipe = Callable[[dict[str, Any]], AbstractContextManager[Slabs]]


def _slices(asked: dict[str, Any]) -> Iterator[slice]:
    for start in range(0, asked["rows"], asked["slab_rows"]):
        yield slice(start, min(start + asked["slab_rows"], asked["rows"]))


def _one_by_one(read: Callable[[slice], Any], asked: dict[str, Any]) -> Slabs:
    """The slabs that `read` gives; threads have been started, and codecs loaded."""
    read(slice(0, 2))  # of one row hidefix makes an array with an axis less
    return map(read, _slices(asked))


def _room(asked: dict[str, Any], array: Any, dtype: Any) -> Any:
    """Memory for a slab of `array`, touched: to be used again and again."""
    return np.full((asked["slab_rows"], *array.shape[1:]), 0, dtype)


def _named(asked: dict[str, Any]) -> tuple[str, str | None]:
    """The dataset's name, and its group; None for the root."""
    group, _, name = asked["path"].rpartition("/")
    return name, group or None


@contextlib.contextmanager
def h5py(asked: dict[str, Any]) -> Iterator[Slabs]:
    """`read_direct`, into one array."""
    dataset = _h5py_dataset(asked)
    room = _room(asked, dataset, dataset.dtype)

    def read(rows: slice) -> Any:
        slab = room[: rows.stop - rows.start]
        dataset.read_direct(slab, rows)
        return slab

    yield _one_by_one(read, asked)


@contextlib.contextmanager
def hidefix(asked: dict[str, Any]) -> Iterator[Slabs]:
    """Indexing: a pool of threads reads and decodes the chunks, into a new array."""
    os.environ["RAYON_NUM_THREADS"] = str(asked["n_procs"])  # the pool is made when it is needed
    library = importlib.import_module("hidefix")
    try:
        dataset = library.Index(asked["filename"]).dataset(*_named(asked))
    except RuntimeError as error:  # a backtrace may stand behind the first line
        first_line = str(error).partition("\n")[0]
        raise CannotReadError(f"{first_line} (it knows shuffle and deflate)") from error
    yield _one_by_one(lambda rows: dataset[(rows,)], asked)


@contextlib.contextmanager
def pyfive(asked: dict[str, Any]) -> Iterator[Slabs]:
    """Indexing, into a new array: threads fetch the chunks, and one decodes them."""
    library = importlib.import_module("pyfive")
    n = asked["n_procs"]
    with library.File(asked["filename"]) as file:
        dataset = file[asked["path"]]
        dataset.id.set_parallelism(thread_count=n if n > 1 else 0)
        yield _one_by_one(dataset.__getitem__, asked)


def _xarray(engine: str, module: str) -> Recipe:
    """Indexing a variable of the file, without a cache and without decoding what units mean."""

    @contextlib.contextmanager
    def recipe(asked: dict[str, Any]) -> Iterator[Slabs]:
        os.environ["RAYON_NUM_THREADS"] = str(asked["n_procs"])  # of hidefix
        importlib.import_module(module)
        library = importlib.import_module("xarray")
        more = {}
        if engine == "h5netcdf":
            _h5py_dataset(asked).file.close()  # all filters are there
            more["phony_dims"] = "access"  # axes have no names
        name, group = _named(asked)
        how = {"engine": engine, "group": group, "decode_cf": False, "cache": False}
        with library.open_dataset(asked["filename"], **how, **more) as opened:
            if name not in opened:
                raise CannotReadError(f"its engine {engine} shows no {name!r}")
            variable = opened[name].variable
            yield _one_by_one(lambda rows: variable[rows].to_numpy(), asked)

    return recipe


def _zarr_slabs(library: Any, asked: dict[str, Any]) -> Slabs:
    """`get_basic_selection(out=...)`, into one array."""
    as_buffer = importlib.import_module("zarr.buffer.cpu").NDBuffer.from_numpy_array
    array = library.open_array(asked["zarr"], mode="r", zarr_format=2)
    room = _room(asked, array, array.dtype)

    def read(rows: slice) -> Any:
        slab = room[: rows.stop - rows.start]
        array.get_basic_selection(rows, out=as_buffer(slab))
        return slab

    return _one_by_one(read, asked)


@contextlib.contextmanager
def zarr(asked: dict[str, Any]) -> Iterator[Slabs]:
    """A pool of threads reads and decodes the chunks, by the fused pipeline where there is one."""
    library = importlib.import_module("zarr")
    n = asked["n_procs"]
    in_flight = max(n, library.config.get("async.concurrency"))
    how = {"threading.max_workers": n, "async.concurrency": in_flight}
    pipelines = importlib.import_module("zarr.core.codec_pipeline")
    if hasattr(pipelines, "FusedCodecPipeline"):
        how["codec_pipeline.path"] = f"{pipelines.__name__}.FusedCodecPipeline"
        how["codec_pipeline.max_workers"] = n
    importlib.import_module("numcodecs.blosc").set_nthreads(n)
    with library.config.set(how):
        yield _zarr_slabs(library, asked)


@contextlib.contextmanager
def zarrs(asked: dict[str, Any]) -> Iterator[Slabs]:
    """Threads of Rust read and decode the chunks, and no chunk goes by zarr-python's pipeline."""
    own = importlib.import_module("zarrs.pipeline")
    library = importlib.import_module("zarr")
    n = asked["n_procs"]
    how = {"path": "zarrs.ZarrsCodecPipeline", "strict": True, "chunk_concurrent_maximum": n}
    with library.config.set({"threading.max_workers": n, "codec_pipeline": how}):
        try:
            slabs = _zarr_slabs(library, asked)
        except own.UnsupportedMetadataError as error:
            raise CannotReadError(f"zarrs does not know this copy: {error.__cause__}") from error
        yield slabs


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
    dataset = library.File(asked["filename"], "r")[asked["path"]]
    created = dataset.id.get_create_plist()
    for number in range(created.get_nfilters()):
        filter_id = created.get_filter(number)[0]
        if not library.h5z.filter_avail(filter_id):
            raise CannotReadError(f"h5py has no filter {filter_id}: pip install hdf5plugin")
    return dataset


@contextlib.contextmanager
def data_loader(asked: dict[str, Any]) -> Iterator[Slabs]:
    """A DataLoader of slabs in the order of the file, each read with h5py; its workers stay."""
    _h5py_dataset(asked).file.close()  # all filters are there, and workers inherit h5py
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
RECIPES: dict[str, Recipe] = {
    "h5py": h5py,
    "hidefix": hidefix,
    "pyfive": pyfive,
    "xarray-h5netcdf": _xarray("h5netcdf", "h5netcdf"),
    "xarray-netcdf4": _xarray("netcdf4", "netCDF4"),
    "xarray-hidefix": _xarray("hidefix", "hidefix.xarray"),
    "zarr": zarr,
    "zarrs": zarrs,
    "tensorstore": tensorstore,
    "DataLoader": data_loader,
}


def check(slabs: Slabs, _asked: Any) -> dict[str, Any]:
    """The digest of a pass."""
    return stream_loop.digest_of(slabs)


def timed(slabs: Slabs, _asked: Any) -> dict[str, Any]:
    """The result of `passes.timed` for a pass."""
    return passes.timed(slabs)


LOOP = Loop(opening(RECIPES, {"check": check, "time": timed}), library="")
