"""Mixtures: batches of several sources, drawn by weight.

Law
---
1. Which source comes next depends on seed, epoch and place alone, so that all ranks take from the
   same one in a step, and the state of one rank is enough for all.
2. A source goes through its own epochs, as often as it is drawn. A state has those of the sources.
3. Sources are known by their face alone: iterating, states, and how they end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import (
    CorruptChunkError,
    MultitablesError,
    OptionsError,
    UnsupportedDatasetError,
    public,
)
from _multitables.options import check_number, whole, wrong
from _multitables.parent.batches.loader import Loader
from _multitables.parent.batches.unit import EpochRun, Unit
from _multitables.parent.stream.block_source import BlockSource
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count
from _multitables.plan.checkpoint import Position, refused, states_of
from _multitables.plan.sharding import Part
from _multitables.plan.weights import Chances, as_weights, chances


@public
class Mixture(Loader):
    """Batches of several sources, of which each step draws one by its weight.

    Iterating goes through `epochs` epochs of `draws` batches; the next iteration goes on after
    them. Breaking out of a loop leaves the mixture where that loop began.

    Parameters
    ----------
    sources : sequence of pairs
        Batches, a collection or other mixtures, each with its weight from 0 on. Of a run of several
        ranks, each has the `rank` and `world_size`. Sources without end (``epochs=None``) need not
        be started again when they are through.
    seed : int, optional
        Of the draws.
    within : bool, optional
        Draw each row: a batch has rows of all sources, and is a copy. They must have the same
        paths, or keys, and rows of the same dtypes and shapes. False: a batch is of one source.
    batch_size : int, optional
        Rows of a batch with `within`. Default: those of the first source.
    draws : int, optional
        Batches of an epoch. Default: the sum of the lengths of the sources; give it where ranks may
        have different numbers of batches.
    epochs : int, optional
        Epochs of one iteration; None for no end.

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`); while iterating, a source without batches.
    UnsupportedDatasetError
        While iterating with `within`: sources differ, or have ragged rows (a `ValueError`).

    Examples
    --------
    >>> mixture = multitables.Mixture(  # doctest: +SKIP
    ...     [(simulated, 3), (measured, 1)], seed=7, draws=1000
    ... )
    >>> for batch in mixture:  # doctest: +SKIP
    ...     train(batch)
    """

    _unit: MixtureUnit

    def __init__(
        self,
        sources: Sequence[tuple[Loader, float]],
        *,
        seed: int = 0,
        within: bool = False,
        batch_size: int | None = None,
        draws: int | None = None,
        epochs: int | None = 1,
    ) -> None:
        pairs: list[Any] = list(sources)
        if not pairs or not all(isinstance(one, (tuple, list)) and len(one) == 2 for one in pairs):
            advice = "Give [(batches, 3), (others, 1)]"
            raise wrong("sources", "must be pairs of batches and weight", sources, advice)
        for name, value in (("draws", draws), ("batch_size", batch_size), ("epochs", epochs)):
            if value is not None:
                whole(name, value, 1, "Leave it out for the default")
        if batch_size is not None and not within:
            raise wrong("batch_size", "needs within=True", batch_size, "Sources have their own")
        if within:
            batch_size = batch_size or getattr(pairs[0][0], "batch_size", 1)
        weights = as_weights([weight for _, weight in pairs])
        seed = whole("seed", seed, 0, "It is a number from 0 on")
        drawn = [_Drawn(source, number) for number, (source, _) in enumerate(pairs)]
        super().__init__(MixtureUnit(drawn, weights, seed, batch_size, draws, epochs))

    def __iter__(self) -> Iterator[Any]:
        iteration = self._iterate()
        self._unit.rewind()
        return iteration

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        began = self._unit.began
        return super().epoch if began is None else began[0].epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration draw as in `epoch`; the sources go on where they stand."""
        if check_number("epoch", epoch) != self.epoch:
            self._unit.rewind()
            self._unit.began = None
            super().set_epoch(epoch)

    def _start(self) -> Position:
        """Return where an unfinished loop began: its sources can return to that place alone."""
        began = self._unit.began
        return super()._start() if began is None else began[0]

    def _shared_out(self, ranks: Part | None, part: Part | None, prefetches: bool) -> Mixture:
        """Return itself: the sources have their ranks. Processes of a loader cannot share it."""
        if part is not None:
            raise OptionsError(
                f"a mixture cannot be shared by {part[1]} processes of a DataLoader",
                advice="Let it have none: readers are processes already",
            )
        return self


class MixtureUnit(Unit):
    """Batches of sources that are drawn: positions are the draws of an epoch."""

    maker = "Mixture"

    def __init__(
        self,
        sources: Sequence[_Drawn],
        weights: npt.NDArray[np.float64],
        seed: int,
        batch_size: int | None,
        draws: int | None,
        epochs: int | None,
    ) -> None:
        self.sources, self.epochs = sources, epochs
        self._weights, self._seed, self._draws = weights, seed, draws
        self._chances: Chances = chances(weights)
        #: Rows of a batch that are drawn one by one; None: batches are.
        self._batch_size = batch_size
        #: Where the unfinished loop began, and the states of the sources there.
        self.began: tuple[Position, list[dict[str, Any]]] | None = None
        #: The stream of the latest loop; others are over.
        self.latest: MixedBlocks | None = None

    @property
    def where(self) -> str:
        """Name the data for messages."""
        return "a mixture"

    def title(self) -> str:
        """Describe the mixture for messages."""
        return count(len(self.sources), "source")

    @property
    def missing_files(self) -> Mapping[str, MultitablesError]:
        """Files of the sources that are left out, and why."""
        each = (source.of.missing_files.items() for source in self.sources)
        return dict(itertools.chain(*each))

    @property
    def damage(self) -> list[CorruptChunkError]:
        """The damage that the sources left out so far."""
        return list(itertools.chain(*(source.of.damage for source in self.sources)))

    def identity(self) -> dict[str, Any]:
        """Return all that the draws depend on."""
        if self._draws is None:
            try:
                self._draws = sum(map(len, self.sources))
            except TypeError:
                raise OptionsError(
                    "draws must be given, as a source of the mixture is without end",
                    advice="Give the number of batches of an epoch",
                    option="draws",
                ) from None
        weights, within = self._weights.tolist(), self._batch_size
        return {"rows": self._draws, "seed": self._seed, "weights": weights, "within": within}

    # ---- states

    def _states(self) -> list[dict[str, Any]]:
        return [source.state() for source in self.sources]

    def state_of(self, position: Position) -> dict[str, Any]:
        """Return a position as a state, with those of the sources."""
        began = self.began
        states = began[1] if began is not None and began[0] == position else self._states()
        return {**super().state_of(position), "sources": states}

    def position_of(self, state: Any) -> Position:
        """Let the sources go on where states were taken, and return where the draws do."""
        states = list(state) if isinstance(state, Sequence) else [state]
        positions = {position for position, _ in states_of(states, self.identity())}
        if len(positions) != 1:
            raise refused(
                "the states were not saved after the same batch",
                "Save the states of all ranks after the same number of batches",
            )
        of_sources = [one.get("sources") for one in states]
        if not all(map(self._are_states, of_sources)):
            raise refused("the state is of another mixture", "Make the mixture as it was")
        self.began = None
        self._load(of_sources)
        return positions.pop()

    def _are_states(self, states: Any) -> bool:
        is_one_each = isinstance(states, list) and len(states) == len(self.sources)
        return is_one_each and all(
            isinstance(one, Mapping) and one.keys() >= {"used", "state"} for one in states
        )

    def _load(self, states: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        self.latest = None
        for source, *theirs in zip(self.sources, *states, strict=True):
            source.load(theirs)

    def rewind(self) -> None:
        """Return the sources to the start of an unfinished loop."""
        if self.began is not None:
            self._load([self.began[1]])

    # ---- streams

    def start(self, run: EpochRun) -> StreamQueue | None:
        """Return the stream of a run."""
        if not run.batches:
            return None
        if self.began is None:
            self.began = run.begin, self._states()
        self.latest = MixedBlocks(self, run)
        return StreamQueue(self.latest)

    def batch(self, epoch: int, number: int) -> Any:
        """Draw a batch of an epoch."""
        n = self._batch_size or 1
        chosen = self._chances.chosen(self._seed, epoch, number * n, n)
        if self._batch_size is None:
            return self.sources[int(chosen[0])].batch()
        made: dict[Any, npt.NDArray[Any]] | None = None
        for number in np.unique(chosen).tolist():
            places = np.flatnonzero(chosen == number)
            while len(places):
                rows = self.sources[number].rows(len(places))
                n_rows = len(next(iter(rows.values())))
                if made is None:
                    made = {
                        key: np.empty((n, *one.shape[1:]), one.dtype) for key, one in rows.items()
                    }
                _put(made, places[:n_rows], rows)
                places = places[n_rows:]
        assert made is not None
        return _packed(made)

    def leave(self, stream: StreamQueue, run: EpochRun) -> None:
        """End the stream of a run; after the last run the sources keep their places."""
        super().leave(stream, run)
        if run.epochs is not None and run.is_last(run.epochs):
            self.began = None

    def close(self) -> None:
        """End the sources."""
        self.latest = None
        for source in self.sources:
            source.leave()
            source.of.close()


class MixedBlocks(BlockSource):
    """The batches of a run as blocks; over when another loop has begun."""

    def __init__(self, unit: MixtureUnit, run: EpochRun) -> None:
        self.missing_files = {}
        self._unit, self._run = unit, run

    def take(self, deadline: float) -> Any:
        """Return the guard of the next batch; iterations alone call this, without a deadline."""
        if self._unit.latest is not self:
            return None
        epochs, number = divmod(self.received, self._run.batches)
        number += self._run.begin.batches
        return self.guard(self._unit.batch(self._run.first_epoch + epochs, number))

    def statistics(self) -> dict[str, Any]:
        """Return ``sources``, the statistics of each source."""
        return {"sources": [source.of.statistics() for source in self._unit.sources]}


class _Drawn:
    """A source, its iteration, and the batch of which rows are left."""

    def __init__(self, of: Loader, number: int) -> None:
        self.of, self._number = of, number
        self._iterator: Iterator[Any] | None = None
        self._left: dict[Any, npt.NDArray[Any]] | None = None
        #: Rows of that batch which were delivered, and the state before it.
        self._used = 0
        self._before: Any = None

    def __len__(self) -> int:
        return len(self.of)

    def batch(self) -> Any:
        """Return the next batch, of the next epoch if need be."""
        for _ in range(3):  # one iteration may stand at its end, and the next one has an epoch
            iterator = self._iterator = self._iterator or iter(self.of)
            for batch in iterator:
                return batch
            self._iterator = None
        raise OptionsError(
            f"source {self._number} of the mixture has no batches",
            advice="Leave it out, or look at its drop_last and rows",
            option="sources",
        )

    def rows(self, n_rows: int) -> dict[Any, npt.NDArray[Any]]:
        """Return the next rows, of one batch: at most `n_rows`."""
        if self._left is None:
            before = self.of.state_dict()
            self._left, self._before = _arrays(self.batch()), before
        begin, left = self._used, self._left
        found = {key: one[begin : begin + n_rows] for key, one in left.items()}
        n_left = len(next(iter(left.values())))
        self._used = min(begin + n_rows, n_left)
        if self._used == n_left:
            self._left, self._used, self._before = None, 0, None
        return found

    def state(self) -> dict[str, Any]:
        """Return the state before the batch of which rows are left, and how many were delivered."""
        state = self.of.state_dict() if self._before is None else self._before
        return {"used": self._used, "state": state}

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Go on where a state was taken; or those of several ranks."""
        self.leave()
        mine = self.of.state_dict()
        theirs = [one["state"] for one in states]
        self.of.load_state_dict(theirs[0] if len(theirs) == 1 else theirs)
        self._used = whole("state", states[0]["used"], 0, "Give another state")
        if self._used and mine.get("world_size") != theirs[0].get("world_size"):
            raise refused(
                "the state holds parts of batches of another number of ranks",
                "Resume with the same number of ranks",
            )

    def leave(self) -> None:
        """End the iteration."""
        iterator, self._iterator = self._iterator, None
        self._left = self._before = None
        self._used = 0
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def _arrays(batch: Any) -> dict[Any, npt.NDArray[Any]]:
    """Return the arrays of a batch: by key, by place, or one under None."""
    if isinstance(batch, Mapping):
        found = dict(batch)
    else:
        found = dict(enumerate(batch)) if isinstance(batch, tuple) else {None: batch}
    if not all(isinstance(one, np.ndarray) and one.ndim for one in found.values()):
        raise UnsupportedDatasetError(
            f"rows of {type(batch).__name__} cannot be mixed within a batch (expected arrays)",
            advice="Leave within out: then each batch is of one source",
        )
    return found


def _packed(arrays: dict[Any, npt.NDArray[Any]]) -> Any:
    if arrays.keys() == {None}:
        return arrays[None]
    is_tuple = list(arrays) == list(range(len(arrays)))
    return tuple(arrays.values()) if is_tuple else arrays


def _put(made: dict[Any, npt.NDArray[Any]], places: Any, rows: Mapping[Any, Any]) -> None:
    """Put rows of a source in their places."""
    expected, got = (
        {key: (one.dtype, one.shape[1:]) for key, one in arrays.items()} for arrays in (made, rows)
    )
    if got != expected:
        raise UnsupportedDatasetError(
            f"the sources of the mixture differ (expected rows of {expected}, got {got})",
            advice="Give paths with the same keys, or leave within out",
        )
    for key, target in made.items():
        target[places] = rows[key]
