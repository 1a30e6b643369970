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

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from _multitables.errors import ClosedError, MultitablesError, OptionsError, QueueClosed
from _multitables.parent.columns.column_block import ColumnsBlock, GroupBlock
from _multitables.parent.columns.open_columns import OpenedColumns
from _multitables.parent.node.place import NodePlace
from _multitables.parent.node.shared_readers import SharedReaders
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
from _multitables.plan.reader_options import ColumnOptions
from _multitables.plan.stream_plan import ReadPlan
from _multitables.wire import values

#: Bytes of a block by default, about.
BLOCK_BYTES = 8 << 20
#: Rows whose keys are held at a time.
STRETCH_ROWS = 1 << 24


@dataclass(frozen=True)
class _At:
    """Where a loop stands: its ranges, the current one, and the row of each group in it."""

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
        self._shared: SharedReaders | None = None
        self._place = NodePlace(0, 1)
        if wanted.share:
            self._place = NodePlace.of(wanted.rank, wanted.world_size)
            purpose = f"columns {opened.groups.keys()} of {opened.filename!r}"
            self._shared = SharedReaders(self._place, purpose, pool.library_timeout_seconds)
        #: The rows that a loaded state leaves to the next loop; the place of the latest loop.
        self._loaded: tuple[Range, ...] | None = None
        self._at: _At | None = None
        self._stream: StreamQueue | None = None
        self._told: dict[str, Any] = {}

    def __repr__(self) -> str:
        groups = [(group, None) for group in self._opened.groups]
        of = title(self._opened.filename, groups)
        state = "closed" if self._closed else "open"
        return f"<Columns of {of}: by {', '.join(self.index)}, {state}>"

    @property
    def missing_files(self) -> dict[str, MultitablesError]:
        """Of several files, those that are left out with ``skip_missing=True``, and why."""
        return dict(self._opened.opened.missing_files)

    def __len__(self) -> int:
        """Count the blocks of the next iteration, whose keys are read for it."""
        stretches = (one for ranges in self._next_ranges() for one in self._stretches(ranges))
        return sum(len(self._own(self._keys(one)[1])) for one in stretches)

    def _next_ranges(self) -> tuple[Range, ...]:
        """Return the rows of the next iteration: of this rank, or of its node if that shares."""
        if self._loaded is not None:
            return self._loaded
        return self._share_of([self._opened.everything])

    def _share_of(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        wanted, node = self._wanted, self._place.count
        return self._part(ranges, wanted.rank // node, wanted.world_size // node)

    def _part(self, ranges: Sequence[Range], part: int, parts: int) -> tuple[Range, ...]:
        try:
            return tuple(part_of(self._opened.keys, ranges, part, parts))
        except UnsortedError as error:
            raise self._opened.unsorted(error) from None

    def _stretches(self, one: Range) -> Iterator[Range]:
        """Cut rows into as many as have their keys held at a time."""
        parts = math.ceil(n_rows(one) / STRETCH_ROWS)
        for part in range(parts):
            yield from self._part([one], part, parts)

    def _keys(self, stretch: Range) -> tuple[KeyRows, I64]:
        """Return the keys of some rows, and the edges of blocks in their values."""
        try:
            rows = rows_in(self._opened.keys, stretch)
        except UnsortedError as error:
            raise self._opened.unsorted(error) from None
        return rows, cut(rows, 0, rows.n_values, self._entries)

    def _own(self, edges: I64) -> range:
        """Return which blocks are this rank's: ranks of a node that share them take turns."""
        return range(self._place.number, len(edges) - 1, self._place.count)

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
            "node": self._place.count,
            **self._identity(),
        }

    def load_state_dict(self, state: Any) -> None:
        """Let the next loop continue after a state.

        Parameters
        ----------
        state : dict, or list of dict
            What `state_dict` returned: of this rank, or of all ranks, which may have been others.
            Ranks that share blocks must have taken equally many, and one state is that of a node.

        Raises
        ------
        OptionsError
            Not states, of other data, or not of all ranks.
        """
        states = list(state) if isinstance(state, Sequence) else [state]
        wanted, node = self._wanted, self._place.count
        try:
            for one in states:
                if any(one[name] != value for name, value in self._identity().items()):
                    raise _refused("the state is of other rows")
            ranks = [(one["rank"], one["world_size"], one["node"]) for one in states]
            left: dict[int, list[Range]] = {}
            for one, (rank, _, of_node) in zip(states, ranks, strict=True):
                ranges = [_range(saved, self._identity()["rows"]) for saved in one["left"]]
                if left.setdefault(rank // of_node, ranges) != ranges:
                    raise _refused("ranks of a node did not take equally many blocks")
            ranges = sorted(itertools.chain(*left.values()))
            if ranks != [(wanted.rank, wanted.world_size, node)]:
                numbers, worlds = sorted(rank for rank, _, _ in ranks), {of for _, of, _ in ranks}
                if numbers != list(range(len(ranks))) or worlds != {len(ranks)}:
                    raise _refused("states are not of all ranks")
                ranges = list(self._share_of(ranges))
        except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
            if isinstance(error, MultitablesError):
                raise
            raise _refused(f"this is not a state of columns: {state!r:.60}") from None
        self._loaded = tuple(ranges)
        self._at = _At(self._loaded)

    def _identity(self) -> dict[str, Any]:
        groups = {name: group.keys.n_rows for name, group in self._opened.groups.items()}
        return {"rows": groups, "index": list(self.index)}

    # ---- iterating

    def __iter__(self) -> Iterator[GroupBlock | ColumnsBlock]:
        if self._closed:
            raise self._closed_error()
        start = self._at = _At(self._next_ranges())
        return self._blocks(start)

    def _closed_error(self) -> ClosedError:
        return ClosedError(
            f"the columns of {file_title(self._opened.filename)} are closed",
            advice="Make new ones with get_columns",
        )

    def _blocks(self, start: _At) -> Iterator[GroupBlock | ColumnsBlock]:
        try:
            for number, one in enumerate(start.ranges):
                for stretch in self._stretches(one):
                    stream, rows, edges = self._started(stretch)
                    self._stream = stream
                    if self._closed:  # by another thread, while this one started the stream
                        return
                    for at in self._own(edges):
                        block = self._block(stream, rows, int(edges[at]), int(edges[at + 1]))
                        # All ranks of a node take one block each before the node moves on.
                        first = at - self._place.number
                        behind = edges[min(first + self._place.count, len(edges) - 1)]
                        there = tuple(int(offsets[behind]) for offsets in rows.offsets)
                        self._at = replace(start, number=number, rows=there)
                        yield block
                        del block
                    self._leave()
                    self._at = replace(start, number=number, rows=stretch[1])
            self._loaded = None
        finally:
            self._leave()

    def _started(self, stretch: Range) -> tuple[StreamQueue | None, KeyRows, I64]:
        """Start the stream of some rows (None: there are no columns); return it and their keys."""
        opened, wanted = self._opened, self._wanted
        if not opened.opened.indexes:
            return None, *self._keys(stretch)

        def planned(n_readers: int) -> tuple[ReadPlan, int, tuple[KeyRows, I64]]:
            rows, edges = self._keys(stretch)
            groups = [
                Group(list(group.indexes.values()), offsets[edges])
                for group, offsets in zip(opened.groups.values(), rows.offsets, strict=True)
                if group.indexes
            ]
            plan = plan_columns(
                groups,
                n_readers=n_readers,
                n_consumers=self._place.count,
                **opened.opened.facts(),
            )
            return plan, 1, (rows, edges)

        if self._shared is not None:
            n_readers = wanted.n_procs.count
            columns = tuple((name, *group.indexes) for name, group in opened.groups.items())
            what = values.encode((stretch, self._entries, n_readers, self.index, columns))
            share = self._shared.start
            stream, keys = share(n_readers, what, opened.opened, lambda: planned(n_readers))
            return stream, *keys
        known: list[tuple[KeyRows, I64]] = []

        def alone(_: Opened, n_readers: int) -> tuple[ReadPlan, int]:
            plan, block_size, keys = planned(n_readers)
            known.append(keys)
            return plan, block_size

        return start_stream(self._pool, wanted.n_procs, opened.opened, alone), *known[0]

    def _block(
        self, stream: StreamQueue | None, rows: KeyRows, begin: int, end: int
    ) -> GroupBlock | ColumnsBlock:
        values = zip(self.index, rows.values, strict=True)
        index = {name: column[begin:end] for name, column in values}
        arrays, groups = self._arrays(stream), dict[str, GroupBlock]()
        for (name, group), offsets in zip(self._opened.groups.items(), rows.offsets, strict=True):
            first, last = int(offsets[begin]), int(offsets[end])
            columns = group.columns(arrays)
            of_values = offsets[begin : end + 1] - first
            groups[name] = GroupBlock(columns, index, of_values, (first, last))
        return groups.popitem()[1] if self._opened.is_single else ColumnsBlock(groups, index)

    def _arrays(self, stream: StreamQueue | None) -> Iterator[npt.NDArray[Any]]:
        """Return the columns of the next block, of one group after the other."""
        if stream is None:
            return iter(())
        guard = stream.get()
        if guard is QueueClosed:  # only another thread ends it before its last block
            raise self._closed_error()
        with guard as block:
            return iter(block)

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._told = stream.statistics()
            stream.close()

    def statistics(self) -> dict[str, Any]:
        """Count the work of the latest stream.

        Returns
        -------
        dict
            As `StreamQueue.statistics`. ``keys`` counts the reads of this process itself, in all
            loops, as a reader counts its own.
        """
        stream = self._stream
        told = self._told if stream is None else stream.statistics()
        return {**told, "keys": counters(self._opened.reader.counters())}

    def close(self) -> None:
        """End all loops and readers. Blocks that are held stay valid. May be called again."""
        self._closed = True
        self._leave()
        if self._shared is not None:
            self._shared.close()
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> Columns:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _range(saved: Any, n_rows: dict[str, int]) -> Range:
    begin, end = (tuple(map(int, rows)) for rows in saved)
    rows = zip(begin, end, n_rows.values(), strict=True)
    if not all(0 <= first <= last <= n for first, last, n in rows):
        raise ValueError("rows that are not there")
    return begin, end


def _refused(happened: str) -> OptionsError:
    return OptionsError(happened, advice="Give what state_dict() returned", option="state")
