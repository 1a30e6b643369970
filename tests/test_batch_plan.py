"""Plans of batches, by the thousand: no file, no process.

Law
---
1. What the shares of a plan must cover is said by its ranges: windows follow each other over the
   lap, hold the ranges' positions in their order, and lie inside the order's windows.
2. Wire: the order is read back word by word. The core accepts every plan.
3. What stands at a position depends on data, rows, shuffle, window, seed and epoch alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import NATIVE, an_index, decoded, encoded, plain_index, ring, words

from _multitables import _core, options, wire
from _multitables.batch_plan import (
    CHUNKS,
    FILE_ORDER,
    FULL,
    MOST_WINDOW_ROWS,
    WINDOW,
    chunk_rows,
    lead_of,
    order_of,
    plan_batches,
    read_amplification,
)
from _multitables.chunk_index import ChunkIndex
from _multitables.dealing import Deal, dealt, length
from _multitables.errors import OptionsError
from _multitables.options import BatchOptions
from _multitables.read_plan import (
    ENDLESS,
    KIND_SHARE,
    UNALLOCATED,
    OrderWords,
    ReadPlan,
    plan_reads,
)
from _multitables.subset import subset_of

many = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def asked(**changes: Any) -> BatchOptions:
    """Options as `get_batches` checks them."""
    plain = {
        "batch_size": 10, "n_procs": 2, "shuffle": "window", "seed": 1, "epochs": 1,
        "start_epoch": 0, "drop_last": False, "rank": 0, "world_size": 1, "read_ahead": None,
        "window_rows": None, "even": False, "memory_limit_bytes": None,
    }  # fmt: skip
    return options.check_batch_options(**{**plain, **changes})


@dataclass(frozen=True)
class Case:
    """Arguments of plan_batches."""

    indexes: tuple[ChunkIndex, ...]
    order: OrderWords
    ranges: tuple[tuple[int, int], ...]
    options: dict[str, Any]

    def plan(self, **changes: Any) -> ReadPlan:
        return plan_batches(
            self.indexes,
            order=self.order,
            ranges=self.ranges,
            native_filters=NATIVE,
            **{**self.options, **changes},
        )

    @property
    def laps(self) -> float:
        epochs = self.options["epochs"]
        return math.inf if epochs is None else float(epochs)


@st.composite
def a_subset(draw: st.DrawFn, n_rows: int) -> Any:
    kind = draw(st.sampled_from(["all", "all", "slice", "list"]))
    if kind == "slice":
        return slice(draw(st.integers(0, n_rows)), None, draw(st.integers(1, 4)))
    if kind == "list" and n_rows:
        return draw(st.lists(st.integers(0, n_rows - 1), max_size=40))
    return None


@st.composite
def some_ranges(draw: st.DrawFn, n_rows: int) -> tuple[tuple[int, int], ...]:
    """What a rank delivers: of an epoch, or of what was left of one; perhaps padded."""
    left = [(0, n_rows)]
    if draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(0, n_rows), max_size=8)))
        left = list(zip(cuts[::2], cuts[1::2], strict=False))
    world = draw(st.integers(1, 4))
    deal = Deal(
        draw(st.integers(1, 50)),
        draw(st.integers(0, world - 1)),
        world,
        draw(st.booleans()),
        draw(st.booleans()),
    )
    return tuple(dealt(left, deal))


@st.composite
def a_case(draw: st.DrawFn) -> Case:
    n_rows = draw(st.one_of(st.integers(0, 40), st.integers(0, 600)))
    indexes = tuple(draw(st.lists(an_index(n_rows), min_size=1, max_size=3)))
    wanted = asked(
        batch_size=draw(st.integers(1, 80)),
        shuffle=draw(st.sampled_from(options.SHUFFLES)),
        seed=draw(st.integers(0, 2**63 - 1)),
        window_rows=draw(st.none() | st.integers(1, 200) | st.just(10**30)),
        memory_limit_bytes=draw(st.none() | st.integers(1, 1 << 24)),
    )
    order = order_of(indexes, subset_of(draw(a_subset(n_rows)), n_rows), wanted)
    order = replace(order, first_epoch=draw(st.integers(0, 9) | st.just(2**63 - 1)))
    options_ = {
        "batch_size": wanted.batch_size,
        "n_readers": draw(st.integers(1, 9)),
        "epochs": draw(st.sampled_from([1, 3, None])),
        "read_ahead": draw(st.none() | st.integers(1, 30)),
        "direct": draw(st.booleans()),
    }
    return Case(indexes, order, draw(some_ranges(order.n_rows)), options_)


def streams(case: Case) -> bool:
    """Rows in the order of the file are a plain stream's."""
    return case.order.shuffle == FILE_ORDER and case.order.step == 1 and len(case.ranges) <= 1


def windows_of(tasks: np.ndarray) -> list[tuple[int, int, int]]:
    """`(first row on the tape, end, first position)` of each window, in the tasks' order."""
    found = []
    for task in tasks:
        window = tuple(int(task[name]) for name in ("row_begin", "row_end", "first_chunk"))
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
    np.testing.assert_array_equal(plan.chunks, want.chunks)
    assert replace(plan, tasks=0, chunks=0) == replace(want, tasks=0, chunks=0)


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
    for number, member in enumerate(plan.members):
        mine = tasks[tasks["member"] == number]
        if member.index.row_bytes == 0:
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
        shares = mine["n_chunks"] >> np.uint64(32)
        share = mine["n_chunks"] & np.uint64(2**32 - 1)
        for begin in edges[:-1]:
            of = mine["row_begin"] == begin
            assert len(set(shares[of].tolist())) == 1
            assert share[of].tolist() == list(range(int(shares[of][0])))
    if windows:
        assert len(windows) <= plan.lap_rows // window_rows + 2 * len(case.ranges)


@many
@given(a_case())
def test_the_chunks_are_whole_grids(case: Case) -> None:
    plan = case.plan()
    if plan.order is None:
        return
    lead, at = lead_of(case.indexes), 0
    for number, member in enumerate(plan.members):
        index = member.index
        if member.reason:
            assert not member.kept
            continue
        assert member.kept == (number != lead and bool(index.pipeline))
        count = math.prod(
            -(-dim // chunk) for dim, chunk in zip(index.dims, member.chunk_dims, strict=True)
        )
        assert member.grid_at == at
        chunks = plan.chunks[at : at + count]
        assert chunks["grid_index"].tolist() == list(range(count))
        if index.layout == "chunked":
            stored = index.grid_index.astype(int)
            np.testing.assert_array_equal(chunks["byte_offset"][stored], index.byte_offset)
            assert (chunks["byte_offset"] != UNALLOCATED).sum() == len(stored)
        at += count
    assert at == len(plan.chunks)
    assert plan.keep_bytes == options.KEEP_BYTES


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
    for member in plan.members:
        assert member.tape_bytes >= max(1, plan.capacity_rows * member.index.row_bytes)
        assert member.tape_bytes % 4096 == 0
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
    got = decoded(wire.encode_plan(plan, 8192, {}, [""] * len(plan.members)))
    assert got["lap_blocks"] == 1
    assert got["keep_bytes"] == plan.keep_bytes
    np.testing.assert_array_equal(got["tasks"], plan.tasks)
    np.testing.assert_array_equal(got["chunks"], plan.chunks)
    for record, member in zip(got["members"], plan.members, strict=True):
        assert record["grid_at"] == member.grid_at
        assert bool(record["flags"] & 8) == member.kept
        assert bool(record["flags"] & 16) == bool(member.reason)
    if plan.order is None:
        assert got["n_order"] == got["n_listed"] == 0
        return
    order = case.order
    assert words(got, got["order_at"], got["n_order"]) == [
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
        member, begin, end, _ = made.address(number)
        assert member == plan.tasks[number]["member"]
        if plan.order is not None:  # its rows may be any
            assert (begin, end) == (0, case.indexes[member].n_rows)
    made.close()


@pytest.mark.parametrize("layout", ["chunked", "contiguous"])
def test_rows_without_elements(layout: str) -> None:
    """They are as many as others, and take no task."""
    chunk_dims = (10, 3) if layout == "chunked" else None
    plain = plain_index()
    empty = replace(plain, shape=(100, 0), dims=(100, 0), layout=layout, chunk_dims=chunk_dims)
    empty = replace(empty, grid_index=empty.grid_index[:0], byte_offset=empty.byte_offset[:0])
    if layout == "contiguous":
        empty = replace(empty, pipeline=())
    for indexes in ([empty], [empty, plain], [plain, empty]):
        order = order_of(indexes, subset_of(None, 100), asked())
        given_ = {"order": order, "ranges": [(0, 100)], "batch_size": 10, "n_readers": 2}
        plan = plan_batches(indexes, native_filters=NATIVE, **given_)
        assert set(plan.tasks["member"]) == {at for at, one in enumerate(indexes) if one is plain}
        made = ring(plan, encoded(plan))
        assert made.progress()[1] == 10
        made.close()


@many
@given(a_case())
def test_equal_arguments_give_equal_plans(case: Case) -> None:
    one, two = case.plan(), case.plan()
    np.testing.assert_array_equal(one.tasks, two.tasks)
    np.testing.assert_array_equal(one.chunks, two.chunks)
    bare = {"tasks": 0, "chunks": 0, "order": None}
    assert replace(one, **bare) == replace(two, **bare)


@many
@given(a_case())
def test_the_order_is_not_the_plans(case: Case) -> None:
    """Neither the driver nor the readers have a part in it, nor in what is at a position."""
    plan = case.plan()
    for changes in ({"direct": not case.options["direct"]}, {"n_readers": 7}, {"batch_size": 3}):
        other = case.plan(**changes)
        assert other.order is plan.order
        spans = [windows_of(each.tasks[each.tasks["member"] == 0]) for each in (plan, other)]
        if plan.order is not None:
            assert spans[0] == spans[1]


# ---- orders ---------------------------------------------------------------------------------


def told(order: OrderWords) -> list[int]:
    """All rows of an order."""
    listed = np.zeros(0, "<u8") if order.listed is None else order.listed
    return _core.order_rows(
        (
            order.shuffle, order.seed, order.first_epoch, order.n_rows, order.chunk_rows,
            order.window_rows, order.start, order.step,
        ),
        listed.tobytes(), 0, order.n_rows,
    ).tolist()  # fmt: skip


@many
@given(st.data())
def test_what_an_order_depends_on(data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(0, 300))
    indexes = data.draw(st.lists(an_index(n_rows), min_size=1, max_size=3))
    rows = data.draw(a_subset(n_rows))
    shuffle = data.draw(st.sampled_from(options.SHUFFLES))
    given_ = {"shuffle": shuffle, "window_rows": data.draw(st.none() | st.integers(1, 99))}
    order = order_of(indexes, subset_of(rows, n_rows), asked(**given_))
    everything = np.arange(n_rows) if rows is None else np.arange(n_rows)[_index(rows)]
    assert sorted(told(order)) == sorted(everything.tolist())
    for other in (
        {"n_procs": 9, "read_ahead": 3},
        {"batch_size": 7, "drop_last": True},
        {"rank": 2, "world_size": 3, "even": True},
        {"epochs": None, "start_epoch": 5},
        {"memory_limit_bytes": 1 << 20},
    ):
        found = order_of(indexes, subset_of(rows, n_rows), asked(**given_, **other))
        assert told(found) == told(order)
    if shuffle != "full":
        assert order.window_rows % order.chunk_rows == 0
    assert order.window_rows <= 2 * MOST_WINDOW_ROWS


def _index(rows: Any) -> Any:
    return rows if isinstance(rows, slice) else np.array(rows, int)


def test_the_longest_rows_lead() -> None:
    short, long = plain_index(element=8), plain_index(chunk=25, element=16)
    assert lead_of([short, long]) == 1
    assert lead_of([long, short]) == lead_of([short, short]) == 0
    assert order_of([short, long], subset_of(None, 100), asked()).chunk_rows == 25
    assert chunk_rows(replace(short, layout="contiguous", chunk_dims=None)) == (256 << 10) // 32


def test_default_windows() -> None:
    """8 MiB of rows, and at least 16 chunks."""
    index = plain_index(rows=10**6)
    subset = subset_of(None, 10**6)
    assert order_of([index], subset, asked()).window_rows == -(-(8 << 20) // 32 // 10) * 10
    large = plain_index(rows=10**6, chunk=10**5)
    assert order_of([large], subset, asked()).window_rows == 16 * 10**5
    assert order_of([index], subset, asked(window_rows=101)).window_rows == 110
    full = asked(shuffle="full", memory_limit_bytes=64_000)
    assert order_of([index], subset, full).window_rows == 1000
    assert order_of([index], subset, asked(shuffle="full")).window_rows == 10**6


@pytest.mark.parametrize("shuffle", ["chunks", "window", "full"])
def test_windows_have_places_of_32_bits(shuffle: str) -> None:
    index = plain_index(rows=2**35, chunk=2**30, element=1)
    wanted = asked(shuffle=shuffle, window_rows=10**30, memory_limit_bytes=10**30)
    order = order_of([index], subset_of(None, 2**35), wanted)
    assert order.window_rows == MOST_WINDOW_ROWS
    plan = plan_batches(
        [index], order=order, ranges=[(0, 2**35)], batch_size=10, n_readers=2, native_filters=NATIVE
    )
    assert int((plan.tasks["row_end"] - plan.tasks["row_begin"]).max()) == MOST_WINDOW_ROWS


# ---- what is refused, and estimates ---------------------------------------------------------


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


@pytest.mark.parametrize(
    ("shuffle", "window_rows", "rows", "expected"),
    [
        (None, None, None, 1.0),
        (None, None, slice(None, None, 2), 1.0),
        ("chunks", 1000, None, 1.0),
        ("window", 1000, None, 1.0),
        ("window", 1000, slice(None, None, 3), 1.0),
        ("full", 20_000, None, 1.0),
        ("full", 1000, None, 8.0),
        ("full", 100, None, 9.5),
        ("full", 1000, slice(None, 10_000), 6.5),
    ],
)
def test_read_amplification(
    shuffle: str | None, window_rows: int | None, rows: slice | None, expected: float
) -> None:
    """The estimate against a count of (window, chunk) pairs, and that against what is known."""
    index = plain_index(rows=20_000)
    subset = subset_of(rows, 20_000)
    wanted = asked(shuffle=shuffle, window_rows=window_rows)
    if shuffle == "full":
        assert window_rows is not None
        wanted = asked(shuffle=shuffle, memory_limit_bytes=2 * 32 * window_rows)
    order = order_of([index], subset, wanted)
    plan = plan_batches(
        [index],
        order=order,
        ranges=[(0, order.n_rows)],
        batch_size=10,
        n_readers=2,
        native_filters=NATIVE,
    )
    found = np.array(told(order)) // 10
    windows = np.arange(order.n_rows) // order.window_rows
    pairs = len(np.unique(np.stack([windows, found]), axis=1).T)
    counted = pairs / len(np.unique(found))
    assert counted == pytest.approx(expected, rel=0.08)
    assert read_amplification(plan) == pytest.approx(counted, rel=0.08)


@many
@given(a_case())
def test_read_amplification_is_sane(case: Case) -> None:
    found = read_amplification(case.plan())
    assert 1.0 <= found <= max(1, length(case.ranges))
    if case.order.shuffle == FILE_ORDER and streams(case):
        assert found == 1.0


def test_numbers_of_shuffles() -> None:
    named = {None: FILE_ORDER, "chunks": CHUNKS, "window": WINDOW, "full": FULL}
    assert {name: at for at, name in enumerate(options.SHUFFLES)} == named
