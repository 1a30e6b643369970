"""Many objects of several files: where they are, without an object of Python for each.

Law
---
1. What links of one group lead to is one run. A place is made when it is asked for.

This file must never know what an object is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from _multitables.index.chunk_index import I64
from _multitables.index.opened.open_files import OpenFile, Place

#: No file is as long. A damaged link may lead further.
FAR = 2**63 - 1


def distinct(numbers: I64) -> I64:
    """Return each of some numbers once, sorted."""
    found = np.sort(numbers)
    is_new = np.ones(len(found), bool)
    is_new[1:] = found[1:] != found[:-1]
    return np.asarray(found[is_new], np.int64)


@dataclass(frozen=True, slots=True)
class Run:
    """Objects of one file, whose paths begin alike."""

    file: OpenFile
    prefix: str
    names: Sequence[str]
    #: Where their headers are, as in `Place`.
    offsets: I64
    #: The names that follow each of these, each with a slash before it.
    behind: str = ""

    def place(self, number: int) -> Place:
        """Return the place of one of them."""
        offset = int(self.offsets[number]) % 2**64  # a saved index may say any
        return Place(self.file, offset, self.prefix + self.names[number] + self.behind)

    def at(self, numbers: Sequence[int]) -> Run:
        """Return some of them."""
        names = [self.names[number] for number in numbers]
        return replace(self, names=names, offsets=self.offsets[numbers])

    def followed(self, name: str, offsets: I64) -> Run:
        """Return what a name leads to from each of them."""
        prefix = self.prefix if self.names[0] else self.prefix.rstrip("/")
        return replace(self, prefix=prefix, offsets=offsets, behind=f"{self.behind}/{name}")


class Begins:
    """Where parts of given lengths begin that lie one behind the other."""

    def __init__(self, lengths: Iterable[int]) -> None:
        self.all = [0, *accumulate(lengths)]

    def __len__(self) -> int:
        return self.all[-1]

    def find(self, number: int) -> tuple[int, int]:
        """Return the part that has a number, and its number there."""
        part = bisect_right(self.all, number) - 1
        return part, number - self.all[part]


class Places:
    """The objects of runs, by their numbers."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self._begins = Begins(len(run.names) for run in runs)

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, number: int) -> Place:
        run, within = self._begins.find(number)
        return self.runs[run].place(within)
