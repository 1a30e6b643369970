"""A reader's own numbers, named for `statistics`.

Law
---
1. Names and order are the core's; a ring tells the first twelve numbers.
2. Times come in nanoseconds and are told in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from _multitables import _core


def counters(values: Sequence[int]) -> dict[str, float]:
    """Name a reader's numbers, without its state."""
    return dict(_named(values))


def _named(values: Sequence[int]) -> Iterator[tuple[str, float]]:
    for name, value in zip(_core.COUNTERS[1:], values[1:], strict=False):
        if name.endswith("_ns"):
            yield f"{name.removesuffix('_ns')}_seconds", value / 1e9
        else:
            yield name, value
