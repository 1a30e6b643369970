"""The five tests of the study of versions: what each transaction does, and what is then there.

Law
---
1. A test is drawn from a seed, so every process that asks has the same one.
2. `states` applies the steps to arrays of NumPy and to nothing else: it is what files are compared
   with.
3. It runs beside any loop: standard library and NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

KEYS, VAL = ("key0", "key1"), "val"
FIRST = "initial_version"
#: Positions of inserted and deleted rows crowd at the end.
RECENT = 20.0
BEGIN = datetime(2021, 1, 1, microsecond=1)
#: For each axis that rows are inserted into: the datasets that have it, and which axis it is there.
SPARSE: tuple[Mapping[str, int], ...] = ({"key0": 0, "key1": 0, VAL: 0},)
DENSE: tuple[Mapping[str, int], ...] = ({"key0": 0, VAL: 0}, {"key1": 0, VAL: 1})


@dataclass(frozen=True)
class Nominal:
    """The parameters of a test.

    Attributes
    ----------
    shape : tuple of int
        Of `val` in the first version.
    appended, spread : float
        Mean and standard deviation of the rows that a transaction appends.
    changes : int
        How many elements a change changes, on average.
    percent : tuple of int
        How often a transaction changes, deletes and inserts, as the study describes its tests. Of
        the constant one only the name says that a large part changes; its parameter is 0.
    deletes, inserts : tuple of int
        How many rows, for each axis.
    versions, exponents : tuple of int
        Of the study's files.
    """

    shape: tuple[int, ...]
    appended: float
    changes: int
    percent: tuple[int, int, int]
    versions: tuple[int, ...]
    exponents: tuple[int, ...] = (12, 14)
    spread: float = 10.0
    deletes: tuple[int, ...] = (10,)
    inserts: tuple[int, ...] = (10,)

    @property
    def axes(self) -> tuple[Mapping[str, int], ...]:
        """Which datasets have which axis."""
        return DENSE if len(self.shape) == 2 else SPARSE


MANY, SOME = (50, 100, 500, 1000, 5000), (25, 50, 100, 500)
TESTS = {
    "large_fraction_changes_sparse": Nominal((5000,), 10, 1000, (90, 1, 1), MANY),
    "small_fraction_changes_sparse": Nominal((5000,), 10, 10, (90, 1, 1), MANY),
    "large_fraction_constant_sparse": Nominal((5000,), 0, 1000, (90, 0, 0), MANY),
    "mostly_appends_sparse": Nominal((1000,), 1000, 10, (5, 1, 5), SOME),
    "mostly_appends_dense": Nominal(
        (30, 30), 1, 10, (5, 1, 5), SOME, (6, 8, 10), 1.0, (1, 1), (1, 10)
    ),
}


@dataclass(frozen=True)
class Spec:
    """One file's content: a test, how often it is changed, and the seed.

    `described` is whether transactions change, delete and insert as often as the study says; the
    published runs set all these percentages to 0.
    """

    test: str
    n: int
    described: bool
    seed: int = 0

    @property
    def nominal(self) -> Nominal:
        """The parameters of its test."""
        return TESTS[self.test]

    @property
    def names(self) -> list[str]:
        """The names of its versions, which look like the published ones: times."""
        later = (str(BEGIN + timedelta(seconds=number)) for number in range(self.n))
        return [FIRST, *later]

    @property
    def group(self) -> str:
        """The group of its datasets."""
        return f"test_{self.test}"

    def rng(self) -> np.random.Generator:
        """Random numbers of its own."""
        return np.random.default_rng([self.seed, *self.test.encode(), self.described])


@dataclass(frozen=True)
class Step:
    """What a transaction does, in this order; rows of an axis may be none.

    Attributes
    ----------
    changed, values
        Positions in `val`, one a row, and what is there then.
    deleted : list of arrays
        For each axis, rising.
    inserted : list of (array, dict)
        For each axis positions, and by dataset what stands there.
    appended : dict
        By dataset the rows behind axis 0.
    """

    changed: Any
    values: Any
    deleted: list[Any]
    inserted: list[tuple[Any, dict[str, Any]]]
    appended: dict[str, Any]


State = dict[str, Any]


def first(spec: Spec, rng: np.random.Generator) -> State:
    """The first version; its keys are zeros, as numbers below 1 were cast to integers."""
    shape = spec.nominal.shape
    ends = (shape[0], shape[-1])
    keys = {name: np.zeros(end, np.int64) for name, end in zip(KEYS, ends, strict=True)}
    return {**keys, VAL: rng.random(shape)}


def steps(spec: Spec) -> tuple[State, list[Step]]:
    """The first version, and what each transaction does to the one before."""
    rng = spec.rng()
    state = first(spec, rng)
    shape, found = state[VAL].shape, []
    for number in range(spec.n):
        percent = spec.nominal.percent if number else (0, 0, 0)
        if not spec.described:  # the published runs compare a number from 0 on with a limit of 0
            percent = (1, 1, 1)
        step, shape = _drawn(spec, rng, percent, shape)
        found.append(step)
    return state, found


def _drawn(
    spec: Spec, rng: np.random.Generator, percent: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Step, tuple[int, ...]]:
    nominal, size = spec.nominal, list(shape)
    happens = [int(rng.integers(100)) < one for one in percent]
    n_changed = max(0, int(rng.normal(nominal.changes))) if happens[0] else 0
    changed = np.stack([rng.integers(end, size=n_changed) for end in size], 1)
    values = rng.random(n_changed)
    deleted: list[Any] = []
    inserted: list[tuple[Any, dict[str, Any]]] = []
    for axis in range(len(size)):
        deleted.append(_recent(rng, nominal.deletes[axis], size[axis], happens[1]))
        size[axis] -= len(deleted[axis])
    for axis in range(len(size)):
        where = _recent(rng, nominal.inserts[axis], size[axis], happens[2])
        inserted.append((where, _rows(nominal, rng, axis, len(where), size)))
        size[axis] += len(where)
    # the published test of a constant number of rows appends some all the same
    spread = nominal.spread if nominal.appended or not spec.described else 0.0
    count = max(0, int(rng.normal(nominal.appended, spread)))
    appended = _rows(nominal, rng, 0, count, size)
    size[0] += count
    return Step(changed, values, deleted, inserted, appended), tuple(size)


def _recent(rng: np.random.Generator, mean: int, end: int, happens: bool) -> Any:
    """Some positions below `end`, most of them near it."""
    if not happens:
        return np.empty(0, np.int64)
    found = rng.power(RECENT, max(1, int(rng.normal(mean)))) * end
    return np.unique(found.astype(np.int64).clip(max=end - 1))


def _rows(
    nominal: Nominal, rng: np.random.Generator, axis: int, count: int, size: list[int]
) -> dict[str, Any]:
    """New rows of an axis, for each dataset that has it."""
    shape = tuple(count if other == axis else end for other, end in enumerate(size))
    return {
        name: rng.random(shape) if name == VAL else rng.integers(1_000_000, size=count)
        for name in nominal.axes[axis]
    }


def states(spec: Spec) -> Iterator[State]:
    """The datasets of each version, the first one included; arrays are not changed later."""
    state, every = steps(spec)
    yield state
    axes = spec.nominal.axes
    for step in every:
        state = dict(state)
        if len(step.changed):
            state[VAL] = state[VAL].copy()
            state[VAL][tuple(step.changed.T)] = step.values
        for axis, where in enumerate(step.deleted):
            for name, own in axes[axis].items():
                state[name] = np.delete(state[name], where, own)
        for axis, (where, rows) in enumerate(step.inserted):
            for name, own in axes[axis].items():
                state[name] = np.insert(state[name], where, rows[name], own)
        for name, rows in step.appended.items():
            state[name] = np.concatenate([state[name], rows])
        yield state


def chosen(names: list[str], which: str) -> list[str]:
    """The versions that are read: ``all``, or the ``first``, ``middle`` or ``latest``."""
    places = {"first": 0, "middle": len(names) // 2, "latest": len(names) - 1}
    return names if which == "all" else [names[places[which]]]
