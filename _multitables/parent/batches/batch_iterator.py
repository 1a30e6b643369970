"""One iteration over batches: stream after stream, epoch after epoch, and where it stands.

Law
---
1. An iteration is a row of epoch runs, each one stream: what is left of an epoch after a resume,
   then the others together. Inside a run epochs follow each other without a pause.
2. What counts as delivered is what was handed to the user. With the last batch an iteration stands
   at the end of its epoch, until it is left; then at the next.
3. A batch is a view of the ring whose base is its lease: held as long as the user holds it.
4. Damage that is to be skipped ends a stream like any error. The iteration goes on where it stands
   with another one, as after a resume, and rows that were never read are taken out of its batches.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import CorruptChunkError
from _multitables.parent.readers.error_report import skipped
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count
from _multitables.plan.batch_plan import read_amplification
from _multitables.plan.checkpoint import Position
from _multitables.plan.damaged_chunks import places, without_rows
from _multitables.plan.sharding import Ranges, length

if TYPE_CHECKING:
    from _multitables.parent.batches.batches import Batches


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

    stream: StreamQueue
    epoch: int


@dataclass
class Progress:
    """Where an iteration stands: so many batches behind a standing, both told at once."""

    at: tuple[Position, int]
    #: All its batches were delivered.
    is_through: bool = False

    @property
    def position(self) -> Position:
        start, batches = self.at
        return replace(start, batches=start.batches + batches)

    def __str__(self) -> str:
        position = self.position
        delivered = "all" if self.is_through else count(position.batches, "batch")
        return f"epoch {position.epoch}, {delivered} delivered"


class BatchIterator:
    """One iteration of `Batches`: yields batches, and ends its readers when it is left."""

    def __init__(self, batches: Batches, runs: list[EpochRun], progress: Progress) -> None:
        self._batches = batches
        self._runs = runs
        self._run: EpochRun | None = None
        self._stream: StreamQueue | None = None
        self._guards: Iterator[Any] = iter(())
        self._progress = progress
        self._taken = self._per_epoch = 0
        #: Batches of the run that are still to come; infinite for a run without end.
        self._left: float = 0
        self._told: dict[str, Any] = {}
        #: An epoch of the run, how many damaged chunks are known, and which of its rows they took.
        self._lost: tuple[int, int, npt.NDArray[np.int64]] | None = None

    def __repr__(self) -> str:
        is_open = self._stream is not None or self._runs
        state = "open" if is_open and not self._batches._closed else "closed"
        of = f"{self._batches._title()}: {self._batches._told_options()}"
        return f"<BatchIterator of {of}, {self._progress}, {state}>"

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = None
        while batch is None:
            while self._left == 0:
                if self._is_latest():
                    self._batches._resumed = None  # it goes on here
                self._end_run()
                if not self._next_run():
                    self._end()
                    raise StopIteration
            try:
                guard = next(self._guards, None)
            except CorruptChunkError as error:
                self._go_on_behind(error)
                continue
            if guard is None:  # closed by another thread
                self._runs, self._left = [], 0
                raise StopIteration
            with guard as batch:
                pass
            del guard
            if self._batches.damage:
                batch = self._without_lost(batch)
            self._count()
        transform = self._batches._transform
        return batch if transform is None else transform(batch)

    def _go_on_behind(self, error: CorruptChunkError) -> None:
        """Let what is left come without a damaged chunk, if that is wanted."""
        batches = self._batches
        if not batches._wanted.skip_damaged or error.chunk_offset is None:
            raise error
        rows = batches._leave_out(error)  # None if the stream was begun before it was known
        self._told = batches._told = self.statistics()
        stream = self._leave()
        if stream is not None:
            stream.close()
        self._runs, self._left, self._run = batches._runs(self._progress.position), 0, None
        if rows is not None:
            warnings.warn(skipped(error, rows), stacklevel=3)

    def _without_lost(self, batch: Any) -> Any:
        """Return a batch without rows that were not read; None: nothing is left of it."""
        run, known = self._run, len(self._batches.damage)
        if run is None:
            return batch
        lap, number = divmod(self._taken, self._per_epoch)
        if self._lost is None or self._lost[:2] != (lap, known):
            positions = self._batches._lost(run.first_epoch + lap)
            self._lost = lap, known, places(positions, run.ranges)
        size, lost = self._batches.batch_size, self._lost[2]
        low, high = np.searchsorted(lost, (number * size, (number + 1) * size))
        if low == high:
            return batch
        rows = min(size, length(run.ranges) - number * size)
        return None if high - low == rows else without_rows(batch, lost[low:high] - number * size)

    def _end_run(self) -> None:
        stream = self._leave()
        if stream is None or self._run is None:
            return
        self._told = self._batches._told = told_of(stream)
        if stream.endless:
            self._batches._leave_idle_stream()
            self._batches._idle_stream = IdleStream(stream, self._run.first_epoch + 1)
        else:
            stream.close()

    def _next_run(self) -> bool:
        if not self._runs:
            return False
        self._run = self._runs.pop(0)
        self._per_epoch = -(-length(self._run.ranges) // self._batches.batch_size)
        self._taken, self._lost = 0, None
        self._progress.at = self._run.position, 0
        if self._per_epoch == 0:  # this rank has nothing in these epochs
            self._end_epochs(self._run.epochs)
            return self._next_run()
        self._stream = self._batches._stream(self._run)
        self._guards = self._stream.iter()
        self._left = self._per_epoch * (math.inf if self._run.epochs is None else self._run.epochs)
        return True

    def _count(self) -> None:
        self._taken += 1
        self._left -= 1
        start, batches = self._progress.at
        self._progress.at = start, batches + 1
        if self._taken % self._per_epoch == 0:
            self._end_epochs(1)

    def _end_epochs(self, epochs: int | None) -> None:
        """Stand at the beginning of an epoch, or at the end of the last one."""
        position, batches = self._progress.position, self._batches
        epoch = position.epoch + (epochs or 0)
        if epoch != position.stop:
            self._progress.at = Position(epoch, position.stop, batches._all()), 0
            return
        self._progress.at = replace(position, epoch=epoch - 1), 0
        self._progress.is_through = True
        batches._epoch = epoch
        if self._is_latest():
            batches._resumed = None

    def _is_latest(self) -> bool:
        return self._progress is self._batches._progress

    def _end(self) -> None:
        if self._progress.is_through and self._is_latest():
            self._batches._latest = None

    def memory(self) -> list[tuple[int, int, object]]:
        """Return address, bytes and owner of each mapping in which batches lie at present.

        A mapping lasts as long as its owner is held.
        """
        return [] if self._stream is None else self._stream.memory()

    def ready(self) -> int:
        """Count the batches that need not be waited for."""
        return 0 if self._stream is None else self._stream.qsize()

    def statistics(self) -> dict[str, Any]:
        """Tell what this iteration has done.

        Returns
        -------
        dict
            Of the stream that runs: what `StreamQueue.statistics` tells, and
            ``read_amplification``, an estimate of how often each chunk of the largest dataset is
            decoded in an epoch. After the end, what the last stream told; empty before the first
            batch.
        """
        return self._told if self._stream is None else told_of(self._stream)

    def close(self) -> None:
        """End this iteration. Batches that are held stay valid. May be called again."""
        self._runs, self._left = [], 0
        stream = self._leave()
        if stream is not None:
            stream.close()

    def _leave(self) -> StreamQueue | None:
        stream, self._stream = self._stream, None
        self._guards = iter(())  # the stream's own would keep it
        return stream


def told_of(stream: StreamQueue) -> dict[str, Any]:
    return {**stream.statistics(), "read_amplification": read_amplification(stream._plan)}
