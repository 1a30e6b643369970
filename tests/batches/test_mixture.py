"""Mixtures of batches: what comes, how often, and that a run goes on exactly.

Law
---
1. Rows say of which source they are: a thousand times its number, and theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import Clips, Mixture, OptionsError, UnsupportedDatasetError

ROWS = [100, 200, 300]
WEIGHTS = [1, 2, 1]
Make = Callable[..., Mixture]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    for number, n in enumerate(ROWS):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file.create_dataset("x", data=np.arange(n) + 1000 * number, chunks=(10,))
            file["y"] = np.arange(n) * 0.5

    def make(paths: Any = "x", rank: int = 0, world_size: int = 1, **options: Any) -> Mixture:
        sources = []
        for number, weight in enumerate(WEIGHTS):
            streamer = multitables.Streamer(tmp_path / f"{number}.h5")
            batches = streamer.get_batches(
                paths, 10, shuffle=True, n_procs=1, seed=number, rank=rank, world_size=world_size
            )
            sources.append((batches, weight))
        return Mixture(sources, seed=5, **options)

    return make


def sources_of(batches: list[np.ndarray]) -> np.ndarray:
    """The share of each source in the rows."""
    return np.bincount(np.concatenate(batches) // 1000, minlength=3) / sum(map(len, batches))


@pytest.mark.parametrize("within", [False, True])
def test_what_comes_and_how_often(make: Make, within: bool) -> None:
    with make(within=within, draws=200) as mixture:
        assert len(mixture) == 200
        batches = [batch.copy() for batch in mixture]
        assert mixture.epoch == 1
        others = [batch.copy() for batch in mixture]
    assert len(batches) == 200
    np.testing.assert_allclose(sources_of(batches), [0.25, 0.5, 0.25], atol=0.1)
    n_sources = [len(np.unique(batch // 1000)) for batch in batches]
    assert (max(n_sources) == 3) == within
    assert any((a != b).any() for a, b in zip(batches, others, strict=True))
    for number, n in enumerate(ROWS):  # each source goes through its rows before they come again
        rows = np.concatenate(batches)
        rows = rows[rows // 1000 == number]
        for begin in range(0, len(rows) - n + 1, n):
            assert len(np.unique(rows[begin : begin + n])) == n


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("taken", [0, 33, 60, 71, 120])
def test_a_run_goes_on_where_it_was(make: Make, within: bool, taken: int) -> None:
    with make(within=within, epochs=2) as mixture:
        assert len(mixture) == 2 * sum(ROWS) // 10
        everything = [batch.copy() for batch in mixture]
    with make(within=within, epochs=2) as mixture:
        iterator = iter(mixture)
        head = [next(iterator).copy() for _ in range(taken)]
        state = json.loads(json.dumps(mixture.state_dict()))
        assert len(mixture) == 120  # a loop that is left begins anew
        assert [batch.tolist() for batch in mixture] == [one.tolist() for one in everything]
    with make(within=within, epochs=2) as mixture:
        mixture.load_state_dict(state)
        assert len(mixture) == 120 - taken
        found = [*head, *(batch.copy() for batch in mixture)]
        assert mixture.epoch == 2
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in everything]


def test_ranks_share_the_rows_of_a_step(make: Make) -> None:
    came: list[list[np.ndarray]] = []
    states = []
    for rank in range(2):
        with make(rank=rank, world_size=2, draws=30) as mixture:
            iterator = iter(mixture)
            came.append([next(iterator).copy() for _ in range(12)])
            states.append(mixture.state_dict())
    for first, second in zip(*came, strict=True):
        assert first[0] // 1000 == second[0] // 1000
        assert not set(first.tolist()) & set(second.tolist())
    with make(draws=30) as alone:
        alone.load_state_dict(states)
        assert len(alone) == 18
        rest = np.concatenate(list(alone))
    seen = np.concatenate([*came[0], *came[1]])
    for number in (0, 1, 2):  # none of the first epoch of a source comes again
        mine, later = seen[seen // 1000 == number], rest[rest // 1000 == number]
        left = max(0, ROWS[number] - len(mine))
        assert not set(mine.tolist()) & set(later[:left].tolist())


def test_structures_samples_and_collections(make: Make, tmp_path: Path) -> None:
    with make({"a": "x", "b": "y"}, within=True, draws=3) as mixture:
        for batch in mixture:
            np.testing.assert_array_equal(batch["a"] % 1000 * 0.5, batch["b"])
    with make(("x", "y"), within=True, draws=3, batch_size=64) as mixture:
        for rows, halves in mixture:
            assert rows.shape == (64,)
            np.testing.assert_array_equal(rows % 1000 * 0.5, halves)
    streamer = multitables.Streamer(tmp_path / "2.h5")
    clips = streamer.get_batches("x", 4, sample=Clips(5), n_procs=1)
    items = streamer.get_collection("/*", n_procs=1)
    with Mixture(
        [(clips, 1), (items, 1), (Mixture([(items, 1)], draws=2), 0)], draws=20
    ) as mixture:
        kinds = {type(one).__name__ for one in mixture}
        assert "sources" in mixture.statistics()
    assert kinds == {"ndarray", "Item"}


def test_refusals(make: Make, tmp_path: Path) -> None:
    streamer = multitables.Streamer(tmp_path / "0.h5")
    none = streamer.get_batches("x", 200, drop_last=True)
    for options, match in [
        ({"sources": []}, "must be pairs"),
        ({"sources": [none]}, "must be pairs"),
        ({"sources": [(none, -1)]}, "finite numbers from 0 on"),
        ({"sources": [(none, 0)]}, "draw no sample"),
        ({"sources": [(none, 1)], "draws": 0}, "draws is out of range"),
        ({"sources": [(none, 1)], "batch_size": 3}, "batch_size needs within"),
    ]:
        with pytest.raises(OptionsError, match=match):
            Mixture(**options)
    with Mixture([(none, 1)], draws=1) as mixture, pytest.raises(OptionsError, match="no batches"):
        next(iter(mixture))
    with pytest.raises(multitables.ClosedError):
        iter(mixture)
    endless = streamer.get_batches("x", 10, epochs=None)
    with Mixture([(endless, 1)]) as mixture, pytest.raises(OptionsError, match="draws must be"):
        next(iter(mixture))
    with make() as mixture:
        state = mixture.state_dict()
        for other, match in [
            ({}, "not a state of batches"),
            (endless.state_dict(), "of other batches: rows was 100, and is 60"),
            ({**state, "data": {**state["data"], "seed": 6}}, "of other batches: seed was 6"),
            ({**state, "sources": []}, "of another mixture"),
            ({**state, "sources": [{}] * 3}, "of another mixture"),
            ({**state, "epoch": -1}, "the state is damaged"),
            ([state, {**state, "epoch": 1}], "not saved after the same batch"),
        ]:
            with pytest.raises(OptionsError, match=match):
                mixture.load_state_dict(other)
    endless.close()
    ints, floats = (streamer.get_batches(path, 10) for path in ("x", "y"))
    with (
        Mixture([(ints, 1), (floats, 1)], within=True) as mixture,
        pytest.raises(UnsupportedDatasetError, match="sources of the mixture differ"),
    ):
        list(mixture)
