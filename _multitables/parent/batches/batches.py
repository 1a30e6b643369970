"""Batches for training: epochs, ranks and resume over the streams of the ring.

Law
---
1. Says which epochs, rows and ranks an iteration has; `BatchIterator` goes through them.
2. Whoever loops over one epoch a second time will do so again: that loop leaves its stream running,
   and the next one goes on with it, its ring filled while the user does other things.
3. A state tells what was delivered and nothing else: neither readers nor damage have a part in it.
4. The file is indexed once, at the first need. Readers rest between iterations.
"""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core, machine, options
from _multitables.errors import ClosedError, CorruptChunkError
from _multitables.options import BatchOptions, check_epoch
from _multitables.parent.batches.batch_iterator import BatchIterator, EpochRun, IdleStream, Progress
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import Opened, launch, open_members
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count, title
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.checkpoint import Position, position_of, state_of
from _multitables.plan.damaged_chunks import rows_of, without_chunk
from _multitables.plan.row_order import CHUNKS, WINDOW, OrderWords, order_of
from _multitables.plan.row_subset import subset_of
from _multitables.plan.sharding import Shard, between, length, shard_of
from _multitables.tree import Paths, members_of


class Batches:
    """Batches of a training run; made by `Streamer.get_batches`.

    Iterating goes through `epochs` epochs, from `epoch` on; the next iteration goes on after
    them. Breaking out of a loop leaves `epoch` where it was.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.
    damage : list of CorruptChunkError
        The chunks that were left out so far, with ``skip_damaged=True``.

    Examples
    --------
    >>> batches = streamer.get_batches("/images", 256, shuffle=True)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     for batch in batches:
    ...         train(batch)
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        open_options: Mapping[str, Any],
        path: Paths,
        field: str | None,
        rotational: bool | None,
        rows: Any,
        transform: Callable[[Any], Any] | None,
        wanted: BatchOptions,
        library_timeout_seconds: float | None,
        reader_pool: ReaderPool | None = None,
    ) -> None:
        self.batch_size = wanted.batch_size
        self.damage: list[CorruptChunkError] = []
        self._lost_rows: list[tuple[int, int]] = []
        #: An epoch, and where in it the first of these rows stand: to find them takes a while.
        self._lost_at: tuple[int, list[npt.NDArray[np.int64]]] = (-1, [])
        self._source = (filename, dict(open_options), path, field, rotational)
        self._paths = members_of(path)[1]
        self._rows = rows
        self._transform = transform
        self._wanted = wanted
        self._shard = Shard(
            wanted.batch_size, wanted.rank, wanted.world_size, wanted.drop_last, wanted.even
        )
        self._epoch = wanted.start_epoch
        self._resumed: Position | None = None
        self._opened: Opened | None = None
        self._order: OrderWords | None = None
        self._closed = False
        #: An iteration has begun; another one is to come, for which its epoch is prepared.
        self._begun = self._goes_on = False
        #: Readers are ours, or those of a streamer that keeps them for others, too.
        self._own_team = reader_pool is None
        self._reader_pool = (
            ReaderPool(True, library_timeout_seconds) if reader_pool is None else reader_pool
        )
        self._progress: Progress | None = None
        self._idle_stream: IdleStream | None = None
        self._latest: weakref.ref[BatchIterator] | None = None
        self._told: dict[str, Any] = {}
        self._iterators: weakref.WeakSet[BatchIterator] = weakref.WeakSet()

    # ---- what there is

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Batches of {self._title()}: {self._told_options()}, {self._position()}, {state}>"

    def _title(self) -> str:
        opened = self._opened
        if opened is None:
            return title(self._source[0], [(path, None) for path in self._paths])
        shapes = [(index.path, index.shape) for index in opened.indexes]
        return title(opened.indexes[0].filename, shapes)

    def _told_options(self) -> str:
        wanted = self._wanted
        readers = count(wanted.n_procs, "reader")
        return f"batches of {count(self.batch_size, 'row')}, shuffle={wanted.shuffle!r}, {readers}"

    def _position(self) -> str:
        if self._progress is not None:
            return str(self._progress)
        return str(Progress((self._resumed or Position(self._epoch, None, ()), 0)))

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        return self._epoch if self._resumed is None else self._resumed.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin with `epoch`.

        It begins with the epoch's first batch, unless a state was loaded that stands in this
        epoch: then where that stands.
        """
        epoch = check_epoch("epoch", epoch)
        if self._resumed is None or self._resumed.epoch != epoch:
            self._epoch = epoch
            self._resumed = self._progress = None

    def _expect_epochs(self) -> None:
        """Let the first iteration prepare the next epoch already: all epochs have one ring."""
        self._goes_on = True

    def _share_out(self, part: int, parts: int) -> None:
        """Let this be one of `parts` processes that share out the rank's batches."""
        shard, wanted = self._shard, self._wanted
        self._shard = replace(
            shard,
            rank=wanted.rank * parts + part,
            world_size=wanted.world_size * parts,
            parts=parts,
        )

    def __len__(self) -> int:
        """Count the batches of the next iteration, of this rank."""
        runs = self._runs(self._start())
        if any(run.epochs is None for run in runs):
            raise TypeError("batches without end have no length: epochs is None")
        return sum(-(-length(run.ranges) // self.batch_size) * (run.epochs or 0) for run in runs)

    def order(self, epoch: int | None = None) -> npt.NDArray[np.int64]:
        """Return the rows of an epoch in the order in which this rank delivers them.

        Parameters
        ----------
        epoch : int, optional
            The default is the one with which the next iteration begins.

        Returns
        -------
        numpy.ndarray of int64
            Rows of the dataset.
        """
        _, order = self._open()
        wanted = self._epoch if epoch is None else check_epoch("epoch", epoch)
        words = replace(order, first_epoch=wanted)
        rows = [_order_rows(words, begin, end) for begin, end in shard_of(self._all(), self._shard)]
        return np.concatenate(rows) if rows else np.zeros(0, np.int64)

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return what was delivered so far by the latest iteration, to be saved.

        Returns
        -------
        dict
            Of JSON's types. It holds for any number of readers. Taken in a loop's last turn, it
            leaves nothing to the iteration that goes on there; taken behind the loop, it is that
            of the beginning of the next iteration.
        """
        is_left = self._latest is None or self._latest() is None
        if self._progress is not None and self._progress.is_through and is_left:
            return state_of(self._start(), self._shard, self._identity())
        return self._state_of_pass()

    def _state_of_pass(self) -> dict[str, Any]:
        """Return the state of the latest iteration, also when it was left at its end."""
        position = self._start() if self._progress is None else self._progress.position
        return state_of(position, self._shard, self._identity())

    def load_state_dict(self, state: Any) -> None:
        """Let the next iteration go on where a state was taken, up to the end that it had.

        Parameters
        ----------
        state : dict, or list of dict
            What `state_dict` returned: of this rank, of one rank (all are taken to have delivered
            equally many batches), or of all ranks. Ranks and batch size may be other ones than
            before: what was delivered is not repeated, and nothing is lost.

        Raises
        ------
        OptionsError
            Not a state, or one of other data or another shuffle.
        """
        position = position_of(state, self._shard, self._identity())
        self._resumed, self._epoch = position, position.epoch
        self._progress = None

    def _identity(self) -> dict[str, Any]:
        """All that an order depends on."""
        _, order = self._open()
        identity = {
            "rows": order.n_rows,
            "shuffle": options.SHUFFLES[order.shuffle],
            "seed": order.seed,
            "first_row": order.start if order.listed is None else int(order.listed[0]),
            "step": order.step,
        }
        if order.listed is not None:
            identity["listed"] = zlib.crc32(order.listed.astype("<u8", copy=False).data)
        if order.shuffle in (CHUNKS, WINDOW):
            identity["chunk_rows"] = order.chunk_rows
        if order.shuffle == WINDOW:
            identity["window_rows"] = order.window_rows
        return identity

    # ---- iterating

    def __iter__(self) -> BatchIterator:
        if self._closed:
            raise ClosedError(
                f"the batches of {os.fspath(self._source[0])!r} are closed",
                advice="Make new ones with get_batches",
            )
        start = self._start()
        self._goes_on = self._goes_on or self._begun
        self._begun = True
        self._progress = Progress((start, 0))
        iterator = BatchIterator(self, self._runs(start), self._progress)
        self._iterators.add(iterator)
        self._latest = weakref.ref(iterator)
        return iterator

    def statistics(self) -> dict[str, Any]:
        """Tell what the latest iteration has done; see `BatchIterator.statistics`."""
        latest = None if self._latest is None else self._latest()
        return self._told if latest is None else latest.statistics()

    def close(self) -> None:
        """End all iterations and readers. Batches that are held stay valid."""
        self._closed = True
        for iterator in list(self._iterators):
            iterator.close()
        self._leave_idle_stream()
        if self._own_team:
            self._reader_pool.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- inside

    def _open(self) -> tuple[Opened, OrderWords]:
        if self._opened is None or self._order is None:
            opened = open_members(*self._source)
            subset = subset_of(self._rows, opened.indexes[0].n_rows)
            self._order = order_of(opened.indexes, subset, self._wanted)
            self._opened = opened
        return self._opened, self._order

    def _all(self) -> tuple[tuple[int, int], ...]:
        """All positions of an epoch."""
        _, order = self._open()
        return ((0, order.n_rows),)

    def _stop(self, epoch: int) -> int | None:
        return None if self._wanted.epochs is None else epoch + self._wanted.epochs

    def _start(self) -> Position:
        if self._resumed is not None:
            return self._resumed
        return Position(self._epoch, self._stop(self._epoch), self._all())

    def _runs(self, start: Position) -> list[EpochRun]:
        everything = self._all()
        runs = []
        first = start.epoch
        if start.ranges != everything or start.batches:
            share = shard_of(start.ranges, self._shard)
            rest = between(share, start.batches * self.batch_size, length(share))
            runs.append(EpochRun(first, 1, start, rest))
            first += 1
        left = None if start.stop is None else start.stop - first
        if left is None or left > 0:
            whole = Position(first, start.stop, everything)
            runs.append(EpochRun(first, left, whole, shard_of(everything, self._shard)))
        return runs

    def _leave_out(self, error: CorruptChunkError) -> tuple[int, int] | None:
        """Leave a damaged chunk out of all streams to come, and tell its rows; None: it was."""
        opened, _ = self._open()
        chunk, rows, indexes = error.chunk_offset or (), None, []
        for index in opened.indexes:
            less = index
            if (index.filename, index.path) == (error.filename, error.path):
                less = without_chunk(index, chunk)
            if len(less.grid_index) < len(index.grid_index):
                rows = rows_of(index, chunk)
            indexes.append(less)
        if rows is not None:
            self._opened = replace(opened, indexes=indexes)
            self._lost_rows.append(rows)
            self.damage.append(error.with_traceback(None))  # whose frames hold batches
        return rows

    def _lost(self, epoch: int) -> npt.NDArray[np.int64]:
        """The positions of an epoch that lack rows, ascending."""
        if self._lost_at[0] != epoch:
            self._lost_at = epoch, []
        words, found = replace(self._open()[1], first_epoch=epoch), self._lost_at[1]
        for begin, end in self._lost_rows[len(found) :]:
            found.append(_positions(words, begin, end))
        return np.unique(np.concatenate(found))

    def _leave_idle_stream(self) -> None:
        idle, self._idle_stream = self._idle_stream, None
        if idle is not None:
            idle.stream.close()

    def _stream(self, run: EpochRun) -> StreamQueue:
        """Return the stream of a run: a new one, or the one that was left before it."""
        opened, order = self._open()
        wanted = self._wanted
        whole = tuple(run.ranges) == tuple(shard_of(self._all(), self._shard))
        goes_on = self._goes_on and run.epochs == 1 and whole
        if goes_on and self._idle_stream is not None and self._idle_stream.stream.mine:
            idle, self._idle_stream = self._idle_stream, None
            if idle.epoch == run.first_epoch:
                return idle.stream
            idle.stream.close()
        readers = self._reader_pool.take(wanted.n_procs)
        try:
            plan = plan_batches(
                opened.indexes,
                order=replace(order, first_epoch=run.first_epoch),
                ranges=run.ranges,
                batch_size=self.batch_size,
                n_readers=len(readers),
                epochs=None if goes_on else run.epochs,
                read_ahead=wanted.read_ahead,
                direct=opened.direct,
                native_filters=_core.native_filters(),
                page_bytes=_core.PAGE_BYTES,
                memory_limit_bytes=machine.memory_limit_bytes(),
            )
            return launch(opened, plan, self.batch_size, readers, self._reader_pool.give_back())
        except BaseException:
            readers.stop()
            raise


def _order_rows(order: OrderWords, begin: int, end: int) -> npt.NDArray[np.int64]:
    return _core.order_rows(order.words, _listed(order), begin, end)


def _positions(order: OrderWords, begin_row: int, end_row: int) -> npt.NDArray[np.int64]:
    return _core.order_positions(order.words, _listed(order), begin_row, end_row)


def _listed(order: OrderWords) -> bytes:
    listed = np.zeros(0, np.uint64) if order.listed is None else order.listed
    return listed.astype("<u8", copy=False).tobytes()
