"""States of training runs, over real streams: exact resume, other ranks, other numbers of readers.

1. The arithmetic is tested by the thousand in test_checkpoint; here that streams do what it says.
2. What was handed out before and after a stop is, together, what a run without it hands out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numbered_batches import SHUFFLES, batches_of, collected, rows_of
from payload import COLUMNS, ROWS

import multitables

N = ROWS


def saved(batches: multitables.Batches) -> Any:
    return json.loads(json.dumps(batches.state_dict()))


def taken(batches: multitables.Batches, count: int) -> list[np.ndarray]:
    """The first batches of an iteration, which is then left."""
    found = []
    for batch in batches:
        found.append(rows_of(batch))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("stop", [0, 1, 17, 93, 94, 95, 187])
def test_a_run_goes_on_exactly_where_it_was(numbered: Path, shuffle: str | None, stop: int) -> None:
    options = {"shuffle": shuffle, "epochs": 3, "start_epoch": 4, "seed": 8}
    with batches_of(numbered, 64, **options) as batches:
        wanted = collected(batches)
    assert len(wanted) == 3 * 94
    with batches_of(numbered, 64, **options) as batches:
        before = taken(batches, stop) if stop else []
        state = saved(batches)
    with batches_of(numbered, 64, n_procs=1, **{**options, "start_epoch": 0}) as batches:
        batches.load_state_dict(state)
        assert len(batches) == len(wanted) - stop
        assert batches.epoch == 4 + stop // 94
        assert saved(batches) == state
        after = collected(batches)
        assert batches.epoch == 7
    assert len(before) + len(after) == len(wanted)
    for got, want in zip(before + after, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_state_that_was_saved_by_version_3(numbered: Path) -> None:
    state = {
        "version": 1, "epoch": 2, "stop": 4, "ranges": [[0, ROWS]], "batches": 60,
        "batch_size": 64, "rank": 0, "world_size": 1, "drop_last": False, "even": False,
        "parts": 1, "node": 1,
        "data": {"rows": ROWS, "shuffle": None, "seed": 0, "first_row": 0, "step": 1},
    }  # fmt: skip
    with batches_of(numbered, 64) as batches:
        batches.load_state_dict(state)
        assert saved(batches) == state
        rows = np.concatenate(list(map(rows_of, batches)))
        np.testing.assert_array_equal(rows, [*range(60 * 64, ROWS), *range(ROWS)])


def test_states_of_a_resumed_run(numbered: Path) -> None:
    options = {"shuffle": "window", "epochs": 2}
    with batches_of(numbered, 64, **options) as batches:
        wanted = collected(batches)
    found: list[np.ndarray] = []
    state = None
    while True:
        with batches_of(numbered, 64, **options) as batches:
            if state is not None:
                batches.load_state_dict(state)
            more = taken(batches, 40)
            found += more
            state = saved(batches)
            if len(more) < 40:
                break
    np.testing.assert_array_equal(np.concatenate(found), np.concatenate(wanted))


@pytest.mark.parametrize("shuffle", ["window", "full", None])
@pytest.mark.parametrize("how", ["one state", "all states", "out of step"])
def test_other_ranks_neither_repeat_nor_lose_rows(
    numbered: Path, shuffle: str | None, how: str
) -> None:
    before, states = [], []
    for rank in range(3):
        with batches_of(numbered, 64, shuffle=shuffle, rank=rank, world_size=3) as batches:
            before += taken(batches, 12 + rank * 2 * (how == "out of step"))
            states.append(saved(batches))
    state = states[1] if how == "one state" else states
    after = []
    for rank in range(2):
        with batches_of(numbered, 100, shuffle=shuffle, rank=rank, world_size=2) as batches:
            batches.load_state_dict(state)
            part = collected(batches)
            assert len(part) == pytest.approx((N - 12 * 64 * 3) / 200, abs=5)
            after += part
            # and the next epoch is a whole one
            assert batches.epoch == 1
            assert len(batches) == 30
    rows = np.concatenate([*before, *after])
    np.testing.assert_array_equal(np.sort(rows), np.arange(N))


@pytest.mark.parametrize("epochs", [4, None])
def test_ranks_without_a_batch_do_not_hold_the_others_up(
    numbered: Path, epochs: int | None
) -> None:
    """Five batches for eight ranks, which stop after two epochs; three had nothing to do."""
    states, before = [], []
    options = {"shuffle": True, "epochs": epochs}
    for rank in range(8):
        with batches_of(numbered, N // 5, rank=rank, world_size=8, **options) as batches:
            found = taken(batches, 2)
            before.append(len(found))
            states.append(saved(batches))
    assert before == [0, 2, 0, 2, 2, 0, 2, 2]
    with batches_of(numbered, N // 5, **options) as batches:
        batches.load_state_dict(states)
        assert batches.epoch == 2
        rows = np.concatenate(taken(batches, 10))
        assert np.array_equal(rows, np.concatenate([batches.order(2), batches.order(3)]))
        with pytest.raises(multitables.OptionsError, match="rank 0 of 8, which gets no batch"):
            batches.load_state_dict(states[0])


def test_a_state_that_was_loaded_waits_for_the_first_batch(numbered: Path) -> None:
    with batches_of(numbered, 64, shuffle=True) as batches:
        first = taken(batches, 5)
        state = saved(batches)
        batches.load_state_dict(state)
        iter(batches)
        assert saved(batches) == state
        iterator = iter(batches)
        batches.set_epoch(0)  # the epoch in which the state stands
        rest = [rows_of(batch) for batch in iterator]
        rows = np.concatenate(first + rest)
        np.testing.assert_array_equal(rows, batches.order(0))
        batches.load_state_dict(state)
        batches.set_epoch(1)  # another one: from its beginning
        np.testing.assert_array_equal(np.concatenate(collected(batches)), batches.order(1))


def test_the_end_of_a_run(numbered: Path) -> None:
    with batches_of(numbered, 1000, shuffle=True) as batches:
        collected(batches)
        state = saved(batches)
        assert state["epoch"] == 1
    with batches_of(numbered, 1000, shuffle=True) as batches:
        batches.load_state_dict(state)
        rows = np.concatenate(collected(batches))
        np.testing.assert_array_equal(rows, batches.order(1))


def test_a_state_of_the_last_turn_of_a_loop(numbered: Path) -> None:
    """The loop that goes on has nothing left to do; the next one has the next epoch."""
    with batches_of(numbered, 1000, shuffle=True, start_epoch=2) as batches:
        orders = [batches.order(epoch) for epoch in (2, 3)]
        for number, batch in enumerate(batches):
            if number + 1 == ROWS // 1000:
                state = saved(batches)
            del batch
    for names_epochs in (False, True):
        with batches_of(numbered, 1000, shuffle=True) as batches:
            batches.load_state_dict(state)
            assert batches.epoch == 2
            assert len(batches) == 0
            for epoch in (2, 3):
                if names_epochs:
                    batches.set_epoch(epoch)
                found = collected(batches)
                if epoch == 2:
                    assert found == []
                else:
                    np.testing.assert_array_equal(np.concatenate(found), orders[1])


@pytest.mark.parametrize("loads", [False, True])
def test_a_loop_that_is_left_in_its_last_turn_is_over(numbered: Path, loads: bool) -> None:
    with batches_of(numbered, 1000, shuffle=True) as batches:
        order = batches.order(1)
        if loads:
            taken(batches, 2)
            batches.load_state_dict(saved(batches))
        taken(batches, len(batches))
        assert batches.epoch == 1
        state = saved(batches)
        np.testing.assert_array_equal(np.concatenate(collected(batches)), order)
    with batches_of(numbered, 1000, shuffle=True) as batches:
        batches.load_state_dict(state)
        np.testing.assert_array_equal(np.concatenate(collected(batches)), order)


def test_an_iterator_that_was_closed_has_not_ended(numbered: Path) -> None:
    with batches_of(numbered, 1000, shuffle=True) as batches:
        iterator = iter(batches)
        first = rows_of(next(iterator))
        iterator.close()
        assert list(iterator) == []
        state = saved(batches)
        assert (state["epoch"], state["batches"]) == (0, 1)
        batches.load_state_dict(state)
        rows = np.concatenate([first, *collected(batches)])
        np.testing.assert_array_equal(rows, batches.order(0))


@pytest.mark.parametrize("ends", ["in its last turn", "behind its loop"])
def test_ranks_of_which_one_is_through(numbered: Path, ends: str) -> None:
    """Of seven batches one rank has four and the other three. Each has had three."""
    before, states = [], []
    for rank in range(2):
        with batches_of(numbered, 900, shuffle=True, rank=rank, world_size=2) as batches:
            iterator = iter(batches)
            before += [rows_of(next(iterator)) for _ in range(3)]
            if ends == "behind its loop" and len(batches) == 3:
                assert list(iterator) == []
            states.append(saved(batches))
    with batches_of(numbered, 100, shuffle=True) as batches:
        batches.load_state_dict(states)
        rest = collected(batches)
        rows = np.concatenate(before + rest)
        np.testing.assert_array_equal(np.sort(rows), np.arange(N))
        np.testing.assert_array_equal(np.concatenate(collected(batches)), batches.order(1))


def test_states_of_something_else(numbered: Path) -> None:
    with batches_of(numbered, 64, shuffle=True, seed=1) as batches:
        state = saved(batches)
    for options, text in (
        ({"shuffle": True, "seed": 2}, "seed was 1, and is 2"),
        ({"shuffle": "full", "seed": 1}, "shuffle was 'window', and is 'full'"),
        ({"shuffle": True, "seed": 1, "rows": slice(10)}, "rows was 6000, and is 10"),
        ({"shuffle": True, "seed": 1, "window_rows": 999}, "window_rows was 300"),
    ):
        with batches_of(numbered, 64, **options) as batches:
            with pytest.raises(multitables.OptionsError, match=text):
                batches.load_state_dict(state)
            with pytest.raises(multitables.OptionsError, match="not a state of batches"):
                batches.load_state_dict({})


def test_a_batch_that_was_made_is_a_batch_that_counts(numbered: Path) -> None:
    """What readers have read ahead was not delivered."""
    with batches_of(numbered, 16, shuffle="window", read_ahead=100) as batches:
        iterator = iter(batches)
        rows = rows_of(next(iterator))
        while iterator.ready() < 5:
            pass
        state = saved(batches)
        assert state["batches"] == 1
        iterator.close()
        batches.load_state_dict(state)
        rest = collected(batches)
    assert len(rows) + sum(map(len, rest)) == N
    assert rows[0] * COLUMNS == int(rows[0]) * COLUMNS
