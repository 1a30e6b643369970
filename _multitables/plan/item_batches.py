"""Puts items into batches: in their order, or in buckets of similar length.

Law
---
1. Pure: lengths in, numbers of batches out.
2. An item waits in the bucket of its length until that is full. At the end, buckets come as they
   are, the shortest lengths first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def bucketed(
    items: Iterable[tuple[int, _T]], edges: Sequence[int], size: int, drop_last: bool
) -> Iterator[list[_T]]:
    """Yield batches of items that are given with their lengths.

    Parameters
    ----------
    edges : sequence of int
        The longest length of each bucket, ascending; longer ones have a bucket more.
    drop_last : bool
        Leave out buckets that are not full at the end.
    """
    buckets: list[list[_T]] = [[] for _ in range(len(edges) + 1)]
    for length, item in items:
        bucket = buckets[bisect_left(edges, length)]
        bucket.append(item)
        if len(bucket) == size:
            yield bucket.copy()
            bucket.clear()
    for bucket in buckets:
        if bucket and not drop_last:
            yield bucket
