"""The streams of a training run: what an epoch has, this rank's shard of it, and who reads it.

Law
---
1. The file is indexed once, at the first need; by one of the ranks that share readers. Readers rest
   between streams.
2. From the second iteration on, a stream keeps running between loops, so that the next epoch is
   prefetched while the user does other things.
3. Says which epochs and positions an iteration has; what was delivered of them is the iterator's.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from _multitables import options
from _multitables._core import Descriptor
from _multitables.errors import CorruptChunkError, MultitablesError
from _multitables.parent.batches.damage import Damage, EpochDamage
from _multitables.parent.batches.unit import EpochRun, FileUnit
from _multitables.parent.ragged.open_rows import OpenedRows, open_rows
from _multitables.parent.ragged.start_rows import (
    batch_plan,
    readers_of,
    shared_bytes,
    start_rows,
    window_of,
)
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import (
    DataSpec,
    Opened,
    data_in,
    has_ragged,
    start_stream,
)
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count, title
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.damaged_chunks import Rows
from _multitables.plan.reader_options import BatchOptions
from _multitables.plan.row_order import CHUNKS, WINDOW, OrderWords, order_of
from _multitables.plan.row_subset import subset_of
from _multitables.plan.sample_rows import Samples
from _multitables.plan.stream_plan import ReadPlan
from _multitables.tree import structure_of
from _multitables.wire import values


@dataclass(frozen=True)
class IdleStream:
    """A stream at the end of an epoch, and the epoch that comes next in it."""

    stream: StreamQueue
    epoch: int


class RowUnit(FileUnit):
    """Batches of rows, of one length or ragged, or of samples."""

    spec: DataSpec
    wanted: BatchOptions

    def __init__(self, spec: DataSpec, wanted: BatchOptions, pool: ReaderPool) -> None:
        purpose = f"batches of {spec.path!r} in {spec.file.filename!r}"
        super().__init__(spec, wanted, pool, purpose)
        self.shard = replace(
            self.shard,
            batch_size=wanted.batch_size,
            drop_last=wanted.drop_last,
            even=wanted.even,
            node=self._place.count,
        )
        self._damage = Damage()
        #: Of the epoch that is delivered.
        self._lost: EpochDamage | None = None
        self.idle: IdleStream | None = None
        #: Memory for the chunks that ranks of a node decode for each other.
        self._chunks: Descriptor | None = None
        self._closed = False
        self._opened: tuple[Opened | OpenedRows, OrderWords] | None = None
        self._opening = threading.Lock()

    def title(self) -> str:
        """Describe the batches for messages, without opening a file."""
        if self._opened is not None:
            indexes = self._opened[0].indexes
            of = title(indexes[0].filenames, [(index.path, index.shape) for index in indexes])
        else:
            paths = structure_of(self.spec.path)[1]
            of = title(self.filename, [(str(path), None) for path in paths])
        shuffle, readers = self.wanted.shuffle, count(self.wanted.n_procs.count, "reader")
        rows = count(self.wanted.batch_size, "row")
        return f"{of}: batches of {rows}, shuffle={shuffle!r}, {readers}"

    @property
    def missing_files(self) -> Mapping[str, MultitablesError]:
        """Of several files, those that are left out, and why."""
        return self.open()[0].missing_files

    @property
    def damage(self) -> list[CorruptChunkError]:
        """The chunks that were left out so far."""
        return self._damage.errors

    def open(self) -> tuple[Opened | OpenedRows, OrderWords]:
        """Return what was indexed, and the order of its rows in epoch 0."""
        with self._opening:  # ranks count what they open together
            if self._opened is None:
                opened = self._open()
                subset = subset_of(self.wanted.rows, opened.indexes[0].n_rows)
                order = order_of(opened.indexes, subset, self.wanted)
                if isinstance(opened, OpenedRows):
                    order = window_of(opened, order, self.wanted)
                self._opened = opened, order
            return self._opened

    def _open(self) -> Opened | OpenedRows:
        if self._shared is None or self._closed:
            return self._open_here()
        spec = self.spec
        structure, paths = structure_of(spec.path)
        version = repr(spec.version)
        casts = None if spec.casts is None else spec.casts.identity
        chosen = spec.field, repr(spec.inner), version, casts, type(spec.sample).__name__
        wanted = (*spec.file.wanted, *map(str, paths), *chosen)
        return self._shared.opened(values.encode(wanted), structure, self._open_here)

    def _open_here(self) -> Opened | OpenedRows:
        spec, seed = self.spec, self.wanted.seed
        if spec.sample is None and spec.weights is None:
            with spec.file.open() as source:
                if has_ragged(source, spec):
                    return open_rows(spec, source, seed)
                if spec.placing is None:
                    return data_in(spec, source)
        from _multitables.parent.ragged.open_samples import open_samples

        return open_samples(spec, seed)

    @property
    def samples(self) -> Samples | None:
        """What batches are of, if not of rows."""
        opened, _ = self.open()
        return opened.entries[0].samples if isinstance(opened, OpenedRows) else None

    def order(self, epoch: int) -> OrderWords:
        """Return the order of an epoch's rows."""
        return replace(self.open()[1], first_epoch=epoch)

    def everything(self) -> tuple[tuple[int, int], ...]:
        """Return all positions of an epoch."""
        return ((0, self.open()[1].n_rows),)

    def identity(self) -> dict[str, Any]:
        """Return all that an order depends on."""
        order = self.open()[1]
        identity: dict[str, Any] = {
            "rows": order.n_rows,
            "shuffle": options.SHUFFLES[order.shuffle],
            "seed": order.seed,
            "first_row": order.start if order.listed is None else int(order.listed[0]),
            "step": order.step,
        }
        if samples := self.samples:
            identity["samples"] = samples.identity
        if self.spec.placing is not None:
            identity["placing"] = self.spec.placing.identity
        if order.listed is not None:
            identity["listed"] = zlib.crc32(order.listed_bytes)
        if order.shuffle in (CHUNKS, WINDOW):
            identity["chunk_rows"] = order.chunk_rows
        if order.shuffle == WINDOW:
            identity["window_rows"] = order.window_rows
        return identity

    def start(self, run: EpochRun) -> StreamQueue | None:
        """Return the stream of a run, if this rank gets a batch of it."""
        if run.batches:
            return self._start(run)
        if self._shared is not None and run.ranges:  # the node's other ranks do
            self._start(run).close()
        return None

    def _start(self, run: EpochRun) -> StreamQueue:
        """Return the stream of a run: a new one, or the one that was left before it."""
        whole = tuple(run.ranges) == tuple(self._rest(run.everything, 0)[0])
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
            turn = self._place.number, self._place.count
            rows_plan = batch_plan(opened, wanted, order, run.ranges, epochs, turn)
            n_readers = readers_of(wanted, turn)
            chunks = self._shared_chunks(opened, run, order, epochs)
            return start_rows(self.pool, n_readers, self.spec, opened, rows_plan, chunks=chunks)

        def planned(opened: Opened, n_readers: int) -> tuple[ReadPlan, int]:
            return self.plan(opened, run, n_readers, epochs), wanted.batch_size

        if self._shared is not None:
            n_readers = wanted.n_procs.count
            counts = (epochs, wanted.batch_size, n_readers)
            what = (order, tuple(map(tuple, run.ranges)), *counts, wanted.read_ahead)
            encoded = values.encode(what)
            share = self._shared.start
            return share(n_readers, encoded, opened, lambda: (*planned(opened, n_readers), None))[0]
        return start_stream(self.pool, wanted.n_procs, opened, planned)

    def plan(
        self, opened: Opened, run: EpochRun, n_readers: int, epochs: int | None = 1
    ) -> ReadPlan:
        """Plan what readers read in a run over rows of one length."""
        return plan_batches(
            opened.indexes,
            order=self.order(run.first_epoch),
            ranges=run.ranges,
            batch_size=self.wanted.batch_size,
            n_readers=n_readers,
            n_consumers=self.shard.node,
            epochs=epochs,
            read_ahead=self.wanted.read_ahead,
            **opened.facts(),
        )

    def _shared_chunks(
        self, opened: OpenedRows, run: EpochRun, order: OrderWords, epochs: int | None
    ) -> Descriptor | None:
        """Return memory in which ranks of a node decode for each other, which deliver the same."""
        if self._shared is None:
            return None
        counts = (epochs, self.wanted.batch_size)
        same = self.identity(), order, tuple(map(tuple, run.ranges)), *counts
        self._shared.agree(values.encode(same))
        if self._chunks is None:
            n_bytes = shared_bytes(opened, order, self.wanted)
            self._chunks = self._shared.chunks(n_bytes)
        return self._chunks

    def delivered(self, block: Any, run: EpochRun | None, taken: int) -> Any:
        """Return a batch without rows that were not read; None: nothing is left of it."""
        if not self.damage or run is None:
            return block
        lap, number = divmod(taken, run.batches)
        epoch = run.first_epoch + lap
        known = len(self.damage), epoch, run.ranges
        if self._lost is None or self._lost.known != known:
            opened, _ = self.open()
            samples = opened if isinstance(opened, OpenedRows) else None
            self._lost = EpochDamage(self._damage, self.order(epoch), run.ranges, samples)
        return self._lost.without_lost(block, number, self.shard.batch_size)

    def transformed(self, block: Any) -> Any:
        """Return a batch after the user's transform."""
        transform = self.wanted.transform
        return block if transform is None else transform(block)

    def leave(self, stream: StreamQueue, run: EpochRun) -> None:
        """Let a stream rest at the end of its run, or end it."""
        if stream.source.endless:
            self.close_idle()
            self.idle = IdleStream(stream, run.first_epoch + 1)
            if self._closed:  # by another thread meanwhile
                self.close_idle()
        else:
            stream.close()

    def close(self) -> None:
        """End the stream that rests, and leave the shared readers."""
        self._closed = True
        self.close_idle()
        if self._chunks is not None:
            self._chunks.close()
        super().close()

    def close_idle(self) -> None:
        """End the stream that rests."""
        idle, self.idle = self.idle, None
        if idle is not None:
            idle.stream.close()

    def leave_out(self, error: CorruptChunkError) -> list[Rows]:
        """Leave a damaged chunk out of all streams to come; return its rows, or none: it was."""
        if not self.wanted.skip_damaged:
            raise error
        opened, order = self.open()
        if isinstance(opened, OpenedRows):
            indexes, rows = self._damage.leave_out(error, opened.read)
            self._opened = opened.reading(indexes), order
        else:
            indexes, rows = self._damage.leave_out(error, opened.indexes)
            self._opened = replace(opened, indexes=indexes), order
        return rows
