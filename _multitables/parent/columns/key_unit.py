"""Blocks of whole index values as the unit of a loader, of one group or of several at once.

Actors
------
::

    keys --- part_of ---> this rank's rows --- a stretch at a time ---> edges of blocks
                                                                            |
    the user  <-- blocks --- KeyUnit <--- guards --- StreamQueue <--- plan_columns

Law
---
1. All columns of all groups are one stream, in which each chunk is decoded once; its blocks end
   where the index changes, and a block may be without rows of a group.
2. A rank reads its own keys, and the few others that show where its own begin.
3. A state records which rows are left of an epoch, as blocks are not all of one size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from _multitables.errors import MultitablesError
from _multitables.parent.batches.unit import FileUnit
from _multitables.parent.columns.column_block import ColumnsBlock, GroupBlock
from _multitables.parent.columns.open_columns import OpenedColumns
from _multitables.parent.node.place import NodePlace
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.block_source import BlockSource
from _multitables.parent.stream.open_stream import Opened, start_stream
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import title
from _multitables.plan.checkpoint import (
    Position,
    check_one_run,
    own_position,
    refused,
    states_of,
)
from _multitables.plan.column_plan import Group, plan_columns
from _multitables.plan.key_groups import (
    I64,
    KeyRows,
    Range,
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


@dataclass
class KeyRun:
    """The stream of a stretch of rows."""

    first_epoch: int
    stop: int | None
    stretch: Range
    #: What is left of the epoch behind the stretch, and its blocks before it.
    rest: tuple[Range, ...]
    before: int
    place: NodePlace
    #: Known when the stream has started: its keys, and the values that end its blocks.
    rows: KeyRows | None = None
    edges: I64 | None = None

    epochs = 1

    @property
    def own(self) -> range:
        """Which blocks are this rank's: ranks of a node that share them take turns."""
        n_blocks = 0 if self.edges is None else len(self.edges) - 1
        return range(self.place.number, n_blocks, self.place.count)

    @property
    def batches(self) -> int:
        """Blocks of this rank."""
        return len(self.own)

    def is_last(self, epochs: int) -> bool:
        """Whether nothing comes behind it."""
        return epochs > 0 and not self.rest and self.first_epoch + 1 == self.stop

    def position(self, epochs: int, batches: int) -> Position:
        """Return where an iteration stands: at the end of an epoch until it has more."""
        left, taken = self.rest, self.batches
        if not epochs:
            there, taken = self.stretch[0], batches
            if batches and self.edges is not None and self.rows is not None:
                # All ranks of a node take one block each before the node moves on.
                behind = self.edges[min(batches * self.place.count, len(self.edges) - 1)]
                there = tuple(int(offsets[behind]) for offsets in self.rows.offsets)
            left = _not_empty((there, self.stretch[1]), *left)
        return Position(self.first_epoch, self.stop, left, self.before + taken)


class NoColumns(BlockSource):
    """Blocks of nothing but keys."""

    def __init__(self, missing_files: dict[str, MultitablesError]) -> None:
        self.missing_files = missing_files

    def take(self, deadline: float) -> Any:
        """Return the next guard; there is always one."""
        return self.guard(())


class KeyUnit(FileUnit):
    """Blocks of whole index values; positions are rows of each group."""

    noun, maker = "column", "get_columns"
    stays_at_end = True

    def __init__(self, opened: OpenedColumns, wanted: ColumnOptions, pool: ReaderPool) -> None:
        purpose = f"columns {opened.groups.keys()} of {opened.filename!r}"
        super().__init__(opened, wanted, pool, purpose)
        self.opened, entries = opened, wanted.entries_per_block
        self._entries = entries or max(1, BLOCK_BYTES // max(1, opened.row_bytes))
        self.shard = replace(self.shard, node=self._place.count)

    def title(self) -> str:
        """Describe the blocks for messages."""
        of = title(self.filename, [(group, None) for group in self.opened.groups])
        return f"{of}: by {', '.join(self.opened.index)}"

    @property
    def filename(self) -> Any:
        """The file, or several."""
        return self.opened.filename

    @property
    def missing_files(self) -> Mapping[str, MultitablesError]:
        """Of several files, those that are left out, and why."""
        return self.opened.opened.missing_files

    def identity(self) -> dict[str, Any]:
        """Return the identity of the data for a state."""
        groups = {name: group.keys.n_rows for name, group in self.opened.groups.items()}
        return {"rows": groups, "index": list(self.opened.index)}

    # ---- epochs and states

    def everything(self) -> tuple[Any, ...]:
        """Return the rows of an epoch: of this rank, or of its node if that shares."""
        return self._share_of([self.opened.everything])

    def _share_of(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        shard = self.shard
        return self._part(ranges, shard.rank // shard.node, shard.world_size // shard.node)

    def _part(self, ranges: Sequence[Range], part: int, parts: int) -> tuple[Range, ...]:
        try:
            return tuple(part_of(self.opened.keys, ranges, part, parts))
        except UnsortedError as error:
            raise self.opened.unsorted(error) from None

    def _stretches(self, one: Range) -> Iterator[Range]:
        """Cut rows into stretches whose keys are held at a time."""
        parts = math.ceil(n_rows(one) / STRETCH_ROWS)
        for part in range(parts):
            yield from self._part([one], part, parts)

    def _keys(self, stretch: Range) -> tuple[KeyRows, I64]:
        """Return the keys of some rows, and the edges of blocks in their values."""
        try:
            rows = rows_in(self.opened.keys, stretch)
        except UnsortedError as error:
            raise self.opened.unsorted(error) from None
        return rows, cut(rows, 0, rows.n_values, self._entries)

    def runs(self, start: Position) -> Iterator[KeyRun]:
        """Yield the stretches of an iteration that begins at `start`."""
        epoch, ranges, before = start.epoch, start.ranges, start.batches
        while True:
            for number, one in enumerate(ranges):
                for stretch in self._stretches(one):
                    rest = _not_empty((stretch[1], one[1]), *ranges[number + 1 :])
                    run = KeyRun(epoch, start.stop, stretch, rest, before, self._place)
                    yield run
                    before += run.batches
            epoch, before = epoch + 1, 0
            if epoch == start.stop or not (ranges := self.everything()):
                return

    def length(self, start: Position) -> int:
        """Count the blocks of an iteration, whose keys are read for it."""
        n_blocks = 0
        for run in self.runs(start):
            run.rows, run.edges = self._keys(run.stretch)
            n_blocks += run.batches
        return n_blocks

    def position_of(self, state: Any) -> Position:
        """Return where a state goes on."""
        states = list(state) if isinstance(state, Sequence) else [state]
        parsed = states_of(list(map(self._in_this_format, states)), self.identity(), self._ranges)
        if len(parsed) > 1:
            check_one_run(parsed)
        if own := own_position(parsed, self.shard):
            return own
        check_one_run(parsed)
        if len({(position.epoch, position.stop) for position, _ in parsed}) > 1:
            raise refused("ranks stand in different epochs", "Save all states in the same epoch")
        left: dict[int, tuple[Range, ...]] = {}
        for position, shard in parsed:
            if left.setdefault(shard.rank // shard.node, position.ranges) != position.ranges:
                raise refused(
                    "ranks of a node did not take equally many blocks",
                    "Save all states behind the same block",
                )
        ranges = self._share_of(sorted(itertools.chain(*left.values())))
        return Position(position.epoch, position.stop, ranges)

    def _ranges(self, saved: Any) -> tuple[Range, ...]:
        return tuple(_range(one, self.identity()["rows"]) for one in saved)

    def _in_this_format(self, state: Any) -> Any:
        """Return a state as it is saved now; until 3.0 those of columns had a form of their own."""
        if not isinstance(state, Mapping) or "left" not in state or "version" in state:
            return state
        stop = None if self.epochs is None else self.start_epoch + self.epochs
        return {
            **self.state_of(Position(self.start_epoch, stop, ())),
            **{name: state.get(name) for name in ("rank", "world_size", "node")},
            "ranges": state["left"],
            "data": {name: state.get(name) for name in ("rows", "index")},
        }

    # ---- streams

    def start(self, run: KeyRun) -> StreamQueue | None:
        """Return the stream of some rows, if this rank gets a block of it."""
        stream, run.rows, run.edges = self._started(run.stretch)
        if run.batches:
            return stream
        stream.close()
        return None

    def _started(self, stretch: Range) -> tuple[StreamQueue, KeyRows, I64]:
        opened, wanted = self.opened, self.wanted
        if not opened.opened.indexes:
            return StreamQueue(NoColumns(opened.opened.missing_files)), *self._keys(stretch)

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
            what = values.encode((stretch, self._entries, n_readers, opened.index, columns))
            share = self._shared.start
            stream, keys = share(n_readers, what, opened.opened, lambda: planned(n_readers))
            return stream, *keys
        known: list[tuple[KeyRows, I64]] = []

        def alone(_: Opened, n_readers: int) -> tuple[ReadPlan, int]:
            plan, block_size, keys = planned(n_readers)
            known.append(keys)
            return plan, block_size

        return start_stream(self.pool, wanted.n_procs, opened.opened, alone), *known[0]

    def delivered(self, block: Any, run: KeyRun, taken: int) -> GroupBlock | ColumnsBlock:
        """Return the columns of a block, by group."""
        assert run.rows is not None
        assert run.edges is not None
        begin, end = (int(run.edges[run.own[taken] + behind]) for behind in (0, 1))
        named = zip(self.opened.index, run.rows.values, strict=True)
        index = {name: column[begin:end] for name, column in named}
        arrays, groups = iter(block), dict[str, GroupBlock]()
        all_groups = self.opened.groups.items()
        for (name, group), offsets in zip(all_groups, run.rows.offsets, strict=True):
            first, last = int(offsets[begin]), int(offsets[end])
            columns = group.columns(arrays)
            of_values = offsets[begin : end + 1] - first
            groups[name] = GroupBlock(columns, index, of_values, (first, last))
        return groups.popitem()[1] if self.opened.is_single else ColumnsBlock(groups, index)


def _not_empty(*ranges: Range) -> tuple[Range, ...]:
    return tuple(one for one in ranges if one[0] != one[1])


def _range(saved: Any, n_rows: dict[str, int]) -> Range:
    begin, end = (tuple(map(int, rows)) for rows in saved)
    rows = zip(begin, end, n_rows.values(), strict=True)
    if not all(0 <= first <= last <= n for first, last, n in rows):
        raise ValueError("rows that are not there")
    return begin, end
