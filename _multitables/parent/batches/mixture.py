"""Mixtures: batches of several sources, drawn by weight.

Law
---
1. Which source comes next depends on seed, epoch and place alone, so that all ranks take from the
   same one in a step, and the state of one rank is enough for all.
2. A source goes through its own epochs, as often as it is drawn. A state has those of the sources.
3. Sources are known by their face alone: iterating, states, and how they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from _multitables.errors import ClosedError, OptionsError, UnsupportedDatasetError
from _multitables.options import check_number, whole, wrong
from _multitables.plan.weights import Chances, as_weights, chances

#: Of states; another number is a state of another version of the library.
VERSION = 1


class Source(Protocol):
    """A source of a mixture."""

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Any) -> None: ...

    def statistics(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Mixture:
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

    def __init__(
        self,
        sources: Sequence[tuple[Source, float]],
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
        self._sources = [_Drawn(source, number) for number, (source, _) in enumerate(pairs)]
        self._weights = as_weights([weight for _, weight in pairs])
        self._chances: Chances = chances(self._weights)
        self._seed = whole("seed", seed, 0, "It is a number from 0 on")
        for name, value in (("draws", draws), ("batch_size", batch_size), ("epochs", epochs)):
            if value is not None:
                whole(name, value, 1, "Leave it out for the default")
        if batch_size is not None and not within:
            raise wrong("batch_size", "needs within=True", batch_size, "Sources have their own")
        if within:
            batch_size = batch_size or getattr(pairs[0][0], "batch_size", 1)
        #: Rows of a batch that are drawn one by one; None: batches are.
        self._batch_size, self._draws, self._epochs = batch_size, draws, epochs
        #: Where it stands: an epoch, and batches of it that were delivered.
        self._epoch = self._taken = 0
        #: The epoch before which the resumed iteration ends; None: `epochs` decides.
        self._stop: int | None = None
        #: The state at the start of the running iteration, and the number of that iteration.
        self._began: dict[str, Any] | None = None
        self._latest = 0
        self._closed = False

    def __repr__(self) -> str:
        at, state = (
            f"epoch {self._epoch}, {self._taken} delivered",
            ("open", "closed")[self._closed],
        )
        return f"<Mixture of {len(self._sources)} sources, {at}, {state}>"

    @property
    def _rank(self) -> tuple[int, int]:
        return 0, 1  # its sources have those of the program

    def _sharded(self, rank: int, world_size: int, part: tuple[int, int] | None) -> Mixture:
        """Return itself: the sources have their ranks. Processes of a loader cannot share it."""
        if part is not None:
            raise OptionsError(
                f"a mixture cannot be shared by {part[1]} processes of a DataLoader",
                advice="Let it have none: readers are processes already",
            )
        return self

    @property
    def epochs(self) -> int | None:
        """Epochs of one iteration; None for no end."""
        return self._epochs

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        return self._epoch if self._began is None else int(self._began["epoch"])

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration draw as in `epoch`; the sources go on where they stand."""
        epoch = check_number("epoch", epoch)
        if epoch != self.epoch:
            self._rewind()
            self._epoch, self._taken, self._stop = epoch, 0, None

    def __len__(self) -> int:
        """Count the batches of the next iteration."""
        at = self._began or {"stop": self._stop, "epoch": self._epoch, "batches": self._taken}
        stop = self._end(at["epoch"]) if at["stop"] is None else at["stop"]
        if stop is None:
            raise TypeError("batches without end have no length: epochs is None")
        return int(self._n_draws() * (stop - at["epoch"]) - at["batches"])

    def _end(self, epoch: int) -> int | None:
        return None if self._epochs is None else epoch + self._epochs

    def _n_draws(self) -> int:
        if self._draws is None:
            try:
                self._draws = sum(map(len, self._sources))
            except TypeError:
                raise OptionsError(
                    "draws must be given, as a source of the mixture is without end",
                    advice="Give the number of batches of an epoch",
                    option="draws",
                ) from None
        return self._draws

    # ---- iterating

    def __iter__(self) -> Iterator[Any]:
        if self._closed:
            raise ClosedError("the mixture is closed", advice="Make a new one")
        self._n_draws()  # while the sources stand at their beginnings
        self._rewind()
        self._stop = self._end(self._epoch) if self._stop is None else self._stop
        self._began = self.state_dict()
        self._latest += 1
        return self._iteration(self._latest)

    def _iteration(self, number: int) -> Iterator[Any]:
        while self._stop is None or self._epoch < self._stop:
            if self._taken == self._n_draws():
                self._epoch, self._taken = self._epoch + 1, 0
                continue
            batch = self._batch()
            self._taken += 1
            yield batch
            del batch
            if self._latest != number:  # another one has begun, or it is closed
                return
        self._began = self._stop = None

    def _batch(self) -> Any:
        n = self._batch_size or 1
        chosen = self._chances.chosen(self._seed, self._epoch, self._taken * n, n)
        if self._batch_size is None:
            return self._sources[int(chosen[0])].batch()
        made: dict[Any, npt.NDArray[Any]] | None = None
        for number in np.unique(chosen).tolist():
            places = np.flatnonzero(chosen == number)
            while len(places):
                rows = self._sources[number].rows(len(places))
                n_rows = len(next(iter(rows.values())))
                if made is None:
                    made = {
                        key: np.empty((n, *one.shape[1:]), one.dtype) for key, one in rows.items()
                    }
                _put(made, places[:n_rows], rows)
                places = places[n_rows:]
        assert made is not None
        return _packed(made)

    def _rewind(self) -> None:
        """Return to the start of an iteration that was left early."""
        if self._began is not None:
            self.load_state_dict(self._began)

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the latest iteration, to be saved.

        Returns
        -------
        dict
            Of JSON's types.
        """
        return {
            "version": VERSION,
            "epoch": self._epoch,
            "stop": self._stop,
            "batches": self._taken,
            "mixture": self._identity(),
            "sources": [source.state() for source in self._sources],
        }

    _state_of_pass = state_dict

    def _identity(self) -> dict[str, Any]:
        weights, rows = self._weights.tolist(), self._batch_size
        return {"seed": self._seed, "weights": weights, "rows": rows, "draws": self._n_draws()}

    def load_state_dict(self, state: Any) -> None:
        """Let the next iteration go on where a state was taken, up to the end of its epochs.

        Parameters
        ----------
        state : dict, or list of dict
            What `state_dict` returned: of this rank, of one rank (all have delivered equally many
            batches), or of all ranks. With `within` the number of ranks must be the same.

        Raises
        ------
        OptionsError
            Not a state, or one of another mixture.
        """
        states = list(state) if isinstance(state, Sequence) else [state]
        parsed = [_checked(one, self._identity(), len(self._sources)) for one in states]
        if len({(one["epoch"], one["batches"]) for one in parsed}) != 1:
            raise _refused(
                "the states were not saved after the same batch",
                "Save the states of all ranks after the same number of batches",
            )
        self._latest += 1
        self._began = None
        for source, *theirs in zip(self._sources, *(one["sources"] for one in parsed), strict=True):
            source.load(theirs)
        at = parsed[0]
        self._epoch, self._taken, self._stop = at["epoch"], at["batches"], at["stop"]

    # ---- the end

    def statistics(self) -> dict[str, Any]:
        """Return ``sources``, the statistics of each source."""
        return {"sources": [source.of.statistics() for source in self._sources]}

    def close(self) -> None:
        """End the sources. Batches that are held stay valid."""
        self._closed = True
        self._latest += 1
        for source in self._sources:
            source.leave()
            source.of.close()

    def __enter__(self) -> Mixture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Drawn:
    """A source, its iteration, and the batch of which rows are left."""

    def __init__(self, of: Source, number: int) -> None:
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
            raise _refused(
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


def _checked(state: object, identity: Mapping[str, Any], n_sources: int) -> Mapping[str, Any]:
    if not isinstance(state, Mapping) or state.get("version") != VERSION or "mixture" not in state:
        got = f"{state!r:.60}"
        raise _refused(f"this is not a state of a mixture (version {VERSION}): {got}", "Give one")
    if state["mixture"] != identity or len(state.get("sources", ())) != n_sources:
        raise _refused(
            f"the state is of another mixture: expected {identity}, got {state['mixture']}",
            "Make the mixture as it was",
        )
    for name in ("epoch", "batches", "stop"):
        if (value := state.get(name)) is not None or name != "stop":
            whole(name, value, 0, "Give another state")
    return state


def _refused(happened: str, advice: str) -> OptionsError:
    return OptionsError(happened, advice=advice, option="state")
