"""Runs that stop, save, and go on otherwise: simulated, no file, no process.

Law
---
1. A run is its ranks, each of which delivers single positions batch by batch; what it delivered is
   counted here, by position, and is the oracle. The simulation shares only the sharding.
2. Whatever changes between two stops (ranks, batches, drop_last, even): within an epoch no position
   is lost or repeated, but what `even` pads and what `drop_last` drops at the epoch's end.
3. A state goes through JSON each time. What is no state, or another run's, is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _multitables.errors import OptionsError
from _multitables.plan.checkpoint import MAX_RANKS, Position, position_of, state_of
from _multitables.plan.sharding import Ranges, Shard, between, length, shard_of, without

IDENTITY = {"rows": 41, "shuffle": "window", "seed": 3, "first_row": 0, "window_rows": 8}


@dataclass
class Rank:
    """One rank of the simulation."""

    position: Position
    shard: Shard
    rows: int

    def share(self) -> list[tuple[int, int]]:
        return shard_of(self.position.ranges, self.shard)

    def deliver(self) -> list[int]:
        """The next batch of the epoch, or nothing, and then stand in the next epoch."""
        position, size = self.position, self.shard.batch_size
        found = between(self.share(), position.batches * size, position.batches * size + size)
        after = position.batches + 1
        whole = ((0, self.rows),)
        if after * size < length(self.share()):
            self.position = replace(position, batches=after)
        elif position.stop and is_idle(self.shard, whole):  # it passes through all of them
            self.position = Position(position.stop, position.stop, whole)
        else:
            self.position = Position(position.epoch + 1, position.stop, whole)
        return [at for begin, end in found for at in range(begin, end)]

    def has_ended(self, epoch: int) -> bool:
        """Whether it has nothing more in this epoch; if it has nothing in any, wherever it is."""
        whole = ((0, self.rows),)
        idle = is_idle(self.shard, whole) and self.position.ranges == whole
        return idle or self.position.epoch != epoch

    def state(self) -> Any:
        identity = {**IDENTITY, "rows": self.rows}
        return json.loads(json.dumps(state_of(self.position, self.shard, identity)))


def is_idle(shard: Shard, ranges: Ranges) -> bool:
    """Whether a rank gets nothing of these, and another does."""
    return not shard_of(ranges, shard) and any(shard_of(ranges, one) for one in of_all(shard))


@dataclass
class Run:
    """All ranks, and how often each position of an epoch was delivered."""

    rows: int
    ranks: list[Rank] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    padding: int = 0
    dropped: int = 0

    def begin(self, shard: Shard) -> None:
        start = Position(0, 5, ((0, self.rows),))
        self.ranks = [Rank(start, one, self.rows) for one in of_all(shard)]
        self.allow(shard)

    def allow(self, shard: Shard) -> None:
        """What this shard may repeat, and drop if the epoch ends with it."""
        if not self.counts:
            self.padding = 0
        if shard.even and not shard.drop_last:
            self.padding += shard.world_size - 1
        self.dropped = shard.drop_last * (
            shard.batch_size * (shard.even * shard.world_size or 1) - 1
        )

    def go_on(self, shard: Shard, states: Any) -> None:
        identity = {**IDENTITY, "rows": self.rows}
        found = [Rank(position_of(states, one, identity), one, self.rows) for one in of_all(shard)]
        same = replace(self.ranks[0].shard, rank=0) == replace(shard, rank=0)
        if not same:
            assert len({rank.position for rank in found}) == 1
            assert all(rank.position.batches == 0 for rank in found)
        self.ranks = found
        self.allow(shard)

    def deliver(self, rank: int, epoch: int) -> bool:
        """One batch of this epoch, if it has one."""
        if self.ranks[rank].position.epoch != epoch:
            return False
        self.counts.update(self.ranks[rank].deliver())
        return True

    def end(self, epoch: int) -> None:
        for number in range(len(self.ranks)):
            while self.deliver(number, epoch):
                pass
        whole = ((0, self.rows),)
        for rank in self.ranks:
            ends = {epoch + 1, 5} if is_idle(rank.shard, whole) else {epoch + 1}
            assert rank.position in {Position(end, 5, whole) for end in ends}
        missing = set(range(self.rows)) - set(self.counts)
        assert set(self.counts) <= set(range(self.rows))
        assert len(missing) <= self.dropped
        assert self.counts.total() - len(self.counts) <= self.padding
        self.counts.clear()
        self.allow(self.ranks[0].shard)


def of_all(shard: Shard) -> list[Shard]:
    return [replace(shard, rank=rank) for rank in range(shard.world_size)]


a_deal = st.builds(
    Shard,
    batch_size=st.integers(1, 7),
    world_size=st.integers(1, 9),
    drop_last=st.booleans(),
    even=st.booleans(),
)
a_whole_deal = st.builds(Shard, batch_size=st.integers(1, 7), world_size=st.integers(1, 9))
many = settings(max_examples=200, deadline=None)


def shards(data: st.DataObject) -> st.SearchStrategy[Shard]:
    """Of a run that drops and pads, or of one in which each position must come once."""
    return data.draw(st.sampled_from([a_deal, a_whole_deal]))


@many
@given(st.integers(1, 120), st.data())
def test_out_of_step_with_the_states_of_all(rows: int, data: st.DataObject) -> None:
    a_one = shards(data)
    run = Run(rows)
    run.begin(data.draw(a_one))
    for epoch in range(2):
        for _ in range(data.draw(st.integers(0, 4))):
            for rank in range(len(run.ranks)):
                for _ in range(data.draw(st.integers(0, 4))):
                    run.deliver(rank, epoch)
            if all(rank.has_ended(epoch) for rank in run.ranks):
                break
            go_on_otherwise(run, a_one, data)
        run.end(epoch)
        go_on_otherwise(run, a_one, data)


def go_on_otherwise(run: Run, a_one: st.SearchStrategy[Shard], data: st.DataObject) -> None:
    states = [rank.state() for rank in run.ranks]
    states = states[::-1] if data.draw(st.booleans()) else states
    again = run.ranks[0].shard
    run.go_on(data.draw(st.just(again) | a_one), states)


@many
@given(st.integers(1, 120), st.data())
def test_in_step_with_the_state_of_any(rows: int, data: st.DataObject) -> None:
    a_one = shards(data)
    run = Run(rows)
    run.begin(data.draw(a_one))
    for epoch in range(2):
        for _ in range(data.draw(st.integers(0, 4))):
            for _ in range(data.draw(st.integers(0, 4))):
                if all(has_more(rank, epoch) for rank in run.ranks):
                    for rank in range(len(run.ranks)):
                        run.deliver(rank, epoch)
            if any(rank.position.epoch != epoch for rank in run.ranks):
                break
            again = run.ranks[0].shard
            telling = [rank for rank in run.ranks if rank.share()]
            state = data.draw(st.sampled_from(telling or run.ranks)).state()
            run.go_on(
                data.draw(st.just(again) | a_one), data.draw(st.sampled_from([state, [state]]))
            )
        run.end(epoch)


def has_more(rank: Rank, epoch: int) -> bool:
    """A batch after the next one in this epoch."""
    ends = (rank.position.batches + 1) * rank.shard.batch_size
    return rank.position.epoch == epoch and ends < length(rank.share())


@many
@given(st.integers(1, 60), a_deal, st.data())
def test_the_same_ranks_go_on_exactly_where_they_were(
    rows: int, shard: Shard, data: st.DataObject
) -> None:
    """Also those that are epochs apart, and each with its own state alone."""
    run = Run(rows)
    run.begin(shard)
    for rank in run.ranks:
        for _ in range(data.draw(st.integers(0, 12))):
            rank.deliver()
    states = [rank.state() for rank in run.ranks]
    identity = {**IDENTITY, "rows": rows}
    for rank, state in zip(run.ranks, states, strict=True):
        assert position_of(state, rank.shard, identity) == rank.position
        assert position_of(states, rank.shard, identity) == rank.position


def test_one_state_is_everybodys() -> None:
    """Ranks that were padded with others' positions: all go on with what was theirs."""
    shard = Shard(1, world_size=8, even=True)
    run = Run(41)
    run.begin(shard)
    for _ in range(3):
        for rank in range(8):
            run.deliver(rank, 0)
    run.go_on(shard, run.ranks[1].state())
    assert {rank.position for rank in run.ranks} == {Position(0, 5, ((0, 41),), 3)}
    run.end(0)


def test_an_example() -> None:
    """10 positions, 2 ranks in batches of 2: after one batch each, three ranks go on."""
    states = [
        state_of(Position(7, None, ((0, 10),), 1), Shard(2, rank, 2), IDENTITY | {"rows": 10})
        for rank in range(2)
    ]
    found = position_of(states, Shard(3, 1, 3), IDENTITY | {"rows": 10})
    assert found == Position(7, None, ((2, 4), (6, 10)))
    assert shard_of(found.ranges, Shard(3, 1, 3)) == [(2, 4), (6, 7)]


# ---- what is refused ------------------------------------------------------------------------


def saved(rank: int = 0, **changes: Any) -> dict[str, Any]:
    """The state of one of two ranks."""
    state = state_of(Position(2, 5, ((0, 20), (30, 41)), 1), Shard(4, rank, 2), IDENTITY)
    return {**state, **changes}


def refused(state: Any, match: str, shard: Shard = Shard(5, 0, 3)) -> None:  # noqa: B008
    with pytest.raises(OptionsError, match=match) as caught:
        position_of(state, shard, IDENTITY)
    assert caught.value.option == "state"


def test_what_is_saved_is_of_jsons_types() -> None:
    state = saved()
    assert json.loads(json.dumps(state)) == state
    assert position_of(state, Shard(4, 0, 2), IDENTITY) == Position(2, 5, ((0, 20), (30, 41)), 1)


@pytest.mark.parametrize(
    "state", [None, 3, "abc", b"abc", {}, [None], [[]], {"version": 2}, saved(version=0)], ids=repr
)
def test_what_is_no_state(state: Any) -> None:
    refused(state, "not a state of batches")


def test_no_states() -> None:
    refused([], "there is no state")
    refused("", "there is no state")


@pytest.mark.parametrize("name", IDENTITY)
def test_states_of_other_data(name: str) -> None:
    for data in ({**IDENTITY, name: "x"}, {k: v for k, v in IDENTITY.items() if k != name}):
        refused(saved(data=data), f"of other batches: {name} was")
        refused([saved(0), saved(1, data=data)], f"of other batches: {name} was")


@pytest.mark.parametrize(
    "states",
    [
        [saved(0), saved(0)],
        [saved(0), saved(1), saved(1)],
        [saved(0), saved(0), saved(1)],
        [saved(world_size=3), saved(1, world_size=3)],
    ],
    ids=["twice", "too many", "again", "too few"],
)
def test_states_that_are_not_of_all_ranks(states: list[Any]) -> None:
    refused(states, "not of all ranks")
    refused(states, "not of all ranks", Shard(4, 0, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 3},
        {"drop_last": True},
        {"even": True},
        {"parts": 2},
        {"ranges": [[0, 20]]},
        {"ranges": [[0, 41]]},
    ],
    ids=repr,
)
def test_states_of_different_runs(changes: dict[str, Any]) -> None:
    refused([saved(0), saved(1, **changes)], "different runs")


@pytest.mark.parametrize("changes", [{"epoch": 4}, {"epoch": 3}, {"epoch": 1}], ids=repr)
def test_ranks_in_different_epochs(changes: dict[str, Any]) -> None:
    """They go on where they were as the same ranks only."""
    states = [saved(0), saved(1, **changes)]
    refused(states, "different epochs")
    assert position_of(states, Shard(4, 1, 2), IDENTITY).epoch == changes["epoch"]


def test_a_rank_that_has_ended_the_epoch() -> None:
    states = [saved(0), saved(1, epoch=3, batches=0, ranges=[[0, 41]])]
    found = position_of(states, Shard(5, 0, 3), IDENTITY)
    assert found == Position(2, 5, ((4, 16),))


@pytest.mark.parametrize("stop", [9, None])
def test_ranks_that_get_nothing_of_any_epoch(stop: int | None) -> None:
    """Five batches for eight ranks: 0, 2 and 5 get none, and have passed through their epochs."""
    shards, whole = of_all(Shard(10, world_size=8)), ((0, 41),)
    assert [shard.rank for shard in shards if not shard_of(whole, shard)] == [0, 2, 5]
    states = []
    for shard in shards:
        if shard_of(whole, shard):
            position = Position(6 + (shard.rank == 3), stop, whole)
        else:
            position = Position(0 if stop is None else stop, stop, whole)
        states.append(state_of(position, shard, IDENTITY))
    found = position_of(states, Shard(10), IDENTITY)
    assert found == Position(6, stop, tuple(without(whole, shard_of(whole, shards[3]))))
    # alone they tell only themselves where to go on
    assert position_of(states[0], shards[0], IDENTITY).epoch == states[0]["epoch"]
    for shard in (shards[1], Shard(10)):
        refused(states[0], "rank 0 of 8, which gets no batch of an epoch", shard)


NUMBERS = ["epoch", "stop", "batches", "batch_size", "rank", "world_size", "parts"]
NO_NUMBERS = [-1, 1.5, float("inf"), float("nan"), "2", [], {}, 2**63]


@pytest.mark.parametrize("name", [*NUMBERS, "ranges", "drop_last", "even"])
def test_damaged_states(name: str) -> None:
    bad = {
        "ranges": [
            3, None, [3], [[1]], [[1, 2, 3]], [[0.0, 4.0]], ["ab"], [[0, 42]], [[-1, 3]],
            [[5, 3]], [[4, 8], [0, 2]], [[0, 8], [4, 12]], [[0, 2**70]],
        ],
        "drop_last": [None, 0, "false", []],
    }  # fmt: skip
    bad["even"] = bad["drop_last"]
    wrong = bad.get(name, NO_NUMBERS + [None] * (name != "stop"))
    for value in wrong:
        refused(saved(**{name: value}), "damaged")
    without = saved()
    del without[name]
    refused(without, "damaged")


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 0},
        {"world_size": 0},
        {"rank": 2},
        {"world_size": MAX_RANKS + 1},
        {"data": None},
        {"data": [1]},
        {"data": "window"},
    ],
    ids=repr,
)
def test_impossible_states(changes: dict[str, Any]) -> None:
    refused(saved(**changes), "damaged")


def test_ranks_of_a_node_go_on_from_one_place() -> None:
    """They have one stream, so its plan is equal for all, though one of them was ahead."""
    everything = ((0, 41),)
    shards = [Shard(4, rank, 2, node=2) for rank in range(2)]

    def resumed(*positions: Position) -> set[Position]:
        states = [
            state_of(position, shard, IDENTITY)
            for position, shard in zip(positions, shards, strict=True)
        ]
        return {position_of(states, shard, IDENTITY) for shard in shards}

    first, second = (Position(0, 2, everything, batches) for batches in (2, 3))
    (place,) = resumed(first, second)
    # Of batches 0 to 10 they took 0, 2 and 1, 3, 5.
    assert place == Position(0, 2, ((16, 20), (24, 41)))
    # Rank 0 has 6 of 11 batches and is through; rank 1 has one of the next epoch.
    through, ahead = Position(0, 2, everything, 6), Position(1, 2, everything, 1)
    assert resumed(through, ahead) == {Position(1, 2, ((0, 4), (8, 41)))}
    assert resumed(first, first) == {first}
