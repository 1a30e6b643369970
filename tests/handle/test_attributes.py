"""Attributes as `multitables.open` gives them, against h5py.

Law
---
1. The oracle is h5py, which also writes them: of all types, in headers and in heaps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from handle_oracle import Both, check
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import multitables

ENUM = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": -7}, "i2")


def ragged(*rows: Any) -> np.ndarray:
    made = np.empty(len(rows), object)
    made[:] = [np.asarray(row) for row in rows]
    return made


#: name -> value, and its type where h5py does not find it by itself.
VALUES: dict[str, tuple[Any, Any]] = {
    "int": (5, None), "float": (2.5, None), "complex": (1 + 2j, None), "bool": (True, None),
    "str": ("h\xe9llo \N{SNOWMAN}", None), "empty str": ("", None), "bytes": (b"bytes", None),
    "fixed": (np.bytes_(b"a"), None), "fixed utf": (b"\xc3\xa9", h5py.string_dtype("utf-8", 7)),
    "ascii": ("text", h5py.string_dtype("ascii")), "void": (np.void(b"\0\1\2"), None),
    "strings": (["a", "", "ccc"], None), "bytes list": ([b"a", b"bb"], None),
    "matrix of strings": ([["a", "b"], ["c", "d"]], h5py.string_dtype()),
    "big": (np.arange(6, dtype=">u2").reshape(2, 3), None), "bools": ([True, False], None),
    "halves": (np.arange(3, dtype="f2"), None), "long": (np.longdouble(1) / 3, None),
    "no rows": (np.zeros((0, 3), "f4"), None), "one": (np.arange(1), None),
    "null": (h5py.Empty("f4"), None), "null str": (h5py.Empty(h5py.string_dtype()), None),
    "null enum": (h5py.Empty(ENUM), None),
    "compound": (np.array([(1, 2.5, b"x")], "i4,>f8,S3"), None),
    "one compound": (np.array((1, 2.5), "i4,>f8"), None),
    "strings inside": (
        np.array([(1, "a", 2), (3, "", 4)], [("n", "i2"), ("s", h5py.string_dtype()), ("m", "f4")]),
        None,
    ),
    "arrays inside": (np.zeros(2, [("a", "i4", (2, 3)), ("b", "S2", (2,))]), None),
    "array": (np.arange(6).reshape(2, 3), np.dtype(("<i4", (3,)))),
    "enum": (1, ENUM), "enums": ([0, 1, -7], ENUM),
    "sequences": (ragged([1, 2, 3], [], [4]), h5py.vlen_dtype("i4")),
    "sequences of floats": (ragged([1.5], [2.5, 3.5]), h5py.vlen_dtype(">f8")),
    "dates": (np.arange("2020-01-01", "2020-01-04", dtype="M8[D]").astype(
        h5py.opaque_dtype("M8[D]")), None),
}  # fmt: skip


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("order", [False, True], ids=["sorted", "tracked"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_all_types(h5: Path, libver: str, order: bool, many: bool) -> None:
    with h5py.File(h5, "w", libver=libver) as file:
        group = file.create_group("group", track_order=order)
        dataset = file.create_dataset("dataset", (3,), "f4", track_order=order)
        file["type"] = np.dtype("i4")
        for number, (name, (value, dtype)) in enumerate(VALUES.items()):
            holders = [group, file["type"]] if many else [file.create_group(f"holder {number}")]
            for holder in holders:
                holder.attrs.create(name, value, dtype=dtype)
        group.attrs["object"], group.attrs["objects"] = dataset.ref, [dataset.ref, group.ref]
        group.attrs["no object"] = h5py.Reference()
        group.attrs["region"] = dataset.regionref[1:]
        group.attrs["\xe9 \N{SNOWMAN}"] = 1
    check(h5)


def test_mapping(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.attrs["a"], file.attrs["b"] = 1, "text"
    with multitables.open(h5) as ours, h5py.File(h5) as theirs:
        mine, other = ours.attrs, theirs.attrs
        assert list(mine) == list(other) == list(mine.keys())
        assert dict(mine) == dict(other) == dict(mine.items())
        assert list(mine.values()) == list(other.values())
        assert list(reversed(mine)) == ["b", "a"]
        assert len(mine) == len(other)
        assert mine.get("a") == 1
        assert mine.get("c", "default") == "default"
        assert "a" in mine
        assert b"a" in mine
        assert "c" not in mine
        assert ours["/"].attrs == mine
        with pytest.raises(multitables.MissingAttributeError, match="it has 'a', 'b'") as caught:
            mine["c"]
        assert isinstance(caught.value, KeyError)
        with pytest.raises(TypeError):
            mine[5]  # type: ignore[index]


def test_what_is_like_it(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.attrs["temperature"] = 1
    with (
        multitables.open(h5) as ours,
        pytest.raises(KeyError, match=r"Did you mean 'temperature'\?"),
    ):
        ours.attrs["temprature"]


def test_empty() -> None:
    made = multitables.Empty("f4")
    assert (made.shape, made.size, made.dtype) == (None, None, np.dtype("f4"))
    assert made == multitables.Empty(np.float32)
    assert made != multitables.Empty("f8")
    assert made != "f4"
    assert hash(made) == hash(multitables.Empty("f4"))
    assert repr(made) == repr(h5py.Empty("f4"))


def test_values_are_the_users_own(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.attrs["x"] = np.arange(3)
    with multitables.open(h5) as ours:
        ours.attrs["x"][0] = 9
        assert ours.attrs["x"].tolist() == [0, 1, 2]


NUMBERS = st.one_of(
    hnp.integer_dtypes(endianness="?"), hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)), hnp.boolean_dtypes(),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.byte_string_dtypes(endianness="?", min_len=1, max_len=9),
)  # fmt: skip
DTYPES = st.recursive(
    NUMBERS,
    lambda inner: st.lists(inner, min_size=1, max_size=4).map(
        lambda kinds: np.dtype([(f"field {at}", kind) for at, kind in enumerate(kinds)])
    ),
    max_leaves=5,
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_arrays(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "arrays.h5"
    values: dict[str, Any] = {
        f"array {number}": data.draw(hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0)))
        for number in range(data.draw(st.integers(1, 12)))
    }
    values["text"] = data.draw(TEXT)
    values["texts"] = np.array(data.draw(st.lists(TEXT, max_size=5)), object)
    with h5py.File(path, "w", libver=data.draw(st.sampled_from(["earliest", "latest"]))) as file:
        for name, value in values.items():
            is_text = name == "texts"
            file.attrs.create(name, value, dtype=h5py.string_dtype() if is_text else None)
    with Both(path) as both:
        both.object(both.ours, both.theirs)
        for name in values:
            both.same(both.ours.attrs[name], both.theirs.attrs[name])
