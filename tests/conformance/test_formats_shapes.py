"""Shapes, chunk shapes, growth and holes of h5py's datasets.

1. Chunks that do not span the inner dims, partial edges, single chunks, many dims.
2. Chunks that were never stored are the fill value, in every element type.
3. Every kind of chunk index of HDF5 is met.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import COMPOUND, FAST, smooth, values
from h5py import h5d, h5p, h5s, h5t
from oracle import either, fast, h5py_read, streamed

import multitables

SHAPES = [
    ((1,), (1,)),
    ((1000,), (1,)),
    ((1000,), (1000,)),
    ((1000,), (999,)),
    ((13, 1), (5, 1)),
    ((50, 20), (50, 20)),
    ((50, 20), (7, 20)),
    ((50, 20), (7, 6)),
    ((50, 20), (50, 3)),
    ((50, 20), (1, 1)),
    ((9, 8, 7), (2, 3, 4)),
    ((9, 8, 7), (2, 8, 4)),
    ((9, 8, 7), (2, 3, 7)),
    ((9, 8, 7), (4, 8, 7)),
    ((5, 4, 3, 2, 6), (2, 3, 2, 1, 4)),
    ((700, 9, 10), (300, 4, 3)),
    ((3, 2, 2, 2, 2, 2, 2, 2), (2, 1, 2, 1, 2, 1, 2, 1)),
]


@pytest.mark.parametrize(("shape", "chunks"), SHAPES, ids=str)
def test_chunked(h5: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("plain", data=smooth(shape), chunks=chunks)
        file.create_dataset("gzip", data=smooth(shape), chunks=chunks, compression="gzip")
        file.create_dataset("contiguous", data=smooth(shape))
    fast(h5, "/plain")
    fast(h5, "/gzip")
    fast(h5, "/contiguous")


def test_the_most_dims_that_hdf5_has(h5: Path) -> None:
    shape = (3, *[1] * 29, 2, 2)
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth(shape), chunks=(2, *[1] * 29, 2, 1))
    fast(h5, "/x")


def test_inner_dims_of_extent_zero(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (5, 0), "<i4", maxshape=(None, None), chunks=(2, 3))
    got, statistics = streamed(h5, "/x", block_size=2)
    assert got is None or got.shape == (5, 0)
    assert statistics["block_size"] == 2


@pytest.mark.parametrize("names", ["xx", "yy", "xy", "xz", "zyx"])
def test_inner_dims_of_extent_zero_beside_others(h5: Path, names: str) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (50, 0), "<i4", maxshape=(None, None), chunks=(2, 3))
        file.create_dataset("y", (50, 0, 2), "<f8")
        file.create_dataset("z", data=smooth((50, 3)), chunks=(20, 2))
    streamer = multitables.Streamer(h5)
    with h5py.File(h5) as file:
        wanted = [file[name][:] for name in names]
    with streamer.get_queue(list(names), n_procs=2, block_size=20, remainder=True) as queue:
        for at, guard in enumerate(queue):
            with guard as block:
                for got, want in zip(block, wanted, strict=True):
                    np.testing.assert_array_equal(got, want[20 * at : 20 * at + 20])
        assert at == 2
    for shuffle in (None, "chunks", "window", "full"):
        with streamer.get_batches(list(names), 20, n_procs=2, shuffle=shuffle) as batches:
            rows = batches.order()
            for at, batch in enumerate(batches):
                for got, want in zip(batch, wanted, strict=True):
                    np.testing.assert_array_equal(got, want[rows[20 * at : 20 * at + 20]])
            assert at == 2


@pytest.mark.parametrize("chunked", [False, True])
def test_rows_larger_than_a_piece(h5: Path, chunked: bool) -> None:
    data = smooth((5, 300_000))
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(1, 70_000) if chunked else None)
    fast(h5, "/x", data)
    fast(h5, "/x", data, block_size=2)


@pytest.mark.parametrize("name", ["<i4", ">f2", "<c16", "bool", "S7", "compound", "nested"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunks_never_stored_are_the_fill_value(
    h5: Path, name: str, compression: str | None
) -> None:
    dtype = FAST[name]
    fill = values(dtype, (1,), "fill")[0]
    if dtype.names is not None:
        fill = np.array(fill, dtype)
    with h5py.File(h5, "w") as file:
        data = file.create_dataset(
            "x", (40, 12), dtype, chunks=(8, 5), compression=compression, fillvalue=fill
        )
        data[9:11, 3:5] = values(dtype, (2, 2))
        data[39] = values(dtype, (12,))
        stored = data.id.get_num_chunks()
        file.create_dataset("never", (40, 12), dtype, chunks=(8, 5), fillvalue=fill)
        file.create_dataset("contiguous", (40, 12), dtype, fillvalue=fill)
    assert 0 < stored < 15
    fast(h5, "/x")
    fast(h5, "/x", block_size=1)
    fast(h5, "/never")
    fast(h5, "/contiguous")
    assert h5py_read(h5, "/never").tobytes().strip(b"\0") != b""  # the fill value is not zero


def test_one_field_of_chunks_never_stored(h5: Path) -> None:
    fill = values(COMPOUND, (1,), "fill").reshape(())
    with h5py.File(h5, "w") as file:
        data = file.create_dataset("x", (40,), COMPOUND, chunks=(8,), fillvalue=fill)
        data[9:11] = values(COMPOUND, (2,))
    for field in ("a", "b", "c", "d"):
        fast(h5, "/x", h5py_read(h5, "/x", field), field=field)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 5)},  # latest: fixed array
        {"chunks": (7, 5), "maxshape": (None, 11)},  # latest: extensible array
        {"chunks": (7, 5), "maxshape": (None, None)},  # latest: version 2 B-tree
        {"chunks": (37, 11)},  # latest: single chunk
    ],
    ids=["fixed", "extensible", "btree", "single"],
)
def test_every_chunk_index(h5: Path, libver: str, options: dict[str, Any]) -> None:
    with h5py.File(h5, "w", libver=libver) as file:
        file.create_dataset("plain", data=smooth((37, 11)), **options)
        file.create_dataset("gzip", data=smooth((37, 11)), compression="gzip", **options)
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk(options["chunks"])
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)  # latest and fixed: the implicit index
        maxshape = tuple(
            h5s.UNLIMITED if n is None else n for n in options.get("maxshape", (37, 11))
        )
        space = h5s.create_simple((37, 11), maxshape)
        early = h5py.Dataset(h5d.create(file.id, b"early", h5t.STD_I32LE, space, plist))
        early[3:9] = smooth((6, 11))
    for name in ("plain", "gzip", "early"):
        fast(h5, f"/{name}")


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_resized_datasets(h5: Path, compression: str | None) -> None:
    with h5py.File(h5, "w") as file:
        data = file.create_dataset(
            "x", data=smooth((30, 10)), chunks=(8, 4), maxshape=(None, None),
            compression=compression, fillvalue=-5,
        )  # fmt: skip
        data.resize((17, 7))
        data.resize((29, 9))
        data[20, 3] = 77
    fast(h5, "/x")
    fast(h5, "/x", block_size=5)


def test_an_edge_chunk_stored_without_its_filters(h5: Path) -> None:
    """HDF5 can leave partial edge chunks unfiltered: their masks say so."""
    data = smooth((10, 10))
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", (10, 10), "<i4", chunks=(4, 4), compression="gzip")
        for row in (0, 4, 8):
            for column in (0, 4, 8):
                chunk = np.zeros((4, 4), "<i4")
                part = data[row : row + 4, column : column + 4]
                chunk[: part.shape[0], : part.shape[1]] = part
                if part.shape == (4, 4):
                    made[row : row + 4, column : column + 4] = part
                else:
                    made.id.write_direct_chunk((row, column), chunk.tobytes(), filter_mask=1)
    fast(h5, "/x", data)


def test_many_small_chunks(h5: Path) -> None:
    data = smooth((20_000, 3))
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(4, 3), compression="gzip")
    statistics = fast(h5, "/x", data, block_size=1000)
    assert statistics["tasks"] < 5000 / 2  # grouped


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((4000, 16, 16, 3), True),  # h5py's own choice has few bytes of many rows
        ((4000, 16, 16, 3), (1500, 4, 4, 1)),  # beside each other they are more than wait at once
        ((3000, 9, 10, 3), (700, 4, 4, 2)),
        ((30_000, 64), (9000, 2)),
        ((700, 40, 60), (300, 39, 7)),
    ],
    ids=str,
)
def test_chunks_with_little_of_many_rows(
    h5: Path, shape: tuple[int, ...], chunks: Any, compression: str | None
) -> None:
    data = smooth(shape, "u1")
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=chunks, compression=compression)
        assert made.chunks[0] > 100
    fast(h5, "/x", data)
    fast(h5, "/x", data, block_size=97)


def test_chunks_scattered_in_the_file(h5: Path) -> None:
    """Written in a random order, with other data between, and some rewritten."""
    data = smooth((64, 16))
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", (64, 16), "<i4", chunks=(4, 8), compression="gzip")
        order = np.random.default_rng(0).permutation(16)
        for number, at in enumerate(order):
            made[at * 4 : at * 4 + 4] = 0
            file.create_dataset(f"other{number}", data=np.arange(50))
        for at in order[::-1]:
            made[at * 4 : at * 4 + 4] = data[at * 4 : at * 4 + 4]
    fast(h5, "/x", data)
    fast(h5, "/x", data, block_size=7)


def test_block_size_by_default(numbered: Path, h5: Path) -> None:
    """The chunk's outer length; about 128 KiB of rows where there are no chunks."""
    _, statistics = streamed(numbered, "/rows")
    assert statistics["block_size"] == 50
    _, statistics = streamed(numbered, "/raw")
    assert 64 <= statistics["block_size"] * 512 / 1024 <= 256
    with h5py.File(h5, "w") as file:
        file.create_dataset("wide", data=smooth((3, 100_000), "<f8"))
        file.create_dataset("labels", data=np.arange(3))
    _, statistics = streamed(h5, "/wide")
    assert statistics["block_size"] == 1
    with multitables.Streamer(h5).get_queue(["labels", "wide"], n_procs=1) as queue:
        assert queue.block_size == 1


def test_datasets_named_as_people_name_them(h5: Path) -> None:
    names = ["ünïcode", "with space", "a/b/c", "-dash", "ends.h5"]
    with h5py.File(h5, "w") as file:
        for number, name in enumerate(names):
            file[name] = np.arange(5) + number
    for name in names:
        either(h5, f"/{name}")


@pytest.mark.parametrize("written", ["x", "/x", "//x", "/./x", "/x/"])
def test_a_path_may_be_written_in_several_ways(h5: Path, written: str) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((10, 2))
    fast(h5, written, smooth((10, 2)))


def test_links_lead_to_their_dataset(h5: Path, tmp_path: Path) -> None:
    data = smooth((30, 4))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("far", data=data, chunks=(7, 4), compression="gzip")
    with h5py.File(h5, "w") as file:
        file.create_dataset("group/x", data=data, chunks=(7, 4), compression="gzip")
        file["hard"] = file["group/x"]
        file["soft"] = h5py.SoftLink("/group/x")
        file["away"] = h5py.ExternalLink("other.h5", "/far")
    fast(h5, "/hard", data)
    fast(h5, "/soft", data)
    either(h5, "/away", data)
