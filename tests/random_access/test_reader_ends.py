"""Random access: how a Reader ends, with requests on their way, by whatever hand.

Law
---
1. A request fails alone, typed and with its place; other requests, and the Reader, go on.
2. Nothing hangs: whatever waits gets a result or an error.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

import gc
import itertools
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import same
from processes import (
    children,
    first_readers,
    kill,
    wait_until,
)
from reader_cases import BATCHES, DATA, check

import multitables


def test_what_is_asked_before_close_is_answered(numbered: Path) -> None:
    for wait in (False, True):
        reader = multitables.Reader(numbered, n_procs=2)
        dataset = reader.get_dataset("/rows")
        requests = [reader.request(dataset[key]) for key in BATCHES * 4]
        reader.close(wait=wait)
        for ask in (lambda: reader.request(dataset[0]), lambda: reader.get_dataset("/rows")):  # noqa: B023
            with pytest.raises(multitables.ClosedError, match="is closed") as caught:
                ask()
            assert isinstance(caught.value, RuntimeError)
        if wait:
            assert children() == {}
        for key, request in zip(BATCHES * 4, requests, strict=True):
            same(request.get(), np.asarray(DATA[key]))
        wait_until(lambda: children() == {}, "the end of the readers")
        reader.close(wait=True)
        reader.stop()


def test_close_after_everything_was_taken_is_at_once(numbered: Path) -> None:
    reader = multitables.Reader(numbered, n_procs=2)
    check(reader)
    reader.close()
    assert children() == {}


def test_stop_with_requests_in_flight(numbered: Path) -> None:
    """They fail with `ClosedError`, whoever waits for them; what was answered is good."""
    reader = multitables.Reader(numbered, n_procs=2)
    dataset = reader.get_dataset("/rows")
    stage = dataset.create_stage(10)
    answered = reader.request(dataset[3:9], stage)
    assert answered.exception() is None
    for pid in first_readers(2):
        kill(pid, signal.SIGSTOP)
    requests = [reader.request(dataset[key]) for key in BATCHES]
    told: list[Any] = []
    requests[0].add_done_callback(told.append)
    waiting, errors = threading.Barrier(3), []

    def wait(request: Any) -> None:
        waiting.wait()
        errors.append(request.exception())

    threads = [threading.Thread(target=wait, args=(request,)) for request in requests[1:3]]
    for thread in threads:
        thread.start()
    waiting.wait()
    reader.stop()
    for thread in threads:
        thread.join(20)
    assert children() == {}
    assert [type(error) for error in errors] == [multitables.ClosedError] * 2
    for request in requests:
        with pytest.raises(multitables.ClosedError, match="is closed") as caught:
            request.get()
        assert isinstance(caught.value, multitables.QueueClosedException)
    wait_until(lambda: told, "the callback")
    same(answered.get(), DATA[3:9])
    with pytest.raises(multitables.ClosedError):
        reader.request(dataset[0], stage)
    assert not stage.busy


def test_leaving_the_context_by_an_exception_stops(numbered: Path) -> None:
    requests = []

    def leave() -> None:
        with multitables.Reader(numbered, n_procs=1) as reader:
            dataset = reader.get_dataset("/rows")
            for pid in first_readers(1):
                kill(pid, signal.SIGSTOP)
            requests.append(reader.request(dataset[0]))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        leave()
    assert children() == {}
    assert isinstance(requests[0].exception(), multitables.ClosedError)


def test_a_dropped_reader_stops(numbered: Path) -> None:
    reader = multitables.Reader(numbered, n_procs=2)
    dataset = reader.get_dataset("/rows")
    done = reader.request(dataset[5])
    done.exception()
    for pid in first_readers(2):
        kill(pid, signal.SIGSTOP)
    pending = reader.request(dataset[0])
    pending.add_done_callback(lambda _: None)
    del reader
    assert children() == {}
    with pytest.raises(multitables.ClosedError):
        pending.get()
    same(done.get(), DATA[5])


def test_close_and_stop_from_many_threads(numbered: Path) -> None:
    reader = multitables.Reader(numbered, n_procs=2, notify=lambda _: None)
    check(reader)
    calls = [reader.close, reader.stop, lambda: reader.close(wait=True)] * 4
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert children() == {}


def test_close_in_a_callback(numbered: Path) -> None:
    reader = multitables.Reader(numbered, n_procs=1)
    request, ended = reader.request(reader.get_dataset("/rows")[1]), threading.Event()

    def close(_: Any) -> None:
        reader.close(wait=True)
        ended.set()

    request.add_done_callback(close)
    assert ended.wait(30)
    wait_until(lambda: children() == {}, "the end of the readers")
    same(request.get(), DATA[1])


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::7])
def test_garbage_in_any_order(numbered: Path, order: tuple[int, ...]) -> None:
    reader = multitables.Reader(numbered, n_procs=1)
    dataset = reader.get_dataset("/rows")
    stage = dataset.create_stage(50)
    request = reader.request(dataset[10:60], stage)
    with request.get_unsafe() as rows:
        view = rows[5:7]
    kept: dict[int, Any] = dict(enumerate((reader, dataset, stage, request, view)))
    del reader, dataset, stage, request, rows, view
    for number in order:
        if 4 in kept:
            same(kept[4], DATA[15:17])
        kept.pop(number)
        gc.collect()
    assert children() == {}


def test_garbage_cycles(numbered: Path) -> None:
    """Dropped by a collection, in whichever call of whichever thread it happens."""
    for _ in range(5):
        reader: Any = multitables.Reader(numbered, n_procs=1, notify=lambda _: None)
        dataset = reader.get_dataset("/rows")
        reader.me, cycle = reader, [reader]
        cycle.append(cycle)
        requests = [reader.request(dataset[i]) for i in range(100)]
        requests[0].others = requests
        del reader, dataset, cycle, requests
    gc.collect()
    wait_until(lambda: children() == {}, "the end of the readers")
