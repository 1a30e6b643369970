"""Items of many datasets, of every kind of storage and in every order.

1. The oracle is h5py, dataset by dataset, with scales and attributes.
2. Orders are permutations; ranks share items out; a state goes on where it was taken.
"""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shot_files import PATTERN, SHOTS

import multitables
from multitables import Streamer


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shot_files.write(tmp_path_factory.mktemp("shots") / "shots.h5")


def datasets(file: h5py.File, by: int = 0) -> dict[str, dict[str, h5py.Dataset]]:
    """Key -> name -> dataset."""
    found: dict[str, dict[str, h5py.Dataset]] = collections.defaultdict(dict)
    for shot, group in file["shots"].items():
        for name, data in group["signals"].items():
            found[(shot, name)[by]][(name, shot)[by]] = data
    return dict(found)


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("order", ["random", "file", "key"])
@pytest.mark.parametrize("n_procs", [1, 3])
@pytest.mark.parametrize("driver", [{}, {"DRIVER": "H5FD_DIRECT"}], ids=["buffered", "direct"])
def test_items_equal_h5py(
    shots: Path, by: int, order: str, n_procs: int, driver: dict[str, Any]
) -> None:
    streamer = Streamer(shots, **driver)
    with (
        h5py.File(shots) as file,
        streamer.get_collection(
            PATTERN, by, order=order, n_procs=n_procs, attrs=("shot", "units")
        ) as items,
    ):
        expected = datasets(file, by)
        assert sorted(items.keys) == sorted(expected)
        assert len(items) == len(expected)
        came = []
        for item in items:
            came.append(item.key)
            shot_files.same_item(item, expected[item.key])
            for name, data in expected[item.key].items():
                wanted = {"shot", "units"} & data.attrs.keys()
                assert item.attrs[name] == {one: data.attrs[one] for one in wanted}
        assert sorted(came) == sorted(expected)
        assert came == items.order(0)
        statistics = items.statistics()
        assert statistics["readers_replaced"] == 0


def test_an_item_is_a_mapping(shots: Path) -> None:
    with Streamer(shots) as streamer:
        items = streamer.get_collection(PATTERN, order="key", scales=False)
        assert items.keys == [str(shot) for shot in SHOTS]
        first = next(iter(items))
        assert items.names("9") == sorted(first)
        assert first.key == "9"
        assert "gzip" in first
        assert "nothing" not in first
        assert list(first) == list(first.keys())
        assert dict(first.scales) == {}
        assert dict(first.attrs) == {}
        assert repr(first).startswith("<Item '9': ")
        with pytest.raises(KeyError):
            items.names("8")


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("driver", [{}, {"DRIVER": "H5FD_DIRECT"}], ids=["buffered", "direct"])
def test_what_has_no_rows_comes_as_a_handle_gives_it(
    tmp_path: Path, by: int, driver: dict[str, Any]
) -> None:
    kinds = {**shot_files.LONE, "plain": shot_files.KINDS["plain"]}
    path = shot_files.write(tmp_path / "lone.h5", kinds=kinds)
    with h5py.File(path, "a") as file:
        for shot in file["shots"].values():
            shot["signals/plain"].dims[0].attach_scale(shot["signals/null"])
            shot["signals/plain"].attrs["none"] = h5py.Empty("i2")
    options: Any = {"n_procs": 2, "epochs": 2, "attrs": ("units", "none"), "order": "file"}
    streamer = Streamer(path, **driver)
    items = streamer.get_collection(PATTERN, by, **options)
    with h5py.File(path) as file, multitables.open(path) as handles:
        came = 0
        for item in items:
            came += 1
            if came == 2:
                state = items.state_dict()
            for one in (item, pickle.loads(pickle.dumps(item.copy()))):
                for name, got in one.items():
                    shot, signal_name = (item.key, name) if by == 0 else (name, item.key)
                    at = f"shots/{shot}/signals/{signal_name}"
                    expected, stored = handles[at][()], file[at][()]
                    assert type(got) is type(expected)
                    np.testing.assert_equal(got, expected)
                    if isinstance(expected, bytes | np.ndarray):
                        np.testing.assert_equal(got, stored)
                    if signal_name == "plain":
                        scales = one.scales[name][0]
                        assert scales["null"] == multitables.Empty("f4")
                        assert one.attrs[name]["none"] == multitables.Empty("i2")
        assert came == 2 * len(items.keys)
    items.load_state_dict(state)
    assert len(list(items)) == came - 2


def test_every_array_is_aligned(shots: Path) -> None:
    for item in Streamer(shots).get_collection(PATTERN, n_procs=2):
        for name, array in item.items():
            if array.size and name not in ("scaleoffset", "virtual"):
                assert array.ctypes.data % 64 == 0


def test_views_stay_as_they_are(shots: Path) -> None:
    with h5py.File(shots) as file:
        expected = datasets(file)
        items = Streamer(shots).get_collection(PATTERN, n_procs=2, epochs=3)
        kept = [(item.key, dict(item)) for item in items]
        assert len(kept) == 3 * len(SHOTS)
        for key, arrays in kept:
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, expected[key][name][()])


def test_one_wildcard_names_datasets_by_the_last_part(shots: Path) -> None:
    with h5py.File(shots) as file:
        for item in Streamer(shots).get_collection("shots/*/signals/gzip", n_procs=1):
            shot_files.same_item(item, {"gzip": file[f"shots/{item.key}/signals/gzip"]})
    items = Streamer(shots).get_collection("/shots/10/signals/[hn]a*", n_procs=1, order="key")
    assert [(item.key, list(item)) for item in items] == [("narrow", ["narrow"])]


def test_parts_of_names(shots: Path) -> None:
    items = Streamer(shots).get_collection("/shots/105000?/signals/*big*")
    assert items.keys == [key for key in map(str, SHOTS) if len(key) == 7]
    assert all(list(item) in (["big_endian"], []) for item in items)


def test_links_are_followed(tmp_path: Path) -> None:
    path, other = tmp_path / "links.h5", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["far/x"] = np.arange(5.0)
        file["ragged"] = 3
    with h5py.File(path, "w") as file:
        file["data/a/x"] = np.arange(3)
        file["data/b"] = h5py.SoftLink("/data/a")
        file["data/c"] = h5py.ExternalLink("other.h5", "/far")
        file["data/d"] = h5py.SoftLink("/nowhere")
        file["data/e/x"] = h5py.ExternalLink("missing.h5", "/x")
        file["data/f"] = 1  # no group
        file["data/g/x"] = file["data/a/x"]
    items = Streamer(path).get_collection("/data/*/x", order="key", n_procs=1)
    found = {item.key: item["x"].tolist() for item in items}
    assert found == {"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2, 3, 4], "g": [0, 1, 2]}


def test_a_dataset_that_is_virtual_in_another_file_is_read_by_its_link(tmp_path: Path) -> None:
    path, other = tmp_path / "links.h5", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        shot_files.KINDS["virtual"](file, "v", np.random.default_rng(0))
        expected = file["v"][()]
    with h5py.File(path, "w") as file:
        file["data/a/x"] = h5py.ExternalLink("other.h5", "/v")
    (item,) = Streamer(path).get_collection("/data/*/x", n_procs=1)
    np.testing.assert_array_equal(item["x"], expected)


def test_random_orders_differ_by_epoch_and_seed(shots: Path) -> None:
    items = Streamer(shots).get_collection(PATTERN, by=1, seed=3, epochs=2, n_procs=2)
    came = [item.key for item in items]
    n = len(items.keys)
    assert came == items.order(0) + items.order(1)
    assert came[:n] != came[n:]
    assert sorted(came[:n]) == sorted(came[n:]) == sorted(items.keys)
    again = Streamer(shots).get_collection(PATTERN, by=1, seed=3)
    other = Streamer(shots).get_collection(PATTERN, by=1, seed=4)
    assert again.order(1) == came[n:]
    assert other.order(0) != came[:n]
    assert items.epoch == 2
    items.set_epoch(0)
    assert [item.key for item in items] == came


def test_file_order_is_that_of_the_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "order.h5"
    with h5py.File(path, "w") as file:
        for key in ("c", "a", "b"):
            file.create_dataset(f"x/{key}", data=np.arange(5000))
    items = Streamer(path).get_collection("/x/*", order="file", n_procs=1)
    assert [item.key for item in items] == ["c", "a", "b"]


@pytest.mark.parametrize("world_size", [2, 3, 20])
def test_ranks_share_the_items(shots: Path, world_size: int) -> None:
    came = []
    for rank in range(world_size):
        options: Any = {"by": 1, "rank": rank, "world_size": world_size, "n_procs": 1}
        items = Streamer(shots).get_collection(PATTERN, **options)
        mine = [item.key for item in items]
        assert len(mine) == len(items)
        came += mine
    assert sorted(came) == sorted(items.keys)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    taken=st.integers(0, 30),
    ranks=st.integers(1, 3),
    ranks_then=st.integers(1, 3),
    order=st.sampled_from(["random", "key"]),
)
def test_a_state_goes_on_where_it_was_taken(
    shots: Path, taken: int, ranks: int, ranks_then: int, order: str
) -> None:
    options: Any = {"by": 1, "order": order, "epochs": 2, "n_procs": 1, "scales": False}
    before, states = collections.Counter[str](), []
    taken = min(taken, 17 // ranks)
    for rank in range(ranks):
        items = Streamer(shots).get_collection(PATTERN, rank=rank, world_size=ranks, **options)
        iterator = iter(items)
        before.update(next(iterator).key for _ in range(taken))
        states.append(items.state_dict())
        iterator.close()
    after = collections.Counter[str]()
    for rank in range(ranks_then):
        items = Streamer(shots).get_collection(PATTERN, rank=rank, world_size=ranks_then, **options)
        items.load_state_dict(states)
        n = len(items)
        mine = [item.key for item in items]
        assert len(mine) == n
        after.update(mine)
        assert len(items) == 2 * len([None for _ in items.order(2)])
    assert before + after == collections.Counter(items.keys * 2)


def test_a_state_of_other_items_is_refused(shots: Path) -> None:
    state = Streamer(shots).get_collection(PATTERN).state_dict()
    for options in ({"by": 1}, {"seed": 1}, {"order": "key"}):
        items = Streamer(shots).get_collection(PATTERN, **options)
        with pytest.raises(multitables.OptionsError, match="the state is of other batches"):
            items.load_state_dict(state)


def test_the_end_is_told_by_the_state(shots: Path) -> None:
    items = Streamer(shots).get_collection(PATTERN, n_procs=1)
    for _ in items:
        last = items.state_dict()
    assert items.epoch == 1
    again = Streamer(shots).get_collection(PATTERN, n_procs=1)
    again.load_state_dict(last)
    assert list(again) == []
    again.load_state_dict(items.state_dict())
    assert len(list(again)) == len(SHOTS)


def test_endless_items(shots: Path) -> None:
    items = Streamer(shots).get_collection(PATTERN, epochs=None, n_procs=2)
    with pytest.raises(TypeError, match="epochs is None"):
        len(items)
    iterator = iter(items)
    came = [next(iterator).key for _ in range(12)]
    assert came == (items.order(0) + items.order(1) + items.order(2))[:12]
    iterator.close()
    with pytest.raises(StopIteration):
        next(iterator)


def test_nothing_of_a_rank_without_items(shots: Path) -> None:
    options: Any = {"rank": 0, "world_size": 50, "epochs": None, "n_procs": 1}
    assert list(Streamer(shots).get_collection(PATTERN, **options)) == []


def test_a_scale_that_items_share_is_read_once(shots: Path) -> None:
    items = Streamer(shots).get_collection("/shots/*/signals/[!v]*", by=1, n_procs=1)
    with h5py.File(shots) as file:
        stored = [
            data
            for shot in file["shots"].values()
            for data in (*shot["signals"].values(), shot["fast"], shot["slow"])
            if "/v" not in data.name and data.id.get_storage_size()
        ]
        chunks = sum(data.id.get_num_chunks() if data.chunks else 1 for data in stored)
        for item in items:
            shot_files.same_item(item, datasets(file, 1)[item.key])
    (reader,) = items.statistics()["readers"]
    assert reader["chunks"] == chunks


def test_readers_are_kept_between_streams(shots: Path) -> None:
    with Streamer(shots) as streamer:
        items = streamer.get_collection(PATTERN, n_procs=2)
        assert len(list(items)) == len(SHOTS)
        pids = streamer._reader_pool._resting[0].pids
        assert len(list(items)) == len(SHOTS)
        assert streamer._reader_pool._resting[0].pids == pids


def test_items_that_the_user_s_thread_reads_are_not_requested_ahead(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "little.h5", "w") as file:
        for name in "abc":
            file[name] = np.arange(5)
    with Streamer(tmp_path / "little.h5").get_collection("/*") as items:
        iterator = iter(items)
        next(iterator)
        assert iterator.statistics()["tasks_pending"] == 0
        assert len(list(iterator)) == 2


def test_what_it_says_of_itself(shots: Path) -> None:
    items = Streamer(shots).get_collection(PATTERN, n_procs=1)
    assert "5 items, order='random', 1 reader" in repr(items)
    iterator = iter(items)
    assert "ItemIterator" in repr(iterator)
    items.close()
    with pytest.raises(multitables.ClosedError, match="get_collection"):
        iter(items)


def test_paths_begin_at_the_root_that_was_given(shots: Path) -> None:
    items = Streamer(shots, root_uep="/shots").get_collection("*/signals/[gv]*", n_procs=1)
    with h5py.File(shots) as file:
        for item in items:
            group = file[f"shots/{item.key}/signals"]
            shot_files.same_item(item, {name: group[name] for name in group if name[0] in "gv"})


def test_a_file_that_is_split_is_read_by_a_library(tmp_path: Path) -> None:
    path = tmp_path / "split"
    with h5py.File(path, "w", driver="split") as file:
        for key in "ab":
            file[f"{key}/x"] = np.arange(5000) * ord(key)
    items = Streamer(path, DRIVER="H5FD_SPLIT").get_collection("/*/x", n_procs=1)
    for item in items:
        np.testing.assert_array_equal(item["x"], np.arange(5000) * ord(item.key))
    assert items.statistics()["library_requests"] == 2


def test_references_of_kerchunk(shots: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for key in "ab":
            file.create_dataset(f"{key}/x", data=np.arange(100) * ord(key), chunks=(30,))
            file.create_group(f"{key}/group")
    multitables.index_file(tmp_path / "a.h5", tmp_path / "a.json", progress=False)
    items = Streamer(tmp_path / "a.json").get_collection("/*/*", order="key", n_procs=1)
    found = {item.key: {name: array.tolist() for name, array in item.items()} for item in items}
    assert found == {key: {"x": (np.arange(100) * ord(key)).tolist()} for key in "ab"}


@pytest.mark.parametrize("by", [0, 1])
def test_names_that_go_on_with_a_number(tmp_path: Path, by: int) -> None:
    names = ["ip", "ip2", "ip10", "2", "10", "a2b", "a10"]
    expected = ["2", "10", "a2b", "a10", "ip", "ip2", "ip10"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, name in enumerate(names):
            file[f"{name}/x" if by == 0 else f"x/{name}"] = np.array([number])
    with Streamer(tmp_path / "a.h5") as streamer:
        items = list(streamer.get_collection("/*/*", order="key"))
        if by == 0:
            assert [(item.key, list(item)) for item in items] == [(one, ["x"]) for one in expected]
        else:
            assert [(item.key, list(item)) for item in items] == [("x", expected)]
