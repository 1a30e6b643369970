"""Items of a collection of a store, which are asked for several at a time.

Law
---
1. Items come as they would alone: in their order, with all their data, each once.
2. What fails is the item's own: others that were asked with it are good.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import pytest
import shot_files
from processes import kill, readers
from remote_files import Remote

import multitables
from _multitables.benchmark.objects.faults import Fault
from multitables import CorruptChunkError, CorruptChunkWarning, StoreError, Streamer

SHOTS = tuple(range(40))
SIGNALS = "/shots/{}/signals/{}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return shot_files.write(tmp_path / "shots.h5", SHOTS, shot_files.SUMMED)


def collection(remote: Remote, path: Path, **given: Any) -> multitables.Collection:
    streamer = Streamer(remote.put(path), storage_options=remote.options())
    return streamer.get_collection(shot_files.PATTERN, **given)


def same_items(items: Any, path: Path) -> list[str]:
    """Compare items with what h5py reads; return their keys."""
    keys = []
    with h5py.File(path) as file:
        for item in items:
            shot_files.same_item(item, dict(file[f"shots/{item.key}/signals"].items()))
            keys.append(item.key)
    return keys


@pytest.mark.parametrize("n_procs", [1, 3])
@pytest.mark.parametrize("order", ["random", "file"])
def test_items_of_each_epoch(order: str, n_procs: int, path: Path, remote: Remote) -> None:
    with collection(remote, path, order=order, n_procs=n_procs, epochs=2) as items:
        remote.requests()  # of opening
        held = list(items)
    assert len(remote.requests()) < len(held)
    keys = same_items(held, path)
    for epoch in keys[:40], keys[40:]:
        assert sorted(epoch, key=int) == [str(shot) for shot in SHOTS]
    assert (keys[:40] == keys[40:]) is (order == "file")


def test_a_state_between_items_that_were_asked_together(path: Path, remote: Remote) -> None:
    with collection(remote, path, n_procs=2) as items:
        whole = [item.key for item in items]
    with collection(remote, path, n_procs=2) as items:
        first = [item.key for item in itertools.islice(items, 11)]
        state = items.state_dict()
    with collection(remote, path, n_procs=1) as items:
        items.load_state_dict(state)
        assert first + same_items(items, path) == whole


def test_a_ring_for_one_item(path: Path, remote: Remote) -> None:
    with pytest.raises(multitables.OptionsError, match="ring_bytes of at least") as caught:
        collection(remote, path, ring_bytes=1000)
    enough = caught.value.expected  # type: ignore[attr-defined]
    with collection(remote, path, ring_bytes=enough, n_procs=2) as items:
        assert len(same_items(items, path)) == len(SHOTS)


def test_damage_is_skipped(path: Path, remote: Remote) -> None:
    for shot in (17, 18, 30):
        shot_files.hurt(path, SIGNALS.format(shot, "gzip"))
    with (
        collection(remote, path, order="key", n_procs=2, skip_damaged=True) as items,
        pytest.warns(CorruptChunkWarning) as told,
    ):
        came = list(items)
    assert len(told) == 3
    with h5py.File(path) as file:
        for shot, item in zip(SHOTS, came, strict=True):
            datasets = dict(file[f"shots/{shot}/signals"].items())
            if shot in (17, 18, 30):
                del datasets["gzip"]
            assert list(item.damaged) == ["gzip"] * (shot in (17, 18, 30))
            shot_files.same_item(item, datasets)


def test_damage_is_told_when_its_item_comes(path: Path, remote: Remote) -> None:
    offset = shot_files.hurt(path, SIGNALS.format(25, "summed"))
    came: list[Any] = []
    with (
        collection(remote, path, order="key", n_procs=1) as items,
        pytest.raises(CorruptChunkError, match="/shots/25/signals/summed") as caught,
    ):
        came.extend(items)
    assert caught.value.chunk_offset == offset  # type: ignore[attr-defined]
    assert same_items(came, path) == [str(shot) for shot in range(25)]


def test_readers_that_die_are_replaced(path: Path, remote: Remote) -> None:
    remote.proxy.set(latency_seconds=0.02)
    with collection(remote, path, order="key", n_procs=1, epochs=8) as items:
        keys = []
        for number, item in enumerate(items):
            if number in (1, 60, 180):
                for reader in readers():
                    kill(reader)
            keys += same_items([item], path)
        assert items.statistics()["readers_replaced"] > 0
    assert keys == 8 * [str(shot) for shot in SHOTS]


def test_a_store_that_refuses_is_asked_once(path: Path, remote: Remote) -> None:
    with collection(remote, path, order="key", n_procs=1) as items:
        remote.proxy.set(faults=(Fault("status", 403),))
        with pytest.raises(StoreError, match="refuses"):
            list(items)
        refused = [one.range for one in remote.requests() if one.status == 403]
    assert len(refused) == len(set(refused)) > 0
