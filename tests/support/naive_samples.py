"""What samples have, by loops over NumPy's arrays: the oracle of tests of samples.

Law
---
1. It knows nothing of the library but what the user says.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NaiveClips:
    """Clips of segments, in the order in which they begin."""

    lengths: list[int]
    offsets: dict[str, list[int]]
    stride: int
    every: int
    pads: bool

    def starts(self) -> list[tuple[int, int, int]]:
        """Return start, and begin and end of the segment, of each clip."""
        found, begin = [], 0
        for length in self.lengths:
            for start in range(begin, begin + length):
                rows = [start, *self.of_all(start)]
                fits = min(rows) >= begin and max(rows) < begin + length
                if fits or self.pads:
                    found.append((start, begin, begin + length))
            begin += length
        first: dict[int, int] = {}
        for start, low, _ in found:
            first.setdefault(low, start)
        return [one for one in found if (one[0] - first[one[1]]) % self.every == 0]

    def of_all(self, start: int) -> list[int]:
        """Return rows of all paths."""
        return [row for name in self.offsets for row in self.rows(name, start)]

    def rows(self, name: str, start: int) -> list[int]:
        """Return the rows of one path."""
        return [start + at * self.stride for at in self.offsets[name]]

    def sample(
        self, name: str, data: np.ndarray, clip: tuple[int, int, int], pad: Any
    ) -> tuple[np.ndarray, list[bool]]:
        """Return the rows of a clip, and which of them are not padding."""
        start, low, high = clip
        made, inside = [], []
        for row in self.rows(name, start):
            is_inside = low <= row < high
            inside.append(is_inside)
            if is_inside or pad == "edge":
                made.append(data[min(max(row, low), high - 1)])
            else:
                made.append(np.full_like(data[0], pad))
        return np.array(made), inside


@dataclass(frozen=True)
class NaivePatches:
    """Patches of files that follow each other, row by row of each one's grid."""

    lengths: list[int]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    pad: Any

    def starts(self, dims: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        """Return where patches begin in each file."""
        found = []
        for length in self.lengths:
            axes = []
            extents = (length, *dims[1:])
            for n, size, stride in zip(extents, self.shape, self.stride, strict=False):
                last = n if self.pad is not None else n - size + 1
                axes.append(range(0, max(last, 0), stride))
            found.append(list(itertools.product(*axes)))
        return found

    def all(self, data: np.ndarray) -> list[np.ndarray]:
        """Return all patches."""
        found, begin = [], 0
        for length, starts in zip(self.lengths, self.starts(data.shape), strict=True):
            part = data[begin : begin + length]
            found += [patch(part, start, self.shape, self.pad) for start in starts]
            begin += length
        return found


def patch(data: np.ndarray, start: Any, shape: tuple[int, ...], pad: Any) -> np.ndarray:
    """Return one patch, whose start may be negative."""
    k = len(shape)
    widths = [(size, size) for size in shape] + [(0, 0)] * (data.ndim - k)
    if isinstance(pad, str):
        data = np.pad(data, widths, mode=pad)
    elif pad is not None:
        data = np.pad(data, widths, constant_values=pad)
    else:
        widths = [(0, 0)] * data.ndim
    places = zip(start, shape, widths, strict=False)
    return data[tuple(slice(at + low, at + low + n) for at, n, (low, _) in places)]
