"""Closing and interrupts at every point of `RaggedQueue.get`: no memory stays, and no lock."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from interrupts import interrupted
from ragged_files import write_variable

from multitables import QueueClosed, RaggedQueue, Streamer

GET = {RaggedQueue.get.__code__}


def in_a_thread(act: Any) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(act()))
    thread.start()
    thread.join(20)
    return results[0] if results else "it waits"


def test_interrupts(tmp_path: Path) -> None:
    """Another thread gets the next block all the same."""
    write_variable(tmp_path / "a.h5")
    streamer = Streamer(tmp_path / "a.h5")
    points = 0
    with streamer.get_queue("/text", 1, block_size=20, cyclic=True) as stream:
        for points in interrupted(GET, stream.get):
            assert hasattr(in_a_thread(stream.get), "rows"), points
        assert points > 3


def test_close(tmp_path: Path) -> None:
    """By another thread, at any point of `get`: nothing that was requested stays."""
    write_variable(tmp_path / "a.h5")
    streamer = Streamer(tmp_path / "a.h5")
    made: list[Any] = []

    def get() -> None:
        made.append(streamer.get_queue("/text", 1, block_size=20, cyclic=True))
        made[-1].get()

    points = 0
    for points in interrupted(GET, get, lambda: in_a_thread(made[-1].close)):
        assert not made[-1].source._asked, points
        assert made[-1].get() is QueueClosed
    assert points > 3


def test_a_thread_that_waits_for_another(tmp_path: Path) -> None:
    write_variable(tmp_path / "a.h5")
    with Streamer(tmp_path / "a.h5").get_queue("/text", 1, block_size=20) as stream:
        with stream._lock, pytest.raises(Empty):
            raise in_a_thread(lambda: error_of(stream))
        assert stream.get() is not QueueClosed


def error_of(stream: Any) -> BaseException | None:
    try:
        stream.get_nowait()
    except Empty as error:
        return error
    return None
