"""Rows by key: against loops over rows.

1. Every row is in one block, with all rows of its value; blocks are as large as they may be.
2. Ranks share out whole values, and none has more than its part and one value.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _multitables.plan.key_groups import UnsortedError, cut, rows_by_key, values_of_rank

SORTED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=30).map(sorted)


def columns(rows: list[tuple[int, int]]) -> list[np.ndarray]:
    return [np.array([row[at] for row in rows], "u4") for at in range(2)]


@given(st.dictionaries(st.sampled_from("abc"), SORTED, min_size=1))
def test_rows_of_each_value(groups: dict[str, list[tuple[int, int]]]) -> None:
    found = rows_by_key({group: columns(rows) for group, rows in groups.items()})
    values = sorted({row for rows in groups.values() for row in rows})
    assert list(zip(*(column.tolist() for column in found.values), strict=True)) == values
    for group, rows in groups.items():
        offsets = found.offsets[group].tolist()
        assert len(offsets) == len(values) + 1
        assert offsets[-1] == len(rows)
        for number, value in enumerate(values):
            assert set(rows[offsets[number] : offsets[number + 1]]) <= {value}


@given(st.lists(st.integers(0, 2), max_size=20))
def test_one_group_need_not_ascend(key: list[int]) -> None:
    found = rows_by_key({"a": [np.array(key, "i8")]})
    offsets = found.offsets["a"].tolist()
    spans = itertools.pairwise(offsets)
    for (begin, end), value in zip(spans, found.values[0].tolist(), strict=True):
        assert set(key[begin:end]) == {value}
    assert all(a != b for a, b in itertools.pairwise(found.values[0]))


def test_several_groups_must_ascend() -> None:
    ascending = np.array([1, 2, 2, 5])
    with pytest.raises(UnsortedError) as caught:
        rows_by_key({"a": [ascending], "b": [np.array([1, 1, 3, 2, 2])]})
    assert (caught.value.group, caught.value.row) == ("b", 3)


@given(
    st.dictionaries(st.sampled_from("abc"), SORTED, min_size=1),
    st.integers(1, 8),
    st.integers(1, 4),
)
def test_blocks_and_ranks(
    groups: dict[str, list[tuple[int, int]]], entries: int, world_size: int
) -> None:
    found = rows_by_key({group: columns(rows) for group, rows in groups.items()})
    total = sum(map(len, groups.values()))
    largest = max(
        (sum(np.diff(o)[n] for o in found.offsets.values()) for n in range(found.n_values)),
        default=0,
    )
    at = 0
    for rank in range(world_size):
        shard = values_of_rank(found, [(0, found.n_values)], rank, world_size)
        begin, end = shard[0] if shard else (at, at)
        assert begin == at
        at = end
        mine = sum(int(o[end] - o[begin]) for o in found.offsets.values())
        assert mine <= total / world_size + largest + 1
        edges = cut(found, begin, end, entries).tolist()
        assert edges[0] == begin
        assert edges[-1] == end
        for first, last in itertools.pairwise(edges):
            assert first < last
            rows = [int(o[last] - o[first]) for o in found.offsets.values()]
            assert max(rows) <= entries or last == first + 1
            if last < end:  # one more would be too many
                more = [int(o[last + 1] - o[first]) for o in found.offsets.values()]
                assert max(more) > entries
    assert at == found.n_values
