"""The fallback, called as a reader calls it.

Law
---
1. Runs in this process. The oracle is PyTables (h5py for what only h5py reads), and NumPy on what
   it read. The streams that use it are tested with their formats.
2. Every kind of key is read through both libraries; no more is read than is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from elements import values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keys import a_key
from oracle import same

from _multitables.index.datasets.source import open_source
from _multitables.reader import fallback
from _multitables.reader.box import boxed
from _multitables.select.normalize import LibraryCall, Refused, library_call, normalize
from _multitables.select.selection import DatasetInfo, Selection, frozen_key
from _multitables.wire.plan_bytes import rows_call
from _multitables.wire.request_bytes import encode_library, encode_rows, unpack_ragged

ROW = np.dtype(
    [("a", "<i4"), ("b", "<f8", (3, 2)), ("n", [("x", "<i2"), ("y", "S3")]), ("k", "<i8")]
)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    fallback.close_all()


def dataset(path: Path, name: str = "/x", library: str = "") -> Selection:
    """A dataset as a reader of the user's would describe it."""
    with open_source(path, {}) as source:
        kind, index, _ = source.describe(name)
        return Selection(
            DatasetInfo(
                index.filename,
                index.path,
                kind,
                index.shape,
                index.dtype.base,
                len(index.dims),
                library or index.kind.library,
                source.open_options,
                index.dtype.shape,
            )
        )


def answered(selection: Selection, room: int = 1 << 20) -> Any:
    """What a request would give."""
    found = normalize(selection)
    assert not isinstance(found, Refused), found.text
    call = library_call(selection)
    out = bytearray(room)
    n_bytes, shape = fallback.read(encode_library(call), None, memoryview(out))
    assert n_bytes <= room
    array = np.frombuffer(bytes(out[:n_bytes]), call.dtype).reshape(shape)
    if call.ragged:
        info = call.dataset
        return unpack_ragged(array, info.dtype, info.atom_shape)
    if call.shape is not None:
        assert tuple(shape) == call.shape
    return array


@pytest.fixture
def table(h5: Path) -> tuple[Path, np.ndarray]:
    rows = values(ROW, (300,))
    rows["a"] = np.random.default_rng(0).permutation(300)
    rows["k"] = rows["a"][::-1]
    rows["n"]["y"] = b"ab"  # h5py ends PyTables' strings at their first NUL
    with tables.open_file(str(h5), "w") as file:
        made = file.create_table("/", "x", rows, chunkshape=32, filters=tables.Filters(1, "zlib"))
        made.cols.a.create_csindex()
        made.flush()
        rows = made.read()
    return h5, rows


@pytest.mark.parametrize("library", ["h5py", "tables"])
def test_keys_on_a_table(table: tuple[Path, np.ndarray], library: str) -> None:
    path, rows = table
    d = dataset(path, library=library)
    mask = rows["a"] > 150
    for selection, want in (
        (d, rows),
        (d[...], rows),
        (d[30:35], rows[30:35]),
        (d[::-7], rows[::-7]),
        (d[-1], rows[-1]),
        (d[[7, 3, 3, -1]], rows[[7, 3, 3, -1]]),
        (d[[]], rows[:0]),
        (d[5:5], rows[:0]),
        (d[mask], rows[mask]),
        (d["b"][30:35, ..., 1], rows["b"][30:35, ..., 1]),
        (d["b"][[5, 1], :, ::-1], rows["b"][[5, 1], :, ::-1]),
        (d["n"]["x"][5], rows["n"]["x"][5]),
        (d[3:9]["n"]["y"], rows["n"]["y"][3:9]),
        (d["n/x"], rows["n"]["x"]),
        (d[5]["b"], rows[5]["b"]),
        (d[5:9][1][0], rows[6]["a"]),
        (d[["a", "b"]][4:6], rows[["a", "b"]][4:6]),
        (d.read(3, 50, 4, "a"), rows["a"][3:50:4]),
        (d.read_coordinates([5, 2], "b"), rows["b"][[5, 2]]),
        (d[None:][None, 2:4], rows[None, 2:4]),
    ):
        got = answered(selection)
        same(got, np.asarray(want, got.dtype))


def test_conditions_and_orders(table: tuple[Path, np.ndarray]) -> None:
    path, rows = table
    d = dataset(path)
    with tables.open_file(str(path)) as file:
        node = file.root.x
        per_row = np.arange(300)
        for selection, want in (
            (d.where("a > 250"), node.read_where("a > 250")),
            (d.where("a > limit", {"limit": 250}), node.read_where("a > 250")),
            (d.where("k > c", {"c": per_row}), node.read_where("k > c", {"c": per_row})),
            (
                d.where("a > 100", start=10, stop=100, step=3),
                node.read_where("a > 100", start=10, stop=100, step=3),
            ),
            (d.where("a < 0"), rows[:0]),
            (d.where("a > 250")["b"][:, 1], node.read_where("a > 250")["b"][:, 1]),
            (d.where("a > 250")["n/x"][::-1], node.read_where("a > 250")["n"]["x"][::-1]),
            (d.read_sorted("a"), rows[np.argsort(rows["a"])]),
            (d.read_sorted("a", True, "b", 3, 9), node.read_sorted("a", True, "b", 3, 9)),
            (d.read_sorted("a", step=-1), node.read_sorted("a", step=-1)),
        ):
            same(answered(selection), want)


def test_what_pytables_raises_is_left_as_it_is(table: tuple[Path, np.ndarray]) -> None:
    d = dataset(table[0])
    with pytest.raises(NameError, match="zz"):
        answered(d.where("zz > 1"))
    with pytest.raises(ValueError, match="index"):
        answered(d.read_sorted("b"))
    with pytest.raises(IndexError):
        answered(d.where("a > 100")[500])


@pytest.mark.parametrize("library", ["h5py", "tables"])
def test_keys_on_an_array(h5: Path, library: str) -> None:
    cube = values(np.dtype(">i4"), (20, 12, 7))
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", obj=cube, byteorder="big", chunkshape=(5, 4, 7))
    d = dataset(h5, library=library)
    points = ([1, 2, 1], [3, 0, 3], [-1, 2, -1])
    mask = cube > 0
    for selection, want in (
        (d[4:16:2, ...], cube[4:16:2]),
        (d[..., :3], cube[..., :3]),
        (d[mask], cube[mask]),
        (d[points], cube[points]),
        (d[:][:, np.arange(12) > 5], cube[:, 6:]),
        (d[:, [2, 0], 1], cube[:, [2, 0], 1]),
        (d[1, :, [5, 0]], cube[1, :, [5, 0]]),
        (d[[3, 3, 1]], cube[[3, 3, 1]]),
        (d[3:3, [0, 5]], cube[3:3, [0, 5]]),
        (d[:][[[0, 1], [2, 3]]], cube[[[0, 1], [2, 3]]]),
        (d[:][False], cube[False]),
        (d[1, 2, 3], cube[1, 2, 3]),
        (d.read(4), cube[4:5]),
    ):
        got = answered(selection)
        same(got, np.asarray(want, cube.dtype))


def test_the_same_ask_is_kept_for_a_larger_stage(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(1000)
    call = library_call(dataset(h5)[10:20])
    ask = encode_library(call)
    small, large = bytearray(b"\xff" * 79), bytearray(100)
    assert fallback.read(ask, None, memoryview(small)) == (80, [10])
    assert bytes(small) == b"\xff" * 79
    with monkeypatch.context() as patch:
        patch.setitem(fallback.METHODS, "getitem", lambda *_, **__: pytest.fail("read again"))
        assert fallback.read(ask, None, memoryview(large)) == (80, [10])
    assert bytes(large[:80]) == np.arange(10, 20).tobytes()
    assert fallback._too_large is None
    assert fallback.read(ask, None, memoryview(large)) == (80, [10])


def test_files_stay_open_while_they_are_the_same(h5: Path) -> None:
    names = [f"x{number}" for number in range(12)]
    with h5py.File(h5, "w") as file:
        for name in names:
            file[name] = np.arange(10)
    d = dataset(h5, "x0")
    answered(d[1:3])
    opened = next(iter(fallback._open.values()))
    answered(d[4:9])
    assert list(fallback._open.values()) == [opened]
    for name in names:
        answered(dataset(h5, name)[4:9])
    assert len(fallback._open) == fallback.MAX_OPEN
    fallback.close_all()
    answered(d[1:3])
    os.remove(h5)
    with h5py.File(h5, "w") as file:
        file["x0"] = np.arange(100, 200)
    np.testing.assert_array_equal(answered(d[1:3]), [101, 102])
    assert len(fallback._open) == 1


def test_what_pytables_cannot_open_is_read_by_h5py(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(10).astype(complex)
        file["e"] = np.arange(3).astype(h5py.enum_dtype({"A": 0, "B": 1, "C": 2}, "i8"))
        file.create_dataset("t", (3,), [("a", "i4"), ("s", h5py.string_dtype())])
    for name in ("/x", "/e"):
        with h5py.File(h5) as file:
            want = file[name][2:]
        np.testing.assert_array_equal(answered(dataset(h5, name, "tables")[2:]), want)
    info = DatasetInfo(str(h5), "/t", "table", (3,), np.dtype([("a", "<i4")]), 1, "tables")
    with pytest.raises(TypeError, match="not a table that PyTables"):
        answered(Selection(info).where("a > 1"))
    np.testing.assert_array_equal(answered(Selection(info)["a"][1:]), [0, 0])


def test_a_field_of_h5py_with_a_slash(h5: Path) -> None:
    rows = values(np.dtype([("a", "<i4"), ("p/q", "<f4", (2,)), ("n", [("u/v", "<i2")])]), (9,))
    with h5py.File(h5, "w") as file:
        file["x"] = rows
    d = dataset(h5)
    same(answered(d["p/q"][2:4, 1]), rows["p/q"][2:4, 1])
    same(answered(d["n"]["u/v"][::-1]), rows["n"]["u/v"][::-1])
    same(answered(d["n/u/v"][5]), rows["n"]["u/v"][5])


@pytest.mark.parametrize("maker", ["tables", "h5py"])
def test_ragged_rows(h5: Path, maker: str) -> None:
    rows = [np.arange(n, dtype="<i4") for n in (3, 0, 5, 1, 2, 4)]
    if maker == "tables":
        with tables.open_file(str(h5), "w") as file:
            ragged = file.create_vlarray("/", "x", tables.Int32Atom())
            for row in rows:
                ragged.append(row)
    else:
        with h5py.File(h5, "w") as file:
            made = file.create_dataset("x", (len(rows),), h5py.vlen_dtype(np.dtype("<i4")))
            for at, row in enumerate(rows):
                made[at] = row
    d = dataset(h5)
    same(answered(d[2]), rows[2])
    same(answered(d[-6]), rows[0])
    same(answered(d[1]), rows[1])
    same(answered(d[2][::-2]), rows[2][::-2])
    same(answered(d[2:5][0]), rows[2])
    same(answered(d[2:5][-1][1]), rows[4][1, ...])
    keys: list[Any] = [
        np.s_[2:5],
        np.s_[::-2],
        np.s_[4:2],
        [3, 0, 3, -1],
        np.array([row.size > 2 for row in rows]),
        ...,
        [],
    ]
    for key in keys:
        want = [
            rows[at] for at in np.arange(6)[np.array(key, int) if isinstance(key, list) else key]
        ]
        got = answered(d[key])
        assert isinstance(got, list)
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
    assert [len(row) for row in answered(d.read(1, 6, 2))] == [0, 1, 4]
    assert [len(row) for row in answered(d[1:][::-1][:2])] == [4, 2]


def test_ragged_rows_of_shaped_atoms(h5: Path) -> None:
    rows = [values(np.dtype("<f4"), (n, 2), n) for n in (3, 0, 2)]
    with tables.open_file(str(h5), "w") as file:
        ragged = file.create_vlarray("/", "x", tables.Float32Atom(shape=(2,)))
        for row in rows:
            ragged.append(row)
    d = dataset(h5)
    same(answered(d[0][:, 1]), rows[0][:, 1])
    for one, want in zip(answered(d[:]), rows, strict=True):
        same(one, want)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.data())
def test_what_a_library_reads_of_a_key(lengths: list[int], data: st.DataObject) -> None:
    shape = tuple(lengths)
    array = np.arange(int(np.prod(shape))).reshape(shape)
    key = frozen_key(data.draw(a_key(shape)))
    try:
        want = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            _ = read(array, boxed(key, shape, len(shape)))
        return
    n_dims = data.draw(st.integers(1, len(shape)))
    box, rest = boxed(key, shape, n_dims)
    assert len(box) == n_dims
    lists = [part for part in box if isinstance(part, np.ndarray)]
    assert len(lists) <= 1
    for part in lists:
        assert (np.diff(part) > 0).all()
    assert all((part.step or 1) > 0 for part in box if isinstance(part, slice))
    np.testing.assert_array_equal(read(array, (box, rest)), want)


def read(array: np.ndarray, parts: tuple[tuple[Any, ...], tuple[Any, ...]]) -> np.ndarray:
    box, rest = parts
    return array[box][rest]


def test_calls_have_no_selection(table: tuple[Path, np.ndarray]) -> None:
    call = library_call(dataset(table[0])[3:5]["a"])
    assert isinstance(call, LibraryCall)
    assert call.arguments["fields"] == ("a",)
    assert call.arguments["key"] == slice(3, 5)


# ---- rows of a stream ----------------------------------------------------------------------

NESTED = np.zeros(50, [("a", "<i4"), ("b", [("c", "<f8", (2,)), ("d/e", "S3")])])
NESTED["a"] = np.arange(50)
NESTED["b"]["c"] = np.arange(100).reshape(50, 2)
NESTED["b"]["d/e"] = b"xy"


def read_rows(library: str, path: Path, field: str, rows: range, want: np.ndarray) -> None:
    """Read rows as a stream does, and compare them."""
    with open_source(path, {}) as source:
        index = source.index("/x", field or None)
        index = replace(index, kind=replace(index.kind, library=library))
    out = bytearray(want.nbytes)
    call = encode_rows(rows_call(index, field, {})).decode()
    fallback.read(call, (rows.start, rows.stop), memoryview(out))
    assert bytes(out) == want.tobytes()


@pytest.mark.parametrize("library", ["h5py", "tables"])
def test_rows_and_fields(h5: Path, library: str) -> None:
    rows = NESTED
    if library == "h5py":
        with h5py.File(h5, "w") as file:
            file["x"] = rows
    else:
        rows = np.zeros(50, [("a", "<i4"), ("b", [("c", "<f8", (2,))])])  # no "/" in names there
        rows["a"], rows["b"]["c"] = NESTED["a"], NESTED["b"]["c"]
        with tables.open_file(str(h5), "w") as file:
            file.create_table("/", "x", rows)
    read_rows(library, h5, "", range(3, 20), rows[3:20])
    read_rows(library, h5, "a", range(50), np.ascontiguousarray(rows["a"]))
    read_rows(library, h5, "b/c", range(49, 50), np.ascontiguousarray(rows["b"]["c"][49:]))


@pytest.mark.parametrize("n_rows", [1, 900])
@pytest.mark.parametrize(
    "dtype",
    ["<f4", ">f8", "<f2", ">c16", "?", "S3", h5py.string_dtype("utf-8", 6), "padded", "enum"],
    ids=str,
)
def test_large_pieces(h5: Path, dtype: Any, n_rows: int) -> None:
    """They go to the memory that is given without a copy, where h5py can do that."""
    if dtype == "padded":
        dtype = np.dtype({"names": ["a", "b"], "formats": ["i1", "<f8"], "offsets": [0, 8]})
    elif dtype == "enum":
        dtype = h5py.enum_dtype({"NO": 0, "YES": 7}, "<i4")
    dtype = np.dtype(dtype)
    rows = np.zeros(1000 * 300, dtype)
    values = np.arange(len(rows)) % 7
    if dtype.names:
        rows["a"], rows["b"] = values, values / 3
    else:
        rows[:] = values.astype("S1") if dtype.kind == "S" else values
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=rows.reshape(1000, 300), dtype=dtype)
        want = file["x"][17 : 17 + n_rows]
    read_rows("h5py", h5, "", range(17, 17 + n_rows), want)


def test_big_endian_stays_so_with_pytables(h5: Path) -> None:
    rows = np.arange(10, dtype=">i4")
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", obj=rows, byteorder="big")
    read_rows("tables", h5, "", range(2, 9), rows[2:9])


def test_a_request_of_many_bytes_is_read_in_place(
    h5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube = np.arange(100 * 40 * 30, dtype="<f8").reshape(100, 40, 30)
    with h5py.File(h5, "w") as file:
        file["x"] = cube
    with monkeypatch.context() as patch:
        patch.setitem(fallback.READERS, "h5py", lambda *_: pytest.fail("read with a copy"))
        same(answered(dataset(h5)[10:90:2, ::-1, 3:]), cube[10:90:2, ::-1, 3:])
    same(answered(dataset(h5)[10:90, 7]), cube[10:90, 7])


def test_a_failure_in_place_keeps_no_memory(h5: Path) -> None:
    """A traceback that held the memory would hide the failure from the parent."""
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.zeros((1000, 300)), chunks=(1000, 300), compression="gzip")
        at = file["x"].id.get_chunk_info(0).byte_offset
    with open(h5, "r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff" * 64)
    call = encode_library(library_call(dataset(h5)[:900]))
    out = memoryview(bytearray(900 * 300 * 8))
    with pytest.raises(OSError, match=r"inflate|filter") as caught:
        fallback.read(call, None, out)
    assert caught.value is not None
    out.release()


def test_rows_of_another_size_are_an_error(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(10)
    with pytest.raises(ValueError, match="expected 16"):
        read_rows("h5py", h5, "", range(1), np.arange(2))
