"""What two looks at a dataset that grows agree on, against one that asks each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from _multitables.index.chunk_index import Fingerprint, SourceFile, Stored, chunks_of
from _multitables.index.types.element_type import stored_type
from _multitables.index.types.kind import Kind
from _multitables.plan.growth import agreed_rows, stored_rows, whole_rows

ROWS = 3  # of a chunk
Chunks = dict[int, tuple[int, int, int]]


def index(n_rows: int, columns: int, chunks: Chunks) -> Stored:
    """A dataset whose chunks are 3 rows and 2 columns."""
    told = sorted(chunks.items())
    table = np.array([(number, *record) for number, record in told], np.uint64).reshape(-1, 4)
    kind, dims = Kind(stored_type(8), 8), (n_rows, columns)
    file = SourceFile("f", Fingerprint(0, 0, 0, 0))
    return Stored((file,), "/x", kind, dims, (ROWS, 2), chunks=chunks_of(*table.T))


def is_there(row: int, columns: int, chunks: Chunks) -> bool:
    inner = -(-columns // 2)
    mine = range(row // ROWS * inner, (row // ROWS + 1) * inner)
    return all(number in chunks for number in mine) or any(n >= mine.stop for n in chunks)


def same(row: int, columns: int, one: Chunks, other: Chunks) -> bool:
    """Whether two looks have the same of all chunks up to a row."""
    end = (row // ROWS + 1) * -(-columns // 2)
    return all(one.get(number) == other.get(number) for number in range(end))


@st.composite
def looks(draw: st.DrawFn) -> Any:
    columns = draw(st.integers(1, 5))
    record = st.tuples(st.integers(0, 1), st.just(8), st.integers(0, 1))
    grid = st.integers(0, 4 * -(-columns // 2) - 1)
    one = draw(st.dictionaries(grid, record))
    other = {**one, **draw(st.dictionaries(grid, record, max_size=2))}
    for number in draw(st.lists(grid, max_size=2)):
        other.pop(number, None)
    return columns, [(draw(st.integers(0, 4 * ROWS)), one), (draw(st.integers(0, 12)), other)]


@given(looks())
def test_rows_on_which_two_looks_agree(drawn: Any) -> None:
    columns, both = drawn
    there = [
        next((row for row in range(n) if not is_there(row, columns, chunks)), n)
        for n, chunks in both
    ]
    indexes = [index(n, columns, chunks) for n, chunks in both]
    assert [stored_rows(one) for one in indexes] == there
    (_, one), (_, other) = both
    wanted = next(
        (row for row in range(min(there)) if not same(row, columns, one, other)), min(there)
    )
    assert agreed_rows(*indexes) == agreed_rows(*indexes[::-1]) == wanted


def test_rows_in_whole_chunks() -> None:
    found = [whole_rows(index(10, 2, {}), rows) for rows in (0, 2, 3, 5, 9, 10)]
    assert found == [0, 0, 3, 3, 9, 9]
