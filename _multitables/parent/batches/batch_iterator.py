"""One iteration over batches: stream after stream, epoch after epoch, and where it stands.

Law
---
1. An iteration is a list of epoch runs, each one stream: what is left of an epoch after a resume,
   then the others together. Inside a run epochs follow each other without a pause.
2. What counts as delivered is what was handed to the user. With the last batch an iteration stands
   at the end of its epoch, until it is left; then at the next.
3. A batch is a view of the ring whose base is its lease: held as long as the user holds it.
4. Damage that is to be skipped ends a stream like any error. The iteration goes on where it stands
   with another stream, as after a resume, and lost rows are taken out of its batches.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from _multitables.errors import CorruptChunkError
from _multitables.parent.batches.damage_book import EpochDamage
from _multitables.parent.batches.epoch_streams import EpochRun, EpochStreams
from _multitables.parent.readers.error_report import skipped
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count
from _multitables.plan.checkpoint import Position


@dataclass
class Progress:
    """Where an iteration stands: some batches after a position, both told at once."""

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


@dataclass
class Bookmark:
    """Where the next iteration begins, and where the latest one stands."""

    epoch: int
    #: What a loaded state told, until an iteration goes on there.
    resumed: Position | None = None
    #: Of the latest iteration.
    progress: Progress | None = None
    #: What its last stream told.
    told: dict[str, Any] = field(default_factory=dict)


class BatchIterator:
    """One iteration of `Batches`: yields batches, and ends its readers when it is left."""

    def __init__(
        self, title: str, streams: EpochStreams, runs: list[EpochRun], bookmark: Bookmark
    ) -> None:
        assert bookmark.progress is not None
        self._title = title
        self._streams = streams
        self._runs = runs
        self._bookmark = bookmark
        self._progress = bookmark.progress
        self._size = streams.wanted.batch_size
        self._run: EpochRun | None = None
        self._stream: StreamQueue | None = None
        self._guards: Iterator[Any] = iter(())
        self._taken = self._per_epoch = 0
        #: Batches of the run that are still to come; infinite for a run without end.
        self._left: float = 0
        self._told: dict[str, Any] = {}
        self._damage: EpochDamage | None = None
        # It has come to its end, and its user was told so.
        self.is_over = False
        self._closed = False

    def __repr__(self) -> str:
        state = "open" if self._stream is not None or self._runs else "closed"
        return f"<BatchIterator of {self._title}, {self._progress}, {state}>"

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = None
        while batch is None:
            while self._left == 0:
                self._forget_resumed()  # it goes on here
                self._end_run()
                if not self._next_run():
                    self.is_over = self._progress.is_through
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
            if self._streams.damage.errors:
                batch = self._without_lost(batch)
            self._count()
        transform = self._streams.wanted.transform
        return batch if transform is None else transform(batch)

    def _forget_resumed(self) -> None:
        if self._progress is self._bookmark.progress:
            self._bookmark.resumed = None

    def _go_on_behind(self, error: CorruptChunkError) -> None:
        """Let what is left come without a damaged chunk, if that is wanted."""
        if not self._streams.wanted.skip_damaged or error.chunk_offset is None:
            raise error
        rows = self._streams.leave_out(error)  # none if the stream was begun before it was known
        self._tell()
        stream = self._leave()
        if stream is not None:
            stream.close()
        self._runs, self._left, self._run = self._streams.runs(self._progress.position), 0, None
        if rows:
            warnings.warn(skipped(error, rows), stacklevel=3)

    def _without_lost(self, batch: Any) -> Any:
        """Return a batch without rows that were not read; None: nothing is left of it."""
        run, book = self._run, self._streams.damage
        if run is None:
            return batch
        lap, number = divmod(self._taken, self._per_epoch)
        epoch = run.first_epoch + lap
        if self._damage is None or self._damage.known != (len(book.errors), epoch):
            self._damage = EpochDamage(book, self._streams.order(epoch), run.ranges)
        return self._damage.without_lost(batch, number, self._size)

    def _end_run(self) -> None:
        self._tell()
        stream = self._leave()
        if stream is not None and self._run is not None:
            self._streams.leave(stream, self._run)

    def _next_run(self) -> bool:
        if not self._runs:
            return False
        self._run = self._runs.pop(0)
        self._per_epoch = self._run.batches
        self._taken, self._damage = 0, None
        self._progress.at = self._run.position, 0
        if self._per_epoch == 0:  # this rank has nothing in these epochs
            self._streams.pass_by(self._run)
            self._end_epochs(self._run.epochs)
            return self._next_run()
        self._stream = self._streams.start(self._run)
        self._guards = self._stream.iter()
        self._left = self._per_epoch * (math.inf if self._run.epochs is None else self._run.epochs)
        if self._closed:  # by another thread, while this one started the stream
            self.close()
        return not self._closed

    def _count(self) -> None:
        self._taken += 1
        self._left -= 1
        start, batches = self._progress.at
        self._progress.at = start, batches + 1
        if self._taken % self._per_epoch == 0:
            self._end_epochs(1)

    def _end_epochs(self, epochs: int | None) -> None:
        """Stand at the beginning of an epoch, or at the end of the last one."""
        position = self._progress.position
        epoch = position.epoch + (epochs or 0)
        if epoch != position.stop:
            self._progress.at = Position(epoch, position.stop, self._streams.everything()), 0
            return
        self._progress.at = replace(position, epoch=epoch - 1), 0
        self._progress.is_through = True
        self._bookmark.epoch = epoch
        self._forget_resumed()

    def memory(self) -> list[tuple[int, int, object]]:
        """Return address, bytes and owner of each mapping in which batches lie at present.

        A mapping lasts as long as its owner is held.
        """
        stream = self._stream
        return [] if stream is None else stream.source.memory()

    def ready(self) -> int:
        """Count the batches that need not be waited for."""
        stream = self._stream
        return 0 if stream is None else stream.qsize()

    def statistics(self) -> dict[str, Any]:
        """Tell what this iteration has done.

        Returns
        -------
        dict
            Of the stream that runs: what `StreamQueue.statistics` tells, and
            ``read_amplification``, an estimate of how often each chunk of the largest dataset is
            decoded in an epoch (None of ragged rows). After the end, what the last stream told;
            empty before the first batch.
        """
        stream = self._stream
        if stream is None:
            return self._told
        return {**stream.statistics(), "read_amplification": stream.read_amplification()}

    def close(self) -> None:
        """End this iteration. Batches that are held stay valid. May be called again."""
        self._closed = True
        self._runs, self._left = [], 0
        stream = self._leave()
        if stream is not None:
            stream.close()

    def _tell(self) -> None:
        """Keep what the stream told, before it is left."""
        if self._stream is not None:
            self._told = self._bookmark.told = self.statistics()

    def _leave(self) -> StreamQueue | None:
        stream, self._stream = self._stream, None
        self._guards = iter(())  # the stream's own would keep it
        return stream
