"""The rows that take part, against NumPy: no file, no process.

Law
---
1. The oracle is `numpy.arange(n)[rows]`, sorted: whatever NumPy takes by one index is taken here.
2. What is refused is an OptionsError of `rows` that says what was got.
3. Whatever is taken fits the words in which the core is told: ascending, each row in the dataset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _multitables.errors import OptionsError
from _multitables.plan.row_subset import Subset, subset_of

many = settings(max_examples=150, deadline=None)
INTEGERS = [np.dtype(f"{order}{kind}") for kind in ("i1", "u1", "i2", "i4", "u8") for order in "<>"]


def rows_of(subset: Subset, n_rows: int) -> np.ndarray:
    """The rows of a subset as the core reads it."""
    if subset.step == 0:
        assert subset.listed is not None
        assert subset.listed.dtype == np.uint64
        assert len(subset.listed) == subset.n_rows > 0
        found = subset.listed.astype(np.int64)
    else:
        assert subset.listed is None
        assert max(subset.start, subset.step) < 1 << 62
        last = subset.start + max(0, subset.n_rows - 1) * subset.step
        assert last < max(1, n_rows)
        found = subset.start + np.arange(subset.n_rows) * subset.step
    assert ((found >= 0) & (found < n_rows)).all()
    return found


def agrees(rows: Any, n_rows: int, like: Any = None) -> Subset:
    subset = subset_of(rows, n_rows)
    want = np.sort(np.arange(n_rows)[rows if like is None else like])
    np.testing.assert_array_equal(rows_of(subset, n_rows), want)
    return subset


lengths = st.one_of(st.integers(0, 6), st.integers(0, 500))


@many
@given(lengths, st.data())
def test_slices(n_rows: int, data: st.DataObject) -> None:
    bound = st.none() | st.integers(-n_rows - 3, n_rows + 3) | st.sampled_from([-(10**30), 10**30])
    step = st.none() | st.integers(-9, 9).filter(bool) | st.sampled_from([-(10**30), 10**30])
    subset = agrees(slice(data.draw(bound), data.draw(bound), data.draw(step)), n_rows)
    assert subset.step > 0


@many
@given(lengths, st.data())
def test_ranges(n_rows: int, data: st.DataObject) -> None:
    low, high = -n_rows - 2, n_rows + 2
    start, stop = data.draw(st.integers(low, high)), data.draw(st.integers(low, high))
    rows = range(start, stop, data.draw(st.integers(-9, 9).filter(bool)))
    if all(-n_rows <= row < n_rows for row in rows):
        agrees(rows, n_rows, list(rows))
        return
    with pytest.raises(OptionsError, match="outside"):
        subset_of(rows, n_rows)


@many
@given(st.one_of(st.integers(1, 6), st.integers(1, 5000)), st.data())
def test_listed_rows(n_rows: int, data: st.DataObject) -> None:
    """Of every width, also one in which the number of rows has no room."""
    dtype = data.draw(st.sampled_from(INTEGERS))
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -n_rows), min(limits.max, n_rows - 1)
    numbers = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=30))
    subset = agrees(np.array(numbers, dtype), n_rows, numbers)
    assert subset.n_rows == len(numbers)
    agrees(numbers, n_rows)
    agrees(tuple(numbers), n_rows, numbers)


@many
@given(st.lists(st.booleans(), max_size=200))
def test_masks(mask: list[bool]) -> None:
    like = np.array(mask, bool)
    agrees(like, len(mask))
    if mask:
        agrees(mask, len(mask), like)


def test_all_rows() -> None:
    assert subset_of(None, 7) == subset_of(slice(None), 7) == Subset(7)
    assert subset_of(range(7), 7) == subset_of(np.ones(7, bool), 7) == Subset(7)


@pytest.mark.parametrize("rows", [[], (), np.zeros(0, int), slice(3, 3), range(0), [False] * 5])
def test_no_rows(rows: Any) -> None:
    assert subset_of(rows, 5).n_rows == 0


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (slice(2, 9), 1),
        (slice(8, 1, -1), 1),
        ([4, 3, 5], 1),
        (np.array([False, True, True] + [False] * 7), 1),
        (slice(4, 9, 7), 1),  # one row has no step
        (slice(None, None, -3), 3),
        ([1, 2, 2, 3], 0),
        ([1, 3], 0),
    ],
)
def test_runs_of_rows_are_known_as_such(rows: Any, step: int) -> None:
    assert subset_of(rows, 10).step == step


def test_what_is_given_is_not_changed() -> None:
    rows = np.array([5, -1, 2])
    subset_of(rows, 9)
    assert rows.tolist() == [5, -1, 2]


def test_a_large_range_is_not_walked_through() -> None:
    assert subset_of(range(0, 10**15, 3), 10**15) == Subset(-(-(10**15) // 3), 0, 3)


NOT_ROWS = [
    3,
    2.5,
    "abc",
    ...,
    {"a": 1},
    [1.0, 2.0],
    np.zeros(3),
    np.zeros((2, 2), int),
    np.zeros((2, 5), bool),
    [[1], [2, 3]],
    ["a"],
    [None],
    [2**70],
    np.array(1),
    slice(None, None, 0),
    slice(0.5, 2),
    slice("a", None),
]


@pytest.mark.parametrize("rows", NOT_ROWS, ids=repr)
def test_what_are_no_rows(rows: Any) -> None:
    with pytest.raises(OptionsError, match="rows must be a slice") as caught:
        subset_of(rows, 5)
    assert caught.value.option == "rows"
    assert caught.value.got is rows


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        ([5], 5),
        ([-6], -6),
        ([0, -6, 7], 7),
        (np.array([2**64 - 1], np.uint64), 2**64 - 1),
        (np.array([200], np.uint8), 200),
        (range(3, 6), 5),
        (range(-6, 0), -6),
    ],
)
def test_rows_that_there_are_not(rows: Any, got: int) -> None:
    with pytest.raises(OptionsError, match="outside the dataset: expected -5:5") as caught:
        subset_of(rows, 5)
    assert (caught.value.option, caught.value.expected, caught.value.got) == ("rows", 5, got)


@pytest.mark.parametrize("length", [0, 4, 6])
def test_masks_of_another_length(length: int) -> None:
    with pytest.raises(OptionsError, match=f"expected 5, got {length}") as caught:
        subset_of(np.ones(length, bool), 5)
    assert (caught.value.option, caught.value.expected, caught.value.got) == ("rows", 5, length)
