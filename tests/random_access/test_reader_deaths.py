"""Random access: readers that die, and what is still good after each.

Law
---
1. A request fails alone, typed and with its place; other requests, and the Reader, go on.
2. Nothing hangs: whatever waits gets a result or an error.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elements import smooth
from oracle import same
from payload import ROWS
from processes import (
    alive,
    children,
    first_readers,
    kill,
    readers,
    wait_until,
)
from reader_cases import BATCHES, DATA, check, kill_all, poisoned

import multitables

pytestmark = pytest.mark.usefixtures("few_filters")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS])
def test_readers_that_die_are_replaced(reader: Any, number: signal.Signals) -> None:
    check(reader)
    for pid in readers():
        kill(pid, number)
        wait_until(lambda pid=pid: not alive(pid), "a dead reader")
    check(reader)
    assert reader.statistics()["readers_replaced"] == 2


def test_readers_killed_with_requests_in_flight(reader: Any) -> None:
    """Stopped, so that what is asked is surely on its way; then killed."""
    check(reader)
    for _ in range(3):
        for pid in first_readers(2):
            kill(pid, signal.SIGSTOP)
        dataset = reader.get_dataset("/rows")
        requests = [reader.request(dataset[key]) for key in BATCHES * 3]
        assert not any(request.done() for request in requests)
        kill_all()
        for key, request in zip(BATCHES * 3, requests, strict=True):
            same(request.get(), np.asarray(DATA[key]))
    assert reader.statistics()["readers_replaced"] == 6


def test_polling_is_enough_to_replace_readers(reader: Any) -> None:
    """`done` alone, without any wait, sees dead readers."""
    check(reader)
    for pid in first_readers(2):
        kill(pid, signal.SIGSTOP)
    request = reader.request(reader.get_dataset("/rows")[5])
    kill_all()
    wait_until(request.done, "the end of a request that is only polled")
    same(request.get(), DATA[5])


def test_a_thread_watches_for_callbacks(reader: Any) -> None:
    """Nobody waits, and yet a callback comes after the readers died."""
    for pid in first_readers(2):
        kill(pid, signal.SIGSTOP)
    request, told = reader.request(reader.get_dataset("/rows")[5]), threading.Event()
    request.add_done_callback(lambda _: told.set())
    kill_all()
    assert told.wait(30)
    same(request.get(), DATA[5])


def test_a_request_that_kills_once_is_asked_again(
    h5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned(h5, monkeypatch, 1)
    with multitables.Reader(h5, n_procs=1) as reader:
        same(reader.request(reader.get_dataset("/x")[3:30]).get(), smooth((40, 3))[3:30])
        assert reader.statistics()["readers_replaced"] == 1


def test_a_request_that_kills_twice_fails_alone(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned(h5, monkeypatch, 2)
    with multitables.Reader(h5, n_procs=1) as reader:
        x, y = reader.get_dataset("/x"), reader.get_dataset("/y")
        stage = x.create_stage(40)
        bad, good = reader.request(x[3:30], stage), reader.request(y[1:9])
        with pytest.raises(multitables.ReaderDiedError, match="SIGKILL twice") as caught:
            bad.get()
        error = caught.value
        assert isinstance(error, ChildProcessError)
        assert (error.path, error.filename, error.status) == ("/x", str(h5), -9)
        assert f"pid {error.pid}" in str(error)
        assert "other requests are not affected" in str(error)
        same(good.get(), smooth((40, 3))[1:9])
        same(reader.request(y[:], stage).get(), smooth((40, 3)))
        same(reader.request(x[:]).get(), smooth((40, 3)))  # the poison is spent
        assert reader.statistics()["readers_replaced"] == 2
        del bad, error, caught


def test_readers_that_cannot_start(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends at once: an error with its status, not a loop of new ones."""
    monkeypatch.setattr("_multitables.parent.readers.process.python_program", lambda: "/bin/false")
    reader = multitables.Reader(numbered, n_procs=2)
    dataset = reader.get_dataset("/rows")
    requests = [reader.request(dataset[3]), reader.request(dataset[4:9])]
    for request in requests:
        with pytest.raises(multitables.ReaderDiedError, match="exited with status 1") as caught:
            request.get()
    assert "before it read anything" in str(caught.value)
    with pytest.raises(multitables.ReaderDiedError):
        reader.request(dataset[5])
    assert children() == {}


def test_no_interpreter_to_start(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "_multitables.parent.readers.process.python_program", lambda: "/no/such/python"
    )
    with pytest.raises(OSError, match="/no/such/python"):
        multitables.Reader(numbered, n_procs=2)
    assert children() == {}


@pytest.mark.parametrize("known", [None, ""])
def test_a_program_that_embeds_python(
    numbered: Path, monkeypatch: pytest.MonkeyPatch, known: str | None
) -> None:
    """Without sys.executable, Python is searched by version, or an error says how to name it."""
    import multiprocessing.spawn

    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", None)
    monkeypatch.setattr(sys, "executable", known)
    with multitables.Reader(numbered, n_procs=1) as reader:
        check(reader)
    for prefix in ("exec_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, prefix, "/no/such")
    monkeypatch.setenv("PATH", "/no/such/bin")
    calls = (
        lambda: multitables.Reader(numbered, n_procs=1),
        lambda: multitables.Streamer(numbered).get_queue("/rows", n_procs=1),
        lambda: list(multitables.Streamer(numbered).get_batches("/rows", 5, n_procs=1)),
    )
    for call in calls:
        with pytest.raises(
            multitables.ReaderDiedError, match=r"set_reader_command\('/path/of/python3"
        ):
            call()
    assert children() == {}


@pytest.mark.parametrize("watched", [False, True])
def test_a_dead_reader_that_cannot_be_replaced(
    numbered: Path, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """Who waits, or is called back, is told; nobody waits for ever."""
    with multitables.Reader(numbered, n_procs=2) as reader:
        dataset = reader.get_dataset("/rows")
        pids = first_readers(2)
        for pid in pids:
            kill(pid, signal.SIGSTOP)
        request = reader.request(dataset[5:500])
        told = threading.Event()
        if watched:
            request.add_done_callback(lambda _: told.set())
        monkeypatch.setattr(
            "_multitables.parent.readers.process.python_program", lambda: "/no/such/python"
        )
        for pid in pids:
            kill(pid, signal.SIGKILL)
        if watched:
            assert told.wait(30)
        with pytest.raises(multitables.ReaderDiedError, match="'/no/such/python' cannot be"):
            request.get()
        with pytest.raises(multitables.ReaderDiedError):
            reader.request(dataset[5])
    assert children() == {}


@pytest.mark.hang(120)
def test_readers_killed_all_the_time_under_many_threads(numbered: Path) -> None:
    """Each request has its rows or the error of a task that killed twice; none is wrong."""
    with multitables.Reader(numbered, n_procs=2) as reader:
        dataset = reader.get_dataset("/rows")
        stop, wrong, failed = threading.Event(), [], []

        def ask(seed: int) -> None:
            rng = random.Random(seed)
            while not stop.is_set():
                at, count = rng.randrange(ROWS), rng.randrange(1, 300)
                rows = [rng.randrange(ROWS) for _ in range(20)]
                key = rng.choice([at, slice(at, at + count), rows])
                try:
                    got = reader.request(dataset[key]).get()
                except multitables.ReaderDiedError:
                    failed.append(key)
                else:
                    if not np.array_equal(got, DATA[key]):
                        wrong.append(key)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        killed: set[int] = set()
        while len(killed) < 12:
            # Those that serve: a reader that is killed at its start, thrice, ends the Reader.
            team = {one["pid"] for one in reader.statistics()["readers"]} - {0}
            for pid in team - killed:
                killed.add(pid)
                kill(pid)
            stop.wait(0.02)
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert not wrong
        assert len(failed) < 6 * 12
        check(reader, 3)
        assert reader.statistics()["readers_replaced"] >= 10
