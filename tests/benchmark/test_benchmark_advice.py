"""The laws of advice: the bound is the smallest limit, and only what was measured is advised.

Law
---
1. Values are drawn, never measured.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _multitables.benchmark.analysis import advice
from _multitables.benchmark.analysis.advice import Bounds, Growing, Shape

RATE = st.floats(1, 1e6)
CORES = st.integers(1, 128)
RATES = st.dictionaries(st.integers(1, 64), RATE, min_size=1)
NAMES = st.sampled_from(["device", "hand-over", "memory"])
GROWING = st.builds(Growing, RATE, RATE, CORES)


@given(RATES)
def test_the_fewest_are_measured_close_to_the_best_and_the_fewest(rates: dict[int, float]) -> None:
    found = advice.fewest(rates)
    enough = (1 - advice.TOLERANCE) * max(rates.values())
    assert rates[found] >= enough
    assert all(rate < enough for number, rate in rates.items() if number < found)


@given(RATES)
def test_without_tolerance_the_best_wins(rates: dict[int, float]) -> None:
    assert rates[advice.fewest(rates, 0)] == max(rates.values())


@given(GROWING, st.integers(1, 256))
def test_a_limit_grows_to_what_all_cores_do(limit: Growing, n_procs: int) -> None:
    found = limit.on(n_procs)
    assert found <= max(limit.one, limit.all_cores)
    if n_procs >= limit.cores:
        assert found == limit.all_cores
    elif n_procs == 1:
        assert found == limit.one
    else:
        assert found >= limit.one
        assert found <= n_procs * limit.one


@given(st.dictionaries(NAMES, RATE), st.dictionaries(st.just("decoding"), GROWING), RATES)
def test_the_bound_is_the_smallest_limit(
    fixed: dict[str, float], growing: dict[str, Growing], rates: dict[int, float]
) -> None:
    bounds = Bounds(fixed, growing)
    if not bounds.on(1):
        return
    found = advice.judge(bounds, rates)
    assert found.n_procs in rates
    assert found.rate == rates[found.n_procs]
    assert found.limit == min(bounds.on(found.n_procs).values())
    assert bounds.on(found.n_procs)[found.bound] == found.limit
    assert found.share * found.limit == pytest.approx(found.rate)
    if found.enough is not None:
        assert found.bound in growing
        one = growing[found.bound].one
        least = min(fixed.values())
        assert found.enough * one >= least * (1 - 1e-9)
        assert (found.enough - 1) * one < least
    elif fixed:
        assert found.bound in fixed


def test_more_limits_never_raise_the_bound() -> None:
    growing = {"decoding": Growing(300, 500, 2)}
    alone = advice.judge(Bounds({}, growing), {1: 250, 2: 480})
    assert (alone.n_procs, alone.bound, alone.limit, alone.enough) == (2, "decoding", 500, None)
    beside = advice.judge(Bounds({"device": 1400.0}, growing), {1: 250, 2: 480})
    assert (beside.bound, beside.limit, beside.enough) == ("decoding", 500, 5)
    slow = advice.judge(Bounds({"device": 100.0}, growing), {1: 99, 2: 100})
    assert (slow.n_procs, slow.bound, slow.limit, slow.enough) == (1, "device", 100, None)


@given(
    st.builds(
        Shape,
        rows=st.integers(1, 10**9),
        row_bytes=st.integers(1, 10**7),
        chunk_rows=st.integers(1, 10**6),
        chunk_bytes=st.integers(1, 10**8),
    )
)
def test_blocks_are_whole_rows_of_chunks_and_large_enough(shape: Shape) -> None:
    found = advice.block_rows(shape)
    assert 1 <= found <= shape.rows
    if found < shape.rows:
        assert found % shape.chunk_rows == 0
        assert found * shape.row_bytes >= advice.MIN_BLOCK_BYTES
        # and not larger than it must be
        less = found - shape.chunk_rows
        assert less == 0 or less * shape.row_bytes < advice.MIN_BLOCK_BYTES
    assert advice.ring_bytes(shape, found, 2) == 5 * found * shape.row_bytes


@pytest.mark.parametrize(
    ("chunk_bytes", "chunked", "rows", "cure"),
    [
        (1024, True, 10**6, True),
        (1024, False, 10**6, False),  # no chunks
        (1024, True, 10, False),  # a dataset of one block
        (64 * 1024, True, 10**6, False),
    ],
)
def test_tiny_chunks_are_to_be_written_anew(
    chunk_bytes: int, chunked: bool, rows: int, cure: bool
) -> None:
    assert advice.rechunk(Shape(rows, 512, 2, chunk_bytes), chunked) is cure


@pytest.mark.parametrize(
    ("shape", "chunked", "cure"),
    [
        (Shape(50_000, 3072, 6250, 100_000), True, True),  # of 32 x 32 x 3 bytes, by h5py
        (Shape(50_000, 3072, 6250, 100_000), False, False),
        (Shape(50_000, 3072, 85, 85 * 3072), True, False),  # whole rows
        (Shape(50_000, 3072, 6250, 6250 * 3072), True, False),  # of these, many
        (Shape(50_000, 3072, 50, 50 * 1024), True, False),  # soon whole
        (Shape(50, 3072, 6250, 100_000), True, False),  # a dataset of one block
    ],
)
def test_narrow_chunks_are_to_be_written_anew(shape: Shape, chunked: bool, cure: bool) -> None:
    assert advice.are_narrow(shape, chunked) is cure
    assert advice.across_bytes(shape) <= shape.rows * shape.row_bytes
    rows = advice.whole_rows(shape)
    assert 1 <= rows <= shape.rows
    assert rows == 1 or rows * shape.row_bytes <= advice.WHOLE_ROWS_BYTES


def test_shares_may_exceed_one() -> None:
    found = advice.judge(Bounds({"device": 100.0}), {1: 110.0})
    assert math.isclose(found.share, 1.1)
