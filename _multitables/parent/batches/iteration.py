"""One iteration of a loader: stream after stream, epoch after epoch, and where it stands.

Law
---
1. An iteration is a row of runs, each one stream: of rows, what is left of an epoch after a resume,
   then the others together. Inside a run epochs follow each other without a pause.
2. A batch is delivered when the user has it. With the last batch an iteration stands at the end of
   its epoch, until it is left; then at the next.
3. A batch is a view of the ring whose base is its lease: held as long as the user holds it.
4. Damage that is to be skipped ends a stream like any error. The iteration goes on where it stands
   with another stream, as after a resume, and lost rows are taken out of its batches.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from _multitables.errors import CorruptChunkError, public
from _multitables.parent.batches.unit import Run, Unit
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.readers.error_report import skipped
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count
from _multitables.parent.typed import Block
from _multitables.plan.checkpoint import Position


@dataclass
class Progress:
    """Where an iteration stands."""

    start: Position
    #: A run, and its epochs and batches that were delivered: all set at once.
    at: tuple[Run, int, int] | None = None

    @property
    def position(self) -> Position:
        if self.at is None:
            return self.start
        run, epochs, batches = self.at
        return run.position(epochs, batches)

    @property
    def is_through(self) -> bool:
        """All its batches were delivered."""
        return self.at is not None and self.at[0].is_last(self.at[1])

    def __str__(self) -> str:
        position = self.position
        delivered = "all" if self.is_through else count(position.batches, "batch")
        return f"epoch {position.epoch}, {delivered} delivered"


def NEVER() -> None:  # noqa: N802 (a value)
    """Return no iteration: there was none."""


@dataclass
class Bookmark:
    """Where the next iteration begins, and where the latest one stands."""

    epoch: int
    #: The position of a loaded state, until an iteration goes on there.
    resumed: Position | None = None
    #: Of the latest iteration.
    progress: Progress | None = None
    #: The latest iteration, if it is held, and the statistics of its last stream.
    latest: Callable[[], Iteration | None] = NEVER
    statistics: dict[str, Any] = field(default_factory=dict)
    is_closed: bool = False


class Iteration(Iterator[Any], InNotebooks):
    """One iteration of a loader: yields batches or items, and ends its readers when it is left."""

    def __init__(self, unit: Unit, start: Position, bookmark: Bookmark) -> None:
        assert bookmark.progress is not None
        self._unit, self._bookmark, self._progress = unit, bookmark, bookmark.progress
        self._runs = iter(unit.runs(start))
        self._run: Run | None = None
        self._stream: StreamQueue | None = None
        self._guards: Iterator[Any] = iter(())
        #: Batches of the run that were taken, and that are still to come (perhaps without end).
        self._taken, self._left = 0, 0.0
        self._last_statistics: dict[str, Any] = {}
        # It has come to its end, and has raised StopIteration.
        self.is_over = False
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed or self.is_over else "open"
        return f"<{type(self).__name__} of {self._unit.title()}, {self._progress}, {state}>"

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
                self._closed, self._runs, self._left = True, iter(()), 0
                raise StopIteration
            with guard as batch:
                pass
            del guard
            batch = self._unit.delivered(batch, self._run, self._taken)
            self._count()
        return self._unit.transformed(batch)

    def _forget_resumed(self) -> None:
        if self._progress is self._bookmark.progress:
            self._bookmark.resumed = None

    def _go_on_behind(self, error: CorruptChunkError) -> None:
        """Go on without a damaged chunk, or raise its error."""
        rows = self._unit.leave_out(error)  # none if the stream was begun before it was known
        self._tell()
        stream = self._leave()
        if stream is not None:
            stream.close()
        self._runs, self._left = iter(self._unit.runs(self._progress.position)), 0
        self._run = None
        if rows:
            warnings.warn(skipped(error, rows), stacklevel=3)

    def _end_run(self) -> None:
        self._tell()
        stream = self._leave()
        if stream is not None and self._run is not None:
            self._unit.leave(stream, self._run)

    def _next_run(self) -> bool:
        run = self._run = next(self._runs, None)
        if run is None:
            if not self._closed:
                self._bookmark.epoch = self._progress.start.stop or self._bookmark.epoch
            self._closed = True
            return False
        self._taken = 0
        self._progress.at = run, 0, 0
        stream = self._unit.start(run)
        if stream is None:  # this rank has nothing in these epochs
            self._stand(run, run.epochs or 0, 0)
            return self._next_run()
        self._stream, self._guards = stream, stream.iter()
        self._left = run.batches * (math.inf if run.epochs is None else run.epochs)
        if self._closed:  # by another thread, while this one started the stream
            self.close()
        return not self._closed

    def _count(self) -> None:
        assert self._run is not None
        self._taken += 1
        self._left -= 1
        self._stand(self._run, *divmod(self._taken, self._run.batches))

    def _stand(self, run: Run, epochs: int, batches: int) -> None:
        self._progress.at = run, epochs, batches
        if not batches and run.is_last(epochs):
            self._bookmark.epoch = run.position(epochs, 0).epoch + 1
            self._forget_resumed()

    # ---- what there is

    @property
    def is_through(self) -> bool:
        """All batches were delivered."""
        return self._progress.is_through

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
        """Return the statistics of this iteration.

        Returns
        -------
        dict
            Those of the stream that runs, as from `StreamQueue.statistics`, or of items
            `Reader.statistics`, and ``read_amplification``, an estimate of how often each chunk of
            the largest dataset is decoded in an epoch (None of ragged rows and items). After the
            end, those of the last stream; empty before the first batch.
        """
        stream = self._stream
        if stream is None:
            return self._last_statistics
        return {**stream.statistics(), "read_amplification": stream.read_amplification()}

    def close(self) -> None:
        """End this iteration. Batches that are held stay valid. May be called again."""
        self._closed, self._runs, self._left = True, iter(()), 0
        stream = self._leave()
        if stream is not None:
            stream.close()

    def _tell(self) -> None:
        """Keep the statistics of the stream, before it is left."""
        if self._stream is not None:
            self._last_statistics = self._bookmark.statistics = self.statistics()

    def _leave(self) -> StreamQueue | None:
        stream, self._stream = self._stream, None
        self._guards = iter(())  # the stream's own would keep it
        return stream


@public
class BatchIterator(Iteration, Generic[Block]):
    """One iteration of `Batches`."""

    if TYPE_CHECKING:

        def __next__(self) -> Block: ...


@public
class ItemIterator(Iteration):
    """One iteration of a `Collection`: yields an `Item` for each key."""
