"""Collections of damaged files, of readers that die, and of options that cannot work.

1. What is wrong names the dataset and its chunk; with `skip_damaged` only that dataset is missing.
2. A reader's death costs nothing but time.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import shot_files
from processes import readers
from shot_files import PATTERN, SHOTS

import multitables
from _multitables import _core, options
from _multitables.index.types import plugins
from _multitables.parent.collection import item_blocks
from _multitables.plan import collection as plan
from multitables import CorruptChunkError, CorruptChunkWarning, OptionsError, Streamer


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    return shot_files.write(tmp_path / "shots.h5", kinds=shot_files.SUMMED)


@pytest.mark.parametrize("name", ["summed", "gzip"])
def test_damage_is_told_with_its_address(shots: Path, name: str) -> None:
    offset = shot_files.hurt(shots, f"/shots/10/signals/{name}")
    items = Streamer(shots).get_collection(PATTERN, order="key", n_procs=2)
    came = []
    with pytest.raises(CorruptChunkError, match=f"/shots/10/signals/{name}") as caught:
        came += [item.key for item in items]
    assert caught.value.path == f"/shots/10/signals/{name}"  # type: ignore[attr-defined]
    assert caught.value.chunk_offset == offset  # type: ignore[attr-defined]
    with pytest.raises(CorruptChunkError):
        list(items)


@pytest.mark.parametrize("by", [0, 1])
def test_damage_is_skipped(shots: Path, by: int) -> None:
    for dataset in ("/shots/10/signals/summed", "/shots/1050002/signals/gzip"):
        shot_files.hurt(shots, dataset)
    items = Streamer(shots).get_collection(
        PATTERN, by, n_procs=2, skip_damaged=True, epochs=2, scales=False
    )
    with pytest.warns(CorruptChunkWarning) as told:
        came = list(items)
    assert len(told) == 2
    missing = [("10", "summed"), ("1050002", "gzip")]
    assert len(came) == 2 * len(items.keys)
    for item in came:
        lost = {pair[1 - by] for pair in missing if pair[by] == item.key}
        assert set(item.damaged) == lost
        assert set(item) == set(items.names(item.key)) - lost
        assert all(isinstance(error, CorruptChunkError) for error in item.damaged.values())
    with h5py.File(shots) as file:
        for item in came:
            for name, array in item.items():
                shot, signal_name = (item.key, name) if by == 0 else (name, item.key)
                np.testing.assert_array_equal(array, file[f"shots/{shot}/signals/{signal_name}"])


def test_damage_is_noted_once_for_all_iterations(shots: Path) -> None:
    shot_files.hurt(shots, "/shots/9/signals/gzip")
    with Streamer(shots).get_collection(PATTERN, n_procs=1, skip_damaged=True) as items:
        assert items.damage == []
        with pytest.warns(CorruptChunkWarning, match="/shots/9/signals/gzip"):
            list(items)
        again = {item.key: item for item in items}  # a second warning would be an error
        assert list(again["9"].damaged) == ["gzip"]
        assert items.damage == list(again["9"].damaged.values())


def test_a_damaged_scale_is_missing(shots: Path) -> None:
    shot_files.hurt(shots, "/shots/9/fast")
    items = Streamer(shots).get_collection(PATTERN, by=1, n_procs=1, skip_damaged=True)
    with pytest.warns(CorruptChunkWarning, match="/shots/9/fast"):
        came = {item.key: item for item in items}
    assert came["gzip"].scales["9"] == ({},)
    assert list(came["gzip"].scales["10"][0]) == ["fast"]
    assert "9" in came["gzip"]


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("n_procs", [1, 2])
def test_readers_that_die_are_replaced(
    shots: Path, by: int, n_procs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SHARE_BYTES", 1 << 10)
    monkeypatch.setattr(item_blocks, "MAX_AHEAD", 2)
    items = Streamer(shots).get_collection(PATTERN, by, epochs=10, n_procs=n_procs)
    came = 0
    with h5py.File(shots) as file:
        for item in items:
            came += 1
            if came in (3, 12):
                os.kill(readers()[0], signal.SIGKILL)
            for name, array in item.items():
                shot, signal_name = (item.key, name) if by == 0 else (name, item.key)
                np.testing.assert_array_equal(array, file[f"shots/{shot}/signals/{signal_name}"])
    assert came == 10 * len(items.keys)
    if n_procs == 1:  # of two, the other one may have done all that was left
        assert items.statistics()["readers_replaced"] == 2


def test_a_file_that_changes(shots: Path) -> None:
    items = Streamer(shots).get_collection(PATTERN, n_procs=1)
    with h5py.File(shots, "a") as file:
        file["more"] = np.arange(10_000)
    with pytest.raises(multitables.FileChangedError):
        list(items)


def test_readers_share_large_items(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARE_BYTES", 1 << 10)
    monkeypatch.setattr(item_blocks, "MAX_AHEAD", 1)
    items = Streamer(shots).get_collection(PATTERN, n_procs=2, epochs=20)
    with h5py.File(shots) as file:
        for item in items:
            shot_files.same_item(item, dict(file[f"shots/{item.key}/signals"]))
    told = items.statistics()
    assert all(reader["tasks"] > 0 for reader in told["readers"])


def test_an_item_larger_than_the_ring_says_what_would_do(shots: Path) -> None:
    with pytest.raises(OptionsError, match="ring_bytes of at least") as caught:
        Streamer(shots).get_collection(PATTERN, ring_bytes=1000)
    enough = caught.value.expected  # type: ignore[attr-defined]
    with pytest.raises(OptionsError):
        Streamer(shots).get_collection(PATTERN, ring_bytes=enough - 1)
    items = Streamer(shots).get_collection(PATTERN, ring_bytes=enough, n_procs=2, epochs=3)
    assert sum(1 for _ in items) == 3 * len(SHOTS)


def test_a_user_who_holds_all_is_told(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "STALL_SECONDS", 0.2)
    with pytest.raises(OptionsError) as caught:
        Streamer(shots).get_collection(PATTERN, ring_bytes=1)
    enough = caught.value.expected  # type: ignore[attr-defined]
    items = Streamer(shots).get_collection(PATTERN, ring_bytes=enough, epochs=None, n_procs=1)
    kept: list[Any] = []

    with pytest.raises(multitables.StalledError, match="you hold"):
        kept.extend(dict(item) for item in items)
    with h5py.File(shots) as file:
        assert any(
            np.array_equal(kept[0]["gzip"], file[f"shots/{shot}/signals/gzip"]) for shot in SHOTS
        )


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"path": "/shots/9/signals/gzip"}, "has no wildcard"),
        ({"by": 2}, "by is out of range: expected 'file', or less than the 2 wildcards"),
        ({"by": -1}, "by is out of range"),
        ({"order": "fast"}, "order is unknown: expected 'random', 'file', 'key', got 'fast'"),
        ({"seed": -1}, "seed is out of range"),
        ({"epochs": 0}, "epochs is out of range"),
        ({"rank": 2, "world_size": 2}, "rank is out of range"),
        ({"ring_bytes": 0}, "ring_bytes is out of range"),
    ],
)
def test_options_that_cannot_work(shots: Path, given: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionsError, match=match):
        Streamer(shots).get_collection(**{"path": PATTERN, **given})


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("/shot/*/signals/*", "no 'shot' in '/'"),
        ("/shots/7*/signals/*", "no '7[*]' in '/shots'"),
        ("/shots/*/signal/*", "no 'signal' in '/shots/[0-9]*' and 4 others"),
        ("/shots/*", "no 'dataset' in '/shots/[0-9]*' and 4 others"),
    ],
)
def test_nothing_matches(shots: Path, path: str, match: str) -> None:
    with pytest.raises(multitables.MissingDatasetError, match=match):
        Streamer(shots).get_collection(path)


def test_a_string_whose_bytes_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "damaged.h5"
    with h5py.File(path, "w") as file:
        file["a/x"] = "a text"
        at = file["a/x"].id.get_offset()
    with path.open("r+b") as raw:
        raw.seek(at + 4)
        raw.write(b"\xff\xff\xff\x7f")  # where the collection of the heap is
    items = Streamer(path).get_collection("/*/x", n_procs=1)
    with pytest.raises(multitables.CorruptFileError, match="/a/x"):
        list(items)


def test_a_file_that_changes_has_no_values(tmp_path: Path) -> None:
    path = tmp_path / "changed.h5"
    with h5py.File(path, "w") as file:
        file["a/x"] = "a text"
    items = Streamer(path).get_collection("/*/x", n_procs=1)
    with h5py.File(path, "a") as file:
        file["more"] = np.arange(10_000)
    with pytest.raises(multitables.FileChangedError):
        list(items)


def test_the_streamer_is_closed(shots: Path) -> None:
    streamer = Streamer(shots)
    streamer.close()
    with pytest.raises(multitables.ClosedError):
        streamer.get_collection(PATTERN)


@pytest.mark.usefixtures("few_filters")
def test_what_a_library_reads_comes_beside(tmp_path: Path) -> None:
    kinds = {name: shot_files.KINDS[name] for name in ("gzip", "scaleoffset", "virtual")}
    path = shot_files.write(tmp_path / "a.h5", kinds=kinds, shots=(1, 2))
    items = Streamer(path).get_collection(PATTERN, n_procs=1)
    with h5py.File(path) as file:
        for item in items:
            shot_files.same_item(item, dict(file[f"shots/{item.key}/signals"]))
    assert items.statistics()["library_requests"] == 2


@pytest.mark.usefixtures("without_plugins")
def test_a_library_reads_what_readers_turn_out_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "plugin_of", lambda _: "a plugin that does not load")
    path, numbers = tmp_path / "a.h5", np.arange(1000.0)
    with h5py.File(path, "w") as file:
        for key in "ab":
            options = dict(hdf5plugin.Zfp(reversible=True))
            file.create_dataset(f"{key}/x", data=numbers, chunks=(100,), **options)
            file[f"{key}/y"] = -numbers
    items = Streamer(path).get_collection("/*/*", n_procs=1)
    for item in items:
        np.testing.assert_array_equal(item["x"], numbers)
        np.testing.assert_array_equal(item["y"], -numbers)
    assert items.statistics()["library_requests"] > 0


def test_no_plugin_reads_a_file_that_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shot_files.write(tmp_path / "a.h5", kinds={"odd": shot_files.KINDS["scaleoffset"]})
    native = {n: name for n, name in _core.native_filters().items() if n != 6}
    monkeypatch.setattr(_core, "native_filters", lambda: native)
    monkeypatch.setattr(plugins, "plugin_of", lambda _: "a plugin")
    items = Streamer(path, trusted=False).get_collection(PATTERN, n_procs=1)
    with pytest.raises(multitables.UnsupportedDatasetError, match="trusted"):
        list(items)
