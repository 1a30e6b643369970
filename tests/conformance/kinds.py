"""Kinds of datasets, one of each: what the page of coverage has a row for.

Law
---
1. A function of `GROUPS` writes one file, and yields each kind's name and where its dataset is.
2. One kind differs from the next in one thing that matters to a reader; `datasets_of_files` has
   the table of all that must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import format_files
import h5py
import hdf5plugin
import numpy as np
import tables
import versioned
from datasets_of_files import chunked, create, prepared, write
from elements import smooth
from h5py import h5d, h5t

#: Name of a kind, and the path of its dataset.
Kinds = Iterator[tuple[str, str]]
GROUPS: dict[str, Callable[[Path], Kinds]] = {}


def group(title: str) -> Callable[[Any], Any]:
    """Put a file into `GROUPS`."""

    def add(build: Callable[[Path], Kinds]) -> Callable[[Path], Kinds]:
        GROUPS[title] = build
        return build

    return add


def stored(
    file: h5py.File, kind: str, data: Any, path: str = "", **options: Any
) -> tuple[str, str]:
    """Store a kind, by default under its own name."""
    made = file.create_dataset(path or kind, data=data, **options)
    return kind, str(made.name)


@group("Layout")
def layouts(path: Path) -> Kinds:
    rows, tiles = smooth((60, 8)), {"chunks": (7, 3)}
    with h5py.File(path, "w", libver="latest") as file:
        yield stored(file, "contiguous", rows)
        yield (
            "compact",
            write(create(file, "c", "<i4", (60, 8), *prepared("compact", ())), rows).path,
        )
        yield stored(file, "one chunk", rows, chunks=(60, 8))
        yield stored(file, "chunks, fixed array", rows, **tiles)
        yield stored(file, "chunks, extensible array", rows, maxshape=(None, 8), **tiles)
        yield stored(file, "chunks, B-tree of version 2", rows, maxshape=(None, None), **tiles)
        early = [chunked((7, 3)), lambda plist: plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)]
        yield (
            "chunks, implicit index",
            write(create(file, "early", "<i4", (60, 8), *early), rows).path,
        )
        old = path.with_name("old.h5")
        with h5py.File(old, "w", libver="earliest") as other:
            other.create_dataset("x", data=rows, **tiles)
        file["old"] = h5py.ExternalLink(old.name, "/x")
        yield "chunks, B-tree of version 1, behind an external link", "/old"
        file.create_dataset("never", (60, 8), "<i4", fillvalue=5)
        yield "never written", "/never"
        raw = path.with_name("raw.bin")
        raw.write_bytes(rows.tobytes())
        external = [(str(raw), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("external", (60, 8), rows.dtype, external=external)
        yield "external raw files", "/external"
        layout = h5py.VirtualLayout((60, 8), "<i4")
        layout[:] = h5py.VirtualSource(old, "x", (60, 8))
        file.create_virtual_dataset("virtual", layout)
        yield "virtual", "/virtual"


@group("Type")
def types(path: Path) -> Kinds:
    compound = np.dtype([("a", "<i2"), ("b", [("c", ">f8"), ("d", "S3", 2)])])
    with h5py.File(path, "w") as file:
        yield stored(file, "integers and floats of both byte orders", smooth((30, 4), ">f8"))
        yield stored(file, "half precision", smooth((30,), "<f2"))
        yield stored(file, "bool", np.arange(30) % 3 == 0)
        yield stored(file, "enum", smooth((30,), "i2"), dtype=h5py.enum_dtype({"A": 1}, "i2"))
        yield stored(file, "complex", smooth((30,), "<c16"))
        yield stored(file, "compound, nested", np.zeros(30, compound), chunks=(7,))
        yield _arrays(file)
        yield stored(file, "opaque", np.array([b"ab"] * 30, "V2"))
        yield stored(file, "strings of fixed length", np.array([b"ab", b"c"] * 15, "S5"))
        yield stored(file, "long double", smooth((30,), "g"))
        yield _bfloat(file)
        yield from _laid_out_in_another_way(file)
        text = ["a", "bb"] * 15
        yield stored(file, "strings of variable length", text, dtype=h5py.string_dtype())
        ragged = file.create_dataset("ragged", (30,), h5py.vlen_dtype("<i4"))
        for at in range(30):
            ragged[at] = np.arange(at % 4)
        yield "sequences of variable length", "/ragged"
        yield stored(file, "references", [file["bool"].ref] * 3, dtype=h5py.ref_dtype)
        region = file["bool"].regionref[2:5]
        yield stored(file, "references to regions", [region], dtype=h5py.regionref_dtype)
        yield stored(file, "scalar", 5.0)
        file["null"] = h5py.Empty("<f4")
        yield "no elements (null dataspace)", "/null"


def _arrays(file: h5py.File) -> tuple[str, str]:
    made = create(file, "arrays", h5t.array_create(h5t.IEEE_F32LE, (3,)), (30,))
    made[...] = smooth((30, 3), "<f4")
    return "arrays", "/arrays"


def _laid_out_in_another_way(file: h5py.File) -> Kinds:
    bits = h5t.STD_I32LE.copy()
    bits.set_precision(20)
    bits.set_offset(7)
    create(file, "bits", bits, (30,))[...] = smooth((30,)) - 7
    yield "integers of which some bits count", "/bits"
    short = h5t.IEEE_F32LE.copy()
    short.set_fields(26, 20, 6, 7, 13)
    short.set_offset(7)
    short.set_precision(20)
    short.set_ebias(31)
    create(file, "short", short, (30,))[...] = np.arange(30) - 7.5
    yield "floats that do not begin at the first bit", "/short"
    parts = h5t.create(h5t.COMPOUND, 24)
    parts.insert(b"r", 16, h5t.IEEE_F64LE)
    parts.insert(b"i", 0, h5t.IEEE_F64LE)
    create(file, "parts", parts, (30,))[...] = np.arange(30) * (1 - 2j)
    yield "complex, stored in another order", "/parts"


def _bfloat(file: h5py.File) -> tuple[str, str]:
    kind = h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    made = h5py.Dataset(h5d.create(file.id, b"bfloat16", kind, h5py.h5s.create_simple((30,))))
    made[...] = smooth((30,), "<f4") % 7
    return "custom floats (bfloat16)", "/bfloat16"


@group("Filter")
def filters(path: Path) -> Kinds:
    rows = smooth((64, 8))
    with h5py.File(path, "w") as file:
        for kind, options in {
            "deflate, shuffle, fletcher32": {
                "compression": "gzip", "shuffle": True, "fletcher32": True,
            },
            "lzf": {"compression": "lzf"},
            "blosc": hdf5plugin.Blosc(),
            "blosc2": hdf5plugin.Blosc2(),
            "lz4": hdf5plugin.LZ4(),
            "zstd": hdf5plugin.Zstd(),
            "bitshuffle": hdf5plugin.Bitshuffle(),
            "bzip2": hdf5plugin.BZip2(),
            "szip": {"compression": "szip"},
            "scaleoffset": {"scaleoffset": 0},
            "zfp": hdf5plugin.Zfp(),
        }.items():  # fmt: skip
            data = rows.astype("<f4") if kind == "zfp" else rows
            yield stored(file, kind, data, chunks=(16, 8), **dict(options))
        nbit = [chunked((16, 8)), lambda plist: plist.set_filter(5)]
        yield "nbit", write(create(file, "nbit", "<i4", (64, 8), *nbit), rows).path
        unknown = [chunked((16,)), lambda plist: plist.set_filter(499, 1, ())]
        made = create(file, "unknown", h5t.STD_I32LE, (32,), *unknown)
        for at in (0, 16):
            made.id.write_direct_chunk((at,), b"1234", filter_mask=0)
        yield "one that nobody has", "/unknown"


@group("PyTables")
def pytables(path: Path) -> Kinds:
    rows = np.zeros(40, [("n", "<i4"), ("name", "S4"), ("xs", "<f8", 3)])
    rows["n"] = np.arange(40)
    pack = tables.Filters(5, "blosc2:lz4")
    with tables.open_file(str(path), "w") as file:
        file.create_array("/", "array", smooth((40, 3)))
        yield "Array", "/array"
        file.create_carray("/", "carray", obj=smooth((40, 3)), filters=pack)
        yield "CArray and EArray, compressed", "/carray"
        file.create_table("/", "table", obj=rows, filters=pack)
        yield "Table", "/table"
        times = np.dtype([("t", "f8")])
        made = file.create_table("/", "times", {"t": tables.Time64Col()})
        made.append(np.arange(9.0).astype(times))
        yield "Table with Time64", "/times"
        ragged = file.create_vlarray("/", "ragged", tables.Int32Atom())
        for at in range(20):
            ragged.append(np.arange(at % 4))
        yield "VLArray", "/ragged"


@group("File, with a user block")
def user_block(path: Path) -> Kinds:
    with h5py.File(path, "w", userblock_size=512) as file:
        yield stored(file, "any of the above", smooth((20, 3)))


@group("File, paged")
def paged(path: Path) -> Kinds:
    with h5py.File(path, "w", fs_strategy="page", fs_page_size=4096) as file:
        yield stored(file, "any of the above", smooth((20, 3)), chunks=(7, 3))


@group("Version of a file of versioned-hdf5")
def versions(path: Path) -> Kinds:
    rows = smooth((40, 3))
    with h5py.File(path, "w") as file:
        writer = versioned.Writer(file, chunks={"x": (7, 3)}, compression="gzip")
        writer.commit("r1", {"x": rows})
        writer.commit("r2", {"x": np.concatenate([rows[:20], -rows[20:]])})
    yield "any of the above", "/_version_data/versions/r2/x"


@group("File of another tool")
def other_tools(path: Path) -> Kinds:
    shown = {
        "weather.nc": ("NetCDF-4 variable", "/t2m"),
        "cells.h5ad": ("AnnData layer", "/layers/counts"),
        "filtered.h5": ("10x barcodes", "/matrix/barcodes"),
        "model.weights.h5": ("Keras weights", "/layers/dense/vars/0"),
        "run.mat": ("MATLAB 7.3 matrix", "/signal"),
        "session.nwb": ("NWB series", "/acquisition/ElectricalSeries/data"),
        "frames.h5": ("pandas HDFStore, table", "/log/table"),
    }
    with h5py.File(path, "w") as file:
        for name, (kind, inside) in shown.items():
            other = path.with_name(name)
            format_files.FILES[name](other)
            file[name] = h5py.ExternalLink(name, inside)
            yield kind, f"/{name}"
        file["fixed"] = h5py.ExternalLink("frames.h5", "/frame/block0_values")
        yield "pandas HDFStore, fixed", "/fixed"
