"""Who delivers which positions of an epoch: ranks, what is left, and where to go on.

Law
---
1. Pure. A list of ranges ``[begin, end)`` of positions, in the order of delivery, is all there is;
   what stands at a position is the order's matter (the core's tables/shuffle/order.rs).
2. Each rank has a run of whole batches; only the last batch of all is short (with `even`, each
   rank's last). So a chunk, or window, is rarely wanted by two ranks. Processes that share out a
   rank's work have runs of its batches: how many there are does not change what the rank has.
   Ranks of a node that share readers take turns at the batches of all their runs.
3. What some rank has delivered, and nothing else, is missing from what is left: positions are
   neither lost nor repeated by going on with other ranks or batches.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

#: Ranges of positions.
Ranges = Sequence[tuple[int, int]]
#: The number of one, and how many there are: of a rank, or of the processes that share its work.
Part = tuple[int, int]


@dataclass(frozen=True)
class Shard:
    """How an epoch is sharded, and which shard is meant."""

    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    #: All ranks have equally many rows: some are repeated, or dropped.
    even: bool = False
    #: How many of the ranks counted here are processes that share out one rank's work.
    parts: int = 1
    #: How many ranks of each node share readers.
    node: int = 1

    @property
    def number(self) -> int:
        """The rank's number on its node."""
        return self.rank % self.node


def length(ranges: Ranges) -> int:
    """Positions in all."""
    return sum(end - begin for begin, end in ranges)


def between(ranges: Ranges, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut out what comes after `start` and before `stop` positions."""
    found = []
    for begin, end in ranges:
        if stop <= 0:
            break
        low, high = max(begin, begin + start), min(end, begin + stop)
        if low < high:
            found.append((low, high))
        start, stop = start - (end - begin), stop - (end - begin)
    return found


def shard_of(ranges: Ranges, shard: Shard) -> list[tuple[int, int]]:
    """Return what `shard.rank` delivers of `ranges`."""
    if shard.even and shard.parts > 1:
        rank, part = divmod(shard.rank, shard.parts)
        ranks = shard.world_size // shard.parts
        share = shard_of(ranges, replace(shard, rank=rank, world_size=ranks, parts=1))
        return shard_of(share, Shard(shard.batch_size, part, shard.parts))
    rows, size, ranks = length(ranges), shard.batch_size, shard.world_size
    if shard.node > 1:
        run = run_of_node(ranges, shard)
        begins = range(shard.number * size, length(run), shard.node * size)
        return [one for begin in begins for one in between(run, begin, begin + size)]
    if not shard.even:
        batches = rows // size if shard.drop_last else -(-rows // size)
        first, last = (batches * rank // ranks for rank in (shard.rank, shard.rank + 1))
        return between(ranges, first * size, min(last * size, rows))
    if shard.drop_last:
        each = rows // size // ranks * size
        return between(ranges, shard.rank * each, (shard.rank + 1) * each)
    each = -(-rows // ranks)
    # What is missing in the end is taken once more from the beginning.
    again = list(ranges) * (2 if each * ranks <= 2 * rows else ranks)
    return between(again, shard.rank * each, (shard.rank + 1) * each)


def run_of_node(ranges: Ranges, shard: Shard) -> list[tuple[int, int]]:
    """Return the positions that all ranks of a node deliver together."""
    first, alone = shard.rank - shard.number, replace(shard, node=1)
    shares = (
        shard_of(ranges, replace(alone, rank=rank)) for rank in range(first, first + shard.node)
    )
    return joined(itertools.chain(*shares))


def without(ranges: Ranges, taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return `ranges` less what is in `taken`, which may overlap."""
    gone: list[tuple[int, int]] = []
    for low, high in sorted(taken):
        if gone and low <= gone[-1][1]:
            gone[-1] = (gone[-1][0], max(gone[-1][1], high))
        elif low < high:
            gone.append((low, high))
    left = []
    for begin, end in ranges:
        at = begin
        for number in range(bisect_right(gone, begin, key=itemgetter(1)), len(gone)):
            low, high = gone[number]
            if low >= end:
                break
            if at < low:
                left.append((at, low))
            at = high
        if at < end:
            left.append((at, end))
    return left


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that follow each other."""
    found: list[tuple[int, int]] = []
    for begin, end in ranges:
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def delivered(ranges: Ranges, shard: Shard, batches: int) -> list[tuple[int, int]]:
    """Return what `shard.rank` has delivered of `ranges` with its first `batches` batches."""
    return between(shard_of(ranges, shard), 0, batches * shard.batch_size)


def delivered_by(ranges: Ranges, shard: Shard, batches: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return what ranks have delivered of `ranges`, by their numbers, with their first batches."""
    size, found = shard.batch_size, list[tuple[int, int]]()
    for first in sorted({rank - rank % shard.node for rank in batches}):
        one = replace(shard, rank=first)
        if shard.node == 1:
            found += delivered(ranges, one, batches[first])
            continue
        # Turns that all of a node have taken lie together: a turn of each would be too many ranges.
        run, counts = run_of_node(ranges, one), [batches.get(first + n, 0) for n in range(one.node)]
        turn_rows, turns = one.node * size, min(counts)
        found += between(run, 0, turns * turn_rows)
        for number, count in enumerate(counts):
            last = min(count, -(-length(run) // turn_rows))
            for begin in range(turns * turn_rows, last * turn_rows, turn_rows):
                found += between(run, begin + number * size, begin + (number + 1) * size)
    return found
