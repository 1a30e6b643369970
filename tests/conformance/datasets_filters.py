"""The table's datasets whose chunks went through filters: every pipeline, size, mask and codec.

Law: as in `datasets_of_files`. Files are written by libhdf5, with the plugins of hdf5plugin.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from cut_chunks import cut_edges
from datasets_of_files import FILTERS, Dataset, add, chunked, create, table, write
from elements import FAST, smooth, values

PIPELINES: list[Sequence[str]] = [
    *itertools.chain.from_iterable(
        itertools.permutations(("deflate", "shuffle", "fletcher32"), n) for n in (1, 2, 3)
    ),
    ("deflate", "deflate"),
    ("shuffle", "shuffle"),
    ("fletcher32", "fletcher32"),
    ("fletcher32", "shuffle", "deflate", "fletcher32"),
    ("blosc",),
    ("blosc", "fletcher32"),
    ("fletcher32", "blosc"),
    ("shuffle", "blosc"),
    ("blosc", "deflate"),
    ("shuffle", "blosc", "deflate", "fletcher32"),
    ("blosc2",),
    ("blosc2", "fletcher32"),
    ("blosc2", "deflate"),
    ("shuffle", "blosc2"),
]


def filtered(
    file: h5py.File, dtype: Any, shape: tuple[int, ...], chunks: tuple[int, ...], *names: str
) -> h5py.Dataset:
    """An empty dataset with these filters in this order."""
    name = f"{len(file)} {'-'.join(names)}"
    how = [FILTERS[name] for name in names]
    return create(file, name, np.dtype(dtype), shape, chunked(chunks), *how)


@table("full")
@table("holes", fallback=False)
def pipelines(path: Path, variant: str) -> Iterator[Dataset]:
    """Filters in any order, over whole and partial chunks, and where some were never stored."""
    with h5py.File(path, "w") as file:
        for names in PIPELINES:
            # HDF5 gives parameters to the first shuffle only, and skips the second in every chunk.
            by = None if names == ("shuffle", "shuffle") else ""
            if variant == "full":
                made = filtered(file, "<f8", (50, 20), (8, 6), *names)
                yield replace(write(made, smooth((50, 20), "<f8")), by=by)
                made = filtered(file, FAST["compound"], (61,), (10,), *names)
                yield replace(write(made, values(FAST["compound"], (61,))), by=by)
            else:
                made = filtered(file, "<f4", (45, 11), (8, 5), *names)
                made[8:16] = smooth((8, 11), "<f4")
                made[44, 10] = 3
                yield Dataset(str(made.name), by=by)


@table(fallback=False)
def filters_of_every_size(path: Path) -> Iterator[Dataset]:
    """Noise: codecs store it as it is; shuffle leaves trailing bytes, fletcher32 pads odd ones."""
    checked = ("shuffle", "deflate", "fletcher32")
    several = (checked, ("fletcher32",), ("blosc",), ("blosc2",))
    with h5py.File(path, "w") as file:
        for name, names in itertools.product(
            ["<i1", ">i2", "<f4", ">f8", "<c16", "S7", "compound"], several
        ):
            made = filtered(file, FAST[name], (70, 3), (16, 3), *names)
            yield write(made, values(FAST[name], (70, 3)))
        for dtype, chunk, names in itertools.product(
            ["<i1", "S3"], [1, 3, 255, 257, 4097], several
        ):
            data = values(np.dtype(dtype), (chunk * 3 + 1,))
            yield write(filtered(file, dtype, data.shape, (chunk,), *names), data)
        for level in range(10):
            data = np.concatenate([smooth((300, 30)), values(np.dtype("<i4"), (300, 30))])
            options = {"compression": "gzip", "compression_opts": level}
            yield add(file, f"level {level}", data, chunks=(100, 30), **options)


@table()
def filter_masks(path: Path) -> Iterator[Dataset]:
    """Each chunk skips other filters of the pipeline."""
    with (
        h5py.File(path, "w") as file,
        h5py.File("twin", "w", driver="core", backing_store=False) as twin,
    ):
        for names in (
            ("shuffle", "deflate", "fletcher32"),
            ("fletcher32", "deflate", "shuffle"),
            ("blosc", "fletcher32"),
            ("deflate", "blosc2", "fletcher32"),
        ):
            masks = range(1 << len(names))
            data = smooth((6 * len(masks), 10))
            made = filtered(file, "<i4", (len(data) - 2, 10), (6, 10), *names)
            for mask in masks:
                used = [name for bit, name in enumerate(names) if not mask >> bit & 1]
                chunk = filtered(twin, "<i4", (6, 10), (6, 10), *used)
                chunk[...] = data[6 * mask : 6 * mask + 6]
                stored = bytes(chunk.id.read_direct_chunk((0, 0))[1])
                made.id.write_direct_chunk((6 * mask, 0), stored, filter_mask=mask)
            yield Dataset(str(made.name), oracle=data[:-2])
        # Chunks that do not span the row; partial ones at the edge, as HDF5 can leave them.
        data = smooth((40, 13), ">i2")
        made = filtered(file, ">i2", data.shape, (8, 4), "shuffle", "deflate")
        write(made, data)
        for row, column in itertools.product(range(0, 40, 16), range(0, 13, 4)):
            chunk = np.zeros((8, 4), ">i2")
            part = data[row : row + 8, column : column + 4]
            chunk[:, : part.shape[1]] = part
            made.id.write_direct_chunk((row, column), chunk.tobytes(), filter_mask=3)
        yield Dataset(str(made.name), oracle=data)


@table("earliest", "latest")
def cut_chunks(path: Path, variant: str) -> Iterator[Dataset]:
    """Edge chunks that end with the extent, in every index."""
    kinds: dict[str, dict[str, Any]] = {
        "gzip": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "sum": {"fletcher32": True},
        "lzf": {"compression": "lzf", "shuffle": True},
        "blosc": hdf5plugin.Blosc(),
        "blosc2": hdf5plugin.Blosc2(),
        "lz4": hdf5plugin.LZ4(nbytes=64),
        "zstd": hdf5plugin.Zstd(),
        "bits": hdf5plugin.Bitshuffle(),
        "bits alone": hdf5plugin.Bitshuffle(cname="none"),
        "bzip2": hdf5plugin.BZip2(),
    }
    indexes = {"fixed": None, "extensible": (None, 11), "tree": (None, None)}
    with h5py.File(path, "w", libver=variant) as file:
        for (index, limits), (kind, options) in itertools.product(indexes.items(), kinds.items()):
            shape: dict[str, Any] = {"chunks": (8, 6), "maxshape": limits}
            how, data = dict(options), smooth((37, 11))
            made = file.create_dataset(f"{index} {kind}", data=data, **shape, **how)
            cut_edges(made, **how)
            yield Dataset(str(made.name))
        how = {"compression": "gzip", "shuffle": True}
        rows, cube = values(FAST["compound"], (61,)), smooth((5, 7, 9), ">f8")
        for name, data, chunks in (
            ("rows", rows, (10,)), ("one", rows, (64,)), ("cube", cube, (5, 4, 5)),
        ):  # fmt: skip
            limits = chunks if name == "one" else None
            made = file.create_dataset(name, data=data, chunks=chunks, maxshape=limits, **how)
            cut_edges(made, **how)
            yield Dataset(str(made.name))
        made = file.create_dataset("skipped", data=smooth((37, 11)), chunks=(8, 6), **how)
        last = np.zeros((8, 6), "<i4")
        last[:5, :5] = smooth((37, 11))[32:, 6:]
        made.id.write_direct_chunk((32, 6), last.tobytes()[: 4 * 29], filter_mask=3)
        yield Dataset(str(made.name))


CODECS = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")


@table("Blosc", "Blosc2", fallback=False)
def bloscs(path: Path, variant: str) -> Iterator[Dataset]:
    """Of hdf5plugin: chunks of two and more dims are b2nd frames in Blosc2."""
    shuffle = {"Blosc": "shuffle", "Blosc2": "filters"}[variant]
    contents = {
        "one": (smooth((5000,), "<f8"), (1111,)),
        "two": (smooth((900, 50), "<f4"), (400, 30)),
        "noise": (values(np.dtype("<f4"), (5000,)), (1111,)),
        "short": (values(FAST["<i2"], (300,)), (64,)),
        "compound": (values(FAST["compound"], (300,)), (64,)),
    }
    make = getattr(hdf5plugin, variant)
    with h5py.File(path, "w") as file:
        for cname, inner in itertools.product(CODECS, (0, 1, 2)):
            levels = {
                "noise": 0,
                "two": 5,
                "one": 9,
                **({"short": 1, "compound": 5} if inner else {}),
            }
            for name, level in levels.items():
                options = make(cname=cname, clevel=level, **{shuffle: inner})
                data, chunks = contents[name]
                yield add(file, f"{name} {cname} {inner}", data, chunks=chunks, **options)
        for dims in range(1, 8):
            data = smooth((9, 8, 7, 6, 5, 4, 3)[:dims], "<i8")
            yield add(file, f"dims {dims}", data, chunks=(7, 5, 6, 2, 4, 3, 2)[:dims], **make())
        yield add(file, "large", smooth((600, 700), "<f8"), chunks=(500, 600), **make())
        if variant == "Blosc":  # of old releases
            for name, (data, chunks) in contents.items():
                options = make(cname="snappy", clevel=5)
                yield add(file, f"{name} snappy", data, chunks=chunks, **options)
        if variant == "Blosc2":  # so rare that its chunks may take the library
            for cname in ("lz4", "zlib"):
                options = make(cname=cname, filters=hdf5plugin.Blosc2.DELTA)
                made = add(file, f"delta {cname}", smooth((5000,)), chunks=(1111,), **options)
                yield replace(made, by=None)


@table()
def other_filters(path: Path) -> Iterator[Dataset]:
    """Native or through the library: nobody can tell from the data."""
    native: dict[str, Any] = {
        "lz4": hdf5plugin.LZ4(),
        "lz4 blocks": hdf5plugin.LZ4(nbytes=64),
        "zstd": hdf5plugin.Zstd(),
        "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
        "bitshuffle lz4": hdf5plugin.Bitshuffle(cname="lz4"),
        "lzf": {"compression": "lzf", "shuffle": True},
    }
    floats: dict[str, Any] = {
        "sz3": hdf5plugin.SZ3(absolute=0.1),
        "zfp": hdf5plugin.Zfp(reversible=True),
        "sperr": hdf5plugin.Sperr(),
    }
    with h5py.File(path, "w") as file:
        for name, options in native.items():
            yield add(file, name, smooth((70, 40)), chunks=(32, 30), **options)
            yield add(
                file, f"{name} noise", values(np.dtype(">i2"), (77,)), chunks=(30,), **options
            )
            data = values(FAST["compound"], (300,))
            yield add(file, f"{name} compound", data, chunks=(64,), **options)
        either = hdf5plugin.Bitshuffle(cname="zstd")
        yield replace(add(file, "zstd bits", smooth((70, 40)), chunks=(32, 40), **either), by=None)
        yield add(file, "bzip2", smooth((70, 4)), chunks=(32, 4), **hdf5plugin.BZip2())
        for name, options in floats.items():
            made = add(file, name, smooth((70, 40), "<f4"), chunks=(32, 40), **options)
            yield replace(made, by=None)
        made = add(file, "jpeg", smooth((70, 40), "u1"), chunks=(32, 40), **hdf5plugin.FciDecomp())
        yield replace(made, by=None)
