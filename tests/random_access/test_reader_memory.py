"""Random access: memory that is held or short, and many threads that ask.

Law
---
1. A request fails alone, typed and with its place; other requests, and the Reader, go on.
2. Nothing hangs: whatever waits gets a result or an error.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

import gc
import random
import signal
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import same
from payload import ROWS
from processes import (
    first_readers,
    kill,
    readers,
    wait_until,
)
from reader_cases import DATA, check

import multitables


def test_a_stage_closed_while_a_reader_writes_to_it(reader: Any) -> None:
    dataset = reader.get_dataset("/rows")
    for pid in first_readers(2):
        kill(pid, signal.SIGSTOP)
    stage, pool = dataset.create_stage(1000), dataset.create_stage_pool(1000, 2)
    requests = [reader.request(dataset[i : i + 1000], s) for i, s in ((7, stage), (9, pool))]
    for stages in (stage, pool):
        for _ in range(2):
            stages.close()
        assert stages.closed
        with pytest.raises(multitables.ClosedError, match="stage is closed"):
            reader.request(dataset[0], stages)
    other = dataset.create_stage(1000)
    for pid in readers():
        kill(pid, signal.SIGCONT)
    same(reader.request(dataset[500:1500], other).get(), DATA[500:1500])
    for first, request in zip((7, 9), requests, strict=True):
        same(request.get(), DATA[first : first + 1000])


def test_a_dropped_stage_of_a_request_in_flight(reader: Any) -> None:
    dataset = reader.get_dataset("/rows")
    for first in range(0, 3000, 100):
        request = reader.request(dataset[first : first + 900], dataset.create_stage(900))
        same(request.get(), DATA[first : first + 900])


def test_a_request_that_is_dropped_on_its_way_gives_its_stage_back(reader: Any) -> None:
    """Also when nobody asks for anything after it."""
    dataset = reader.get_dataset("/rows")
    stage = dataset.create_stage(1000)
    for pid in readers():
        kill(pid, signal.SIGSTOP)
    request = reader.request(dataset[7:1007], stage)
    del request
    gc.collect()
    assert stage.busy
    for pid in readers():
        kill(pid, signal.SIGCONT)
    wait_until(lambda: not stage.busy, "its stage")
    same(reader.request(dataset[3:90], stage).get(), DATA[3:90])


def test_stages_that_are_all_held(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.options.STALL_SECONDS", 0.2)
    dataset = reader.get_dataset("/rows")
    pool = dataset.create_stage_pool(10, 3)
    held = [reader.request(dataset[i : i + 10], pool) for i in range(3)]
    views = [request.get_unsafe().__enter__() for request in held]
    with pytest.raises(multitables.StalledError, match="all 3 stages") as caught:
        reader.request(dataset[0], pool)
    assert isinstance(caught.value, TimeoutError)
    for number, view in enumerate(views):
        same(view, DATA[number : number + 10])
    same(reader.request(dataset[7]).get(), DATA[7])  # another stage
    del view, views, held
    gc.collect()
    same(reader.request(dataset[8], pool).get(), DATA[8])


def test_the_readers_own_memory_all_held(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.options.STALL_SECONDS", 0.2)
    with multitables.Reader(numbered, n_procs=1, memory_limit_bytes=1 << 20) as reader:
        dataset = reader.get_dataset("/rows")
        held: list[Any] = []

        def hoard() -> None:
            while True:
                held.append(reader.request(dataset[:500]))

        with pytest.raises(multitables.StalledError):
            hoard()
        assert held
        while held:
            same(held.pop().get(), DATA[:500])
        check(reader)


def test_a_shortage_of_memory(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = reader.get_dataset("/rows")
    with pytest.raises(multitables.SharedMemoryError, match="cannot be reserved") as caught:
        dataset.create_stage(1 << 50)
    assert isinstance(caught.value, MemoryError)
    check(reader)


def test_a_consumer_that_never_comes_back(reader: Any) -> None:
    """Requests that nobody takes: readers answer and sleep; the memory of dropped ones returns."""
    dataset = reader.get_dataset("/rows")
    held = [reader.request(dataset[i]) for i in range(300)]
    team = first_readers(2)

    def state() -> list[str]:
        return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in team]

    wait_until(lambda: all(request.done() for request in held), "all answers")
    wait_until(lambda: state() == ["S", "S"], "readers that sleep")
    for _ in range(3000):
        reader.request(dataset[:300])  # dropped at once
    same(held[299].get(), DATA[299])
    wait_until(lambda: reader.statistics()["tasks_pending"] == 0, "the end of what was dropped")


def test_an_exception_in_the_action(reader: Any) -> None:
    dataset = reader.get_dataset("/rows")
    stage = dataset.create_stage(5)
    for _ in range(3):
        request = reader.request(dataset[0:5], stage)
        with pytest.raises(ZeroDivisionError):
            request.get_direct(lambda rows: 1 / 0)
        with pytest.raises(ZeroDivisionError), reader.request(dataset[0:5], stage).get_unsafe():
            _ = 1 / 0
    assert not stage.busy


# ---- many threads


def test_requests_from_many_threads(reader: Any) -> None:
    dataset, raw = reader.get_dataset("/rows"), reader.get_dataset("/raw")
    pool = dataset.create_stage_pool(64, 3)
    errors: list[BaseException] = []

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(150):
                at = rng.randrange(ROWS)
                key = rng.choice([at, slice(at, at + 64), [at, 0, ROWS - 1]])
                stages = rng.choice([None, pool])
                source = rng.choice([dataset, raw])
                same(reader.request(source[key], stages).get(), np.asarray(DATA[key]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert errors == []


def test_views_kept_by_many_threads(reader: Any) -> None:
    """Each thread keeps some views of a pool that all share; none is written over."""
    dataset = reader.get_dataset("/rows")
    pool = dataset.create_stage_pool(3, 2)
    errors: list[BaseException] = []

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        kept: dict[int, Any] = {}
        try:
            for _ in range(300):
                at = rng.randrange(ROWS - 3)
                with reader.request(dataset[at : at + 3], pool).get_unsafe() as rows:
                    kept[at] = rows
                for old in rng.sample(list(kept), max(0, len(kept) - rng.randrange(6))):
                    same(kept.pop(old), DATA[old : old + 3])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert errors == []
    assert pool.lent() == (0, 0)


@pytest.mark.parametrize("watches", [False, True])
def test_a_reader_leaves_nothing_to_the_garbage_collector(numbered: Path, watches: bool) -> None:
    """A program that opens thousands of files would hold a board of each until it ran."""
    gc.collect()
    gc.disable()
    try:
        with multitables.Reader(numbered, n_procs=1) as reader:
            request = reader.request(reader.get_dataset("/rows")[3:9])
            if watches:
                told = threading.Event()
                request.add_done_callback(lambda _: told.set())
                assert told.wait(10)
            request.result()
            service = weakref.ref(reader._service)
        del reader, request
        wait_until(lambda: service() is None, "the end of what the reader held")
    finally:
        gc.enable()
