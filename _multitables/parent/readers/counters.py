"""A reader's own account of its work, named for `statistics`.

Law
---
1. The order is that of `Record::account` in core/src/engine/counters.rs; a ring tells the first
   twelve.
2. Times come in nanoseconds and are told in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = (
    "state",
    "pid",
    "tasks",
    "chunks",
    "library_tasks",
    "fetches",
    "fetched_bytes",
    "decoded_bytes",
    "open_seconds",
    "fetch_seconds",
    "decode_seconds",
    "wait_seconds",
    "cache_hits",
    "cache_misses",
    "cache_bytes",
)


def counters(values: Sequence[int]) -> dict[str, float]:
    """Name a reader's numbers, without its state."""
    named = zip(_NAMES[1:], values[1:], strict=False)
    return {name: value / 1e9 if name.endswith("_seconds") else value for name, value in named}
