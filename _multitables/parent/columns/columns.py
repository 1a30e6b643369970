"""Streams of columns: blocks of whole index values, of one group or of several at once.

Actors
------
::

    KeyRows --- edges of blocks --> Columns <--- guards --- a StreamQueue for each group
                                       |
    the user  <-- blocks --------------+

Law
---
1. Each group is one stream in lock-step, in which each chunk is decoded once; its blocks end where
   the index changes. Groups have streams of their own, as their rows are others.
2. A group without rows in a block has empty arrays there, and its stream has no such block.
3. A state records which values were delivered.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import ClosedError, OptionsError, QueueClosed
from _multitables.options import ColumnOptions
from _multitables.parent.columns.column_block import ColumnsBlock, GroupBlock
from _multitables.parent.columns.open_columns import OpenedColumns
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import start_stream
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count, title
from _multitables.plan.key_groups import I64, cut, values_of_rank
from _multitables.plan.sharding import Ranges, between, joined, length, without
from _multitables.plan.stream_plan import ReadPlan, plan_reads

#: Bytes of a block by default, about.
BLOCK_BYTES = 8 << 20
#: Blocks that the ring of each of several groups holds.
BLOCKS_AHEAD = 3


@dataclass(frozen=True)
class _At:
    """Where a loop stands: values that were left to all ranks, and how many this rank delivered."""

    left: Ranges
    delivered: int


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
        #: Where the next loop begins, and where the latest one stands.
        self._start = self._at = self._beginning = _At(((0, opened.rows.n_values),), 0)
        self._streams: dict[str, StreamQueue] = {}
        self._told: dict[str, Any] = {}

    def __repr__(self) -> str:
        groups = [(group, None) for group in self._opened.groups]
        of = title(self._opened.filename, groups)
        values, state = self._opened.rows.n_values, "closed" if self._closed else "open"
        return f"<Columns of {of}: {count(values, 'value')} of {', '.join(self.index)}, {state}>"

    @property
    def n_values(self) -> int:
        """Values of the index, of all ranks."""
        return self._opened.rows.n_values

    def __len__(self) -> int:
        """Count the blocks of the next iteration."""
        return sum(len(edges) - 1 for edges in self._edges(self._start))

    def _edges(self, start: _At) -> list[I64]:
        """Return the edges of the blocks that are left to this rank, in each range of values."""
        wanted, rows = self._wanted, self._opened.rows
        mine = values_of_rank(rows, start.left, wanted.rank, wanted.world_size)
        left = between(mine, start.delivered, length(mine))
        return [cut(rows, begin, end, self._entries) for begin, end in left]

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return a state of the latest loop, to be saved.

        Returns
        -------
        dict
            Of JSON's types. After the end of a loop, a loop that goes on there has nothing left.
        """
        return {
            "left": [list(one) for one in self._at.left],
            "delivered": self._at.delivered,
            "rank": self._wanted.rank,
            "world_size": self._wanted.world_size,
            "values": self.n_values,
            "checksum": self._checksum(),
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
        rows = self._opened.rows
        try:
            for one in states:
                if (one["values"], one["checksum"]) != (self.n_values, self._checksum()):
                    raise _refused("the state is of other values of the index")
            if len(states) == 1 and self._is_mine(states[0]):
                left = tuple((int(a), int(b)) for a, b in states[0]["left"])
                self._start = self._at = _At(left, int(states[0]["delivered"]))
                return
            if sorted(one["rank"] for one in states) != list(range(states[0]["world_size"])):
                raise _refused("states are not of all ranks")
            left = tuple((int(a), int(b)) for a, b in states[0]["left"])
            taken: list[tuple[int, int]] = []
            for one in states:
                theirs = values_of_rank(rows, left, one["rank"], one["world_size"])
                taken += between(theirs, 0, one["delivered"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, OptionsError):
                raise
            raise _refused(f"this is not a state of columns: {state!r:.60}") from None
        self._start = self._at = _At(tuple(joined(without(left, sorted(taken)))), 0)

    def _is_mine(self, state: Mapping[str, Any]) -> bool:
        wanted = self._wanted
        return (state["rank"], state["world_size"]) == (wanted.rank, wanted.world_size)

    def _checksum(self) -> int:
        return zlib.crc32(b"".join(column.tobytes() for column in self._opened.rows.values))

    # ---- iterating

    def __iter__(self) -> Iterator[GroupBlock | ColumnsBlock]:
        if self._closed:
            raise ClosedError(
                f"the columns of {self._opened.filename!r} are closed",
                advice="Make new ones with get_columns",
            )
        self._at = self._start
        return self._blocks(self._start)

    def _blocks(self, start: _At) -> Iterator[GroupBlock | ColumnsBlock]:
        try:
            for edges in self._edges(start):
                streams = self._streams = {
                    group: self._stream(group, edges)
                    for group, offsets in self._opened.rows.offsets.items()
                    if offsets[edges[-1]] > offsets[edges[0]] and self._opened.groups[group].indexes
                }
                for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                    block = self._block(streams, begin, end)
                    self._at = replace(self._at, delivered=self._at.delivered + end - begin)
                    yield block
                    del block
                self._leave()
            self._start = self._beginning
        finally:
            self._leave()

    def _block(
        self, streams: dict[str, StreamQueue], begin: int, end: int
    ) -> GroupBlock | ColumnsBlock:
        opened, groups = self._opened, dict[str, GroupBlock]()
        values = zip(self.index, opened.rows.values, strict=True)
        index = {name: column[begin:end] for name, column in values}
        for group, offsets in opened.rows.offsets.items():
            first, last = int(offsets[begin]), int(offsets[end])
            arrays = self._arrays(group, streams, first, last)
            groups[group] = GroupBlock(
                arrays, index, offsets[begin : end + 1] - first, (first, last)
            )
        return next(iter(groups.values())) if opened.is_single else ColumnsBlock(groups, index)

    def _arrays(
        self, group: str, streams: dict[str, StreamQueue], first: int, last: int
    ) -> dict[str, npt.NDArray[Any]]:
        opened = self._opened.groups[group]
        if not opened.indexes:
            return {}
        if first == last:
            keys = opened.structure.keys or ()
            columns = zip(keys, opened.indexes, strict=True)
            return {
                name: _squeezed(np.empty((0, *one.row_shape), one.dtype)) for name, one in columns
            }
        guard = streams[group].get()
        if guard is QueueClosed:
            raise RuntimeError("a stream of columns ended before its last block")
        with guard as block:
            return {name: _squeezed(column) for name, column in block.items()}

    def _stream(self, group: str, edges: I64) -> StreamQueue:
        """Start the stream of a group, from the first value to the end."""
        opened = self._opened.groups[group]
        ends = self._opened.rows.offsets[group][edges]
        n_groups = len(self._opened.groups)
        n_procs = max(1, self._wanted.n_procs // n_groups)

        def planned() -> tuple[Any, ReadPlan, int]:
            of_blocks = np.unique(ends - ends[0])[1:]  # those without rows have no block
            largest = int(np.diff(of_blocks, prepend=0).max())
            plan = plan_reads(
                opened.indexes,
                block_rows=largest,
                n_readers=n_procs,
                read_ahead=None if n_groups == 1 else BLOCKS_AHEAD,
                remainder=True,
                first_row=int(ends[0]),
                end_row=int(ends[-1]),
                **opened.facts(),
            )
            return opened, replace(plan, ends=of_blocks.tolist()), largest

        return start_stream(self._pool, n_procs, planned, int(ends[0]))

    def _leave(self) -> None:
        streams, self._streams = self._streams, {}
        if streams:
            self._told = {group: stream.statistics() for group, stream in streams.items()}
        for stream in streams.values():
            stream.close()

    def statistics(self) -> dict[str, Any]:
        """Tell what the streams of the latest loop have done: group -> `StreamQueue.statistics`."""
        if self._streams:
            return {group: stream.statistics() for group, stream in self._streams.items()}
        return self._told

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


def _refused(happened: str) -> OptionsError:
    return OptionsError(happened, advice="Give what state_dict() returned", option="state")
