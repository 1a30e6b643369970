"""Requests as bytes: read back word by word, by a decoder of the tests' own.

Law: no file, no process. What the core makes of the words is tested in the core.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from elements import BACKWARDS, FAST, PADDED

from _multitables.select.hyperslab import Hyperslab
from _multitables.select.normalize import LibraryCall, Native, normalize
from _multitables.select.selection import Boxes, DatasetInfo, FieldNames, Selection
from _multitables.wire.request_bytes import (
    decode_dtype,
    decode_library,
    encode_dtype,
    encode_hyperslab,
    encode_library,
    pack_ragged,
    unpack_ragged,
)

ROW = np.dtype([("a", "<i4"), ("b", "<f8", (3, 2))])
TABLE = DatasetInfo("/tmp/a.h5", "/x", "table", (100,), ROW, 1, "tables", {"driver": "x"})
CUBE = DatasetInfo("/tmp/a.h5", "/x", "array", (20, 12, 7), np.dtype("<i4"), 3)


def slab_of(selection: Selection) -> Hyperslab:
    found = normalize(selection)
    assert isinstance(found, Native)
    return found.hyperslab


def words(slab: Hyperslab) -> list[int]:
    data = encode_hyperslab(slab)
    assert len(data) % 8 == 0
    return list(struct.unpack(f"<{len(data) // 8}q", data))


def test_words_of_rows() -> None:
    slab = slab_of(Selection(TABLE)[30:35])
    assert words(slab) == [0, 0, 0, 0, 0, 0, 1, 0, ROW.itemsize, 30, 1, 5, 0]


def test_words_of_a_step_backwards() -> None:
    slab = slab_of(Selection(TABLE)["a"][9:1:-2])
    assert words(slab) == [0, 0, 0, 0, 0, 0, 1, 0, 4, 9, -2, 4, 0]


def test_words_of_lists_and_runs() -> None:
    got = words(slab_of(Selection(TABLE)["b"][[7, -1, 7], :, 1]))
    head, axis, rest = got[:9], got[9:13], got[13:]
    assert head == [0, 0, 0, 0, 0, 0, 1, 3, 24]
    assert axis == [0, 1, 3, 13]  # the list begins at word 13
    assert rest == [7, 99, 7, 8, 8, 24, 8, 40, 8]


def test_words_of_two_lists() -> None:
    rows, columns = np.array([3, 1]), np.array([2, 5, 6])
    got = words(slab_of(Selection(CUBE)[:][rows][:, :, columns]))
    assert got[:9] == [0, 0, 0, 0, 0, 0, 3, 0, 4]
    assert got[9:21] == [0, 1, 2, 21, 0, 1, 12, 0, 0, 1, 3, 23]
    assert got[21:] == [3, 1, 2, 5, 6]


def test_words_of_points() -> None:
    got = words(slab_of(Selection(CUBE)[:][[1, 2], [3, 0]]))
    assert got[:9] == [0, 0, 0, 0, 2, 2, 1, 0, 4]
    assert got[9:] == [0, 1, 7, 0, 1, 1, 15, 24]


def test_words_of_boxes() -> None:
    boxes = Boxes(np.array([[1, 2], [0, 4]]), (2, 3))
    found = normalize(Selection(CUBE, (boxes,)))
    assert isinstance(found, Native)
    assert found.hyperslab.shape == (2, 2, 3, *CUBE.shape[2:])
    got = words(found.hyperslab)
    assert got[:9] == [0, 0, 0, 0, 2, 2, 1, 0, 4]
    assert got[9:] == [0, 1, CUBE.shape[2], 0, 2, 3, CUBE.shape[1] + 2, 4]


@pytest.mark.parametrize("key", [slice(5, 5), [], (slice(None), slice(3, 3))], ids=str)
def test_words_of_nothing(key: Any) -> None:
    got = words(slab_of(Selection(CUBE)[key]))
    assert got == [0, 0, 0, 0, 0, 0, 3, 0, 4, *[0, 1, 0, 0] * 3]


def call_of(selection: Selection) -> LibraryCall:
    found = normalize(selection)
    assert isinstance(found, LibraryCall)
    return found


def test_what_a_library_is_asked() -> None:
    limits = np.arange(3, dtype=">i2")
    selection = Selection(TABLE).where(
        "a > limit", {"limit": limits, "one": 1.5, "name": "é"}, stop=50
    )
    selection = selection["b"][..., None, [True, False, True], 1:2][0][True]
    ask = encode_library(call_of(selection))
    kind, n_text = struct.unpack_from("<2Q", ask)
    assert kind == 1
    told = json.loads(ask[16 : 16 + n_text])
    assert told["library"] == "tables"
    assert told["filename"] == "/tmp/a.h5"
    assert told["open_options"] == {"driver": "x"}
    got = decode_library(ask)
    assert (got["method"], got["path"], got["ragged"]) == ("where", "/x", False)
    assert got["dtype"] == np.dtype("<f8")
    assert got["arguments"]["condition"] == "a > limit"
    assert got["arguments"]["stop"] == 50
    condvars = got["arguments"]["condvars"]
    np.testing.assert_array_equal(condvars["limit"], limits)
    assert condvars["limit"].dtype == limits.dtype
    assert condvars["one"].shape == ()
    assert condvars["name"] == "é".encode()
    field, key, zero, true = got["steps"]
    assert field == "b"
    assert key[:2] == (Ellipsis, None)
    assert key[2].tolist() == [True, False, True]
    assert key[2].flags.writeable  # PyTables writes to keys
    assert key[3] == slice(1, 2)
    assert (zero, true) == (0, True)


def test_names_of_several_fields_travel() -> None:
    selection = Selection(TABLE)[["b", "a"]][3:5]
    assert isinstance(selection.steps[0], FieldNames)
    got = decode_library(encode_library(call_of(selection)))
    assert got["steps"] == (("b", "a"),)
    assert got["arguments"]["key"] == slice(3, 5)
    assert got["dtype"] == ROW[["b", "a"]]


def test_nothing_else_is_decoded() -> None:
    with pytest.raises(ValueError, match="nothing that a library is asked"):
        decode_library(encode_hyperslab(slab_of(Selection(TABLE)[3:5])))
    ask = encode_library(call_of(Selection(TABLE).read_sorted("a")))
    with pytest.raises(ValueError, match="nothing"):
        decode_library(ask[:40])
    with pytest.raises(TypeError, match="numbers or strings"):
        encode_library(call_of(Selection(TABLE).where("a > b", {"b": object()})))


@pytest.mark.parametrize("name", FAST)
def test_dtypes_travel(name: str) -> None:
    told = json.loads(json.dumps(encode_dtype(FAST[name])))
    assert decode_dtype(told) == FAST[name]


def test_dtypes_with_holes_and_orders_of_their_own_travel() -> None:
    for dtype in (PADDED, BACKWARDS, np.dtype([("x", BACKWARDS, (2, 3))]), np.dtype("M8[us]")):
        assert decode_dtype(json.loads(json.dumps(encode_dtype(dtype)))) == dtype


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_ragged_rows_travel(shape: tuple[int, ...]) -> None:
    rows = [np.arange(n * 6).reshape(n, 6)[:, : int(np.prod(shape))] for n in (3, 0, 1, 5)]
    rows = [row.reshape(len(row), *shape).astype(">i2") for row in rows]
    packed = np.concatenate(pack_ragged(rows))
    assert packed.dtype == np.uint8
    got = unpack_ragged(packed, np.dtype(">i2"), shape)
    assert len(got) == len(rows)
    for one, want in zip(got, rows, strict=True):
        assert one.dtype == want.dtype
        np.testing.assert_array_equal(one, want)
    assert unpack_ragged(np.concatenate(pack_ragged([])), np.dtype("<f8")) == []
