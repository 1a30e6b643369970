"""The table of datasets: how each is stored, who reads it, and what refuses it.

Law
---
1. A function of `FILES` writes one file, by h5py or PyTables, and yields its rows of the table.
2. What a row must equal is not said here: its oracle reads it (see `oracle`).
3. `by` is "" where the core must read it, a part of the reason where a library must, and None
   where either may.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from elements import DEEP, ENUM, FAST, array_of, smooth, values
from h5py import h5d, h5p, h5s, h5t, h5z
from oracle import h5py_read

from multitables import Reader, Streamer

Oracle = Callable[[Path, str], np.ndarray]
Build = Callable[[Path], Iterator["Dataset"]]
Prepare = Callable[[Any], object]
FACES = (Streamer, Reader)


@dataclass(frozen=True)
class Dataset:
    """One dataset of a file, or one column of it."""

    path: str
    by: str | None = ""
    oracle: Oracle | np.ndarray = h5py_read
    #: The names that lead to a column.
    field: tuple[str, ...] = ()
    #: Streamer or Reader -> the error that it must give.
    refused: dict[type, type[Exception]] = dataclasses.field(default_factory=dict)
    #: Why no library is made to read what the core can, or "".
    not_by_library: str = ""

    def __str__(self) -> str:
        return ":".join((self.path, *self.field))

    def wanted(self, path: Path) -> np.ndarray | None:
        """The rows that it must give; None where no entry point may give any."""
        if len(self.refused) == len(FACES):
            return None
        if isinstance(self.oracle, np.ndarray):
            return self.oracle
        rows = self.oracle(path, self.path)
        for name in self.field:
            rows = rows[name]
        return rows


#: Name -> what writes the file.
FILES: dict[str, Build] = {}
#: Files whose rows no library is made to read: HDF5 does there what it does in another file.
WITHOUT_FALLBACK: set[str] = set()


def table(*variants: Any, fallback: bool = True) -> Callable[[Any], Any]:
    """Put a file into the table, or one for each variant, which is the second argument."""

    def add(build: Callable[..., Iterator[Dataset]]) -> Callable[..., Iterator[Dataset]]:
        made = {f"{build.__name__} {v}": functools.partial(build, variant=v) for v in variants}
        FILES.update(made or {build.__name__: build})
        if not fallback:
            WITHOUT_FALLBACK.update(made or {build.__name__})
        return build

    return add


def paths(dtype: np.dtype) -> Iterator[tuple[str, ...]]:
    """The names that lead to each field, also through arrays."""
    while dtype.subdtype is not None:
        dtype = dtype.base
    for name in dtype.names or ():
        yield (name,)
        yield from ((name, *rest) for rest in paths(dtype[name]))


def columns(dataset: Dataset, dtype: np.dtype) -> Iterator[Dataset]:
    """A dataset, and each of its columns at any depth; either may read those inside arrays."""
    yield dataset
    for names in paths(dtype):
        around, by = dtype, dataset.by
        for name in names:
            while around.subdtype is not None:
                around, by = around.base, None
            around = around[name]
        yield replace(dataset, field=names, by=by)


# ---- how h5py's datasets are made

LAYOUTS = ("contiguous", "compact", "chunked", "compressed")


def blosc(made: Any) -> Prepare:
    return lambda plist: plist.set_filter(made.filter_id, h5z.FLAG_OPTIONAL, made.filter_options)


FILTERS: dict[str, Prepare] = {
    "deflate": lambda plist: plist.set_deflate(4),
    "shuffle": lambda plist: plist.set_shuffle(),
    "fletcher32": lambda plist: plist.set_fletcher32(),
    "blosc": blosc(hdf5plugin.Blosc("lz4")),
    "blosc2": blosc(hdf5plugin.Blosc2("lz4")),
}


def prepared(layout: str, chunks: tuple[int, ...]) -> list[Prepare]:
    """What makes a layout of LAYOUTS."""
    if layout == "contiguous":
        return []
    if layout == "compact":
        return [lambda plist: plist.set_layout(h5d.COMPACT)]
    names = ("shuffle", "deflate", "fletcher32") if layout == "compressed" else ()
    return [chunked(chunks), *(FILTERS[name] for name in names)]


def chunked(chunks: tuple[int, ...]) -> Prepare:
    return lambda plist: plist.set_chunk(chunks)


def create(
    file: h5py.File, name: str, kind: Any, shape: tuple[int, ...], *prepare: Prepare, **options: Any
) -> h5py.Dataset:
    """A dataset by HDF5's own calls: `kind` is stored as it is, filters come in this order."""
    plist = h5p.create(h5p.DATASET_CREATE)
    for change in prepare:
        change(plist)
    if not isinstance(kind, h5t.TypeID):
        kind = h5t.py_create(kind, logical=True)
    space = h5s.create_simple(shape, options.get("maxshape", shape))
    return h5py.Dataset(h5d.create(file.id, name.encode(), kind, space, plist))


def write(made: h5py.Dataset, data: np.ndarray) -> Dataset:
    """Stores bytes as they are, without a conversion."""
    stored = np.frombuffer(data.tobytes(), np.uint8)
    made.id.write(h5s.ALL, h5s.ALL, stored, made.id.get_type())
    return Dataset(str(made.name))


def add(file: h5py.File, name: str, data: np.ndarray, **options: Any) -> Dataset:
    file.create_dataset(name, data=data, **options)
    return Dataset(f"/{name}")


# ---- elements


@table("chunked")
@table("contiguous", "compact", "compressed", fallback=False)
def elements(path: Path, variant: str) -> Iterator[Dataset]:
    """Every element type of the fast path, and the columns of those that have some."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, dtype in {**FAST, "enum": ENUM}.items():
            made = create(file, name, dtype, (37, 11), *prepared(variant, (7, 5)))
            yield write(made, values(dtype, (37, 11), variant))
            if dtype.names or name in ("<f4", "S7"):
                made = create(file, f"{name} line", dtype, (93,), *prepared(variant, (10,)))
                rows = columns(write(made, values(dtype, (93,), variant)), dtype)
                yield from rows if variant == "chunked" else itertools.islice(rows, 1)
        made = create(file, "cube", np.dtype(">i2"), (40, 2, 5), *prepared(variant, (7, 2, 3)))
        yield write(made, smooth((40, 2, 5), ">i2"))


@table()
def columns_of_many_dims(path: Path) -> Iterator[Dataset]:
    wide = np.dtype([(f"f{number}", dtype) for number, dtype in enumerate(FAST.values())])
    with h5py.File(path, "w") as file:
        for name in ("compound", "nested", "padded"):
            made = add(file, name, values(FAST[name], (37, 3)), chunks=(7, 2), compression="gzip")
            yield from columns(made, FAST[name])
        made = add(file, "wide", values(wide, (93,)), chunks=(10,), compression="gzip")
        yield from (replace(made, field=names) for names in [(), *((n,) for n in wide.names or ())])
        # NaNs with a payload, which they keep, and both zeros.
        bits = np.array([0x7FF8000000000001, 0xFFF0000000000002, 1 << 63, 0] * 10, "<u8")
        yield add(file, "NaN", bits.view("<f8"), chunks=(8,))


ARRAYS = {
    "pairs": array_of("<i2", (2, 4)),
    "numbers": array_of(">i4", (4,), (6, 3)),
    "strings": array_of("S5", (2,), (3,)),
    "bools": array_of("?", (2, 2), (1,), (3,)),
    "complex": array_of("<c16", (1,), (2,)),
    "compounds": array_of([("i", "<i4"), ("f", ">f4")], (4,)),
    "deep": array_of(DEEP, (2,), (3,)),
}


@table("compressed")
@table("contiguous", "chunked", fallback=False)
def elements_that_are_arrays(path: Path, variant: str) -> Iterator[Dataset]:
    """Arrays of arrays and of compounds: their dims follow the dataset's."""
    with h5py.File(path, "w") as file:
        for name, dtype in ARRAYS.items():
            made = create(file, name, dtype, (31, 2), *prepared(variant, (10, 1)))
            rows = columns(write(made, values(dtype, (31, 2))), dtype)
            yield from rows if variant == "compressed" else itertools.islice(rows, 1)


@table()
def padded_strings(path: Path) -> Iterator[Dataset]:
    """Fixed strings as other programs write them: what follows the end is not for the user."""
    lines = np.tile(np.frombuffer(b"abc\0xxab          abcdef\0zzzzza b   ", "S6"), 9)
    words = np.tile(np.frombuffer(b"ab\0ya       wxyz\0\0 q a  ", "S4"), 27).reshape(54, 3)
    memory = {"names": ["n", "s"], "formats": [">i2", ("S4", (3,))], "offsets": [1, 4]}
    inside = np.zeros(54, np.dtype({**memory, "itemsize": 20}))
    inside["n"], inside["s"] = np.arange(54), words
    paddings = {"term": h5t.STR_NULLTERM, "pad": h5t.STR_NULLPAD, "space": h5t.STR_SPACEPAD}
    with h5py.File(path, "w") as file:
        for (name, padding), layout in itertools.product(paddings.items(), LAYOUTS):
            line, word = h5t.C_S1.copy(), h5t.C_S1.copy()
            for string, size in ((line, 6), (word, 4)):
                string.set_size(size)
                string.set_strpad(padding)
            kind = h5t.create(h5t.COMPOUND, 20)
            kind.insert(b"n", 1, h5t.STD_I16BE)
            kind.insert(b"s", 4, h5t.array_create(word, (3,)))
            how = prepared(layout, (10,))
            title = f"{name} {layout}"
            yield write(create(file, title, line, (len(lines),), *how), lines)
            made = write(create(file, f"{title} inside", kind, (54,), *how), inside)
            yield from columns(made, inside.dtype)
            if layout == "contiguous":
                kind = h5t.array_create(h5t.array_create(kind, (3,)), (3,))
                made = write(create(file, f"{title} deep", kind, (6,)), inside)
                yield from (made, replace(made, field=("s",), by=None))


# ---- shapes, chunks and holes

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
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
    ((50, 20), (1, 20)),
    ((9, 8, 7), (2, 3, 4)),
    ((9, 8, 7), (2, 8, 4)),
    ((9, 8, 7), (2, 3, 7)),
    ((9, 8, 7), (4, 8, 7)),
    ((5, 4, 3, 2, 6), (2, 3, 2, 1, 4)),
    ((700, 9, 10), (300, 4, 3)),
    ((3, 2, 2, 2, 2, 2, 2, 2), (2, 1, 2, 1, 2, 1, 2, 1)),
]


@table("contiguous", "chunked", "compressed")
def shapes(path: Path, variant: str) -> Iterator[Dataset]:
    """Chunks that do not span the inner dims, partial edges, single chunks, many dims, no rows."""
    with h5py.File(path, "w") as file:
        for number, (shape, chunks) in enumerate(SHAPES):
            made = create(file, f"{number}", np.dtype("<i4"), shape, *prepared(variant, chunks))
            yield write(made, smooth(shape))
        for shape, chunks in (((5, 0), (2, 3)), ((0, 4), (5, 4)), ((50, 0, 2), (20, 3, 1))):
            name = "x".join(map(str, shape))
            create(
                file,
                name,
                np.dtype("<i4"),
                shape,
                *prepared(variant, chunks),
                maxshape=tuple(h5s.UNLIMITED if variant != "contiguous" else n for n in shape),
            )
            yield Dataset(f"/{name}")


@table(None, "gzip", fallback=False)  # h5py takes seconds for each request
def chunks_with_little_of_many_rows(path: Path, variant: str | None) -> Iterator[Dataset]:
    shapes: list[tuple[tuple[int, ...], Any]] = [
        ((4000, 16, 16, 3), True),  # h5py's own choice has few bytes of many rows
        ((4000, 16, 16, 3), (1500, 4, 4, 1)),  # beside each other they are more than wait at once
        ((3000, 9, 10, 3), (700, 4, 4, 2)),
        ((30_000, 64), (9000, 2)),
        ((700, 40, 60), (300, 39, 7)),
    ]
    with h5py.File(path, "w") as file:
        for number, (shape, chunks) in enumerate(shapes):
            yield add(file, f"{number}", smooth(shape, "u1"), chunks=chunks, compression=variant)


@table()
def rows_of_many_bytes(path: Path) -> Iterator[Dataset]:
    """The kernel puts such rows where they belong, whole chunks at once where it can."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for chunks in (None, (7, 2500), (1, 2500), (7, 1000), (90, 2500)):
            rows = values(np.dtype("<i2"), (200, 2500))
            yield add(file, f"long {chunks}", rows, chunks=chunks)
            text = np.full(200, b"ab\0cd" + 5000 * b"e")
            yield add(file, f"text {chunks}", text, chunks=chunks and chunks[:1])
        for row_bytes in (500, 512, 1000, 4095):
            rows = values(np.dtype("u1"), (2000, row_bytes))
            yield add(file, f"{row_bytes}", rows, chunks=(20, row_bytes))
        yield add(file, "piece", smooth((5, 300_000)))
        yield add(file, "pieces", smooth((5, 300_000)), chunks=(1, 70_000))


@table(None, "gzip")
def fill_values(path: Path, variant: str | None) -> Iterator[Dataset]:
    """Chunks that were never stored, in every element type."""
    with h5py.File(path, "w") as file:
        for name in ("<i4", ">f2", "<c16", "bool", "S7", "compound", "nested"):
            dtype = FAST[name]
            fill = np.array(values(dtype, (1,), "fill")[0], dtype)
            holes: dict[str, Any] = {"dtype": dtype, "fillvalue": fill, "chunks": (8, 5)}
            holes["compression"] = variant
            made = file.create_dataset(name, (40, 12), **holes)
            made[9:11, 3:5] = values(dtype, (2, 2))
            made[39] = values(dtype, (12,))
            assert 0 < made.id.get_num_chunks() < 15
            yield Dataset(f"/{name}")
            file.create_dataset(f"{name} never", (40, 12), **holes)
            yield Dataset(f"/{name} never")
            file.create_dataset(f"{name} contiguous", (40, 12), dtype, fillvalue=fill)
            yield Dataset(f"/{name} contiguous")
            if dtype.names:
                line = {**holes, "chunks": (8,)}
                file.create_dataset(f"{name} line", (40,), **line)[9:11] = values(dtype, (2,))
                yield from columns(Dataset(f"/{name} line"), dtype)
        made = file.create_dataset(
            "resized", data=smooth((30, 10)), chunks=(8, 4), maxshape=(None, None),
            compression=variant, fillvalue=-5,
        )  # fmt: skip
        made.resize((17, 7))
        made.resize((29, 9))
        made[20, 3] = 77
        yield Dataset("/resized")


@table("earliest", "latest")
def chunk_indexes(path: Path, variant: str) -> Iterator[Dataset]:
    """Every kind that HDF5 has: of the latest also the implicit one, where `early`."""
    tile, whole, endless = (7, 5), (37, 11), h5s.UNLIMITED
    kinds: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "fixed": (tile, whole),
        "extensible": (tile, (endless, 11)),
        "tree": (tile, (endless, endless)),
        "single": (whole, whole),
    }
    changes: dict[str, list[Prepare]] = {
        "plain": [],
        "gzip": [FILTERS["deflate"]],
        "early": [lambda plist: plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)],
    }
    with h5py.File(path, "w", libver=variant) as file:
        for kind, name in itertools.product(kinds, changes):
            (chunks, limits), how = kinds[kind], changes[name]
            made = create(
                file,
                f"{kind} {name}",
                np.dtype("<i4"),
                whole,
                chunked(chunks),
                *how,
                maxshape=limits,
            )
            made[3:9] = smooth((6, 11))
            yield write(made, smooth(whole)) if name != "early" else Dataset(str(made.name))
        shape = (3, *[1] * 29, 2, 2)
        made = add(file, "the most dims", smooth(shape), chunks=(2, *[1] * 29, 2, 1))
        yield replace(made, not_by_library="libhdf5 dies of every second row, by SIGFPE")


@table()
def chunks_in_disorder(path: Path) -> Iterator[Dataset]:
    """Written in a random order, with other data between, and some rewritten; many small ones."""
    with h5py.File(path, "w") as file:
        made = file.create_dataset("scattered", (64, 16), "<i4", chunks=(4, 8), compression="gzip")
        order = np.random.default_rng(0).permutation(16)
        for number, at in enumerate(order):
            made[at * 4 : at * 4 + 4] = 0
            file.create_dataset(f"other{number}", data=np.arange(50))
        for at in order[::-1]:
            made[at * 4 : at * 4 + 4] = smooth((64, 16))[at * 4 : at * 4 + 4]
        yield Dataset("/scattered")
        yield add(file, "small", smooth((4000, 3)), chunks=(4, 3), compression="gzip")


@table(512, 4096, 1 << 16, fallback=False)
def user_blocks(path: Path, variant: int) -> Iterator[Dataset]:
    libver = "earliest" if variant == 512 else "latest"
    with h5py.File(path, "w", userblock_size=variant, libver=libver) as file:
        yield add(file, "contiguous", smooth((90, 7)))
        yield add(file, "chunked", smooth((90, 7)), chunks=(10, 3))
        yield add(file, "gzip", smooth((90, 7)), chunks=(10, 3), compression="gzip")
        yield add(file, "same", np.zeros((90, 7), "<i4"), chunks=(10, 3))
        yield add(file, "resizable", smooth((90, 7)), chunks=(10, 3), maxshape=(None, 7))
    with path.open("r+b") as raw:
        raw.write(b"a user block of somebody else".ljust(variant, b"#"))


@table()
def names(path: Path) -> Iterator[Dataset]:
    """Names as people choose them, paths as they write them, links."""
    other = path.with_name(f"other {path.name}")
    data = smooth((30, 4))
    with h5py.File(other, "w") as file:
        file.create_dataset("far", data=data, chunks=(7, 4), compression="gzip")
    with h5py.File(path, "w") as file:
        for name in ("ünïcode", "with space", "a/b/c", "-dash", "ends.h5", "x"):
            yield add(file, name, data + len(name), chunks=(7, 4), compression="gzip")
        yield from map(Dataset, ("x", "//x", "/./x", "/x/"))
        file["hard"] = file["a/b/c"]
        file["soft"] = h5py.SoftLink("/a/b/c")
        file["away"] = h5py.ExternalLink(other.name, "/far")
        yield from map(Dataset, ("/hard", "/soft"))
        yield Dataset("/away", by=None)
