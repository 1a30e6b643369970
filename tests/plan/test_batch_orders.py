"""Orders of batches, and how often their chunks are decoded: no file, no process.

Law
---
1. What stands at a position depends on data, rows, shuffle, window, seed and epoch alone.
2. Estimates are held against a count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from batch_cases import Case, a_case, a_subset, asked, many, streams
from hypothesis import given
from hypothesis import strategies as st
from plans import NATIVE, an_index, plain_index

from _multitables import _core, options
from _multitables.plan.batch_plan import lead_of, plan_batches, read_amplification
from _multitables.plan.row_order import (
    CHUNKS,
    FILE_ORDER,
    FULL,
    MAX_WINDOW_ROWS,
    WINDOW,
    OrderWords,
    chunk_rows,
    order_of,
)
from _multitables.plan.row_subset import subset_of
from _multitables.plan.sharding import length


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
    assert order.window_rows <= 2 * MAX_WINDOW_ROWS


def _index(rows: Any) -> Any:
    return rows if isinstance(rows, slice) else np.array(rows, int)


def test_the_longest_rows_lead() -> None:
    short, long = plain_index(element=8), plain_index(chunk=25, element=16)
    assert lead_of([short, long]) == 1
    assert lead_of([long, short]) == lead_of([short, short]) == 0
    assert order_of([short, long], subset_of(None, 100), asked()).chunk_rows == 25
    assert chunk_rows(replace(short, chunk_dims=None)) == (256 << 10) // 32
    assert chunk_rows(replace(short, chunk_dims=None).by_library("virtual")) == (1 << 20) // 32


def test_default_windows() -> None:
    """8 MiB of rows, and at least 16 chunks."""
    index = plain_index(rows=10**6)
    subset = subset_of(None, 10**6)
    assert order_of([index], subset, asked()).window_rows == -(-(8 << 20) // 32 // 10) * 10
    large = plain_index(rows=10**6, chunk=10**5)
    assert order_of([large], subset, asked()).window_rows == 16 * 10**5
    # Fewer chunks of 32 and of 320 MiB.
    for chunk, expected in ((1 << 20, 8), (10 << 20, 4)):
        huge = plain_index(rows=1 << 30, chunk=chunk)
        for shuffle in ("window", "chunks"):
            found = order_of([huge], subset_of(None, 1 << 30), asked(shuffle=shuffle))
            assert found.window_rows == expected * chunk
    assert order_of([index], subset, asked(window_rows=101)).window_rows == 110
    # Shorter where only chunks are shuffled, but not where these would often be decoded twice.
    chunks = asked(shuffle="chunks")
    raw, large_raw = (replace(one, kind=replace(one.kind, pipeline=())) for one in (index, large))
    for indexes, rows in [
        ([index], (2 << 20) // 32),
        ([large], 16 * 10**5),
        ([index, index], (2 << 20) // 64),
        ([index, large], (8 << 20) // 64),
        ([raw], (2 << 20) // 32),
        ([large_raw], 10**5),
        ([raw, large_raw], (2 << 20) // 64),
    ]:
        assert order_of(indexes, subset, chunks).window_rows == -(-rows // 10) * 10
    assert order_of([index], subset, asked(shuffle="chunks", window_rows=101)).window_rows == 110
    full = asked(shuffle="full", memory_limit_bytes=64_000)
    assert order_of([index], subset, full).window_rows == 1000
    assert order_of([index], subset, asked(shuffle="full")).window_rows == 10**6


@pytest.mark.parametrize("shuffle", ["chunks", "window", "full"])
def test_windows_have_places_of_32_bits(shuffle: str) -> None:
    index = plain_index(rows=2**35, chunk=2**30, element=1)
    wanted = asked(shuffle=shuffle, window_rows=10**30, memory_limit_bytes=10**30)
    order = order_of([index], subset_of(None, 2**35), wanted)
    assert order.window_rows == MAX_WINDOW_ROWS
    plan = plan_batches(
        [index], order=order, ranges=[(0, 2**35)], batch_size=10, n_readers=2, native_filters=NATIVE
    )
    assert int((plan.tasks["row_end"] - plan.tasks["row_begin"]).max()) == MAX_WINDOW_ROWS


def test_small_rows_of_a_full_shuffle() -> None:
    """Places take memory only where windows are short beside the whole."""
    index = plain_index(rows=10**9, chunk=10**5, element=1)  # 4 bytes a row
    subset, wanted = subset_of(None, 10**9), asked(shuffle="full", memory_limit_bytes=1 << 30)
    order = order_of([index], subset, wanted)
    assert order.window_rows == 1 << 27
    less = order_of([index], subset, asked(shuffle="full", memory_limit_bytes=1 << 29))
    assert less.window_rows == 1 << 23

    def windows(*ranges: tuple[int, int]) -> list[tuple[int, int]]:
        plan = plan_batches(
            [index], order=order, ranges=ranges, batch_size=10, n_readers=2, native_filters=NATIVE
        )
        found = plan.tasks["position"], plan.tasks["row_end"] - plan.tasks["row_begin"]
        return sorted(set(zip(*(column.tolist() for column in found), strict=True)))

    assert len(windows((0, 10**9))) == 8
    # Of two datasets the rows would be gone through twice.
    assert order_of([index, index], subset, wanted).window_rows == 1 << 24
    assert windows((5, 1 << 27)) == [(5, (1 << 27) - 5)]
    # Of a small part all places are held, 32 bytes each; no window of the order is left.
    begin = (1 << 27) - 100
    assert windows((begin, begin + 3 * 10**7)) == [
        (begin, 100),
        (1 << 27, 1 << 24),
        ((1 << 27) + (1 << 24), 3 * 10**7 - 100 - (1 << 24)),
    ]


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


def test_a_row_is_of_one_chunk() -> None:
    """Also where the rows that are wanted of a chunk's length are of two chunks."""
    index = plain_index(rows=3, chunk=2)
    order = order_of([index], subset_of(slice(None, None, 2), 3), asked(shuffle=None))
    plan = plan_batches(
        [index], order=order, ranges=[(0, 1)], batch_size=1, n_readers=1, native_filters=NATIVE
    )
    assert read_amplification(plan) == 1.0


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
