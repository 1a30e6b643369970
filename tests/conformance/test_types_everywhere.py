"""Types that NumPy lacks: one dtype, or one refusal, through every entry point.

Law
---
1. `TYPES` is a table: HDF5's type, the dtype, stored bytes and what they are; or why it is refused.
2. An entry point that has no name here does not read such a type, or in another way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from h5py import h5a, h5d, h5p, h5s, h5t

import multitables


def bits_of(base: Any, offset: int, count: int) -> Any:
    """A bitfield of which some bits count: h5py has no call for it, but takes the message."""
    message = bytearray(base.encode())
    at = message.find(struct.pack("<IHH", base.get_size(), 0, 8 * base.get_size()))
    message[at + 4 : at + 8] = struct.pack("<HH", offset, count)
    return h5t.decode(bytes(message))


def wide(size: int) -> Any:
    kind = h5t.STD_I64LE.copy()
    kind.set_size(size)
    return kind


def compound(**members: tuple[int, Any]) -> Any:
    ends = [at + kind.get_size() for at, kind in members.values()]
    kind = h5t.create(h5t.COMPOUND, max(ends))
    for name, (at, member) in members.items():
        kind.insert(name.encode(), at, member)
    return kind


SECONDS = np.array([1_700_000_000, 5, -1])
HALVES = np.array([1.5, -2, 0.25, 1e-7, 7, 8], "<f2")
#: Name -> type, dtype, stored elements, values.
TYPES: dict[str, tuple[Any, str, bytes, Any]] = {
    "bits 3 to 14": (
        bits_of(h5t.STD_B16LE, 3, 12), "<u2", b"\xff\xff\x08\x00\x00\x80", [4095, 1, 0],
    ),
    "one bit": (bits_of(h5t.STD_B8LE, 0, 1), "u1", b"\xff\x02\x01", [1, 0, 1]),
    "times of 4 bytes": (h5t.UNIX_D32BE, ">i4", SECONDS.astype(">i4").tobytes(), SECONDS),
    "times of 8 bytes": (h5t.UNIX_D64LE, "<i8", SECONDS.astype("<i8").tobytes(), SECONDS),
    "24 bits": (h5t.decode(wide(3).encode()), "<i4", b"\1\0\0\0\0\x80\xff\xff\xff",
                [1, -(2**23), -1]),
}  # fmt: skip
if hasattr(h5t, "COMPLEX_IEEE_F16LE"):
    TYPES["complex of halves"] = (
        h5t.COMPLEX_IEEE_F16LE, "<c8", HALVES.tobytes(), HALVES.astype("f4").view("c8"),
    )  # fmt: skip

REFUSED = {
    "16 bytes": (wide(16), "integer of 16 bytes"),
    "inside": (compound(w=(0, wide(16)), n=(16, h5t.STD_I32LE)), "integer of 16 bytes, field 'w'"),
}


def store(group: Any, name: str, kind: Any, elements: bytes) -> None:
    space = h5s.create_simple((len(elements) // kind.get_size(),))
    made = h5d.create(group.id, name.encode(), kind, space)
    made.write(h5s.ALL, h5s.ALL, np.frombuffer(elements, np.uint8).copy(), kind)
    attribute = h5a.create(group.id, name.encode(), kind, space)
    attribute.write(np.frombuffer(elements, np.uint8).copy(), kind)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts, dtype=parts[0].dtype)


def _queue(path: Path, name: str) -> Any:
    with multitables.Streamer(path).get_queue(name, n_procs=1, remainder=True) as queue:
        return _joined([guard.__enter__().copy() for guard in queue])


def _batches(path: Path, name: str) -> Any:
    with multitables.Streamer(path).get_batches(name, 2, n_procs=1) as batches:
        return _joined([batch.copy() for batch in batches])


def _item(path: Path, name: str) -> Any:
    with multitables.Streamer(path).get_collection(f"/*{name}", n_procs=1) as collection:
        (item,) = collection
        (array,) = item.values()
        return np.array(array)


def _reader(path: Path, name: str) -> Any:
    with multitables.Reader(path, n_procs=1) as reader:
        return reader.request(reader.get_dataset(name)[:]).get()


WAYS: dict[str, Callable[[Path, str], Any]] = {
    "open": lambda path, name: multitables.open(path)[name][:],
    "dtype": lambda path, name: np.empty(0, multitables.open(path)[name].dtype),
    "attribute": lambda path, name: multitables.open(path)["g"].attrs[name[3:]],
    "queue": _queue,
    "generator": lambda path, name: np.array(
        list(multitables.Streamer(path).get_generator(name, n_procs=1))
    ),
    "batches": _batches,
    "Reader": _reader,
    "collection": lambda path, name: _item(path, name[2:]),
}


@pytest.fixture
def file(h5: Path) -> Path:
    with h5py.File(h5, "w") as made:
        group = made.create_group("g")
        for name, (kind, _, elements, _) in TYPES.items():
            store(group, name, kind, elements)
        for name, (kind, _) in REFUSED.items():
            store(group, name, kind, bytes(range(3 * kind.get_size())))
    return h5


@pytest.mark.parametrize("way", WAYS)
def test_one_dtype(file: Path, way: str) -> None:
    for name, (_, dtype, _, values) in TYPES.items():
        got = WAYS[way](file, f"/g/{name}")
        # The rows of a generator are scalars, which have the machine's order.
        expected = np.dtype(dtype).newbyteorder("=") if way == "generator" else np.dtype(dtype)
        assert got.dtype == expected, name
        if way != "dtype":
            np.testing.assert_array_equal(got, values, name)


@pytest.mark.parametrize("way", WAYS)
def test_one_refusal(file: Path, way: str) -> None:
    words = set()
    for name, (_, why) in REFUSED.items():
        with pytest.raises(multitables.UnsupportedDatasetError, match=why) as error:
            WAYS[way](file, f"/g/{name}")
        words.add(error.value.happened.partition("has elements")[2].removesuffix(why))
    assert words == {" of a type that NumPy does not have: "}


def test_other_columns(file: Path) -> None:
    want = np.frombuffer(bytes(range(60)), "<i4").reshape(3, 5)[:, 4]
    with multitables.open(file) as opened:
        inside = opened["g/inside"]
        np.testing.assert_array_equal(inside["n"], want)
        np.testing.assert_array_equal(inside[["n"]]["n"], want)
        np.testing.assert_array_equal(inside.fields("n")[1:], want[1:])
        with pytest.raises(multitables.UnsupportedDatasetError, match="16 bytes"):
            inside["w"]
        with pytest.raises(multitables.MissingFieldError):
            inside["neither"]
        assert "integer of 16 bytes, field 'w'" in repr(inside)
    rows = list(multitables.Streamer(file).get_generator("/g/inside", field="n", n_procs=1))
    np.testing.assert_array_equal(rows, want)


def test_repr_of_a_named_type(h5: Path) -> None:
    with h5py.File(h5, "w") as made:
        wide(16).commit(made.id, b"wide")
    with multitables.open(h5) as opened:
        assert "integer of 16 bytes" in repr(opened["wide"])
        with pytest.raises(multitables.UnsupportedDatasetError, match="16 bytes"):
            _ = opened["wide"].dtype


def test_types_of_pytables(h5: Path) -> None:
    kinds = {"b": tables.BoolCol(pos=0), "t": tables.Time64Col(pos=1), "n": tables.Int32Col(pos=2)}
    dtype = [("b", "?"), ("t", "<f8"), ("n", "<i4")]
    rows = np.array([(True, 1.5, 1), (False, -2.25, 2), (True, 3, 3)], dtype)
    with tables.open_file(str(h5), "w") as made:
        group = made.create_group("/", "g")
        made.create_table(group, "table", kinds).append(rows.copy())  # which PyTables changes
        made.create_array(group, "bools", rows["b"])
        made.create_carray(group, "times", obj=rows["t"].copy(), atom=tables.Time64Atom())
        ragged = made.create_vlarray(group, "ragged", tables.Time64Atom())
        ragged.append([1.5, 2.5])
    for way, read in WAYS.items():
        for name, want in (("table", rows), ("bools", rows["b"]), ("times", rows["t"])):
            if way == "attribute":
                continue
            got = read(h5, f"/g/{name}")
            assert got.dtype == want.dtype, (way, name)
            if way != "dtype":
                np.testing.assert_array_equal(got, want, f"{way}, {name}")
    np.testing.assert_array_equal(multitables.read(h5, "/g/ragged")[0], [1.5, 2.5])
    with pytest.raises(multitables.UnsupportedDatasetError, match="another way than float64"):
        list(multitables.Streamer(h5).get_generator("/g/ragged"))


def test_a_bad_attribute_hides_no_others(h5: Path) -> None:
    with h5py.File(h5, "w") as made:
        made.attrs["before"], made.attrs["bad"], made.attrs["behind"] = 1, np.float32(2), 3
    good = h5.read_bytes()
    at = good.index(h5t.IEEE_F32LE.encode()[2:])
    damage = (at + 14, b"\xff", "exponent and mantissa"), (at, b"\x9f", "version 1 to 5")
    for place, byte, what in damage:
        h5.write_bytes(good[:place] + byte + good[place + 1 :])
        with multitables.open(h5) as opened:
            assert list(opened.attrs) == ["bad", "before", "behind"]
            assert (opened.attrs["before"], opened.attrs["behind"]) == (1, 3)
            with pytest.raises(multitables.CorruptFileError, match=what):
                _ = opened.attrs["bad"]


def test_files_that_differ_in_what_numbers_mean_are_not_joined(tmp_path: Path) -> None:
    odd = h5t.IEEE_F32LE.copy()
    odd.set_fields(0, 1, 8, 9, 23)
    names = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for name, kind in zip(names, (h5t.IEEE_F32LE, odd), strict=True):
        with h5py.File(name, "w") as made:
            h5d.create(made.id, b"x", kind, h5s.create_simple((5,)))
    with pytest.raises(multitables.UnsupportedDatasetError, match="format of numbers"):
        list(multitables.Streamer(names).get_generator("/x"))


@pytest.mark.parametrize("chunk", [None, 4, 5])
def test_virtual_datasets_convert_what_they_show(h5: Path, chunk: int | None) -> None:
    """Of whole chunks of the source, and put together of parts."""
    bfloat16 = h5t.IEEE_F32LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    bfloat16.set_size(2)
    bfloat16.set_ebias(127)
    row = compound(a=(0, bfloat16), n=(2, h5t.STD_I32LE))
    dtype = [("a", "<f4"), ("n", "<i4")]
    data = np.array([(1.25 * number, number) for number in range(12)], dtype)
    with h5py.File(h5, "w") as made:
        how, shows = (h5p.create(h5p.DATASET_CREATE) for _ in range(2))
        if chunk:
            how.set_chunk((chunk,))
        source = h5d.create(made.id, b"x", row, h5s.create_simple((12,)), how)
        source.write(h5s.ALL, h5s.ALL, data, h5t.py_create(data.dtype))
        space = h5s.create_simple((24,))
        space.select_hyperslab((4,), (12,))
        shows.set_virtual(space, b".", b"x", h5s.create_simple((12,)))
        h5d.create(made.id, b"v", row, h5s.create_simple((24,)), shows)
    want = np.zeros(24, dtype)
    want[4:16] = data
    for way in ("open", "queue", "batches", "Reader"):
        got = WAYS[way](h5, "/v")
        for name in ("a", "n"):
            np.testing.assert_array_equal(got[name], want[name], f"{way}, {name}")
