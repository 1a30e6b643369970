"""Streams of columns: blocks of whole index values, of one group or of several at once.

Actors
------
::

    keys --- part_of ---> this rank's rows --- a stretch at a time ---> edges of blocks
                                                                            |
    the user  <-- blocks --- Columns <--- guards --- StreamQueue <--- plan_columns

Law
---
1. All columns of all groups are one stream, in which each chunk is decoded once; its blocks end
   where the index changes, and a block may be without rows of a group.
2. Of the keys a rank reads its own, and as many others as it takes to find where these begin.
3. A state records which rows are left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from _multitables.errors import ClosedError, OptionsError, QueueClosed
from _multitables.options import ColumnOptions
from _multitables.parent.columns.column_block import ColumnsBlock, GroupBlock
from _multitables.parent.columns.open_columns import OpenedColumns
from _multitables.parent.readers.counters import counters
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import Opened, start_stream
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import file_title, title
from _multitables.plan.column_plan import Group, plan_columns
from _multitables.plan.key_groups import (
    I64,
    KeyRows,
    Range,
    Rows,
    UnsortedError,
    cut,
    n_rows,
    part_of,
    rows_in,
)
from _multitables.plan.stream_plan import ReadPlan

#: Bytes of a block by default, about.
BLOCK_BYTES = 8 << 20
#: Rows whose keys are held at a time.
STRETCH_ROWS = 1 << 24


@dataclass(frozen=True)
class _At:
    """Where a loop stands: its rows, which of these it is at, and the row of each group there."""

    ranges: tuple[Range, ...]
    number: int = 0
    rows: Rows = ()

    @property
    def left(self) -> list[Range]:
        """What was not delivered yet."""
        first, *others = self.ranges[self.number :] or [((), ())]
        rest = [(self.rows or first[0], first[1]), *others]
        return [one for one in rest if one[0] != one[1]]


class Columns:
    """Blocks of columns; made by `Streamer.get_columns`.

    Iterating goes through this rank's blocks: `GroupBlock`, or `ColumnsBlock` of several groups.
    Each loop begins anew, or where the state was taken that was loaded before it.

    ``index`` are the names of the columns of the index.

    Examples
    --------
    >>> blocks = streamer.get_columns("/rec.slc", ["calE"], index="evt.seq")  # doctest: +SKIP
    >>> for block in blocks:  # doctest: +SKIP
    ...     total += block["calE"].sum()
    """

    def __init__(
        self, opened: OpenedColumns, wanted: ColumnOptions, pool: ReaderPool, owns_pool: bool
    ) -> None:
        self.index = opened.index
        self._opened, self._wanted = opened, wanted
        self._pool, self._own_pool = pool, pool if owns_pool else None
        self._closed = False
        entries = wanted.entries_per_block
        self._entries = entries or max(1, BLOCK_BYTES // max(1, opened.row_bytes))
        #: What the next loop has, if that was loaded; where the latest one stands.
        self._loaded: tuple[Range, ...] | None = None
        self._at: _At | None = None
        self._stream: StreamQueue | None = None
        self._told: dict[str, Any] = {}

    def __repr__(self) -> str:
        groups = [(group, None) for group in self._opened.groups]
        of = title(self._opened.filename, groups)
        state = "closed" if self._closed else "open"
        return f"<Columns of {of}: by {', '.join(self.index)}, {state}>"

    def __len__(self) -> int:
        """Count the blocks of the next iteration, whose keys are read for it."""
        return sum(len(edges) - 1 for one in self._next_ranges() for _, edges in self._cut(one))

    def _next_ranges(self) -> tuple[Range, ...]:
        if self._loaded is not None:
            return self._loaded
        return self._part([self._opened.everything], self._wanted.rank, self._wanted.world_size)

    def _part(self, ranges: Sequence[Range], part: int, parts: int) -> tuple[Range, ...]:
        try:
            return tuple(part_of(self._opened.keys, ranges, part, parts))
        except UnsortedError as error:
            raise self._opened.unsorted(error) from None

    def _cut(self, one: Range) -> Iterator[tuple[KeyRows, I64]]:
        """Yield the keys of rows, some at a time, and the edges of blocks in their values."""
        parts = math.ceil(n_rows(one) / STRETCH_ROWS)
        for part in range(parts):
            for stretch in self._part([one], part, parts):
                try:
                    rows = rows_in(self._opened.keys, stretch)
                except UnsortedError as error:
                    raise self._opened.unsorted(error) from None
                yield rows, cut(rows, 0, rows.n_values, self._entries)

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return a state of the latest loop, to be saved.

        Returns
        -------
        dict
            Of JSON's types. After the end of a loop, a loop that goes on there has nothing left.
        """
        left = self._next_ranges() if self._at is None else self._at.left
        return {
            "left": [[list(begin), list(end)] for begin, end in left],
            "rank": self._wanted.rank,
            "world_size": self._wanted.world_size,
            **self._identity(),
        }

    def load_state_dict(self, state: Any) -> None:
        """Let the next loop continue after a state.

        Parameters
        ----------
        state : dict, or list of dict
            What `state_dict` returned: of this rank, or of all ranks, which may have been others.

        Raises
        ------
        OptionsError
            Not states, of other data, or not of all ranks.
        """
        states = list(state) if isinstance(state, Sequence) else [state]
        wanted = self._wanted
        try:
            for one in states:
                if any(one[name] != value for name, value in self._identity().items()):
                    raise _refused("the state is of other rows")
            ranges = sorted(_range(one) for state in states for one in state["left"])
            ranks = [(one["rank"], one["world_size"]) for one in states]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, OptionsError):
                raise
            raise _refused(f"this is not a state of columns: {state!r:.60}") from None
        if ranks != [(wanted.rank, wanted.world_size)]:
            if sorted(ranks) != [(rank, len(states)) for rank in range(len(states))]:
                raise _refused("states are not of all ranks")
            ranges = list(self._part(ranges, wanted.rank, wanted.world_size))
        self._loaded = tuple(ranges)
        self._at = _At(self._loaded)

    def _identity(self) -> dict[str, Any]:
        groups = {name: group.keys.n_rows for name, group in self._opened.groups.items()}
        return {"rows": groups, "index": list(self.index)}

    # ---- iterating

    def __iter__(self) -> Iterator[GroupBlock | ColumnsBlock]:
        if self._closed:
            raise ClosedError(
                f"the columns of {file_title(self._opened.filename)} are closed",
                advice="Make new ones with get_columns",
            )
        start = self._at = _At(self._next_ranges())
        return self._blocks(start)

    def _blocks(self, start: _At) -> Iterator[GroupBlock | ColumnsBlock]:
        try:
            for number, one in enumerate(start.ranges):
                for rows, edges in self._cut(one):
                    stream = self._stream = self._started(rows, edges)
                    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                        block = self._block(stream, rows, begin, end)
                        behind = tuple(int(offsets[end]) for offsets in rows.offsets)
                        self._at = replace(start, number=number, rows=behind)
                        yield block
                        del block
                    self._leave()
            self._at = replace(start, number=len(start.ranges))
            self._loaded = None
        finally:
            self._leave()

    def _started(self, rows: KeyRows, edges: I64) -> StreamQueue | None:
        """Start the stream of some blocks; None: there are no columns."""
        opened, wanted = self._opened, self._wanted
        groups = [
            Group(list(group.indexes.values()), offsets[edges])
            for group, offsets in zip(opened.groups.values(), rows.offsets, strict=True)
            if group.indexes
        ]
        if not groups:
            return None

        def planned() -> tuple[Opened, ReadPlan, int]:
            facts = opened.opened.facts()
            return opened.opened, plan_columns(groups, n_readers=wanted.n_procs, **facts), 1

        return start_stream(self._pool, wanted.n_procs, planned)

    def _block(
        self, stream: StreamQueue | None, rows: KeyRows, begin: int, end: int
    ) -> GroupBlock | ColumnsBlock:
        values = zip(self.index, rows.values, strict=True)
        index = {name: column[begin:end] for name, column in values}
        arrays, groups = self._arrays(stream), dict[str, GroupBlock]()
        for (name, group), offsets in zip(self._opened.groups.items(), rows.offsets, strict=True):
            first, last = int(offsets[begin]), int(offsets[end])
            columns = {column: _squeezed(next(arrays)) for column in group.indexes}
            of_values = offsets[begin : end + 1] - first
            groups[name] = GroupBlock(columns, index, of_values, (first, last))
        return groups.popitem()[1] if self._opened.is_single else ColumnsBlock(groups, index)

    def _arrays(self, stream: StreamQueue | None) -> Iterator[npt.NDArray[Any]]:
        """Return the columns of the next block, of one group after the other."""
        if stream is None:
            return iter(())
        guard = stream.get()
        if guard is QueueClosed:
            raise RuntimeError("a stream of columns ended before its last block")
        with guard as block:
            return iter(block)

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._told = stream.statistics()
            stream.close()

    def statistics(self) -> dict[str, Any]:
        """Tell what the latest stream has done.

        Returns
        -------
        dict
            As `StreamQueue.statistics`, and ``keys``: what this process itself has read for all
            loops, as the counts of a reader.
        """
        told = self._told if self._stream is None else self._stream.statistics()
        return {**told, "keys": counters(self._opened.reader.counters())}

    def close(self) -> None:
        """End all loops and readers. Blocks that are held stay valid. May be called again."""
        self._closed = True
        self._leave()
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> Columns:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _squeezed(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column of shape (n, 1) as (n,)."""
    return column.reshape(-1) if column.shape[1:] == (1,) else column


def _range(saved: Any) -> Range:
    begin, end = saved
    return tuple(map(int, begin)), tuple(map(int, end))


def _refused(happened: str) -> OptionsError:
    return OptionsError(happened, advice="Give what state_dict() returned", option="state")
