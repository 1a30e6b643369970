"""`RaggedBlock`: rows, slices, and what other libraries make of it."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from ragged_files import same_rows

import multitables
from multitables import RaggedBlock

with contextlib.suppress(ImportError):
    import pyarrow as pa

    pa.array([0])  # its allocator has a thread, which stays

VALUES, OFFSETS = np.arange(6.0), np.array([0, 2, 2, 6])
ROWS = [VALUES[:2], VALUES[2:2], VALUES[2:]]


def block(**more: object) -> RaggedBlock:
    return RaggedBlock(VALUES, OFFSETS, **more)


def sparse() -> RaggedBlock:
    return block(indices=np.array([3, 0, 1, 0, 2, 3], np.int32), n_columns=4)


def text(*rows: bytes) -> RaggedBlock:
    ends = np.cumsum([0, *map(len, rows)])
    return RaggedBlock(np.frombuffer(b"".join(rows), np.uint8), ends, is_text=True)


def test_rows() -> None:
    same_rows(block().rows(), ROWS)
    same_rows(list(block()), ROWS)
    assert len(block()) == 3
    np.testing.assert_array_equal(block()[-1], ROWS[2])
    with pytest.raises(IndexError):
        block()[3]


@pytest.mark.parametrize("begin", range(4))
@pytest.mark.parametrize("end", range(4))
def test_slices(begin: int, end: int) -> None:
    part = block()[begin:end]
    assert part.offsets[0] == 0
    assert part.offsets[-1] == len(part.values)
    same_rows(part.rows(), ROWS[begin:end])
    assert np.shares_memory(part.values, VALUES) == (len(part.values) > 0)
    same_rows(sparse()[begin:end].rows(), sparse().rows()[begin:end])


def test_slices_have_no_steps() -> None:
    with pytest.raises(IndexError, match="without a step"):
        block()[::2]


def test_several_arrays() -> None:
    one = RaggedBlock({"x": VALUES, "y": -VALUES}, OFFSETS)
    np.testing.assert_array_equal(one[2]["y"], -VALUES[2:])
    np.testing.assert_array_equal(one[1:][1]["x"], VALUES[2:])
    assert RaggedBlock((VALUES, VALUES), OFFSETS)[0][1].tolist() == [0, 1]


def test_a_copy_has_its_own_memory() -> None:
    copy = sparse().copy()
    same_rows(copy.rows(), sparse().rows())
    assert not np.shares_memory(copy.values, VALUES)


def test_repr() -> None:
    assert repr(block()) == "<RaggedBlock: 3 rows, 6 elements of float64>"
    assert repr(text(b"a", b"bc")) == "<RaggedBlock: 2 rows, 3 elements of text>"


def test_arrow() -> None:
    pytest.importorskip("pyarrow")
    got = block().to_arrow()
    assert got.type == pa.large_list(pa.float64())
    assert got.to_pylist() == [row.tolist() for row in ROWS]
    got.validate(full=True)
    assert got.values.buffers()[1].address == VALUES.ctypes.data
    assert got.buffers()[1].address == OFFSETS.ctypes.data
    big = RaggedBlock(VALUES.astype(">f8"), OFFSETS).to_arrow()
    assert big == got
    pairs = sparse().to_arrow()
    assert pairs[0].as_py() == [{"values": 0.0, "indices": 3}, {"values": 1.0, "indices": 0}]
    points = RaggedBlock(np.arange(12).reshape(6, 2), OFFSETS).to_arrow()
    assert points[0].as_py() == [[0, 1], [2, 3]]
    several = RaggedBlock((VALUES, VALUES), OFFSETS).to_arrow()
    assert several[0].as_py()[1] == {"0": 1.0, "1": 1.0}
    records = np.array([(i, -i) for i in range(6)], [("a", "i4"), ("b", ">i2")])
    assert RaggedBlock(records, OFFSETS).to_arrow()[0].as_py()[1] == {"a": 1, "b": -1}


def test_arrow_text() -> None:
    pytest.importorskip("pyarrow")
    rows = ["", "ü", "", "abc"]
    got = text(*[row.encode() for row in rows]).to_arrow()
    assert got.type == pa.large_string()
    assert got.to_pylist() == rows
    with pytest.raises(multitables.UnsupportedDatasetError, match="not UTF-8"):
        text(b"\xff").to_arrow()


def test_awkward() -> None:
    ak = pytest.importorskip("awkward")
    assert ak.to_list(block().to_awkward()) == [row.tolist() for row in ROWS]
    assert ak.to_list(text(b"a", b"", b"bc").to_awkward()) == ["a", "", "bc"]
    assert ak.to_list(sparse().to_awkward())[0][0] == {"values": 0.0, "indices": 3}
    several = RaggedBlock((VALUES, VALUES), OFFSETS).to_awkward()
    assert ak.to_list(several)[0][1] == (1.0, 1.0)
    records = np.array([(i, -i) for i in range(6)], [("a", "i4"), ("b", ">i2")])
    assert ak.to_list(RaggedBlock(records, OFFSETS).to_awkward())[0][1] == {"a": 1, "b": -1}


def test_scipy() -> None:
    pytest.importorskip("scipy")
    one = sparse()
    for columns in (one.indices, one.indices.astype("i8"), one.indices.astype(">i4")):
        given = RaggedBlock(VALUES, OFFSETS, columns, 4)
        got = given.to_scipy()
        expected = np.zeros((3, 4))
        for row, (values, indices) in enumerate(given):
            expected[row, indices] = values
        np.testing.assert_array_equal(got.toarray(), expected)
        np.testing.assert_array_equal((got @ np.ones(4)), expected.sum(axis=1))
    assert np.shares_memory(one.to_scipy().data, VALUES)
    assert np.shares_memory(one.to_scipy().indices, one.indices)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    nested = block().to_torch()
    assert [row.tolist() for row in nested.unbind()] == [row.tolist() for row in ROWS]
    matrix = sparse().to_torch()
    assert matrix.layout == torch.sparse_csr
    np.testing.assert_array_equal(matrix.to_dense().numpy(), sparse().to_scipy().toarray())
    assert sparse().to_torch("jagged").is_nested


@pytest.mark.parametrize("given", [block(), block(indices=np.zeros(6, int))])
def test_a_matrix_needs_columns(given: RaggedBlock) -> None:
    pytest.importorskip("scipy")
    with pytest.raises(multitables.OptionsError, match="a sparse matrix needs its"):
        given.to_scipy()


def test_columns_lie_in_the_matrix() -> None:
    pytest.importorskip("scipy")
    for columns in ([0, 0, 0, 0, 0, 4], [-1, 0, 0, 0, 0, 0]):
        with pytest.raises(multitables.OptionsError, match="outside the matrix"):
            block(indices=np.array(columns), n_columns=4).to_scipy()


def test_unknown_layout() -> None:
    with pytest.raises(multitables.OptionsError, match="unknown layout"):
        block().to_torch("coo")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "awkward", None)
    with pytest.raises(multitables.MissingLibraryError, match="pip install awkward"):
        block().to_awkward()
