"""Shuffled batches of every kind of dataset equal what h5py or PyTables reads.

1. Each case is a file, a dataset and an oracle; each is met in every shuffle, and by O_DIRECT
   where the file system has it.
2. Equal means the bytes: dtype (byte order too), shape, every field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import tables
from elements import FAST, smooth, values
from oracle import h5py_read, pytables_read

import multitables

N = 500
SHUFFLES = ["chunks", "window", "full"]


def check(
    path: Path,
    dataset: str,
    wanted: np.ndarray,
    *,
    open_options: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Two epochs of batches are the rows that their order names; returns the statistics."""
    options = {"n_procs": 2, "window_rows": 90, "epochs": 2, **options}
    streamer = multitables.Streamer(path, **(open_options or {}))
    with streamer.get_batches(dataset, 33, **options) as batches:
        order = np.concatenate([batches.order(0), batches.order(1)])
        iterator, at = iter(batches), 0
        told: dict[str, Any] = {}
        for batch in iterator:
            want = wanted[order[at : at + len(batch)]]
            assert batch.dtype == want.dtype
            assert batch.shape == want.shape
            assert fields(batch) == fields(want), (dataset, at)
            at += len(batch)
            told = iterator.statistics() or told
            del batch
        assert at == len(order)
    return told


def fields(rows: np.ndarray) -> list[bytes]:
    """The bytes of every field; padding between them is free."""
    if rows.dtype.names is None:
        return [rows.tobytes()]
    return [part for name in rows.dtype.names for part in fields(rows[name])]


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("name", list(FAST))
def test_elements(h5: Path, name: str, shuffle: str) -> None:
    data = values(FAST[name], (N, 3), seed=name)
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(40, 3), compression="gzip")
        file.create_dataset("y", data=data)
    for dataset in ("x", "y"):
        told = check(h5, dataset, h5py_read(h5, dataset), shuffle=shuffle)
        assert told["library"] == {}


STORED: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (32, 4, 5)},
    "edge": {"chunks": (64, 3, 2)},
    "little of a row": {"chunks": (90, 2, 2)},
    "bytes of a row": {"chunks": (100, 1, 1), "compression": "gzip"},
    "deflate": {"chunks": (16, 4, 5), "compression": "gzip", "shuffle": True},
    "fletcher32": {"chunks": (16, 2, 5), "compression": "gzip", "fletcher32": True},
    "blosc": {"chunks": (50, 4, 5), **hdf5plugin.Blosc("lz4", 5, hdf5plugin.Blosc.SHUFFLE)},
    "blosc2": {"chunks": (50, 4, 5), **hdf5plugin.Blosc2("zstd", 3)},
    "one chunk": {"chunks": (N, 4, 5), "compression": "gzip"},
    "rows": {"chunks": (1, 4, 5), "compression": "lzf"},
    "by library": {"chunks": (32, 4, 5), "scaleoffset": 0},
}


@pytest.mark.parametrize("driver", ["buffered", "direct"])
@pytest.mark.parametrize("stored", list(STORED))
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_storage(h5: Path, stored: str, shuffle: str, driver: str) -> None:
    data = smooth((N, 4, 5), "<i4")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, **STORED[stored])
    open_options = {"DRIVER": "H5FD_DIRECT"} if driver == "direct" else {}
    told = check(h5, "x", data, shuffle=shuffle, open_options=open_options)
    assert bool(told["library"]) == (stored == "by library")


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_chunks_that_were_never_stored(h5: Path, shuffle: str) -> None:
    with h5py.File(h5, "w") as file:
        data = file.create_dataset("x", (N, 7), "<f4", chunks=(30, 7), fillvalue=2.5)
        data[60:150] = 1.0
        file.create_dataset("y", (N,), "S3", fillvalue=b"ab")
    for dataset in ("x", "y"):
        check(h5, dataset, h5py_read(h5, dataset), shuffle=shuffle)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("chunks", [None, (7, 2500), (1, 2500), (7, 1000), (90, 2500)])
def test_long_rows_without_filters(h5: Path, shuffle: str, chunks: tuple[int, ...] | None) -> None:
    """The kernel puts such rows where they belong, whole chunks at once where it can."""
    data = values(np.dtype("<i2"), (N, 2500))
    with h5py.File(h5, "w", userblock_size=512) as file:
        file.create_dataset("x", data=data, chunks=chunks)
        file.create_dataset("y", data=np.full(N, b"ab\0cd" + 5000 * b"e"), chunks=chunks and (7,))
    for dataset in ("x", "y"):
        wanted = h5py_read(h5, dataset)
        check(h5, dataset, wanted, shuffle=shuffle)
        check(h5, dataset, wanted, shuffle=shuffle, rows=slice(3, None))


@pytest.mark.parametrize("row_bytes", [500, 512, 1000, 4095])
def test_shorter_rows_without_filters(h5: Path, row_bytes: int) -> None:
    """Who is quicker, the kernel or a copy, is tried: both take turns, over 100 chunks."""
    data = values(np.dtype("u1"), (2000, row_bytes))
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(20, row_bytes))
    check(h5, "x", data, shuffle="window", n_procs=1)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_chunks_that_skip_filters(h5: Path, shuffle: str) -> None:
    data = smooth((N, 8), "<i8")
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(50, 8), compression="gzip", shuffle=True)
        made.id.write_direct_chunk((100, 0), data[100:150].tobytes(), filter_mask=3)
    check(h5, "x", data, shuffle=shuffle)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("field", [None, "d", "b"])
def test_tables_and_their_columns(h5: Path, shuffle: str, field: str | None) -> None:
    rows = values(np.dtype([("a", "<i4"), ("b", "S6"), ("c", "<f8", (3,)), ("d", "?")]), (N,))
    with tables.open_file(str(h5), "w") as file:
        file.create_table("/", "t", obj=rows, chunkshape=(64,), filters=tables.Filters(5, "blosc"))
    check(h5, "/t", pytables_read(h5, "/t", field), shuffle=shuffle, field=field)


def test_what_only_pytables_reads(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        made = file.create_table("/", "t", {"x": tables.Int32Col(), "when": tables.Time64Col()})
        made.append([(row, row / 4) for row in range(N)])
    for shuffle in SHUFFLES:
        told = check(h5, "/t", pytables_read(h5, "/t"), shuffle=shuffle)
        assert told["library"]


def test_a_chunk_that_turns_out_unreadable_goes_to_the_library(h5: Path) -> None:
    """A filter that says it is native and has a parameter that is not."""
    data = smooth((N, 16), "<i4")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(50, 16), **hdf5plugin.Blosc("zlib", 5))
        file.create_dataset("y", data=data, chunks=(50, 16), **hdf5plugin.Bitshuffle(cname="zstd"))
    for dataset in ("x", "y"):
        check(h5, dataset, data, shuffle="window")


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_rows_without_bytes(h5: Path, shuffle: str) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (N, 0), "<f4")
        file["y"] = np.arange(N)
    check(h5, "x", np.zeros((N, 0), "<f4"), shuffle=shuffle)
    with multitables.Streamer(h5).get_batches(["x", "y"], 7, shuffle=shuffle, n_procs=1) as batches:
        seen = np.concatenate([y.copy() for x, y in batches])
    np.testing.assert_array_equal(np.sort(seen), np.arange(N))


@pytest.mark.parametrize("shuffle", [None, *SHUFFLES])
def test_datasets_without_rows(h5: Path, shuffle: str | None) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (0, 4), "<f4", chunks=(5, 4), maxshape=(None, 4))
    with multitables.Streamer(h5).get_batches("x", 7, shuffle=shuffle, epochs=3) as batches:
        assert len(batches) == 0
        assert list(batches) == []


def test_labels_in_large_chunks_are_decoded_once_by_each_reader(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((4000, 64)), chunks=(20, 64), compression="gzip")
        file.create_dataset("y", data=np.arange(4000), chunks=(1000,), compression="gzip")
    with multitables.Streamer(h5).get_batches(
        ["x", "y"], 50, shuffle="window", window_rows=200, n_procs=1, epochs=2
    ) as batches:
        iterator = iter(batches)
        seen = []
        for x, y in iterator:
            np.testing.assert_array_equal(x[:, 0], smooth((4000, 64))[y, 0])
            seen.append(y.copy())
            told = iterator.statistics()
        np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.repeat(np.arange(4000), 2))
    assert told["readers"][0]["chunks"] == 2 * 200 + 4
