"""The streams of a training run: what an epoch has, this rank's shard of it, and who reads it.

Law
---
1. The file is indexed once, at the first need. Readers rest between streams.
2. From the second iteration on, a stream keeps running between loops, so that the next epoch is
   prefetched while the user does other things.
3. Says which epochs and positions an iteration has; what was delivered of them is the iterator's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from _multitables.errors import CorruptChunkError, UnsupportedDatasetError
from _multitables.options import BatchOptions
from _multitables.parent.batches.damage_book import DamageBook
from _multitables.parent.ragged.open_rows import OpenedRows, open_rows
from _multitables.parent.ragged.ragged_queue import RaggedQueue
from _multitables.parent.ragged.start_rows import batch_plan, check_options, start_rows
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import DataSpec, Opened, open_data, start_stream
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.checkpoint import Position
from _multitables.plan.damaged_chunks import Rows
from _multitables.plan.row_order import OrderWords, order_of
from _multitables.plan.row_subset import subset_of
from _multitables.plan.sharding import Ranges, Shard, between, length, shard_of
from _multitables.plan.stream_plan import ReadPlan


@dataclass(frozen=True)
class EpochRun:
    """One stream of an iteration: `epochs` times (None: without end) the same positions."""

    first_epoch: int
    epochs: int | None
    #: What was left to all ranks when the epochs of this run began, and this rank's batches of it
    #: that were delivered before.
    position: Position
    ranges: Ranges


@dataclass(frozen=True)
class IdleStream:
    """A stream at the end of an epoch, and the epoch that comes next in it."""

    stream: StreamQueue | RaggedQueue
    epoch: int


class EpochStreams:
    """Opens the data of a training run and starts its streams."""

    def __init__(self, spec: DataSpec, wanted: BatchOptions, pool: ReaderPool) -> None:
        self.wanted = wanted
        self.shard = Shard(
            wanted.batch_size, wanted.rank, wanted.world_size, wanted.drop_last, wanted.even
        )
        self.damage = DamageBook()
        #: Another iteration is to come, for which its epoch is prefetched.
        self.prefetches = False
        self.idle: IdleStream | None = None
        self._spec = spec
        self._pool = pool
        self._opened: tuple[Opened | OpenedRows, OrderWords] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the file was indexed yet."""
        return self._opened is not None

    def open(self) -> tuple[Opened | OpenedRows, OrderWords]:
        """Return what was indexed, and the order of its rows in epoch 0."""
        if self._opened is None:
            opened = self._open()
            subset = subset_of(self.wanted.rows, opened.indexes[0].n_rows)
            self._opened = opened, order_of(opened.indexes, subset, self.wanted)
        return self._opened

    def _open(self) -> Opened | OpenedRows:
        try:
            return open_data(self._spec)
        except UnsupportedDatasetError as refusal:
            opened = open_rows(self._spec, refusal)
            check_options(self.wanted)
            return opened

    def order(self, epoch: int) -> OrderWords:
        """Return the order of an epoch's rows."""
        return replace(self.open()[1], first_epoch=epoch)

    def everything(self) -> tuple[tuple[int, int], ...]:
        """Return all positions of an epoch."""
        return ((0, self.open()[1].n_rows),)

    def runs(self, start: Position) -> list[EpochRun]:
        """Return the streams of an iteration that begins at `start`."""
        everything, size = self.everything(), self.wanted.batch_size
        runs = []
        first = start.epoch
        if start.ranges != everything or start.batches:
            share = shard_of(start.ranges, self.shard)
            rest = between(share, start.batches * size, length(share))
            runs.append(EpochRun(first, 1, start, rest))
            first += 1
        left = None if start.stop is None else start.stop - first
        if left is None or left > 0:
            whole = Position(first, start.stop, everything)
            runs.append(EpochRun(first, left, whole, shard_of(everything, self.shard)))
        return runs

    def start(self, run: EpochRun) -> StreamQueue | RaggedQueue:
        """Return the stream of a run: a new one, or the one that was left before it."""
        whole = tuple(run.ranges) == tuple(shard_of(self.everything(), self.shard))
        goes_on = self.prefetches and run.epochs == 1 and whole
        if goes_on and self.idle is not None and self.idle.stream.mine:
            idle, self.idle = self.idle, None
            if idle.epoch == run.first_epoch:
                return idle.stream
            idle.stream.close()
        opened, _ = self.open()
        wanted, order = self.wanted, self.order(run.first_epoch)
        epochs = None if goes_on else run.epochs
        if isinstance(opened, OpenedRows):
            rows_plan = batch_plan(opened, wanted, order, run.ranges, epochs)
            return start_rows(self._pool, wanted.n_procs, self._spec, opened, rows_plan)

        def planned() -> tuple[Opened, ReadPlan, int]:
            plan = plan_batches(
                opened.indexes,
                order=order,
                ranges=run.ranges,
                batch_size=wanted.batch_size,
                n_readers=wanted.n_procs,
                epochs=epochs,
                read_ahead=wanted.read_ahead,
                **opened.facts(),
            )
            return opened, plan, wanted.batch_size

        return start_stream(self._pool, wanted.n_procs, planned)

    def leave(self, stream: StreamQueue | RaggedQueue, run: EpochRun) -> None:
        """Let a stream rest at the end of its run, or end it."""
        if stream.endless:
            self.close_idle()
            self.idle = IdleStream(stream, run.first_epoch + 1)
        else:
            stream.close()

    def close_idle(self) -> None:
        """End the stream that rests."""
        idle, self.idle = self.idle, None
        if idle is not None:
            idle.stream.close()

    def leave_out(self, error: CorruptChunkError) -> list[Rows]:
        """Leave a damaged chunk out of all streams to come; return its rows, or none: it was."""
        opened, order = self.open()
        assert isinstance(opened, Opened)  # `check_options` has refused others
        indexes, rows = self.damage.leave_out(error, opened.indexes)
        self._opened = replace(opened, indexes=indexes), order
        return rows
