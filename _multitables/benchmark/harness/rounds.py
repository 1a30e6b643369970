"""How a measurement is taken: rounds, turns, medians and their spread.

Law
---
1. Contenders take turns: each round measures each one once, so a drift of the machine affects all.
2. It knows nothing about HDF5, and no contender by name.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Median and spread of repeats."""

    median: float
    low: float
    high: float
    repeats: int

    def __str__(self) -> str:
        if self.repeats == 1:
            return f"{self.median:.0f}"
        return f"{self.median:.0f} ({self.low:.0f}-{self.high:.0f})"


def summary(values: Sequence[float]) -> Summary:
    """Median, minimum and maximum of at least one value."""
    return Summary(statistics.median(values), min(values), max(values), len(values))


def turns(names: Sequence[str], rounds: Iterable[int]) -> Iterator[tuple[int, str]]:
    """``(round, name)`` for every measurement; each round starts one contender further on.

    Otherwise a contender would always follow the same one, and find the caches that that one left.
    """
    for number in rounds:
        shift = number % max(1, len(names))
        for name in [*names[shift:], *names[:shift]]:
            yield number, name
