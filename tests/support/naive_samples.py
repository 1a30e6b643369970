"""What samples have, by loops over NumPy's arrays: the oracle of tests of samples.

Law
---
1. It knows nothing of the library but what the user says.
"""

from __future__ import annotations

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
