"""Rows by the values of a key: where they begin, which groups have them, where blocks are cut.

Law
---
1. Pure. A block never splits the rows of one value, and has the same values of every group.
2. Keys of several columns count as one: they are compared column by column, the first one first.
3. In a single group, equal keys need only lie together. Several groups must be sorted, because
   their values are matched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.plan.sharding import Ranges

I64 = npt.NDArray[np.int64]
Key = Sequence[npt.NDArray[Any]]


class UnsortedError(Exception):
    """A row whose key is less than that of the row before it."""

    def __init__(self, group: str, row: int) -> None:
        super().__init__(group, row)
        self.group = group
        self.row = row


@dataclass(frozen=True)
class KeyRows:
    """The values of a key, and where the rows of each lie in each group."""

    #: One array for each column of the key, of a row for each value.
    values: tuple[npt.NDArray[Any], ...]
    #: Of each group, where the rows of each value begin, and the end.
    offsets: Mapping[str, I64]

    @property
    def n_values(self) -> int:
        """Number of values."""
        return len(self.values[0])


def rows_by_key(keys: Mapping[str, Key]) -> KeyRows:
    """Find the rows of each value.

    Parameters
    ----------
    keys : mapping of str to sequence of ndarray
        Group -> the columns of its key, of a value for each row.

    Raises
    ------
    UnsortedError
        There are several groups, and one is not sorted by its key.
    """
    runs = {group: _runs(key) for group, key in keys.items()}
    if len(keys) == 1:
        ((group, begins),) = runs.items()
        values = tuple(column[begins[:-1]] for column in keys[group])
        return KeyRows(values, {group: begins})
    for group, begins in runs.items():
        _check_sorted(group, keys[group], begins[:-1])
    first = [[column[runs[g][:-1]] for column in key] for g, key in keys.items()]
    columns = [np.concatenate(parts) for parts in zip(*first, strict=True)]
    order = np.lexsort(columns[::-1])
    is_new = _changes([column[order] for column in columns])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    values = tuple(column[order][is_new] for column in columns)
    offsets, at = {}, 0
    for group, begins in runs.items():
        counts = np.zeros(len(values[0]), np.int64)
        counts[number[at : at + len(begins) - 1]] = np.diff(begins)
        offsets[group] = np.concatenate([[0], np.cumsum(counts)])
        at += len(begins) - 1
    return KeyRows(values, offsets)


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


def _check_sorted(group: str, columns: Key, begins: I64) -> None:
    ascends, equal = np.zeros(max(0, len(begins) - 1), bool), np.ones(max(0, len(begins) - 1), bool)
    for column in columns:
        before, after = column[begins[:-1]], column[begins[1:]]
        ascends |= equal & (before < after)
        equal &= before == after
    if not ascends.all():
        raise UnsortedError(group, int(begins[1:][~ascends][0]))


def values_of_rank(
    rows: KeyRows, ranges: Ranges, rank: int, world_size: int
) -> list[tuple[int, int]]:
    """Return the values of a rank out of some ranges of them: in order, balanced by rows."""
    all_rows = np.sum(list(rows.offsets.values()), axis=0)
    total = sum(int(all_rows[end] - all_rows[begin]) for begin, end in ranges)
    low, high = (total * at // world_size for at in (rank, rank + 1))
    found, before = [], 0
    for begin, end in ranges:
        # A value is of the rank in whose part its first row is.
        firsts = all_rows[begin:end] - all_rows[begin] + before
        first, last = np.searchsorted(firsts, [low, high], side="left").tolist()
        if rank + 1 == world_size:
            last = end - begin
        if first < last:
            found.append((begin + first, begin + last))
        before += int(all_rows[end] - all_rows[begin])
    return found


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
            for offsets in rows.offsets.values()
        )
        edges.append(min(end, max(at + 1, min(ends))))
    return np.array(edges, np.int64)
