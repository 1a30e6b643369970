"""Blocks are lent: what a user keeps is never overwritten, and what he drops is given back.

1. A kept view is compared with its rows after the ring has gone round many times.
2. Who holds everything gets `StalledError`, which names the blocks, and can go on afterwards.
"""

from __future__ import annotations

import gc
import os
import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from payload import CHUNK, ROWS, check
from processes import children

import multitables


def open_queue(path: Path, dataset: Any = "/rows", **options: Any) -> Any:
    return multitables.Streamer(path).get_queue(dataset, **{"n_procs": 2, **options})


def pass_blocks(stream: Any, count: int, timeout: float = 50.0) -> None:
    for _ in range(count):
        with stream.get(timeout=timeout) as block:
            check(block)
        del block


def test_a_block_is_a_view_of_the_ring(numbered: Path) -> None:
    with open_queue(numbered) as stream:
        with stream.get() as block:
            assert isinstance(block, np.ndarray)
            assert type(block) is np.ndarray
            assert not block.flags.owndata
            assert block.flags.c_contiguous
            assert block.flags.aligned
            assert not isinstance(block.base, np.ndarray)
        del block


@pytest.mark.parametrize("slice_", [slice(None), slice(3, 4)], ids=["whole", "part"])
@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_kept_view_stays_unchanged(numbered: Path, kept: int, slice_: slice) -> None:
    """A ring of 60 blocks goes round while one is kept; then it is still what it was."""
    with open_queue(numbered, cyclic=True, read_ahead=60) as stream:
        pass_blocks(stream, kept)
        with stream.get() as block:
            view = block[slice_]
        del block
        first = kept * CHUNK + (slice_.start or 0)
        room = stream.statistics()["ring_rows"] // CHUNK
        # As long as it is kept, the ring has only the room behind it.
        taken = 0
        while taken < room // 2:
            pass_blocks(stream, 1)
            taken += 1
            check(view, first)
        assert stream.statistics()["blocks_held"] == 1
        copy = view.copy()
        check(view, first)
        del view
        assert stream.statistics()["blocks_held"] == 0
        pass_blocks(stream, 3 * room)
        check(copy, first)


def test_views_of_views_hold_their_block(numbered: Path) -> None:
    with open_queue(numbered, cyclic=True) as stream:
        with stream.get() as block:
            kept = {
                "row": block[7],
                "transposed": block.T[3:5, 2:4],
                "bytes": block.view(np.uint8),
                "reshaped": block.reshape(-1),
                "memory": memoryview(block),
            }
        del block
        for name in list(kept):
            assert stream.statistics()["blocks_held"] == 1
            view = np.asarray(kept.pop(name))
            assert not view.flags.owndata
            del view
        assert stream.statistics()["blocks_held"] == 0


def test_rows_go_back_when_guard_and_views_are_gone(numbered: Path) -> None:
    with open_queue(numbered, cyclic=True) as stream:

        def held() -> int:
            return int(stream.statistics()["blocks_held"])

        guard = stream.get()
        assert held() == 1
        with guard as block:
            assert held() == 1
        assert held() == 1  # the view is still here
        del block
        assert held() == 0  # the guard has been left
        guard = stream.get()
        del guard  # never entered
        assert held() == 0
        guard = stream.get()
        with guard:
            pass
        assert held() == 0


def test_kept_blocks_take_no_descriptor(numbered: Path) -> None:
    """All blocks lie in one mapping, however many of them a program keeps."""
    with open_queue(numbered, cyclic=True, read_ahead=60) as stream:
        kept = []
        for number in range(40):
            with stream.get(timeout=50.0) as block:
                kept.append(block)
            del block
            if number == 0:
                before = len(os.listdir("/proc/self/fd"))
        assert len(os.listdir("/proc/self/fd")) == before
        for number, view in enumerate(kept):
            check(view, number * CHUNK)
        del view
        kept.clear()


def test_out_of_order_releases(numbered: Path) -> None:
    """Rows return to the readers from the oldest on, in whichever order they were dropped."""
    with open_queue(numbered, cyclic=True, read_ahead=40) as stream:
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]):
            views = []
            for _ in range(4):
                with stream.get(timeout=50.0) as block:
                    views.append(block)
                del block
            firsts = [int(view[0, 0]) // 64 for view in views]
            kept: dict[int, Any] = dict(enumerate(views))
            del views
            for number in order:
                for still, view in kept.items():
                    check(view, firsts[still])
                kept.pop(number)
                del view
            assert stream.statistics()["blocks_held"] == 0
            pass_blocks(stream, 100)


def test_a_guard_after_its_with_is_an_error(numbered: Path) -> None:
    with open_queue(numbered) as stream:
        guard = stream.get()
        assert guard.rows == (0, CHUNK)
        with guard as block:
            check(block, 0)
        del block
        with pytest.raises(multitables.ClosedError, match=r"guard.*with"), guard:
            pass
        with pytest.raises(multitables.ClosedError):
            _ = guard.rows


def test_a_guard_may_be_entered_inside_itself(numbered: Path) -> None:
    """Both views are of the same rows."""
    with open_queue(numbered) as stream:
        guard = stream.get()
        with guard as one:
            two = guard.__enter__()
            assert np.shares_memory(one, two)
            guard.__exit__(None, None, None)
            check(one, 0)
        del one, two
        assert stream.statistics()["blocks_held"] == 0


def test_an_exception_in_the_with_gives_the_block_back(numbered: Path) -> None:
    with open_queue(numbered, cyclic=True) as stream:
        with pytest.raises(ZeroDivisionError) as caught, stream.get():
            _ = 1 / 0
        del caught
        gc.collect()
        assert stream.statistics()["blocks_held"] == 0


def test_writing_into_a_block_touches_nothing_else(numbered: Path) -> None:
    """A block may be changed in place; the next lap delivers the file's rows again."""
    with open_queue(numbered, cyclic=True, block_size=100, read_ahead=1) as stream:
        for number in range(4 * ROWS // 100):
            with stream.get() as block:
                check(block, number * 100 % ROWS)
                block[:] = -1
            del block


def test_views_outlive_queue_and_streamer(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    stream = streamer.get_queue("/rows", n_procs=1)
    views = []
    for _ in range(3):
        with stream.get() as block:
            views.append(block)
        del block
    stream.close()
    for number, view in enumerate(views):
        check(view, number * CHUNK)
    ring = weakref.ref(stream)
    del stream, streamer
    assert ring() is None
    assert children() == {}
    for number, view in enumerate(views):
        check(view, number * CHUNK)


def test_a_guard_outlives_its_queue(numbered: Path) -> None:
    stream = open_queue(numbered)
    guard = stream.get()
    stream.close()
    del stream
    with guard as block:
        check(block, 0)
    del block


def test_stalled_when_everything_is_held(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.options.STALL_SECONDS", 0.2)
    with open_queue(numbered, cyclic=True, read_ahead=1) as stream:
        views = []

        def hoard() -> None:
            while True:
                with stream.get() as block:
                    views.append(block)

        with pytest.raises(multitables.StalledError) as caught:
            hoard()
        error = caught.value
        assert isinstance(error, TimeoutError)
        text = str(error)
        assert f"{len(views)} blocks" in text
        assert f"rows 0:{CHUNK}" in text
        assert "Release" in text
        assert "copy" in text
        assert len(error.held) == len(views)
        assert stream.statistics()["blocks_held"] == len(views)
        # Again, as long as they are held; each of them still as it was.
        with pytest.raises(multitables.StalledError):
            stream.get()
        for number, view in enumerate(views):
            check(view, number * CHUNK)
        # It is no end: readers go on as soon as blocks come back.
        at = len(views) * CHUNK
        views.clear()
        del view, caught, error
        for _ in range(300):
            with stream.get() as block:
                check(block, at % ROWS)
            del block
            at += CHUNK


def test_stalled_by_the_oldest_block_alone(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One forgotten view at the tail holds up the ring; the error names it."""
    monkeypatch.setattr("_multitables.options.STALL_SECONDS", 0.2)
    with open_queue(numbered, cyclic=True, read_ahead=1) as stream:
        pass_blocks(stream, 3)
        with stream.get() as block:
            forgotten = block[0]
        del block
        with pytest.raises(multitables.StalledError, match=f"rows {3 * CHUNK}:{4 * CHUNK}"):
            pass_blocks(stream, 10_000)
        assert int(forgotten[0]) == 3 * CHUNK * 64
        del forgotten
        pass_blocks(stream, 300)


def test_stalled_generators_do_not_exist(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a generator are copies: who keeps them all stalls nothing."""
    monkeypatch.setattr("_multitables.options.STALL_SECONDS", 0.2)
    rows = list(multitables.Streamer(numbered).get_generator("/rows", n_procs=2, read_ahead=1))
    assert check(np.stack(rows), 0) == ROWS


def test_a_wait_for_slow_readers_is_no_stall(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a user who holds blocks is told that he does: with none held, `get` waits."""
    import queue
    import signal

    from processes import first_readers, kill

    monkeypatch.setattr("_multitables.options.STALL_SECONDS", 0.05)
    with open_queue(numbered, n_procs=1, cyclic=True, read_ahead=1) as stream:
        (reader,) = first_readers(1)
        kill(reader, signal.SIGSTOP)
        try:
            with pytest.raises(queue.Empty):
                pass_blocks(stream, 10_000, timeout=0.5)
        finally:
            kill(reader, signal.SIGCONT)
        pass_blocks(stream, 200)


def test_members_of_a_block_are_lent_together(numbered: Path) -> None:
    with open_queue(numbered, {"x": "/rows", "y": "/labels"}, cyclic=True) as stream:
        with stream.get() as blocks:
            labels = blocks["y"]
        del blocks
        assert stream.statistics()["blocks_held"] == 1
        pass_two(stream, 30)
        np.testing.assert_array_equal(labels, -np.arange(CHUNK))
        del labels
        assert stream.statistics()["blocks_held"] == 0


def pass_two(stream: Any, count: int) -> None:
    for _ in range(count):
        with stream.get(timeout=50.0) as blocks:
            at = check(blocks["x"])
            want = -((np.arange(at - CHUNK, at)) % ROWS)
            np.testing.assert_array_equal(blocks["y"], want)
        del blocks


def test_blocks_can_be_pickled_and_copied_as_arrays(numbered: Path) -> None:
    with open_queue(numbered) as stream:
        with stream.get() as block:
            twin = pickle.loads(pickle.dumps(block))
            other = block.copy()
        del block
        assert stream.statistics()["blocks_held"] == 0
        check(twin, 0)
        check(other, 0)


def test_a_garbage_cycle_gives_its_block_back(numbered: Path) -> None:
    """A collection that drops a lease, in whichever call it happens, does no harm."""
    with open_queue(numbered, cyclic=True, read_ahead=400) as stream:
        for number in range(300):
            with stream.get(timeout=50.0) as block:
                check(block, number * CHUNK % ROWS)
                cycle: list[Any] = [block]
                cycle.append(cycle)
            del block, cycle
            if number % 10 == 0:
                gc.collect()
        gc.collect()
        assert stream.statistics()["blocks_held"] == 0
