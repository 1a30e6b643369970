"""Plans of batches, by the thousand: no file, no process.

Law
---
1. What the shares of a plan must cover is said by its ranges: windows follow each other over the
   lap, hold the ranges' positions in their order, and lie inside the order's windows.
2. Wire: the order is read back word by word. The core accepts every plan.
3. What an order depends on is in test_batch_orders.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from batch_cases import Case, a_case, asked, many, streams
from hypothesis import given, settings
from plans import NATIVE, decoded, encoded, plain_index, ring

from _multitables import sizes
from _multitables.errors import OptionsError
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.row_order import FULL, order_of
from _multitables.plan.row_subset import subset_of
from _multitables.plan.sharding import length
from _multitables.plan.stream_plan import ENDLESS, plan_reads
from _multitables.plan.tasks import KIND_SHARE
from _multitables.wire import plan_bytes


def windows_of(tasks: np.ndarray) -> list[tuple[int, int, int]]:
    """`(first row on the tape, end, first position)` of each window, in the tasks' order."""
    found = []
    for task in tasks:
        window = tuple(int(task[name]) for name in ("row_begin", "row_end", "position"))
        if found[-1:] != [window]:
            found.append(window)
    return found


def positions(ranges: Sequence[tuple[int, int]]) -> list[int]:
    return [at for begin, end in ranges for at in range(begin, end)]


@many
@given(a_case())
def test_file_order_is_a_stream(case: Case) -> None:
    plan = case.plan()
    assert (plan.order is None) == streams(case)
    assert plan.lap_rows == length(case.ranges)
    assert plan.lap_blocks
    if not streams(case):
        assert (plan.tasks["kind"] == KIND_SHARE).all()
        return
    begin, end = (*case.ranges, (0, 0))[0]
    want = plan_reads(
        case.indexes,
        native_filters=NATIVE,
        first_row=case.order.start + begin,
        end_row=case.order.start + end,
        remainder=True,
        lap_blocks=True,
        block_rows=case.options["batch_size"],
        **{name: value for name, value in case.options.items() if name != "batch_size"},
    )
    np.testing.assert_array_equal(plan.tasks, want.tasks)
    np.testing.assert_array_equal(plan.table.chunks, want.table.chunks)
    tables = [replace(one.table, chunks=0) for one in (plan, want)]
    assert tables[0] == tables[1]
    assert replace(plan, tasks=0, table=0) == replace(want, tasks=0, table=0)


@many
@given(a_case())
def test_windows_cover_the_lap_and_shares_are_complete(case: Case) -> None:
    plan = case.plan()
    if plan.order is None:
        return
    window_rows = case.order.window_rows
    tasks = plan.tasks
    assert (np.diff(tasks["row_begin"].astype(int)) >= 0).all()
    windows = None
    for number, dataset in enumerate(plan.datasets):
        mine = tasks[tasks["tape"] == number]
        if dataset.index.row_bytes == 0:
            assert len(mine) == 0
            continue
        found = windows_of(mine)
        assert windows in (None, found)  # of all members alike
        windows = found
        edges = [begin for begin, _, _ in found] + [plan.lap_rows]
        assert edges[0] == 0
        assert [end for _, end, _ in found] == edges[1:]
        spans = [(first, first + end - begin) for begin, end, first in found]
        assert positions(spans) == positions(case.ranges)
        assert all(first // window_rows == (end - 1) // window_rows for first, end in spans)
        share, shares = mine["share"], mine["shares"]
        for begin in edges[:-1]:
            of = mine["row_begin"] == begin
            assert len(set(shares[of].tolist())) == 1
            assert share[of].tolist() == list(range(int(shares[of][0])))
    if windows:
        # A part of an epoch in large windows of a full shuffle has smaller ones, cut at those, too.
        widest = max(end - begin for begin, end, _ in windows)
        cuts = plan.lap_rows // window_rows + len(case.ranges) if widest < window_rows else 0
        assert len(windows) <= plan.lap_rows // widest + 2 * len(case.ranges) + cuts


@many
@given(a_case())
def test_the_chunks_are_all_that_are_stored(case: Case) -> None:
    plan = case.plan()
    if plan.order is None:
        return
    lead, at = lead_of(case.indexes), 0
    for number, dataset in enumerate(plan.datasets):
        index = dataset.index
        caches = plan.tapes[number].caches
        if dataset.reason:
            assert not caches
            continue
        assert caches == (number != lead and bool(index.kind.pipeline))
        count = math.prod(
            -(-dim // chunk) for dim, chunk in zip(index.dims, dataset.chunk_dims, strict=True)
        )
        if index.is_chunked:
            stored = index.grid_index
        else:
            stored = np.arange(count if len(index.byte_offset) else 0, dtype=np.uint64)
        assert (dataset.chunks_at, dataset.n_chunks) == (at, len(stored))
        chunks = plan.table.chunks[at : at + len(stored)]
        np.testing.assert_array_equal(chunks["grid_index"], stored)
        if index.is_chunked:
            np.testing.assert_array_equal(chunks["byte_offset"], index.byte_offset)
        at += len(stored)
    assert at == len(plan.table.chunks)
    assert plan.cache_bytes == sizes.KEEP_BYTES


@many
@given(a_case())
def test_the_ring_holds_what_it_must(case: Case) -> None:
    plan = case.plan()
    begin = plan.tasks["row_begin"].astype(int)
    if plan.order is not None:
        span = int((plan.tasks["row_end"] - plan.tasks["row_begin"]).max(initial=0))
        least = span + 2 * plan.block_rows
        ahead = (case.options["read_ahead"] or 0) * plan.block_rows
        rows = case.laps * plan.lap_rows if plan.lap_rows else 0
        assert plan.capacity_rows >= min(max(least, ahead), rows)
        assert plan.block_rows <= plan.capacity_rows <= max(rows, plan.block_rows)
        assert plan.block_rows == min(case.options["batch_size"], max(1, plan.lap_rows))
        assert plan.end_row == (ENDLESS if rows == math.inf else rows)
    for dataset, tape in zip(plan.datasets, plan.tapes, strict=True):
        assert tape.n_bytes >= max(1, plan.capacity_rows * dataset.index.row_bytes)
        assert tape.n_bytes % 4096 == 0
    assert plan.n_slots & (plan.n_slots - 1) == 0
    if not len(begin):
        return
    # Two tasks may never share a slot while both begin within one capacity.
    laps = 1 if plan.end_row == plan.lap_rows else plan.capacity_rows // plan.lap_rows + 2
    if laps * len(begin) > 10**6:
        assert plan.n_slots > len(begin) * (laps - 2)
        return
    tape = (np.arange(laps)[:, None] * plan.lap_rows + begin).reshape(-1)
    within = np.searchsorted(tape, begin + plan.capacity_rows, side="left") - np.searchsorted(
        tape, begin, side="left"
    )
    assert (within <= plan.n_slots).all()


@many
@given(a_case())
def test_wire(case: Case) -> None:
    plan = case.plan()
    got = decoded(plan_bytes.encode_plan(plan, 8192, {}, [""] * len(plan.datasets)))
    assert got["lap_blocks"] == 1
    assert got["cache_bytes"] == plan.cache_bytes
    np.testing.assert_array_equal(got["tasks"], plan.tasks)
    table = got["table"]
    np.testing.assert_array_equal(table["chunks"]["grid_index"], plan.table.chunks["grid_index"])
    for record, tape in zip(got["tapes"], plan.tapes, strict=True):
        assert bool(record["caches"]) == tape.caches
    for record, dataset in zip(table["datasets"], plan.datasets, strict=True):
        assert (record["chunks_at"], record["n_chunks"]) == (dataset.chunks_at, dataset.n_chunks)
        assert bool(record["flags"] & 2) == bool(dataset.reason)
    if plan.order is None:
        assert got["n_order"] == got["n_listed"] == 0
        return
    order = case.order
    assert got["order"].tolist() == [
        order.shuffle, order.seed, order.first_epoch, order.n_rows, order.chunk_rows,
        order.window_rows, order.start, order.step,
    ]  # fmt: skip
    listed = [] if order.listed is None else order.listed.tolist()
    assert got["listed"].tolist() == listed
    assert len(listed) == (0 if order.step else order.n_rows)


@settings(many, max_examples=60)
@given(a_case())
def test_the_core_accepts_every_plan(case: Case) -> None:
    plan = case.plan(memory_limit_bytes=1 << 60)
    if plan.ring_payload_bytes > 64 << 20:
        return
    made = ring(plan, encoded(plan))
    total = made.progress()[1]
    if plan.end_row == ENDLESS:
        assert total is None
    else:
        epochs = plan.end_row // max(1, plan.lap_rows)
        assert total == epochs * -(-plan.lap_rows // plan.block_rows)
    for number in range(0, len(plan.tasks), 7):
        dataset, begin, end, _ = made.address(number)
        assert dataset == plan.tasks[number]["dataset"]
        if plan.order is not None:  # its rows may be any
            assert (begin, end) == (0, case.indexes[dataset].n_rows)
    made.close()


@pytest.mark.parametrize("layout", ["chunked", "contiguous"])
def test_rows_without_elements(layout: str) -> None:
    """They are as many as others, and take no task."""
    chunk_dims = (10, 3) if layout == "chunked" else None
    plain = plain_index()
    empty = replace(plain, dims=(100, 0), chunk_dims=chunk_dims)
    empty = replace(empty, chunks=empty.chunks[:0])
    if layout == "contiguous":
        empty = replace(empty, kind=replace(empty.kind, pipeline=()))
    for indexes in ([empty], [empty, plain], [plain, empty]):
        order = order_of(indexes, subset_of(None, 100), asked())
        given_ = {"order": order, "ranges": [(0, 100)], "batch_size": 10, "n_readers": 2}
        plan = plan_batches(indexes, native_filters=NATIVE, **given_)
        assert set(plan.tasks["tape"]) == {at for at, one in enumerate(indexes) if one is plain}
        made = ring(plan, encoded(plan))
        assert made.progress()[1] == 10
        made.close()


@many
@given(a_case())
def test_equal_arguments_give_equal_plans(case: Case) -> None:
    one, two = case.plan(), case.plan()
    np.testing.assert_array_equal(one.tasks, two.tasks)
    np.testing.assert_array_equal(one.table.chunks, two.table.chunks)
    bare = {"tasks": 0, "table": None, "order": None}
    assert replace(one, **bare) == replace(two, **bare)


@many
@given(a_case())
def test_the_order_is_not_the_plans(case: Case) -> None:
    """Neither the driver nor the readers have a part in it, nor in what is at a position."""
    plan = case.plan()
    for changes in ({"direct": not case.options["direct"]}, {"n_readers": 7}, {"batch_size": 3}):
        other = case.plan(**changes)
        assert other.order is plan.order
        spans = [windows_of(each.tasks[each.tasks["tape"] == 0]) for each in (plan, other)]
        # Where windows of a full shuffle are cut has no part in it, and may follow the batches.
        if plan.order is not None and not (plan.order.shuffle == FULL and "batch_size" in changes):
            assert spans[0] == spans[1]


@pytest.mark.parametrize(
    ("changes", "buffered", "direct"),
    [
        ({}, 2 * 65536, 65536 + 262144),
        ({"shuffle": "chunks"}, 2 * 65536, 65536 + 262144),
        ({"window_rows": 1 << 20}, 2 << 20, 2 << 20),
        ({"shuffle": "full", "memory_limit_bytes": 1 << 24}, 1 << 17, 1 << 17),
    ],
)
def test_direct_rings_have_room_for_requests(
    changes: dict[str, Any], buffered: int, direct: int
) -> None:
    """As much as streams in file order have, beside the window that is delivered."""
    n_rows = 4_000_000
    index = plain_index(n_rows, 4096, 32)  # 128 bytes a row
    order = order_of([index], subset_of(None, n_rows), asked(**changes))
    for given_, want in (
        ({"direct": False}, buffered + 20),
        ({"direct": True}, direct + 20),
        ({"direct": True, "read_ahead": 1 << 18}, 10 << 18),
    ):
        plan = plan_batches(
            [index], order=order, ranges=[(0, n_rows)], batch_size=10, n_readers=2, **given_
        )
        assert plan.capacity_rows == want


def test_direct_readers_of_little_data_do_not_run_epochs_ahead() -> None:
    index = plain_index(100, 10, 8)
    order = order_of([index], subset_of(None, 100), asked())
    given_ = {"order": order, "ranges": [(0, 100)], "batch_size": 10, "epochs": None}
    plans = [plan_batches([index], n_readers=4, direct=way, **given_) for way in (False, True)]
    assert [plan.capacity_rows for plan in plans] == [220, 220]


def test_what_does_not_fit_into_memory() -> None:
    index = plain_index()
    order = order_of([index], subset_of(None, 100), asked())
    given_ = {"order": order, "ranges": [(0, 100)], "n_readers": 2}
    with pytest.raises(OptionsError, match="a batch does not fit") as caught:
        plan_batches([index], batch_size=33, memory_limit_bytes=1024, **given_)
    assert caught.value.option == "batch_size"
    with pytest.raises(OptionsError, match="the ring does not fit") as caught:
        plan_batches([index], batch_size=32, memory_limit_bytes=1024, **given_)
    assert caught.value.option == "window or batch_size"


def test_windows_of_small_rows_are_one_readers() -> None:
    """Where their order takes longer than their bytes, and the ring has one for each reader."""

    def made(n_rows: int, element: int, n_readers: int = 3, **changes: Any) -> tuple[bool, int]:
        index = plain_index(n_rows, 4096, element)
        ahead = changes.pop("read_ahead", None)
        order = order_of([index], subset_of(None, n_rows), asked(**changes))
        plan = plan_batches(
            [index],
            order=order,
            ranges=[(0, n_rows)],
            batch_size=10,
            n_readers=n_readers,
            epochs=None,
            read_ahead=ahead,
        )
        alone = int(plan.tasks["shares"].max()) == 1
        return alone, plan.capacity_rows - 20

    window = 1 << 19  # rows of 16 bytes
    assert made(3 * window, 4) == (True, 4 * window)
    # With fewer windows than readers, some would have nothing to do.
    assert made(3 * window, 4, 4) == (False, 2 * window)
    assert made(3 * window, 4, read_ahead=1) == (False, window)
    # Nor may the ring become large.
    assert made(12 * window, 4, window_rows=3 * window) == (False, 6 * window)
    assert made(3 * window, 4, shuffle="chunks")[0] is False
    # Rows of 128 bytes.
    assert made(3 * window, 32)[0] is False
