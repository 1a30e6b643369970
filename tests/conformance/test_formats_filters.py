"""Every filter pipeline of the fast path decodes to what libhdf5 decodes to.

1. Files are written by libhdf5 with the plugins of hdf5plugin, or by PyTables; chunks with masks
   are put together from chunks that libhdf5 wrote.
2. Where the issue promises the fast path, the test asserts it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from elements import FAST, smooth, values
from h5py import h5d, h5p, h5s, h5t, h5z
from oracle import either, fast, slow

DEFLATE, SHUFFLE, FLETCHER32, BLOSC, BLOSC2 = 1, 2, 3, 32001, 32026


def write(
    path: Path, data: np.ndarray, pipeline: Sequence[int], chunks: tuple[int, ...], name: str = "x"
) -> None:
    """Writes `data` with these filters in this order."""
    with h5py.File(path, "a") as file:
        create(file, data.shape, data.dtype, pipeline, chunks, name)[...] = data


def create(
    file: h5py.File,
    shape: tuple[int, ...],
    dtype: np.dtype,
    pipeline: Sequence[int],
    chunks: tuple[int, ...],
    name: str,
) -> h5py.Dataset:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk(chunks)
    for number in pipeline:
        if number == BLOSC:
            plist.set_filter(
                BLOSC, h5z.FLAG_OPTIONAL, tuple(hdf5plugin.Blosc(cname="lz4").filter_options)
            )
        elif number == BLOSC2:
            plist.set_filter(
                BLOSC2, h5z.FLAG_OPTIONAL, tuple(hdf5plugin.Blosc2(cname="lz4").filter_options)
            )
        elif number == DEFLATE:
            plist.set_deflate(4)
        elif number == SHUFFLE:
            plist.set_shuffle()
        else:
            plist.set_fletcher32()
    space = h5s.create_simple(shape, (h5s.UNLIMITED,) * len(shape))
    kind = h5t.py_create(dtype, logical=True)
    return h5py.Dataset(h5d.create(file.id, name.encode(), kind, space, plist))


PIPELINES = [
    *itertools.chain.from_iterable(
        itertools.permutations((DEFLATE, SHUFFLE, FLETCHER32), n) for n in (1, 2, 3)
    ),
    (DEFLATE, DEFLATE),
    (SHUFFLE, SHUFFLE),
    (FLETCHER32, FLETCHER32),
    (FLETCHER32, SHUFFLE, DEFLATE, FLETCHER32),
    (BLOSC,),
    (BLOSC, FLETCHER32),
    (FLETCHER32, BLOSC),
    (SHUFFLE, BLOSC),
    (BLOSC, DEFLATE),
    (SHUFFLE, BLOSC, DEFLATE, FLETCHER32),
    (BLOSC2,),
    (BLOSC2, FLETCHER32),
    (BLOSC2, DEFLATE),
    (SHUFFLE, BLOSC2),
]
NAMES = {1: "deflate", 2: "shuffle", 3: "fletcher32", 32001: "blosc", 32026: "blosc2"}


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda p: "-".join(NAMES[n] for n in p))
def test_filters_in_any_order(h5: Path, pipeline: tuple[int, ...]) -> None:
    data = smooth((50, 20), "<f8")
    odd = values(FAST["compound"], (61,))
    write(h5, data, pipeline, (8, 6))
    write(h5, odd, pipeline, (10,), "odd")
    # HDF5 gives parameters to the first shuffle only, and skips the second in every chunk.
    check = either if pipeline == (SHUFFLE, SHUFFLE) else fast
    check(h5, "/x", data)
    check(h5, "/odd")


@pytest.mark.parametrize("dtype", ["<i1", ">i2", "<f4", ">f8", "<c16", "S7", "compound"])
@pytest.mark.parametrize(
    "pipeline", [(SHUFFLE, DEFLATE), (SHUFFLE, FLETCHER32), (BLOSC,), (BLOSC2,)], ids=str
)
def test_filters_of_every_element_size(h5: Path, dtype: str, pipeline: tuple[int, ...]) -> None:
    """Noise: codecs store it as it is, or leave the chunk unfiltered."""
    write(h5, values(FAST[dtype], (70, 3)), pipeline, (16, 3))
    fast(h5, "/x")


@pytest.mark.parametrize("chunk", [1, 3, 255, 257, 4097])
@pytest.mark.parametrize("dtype", ["<i1", "<i2", "S3", "<f8"])
def test_chunks_of_odd_sizes(h5: Path, chunk: int, dtype: str) -> None:
    """Shuffle leaves trailing bytes, fletcher32 pads odd ones."""
    data = values(np.dtype(dtype), (chunk * 3 + 1,))
    for name, pipeline in (
        ("a", (SHUFFLE, DEFLATE, FLETCHER32)),
        ("b", (FLETCHER32,)),
        ("c", (BLOSC,)),
        ("d", (BLOSC2,)),
    ):
        write(h5, data, pipeline, (chunk,), name)
        fast(h5, f"/{name}", n_procs=1)


@pytest.mark.parametrize("level", range(10))
def test_deflate_levels(h5: Path, level: int) -> None:
    data = np.concatenate([smooth((300, 30)), values(np.dtype("<i4"), (300, 30))])
    with h5py.File(h5, "w") as file:
        file.create_dataset(
            "x", data=data, chunks=(100, 30), compression="gzip", compression_opts=level
        )
    fast(h5, "/x", data)


@pytest.mark.parametrize("cname", ["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_blosc_of_hdf5plugin(h5: Path, cname: str, shuffle: int) -> None:
    with h5py.File(h5, "w") as file:
        for level in (0, 1, 9):
            file.create_dataset(
                f"x{level}", data=smooth((5000, 4), "<f8"), chunks=(1111, 3),
                **hdf5plugin.Blosc(cname=cname, clevel=level, shuffle=shuffle),
            )  # fmt: skip
            file.create_dataset(
                f"noise{level}", data=values(np.dtype("<f4"), (5000,)), chunks=(1111,),
                **hdf5plugin.Blosc(cname=cname, clevel=level, shuffle=shuffle),
            )  # fmt: skip
    for level in (0, 1, 9):
        fast(h5, f"/x{level}")
        fast(h5, f"/noise{level}")


@pytest.mark.parametrize("cname", ["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
@pytest.mark.parametrize(
    "inner",
    [hdf5plugin.Blosc2.NOFILTER, hdf5plugin.Blosc2.SHUFFLE, hdf5plugin.Blosc2.BITSHUFFLE],
    ids=["none", "shuffle", "bitshuffle"],
)
def test_blosc2_of_hdf5plugin(h5: Path, cname: str, inner: int) -> None:
    with h5py.File(h5, "w") as file:
        for level in (0, 5, 9):
            options = hdf5plugin.Blosc2(cname=cname, clevel=level, filters=inner)
            file.create_dataset(
                f"one{level}", data=smooth((5000,), "<f8"), chunks=(1111,), **options
            )
            file.create_dataset(
                f"two{level}", data=smooth((90, 50), "<f4"), chunks=(40, 30), **options
            )
            file.create_dataset(
                f"noise{level}", data=values(np.dtype("<f4"), (5000,)), chunks=(1111,), **options
            )
    for level in (0, 5, 9):
        for name in ("one", "two", "noise"):
            fast(h5, f"/{name}{level}", n_procs=1)


@pytest.mark.parametrize("cname", ["lz4", "zlib"])
def test_the_delta_filter_of_blosc2(h5: Path, cname: str) -> None:
    """So rare that its chunks may take the library."""
    options = hdf5plugin.Blosc2(cname=cname, filters=hdf5plugin.Blosc2.DELTA)
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((5000,), "<f8"), chunks=(1111,), **options)
    either(h5, "/x", n_procs=1)


def test_blosc2_of_hdf5plugin_in_many_dims(h5: Path) -> None:
    """Chunks of two and more dims are b2nd frames, whose blocks do not span the chunk."""
    with h5py.File(h5, "w") as file:
        for dims in range(1, 8):
            shape = (9, 8, 7, 6, 5, 4, 3)[:dims]
            chunks = (7, 5, 6, 2, 4, 3, 2)[:dims]
            file.create_dataset(
                f"x{dims}", data=smooth(shape, "<i8"), chunks=chunks, **hdf5plugin.Blosc2()
            )
        file.create_dataset(
            "large", data=smooth((600, 700), "<f8"), chunks=(500, 600), **hdf5plugin.Blosc2()
        )
    for dims in range(1, 8):
        fast(h5, f"/x{dims}")
    fast(h5, "/large")


def _stored(path: Path, data: np.ndarray, pipeline: Sequence[int]) -> bytes:
    """The stored bytes of one chunk that libhdf5 made of `data` with these filters."""
    with h5py.File(path, "w") as file:
        made = create(file, data.shape, data.dtype, pipeline, data.shape, "x")
        made[...] = data
        mask, stored = made.id.read_direct_chunk((0,) * data.ndim)
        assert mask == 0
        return bytes(stored)


@pytest.mark.parametrize(
    "pipeline",
    [
        (SHUFFLE, DEFLATE, FLETCHER32),
        (FLETCHER32, DEFLATE, SHUFFLE),
        (BLOSC, FLETCHER32),
        (DEFLATE, BLOSC2, FLETCHER32),
    ],
    ids=str,
)
def test_every_filter_mask(h5: Path, tmp_path: Path, pipeline: tuple[int, ...]) -> None:
    """Each chunk skips other filters of the pipeline."""
    masks = range(1 << len(pipeline))
    data = smooth((6 * len(masks) - 2, 10), "<i4")
    padded = np.zeros((6 * len(masks), 10), "<i4")
    padded[: len(data)] = data
    with h5py.File(h5, "w") as file:
        made = create(file, data.shape, data.dtype, pipeline, (6, 10), "x")
        for mask in masks:
            used = [number for bit, number in enumerate(pipeline) if not mask >> bit & 1]
            rows = slice(6 * mask, 6 * mask + 6)
            stored = _stored(tmp_path / "twin.h5", padded[rows], used)
            made.id.write_direct_chunk((6 * mask, 0), stored, filter_mask=mask)
    fast(h5, "/x", data)
    fast(h5, "/x", data, block_size=5)
    fast(h5, "/x")


def test_masks_of_chunks_that_do_not_span_the_row(h5: Path) -> None:
    data = smooth((40, 12), ">i2")
    with h5py.File(h5, "w") as file:
        made = create(file, data.shape, data.dtype, (SHUFFLE, DEFLATE), (8, 4), "x")
        made[...] = data
        for row, column in ((0, 0), (16, 4), (32, 8)):
            chunk = data[row : row + 8, column : column + 4].tobytes()
            made.id.write_direct_chunk((row, column), chunk, filter_mask=3)
    fast(h5, "/x", data)


def test_pipelines_with_unallocated_and_partial_chunks(h5: Path) -> None:
    data = np.zeros((45, 11), "<f4")
    data[8:16] = smooth((8, 11), "<f4")
    data[44, 10] = 3
    for number, pipeline in enumerate(PIPELINES):
        with h5py.File(h5, "a") as file:
            made = create(file, data.shape, data.dtype, pipeline, (8, 5), f"x{number}")
            made[8:16] = data[8:16]
            made[44, 10] = 3
    for number, pipeline in enumerate(PIPELINES):
        check = either if pipeline == (SHUFFLE, SHUFFLE) else fast
        check(h5, f"/x{number}", data, n_procs=1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lz4", hdf5plugin.LZ4()),
        ("lz4 blocks", hdf5plugin.LZ4(nbytes=64)),
        ("zstd", hdf5plugin.Zstd()),
        ("bitshuffle", hdf5plugin.Bitshuffle(cname="none")),
        ("bitshuffle lz4", hdf5plugin.Bitshuffle(cname="lz4")),
        ("bitshuffle zstd", hdf5plugin.Bitshuffle(cname="zstd")),
        ("lzf", {"compression": "lzf", "shuffle": True}),
        ("bzip2", hdf5plugin.BZip2()),
        ("fcidecomp", hdf5plugin.FciDecomp()),
        ("sz3", hdf5plugin.SZ3(absolute=0.1)),
        ("zfp", hdf5plugin.Zfp(reversible=True)),
        ("sperr", hdf5plugin.Sperr()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_filters_give_the_same_bytes(h5: Path, name: str, options: Any) -> None:
    """Native or through the library: nobody can tell from the data."""
    dtype = {"fcidecomp": "u1", "sz3": "f4", "zfp": "f4", "sperr": "f4"}.get(name, "<i4")
    data = smooth((70, 40), dtype)
    try:
        with h5py.File(h5, "w") as file:
            file.create_dataset("x", data=data, chunks=(32, 40), **options)
            if dtype == "<i4":
                file.create_dataset(
                    "y", data=values(np.dtype(">i2"), (77,)), chunks=(30,), **options
                )
    except (ValueError, OSError) as error:
        pytest.skip(f"this hdf5plugin does not write {name}: {error}")
    either(h5, "/x")
    if dtype == "<i4":
        either(h5, "/y")


def test_a_filter_that_is_not_native_is_named(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((70, 4)), chunks=(32, 4), **hdf5plugin.BZip2())
        file.create_dataset("mixed", data=smooth((70, 4)), chunks=(32, 4), scaleoffset=0)
    assert "307" in slow(h5, "/x")
    assert "6" in slow(h5, "/mixed")
