"""The direct queue: what each call promises, with data that tells which row it is.

1. Each test streams the self-checking file of `payload`.
2. Waiting is for an event, never for a time.
"""

from __future__ import annotations

import copy
import gc
import pickle
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from payload import BLOCK_BYTES, CHUNK, ROWS, check
from processes import children, readers, wait_until

import multitables

BLOCKS = ROWS // CHUNK


def open_queue(path: Path, dataset: str = "/rows", **options: Any) -> Any:
    return multitables.Streamer(path).get_queue(dataset, **{"n_procs": 2, **options})


def drain(stream: Any, start: int = 0) -> int:
    """Check every block to the end; returns the row after the last."""
    for guard in stream:
        with guard as block:
            start = check(block, start)
        del block
    return start


def test_blocks_in_order_to_the_end(numbered: Path) -> None:
    with open_queue(numbered) as stream:
        assert stream.block_size == CHUNK
        assert drain(stream) == ROWS


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("n_procs", [1, 2, 5])
def test_any_number_of_readers(numbered: Path, ordered: bool, n_procs: int) -> None:
    with open_queue(numbered, ordered=ordered, n_procs=n_procs, block_size=77) as stream:
        assert drain(stream) == ROWS // 77 * 77


def test_n_procs_by_default(numbered: Path) -> None:
    import os

    with multitables.Streamer(numbered).get_queue("/rows") as stream:
        assert len(stream.statistics()["readers"]) == min(4, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("block_size", [1, 49, 50, 51, 1000, ROWS - 1, ROWS])
def test_block_sizes_and_their_tails(numbered: Path, block_size: int) -> None:
    limit = 500 if block_size == 1 else ROWS
    for remainder in (False, True):
        lengths = []
        with open_queue(numbered, block_size=block_size, remainder=remainder) as stream:
            assert stream.block_size == block_size
            at = 0
            for guard in stream:
                with guard as block:
                    at = check(block, at)
                    lengths.append(len(block))
                del block, guard
                if at >= limit:
                    break
        if limit == ROWS:
            tail = [ROWS % block_size] if remainder and ROWS % block_size else []
            assert lengths == [block_size] * (ROWS // block_size) + tail


def test_a_block_larger_than_the_dataset(numbered: Path) -> None:
    with open_queue(numbered, block_size=ROWS + 1) as stream:
        assert stream.block_size == ROWS + 1
        assert stream.get() is multitables.QueueClosed
    with open_queue(numbered, block_size=ROWS + 1, remainder=True) as stream:
        with stream.get() as block:
            assert check(block, 0) == ROWS
        del block
        assert stream.get() is multitables.QueueClosed


def test_closed_at_every_later_call(numbered: Path) -> None:
    stream = open_queue(numbered)
    drain(stream)
    for _ in range(3):
        assert stream.get() is multitables.QueueClosed
        assert stream.get(timeout=0) is multitables.QueueClosed
        assert stream.get(timeout=5) is multitables.QueueClosed
        assert stream.get_nowait() is multitables.QueueClosed
        assert list(stream.iter()) == []
        assert list(stream) == []
    assert stream.qsize() == 0
    stream.close()
    assert stream.get() is multitables.QueueClosed


def test_the_readers_are_gone_at_the_end(numbered: Path) -> None:
    """Without `close`: the end of the stream is enough."""
    stream = open_queue(numbered)
    drain(stream)
    assert stream.get() is multitables.QueueClosed
    assert readers() == []
    assert children() == {}


def collect(stream: Any, held: list[Any]) -> None:
    while True:
        held.append(stream.get())


def hold_all(stream: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Take blocks and keep them, until the readers have no room for another."""
    held = []
    with monkeypatch.context() as patch:
        patch.setattr("_multitables.options.STALL_SECONDS", 0.1)
        with pytest.raises(multitables.StalledError):
            collect(stream, held)
    assert len(held) >= 2
    return held


def test_get_nowait_raises_empty_of_the_standard_library(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(numbered, read_ahead=1, cyclic=True) as stream:
        held = hold_all(stream, monkeypatch)
        for _ in range(2):
            with pytest.raises(queue.Empty):
                stream.get_nowait()
            with pytest.raises(queue.Empty):
                stream.get(timeout=0.0)
            with pytest.raises(queue.Empty):
                stream.get(timeout=0.05)
            with pytest.raises(queue.Empty):
                stream.get(False)
            with pytest.raises(queue.Empty):
                stream.get(block=False, timeout=100.0)
        at = 0
        while held:
            with held.pop(0) as block:
                at = check(block, at)
            del block
        with stream.get(timeout=50.0) as block:  # the readers go on where they stood
            check(block, at)
        del block


def test_a_timeout_that_is_not_one(numbered: Path) -> None:
    with open_queue(numbered) as stream, pytest.raises(ValueError, match="timeout"):
        stream.get(timeout=-1)


def test_a_get_that_waits_is_ended_by_close(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_queue(numbered, cyclic=True, read_ahead=1) as stream:
        held = hold_all(stream, monkeypatch)
        got: list[Any] = []
        waiting = threading.Event()

        def wait() -> None:
            waiting.set()
            got.append(stream.get())

        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        stream.close()
        thread.join(20)
        assert got == [multitables.QueueClosed]
        with held[0] as block:  # what is held stays valid
            check(block, 0)
        del block


def test_close_is_idempotent_and_stops_the_readers(numbered: Path) -> None:
    stream = open_queue(numbered, cyclic=True)
    with stream.get() as block:
        check(block, 0)
    del block
    for _ in range(3):
        stream.close()
        assert children() == {}
        assert stream.get() is multitables.QueueClosed
        assert stream.get_nowait() is multitables.QueueClosed
        assert stream.qsize() == 0


def test_close_from_many_threads_at_once(numbered: Path) -> None:
    stream = open_queue(numbered, cyclic=True)
    threads = [threading.Thread(target=stream.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert children() == {}
    assert stream.get() is multitables.QueueClosed


def test_leaving_the_context_closes(numbered: Path) -> None:
    with open_queue(numbered, cyclic=True) as stream:
        assert readers()
    assert children() == {}
    assert stream.get() is multitables.QueueClosed


def test_dropping_the_queue_stops_the_readers(numbered: Path) -> None:
    stream = open_queue(numbered, cyclic=True)
    assert readers()
    del stream
    assert children() == {}


def test_the_queue_outlives_its_streamer(numbered: Path) -> None:
    """`Streamer(...).get_queue(...)` in one line is how people write it."""
    stream = open_queue(numbered)
    assert drain(stream) == ROWS


def test_the_singleton_survives_copies() -> None:
    closed = multitables.QueueClosed
    assert copy.copy(closed) is closed
    assert copy.deepcopy([closed])[0] is closed
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(closed, protocol)) is closed
    assert type(closed)() is closed
    assert repr(closed) == "multitables.QueueClosed"
    with pytest.raises(TypeError):
        type("Other", (type(closed),), {})


@pytest.mark.parametrize("block_size", [7, 50, 100, 4999, 6000, 6001, 15_000])
def test_cyclic_blocks_cross_the_end(numbered: Path, block_size: int) -> None:
    with open_queue(numbered, cyclic=True, block_size=block_size) as stream:
        at = 0
        while at < 3 * ROWS:
            with stream.get() as block:
                assert len(block) == block_size
                assert check(block, at % ROWS) == at % ROWS + block_size
            del block
            at += block_size
        assert stream.statistics()["blocks_total"] is None


def test_a_block_across_the_end_is_no_copy(numbered: Path) -> None:
    """One array on the ring, contiguous, in one piece."""
    with open_queue(numbered, cyclic=True, block_size=ROWS - 10) as stream:
        with stream.get():
            pass
        with stream.get() as block:
            assert block.flags.c_contiguous
            assert not block.flags.owndata
            assert not isinstance(block.base, np.ndarray)
            check(block, ROWS - 10)
        del block


def test_cyclic_of_a_single_row(h5: Path) -> None:
    import h5py

    with h5py.File(h5, "w") as file:
        file["x"] = np.array([[7, 8]], "<i4")
    with open_queue(h5, "/x", cyclic=True, block_size=5, n_procs=3) as stream:
        for _ in range(200):
            with stream.get() as block:
                np.testing.assert_array_equal(block, [[7, 8]] * 5)
            del block


def test_many_threads_get_each_block_once(numbered: Path) -> None:
    """Eight threads on one queue: together they see every row, each exactly once."""
    stream = open_queue(numbered, block_size=7, read_ahead=3)
    seen: list[list[int]] = [[] for _ in range(8)]
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def consume(mine: list[int]) -> None:
        try:
            start.wait()
            while (guard := stream.get()) is not multitables.QueueClosed:
                with guard as block:
                    end = check(block)
                    mine.append(end - len(block))
                del block, guard
            assert stream.get() is multitables.QueueClosed
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=consume, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not errors
    assert sorted(row for mine in seen for row in mine) == list(range(0, ROWS // 7 * 7, 7))
    for mine in seen:
        assert mine == sorted(mine)


def test_many_threads_share_one_iterator(numbered: Path) -> None:
    stream = open_queue(numbered, block_size=7, read_ahead=3)
    guards, seen, errors = iter(stream), list[int](), list[BaseException]()

    def consume() -> None:
        try:
            for guard in guards:
                with guard as block:
                    seen.append(check(block) - len(block))
                del block, guard
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not errors
    assert sorted(seen) == list(range(0, ROWS // 7 * 7, 7))
    assert next(guards, None) is None


def test_iterators_of_a_closed_queue(numbered: Path) -> None:
    stream = open_queue(numbered, cyclic=True)
    guards = iter(stream)
    with next(guards) as block:
        check(block, 0)
    stream.close()
    assert list(guards) == list(stream) == []


def test_an_iterator_that_its_queue_keeps_is_garbage(numbered: Path) -> None:
    stream = open_queue(numbered, cyclic=True)
    stream.guards = iter(stream)
    assert readers()
    del stream
    gc.collect()
    assert children() == {}


def test_many_threads_with_every_kind_of_get(numbered: Path) -> None:
    stream = open_queue(numbered, block_size=31, cyclic=True, read_ahead=2, n_procs=3)
    lock, stop = threading.Lock(), threading.Event()
    seen: list[int] = []
    errors: list[BaseException] = []

    def taking(number: int) -> Iterator[Any]:
        while not stop.is_set():
            try:
                if number % 3 == 0:
                    guard = stream.get()
                elif number % 3 == 1:
                    guard = stream.get(timeout=0.01)
                else:
                    guard = stream.get_nowait()
            except queue.Empty:
                continue
            if guard is multitables.QueueClosed:
                return
            yield guard
            del guard

    def consume(number: int) -> None:
        try:
            for guard in taking(number):
                first, _ = guard.rows
                with guard as block:
                    check(block, first % ROWS)
                del block, guard
                with lock:
                    seen.append(first)
                    if len(seen) >= 1500:
                        stop.set()
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    stream.close()
    assert not errors
    assert sorted(seen) == [31 * number for number in range(len(seen))]


def test_qsize_counts_ready_blocks(numbered: Path) -> None:
    with open_queue(numbered, block_size=CHUNK, read_ahead=BLOCKS) as stream:
        wait_until(lambda: stream.qsize() == BLOCKS, "the whole dataset in the ring")
        assert not stream.empty()
        for taken in range(1, 4):
            with stream.get_nowait() as block:
                check(block)
            del block
            assert stream.qsize() == BLOCKS - taken
        drain(stream, 3 * CHUNK)
        assert stream.qsize() == 0
        assert stream.empty()


def test_statistics(numbered: Path) -> None:
    with open_queue(numbered, block_size=2 * CHUNK, read_ahead=3) as stream:
        before = stream.statistics()
        assert before["blocks_received"] == before["blocks_held"] == 0
        assert before["blocks_total"] == BLOCKS // 2
        assert before["block_size"] == 2 * CHUNK
        assert before["ring_rows"] >= 6 * CHUNK
        assert before["ring_bytes"] >= 3 * 2 * BLOCK_BYTES
        assert before["readers_replaced"] == 0
        assert before["library"] == {}
        guard = stream.get()
        assert stream.statistics()["blocks_held"] == 1
        del guard
        assert stream.statistics()["blocks_held"] == 0
        assert stream.statistics()["blocks_received"] == 1
        drain(stream, 2 * CHUNK)
        after = stream.statistics()
        assert after["blocks_received"] == BLOCKS // 2
        team = after["readers"]
        assert len(team) == 2
        assert sum(reader["decoded_bytes"] for reader in team) == ROWS * BLOCK_BYTES // CHUNK
        assert sum(reader["chunks"] for reader in team) == BLOCKS
        assert sum(reader["tasks"] for reader in team) == after["tasks"]
        stored = sum(reader["fetched_bytes"] for reader in team)
        assert 0 < stored < ROWS * BLOCK_BYTES // CHUNK
        assert all(reader["decode_seconds"] >= 0 for reader in team)
        assert all(reader["library_tasks"] == 0 for reader in team)
    assert stream.statistics()["blocks_received"] == BLOCKS // 2  # also when closed


@pytest.mark.parametrize("read_ahead", [1, 2, 3, 10, 200])
def test_read_ahead(numbered: Path, read_ahead: int) -> None:
    with open_queue(numbered, read_ahead=read_ahead, block_size=64) as stream:
        assert stream.statistics()["ring_rows"] >= min(read_ahead * 64, ROWS // 64 * 64)
        assert drain(stream) == ROWS // 64 * 64


def test_read_ahead_by_default(numbered: Path) -> None:
    for n_procs in (1, 4):
        with open_queue(numbered, n_procs=n_procs, block_size=10) as stream:
            assert stream.statistics()["ring_rows"] >= (2 * n_procs + 1) * 10


def test_two_streams_side_by_side(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    with (
        streamer.get_queue("/rows", n_procs=1) as one,
        streamer.get_queue("/raw", n_procs=1, block_size=CHUNK) as two,
    ):
        at = 0
        for left, right in zip(one, two, strict=True):
            with left as a, right as b:
                np.testing.assert_array_equal(a, b)
                at = check(a, at)
            del a, b, left, right
    assert at == ROWS


def test_empty_datasets_are_empty_streams(h5: Path) -> None:
    import h5py

    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (0, 3), "<f4", maxshape=(None, 3), chunks=(16, 3))
        file.create_dataset("contiguous", (0, 3), "<f4")
    streamer = multitables.Streamer(h5)
    for name, size in (("x", 16), ("contiguous", None)):
        for cyclic in (False, True):
            with streamer.get_queue(f"/{name}", n_procs=1, cyclic=cyclic) as stream:
                assert stream.block_size == size if size else stream.block_size >= 1
                assert stream.get() is multitables.QueueClosed
                assert stream.get() is multitables.QueueClosed
        with streamer.get_queue(f"/{name}", n_procs=1, block_size=5) as stream:
            assert stream.block_size == 5
            assert list(stream) == []
        assert list(streamer.get_generator(f"/{name}", n_procs=1)) == []
        assert len(streamer.get_remainder(f"/{name}", 4)) == 0
