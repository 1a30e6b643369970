"""Batches of items: every item once, padded behind its rows.

1. The oracle is NumPy's padding of what h5py reads.
2. Buckets hold items of their lengths only, and lose none.
3. Batches share the position of their collection.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
from hypothesis import given
from hypothesis import strategies as st
from shot_files import PATTERN, SHOTS

import multitables
from _multitables.plan.item_batches import bucketed
from multitables import Streamer

NAMES = ["plain", "gzip", "image"]


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kinds = {name: shot_files.KINDS[name] for name in (*NAMES, "scalar")}
    return shot_files.write(tmp_path_factory.mktemp("shots") / "shots.h5", kinds=kinds)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("buckets", [None, [700, 2000], [1]])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_batches_are_padded(
    shots: Path, size: int, buckets: list[int] | None, drop_last: bool
) -> None:
    items = Streamer(shots).get_collection(PATTERN, order="key", n_procs=1, scales=False)
    batches = items.to_batches(size, NAMES, pad=-1, buckets=buckets, drop_last=drop_last)
    came, n_batches = [], len(batches)
    with h5py.File(shots) as file:
        for batch in batches:
            n_batches -= 1
            keys = batch.keys_of_items
            came += keys
            assert list(batch) == NAMES
            assert len(batch) == len(NAMES)
            assert len(keys) == size or not drop_last
            for name, array in batch.items():
                data = [file[f"shots/{key}/signals/{name}"][()] for key in keys]
                assert batch.lengths[name].tolist() == [len(one) for one in data]
                assert array.dtype == data[0].dtype
                assert array.shape[:2] == (len(keys), max(map(len, data)))
                for row, one in zip(array, data, strict=True):
                    np.testing.assert_array_equal(row[: len(one)], one)
                    assert (row[len(one) :] == -1).all()
    n_items = len(SHOTS)
    assert n_batches == 0
    if not drop_last:
        assert sorted(came) == sorted(map(str, SHOTS))
    elif buckets != [700, 2000]:
        assert len(came) == n_items // size * size
    if buckets is None:
        assert came == items.keys[: len(came)]


def test_what_all_items_have_is_the_default(shots: Path) -> None:
    items = Streamer(shots).get_collection("/shots/*/signals/[gi]*", n_procs=1, epochs=2)
    batches = list(items.to_batches(3))
    assert [len(batch.keys_of_items) for batch in batches] == [3, 3, 3, 1]
    assert [list(batch) for batch in batches] == [["gzip", "image"]] * 4
    assert "ItemBatch of 3: 'gzip': (3, " in repr(batches[0])


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_batches_have_the_face_of_a_loader(shots: Path, taken: int) -> None:
    def made() -> tuple[multitables.Collection, multitables.ItemBatches]:
        items = Streamer(shots).get_collection(PATTERN, seed=3, n_procs=1)
        return items, items.to_batches(2, ["plain"])

    items, batches = made()
    with batches:
        assert (batches.epochs, batches.epoch, batches.damage) == (1, 0, [])
        order = [items.order(epoch) for epoch in range(2)]
        iterator = iter(batches)
        head = [next(iterator).keys_of_items for _ in range(taken)]
        state = json.loads(json.dumps(batches.state_dict()))
        assert state == items.state_dict()
        del iterator
        batches.set_epoch(1)
        assert items.epoch == batches.epoch == 1
        assert [key for batch in batches for key in batch.keys_of_items] == order[1]
        assert batches.epoch == 2
        assert batches.statistics() == items.statistics() != {}
    with pytest.raises(multitables.ClosedError):
        iter(items)
    _, others = pickle.loads(pickle.dumps(made()))
    with others:
        others.load_state_dict(state)
        assert len(others) == -(-len(SHOTS) // 2) - taken
        head += [batch.keys_of_items for batch in others]
        assert [key for keys in head for key in keys] == order[0]


def test_items_that_lack_a_dataset_are_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for key in range(6):
            file[f"{key}/x"] = np.arange(key + 1)
            if key % 2:
                file[f"{key}/y"] = np.arange(key + 1, dtype="f4")
    items = Streamer(tmp_path / "a.h5").get_collection("/*/*", order="key", n_procs=1)
    (batch,) = items.to_batches(6, ["x", "y"])
    assert batch.keys_of_items == ["1", "3", "5"]
    (batch,) = items.to_batches(6)
    assert list(batch) == ["x"]


def test_a_batch_may_be_larger_than_the_ring(shots: Path) -> None:
    with pytest.raises(multitables.OptionsError) as caught:
        Streamer(shots).get_collection(PATTERN, ring_bytes=1)
    enough: Any = caught.value.expected  # type: ignore[attr-defined]
    items = Streamer(shots).get_collection(PATTERN, ring_bytes=enough, epochs=20, n_procs=1)
    (batch,) = items.to_batches(20 * len(SHOTS), ["gzip"])
    assert sorted(batch.keys_of_items) == sorted([*map(str, SHOTS)] * 20)


def test_types_are_promoted(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/x"], file["b/x"] = np.arange(3, dtype="i2"), np.arange(2, dtype="f4")
    items = Streamer(tmp_path / "a.h5").get_collection("/*/x", order="key", n_procs=1)
    (batch,) = items.to_batches(2, pad=np.nan)
    assert batch["x"].dtype == np.float32
    np.testing.assert_array_equal(batch["x"], [[0, 1, 2], [0, 1, np.nan]])


@pytest.mark.parametrize(
    ("given_options", "match"),
    [
        ({"batch_size": 0}, "batch_size is out of range"),
        ({"buckets": [3, 3]}, "buckets must ascend"),
        ({"buckets": [0]}, "buckets is out of range"),
        ({"names": ["gzip", "none"]}, "no item of .* has 'none'"),
        ({"names": []}, "no dataset that all items"),
    ],
)
def test_options_that_cannot_work(shots: Path, given_options: Any, match: str) -> None:
    items = Streamer(shots).get_collection(PATTERN)
    with pytest.raises(multitables.OptionsError, match=match):
        items.to_batches(**{"batch_size": 2, **given_options})


def test_what_cannot_be_padded(shots: Path, tmp_path: Path) -> None:
    items = Streamer(shots).get_collection(PATTERN, n_procs=1)
    with pytest.raises(multitables.UnsupportedDatasetError, match="no rows to be padded"):
        list(items.to_batches(2, ["scalar"]))
    lone = shot_files.write(tmp_path / "lone.h5", kinds=shot_files.LONE)
    items = Streamer(lone).get_collection(PATTERN, n_procs=1)
    for name in ("text", "record", "null"):
        with pytest.raises(multitables.UnsupportedDatasetError, match=f"'{name}' of item"):
            list(items.to_batches(2, [name]))
    items = Streamer(shots).get_collection(PATTERN, n_procs=1)
    with pytest.raises(multitables.OptionsError, match="cannot be padded with 'x'"):
        list(items.to_batches(2, ["plain"], pad="x"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/x"], file["b/x"] = np.zeros((3, 2)), np.zeros((3, 4))
    items = Streamer(tmp_path / "a.h5").get_collection("/*/x", n_procs=1)
    with pytest.raises(multitables.UnsupportedDatasetError, match="more than its length"):
        list(items.to_batches(2))


@given(
    lengths=st.lists(st.integers(0, 40)),
    edges=st.lists(st.integers(1, 40), unique=True).map(sorted),
    size=st.integers(1, 5),
    drop_last=st.booleans(),
)
def test_buckets(lengths: list[int], edges: list[int], size: int, drop_last: bool) -> None:
    items = list(zip(lengths, range(len(lengths)), strict=True))
    batches = list(bucketed(items, edges, size, drop_last))
    came = [item for batch in batches for item in batch]
    assert len(came) == len(set(came))
    for batch in batches:
        assert batch == sorted(batch)
        assert len(batch) == size or (not drop_last and len(batch) < size)
        buckets = {sum(edge < lengths[item] for edge in edges) for item in batch}
        assert len(buckets) == 1
    left = set(range(len(lengths))) - set(came)
    assert not left or drop_last
    for bucket in range(len(edges) + 1):
        inside = [i for i in left if sum(edge < lengths[i] for edge in edges) == bucket]
        assert len(inside) < size
