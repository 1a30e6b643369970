"""Where the stored chunks of a dataset lie, whatever index HDF5 chose for them.

Law
---
1. Every index that HDF5 has, any number of dimensions, any of them unlimited: the bytes at a
   chunk's address are that chunk's, as h5py reads it.
2. A record of the index that cannot be true is refused with its address.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from indexes import index_of
from oracle import fast

import multitables

#: A filter mask that leaves out every filter.
ALL_FILTERS = 2**32 - 1
#: H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
DONT_FILTER_PARTIAL_CHUNKS = 2
#: What h5py does not wrap is asked of the libhdf5 that it is linked to.
LIBHDF5 = ctypes.CDLL(h5py.h5d.__file__)

SHAPES = {1: (7,), 2: (5, 7), 3: (3, 5, 4), 4: (3, 2, 3, 4)}
CHUNKS = {1: (2,), 2: (2, 3), 3: (2, 2, 3), 4: (2, 1, 2, 3)}
#: H5D_chunk_index_t, from 0 on
INDEXES = ("v1 B-tree", "single", "implicit", "fixed array", "extensible array", "v2 B-tree")


def cases(rank: int) -> Iterator[tuple[str, tuple[int | None, ...], bool, bool, bool]]:
    """(libver, maxshape, allocated early, filtered, partly written)."""
    for libver, limits in itertools.product(
        ("earliest", "v108", "v110", "latest"), itertools.product("=>*", repeat=rank)
    ):
        how = {"=": lambda n: n, ">": lambda n: n + 5, "*": lambda n: None}
        most = tuple(how[kind](n) for kind, n in zip(limits, SHAPES[rank], strict=True))
        for early, filtered, partly in itertools.product((False, True), repeat=3):
            if rank < 4 or early != filtered == partly:
                yield libver, most, early, filtered, partly


def write(file: Any, name: str, data: np.ndarray, case: tuple[Any, ...], chunks: Any) -> str:
    """Write one dataset; the name of its chunk index."""
    _, most, early, filtered, partly = case
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(chunks)
    if early:
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if filtered:
        plist.set_deflate(1)
    unlimited = tuple(h5py.h5s.UNLIMITED if n is None else n for n in most)
    space = h5py.h5s.create_simple(data.shape, unlimited)
    kind = h5py.h5t.py_create(data.dtype)
    made = h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, plist))
    made[int(partly) :] = data[int(partly) :]
    number = ctypes.c_int(-1)
    function = LIBHDF5.H5Dget_chunk_index_type
    function.argtypes = [ctypes.c_int64, ctypes.c_void_p]
    assert function(made.id.id, ctypes.byref(number)) >= 0
    return INDEXES[number.value]


@pytest.mark.parametrize("rank", SHAPES)
def test_the_bytes_at_an_address_are_the_chunks(h5: Path, rank: int) -> None:
    shape, chunks = SHAPES[rank], CHUNKS[rank]
    data = np.arange(1, np.prod(shape) + 1, dtype="u4").reshape(shape)
    met = set()
    for number, case in enumerate(cases(rank)):
        for dims in (chunks, shape):
            with h5py.File(h5, "w", libver=case[0]) as file:
                met.add(write(file, "x", data, case, dims))
            index = index_of(h5, "x")
            assert index.is_chunked, index.reason
            found = np.zeros(shape, "u4")
            whole = h5.read_bytes()
            columns = (index.grid_index, index.byte_offset, index.chunks["stored_size"])
            for at, begin, size in zip(*(c.tolist() for c in columns), strict=True):
                grid = tuple(-(-n // c) for n, c in zip(shape, dims, strict=True))
                first = [int(i) * c for i, c in zip(np.unravel_index(at, grid), dims, strict=True)]
                stored = whole[begin : begin + size]
                if case[3]:
                    stored = zlib.decompress(stored)
                piece = np.frombuffer(stored, "u4").reshape(dims)
                wanted = tuple(slice(a, a + c) for a, c in zip(first, dims, strict=True))
                inside = found[wanted]
                inside[...] = piece[tuple(slice(0, n) for n in inside.shape)]
            with h5py.File(h5) as file:
                np.testing.assert_array_equal(found, file["x"][()], err_msg=f"{number}: {case}")
    assert met >= {"v1 B-tree", "single", "implicit", "fixed array", "extensible array"}
    assert rank == 1 or "v2 B-tree" in met


@pytest.mark.parametrize("maxshape", [(40, None), (None, 60), (None, None), (50, None), (40, 90)])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_recordings_of_channels(h5: Path, libver: str, maxshape: Any) -> None:
    data = np.arange(40 * 60, dtype="i4").reshape(40, 60)
    options = {"chunks": (8, 7), "compression": "gzip", "shuffle": True}
    with h5py.File(h5, "w", libver=libver) as file:
        made = file.create_dataset("x", (40, 30), "i4", maxshape=maxshape, **options)
        made[...] = data[:, :30]
        made.resize((40, 60))
        made[:, 30:] = data[:, 30:]
        made.resize((33, 55))
    fast(h5, "/x", data[:33, :55])
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        rows = reader.request(dataset[::3, 50:]).get()
    np.testing.assert_array_equal(rows, data[:33:3, 50:55])


# ---- partial chunks that no filter touched --------------------------------------------------


def unfiltered_edges(file: Any, data: np.ndarray, chunks: Any, filters: str) -> Any:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(chunks)
    for name in filters.split("+"):
        getattr(plist, f"set_{name}")(*([4] if name == "deflate" else []))
    function = LIBHDF5.H5Pset_chunk_opts
    function.argtypes = [ctypes.c_int64, ctypes.c_uint]
    assert function(plist.id, DONT_FILTER_PARTIAL_CHUNKS) >= 0
    space = h5py.h5s.create_simple(data.shape, (h5py.h5s.UNLIMITED,) * data.ndim)
    kind = h5py.h5t.py_create(data.dtype)
    made = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space, plist))
    made[...] = data
    return made


@pytest.mark.parametrize("filters", ["shuffle", "deflate", "fletcher32", "shuffle+deflate"])
@pytest.mark.parametrize("shape", [(8,), (10,), (13, 9), (12, 9), (5, 7, 4)])
def test_partial_chunks_without_filters(h5: Path, filters: str, shape: tuple[int, ...]) -> None:
    data = np.arange(np.prod(shape), dtype="i4").reshape(shape) * 77777
    with h5py.File(h5, "w", libver="latest") as file:
        unfiltered_edges(file, data, (4, 3, 4)[: len(shape)], filters)
    fast(h5, "/x", data)
    with multitables.Streamer(h5).get_batches("/x", 3, shuffle=True, n_procs=1) as batches:
        rows = np.concatenate([np.array(batch) for batch in batches])
        np.testing.assert_array_equal(rows, data[batches.order(0)])
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        np.testing.assert_array_equal(reader.request(dataset[...]).get(), data)
        np.testing.assert_array_equal(reader.request(dataset[-1]).get(), data[-1])


def test_chunks_that_were_partial_once(h5: Path) -> None:
    """HDF5 filters them when they become whole, and the other way round."""
    data = np.arange(30 * 9, dtype="i4").reshape(30, 9)
    for rows, columns in ((30, 9), (27, 8), (11, 6), (1, 1)):
        with h5py.File(h5, "w", libver="latest") as file:
            made = unfiltered_edges(file, data[:10, :7], (4, 3), "shuffle+deflate")
            made.resize((30, 9))
            made[...] = data
            made.resize((rows, columns))
        fast(h5, "/x", data[:rows, :columns])
        whole = np.array([(rows // 4), (columns // 3)]).prod()
        assert (index_of(h5, "x").chunks["filter_mask"] != ALL_FILTERS).sum() == whole


# ---- records that cannot be true ------------------------------------------------------------

#: chunk_offset of one of the records, and what is said of it.
LIES = {
    "outside": ((12, 0), "a chunk that begins within the dims [10, 6]"),
    "outside in the last axis": ((0, 6), "a chunk that begins within the dims [10, 6]"),
    "far outside": ((2**64 - 4, 0), "a chunk that begins within the dims [10, 6]"),
    "between": ((5, 0), "a multiple of 4 elements"),
    "between in the last axis": ((4, 1), "a multiple of 3 elements"),
    "twice": ((0, 0), "an index of chunks that names each once"),
}


def test_more_bytes_than_any_file_has(h5: Path) -> None:
    """The dims of elements that lie together are changed: to 2**35 rows of 2**36."""
    with h5py.File(h5, "w", libver="earliest") as file:
        file["x"] = np.arange(6, dtype="<i4").reshape(2, 3)
    stored, dims = h5.read_bytes(), struct.pack("<4Q", 2, 3, 2, 3)  # and the greatest ones
    assert stored.count(dims) == 1
    h5.write_bytes(stored.replace(dims, struct.pack("<4Q", 2**35, 2**36, 2**35, 2**36)))
    with h5py.File(h5) as file, pytest.raises(KeyError, match="invalid dataset size"):
        file["x"]
    streamer = multitables.Streamer(h5)
    for use in (
        lambda: streamer.get_queue("x"),
        lambda: next(iter(streamer.get_batches("x", 4))),
        lambda: multitables.Reader(h5).get_dataset("x"),
        lambda: multitables.open(h5)["x"][0, 0],
    ):
        with pytest.raises(multitables.FileOpenError, match="truncated: '/x' needs its bytes"):
            use()


@pytest.fixture
def lying(h5: Path, request: pytest.FixtureRequest) -> Path:
    """A file whose index gives the chunk at (4, 3) another place."""
    with h5py.File(h5, "w") as file:
        file["x"] = np.ones(4)
        file.create_dataset("y", data=np.arange(60).reshape(10, 6), chunks=(4, 3))
    stored, record = h5.read_bytes(), struct.pack("<3Q", 4, 3, 0)
    assert stored.count(record) == 1
    h5.write_bytes(stored.replace(record, struct.pack("<3Q", *LIES[request.param][0], 0)))
    return h5


@pytest.mark.parametrize("lying", LIES, indirect=True)
def test_impossible_records_are_refused(lying: Path, request: pytest.FixtureRequest) -> None:
    _, what = LIES[request.node.callspec.params["lying"]]
    streamer = multitables.Streamer(lying)
    for use in (
        lambda: streamer.get_queue("/y"),
        lambda: next(streamer.get_generator("/y")),
        lambda: next(iter(streamer.get_batches("/y", 2, shuffle=True))),
        lambda: multitables.measure_limit(lying, "/y"),
    ):
        with pytest.raises(multitables.CorruptFileError, match="is damaged: for '/y'") as caught:
            use()
        assert what in str(caught.value)
        assert caught.value.values["expected"] == what
        assert 0 < caught.value.values["address"] < lying.stat().st_size
    with multitables.Reader(lying, n_procs=1) as reader:
        with pytest.raises(multitables.CorruptFileError, match="is damaged: for '/y'"):
            reader.get_dataset("/y")
        # the others are not affected
        np.testing.assert_array_equal(reader.request(reader.get_dataset("/x")[:]).get(), 1.0)
