"""Random access: requests as futures, awaited, cancelled and told of.

1. Waiting is for an event, never for a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import same
from reader_cases import opened
from reader_file import cube, table

import multitables


@pytest.fixture
def reader(sample: Path) -> Iterator[Any]:
    with opened(sample) as reader:
        yield reader


def test_a_request_is_a_future(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    requests = [reader.request(dataset[i]) for i in range(30)]
    assert all(isinstance(request, concurrent.futures.Future) for request in requests)
    done, not_done = concurrent.futures.wait(requests, timeout=30)
    assert (len(done), len(not_done)) == (30, 0)
    assert all(request.done() and not request.running() for request in requests)
    for number, request in enumerate(requests):
        same(request.result(), cube()[number])
    numbers = {id(request): i for i, request in enumerate(requests)}
    for request in concurrent.futures.as_completed(requests, timeout=30):
        same(request.result(timeout=0), cube()[numbers[id(request)]])
    more = [reader.request(dataset[i]) for i in range(30)]
    first = concurrent.futures.wait(more, 30, concurrent.futures.FIRST_COMPLETED)
    assert first.done
    wrong = [*more, reader.request(dataset[300])]
    ended = concurrent.futures.wait(wrong, 30, concurrent.futures.FIRST_EXCEPTION)
    assert wrong[-1] in ended.done
    assert "pending" not in repr(wrong[-1])


def test_callbacks(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    called: queue.Queue[Any] = queue.Queue()
    for index in (slice(3, 5), 299, 300):
        request = reader.request(dataset[index])
        request.add_done_callback(called.put)
        assert called.get(timeout=30) is request
        request.add_done_callback(called.put)  # it has ended: at once
        assert called.get(timeout=0) is request
        assert (request.exception() is None) == (index != 300)


def test_asyncio(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")

    async def one(number: int) -> Any:
        return await reader.request(dataset[number])

    async def many() -> list[Any]:
        loop_wrapped = asyncio.wrap_future(reader.request(dataset[7]))
        rows = await asyncio.gather(*(one(i) for i in range(50)))
        rows.append(await asyncio.wait_for(loop_wrapped, 30))
        with pytest.raises(IndexError):
            await one(300)
        return list(rows)

    *rows, seven = asyncio.run(many())
    for number, row in enumerate(rows):
        same(row, cube()[number])
    same(seven, cube()[7])


def test_cancelling(reader: Any) -> None:
    """What no reader has begun can be taken back; what was answered cannot."""
    dataset = reader.get_dataset("/carray")
    request = reader.request(dataset[3])
    request.result()
    assert not request.cancel()
    requests = [reader.request(dataset[::2]) for _ in range(50)]
    cancelled = [request for request in requests if request.cancel()]
    for request in cancelled:
        assert request.cancelled()
        assert request.done()
        assert request.cancel()
        for take in (request.get, request.result, request.exception):
            with pytest.raises(concurrent.futures.CancelledError):
                take()
    done, _ = concurrent.futures.wait(requests, 30)
    assert len(done) == 50
    for request in requests:
        if not request.cancelled():
            same(request.get(), cube()[::2])


def test_timeouts(reader: Any) -> None:
    import signal

    from processes import kill, readers

    dataset = reader.get_dataset("/carray")
    for pid in readers():
        kill(pid, signal.SIGSTOP)
    try:
        request = reader.request(dataset[3])
        for ask in (request.result, request.exception):
            with pytest.raises(concurrent.futures.TimeoutError):
                ask(timeout=0.05)
            with pytest.raises(concurrent.futures.TimeoutError):
                ask(timeout=0)
        assert not request.done()
        assert request.running()
    finally:
        for pid in readers():
            kill(pid, signal.SIGCONT)
    same(request.result(timeout=30), cube()[3])


def test_notify(sample: Path) -> None:
    told: list[Any] = []
    threads: set[int] = set()

    def notify(request: Any) -> None:
        threads.add(threading.get_ident())
        told.append(request)

    with multitables.Reader(sample, n_procs=2, notify=notify) as reader:
        dataset = reader.get_dataset("/carray")
        requests = [reader.request(dataset[i]) for i in (*range(20), 300)]
        for number, request in enumerate(requests[:-1]):
            same(request.get(), cube()[number])
    assert told.pop() is multitables.QueueClosed
    assert set(map(id, told)) == set(map(id, requests))
    assert len(threads - {threading.get_ident()}) == 1


def test_request_pool(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    stages = dataset.create_stage_pool(1, 4)
    pool = multitables.RequestPool()
    assert len(pool) == 0

    def ask() -> None:
        for number in range(200):
            pool.add(reader.request(dataset[number], stages))

    thread = threading.Thread(target=ask)
    thread.start()
    rows = table()
    for number in range(200):
        same(pool.next().get(), np.asarray(rows[number]))
    thread.join(20)
    assert len(pool) == 0
