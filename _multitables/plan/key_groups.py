"""Rows by the values of a key: where they begin, which groups have them, where they are cut.

Law
---
1. Pure, but for the keys that it asks for. A block never splits the rows of one value, and has the
   same values of every group.
2. Keys of several columns count as one: they are compared column by column, the first one first.
3. In a single group, equal keys need only lie together. Several groups must be sorted, because
   their values are matched.
4. A part is found without reading the keys of the others: no key is decoded once for each rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Key = Sequence[npt.NDArray[Any]]
#: A row of each group, and rows from one such to another.
Rows = tuple[int, ...]
Range = tuple[Rows, Rows]
Ranges = Sequence[Range]
#: Numbers are counted if there are at most this many times as many as rows.
DENSE = 4
#: Rows among which a value is searched by reading them all.
READ_AT_ONCE = 1 << 12


class UnsortedError(Exception):
    """A row of a group whose key is less than that of the row before it."""

    def __init__(self, group: int, row: int) -> None:
        super().__init__(group, row)
        self.group = group
        self.row = row


class Keys(Protocol):
    """The key of a group, which reads the rows that are asked for."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def rows(self, begin: int, end: int) -> Key:
        """Return some rows of its columns."""


@dataclass(frozen=True)
class KeyRows:
    """The values of a key, and where the rows of each lie in each group."""

    #: One array for each column of the key, of a row for each value.
    values: tuple[npt.NDArray[Any], ...]
    #: Of each group, where the rows of each value begin, and the end.
    offsets: tuple[I64, ...]

    @property
    def n_values(self) -> int:
        """Number of values."""
        return len(self.values[0])


def rows_in(groups: Sequence[Keys], one: Range) -> KeyRows:
    """Find the values of some rows of groups.

    Raises
    ------
    UnsortedError
        There are several groups, and one is not sorted by its key, there or from the row before.
    """
    keys = []
    for number, (group, begin, end) in enumerate(zip(groups, *one, strict=True)):
        before = int(len(groups) > 1 and 0 < begin < end)
        key = group.rows(begin - before, end)
        if before:
            _check_sorted(number, [column[:2] for column in key], np.arange(2), begin - 1)
        keys.append([column[before:] for column in key])
    return rows_by_key(keys, one[0])


def rows_by_key(keys: Sequence[Key], first: Sequence[int]) -> KeyRows:
    """Find the rows of each value.

    Parameters
    ----------
    keys : sequence of sequence of ndarray
        Of each group the columns of its key, of a value for each row.
    first : tuple of int
        The row of each group with which its key begins.

    Raises
    ------
    UnsortedError
        There are several groups, and one is not sorted by its key.
    """
    if len(keys) > 1 and (counted := _counted(keys, first)) is not None:
        return counted
    runs = [_runs(key) for key in keys]
    if len(keys) == 1:
        values = tuple(column[runs[0][:-1]] for column in keys[0])
        return KeyRows(values, (runs[0] + first[0],))
    for group, (key, begins) in enumerate(zip(keys, runs, strict=True)):
        _check_sorted(group, key, begins[:-1], first[group])
    firsts = [
        [column[begins[:-1]] for column in key] for key, begins in zip(keys, runs, strict=True)
    ]
    columns = [np.concatenate(parts) for parts in zip(*firsts, strict=True)]
    order = np.lexsort(columns[::-1])
    is_new = _changes([column[order] for column in columns])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    values = tuple(column[order][is_new] for column in columns)
    offsets, at = list[I64](), 0
    for begins, row in zip(runs, first, strict=True):
        counts = np.zeros(len(values[0]), np.int64)
        counts[number[at : at + len(begins) - 1]] = np.diff(begins)
        offsets.append(np.concatenate([[0], np.cumsum(counts)]) + row)
        at += len(begins) - 1
    return KeyRows(values, tuple(offsets))


def _counted(keys: Sequence[Key], first: Sequence[int]) -> KeyRows | None:
    """Count the rows of each number, without sorting; None if keys are not numbers or far apart."""
    columns = [key[0] for key in keys if len(key) == 1 and key[0].dtype.kind in "iu"]
    filled = [column for column in columns if len(column)]
    if len(columns) < len(keys) or not filled:
        return None
    for group, column in enumerate(columns):
        descends = column[1:] < column[:-1]
        if descends.any():
            raise UnsortedError(group, first[group] + 1 + int(np.argmax(descends)))
    low, high = min(int(c[0]) for c in filled), max(int(c[-1]) for c in filled)
    if high - low > DENSE * sum(map(len, filled)) or high > np.iinfo(np.int64).max:
        return None
    counts = [
        np.bincount(column.astype(np.int64, copy=False) - low, minlength=high - low + 1)
        for column in columns
    ]
    numbers = np.flatnonzero(sum(counts))
    values = (numbers + low).astype(np.result_type(*columns))
    offsets = (np.concatenate([[0], np.cumsum(one[numbers])]) for one in counts)
    return KeyRows((values,), tuple(one + row for one, row in zip(offsets, first, strict=True)))


def _changes(columns: Key) -> npt.NDArray[np.bool_]:
    """Tell which rows differ from those before them; the first one does."""
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return changes


def _runs(columns: Key) -> I64:
    """Return where runs of equal rows begin, and the end."""
    return np.append(np.flatnonzero(_changes(columns)), len(columns[0])).astype(np.int64)


def _check_sorted(group: int, columns: Key, begins: I64, first: int) -> None:
    ascends, equal = np.zeros(max(0, len(begins) - 1), bool), np.ones(max(0, len(begins) - 1), bool)
    for column in columns:
        before, after = column[begins[:-1]], column[begins[1:]]
        ascends |= equal & (before < after)
        equal &= before == after
    if not ascends.all():
        raise UnsortedError(group, first + int(begins[1:][~ascends][0]))


def part_of(groups: Sequence[Keys], ranges: Ranges, part: int, parts: int) -> list[Range]:
    """Return one of several parts of some ranges of rows: whole values, balanced by rows."""
    total = sum(n_rows(one) for one in ranges)
    low, high = (total * at // parts for at in (part, part + 1))
    found, before = list[Range](), 0
    for one in ranges:
        # A value is of the part in which its first row is.
        begin, end = (_boundary(groups, one, at - before) for at in (low, high))
        if begin != end:
            found.append((begin, end))
        before += n_rows(one)
    return found


def n_rows(one: Range) -> int:
    """Count the rows of all groups."""
    return sum(one[1]) - sum(one[0])


def _boundary(groups: Sequence[Keys], within: Range, rows: int) -> Rows:
    """Return where the first value begins before which there are at least these rows."""
    if rows <= 0:
        return within[0]
    if rows >= n_rows(within):
        return within[1]
    if len(groups) == 1:
        return (_end_of_run(groups[0], within[0][0] + rows, within[1][0]),)
    # Of each group, rows whose values may be the one, and how many of all groups come before them.
    low, high, target = list(within[0]), list(within[1]), sum(within[0]) + rows
    margin, side = READ_AT_ONCE // 4, -1
    while (left := sum(high) - sum(low)) > READ_AT_ONCE:
        # Rows lie evenly, mostly: values a little before and behind the place close in on it.
        part = (target + side * margin - sum(low)) / left
        if not 0 < part < 1:
            part = 0.5
        guesses = [b + min(int(part * (e - b)), e - b - 1) for b, e in zip(low, high, strict=True)]
        at = max(range(len(groups)), key=lambda group: high[group] - low[group])
        value = _value(groups[at], guesses[at])
        spans = list(zip(groups, low, high, guesses, strict=True))
        begins = [_first(partial(_is_before, keys, value), *span) for keys, *span in spans]
        is_behind = sum(begins) >= target
        if is_behind:
            high = begins
        else:
            low = [_first(partial(_is_not_behind, keys, value), *span) for keys, *span in spans]
        if is_behind == (side > 0):
            side = -side
        else:
            margin *= 2
        for group, (begin, end) in enumerate(zip(low, high, strict=True)):
            if begin > end:
                raise UnsortedError(group, begin)
    parts = [keys.rows(*one) for keys, *one in zip(groups, low, high, strict=True)]
    found = rows_by_key(parts, low)
    first = np.sum(found.offsets, axis=0)
    chosen = int(np.searchsorted(first[:-1], target))
    return tuple(int(offsets[chosen]) for offsets in found.offsets)


def _value(keys: Keys, row: int) -> tuple[Any, ...]:
    return tuple(column[0].item() for column in keys.rows(row, row + 1))


def _is_before(keys: Keys, value: tuple[Any, ...], row: int) -> bool:
    return _value(keys, row) < value


def _is_not_behind(keys: Keys, value: tuple[Any, ...], row: int) -> bool:
    return _value(keys, row) <= value


def _first(is_before: Callable[[int], bool], low: int, high: int, guess: int) -> int:
    """Return the first row that is not before, from the guess on in growing steps."""
    begin, end, at, step = low, high, guess, 256
    while begin < end:
        if not begin <= at < end:
            at = (begin + end) // 2
        if is_before(at):
            begin, at = at + 1, at + step
        else:
            end, at = at, at - step
        step *= 2
    return begin


def _end_of_run(keys: Keys, row: int, end: int) -> int:
    """Return the first row from this one on whose key differs from that of the row before it."""
    step = 1024
    while row < end:
        begins = _runs(keys.rows(row - 1, min(row + step, end)))[1:]
        if len(begins) > 1 or row + step >= end:
            return row - 1 + int(begins[0])
        row, step = row + step, 2 * step
    return end


def cut(rows: KeyRows, begin: int, end: int, entries: int) -> I64:
    """Cut values into blocks of at most this many rows of any group, or of one value.

    Returns
    -------
    ndarray of int64
        The first value of each block, and the end.
    """
    edges = [begin]
    while edges[-1] < end:
        at = edges[-1]
        ends = (
            int(np.searchsorted(offsets, offsets[at] + entries, side="right")) - 1
            for offsets in rows.offsets
        )
        edges.append(min(end, max(at + 1, min(ends))))
    return np.array(edges, np.int64)
