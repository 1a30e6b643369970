"""Epochs, ranks, states and iterations over any unit.

Law
---
1. Says where an iteration begins; `Iteration` goes through it, and the unit starts its streams.
2. A state records the delivered batches and nothing else, neither readers nor damage.
3. Adapters and mixtures use its public methods, and `_shared_out` for the part of a rank or of
   another library's process.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from _multitables.errors import ClosedError, CorruptChunkError, MultitablesError
from _multitables.options import check_number
from _multitables.parent.batches.iteration import NEVER, Bookmark, Iteration, Progress
from _multitables.parent.batches.unit import Unit
from _multitables.parent.dependents import Dependents
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.titles import count
from _multitables.plan.checkpoint import Position
from _multitables.plan.sharding import Part

if TYPE_CHECKING:
    from typing_extensions import Self


class Loader(InNotebooks):
    """The base of everything with epochs: iterations, states, ranks, statistics and an end.

    Iterating goes through `epochs` epochs, from `epoch` on; the next iteration goes on after
    them. Breaking out of a loop leaves `epoch` where it was.
    """

    #: Goes through an iteration.
    iteration = Iteration

    def __init__(self, unit: Unit, own_pool: ReaderPool | None = None) -> None:
        self._unit = unit
        self._bookmark = Bookmark(unit.start_epoch)
        #: None: it is a streamer's, which keeps its readers for others, too.
        self._own_pool = own_pool
        self._iterators = Dependents[Iteration]()

    def __repr__(self) -> str:
        mark = self._bookmark
        start = mark.resumed or Position(mark.epoch, None, ())
        of, state = self._unit.title(), "closed" if mark.is_closed else "open"
        return f"<{type(self).__name__} of {of}, {mark.progress or Progress(start)}, {state}>"

    @property
    def missing_files(self) -> dict[str, MultitablesError]:
        """Of several files, those that are left out with ``skip_missing=True``, and why."""
        return dict(self._unit.missing_files)

    @property
    def damage(self) -> list[CorruptChunkError]:
        """The damage that was left out so far, with ``skip_damaged=True``."""
        return self._unit.damage

    @property
    def epochs(self) -> int | None:
        """Epochs of one iteration; None for no end."""
        return self._unit.epochs

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        mark = self._bookmark
        return mark.epoch if mark.resumed is None else mark.resumed.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin with `epoch`.

        It begins with the epoch's first batch, unless a state was loaded that stands in this
        epoch: then where that stands.
        """
        epoch = check_number("epoch", epoch)
        mark = self._bookmark
        if mark.resumed is None or mark.resumed.epoch != epoch:
            mark.epoch, mark.resumed, mark.progress = epoch, None, None

    def __len__(self) -> int:
        """Count the batches, items or blocks of the next iteration, of this rank."""
        start = self._start()
        if start.stop is None:
            raise TypeError(f"{self._several} without end have no length: epochs is None")
        return self._length(start)

    def _length(self, start: Position) -> int:
        return self._unit.length(start)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the latest iteration, to be saved.

        Returns
        -------
        dict
            Of JSON's types. It holds for any number of readers. Taken in a loop's last turn, it
            leaves nothing to the iteration that goes on there; taken behind the loop, it is that
            of the beginning of the next iteration.
        """
        progress, latest = self._bookmark.progress, self._bookmark.latest()
        is_over = latest is None or latest.is_over
        if progress is None or (progress.is_through and is_over and not self._unit.stays_at_end):
            return self._unit.state_of(self._start())
        return self._unit.state_of(progress.position)

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
            Not a state, or one of other data or another order.
        """
        position = self._unit.position_of(state)
        mark = self._bookmark
        mark.epoch, mark.resumed, mark.progress = position.epoch, position, None

    def _start(self) -> Position:
        mark, epochs = self._bookmark, self._unit.epochs
        if mark.resumed is not None:
            return mark.resumed
        stop = None if epochs is None else mark.epoch + epochs
        return Position(mark.epoch, stop, self._unit.everything())

    def __iter__(self) -> Iterator[Any]:
        return self._iterate()

    def _iterate(self) -> Iteration:
        unit, mark = self._unit, self._bookmark
        if mark.is_closed:
            raise self._closed_error()
        start = self._start()
        unit.prefetches = unit.prefetches or mark.latest is not NEVER
        mark.progress = Progress(start)
        iteration = self.iteration(unit, start, mark)
        mark.latest = weakref.ref(iteration)
        return self._iterators.add(iteration)

    @property
    def _several(self) -> str:
        return count(2, self._unit.noun).removeprefix("2 ")

    def _closed_error(self) -> ClosedError:
        return ClosedError(
            f"the {self._several} of {self._unit.where} are closed",
            advice=f"Make new ones with {self._unit.maker}",
        )

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the latest iteration; see `BatchIterator.statistics`."""
        latest = self._bookmark.latest()
        return self._bookmark.statistics if latest is None else latest.statistics()

    def close(self) -> None:
        """End all iterations and readers. Batches that are held stay valid. May be called again."""
        self._bookmark.is_closed = True
        self._iterators.close()
        self._unit.close()
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the same elsewhere

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as its unit: the copy begins where this one began."""
        return _over, (type(self), self._unit)

    def _shared_out(self, ranks: Part | None, part: Part | None, prefetches: bool) -> Loader:
        """Return this loader for a rank, or for a process of a rank; see `FileUnit.shared_out`.

        With `prefetches` its first iteration prefetches the next epoch already: all epochs have one
        ring.
        """
        unit = self._unit.shared_out(ranks, part)
        unit.prefetches = prefetches
        return _over(type(self), unit)


def _over(kind: type[Loader], unit: Unit) -> Loader:
    return kind(unit, unit.pool)


class Changed(Loader):
    """A loader that changes the batches of another one, and shares its position."""

    def __init__(self, of: Loader, *how: Any) -> None:
        super().__init__(of._unit, of._own_pool)
        self._bookmark, self._iterators = of._bookmark, of._iterators
        self._of, self._how = of, how

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._of, *self._how)

    def _shared_out(self, ranks: Part | None, part: Part | None, prefetches: bool) -> Changed:
        return type(self)(self._of._shared_out(ranks, part, prefetches), *self._how)
