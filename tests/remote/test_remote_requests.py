"""How many requests things take: counts, which a slow network multiplies.

Law
---
1. The proxy's log has the requests; bounds are a little above the need of the structures.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from oracle import same, streamed
from plain_server import Sent, plain_server
from remote_files import FORMS, Remote, noise, write

import multitables
from _multitables.benchmark.objects.faults import Request
from multitables import Streamer

N_DATASETS = 3000


def span(request: Request) -> tuple[int, int]:
    first, last = request.range.removeprefix("bytes=").split("-")
    return int(first), int(last) + 1


def test_opening_a_small_file(tmp_path: Path, remote: Remote) -> None:
    with h5py.File(tmp_path / "small.h5", "w") as file:
        file["x"] = np.arange(5)
    name = remote.put(tmp_path / "small.h5")
    for options, wanted in (
        # Both at a time: none waits for the other.
        ({}, [("GET", "data.h5"), ("GET", "data.h5.mtidx")]),
        ({"looks_for_index": False}, [("GET", "data.h5")]),
    ):
        remote.requests()
        with multitables.open(name, storage_options=remote.options(**options)) as file:
            assert list(file) == ["x"]
            assert file["x"].shape == (5,)
            asked = [(one.method, one.path.rpartition("/")[2]) for one in remote.requests()]
            assert sorted(asked) == wanted


def test_a_stream_opens_its_object_once(tmp_path: Path, remote: Remote) -> None:
    with h5py.File(tmp_path / "small.h5", "w") as file:
        file["x"] = np.arange(5)
    name = remote.put(tmp_path / "small.h5")
    options = remote.options(looks_for_index=False)
    remote.requests()
    with Streamer(name, storage_options=options) as streamer:
        with streamer.get_queue("x", block_size=5) as queue, queue.get() as block:
            same(np.array(block), np.arange(5))
        asked = [span(one) for one in remote.requests()]
        assert len([one for one in asked if one[0] == 0]) == 1, asked


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_parts_of_a_dataset_are_requested_at_a_time(
    tmp_path: Path, compression: str | None
) -> None:
    path, data = tmp_path / "data.h5", noise(64, 1 << 15)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(1, 1 << 15), compression=compression)
    together, begun = threading.Barrier(8), itertools.count()

    def status(sent: Sent) -> int:
        is_data = int(sent.headers["range"][6:].split("-")[0]) > 0
        if is_data and next(begun) < together.parties:
            together.wait(20)  # until as many have come
        return 0

    objects = {"/data.h5": path.read_bytes()}
    with (
        plain_server(objects=objects, status=status) as server,
        multitables.open(f"{server.endpoint}/data.h5") as file,
    ):
        same(file["x"][...], data)
    assert not together.broken


def test_files_of_a_list_are_opened_at_a_time(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("x", data=np.arange(5), chunks=(5,))
    names = [f"/{number}.h5" for number in range(9)]
    together = threading.Barrier(8)

    def status(sent: Sent) -> int:
        if sent.path in names[1:] and sent.headers["range"].startswith("bytes=0-"):
            together.wait(20)  # the first file alone says what there is
        return 0

    objects = dict.fromkeys(names, (tmp_path / "data.h5").read_bytes())
    with plain_server(objects=objects, status=status) as server:
        urls = [server.endpoint + name for name in names]
        rows, _ = streamed(urls, "x", n_procs=1)  # type: ignore[arg-type]
    same(rows, np.tile(np.arange(5), 9))
    assert not together.broken


def test_the_first_block_waits_for_no_large_request(tmp_path: Path) -> None:
    path, data = tmp_path / "data.h5", noise(64, 1 << 15)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(1, 1 << 15))
    chunk_bytes, first_has_come = data.nbytes // 64, threading.Event()

    def status(sent: Sent) -> int:
        begin, end = map(int, sent.headers["range"][6:].split("-"))
        if end - begin >= 2 * chunk_bytes:
            first_has_come.wait(20)
        return 0

    with plain_server(objects={"/data.h5": path.read_bytes()}, status=status) as server:
        with multitables.Streamer(f"{server.endpoint}/data.h5").get_queue("x", 1) as queue:
            with queue.get(timeout=15) as block:
                same(np.array(block), data[: len(block)])
            first_has_come.set()
            got = [np.array(rows) for rows in _blocks(queue)]
        same(np.concatenate(got), data[1:])


def _blocks(queue: multitables.StreamQueue) -> Iterator[np.ndarray]:
    for guard in queue:
        with guard as block:
            yield block


def test_with_an_index(tmp_path: Path, remote: Remote) -> None:
    path = write(tmp_path / "data.h5", **FORMS["old"])
    name, options = remote.put(path), remote.options()
    assert multitables.index_file(name, progress=False, storage_options=options) == f"{name}.mtidx"
    remote.requests()
    with multitables.open(name, storage_options=options) as file, h5py.File(path) as expected:
        assert {name: file[name].shape for name in file if name != "group"} == {
            name: expected[name].shape for name in expected if name != "group"
        }
        assert [one.method for one in remote.requests()] == ["HEAD"]
    for cached in (tmp_path / "cache").rglob("*.mtidx"):
        cached.unlink()
    for wanted in (["GET", "GET"], ["HEAD"]):  # the index beside it is fetched once
        with multitables.open(name, storage_options=options) as file:
            assert file["filters"].chunks == (50, 16)
        asked = remote.requests()
        assert [one.method for one in asked[: len(wanted)]] == wanted
        assert {one.path.rpartition(".")[2] for one in asked} <= {"h5", "mtidx"}
    remote.put(write(tmp_path / "data.h5", **FORMS["new"]))  # neither index is of this version
    with multitables.open(name, storage_options=options) as file:
        same(file["filters"][:9], noise(2000, 16, seed=2)[:9])


@pytest.mark.parametrize(("form", "most"), [("old", 110), ("new", 30), ("pages", 30)])
def test_many_datasets(form: str, most: int, tmp_path: Path, remote: Remote) -> None:
    """Metadata lies between chunks here: all of the file is read, in blocks that grow."""
    path = tmp_path / "many.h5"
    with h5py.File(path, "w", **FORMS[form]) as file:
        for number in range(N_DATASETS):
            name, data = f"shots/{number // 30}/signals/s{number % 30}", noise(100, seed=number)
            file.create_dataset(name, data=data, chunks=(50,)).attrs["unit"] = "V"
    name, options = remote.put(path), remote.options(looks_for_index=False)
    remote.requests()
    with multitables.open(name, storage_options=options) as opened:
        found: list[Any] = []
        opened.visititems(lambda _, node: found.append(getattr(node, "shape", None)))
        assert found.count((100,)) == N_DATASETS
    visited = remote.requests()
    with Streamer(name, storage_options=options).get_collection("/shots/*/signals/*") as items:
        assert sum(len(items.names(key)) for key in items.keys) == N_DATASETS
        collected = remote.requests()
    for asked in (visited, collected):
        assert len(asked) < most
        assert sum(one.body_bytes for one in asked) < 1.1 * path.stat().st_size


class Waits:
    """Counts requests that come while no other is under way: requests at a time are one wait."""

    def __init__(self) -> None:
        self.count, self._under_way, self._lock = 0, 0, threading.Lock()

    def __call__(self, sent: Sent) -> int:
        with self._lock:
            self.count += self._under_way == 0
            self._under_way += 1
        time.sleep(0.05)  # longer than it takes to send requests at a time
        with self._lock:
            self._under_way -= 1
        return 0


@pytest.mark.parametrize("form", ["old", "new"])
def test_objects_far_apart_are_looked_at_together(form: str, tmp_path: Path) -> None:
    """Each level of the structures is a few waits, and no group or dataset has its own."""
    path, n_groups = tmp_path / "far.h5", 60
    with h5py.File(path, "w", **FORMS[form]) as file:
        for number in range(10 * n_groups):
            name, data = f"shots/{number // 10}/s{number % 10}", noise(1 << 14, seed=number)
            file.create_dataset(name, data=data, chunks=(1 << 13,))
    waits = Waits()
    with plain_server(objects={"/far.h5": path.read_bytes()}, status=waits) as server:
        url, options = f"{server.endpoint}/far.h5", {"looks_for_index": False}
        with multitables.open(url, storage_options=options) as opened:
            found: list[Any] = []
            opened.visititems(lambda _, node: found.append(getattr(node, "shape", None)))
            assert found.count((1 << 14,)) == 10 * n_groups
        visited, waits.count = waits.count, 0
        with Streamer(url, storage_options=options).get_collection("/shots/*/*") as items:
            assert sum(len(items.names(key)) for key in items.keys) == 10 * n_groups
        assert max(visited, waits.count) < 35


def test_pages_come_whole(tmp_path: Path, remote: Remote) -> None:
    path = write(tmp_path / "data.h5", **FORMS["pages"])
    name, options = remote.put(path), remote.options(looks_for_index=False)
    with multitables.open(name, storage_options=options) as file:
        assert file["group"].attrs["unit"] == "keV"
        assert file["filters"].chunks == (50, 16)
    page_bytes, size = FORMS["pages"]["fs_page_size"], path.stat().st_size
    asked = [span(one) for one in remote.requests()]
    for begin, end in asked:
        assert begin % page_bytes == 0
        assert end % page_bytes == 0 or end == size


@pytest.mark.parametrize("n_procs", [1, 2])
def test_neighbours_are_fetched_together(n_procs: int, tmp_path: Path, remote: Remote) -> None:
    data, most = noise(2048, 1024), 1 << 20
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(4, 1024))
    name: Any = remote.put(tmp_path / "data.h5")
    for gap, n_requests in ((0, data.nbytes / most), (1 << 16, data.nbytes / most)):
        options = remote.options(max_request_bytes=most, max_gap_bytes=gap)
        remote.requests()
        opened = {"storage_options": options}
        rows, _ = streamed(name, "x", open_options=opened, n_procs=n_procs, block_size=512)
        same(rows, data)
        asked = [one for one in remote.requests(".h5") if one.body_bytes > most // 4]
        assert all(one.body_bytes <= most for one in asked)
        assert n_requests <= len(asked) <= 1.5 * n_requests + 2


def test_gaps(tmp_path: Path, remote: Remote) -> None:
    """Every second chunk: with short gaps each is a request, with long ones they come together."""
    data = noise(256, 2048)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(1, 2048))
    name = remote.put(tmp_path / "data.h5")
    counts = []
    for gap in (0, 1 << 14):
        options = remote.options(max_gap_bytes=gap, looks_for_index=False)
        with multitables.open(name, storage_options=options) as file:
            chosen = file["x"]
            same(chosen[:1], data[:1])
            remote.requests()
            same(chosen[1::2], data[1::2])
            counts.append(len(remote.requests()))
    assert counts[0] >= 100
    assert counts[1] <= 4
