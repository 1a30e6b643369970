"""Dealing positions to ranks, against sets: no file, no process.

Law
---
1. The oracle is arithmetic of lists and multisets of single positions; it knows no ranges.
2. Over all ranks every position is delivered once: none is lost, and only `even` repeats, only
   `drop_last` drops, and never more than it must.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _multitables.plan.sharding import (
    Shard,
    between,
    delivered,
    delivered_by,
    joined,
    length,
    shard_of,
    without,
)

many = settings(max_examples=200, deadline=None)
Spans = list[tuple[int, int]]


@st.composite
def some_ranges(draw: st.DrawFn, most: int = 6) -> Spans:
    """Ranges that do not overlap, in any order, and may follow each other."""
    cuts = sorted(draw(st.sets(st.integers(0, 120), min_size=0, max_size=2 * most)))
    if draw(st.booleans()):
        spans = list(pairwise(cuts))
    else:
        spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    return draw(st.permutations(spans)) if draw(st.booleans()) else spans


def positions(ranges: Spans) -> list[int]:
    assert all(begin < end for begin, end in ranges)
    return [at for begin, end in ranges for at in range(begin, end)]


def of_all(ranges: Spans, size: int, ranks: int, drop_last: bool, even: bool) -> list[list[int]]:
    shards = [Shard(size, rank, ranks, drop_last, even) for rank in range(ranks)]
    return [positions(shard_of(ranges, shard)) for shard in shards]


a_size = st.one_of(st.integers(1, 9), st.integers(1, 200))
a_world = st.one_of(st.integers(1, 5), st.integers(1, 150))


@many
@given(some_ranges(), a_size, a_world)
def test_everything_is_delivered_once_and_in_order(ranges: Spans, size: int, ranks: int) -> None:
    ours = of_all(ranges, size, ranks, False, False)
    assert [at for rank in ours for at in rank] == positions(ranges)
    batches = [-(-len(rank) // size) for rank in ours]
    assert sum(batches) == -(-length(ranges) // size)
    assert max(batches) - min(batches) <= 1
    # Only one batch is short, and it is the last of all.
    short = [rank for rank in ours if len(rank) % size]
    assert short in ([], [rank for rank in ours if rank][-1:])


@many
@given(some_ranges(), a_size, a_world)
def test_dropping_drops_less_than_a_batch(ranges: Spans, size: int, ranks: int) -> None:
    ours = of_all(ranges, size, ranks, True, False)
    everything = positions(ranges)
    kept = len(everything) // size * size
    assert [at for rank in ours for at in rank] == everything[:kept]
    assert all(len(rank) % size == 0 for rank in ours)
    assert max(map(len, ours)) - min(map(len, ours)) <= size


@many
@given(some_ranges(), a_size, a_world)
def test_even_repeats_as_little_as_it_can(ranges: Spans, size: int, ranks: int) -> None:
    ours = of_all(ranges, size, ranks, False, True)
    everything = positions(ranges)
    assert len({len(rank) for rank in ours}) == 1
    counts = Counter(at for rank in ours for at in rank)
    assert set(counts) == set(everything)
    assert sum(counts.values()) - len(everything) < ranks
    if everything:
        assert max(counts.values()) - min(counts.values()) <= 1
        # No rank has a position twice, unless there are fewer positions than ranks.
        assert all(len(set(rank)) == len(rank) for rank in ours)


@many
@given(some_ranges(), a_size, a_world)
def test_even_drops_as_little_as_it_can(ranges: Spans, size: int, ranks: int) -> None:
    ours = of_all(ranges, size, ranks, True, True)
    everything = positions(ranges)
    assert len({len(rank) for rank in ours}) == 1
    assert len(ours[0]) % size == 0
    together = [at for rank in ours for at in rank]
    assert together == everything[: len(together)]
    assert len(everything) - len(together) < ranks * size


@many
@given(some_ranges(), a_size, a_world, st.booleans(), st.booleans(), st.integers(0, 40))
def test_delivered(
    ranges: Spans, size: int, ranks: int, drop_last: bool, even: bool, batches: int
) -> None:
    """The first batches of what a rank has."""
    for rank in {0, ranks // 2, ranks - 1}:
        shard = Shard(size, rank, ranks, drop_last, even)
        everything = positions(shard_of(ranges, shard))
        assert positions(delivered(ranges, shard, batches)) == everything[: batches * size]


@many
@given(some_ranges(), a_size, st.integers(1, 5), st.integers(1, 5), st.booleans(), st.booleans())
def test_processes_share_out_what_their_rank_has(
    ranges: Spans, size: int, ranks: int, parts: int, drop_last: bool, even: bool
) -> None:
    """In its order, and in as many batches."""
    alone = of_all(ranges, size, ranks, drop_last, even)
    for rank, want in enumerate(alone):
        shards = [
            Shard(size, rank * parts + part, ranks * parts, drop_last, even, parts)
            for part in range(parts)
        ]
        shares = [positions(shard_of(ranges, shard)) for shard in shards]
        assert [at for share in shares for at in share] == want
        batches = [-(-len(share) // size) for share in shares]
        assert sum(batches) == -(-len(want) // size)
        assert max(batches) - min(batches) <= 1


@many
@given(some_ranges(), st.integers(0, 130), st.integers(0, 130))
def test_between(ranges: Spans, start: int, stop: int) -> None:
    found = between(ranges, start, stop)
    assert positions(found) == positions(ranges)[start:stop]
    assert length(found) == len(positions(found))


@many
@given(some_ranges(), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 30)), max_size=6))
def test_without(ranges: Spans, lengths: Spans) -> None:
    """What is taken may overlap, lie outside, and be empty."""
    taken = [(begin, begin + count) for begin, count in lengths]
    gone = {at for begin, end in taken for at in range(begin, end)}
    found = without(ranges, taken)
    assert positions(found) == [at for at in positions(ranges) if at not in gone]


@many
@given(some_ranges(), a_size, st.integers(1, 4), st.integers(1, 4), st.data())
def test_what_several_ranks_delivered(
    ranges: Spans, size: int, node: int, nodes: int, data: st.DataObject
) -> None:
    """Also of ranks that share readers, where some are ahead, and some are not counted."""
    shard = Shard(size, 0, node * nodes, node=node)
    ranks = data.draw(st.sets(st.integers(0, node * nodes - 1)))
    counts = {rank: data.draw(st.sampled_from([0, 1, 2, 3, 1 << 62])) for rank in ranks}
    each = [delivered(ranges, replace(shard, rank=rank), count) for rank, count in counts.items()]
    expected = sorted(at for one in each for at in positions(one))
    assert sorted(positions(delivered_by(ranges, shard, counts))) == expected


@many
@given(some_ranges())
def test_joined(ranges: Spans) -> None:
    found = joined(ranges)
    assert positions(found) == positions(ranges)
    assert all(a[1] != b[0] for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("drop_last", "even", "expected"),
    [
        (False, False, [[(0, 3)], [(3, 6)], [(6, 9), (20, 22)]]),
        (True, False, [[(0, 3)], [(3, 6)], [(6, 9)]]),
        (False, True, [[(0, 4)], [(4, 8)], [(8, 9), (20, 22), (0, 1)]]),
        (True, True, [[(0, 3)], [(3, 6)], [(6, 9)]]),
    ],
)
def test_an_example(drop_last: bool, even: bool, expected: list[Spans]) -> None:
    """11 positions in batches of 3 for 3 ranks."""
    ranges = [(0, 9), (20, 22)]
    for rank, want in enumerate(expected):
        assert shard_of(ranges, Shard(3, rank, 3, drop_last, even)) == want


def test_fewer_positions_than_ranks() -> None:
    assert [shard_of([(4, 6)], Shard(1, rank, 5)) for rank in range(5)] == [
        [], [], [(4, 5)], [], [(5, 6)],
    ]  # fmt: skip
    assert [shard_of([(4, 6)], Shard(8, rank, 5, even=True)) for rank in range(5)] == [
        [(4, 5)], [(5, 6)], [(4, 5)], [(5, 6)], [(4, 5)],
    ]  # fmt: skip
    assert shard_of([], Shard(3, 1, 2, even=True)) == []
