"""What crops, flips and orders of channels make of rows, by whole numbers and NumPy's slices.

Law
---
1. It knows nothing of the library but what the user says, and how its draws are defined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORD = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
CROPS, FLIPS = 64, 96


def mixed(word: int) -> int:
    """SplitMix64's function of a word."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def drawn(seed: int, epoch: int, what: int, number: int) -> float:
    """A number from 0 up to 1."""
    key = 0
    for word in (seed, epoch, what):
        key = mixed(key + word + GAMMA & WORD)
    return (mixed((number + 1) * GAMMA + key & WORD) >> 11) / 2**53


def placed(
    rows: np.ndarray,
    seed: int,
    epoch: int,
    number: int,
    *,
    crop: dict[int, int] | None = None,
    flip: tuple[int, ...] = (),
    channels: str | None = None,
    before: int = 0,
) -> np.ndarray[Any, Any]:
    """Return the placed sample; its first `before` axes are no axes of its rows."""
    for draw, (axis, extent) in enumerate((crop or {}).items()):
        room = rows.shape[before + axis] - extent + 1
        begin = int(drawn(seed, epoch, CROPS + draw, number) * room)
        rows = rows[(slice(None),) * (before + axis) + (slice(begin, begin + extent),)]
    for draw, axis in enumerate(flip):
        if drawn(seed, epoch, FLIPS + draw, number) < 0.5:
            rows = np.flip(rows, before + axis)
    if channels == "first":
        rows = np.moveaxis(rows, -1, before)
    if channels == "last":
        rows = np.moveaxis(rows, before, -1)
    return rows
