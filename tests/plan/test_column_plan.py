"""Plans of columns, which are counted in blocks, against loops over blocks; and plans that lie.

1. Every row of every column has a task, which lies in the blocks that have it.
2. The core takes every such plan, and refuses one whose blocks do not fit its tapes.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import NATIVE, an_index, decoded, encoded, plain_index, ring

from _multitables import _core
from _multitables.index.chunk_index import ChunkIndex, chunks_of
from _multitables.plan.column_plan import Group, plan_columns
from _multitables.plan.stream_plan import ReadPlan

Case = tuple[list[Group], ReadPlan]


@st.composite
def a_plan(draw: st.DrawFn, is_plain: bool) -> Case:
    n_blocks, groups = draw(st.integers(1, 12)), []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(st.integers(0, 40), min_size=n_blocks, max_size=n_blocks))
        first, rest = draw(st.integers(0, 50)), draw(st.integers(0, 50))
        ends = first + np.concatenate([[0], np.cumsum(rows)])
        n_rows = max(1, int(ends[-1]) + rest)
        chunks = draw(st.lists(st.integers(1, 60), min_size=1, max_size=2))
        indexes = [
            plain_index(n_rows, min(chunk, n_rows)) if is_plain else draw(an_index(n_rows))
            for chunk in chunks
        ]
        groups.append(Group(indexes, ends))
    n_consumers = draw(st.integers(1, 3))
    plan = plan_columns(
        groups,
        n_readers=draw(st.integers(1, 4)),
        n_consumers=n_consumers,
        native_filters=NATIVE,
    )
    return groups, plan


@settings(deadline=None)
@given(a_plan(is_plain=False))
def test_every_row_has_a_task_in_its_block(case: Case) -> None:
    groups, plan = case
    columns = [(group, index) for group in groups for index in group.indexes]
    assert len(plan.tapes) == len(columns)
    last = 0
    for task in plan.tasks:
        ends = columns[task["tape"]][0].ends - columns[task["tape"]][0].ends[0]
        first = int(np.searchsorted(ends, task["row_begin"], side="right")) - 1
        assert first >= last
        last = first
    for number, (group, _) in enumerate(columns):
        own = plan.tasks[plan.tasks["tape"] == number]
        rows = {*zip(own["row_begin"].tolist(), own["row_end"].tolist(), strict=True)}
        at = 0
        for begin, end in sorted(rows):
            assert begin == at
            at = end
        assert at == group.ends[-1] - group.ends[0] or not columns[number][1].row_bytes
        ahead = plan.capacity_rows
        for block in range(len(group.ends) - 1):
            until = min(block + ahead, len(group.ends) - 1)
            held = int(group.ends[until] - group.ends[block]) * columns[number][1].row_bytes
            assert held <= plan.tapes[number].n_bytes


@pytest.mark.parametrize("n_readers", [1, 2, 4])
def test_a_group_of_few_bytes_makes_no_long_ring(n_readers: int) -> None:
    """All its rows would fit into one task, for which the ring had to hold all of the others."""
    n_blocks, row_bytes = 400, 4 * 8
    each = [(1 << 20) // row_bytes, 10]
    groups = [
        Group([_contiguous(rows * n_blocks)], np.arange(n_blocks + 1) * rows) for rows in each
    ]
    plan = plan_columns(groups, n_readers=n_readers, native_filters=NATIVE)
    assert plan.ring_payload_bytes < 32 << 20


def _contiguous(n_rows: int) -> ChunkIndex:
    chunks = chunks_of(np.zeros(1, "u8"), np.full(1, 512, "u8"), n_rows * 32)
    index = plain_index(n_rows, n_rows)
    return replace(index, kind=replace(index.kind, pipeline=()), chunk_dims=None, chunks=chunks)


@settings(deadline=None, max_examples=60)
@given(a_plan(is_plain=True))
def test_the_core_takes_every_plan(case: Case) -> None:
    groups, plan = case
    data = encoded(plan)
    got = decoded(data)
    assert got["n_consumers"] == plan.n_consumers
    for told, group in zip(got["ends"], groups, strict=True):
        np.testing.assert_array_equal(told, group.ends)
    made = ring(plan, data)
    assert made.progress() == (0, -(-(len(groups[0].ends) - 1) // plan.n_consumers))
    made.close()


@settings(deadline=None, max_examples=200)
@given(a_plan(is_plain=True), st.data())
def test_ends_that_lie_are_refused_or_harmless(case: Case, data: Any) -> None:
    """No ends make the core look outside of a tape."""
    _, plan = case
    stored = bytearray(encoded(plan))
    got = decoded(bytes(stored))
    n_ends = sum(len(one) for one in got["ends"])
    table = int(got["table"]["total_bytes"])
    begin = len(stored) - table - 8 * n_ends
    at = data.draw(st.integers(0, n_ends - 1))
    value = data.draw(st.integers(0, 2**64 - 1) | st.integers(0, 300))
    struct.pack_into("<Q", stored, begin + 8 * at, value)
    try:
        made = ring(plan, bytes(stored))
    except ValueError:
        return
    told = decoded(bytes(stored))["ends"]
    for tape in plan.tapes:
        ends = told[tape.ends].astype(object)
        ahead = min(plan.capacity_rows, len(ends) - 1)
        row_bytes = plan.datasets[tape.dataset].index.row_bytes
        most = max(int(ends[k + ahead] - ends[k]) for k in range(len(ends) - ahead))
        assert most * row_bytes <= tape.n_bytes
        assert list(ends) == sorted(ends)
    made.close()


def test_a_consumer_that_is_not_there() -> None:
    index = plain_index(10, 5)
    ends = np.array([0, 10])
    plan = plan_columns([Group([index], ends)], n_readers=1, native_filters=NATIVE)
    views = [(index.dtype, [4])]
    with pytest.raises(OSError, match="no such consumer"):
        _core.Ring(encoded(plan), views, None, 0, 1)
