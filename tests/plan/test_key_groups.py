"""Rows by key: against loops over rows.

1. Every row is in one block, with all rows of its value; blocks are as large as they may be.
2. Parts are whole values, balanced by rows, and are found by reading few keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _multitables.plan import key_groups
from _multitables.plan.key_groups import (
    Key,
    UnsortedError,
    cut,
    n_rows,
    part_of,
    rows_by_key,
    rows_in,
)

Group = list[tuple[int, int]]
SORTED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30).map(sorted)
GROUPS = st.lists(SORTED, min_size=1, max_size=3)


class Listed:
    """Keys that count what was read of them."""

    def __init__(self, rows: Group) -> None:
        self._rows = rows
        self.read = 0

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    def rows(self, begin: int, end: int) -> Key:
        assert 0 <= begin <= end <= len(self._rows)
        self.read += end - begin
        return columns(self._rows[begin:end])


def columns(rows: Group) -> list[np.ndarray]:
    return [np.array([row[at] for row in rows], "u4") for at in range(2)]


def everything(groups: list[Group]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (0,) * len(groups), tuple(map(len, groups))


@given(GROUPS, st.integers(0, 9))
def test_rows_of_each_value(groups: list[Group], first: int) -> None:
    found = rows_by_key([columns(rows) for rows in groups], [first] * len(groups))
    values = sorted({row for rows in groups for row in rows})
    assert list(zip(*(column.tolist() for column in found.values), strict=True)) == values
    for rows, absolute in zip(groups, found.offsets, strict=True):
        offsets = (absolute - first).tolist()
        assert len(offsets) == len(values) + 1
        assert offsets[-1] == len(rows)
        for number, value in enumerate(values):
            assert set(rows[offsets[number] : offsets[number + 1]]) <= {value}


@given(
    st.lists(
        st.lists(st.integers(-20, 20).map(abs), max_size=30).map(sorted), min_size=2, max_size=3
    ),
    st.sampled_from(["i8", "u4", ">i2", "u8"]),
    st.sampled_from([1, 10**4]),
    st.sampled_from([0, 2**14]),
)
def test_numbers_are_counted(groups: list[list[int]], dtype: str, step: int, low: int) -> None:
    """Close together or not, they give what sorting gives."""
    if step * 20 + low > np.iinfo(dtype).max:
        step = 1
    keys = [[(np.array(rows, "i8") * step + low).astype(dtype)] for rows in groups]
    found = rows_by_key(keys, [5] * len(keys))
    with mock.patch.object(key_groups, "DENSE", -1):
        expected = rows_by_key(keys, [5] * len(keys))
    assert found.values[0].dtype == expected.values[0].dtype
    np.testing.assert_array_equal(found.values[0], expected.values[0])
    for one, other in zip(found.offsets, expected.offsets, strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.lists(st.integers(0, 2), max_size=20))
def test_one_group_need_not_ascend(key: list[int]) -> None:
    found = rows_by_key([[np.array(key, "i8")]], [0])
    spans = itertools.pairwise(found.offsets[0].tolist())
    for (begin, end), value in zip(spans, found.values[0].tolist(), strict=True):
        assert set(key[begin:end]) == {value}
    assert all(a != b for a, b in itertools.pairwise(found.values[0]))


def test_several_groups_must_ascend() -> None:
    ascending: Group = [(0, n) for n in (1, 2, 2, 5)]
    odd: Group = [(0, n) for n in (1, 1, 3, 2, 2)]
    with pytest.raises(UnsortedError) as caught:
        rows_by_key([columns(ascending), columns(odd)], [0, 100])
    assert (caught.value.group, caught.value.row) == (1, 103)
    with pytest.raises(UnsortedError) as caught:
        rows_by_key([[np.array([1, 2, 2, 5])], [np.array([1, 1, 3, 2, 2])]], [0, 100])
    assert (caught.value.group, caught.value.row) == (1, 103)
    keys = [Listed(ascending), Listed(odd)]
    with pytest.raises(UnsortedError) as caught:
        rows_in(keys, ((0, 3), (4, 5)))  # from the row before
    assert (caught.value.group, caught.value.row) == (1, 3)


@given(GROUPS, st.integers(1, 8), st.integers(1, 4), st.sampled_from([1, 5, 1 << 12]))
def test_blocks_and_parts(groups: list[Group], entries: int, parts: int, at_once: int) -> None:
    whole = everything(groups)
    largest = max(
        (sum(rows.count(value) for rows in groups) for value in itertools.chain(*groups)), default=0
    )
    at, keys = whole[0], [Listed(rows) for rows in groups]
    with mock.patch.object(key_groups, "READ_AT_ONCE", at_once):
        shares = [part_of(keys, [whole], part, parts) for part in range(parts)]
    for begin, end in itertools.chain(*shares):
        assert begin == at
        at = end
        assert n_rows((begin, end)) <= n_rows(whole) / parts + largest + 1
        check_blocks(keys, (begin, end), entries)
        own = [rows[b:e] for rows, b, e in zip(groups, begin, end, strict=True)]
        values = set(itertools.chain(*own))
        assert sum(map(len, own)) == sum(rows.count(one) for rows in groups for one in values)
    assert at == whole[1] or not any(whole[1])


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 4))
def test_parts_of_one_group_that_does_not_ascend(key: list[int], parts: int) -> None:
    group: Group = [(0, n) for n in key]
    whole = [((0,), (len(key),))]
    shares = (part_of([Listed(group)], whole, part, parts) for part in range(parts))
    ends = [end for _, end in itertools.chain(*shares)]
    assert ends[-1] == (len(key),)
    for (end,) in ends[:-1]:
        assert key[end] != key[end - 1]


def check_blocks(keys: list[Listed], one: key_groups.Range, entries: int) -> None:
    found = rows_in(keys, one)
    edges = cut(found, 0, found.n_values, entries).tolist()
    assert (edges[0], edges[-1]) == (0, found.n_values)
    for first, last in itertools.pairwise(edges):
        assert first < last
        rows = [int(o[last] - o[first]) for o in found.offsets]
        assert max(rows) <= entries or last == first + 1
        if last < found.n_values:  # one more would be too many
            assert max(int(o[last + 1] - o[first]) for o in found.offsets) > entries


@given(GROUPS, st.integers(1, 4), st.integers(1, 3))
def test_parts_of_ranges(groups: list[Group], parts: int, before: int) -> None:
    """What is left of a part can be shared out again."""
    keys = [Listed(rows) for rows in groups]
    left = [one for n in range(before) for one in part_of(keys, [everything(groups)], n, 3)]
    shares: Iterator[key_groups.Range] = itertools.chain(
        *(part_of(keys, left, part, parts) for part in range(parts))
    )
    assert sum(map(n_rows, shares)) == sum(map(n_rows, left))


def test_a_part_is_found_with_few_keys() -> None:
    rows: Group = [(n // 7, n // 3) for n in range(40_000)]
    keys = [Listed(rows), Listed(rows[::2])]
    with mock.patch.object(key_groups, "READ_AT_ONCE", 100):
        part_of(keys, [everything([rows, rows[::2]])], 1, 3)
    assert sum(one.read for one in keys) < 3000
