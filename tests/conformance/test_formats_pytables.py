"""PyTables' own datasets equal what PyTables gives.

1. Array, CArray, EArray and Table with every atom and complib of the fast path.
2. Columns, nested ones too, with the `field` option.
3. What needs PyTables itself (Time64) goes through it and gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from elements import smooth, values
from oracle import either, fast, h5py_read, pytables_read, slow, streamed

COMPLIBS = [
    "zlib",
    *(f"blosc:{name}" for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")),
    *(f"blosc2:{name}" for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")),
]

ATOMS = [
    "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?", "S1", "S9",
]  # fmt: skip


def filters(complib: str | None, level: int = 5, **options: Any) -> tables.Filters:
    if complib is None:
        return tables.Filters(complevel=0, **options)
    return tables.Filters(complib=complib, complevel=level, **options)


@pytest.mark.parametrize("name", ATOMS)
def test_every_atom_in_every_array(h5: Path, name: str) -> None:
    dtype = np.dtype(name)
    data = values(dtype, (53, 7))
    atom = tables.Atom.from_dtype(dtype)
    with tables.open_file(str(h5), "w") as file:
        file.create_array("/", "array", data)
        file.create_carray("/", "carray", atom, data.shape, chunkshape=(10, 3))[...] = data
        earray = file.create_earray("/", "earray", atom, (0, 7), filters=filters("zlib"))
        earray.append(data)
    for node in ("array", "carray", "earray"):
        fast(h5, f"/{node}", pytables_read, n_procs=1)


@pytest.mark.parametrize("name", ["i2", "i4", "f4", "f8", "c16"])
def test_big_endian_arrays(h5: Path, name: str) -> None:
    """PyTables hands arrays out in native order; the stored bytes are the file's, as in h5py."""
    data = values(np.dtype(name).newbyteorder(">"), (53, 7))
    with tables.open_file(str(h5), "w") as file:
        file.create_array("/", "array", data)
        atom = tables.Atom.from_dtype(np.dtype(name))
        carray = file.create_carray(
            "/", "carray", atom, data.shape, byteorder="big", filters=filters("blosc:lz4")
        )
        carray[...] = data
    fast(h5, "/array", h5py_read)
    fast(h5, "/carray", h5py_read)


@pytest.mark.parametrize("complib", COMPLIBS)
@pytest.mark.parametrize("level", [1, 6])
def test_complibs_of_arrays(h5: Path, complib: str, level: int) -> None:
    data = smooth((400, 300), "<f8")
    noise = values(np.dtype("<f4"), (5000,))
    with tables.open_file(str(h5), "w") as file:
        atom = tables.Float64Atom()
        made = file.create_earray("/", "x", atom, (0, 300), filters=filters(complib, level))
        made.append(data)
        file.create_carray("/", "noise", obj=noise, filters=filters(complib, level))
    fast(h5, "/x", data)
    fast(h5, "/noise", noise)


@pytest.mark.parametrize("complib", COMPLIBS)
@pytest.mark.parametrize("shuffle", ["none", "shuffle", "bitshuffle"])
@pytest.mark.parametrize("fletcher32", [False, True])
def test_shuffles_and_checksums(h5: Path, complib: str, shuffle: str, fletcher32: bool) -> None:
    if shuffle == "bitshuffle" and complib == "zlib":
        pytest.skip("PyTables has bitshuffle in blosc only")
    options = filters(
        complib,
        shuffle=shuffle == "shuffle",
        bitshuffle=shuffle == "bitshuffle",
        fletcher32=fletcher32,
    )
    data = smooth((77, 33), "<i4")
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", obj=data, chunkshape=(20, 10), filters=options)
        file.create_earray("/", "y", obj=data[:, 0].copy(), chunkshape=(20,), filters=options)
    fast(h5, "/x", data)
    fast(h5, "/y", data[:, 0].copy())


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


def particles(count: int) -> np.ndarray:
    dtype = tables.description.dtype_from_descr(Particle)
    rows = values(dtype, (count,))
    rows["color"] = np.where(np.arange(count) % 2, 1, 7)
    return rows


@pytest.mark.parametrize("complib", [None, *COMPLIBS])
def test_tables(h5: Path, complib: str | None) -> None:
    with tables.open_file(str(h5), "w") as file:
        made = file.create_table(
            "/", "x", Particle, filters=filters(complib, fletcher32=True), chunkshape=(30,)
        )
        made.append(particles(500))
    fast(h5, "/x", pytables_read)
    fast(h5, "/x", pytables_read, block_size=77)


def test_tables_in_big_endian(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        made = file.create_table("/", "x", Particle, byteorder="big", filters=filters("zlib"))
        made.append(particles(500))
    native = pytables_read(h5, "/x")
    want = native.dtype.newbyteorder(">").descr
    at = next(number for number, field in enumerate(want) if field[0] == "when")
    want[at] = ("when", "<i4")  # PyTables writes times in the machine's order, whatever was asked
    for name in native.dtype.names or ():
        if name != "half":  # PyTables labels its float16 as big-endian, and writes little-endian
            column = native[name].astype(np.dtype(want)[name].base)
            fast(h5, "/x", column, field=name, n_procs=1)


@pytest.mark.parametrize("complib", [None, "blosc2:lz4", "zlib"])
def test_every_column(h5: Path, complib: str | None) -> None:
    with tables.open_file(str(h5), "w") as file:
        made = file.create_table("/", "x", Particle, filters=filters(complib), chunkshape=(30,))
        made.append(particles(200))
        names = [name for name in made.colpathnames if name != "color"]
    for name in [*names, "nested", "nested/more"]:
        want: np.ndarray = pytables_read(h5, "/x")
        for part in name.split("/"):
            want = want[part]
        fast(h5, "/x", np.ascontiguousarray(want), field=name, n_procs=1)
    fast(h5, "/x", pytables_read(h5, "/x", "color"), field="color")


def test_a_table_with_time64(h5: Path) -> None:
    """Only PyTables knows how it stores them."""
    dtype = np.dtype([("when", "f8"), ("n", "i4"), ("whens", "f8", (3,))])
    rows = values(np.dtype([("when", "f8"), ("n", "i4"), ("whens", "f8", (3,))]), (100,))
    rows["when"] = np.arange(100) * 1.25 + 1e9
    rows["whens"] = np.arange(300).reshape(100, 3) * 0.5
    kinds = {
        "when": tables.Time64Col(pos=0),
        "n": tables.Int32Col(pos=1),
        "whens": tables.Time64Col(shape=(3,), pos=2),
    }
    with tables.open_file(str(h5), "w") as file:
        made = file.create_table("/", "x", kinds, filters=filters("blosc:lz4"), chunkshape=(30,))
        made.append(rows)
    assert rows.dtype == dtype
    assert "Time64" in slow(h5, "/x", pytables_read)
    slow(h5, "/x", pytables_read(h5, "/x", "when"), field="when")
    fast(h5, "/x", pytables_read(h5, "/x", "n"), field="n")


def test_arrays_of_time(h5: Path) -> None:
    seconds = np.arange(40) * 2.5 + 1e9
    with tables.open_file(str(h5), "w") as file:
        file.create_earray("/", "exact", tables.Time64Atom(), (0,)).append(seconds)
        file.create_earray("/", "whole", tables.Time32Atom(), (0,)).append(seconds.astype("i4"))
        file.create_carray("/", "c", tables.Time64Atom(), (40,))[...] = seconds
    slow(h5, "/exact", seconds)
    slow(h5, "/c", seconds)
    fast(h5, "/whole", seconds.astype("i4"))


@pytest.mark.parametrize("complib", ["lzo", "bzip2"])
def test_complibs_of_pytables_only(h5: Path, complib: str) -> None:
    if tables.which_lib_version(complib) is None:
        pytest.skip(f"this PyTables was built without {complib}")
    data = smooth((300, 30))
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", obj=data, filters=filters(complib), chunkshape=(50, 30))
    assert complib in slow(h5, "/x", data)


def test_a_carray_partly_written(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        atom = tables.Int32Atom(dflt=9)
        made = file.create_carray("/", "x", atom, (50, 12), chunkshape=(8, 5))
        made[20:23] = 4
        file.create_carray("/", "never", atom, (50, 12), filters=filters("blosc:lz4"))
    fast(h5, "/x", pytables_read)
    fast(h5, "/never", np.full((50, 12), 9, "<i4"))


def test_empty_tables_and_earrays(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        file.create_earray("/", "e", tables.Float64Atom(), (0, 3), chunkshape=(16, 3))
        file.create_table("/", "t", Particle, chunkshape=(30,))
    for name, size in (("e", 16), ("t", 30)):
        got, statistics = streamed(h5, f"/{name}")
        assert got is None
        assert statistics["block_size"] == size
        assert statistics["blocks_total"] == 0


def test_an_earray_that_grows_in_another_dim(h5: Path) -> None:
    """Rows are the outer dim, whichever dim is extendable."""
    with tables.open_file(str(h5), "w") as file:
        made = file.create_earray("/", "x", tables.Int16Atom(), (6, 0), chunkshape=(4, 10))
        made.append(smooth((6, 33), "<i2"))
    fast(h5, "/x", smooth((6, 33), "<i2"))


def test_a_file_that_pytables_holds_open(h5: Path) -> None:
    """A reader elsewhere does not disturb."""
    data = smooth((30, 4))
    with tables.open_file(str(h5), "w") as file:
        file.create_array("/", "x", data)
    with tables.open_file(str(h5), "r"):
        either(h5, "/x", data)


@pytest.mark.parametrize("kind", ["vlarray", "object", "string"])
def test_ragged_rows_are_refused(h5: Path, kind: str) -> None:
    import multitables

    with tables.open_file(str(h5), "w") as file:
        atom = {
            "vlarray": tables.Int32Atom(),
            "object": tables.ObjectAtom(),
            "string": tables.VLStringAtom(),
        }[kind]
        made = file.create_vlarray("/", "x", atom)
        made.append(b"abc" if kind == "string" else [1, 2, 3])
    with pytest.raises(multitables.UnsupportedDatasetError, match="/x"):
        multitables.Streamer(h5).get_queue("/x")
