"""The table's datasets that PyTables writes: arrays, tables and their columns.

Law: as in `datasets_of_files`. The oracle is PyTables, which gives native byte order: h5py where
the file has the other one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tables
from datasets_filters import CODECS
from datasets_of_files import Dataset, columns, table
from elements import smooth, values
from oracle import pytables_read

from multitables import Reader, Streamer, UnsupportedDatasetError

COMPLIBS = ["zlib", *(f"{lib}:{name}" for lib in ("blosc", "blosc2") for name in CODECS)]
ATOMS = [
    "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?", "S1", "S9",
]  # fmt: skip


def filters(complib: str | None, level: int = 5, **options: Any) -> tables.Filters:
    if complib is None:
        return tables.Filters(complevel=0, **options)
    return tables.Filters(complib=complib, complevel=level, **options)


def native(name: str, by: str | None = "") -> Dataset:
    return Dataset(f"/{name}", by, pytables_read)


@table()
def arrays_of_pytables(path: Path) -> Iterator[Dataset]:
    with tables.open_file(str(path), "w", user_block_size=1024) as file:
        for dtype in map(np.dtype, ATOMS):
            data, atom, name = values(dtype, (53, 7)), tables.Atom.from_dtype(dtype), dtype.str[1:]
            file.create_array("/", f"array_{name}", data)
            made = file.create_carray("/", f"carray_{name}", atom, data.shape, chunkshape=(10, 3))
            made[...] = data
            file.create_earray("/", f"earray_{name}", atom, (0, 7), filters=filters("zlib")).append(
                data
            )
            cut = "h5py ends PyTables' strings at the first NUL" if dtype == "S9" else ""
            for kind in ("array", "carray", "earray"):
                yield replace(native(f"{kind}_{name}"), not_by_library=cut)
        for name in ("i2", "i4", "f4", "f8", "c16"):
            data = values(np.dtype(f">{name}"), (53, 7))
            file.create_array("/", f"big_{name}", data)
            atom, lz4 = tables.Atom.from_dtype(np.dtype(name)), filters("blosc:lz4")
            made = file.create_carray(
                "/", f"cbig_{name}", atom, data.shape, byteorder="big", filters=lz4
            )
            made[...] = data
            yield from (Dataset(f"/big_{name}"), Dataset(f"/cbig_{name}"))
        atom = tables.Int32Atom(dflt=9)
        file.create_carray("/", "holes", atom, (50, 12), chunkshape=(8, 5))[20:23] = 4
        file.create_carray("/", "never", atom, (50, 12), filters=filters("blosc:lz4"))
        made = file.create_earray("/", "wide", tables.Int16Atom(), (6, 0), chunkshape=(4, 10))
        made.append(smooth((6, 33), "<i2"))
        file.create_earray("/", "nothing", tables.Float64Atom(), (0, 3), chunkshape=(16, 3))
        yield from map(native, ("holes", "never", "wide", "nothing"))


@table("blosc", "zlib")
@table("blosc2", fallback=False)
def complibs(path: Path, variant: str) -> Iterator[Dataset]:
    """Every compressor with every shuffle, checksummed or not."""
    shuffles: list[dict[str, bool]] = [{"shuffle": False}, {"shuffle": True}]
    if variant != "zlib":  # PyTables has bitshuffle in blosc only
        shuffles.append({"shuffle": False, "bitshuffle": True})
    with tables.open_file(str(path), "w") as file:
        count = itertools.count()
        for complib in (name for name in COMPLIBS if name.split(":")[0] == variant):
            for shuffle, checked in itertools.product(shuffles, (False, True)):
                data, options = smooth((77, 33)), filters(complib, **shuffle, fletcher32=checked)
                name = f"x{next(count)}"
                file.create_carray("/", name, obj=data, chunkshape=(20, 10), filters=options)
                yield native(name)
            names = [f"x{next(count)}" for _ in range(2)]
            made, noise = smooth((400, 300), "<f8"), values(np.dtype("<f4"), (5000,))
            file.create_earray("/", names[0], obj=made, filters=filters(complib, 1))
            file.create_carray("/", names[1], obj=noise, filters=filters(complib, 6))
            yield from map(native, names)


class Particle(tables.IsDescription):
    """Columns of all kinds."""

    name = tables.StringCol(7, pos=0)
    flag = tables.BoolCol(pos=1)
    small = tables.Int8Col(pos=2)
    half = tables.Float16Col(pos=3)
    vector = tables.Float64Col(shape=(2, 3), pos=4)
    flags = tables.BoolCol(shape=(5,), pos=5)
    wave = tables.ComplexCol(8, pos=6)
    when = tables.Time32Col(pos=7)
    color = tables.EnumCol({"red": 1, "blue": 7}, "red", base="uint16", pos=8)

    class nested(tables.IsDescription):  # noqa: N801 - PyTables takes the class's name
        """Columns inside a column."""

        _v_pos = 9
        deep = tables.UInt32Col(pos=0)
        words = tables.StringCol(3, shape=(2,), pos=1)

        class more(tables.IsDescription):  # noqa: N801
            """And again."""

            _v_pos = 2
            deepest = tables.Float32Col(pos=0)


@table()
def tables_of_pytables(path: Path) -> Iterator[Dataset]:
    dtype = tables.description.dtype_from_descr(Particle)
    rows = values(dtype, (500,))
    rows["color"] = np.where(np.arange(500) % 2, 1, 7)
    with tables.open_file(str(path), "w") as file:
        for number, complib in enumerate([None, *COMPLIBS]):
            options = filters(complib, fletcher32=True)
            made = file.create_table("/", f"t{number}", Particle, filters=options, chunkshape=(30,))
            made.append(rows)
            found = columns(native(f"t{number}"), dtype)
            yield from found if complib in (None, "blosc2:lz4") else itertools.islice(found, 1)
        file.create_table("/", "nothing", Particle, chunkshape=(30,))
        yield native("nothing")
        options = filters("zlib")
        big = file.create_table("/", "big", Particle, byteorder="big", filters=options)
        big.append(rows)
        for name in dtype.names or ():
            if name != "half":  # PyTables labels it as big-endian, and writes little-endian
                yield Dataset("/big", "", big_endian, (name,))


def big_endian(path: Path, name: str) -> np.ndarray:
    """PyTables writes times in the machine's order, whatever was asked for."""
    rows = pytables_read(path, name)
    names = rows.dtype.names or ()
    order = {name: rows.dtype[name].newbyteorder("<" if "when" in name else ">") for name in names}
    return rows.astype(list(order.items()))


@table()
def what_needs_pytables(path: Path) -> Iterator[Dataset]:
    """Times, of which h5py reads none, and what only PyTables has: LZO, and rows of its own."""
    rows = values(np.dtype([("when", "f8"), ("n", "i4"), ("whens", "f8", (3,))]), (100,))
    rows["when"] = np.arange(100) * 1.25 + 1e9
    rows["whens"] = np.arange(300).reshape(100, 3) * 0.5
    kinds = {
        "when": tables.Time64Col(pos=0),
        "n": tables.Int32Col(pos=1),
        "whens": tables.Time64Col(shape=(3,), pos=2),
    }
    seconds = np.arange(40) * 2.5 + 1e9
    with tables.open_file(str(path), "w") as file:
        options = filters("blosc:lz4")
        file.create_table("/", "t", kinds, filters=options, chunkshape=(30,)).append(rows)
        yield from columns(native("t"), np.dtype([("when", "f8"), ("whens", "f8")]))
        yield replace(native("t"), field=("n",))
        file.create_table("/", "big", kinds, byteorder="big").append(rows)
        yield Dataset("/big", "", big_endian)
        file.create_earray("/", "exact", tables.Time64Atom(), (0,)).append(seconds)
        file.create_carray("/", "c", tables.Time64Atom(), (40,))[...] = seconds
        file.create_earray("/", "whole", tables.Time32Atom(), (0,)).append(seconds.astype("i4"))
        yield from (native("exact"), native("c"), native("whole"))
        for complib in ("lzo", "bzip2"):
            if tables.which_lib_version(complib) is not None:
                options = filters(complib)
                file.create_carray("/", complib, obj=smooth((300, 30)), filters=options)
                yield native(complib, {"lzo": "lzo", "bzip2": ""}[complib])
        faces = (Streamer, Reader)
        both: dict[type, type[Exception]] = dict.fromkeys(faces, UnsupportedDatasetError)
        for name, atom, row, error in (
            ("vlarray", tables.Int32Atom(), [1, 2, 3], {}),
            ("object", tables.ObjectAtom(), [1, 2, 3], both),
            ("string", tables.VLStringAtom(), b"abc", both),
        ):
            ragged = file.create_vlarray("/", name, atom)
            for _ in range(12):
                ragged.append(row)
            heap = "readers resolve what elements name"
            yield replace(native(name, None), refused=error, not_by_library=heap)
