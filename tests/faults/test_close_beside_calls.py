"""`close()` in one thread at any moment of any other call of the same object in another one.

1. The other call gives data, the end, or a named error, and it returns.
2. Threads take turns as often as Python lets them, so that every step may come between two others.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import MultitablesError, QueueClosed, Reader, Streamer

ROUNDS = 3
#: How to close something, and what to do with it meanwhile; false: it has ended.
Both = tuple[Callable[[], object], Callable[[], bool]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("close") / "data.h5"
    rows = np.arange(40_000 * 8).reshape(-1, 8)
    with h5py.File(path, "w") as file:
        file.create_dataset("rows", data=rows, chunks=(500, 8), compression="gzip")
        file.create_dataset("ragged", (300,), h5py.vlen_dtype("i4"))
        file["ragged"][:] = [np.arange(n % 7) for n in range(300)]
        for item in range(20):
            file.create_dataset(f"items/{item}/a", data=np.arange(2000) + item, chunks=(100,))
            file[f"items/{item}/b"] = np.arange(20) + item
    return path


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def checked(block: Any) -> bool:
    assert (block[:, 1] == block[:, 0] + 1).all()
    return True


def queue(path: Path, dataset: str = "/rows", n_procs: int = 1, **options: Any) -> Both:
    stream = Streamer(path).get_queue(dataset, n_procs, block_size=50, **options)

    def take() -> bool:
        stream.statistics(), stream.qsize(), repr(stream), stream.source.memory()
        guard = stream.get(timeout=5.0)
        if guard is not QueueClosed:
            with guard as block:
                assert len(block)
        return guard is not QueueClosed

    return stream.close, take


def dying_reader(path: Path) -> Both:
    stream = Streamer(path).get_queue("/rows", n_procs=1, cyclic=True)
    with stream.get():
        pass
    os.kill(stream.source.readers.pids[0], signal.SIGKILL)  # type: ignore[attr-defined]

    def take() -> bool:
        guard = stream.get()
        if guard is not QueueClosed:
            with guard as block:
                checked(block)
        return guard is not QueueClosed

    return stream.close, take


def streamer(path: Path) -> Both:
    many = Streamer(path)
    many.__enter__()

    def take() -> bool:
        rows = many.get_generator("/rows", n_procs=1)
        return all(row[1] == row[0] + 1 for _, row in zip(range(100), rows, strict=False))

    return many.close, take


def loop(path: Path, make: Callable[[Streamer], Any], check: Callable[[Any], object]) -> Both:
    loader = make(Streamer(path))

    def take() -> bool:
        number = -1
        for number, one in enumerate(loader):
            check(one)
            if number % 50 == 0:
                loader.statistics(), repr(loader), loader.state_dict()
        return number >= 0

    return loader.close, take


def requests(path: Path, end: Callable[[Reader], object]) -> Both:
    reader = Reader(path, n_procs=1)
    rows = reader.get_dataset("/rows")

    def take() -> bool:
        checked(reader.request(rows[100:700]).get())
        with reader.request(rows[5:7]).get_unsafe() as view:
            checked(view)
        reader.request(reader.get_dataset("/ragged")[3:9]).result(5.0)
        reader.statistics(), repr(reader)
        return checked(reader.request(rows[3:6], rows.create_stage(10)).get())

    return partial(end, reader), take


def handle(path: Path) -> Both:
    file = multitables.open(path)
    rows = file["rows"]

    def take() -> bool:
        list(file["items"]), file["ragged"][3], dict(rows.attrs), repr(file)
        return len(file["items/3/a"][::7]) > 0 and checked(rows[100:5000])

    return file.close, take


KINDS: dict[str, Callable[[Path], Both]] = {
    "queue": partial(queue, cyclic=True),
    "threads": partial(queue, n_procs=0, cyclic=True),
    "ragged": partial(queue, dataset="/ragged", cyclic=True),
    "follow": partial(queue, dataset="/items/1/a", follow=True),
    "dying reader": dying_reader,
    "streamer": streamer,
    "batches": partial(
        loop,
        make=lambda one: one.get_batches("/rows", 100, n_procs=1, epochs=None, shuffle="full"),
        check=checked,
    ),
    "batches by threads": partial(
        loop,
        make=lambda one: one.get_batches("/rows", 100, n_procs=0, epochs=None, shuffle="window"),
        check=checked,
    ),
    "ragged batches": partial(
        loop,
        make=lambda one: one.get_batches("/ragged", 30, n_procs=1, epochs=None),
        check=len,
    ),
    "collection": partial(
        loop,
        make=lambda one: one.get_collection("/items/*/*", n_procs=1, epochs=None),
        check=lambda item: list(item.values()),
    ),
    "close of requests": partial(requests, end=Reader.close),
    "stop of requests": partial(requests, end=Reader.stop),
    "handle": handle,
}


@pytest.mark.parametrize("kind", KINDS)
def test_closing_beside_another_call(path: Path, kind: str) -> None:
    for number in range(ROUNDS):
        close, take = KINDS[kind](path)
        ended: list[BaseException | None] = []
        over = threading.Event()
        thread = threading.Thread(target=until_ended, args=(take, ended, over))
        thread.start()
        time.sleep(random.choice([0.0, random.uniform(0.0, 0.1)]))
        close()
        thread.join(20.0)
        over.set()
        assert not thread.is_alive(), f"round {number} does not end"
        assert ended[0] is None or isinstance(ended[0], MultitablesError), ended
        close()


def until_ended(
    take: Callable[[], bool], ended: list[BaseException | None], over: threading.Event
) -> None:
    """Call until there is nothing more, or an error, which is kept."""
    try:
        while not over.is_set() and take():
            pass
        ended.append(None)
    except BaseException as error:
        ended.append(error.with_traceback(None))
