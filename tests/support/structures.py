"""HDF5 files of every structure that the format has, as h5py can be made to write them.

Law: each function fills a file with one group of structures; `written` makes it in the oldest form
of the format, in that of HDF5 1.10 and in the newest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from elements import smooth
from h5py import h5d, h5f, h5g, h5p, h5s, h5t

#: What h5py does not wrap is asked of the libhdf5 that it is linked to.
LIBHDF5 = ctypes.CDLL(h5py.h5d.__file__)
LIBVERS = {
    "earliest": ("earliest", "v108"),
    "v110": ("v110", "v110"),
    "latest": ("latest", "latest"),
}


def raw(file: Any, name: str, kind: Any, dims: tuple[int, ...], **options: Any) -> Any:
    """Create a dataset of a type or with properties that h5py's own way does not take."""
    space = h5s.create_simple(dims, options.get("max_dims", dims))
    plist = options.get("plist") or h5p.create(h5p.DATASET_CREATE)
    return h5py.Dataset(h5d.create(file.id, name.encode(), kind, space, plist))


def chunked(*chunk: int, early: bool = False, gzip: bool = False, plain_edges: bool = False) -> Any:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk(chunk)
    if early:
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    if gzip:
        plist.set_deflate(4)
    if plain_edges:
        function = LIBHDF5.H5Pset_chunk_opts
        function.argtypes = [ctypes.c_int64, ctypes.c_uint]
        assert function(plist.id, 2) >= 0
    return plist


def packed_links(file: Any) -> h5py.Group:
    """Create a group of 20 datasets, its links in a compressed heap: only libhdf5 reads it."""
    plist = h5p.create(h5p.GROUP_CREATE)
    deflate = LIBHDF5.H5Pset_deflate
    deflate.argtypes = [ctypes.c_int64, ctypes.c_uint]
    assert deflate(plist.id, 4) >= 0
    group = h5py.Group(h5g.create(file.id, b"group", gcpl=plist))
    for number in range(20):
        group[f"x{number}"] = smooth((12, number + 1))
    return group


def types(file: Any) -> None:
    numbers = "i1 <i2 >i2 <i4 >i8 u1 <u2 >u4 <u8 <f2 <f4 >f4 <f8 >f8 <c8 >c16 ? S5 V7"
    for kind in numbers.split():
        name = kind.replace("<", "little ").replace(">", "big ").replace("?", "bool")
        file.create_dataset(name, (2, 3), kind)
    file.create_dataset("long double", (2,), np.longdouble)
    deep = np.dtype([("x", "u1"), ("y", "<u4", (3, 2))])
    compounds = {
        "compound": np.dtype([("a", "<i2"), ("b", ">f8"), ("s", "S7"), ("n", deep, (2,))]),
        "aligned": np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True),
        "wide": np.dtype([(f"field {n:03}", "<i2") for n in range(300)]),
        "array": np.dtype(("<i4", (2, 3))),
    }
    for name, dtype in compounds.items():
        file.create_dataset(name, (3,), dtype)
    special = {
        "enum": h5py.enum_dtype({"RED": 0, "a name of twenty-one": 42}, "i4"),
        "big enum": h5py.enum_dtype({"A": 0, "B": 300}, ">u2"),
        "sequence": h5py.vlen_dtype("<i4"),
        "sequences": h5py.vlen_dtype(h5py.vlen_dtype(">f8")),
        "text": h5py.string_dtype(),
        "ascii": h5py.string_dtype("ascii"),
        "utf-8": h5py.string_dtype("utf-8", 7),
        "reference": h5py.ref_dtype,
        "region": h5py.regionref_dtype,
        "time": h5py.opaque_dtype(np.dtype("M8[us]")),
    }
    for name, dtype in special.items():
        file.create_dataset(name, (3,), dtype)
    for padding in (h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD):
        text = h5t.C_S1.copy()
        text.set_size(9)
        text.set_strpad(padding)
        raw(file, f"padding {padding}", text, (4,))
    for name in ("STD_B8LE", "STD_B16BE", "UNIX_D32LE", "UNIX_D64BE"):
        raw(file, name, getattr(h5t, name), (3,))
    odd = h5t.STD_I32LE.copy()
    odd.set_precision(17)
    odd.set_offset(5)
    raw(file, "17 bits", odd, (3,))
    odd = h5t.IEEE_F32BE.copy()
    odd.set_fields(31, 23, 8, 0, 23)
    odd.set_ebias(100)
    raw(file, "another bias", odd, (3,))
    file["scalar"] = 3.5
    file["null"] = h5py.Empty("f4")
    file.create_dataset("no rows", (0, 3), "f4")


def attributes(file: Any) -> None:
    file["type"] = np.dtype("<i8")
    for holder in (file, file.create_dataset("x", (3,), "f4"), file.create_group("group")):
        values = holder.attrs
        values["number"], values["array"] = np.int32(5), np.arange(4.0)
        values["text"], values["bytes"] = "h\xe9llo", np.bytes_("bytes")
        values["empty"], values["bool"] = h5py.Empty("f4"), True
        values["compound"] = np.zeros(2, [("a", "<i2"), ("b", ">f4")])
        values["matrix"] = np.arange(6, dtype=">i2").reshape(2, 3)
        values.create("committed", np.arange(2), dtype=file["type"])
    file.attrs["large"] = np.zeros(7000)


def many_attributes(file: Any) -> None:
    for tracks in (False, True):
        made = file.create_group(f"group {tracks}", track_order=tracks)
        for number in range(300):
            made.attrs[f"attribute {number}"] = number if number % 3 else f"text {number}"
    if file.libver[0] != "earliest":
        for number in range(12):  # in a heap, and too large for its blocks
            file.attrs[f"large {number}"] = np.full(20_000, number, "f8")


def links(file: Any) -> None:
    file.create_group("a/b/c")
    file["soft"], file["gone"] = h5py.SoftLink("/a/b"), h5py.SoftLink("/no/such")
    file["external"] = h5py.ExternalLink("other file.h5", "/object")
    file["a/b/cycle"], file["hard"] = file["a"], file["a"]
    file["type"] = np.dtype([("a", "i4")])
    file["h\xe9"] = h5py.SoftLink("/a")


def many_links(file: Any) -> None:
    for tracks in (False, True):
        made = file.create_group(f"group {tracks}", track_order=tracks)
        for number in range(800):
            made.create_group(f"child of a long name {number:05}")
    for number in range(0, 800, 3):
        del file[f"group False/child of a long name {number:05}"]


def committed(file: Any) -> None:
    kinds = {"number": np.dtype(">i4"), "text": h5py.string_dtype()}
    for name, dtype in kinds.items():
        file[f"types/{name}"] = dtype
        made = file.create_dataset(name, (4,), dtype=file[f"types/{name}"])
        made.attrs["where"] = name


def fill_values(file: Any) -> None:
    file.create_dataset("number", (10,), "<i4", fillvalue=7)
    file.create_dataset("chunks", (10,), ">f8", chunks=(3,), fillvalue=-1.5)
    file.create_dataset("default", (10,), "<i4")
    file.create_dataset("text", (10,), "S4", fillvalue=b"ab")
    for time in (h5d.FILL_TIME_ALLOC, h5d.FILL_TIME_NEVER, h5d.FILL_TIME_IFSET):
        plist = chunked(4, early=True)
        plist.set_fill_time(time)
        raw(file, f"time {time}", h5t.STD_I32LE, (10,), plist=plist)


def filters(file: Any) -> None:
    data = np.arange(1000, dtype="<i4")
    for number, options in enumerate(
        (
            {"compression": "gzip", "compression_opts": 7},
            {"compression": "lzf", "shuffle": True},
            {"fletcher32": True, "shuffle": True, "compression": "gzip"},
            {"scaleoffset": 4},
        )
    ):
        file.create_dataset(f"filters {number}", data=data, chunks=(100,), **options)
    masked = file.create_dataset("masked", (1000,), "<i4", chunks=(100,), compression="gzip")
    masked.id.write_direct_chunk((0,), b"\1" * 400, filter_mask=1)
    masked[500:600] = 1


def layouts(file: Any) -> None:
    data = np.arange(1000, dtype="<i4")
    compact = h5p.create(h5p.DATASET_CREATE)
    compact.set_layout(h5d.COMPACT)
    raw(file, "compact", h5t.STD_I32LE, (10,), plist=compact)[:] = data[:10]
    file["contiguous"] = data
    file.create_dataset("never written", (10,), "f4")
    file.create_dataset("no chunks", (10,), "f4", chunks=(3,))
    file.create_dataset("edges", data=np.arange(35).reshape(5, 7), chunks=(2, 3))
    file.create_dataset("external", (100,), "<i4", external=[("a.bin", 8, 100), ("b.bin", 0, 400)])
    raw(file, "implicit", h5t.STD_I32LE, (100, 50), plist=chunked(10, 7, early=True))
    for name, options in {"plain": {}, "gzip": {"compression": "gzip"}}.items():
        made = file.create_group(name).create_dataset
        made("one", data=data, chunks=(1000,), **options)
        made("fixed", data=data, chunks=(10,), **options)
        made("pages", data=np.arange(5000), chunks=(2,), **options)
        sparse = made("sparse", (50_000,), "f4", chunks=(2,), **options)
        sparse[7], sparse[30_001], sparse[49_999] = 1, 2, 3
        made("extensible", data=data, chunks=(10,), maxshape=(None,), **options)
        made("long", data=np.arange(9000, dtype="i2"), chunks=(2,), maxshape=(None,), **options)
        grid = np.arange(2000).reshape(50, 40)
        made("tree", data=grid, chunks=(5, 8), maxshape=(None, None), **options)
        made("bounded", data=grid, chunks=(5, 8), maxshape=(70, 90), **options)
        made("shrunk", data=data, chunks=(10,), maxshape=(None,), **options).resize((333,))
    if file.libver[0] != "earliest":
        plist = chunked(10, gzip=True, plain_edges=True)
        raw(file, "plain edges", h5t.STD_I32LE, (1005,), plist=plist)[:] = 3


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((4, 100), "<i4")
    for number in range(4):
        layout[number] = h5py.VirtualSource(f"source {number}.h5", "data", (100,))
    file.create_virtual_dataset("stack", layout, fillvalue=-1)
    file["source"] = np.arange(100, dtype="<i4")
    layout = h5py.VirtualLayout((100,), "<i4")
    layout[10:60:2] = h5py.VirtualSource(".", "/source", (100,))[0:25]
    file.create_virtual_dataset("steps", layout)


def small(file: Any) -> None:
    file.create_dataset("g/d", data=np.arange(100), chunks=(7,), maxshape=(None,))
    file["g/c"] = np.arange(9)
    file.attrs["text"] = ["a", "b"]


def shared(file: Any) -> None:
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    for number in range(60):
        made = file.create_dataset(f"x{number}", (4,), dtype, chunks=(2,), compression="gzip")
        made.attrs["text"] = "x" * 90


STRUCTURES: tuple[Callable[[Any], None], ...] = (
    types, attributes, many_attributes, links, many_links, committed, fill_values, filters,
    layouts, virtual, small,
)  # fmt: skip


def _shares(plist: Any) -> None:
    LIBHDF5.H5Pset_shared_mesg_nindexes.argtypes = [ctypes.c_int64, ctypes.c_uint]
    LIBHDF5.H5Pset_shared_mesg_index.argtypes = [ctypes.c_int64, *[ctypes.c_uint] * 3]
    assert LIBHDF5.H5Pset_shared_mesg_nindexes(plist.id, 1) >= 0
    assert LIBHDF5.H5Pset_shared_mesg_index(plist.id, 0, 0x1F, 40) >= 0


def _short_addresses(plist: Any) -> None:
    plist.set_sizes(4, 8)


def _small_nodes(plist: Any) -> None:
    LIBHDF5.H5Pset_sym_k.argtypes = [ctypes.c_int64, ctypes.c_uint, ctypes.c_uint]
    assert LIBHDF5.H5Pset_sym_k(plist.id, 2, 2) >= 0


#: What a whole file is made with, and what it is filled with.
FORMS: dict[str, tuple[Callable[[Any], None], Callable[[Any], None]]] = {
    "user block": (lambda plist: plist.set_userblock(4096), small),
    "shared messages": (_shares, shared),
    "short addresses": (_short_addresses, layouts),
    "small nodes": (_small_nodes, many_links),
}


def written(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name, file) of every structure in every form that has it."""
    for version, libver in LIBVERS.items():
        for fill in STRUCTURES:
            if (fill, version) == (virtual, "earliest"):
                continue
            path = folder / f"{fill.__name__} {version}.h5"
            with h5py.File(path, "w", libver=libver) as file:
                fill(file)
            yield path.stem, path
        for name, (prepare, fill) in FORMS.items():
            creation, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
            prepare(creation)
            low = {"earliest": h5f.LIBVER_EARLIEST, "v110": h5f.LIBVER_V110}
            lowest = low.get(version, h5f.LIBVER_LATEST)
            access.set_libver_bounds(lowest, max(lowest, h5f.LIBVER_V18))
            path = folder / f"{name} {version}.h5"
            made = h5f.create(str(path).encode(), h5f.ACC_TRUNC, creation, access)
            with h5py.File(made) as file:
                fill(file)
            yield path.stem, path
