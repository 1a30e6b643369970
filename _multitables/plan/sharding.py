"""Who delivers which positions of an epoch: ranks, what is left, and where to go on.

Law
---
1. Pure. A list of ranges ``[begin, end)`` of positions, in the order of delivery, is all there is;
   what stands at a position is the order's matter (core/src/order.rs).
2. Each rank has a run of whole batches; only the last batch of all is short (with `even`, each
   rank's last). So a chunk, or window, is rarely wanted by two ranks. Processes that share out a
   rank's work have runs of its batches: how many there are does not change what the rank has.
3. What some rank has delivered, and nothing else, is missing from what is left: positions are
   neither lost nor repeated by going on with other ranks or batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

#: Ranges of positions.
Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Deal:
    """How an epoch is dealt to ranks."""

    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    #: All ranks have equally many rows: some are repeated, or dropped.
    even: bool = False
    #: So many of the ranks counted here are processes that share out one rank's work.
    parts: int = 1


def length(ranges: Ranges) -> int:
    """Positions in all."""
    return sum(end - begin for begin, end in ranges)


def between(ranges: Ranges, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut out what comes after `start` and before `stop` positions."""
    found = []
    for begin, end in ranges:
        low, high = max(begin, begin + start), min(end, begin + stop)
        if low < high:
            found.append((low, high))
        start, stop = start - (end - begin), stop - (end - begin)
    return found


def dealt(ranges: Ranges, deal: Deal) -> list[tuple[int, int]]:
    """Return what `deal.rank` delivers of `ranges`."""
    if deal.even and deal.parts > 1:
        rank, part = divmod(deal.rank, deal.parts)
        ranks = deal.world_size // deal.parts
        share = dealt(ranges, replace(deal, rank=rank, world_size=ranks, parts=1))
        return dealt(share, Deal(deal.batch_size, part, deal.parts))
    rows, size, ranks = length(ranges), deal.batch_size, deal.world_size
    if not deal.even:
        batches = rows // size if deal.drop_last else -(-rows // size)
        first, last = (batches * rank // ranks for rank in (deal.rank, deal.rank + 1))
        return between(ranges, first * size, min(last * size, rows))
    if deal.drop_last:
        each = rows // size // ranks * size
        return between(ranges, deal.rank * each, (deal.rank + 1) * each)
    each = -(-rows // ranks)
    # What is missing in the end is taken once more from the beginning.
    again = list(ranges) * (2 if each * ranks <= 2 * rows else ranks)
    return between(again, deal.rank * each, (deal.rank + 1) * each)


def without(ranges: Ranges, taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return `ranges` less what is in `taken`."""
    left = list(ranges)
    for low, high in taken:
        cut = []
        for begin, end in left:
            cut += [(begin, min(end, low)), (max(begin, high), end)]
        left = [(begin, end) for begin, end in cut if begin < end]
    return left


def joined(ranges: Ranges) -> list[tuple[int, int]]:
    """Join ranges that follow each other."""
    found: list[tuple[int, int]] = []
    for begin, end in ranges:
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def delivered(ranges: Ranges, deal: Deal, batches: int) -> list[tuple[int, int]]:
    """Return what `deal.rank` has delivered of `ranges` with its first `batches` batches."""
    return between(dealt(ranges, deal), 0, batches * deal.batch_size)
