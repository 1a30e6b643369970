"""The order of an epoch: what it is for ever, and that nothing but its words has a part in it.

Law
---
1. The oracle is the algorithm of the core's tables/shuffle/order.rs written down again, in Python,
   from its sources: SplitMix64, Fisher and Yates' shuffle, a generalised Feistel network.
2. Some short orders are written out. A change of one of them makes saved states and published
   seeds mean something else: that needs another number of states, and a word to users.
3. A row at a position does not depend on the other positions that are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _multitables import _core

FILE_ORDER, CHUNKS, WINDOW, FULL = range(4)
BITS = 2**64 - 1
many = settings(max_examples=150, deadline=None)


def order_rows(words: tuple[int, ...], listed: Any = (), begin: int = 0, end: int = 1 << 40) -> Any:
    """(shuffle, seed, epoch, rows, rows of a chunk, rows of a window, start, step)"""
    assert len(words) == 8
    rows = _core.order_rows(words, np.array(listed, "<u8").tobytes(), begin, end)
    assert rows.dtype == np.int64
    return rows.tolist()


# ---- the oracle -----------------------------------------------------------------------------


def finished(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & BITS
    return z ^ (z >> 31)


def numbers(seed: int, epoch: int, stream: int) -> Iterator[int]:
    """SplitMix64, from a state that is mixed of these."""
    state = 0
    for part in (seed, epoch, stream):
        state = finished((state ^ part) + 0x9E3779B97F4A7C15 & BITS)
    while True:
        state = state + 0x9E3779B97F4A7C15 & BITS
        yield finished(state)


def shuffled(items: list[Any], dice: Iterator[int]) -> list[Any]:
    items = list(items)
    for last in range(len(items) - 1, 0, -1):
        chosen = next(dice) * (last + 1) >> 64
        items[chosen], items[last] = items[last], items[chosen]
    return items


def scattered(n: int, dice: Iterator[int]) -> list[int]:
    """A permutation of `n` numbers: a Feistel network on a rectangle, walked until inside."""
    keys = [next(dice) for _ in range(64 if n < 4096 else 12)]
    columns = max(1, math.isqrt(n - 1) + 1 if n else 1)
    lines = max(1, -(-n // columns))
    found = []
    for position in range(n):
        at = position
        while True:
            line, column = divmod(at, columns)
            for first, second in zip(keys[::2], keys[1::2], strict=True):
                column = (column + (finished(line ^ first) * columns >> 64)) % columns
                line = (line + (finished(column ^ second) * lines >> 64)) % lines
            at = line * columns + column
            if at < n:
                break
        found.append(at)
    return found


def expected(words: tuple[int, ...], listed: list[int]) -> list[int]:
    shuffle, seed, epoch, n_rows, chunk_rows, window_rows, start, step = words
    rows = [start + step * i for i in range(n_rows)] if step else listed
    if shuffle == FILE_ORDER:
        return rows
    if shuffle == FULL:
        return [rows[at] for at in scattered(n_rows, numbers(seed, epoch, 1))]
    chunks: dict[int, list[int]] = {}
    for row in rows:
        chunks.setdefault(row // chunk_rows, []).append(row)
    flat = [
        row for chunk in shuffled(list(chunks.values()), numbers(seed, epoch, 0)) for row in chunk
    ]
    if shuffle == CHUNKS:
        return flat
    found: list[int] = []
    for number, begin in enumerate(range(0, n_rows, window_rows)):
        window = flat[begin : begin + window_rows]
        places = shuffled(list(range(len(window))), numbers(seed, epoch, 2 + number))
        mixed = [0] * len(window)
        for place, row in zip(places, window, strict=True):
            mixed[place] = row
        found += mixed
    return found


# ---- by the thousand ------------------------------------------------------------------------


@st.composite
def an_order(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int]]:
    listed: list[int] = []
    start, step = draw(st.integers(0, 50)), draw(st.integers(0, 5))
    n_rows = draw(st.one_of(st.integers(0, 12), st.integers(0, 300)))
    if step == 0:
        listed = sorted(draw(st.lists(st.integers(0, 400), min_size=n_rows, max_size=n_rows)))
        start = 0
    words = (
        draw(st.integers(0, 3)),
        draw(st.sampled_from([0, 1, 2**63 - 1]) | st.integers(0, 2**63 - 1)),
        draw(st.integers(0, 3) | st.integers(0, 2**63 - 1)),
        n_rows,
        draw(st.integers(1, 40)),
        draw(st.integers(1, 120)),
        start,
        step,
    )
    return words, listed


@many
@given(an_order())
def test_the_algorithm(order: tuple[tuple[int, ...], list[int]]) -> None:
    words, listed = order
    want = expected(words, listed)
    assert sorted(want) == sorted(expected((0, *words[1:]), listed))
    assert order_rows(words, listed) == want


@pytest.mark.parametrize("shuffle", [CHUNKS, WINDOW, FULL])
@pytest.mark.parametrize("n_rows", [4095, 4096, 5000, 10_000])
def test_the_algorithm_for_more_rows(shuffle: int, n_rows: int) -> None:
    words = (shuffle, 11, 4, n_rows, 64, 640, 0, 1)
    assert order_rows(words) == expected(words, [])


@many
@given(an_order(), st.data())
def test_any_cut_gives_the_same_rows(
    order: tuple[tuple[int, ...], list[int]], data: st.DataObject
) -> None:
    words, listed = order
    everything = order_rows(words, listed)
    n_rows = len(everything)
    cuts = sorted(data.draw(st.lists(st.integers(0, n_rows + 3), max_size=5)))
    found = []
    for begin, end in zip([0, *cuts], [*cuts, n_rows + 3], strict=True):
        part = order_rows(words, listed, begin, end)
        assert part == everything[begin:end]
        found += part
    assert found == everything


@many
@given(an_order(), st.data())
def test_positions_are_where_rows_stand(
    order: tuple[tuple[int, ...], list[int]], data: st.DataObject
) -> None:
    words, listed = order
    rows = order_rows(words, listed)
    begin = data.draw(st.integers(0, max(rows, default=0) + 3))
    end = data.draw(st.integers(begin, max(rows, default=0) + 3))
    there = _core.order_positions(words, np.array(listed, "<u8").tobytes(), begin, end)
    assert there.tolist() == [at for at, row in enumerate(rows) if begin <= row < end]


@many
@given(an_order(), st.integers(1, 500))
def test_only_window_orders_depend_on_the_window(
    order: tuple[tuple[int, ...], list[int]], window_rows: int
) -> None:
    """Of a full shuffle it is where the readers' work is cut."""
    words, listed = order
    other = (*words[:5], window_rows, *words[6:])
    if words[0] != WINDOW or min(words[5], window_rows) >= words[3]:
        assert order_rows(words, listed) == order_rows(other, listed)


# ---- for ever -------------------------------------------------------------------------------

# 12 rows in chunks of 3, windows of 6, seed 7.
GOLDEN = {
    (FILE_ORDER, 0): [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    (CHUNKS, 0): [6, 7, 8, 3, 4, 5, 9, 10, 11, 0, 1, 2],
    (CHUNKS, 1): [3, 4, 5, 9, 10, 11, 6, 7, 8, 0, 1, 2],
    (WINDOW, 0): [5, 7, 8, 4, 3, 6, 0, 11, 2, 9, 10, 1],
    (WINDOW, 1): [3, 11, 9, 5, 10, 4, 2, 6, 0, 1, 8, 7],
    (FULL, 0): [7, 2, 4, 9, 11, 5, 8, 0, 1, 10, 6, 3],
    (FULL, 1): [8, 4, 9, 0, 10, 3, 1, 2, 5, 7, 11, 6],
}


@pytest.mark.parametrize(("shuffle", "epoch"), GOLDEN)
def test_orders_stay_what_they_are(shuffle: int, epoch: int) -> None:
    assert order_rows((shuffle, 7, epoch, 12, 3, 6, 0, 1)) == GOLDEN[shuffle, epoch]


def test_orders_of_subsets_stay_what_they_are() -> None:
    listed = [1, 2, 2, 5, 8, 13, 21]
    assert order_rows((WINDOW, 2**63 - 1, 2**40, 7, 4, 4, 0, 0), listed) == [2, 8, 1, 5, 21, 13, 2]
    assert order_rows((FULL, 0, 3, 7, 4, 4, 0, 0), listed) == [8, 13, 2, 1, 21, 5, 2]
    assert order_rows((CHUNKS, 0, 3, 6, 4, 4, 5, 3)) == [17, 8, 11, 20, 14, 5]


def test_a_large_order_stays_what_it_is() -> None:
    """Its first rows, and rows far inside."""
    words = (FULL, 1, 0, 10**12, 1000, 10**6, 0, 1)
    assert order_rows(words, (), 0, 4) == [390764678787, 853578961437, 717853500223, 652981800440]
    assert order_rows(words, (), 10**11, 10**11 + 4) == [
        502511388417,
        861626211642,
        913548473067,
        718985203705,
    ]


# ---- what is refused ------------------------------------------------------------------------

GOOD = (WINDOW, 7, 0, 12, 3, 6, 0, 1)


@pytest.mark.parametrize(
    ("at", "value", "match"),
    [
        (0, 4, "no such shuffle"),
        (0, BITS, "no such shuffle"),
        (3, 2**48, "out of range"),
        (4, 0, "out of range"),
        (5, 0, "out of range"),
        (6, 2**63, "outside"),
        (7, 2**62, "outside"),
        (7, 0, "not in order"),
    ],
)
def test_impossible_orders(at: int, value: int, match: str) -> None:
    words = (*GOOD[:at], value, *GOOD[at + 1 :])
    with pytest.raises(ValueError, match=match):
        order_rows(words)


@pytest.mark.parametrize("listed", [range(11), range(13), [*range(11), 3]], ids=str)
def test_impossible_rows(listed: Any) -> None:
    with pytest.raises(ValueError, match="not in order"):
        order_rows((*GOOD[:7], 0), listed)


def test_more_chunks_than_can_be_shuffled() -> None:
    with pytest.raises(ValueError, match="too many chunks"):
        order_rows((CHUNKS, 0, 0, 2**40, 2**8, 1, 0, 1))


def test_numbers_that_are_no_words() -> None:
    for value in (-1, 2**64):
        with pytest.raises(OverflowError):
            order_rows((*GOOD[:1], value, *GOOD[2:]))


def test_nothing_is_asked_for() -> None:
    assert order_rows(GOOD, (), 3, 3) == order_rows(GOOD, (), 5, 2) == []
    assert order_rows(GOOD, (), 12, 2**64 - 1) == order_rows(GOOD, (), 2**64 - 1, 2**64 - 1) == []
    assert order_rows((WINDOW, 0, 0, 0, 3, 6, 0, 1)) == []
