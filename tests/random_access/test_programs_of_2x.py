"""Programs as the documentation of 2.x has them: they run unchanged.

Law
---
1. Each test is one pattern of 2.x's quick start, how-to or complete examples: the same calls, with
   the same arguments, in the same order, and names that hold their last view as they do there.
2. A program sees only the face, and NumPy on what was written is its oracle.
"""

from __future__ import annotations

import collections
import queue as queues
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from oracle import same
from reader_cases import opened

import multitables

ROWS = 60


ROW = np.dtype([("col_A", "u1", (50, 120)), ("col_B", "<f8", (7, 9)), ("col_C", "<f4")])
BOX = np.arange(ROWS * 100, dtype="i8").reshape(ROWS, 10, 10)
TABLE = np.zeros(ROWS, ROW)
TABLE["col_A"] = np.arange(TABLE["col_A"].size).reshape(TABLE["col_A"].shape) % 251
TABLE["col_B"] = np.arange(TABLE["col_B"].size).reshape(TABLE["col_B"].shape) / 7
TABLE["col_C"] = np.arange(ROWS) * 37 % ROWS / ROWS
WIDE = np.arange(50) > 45


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a program of 2.x reads: PyTables wrote it."""
    found = tmp_path_factory.mktemp("programs") / "file.h5"
    with tables.open_file(str(found), "w") as file:
        file.create_array("/", "box", BOX)
        table = file.create_table("/", "table", ROW, chunkshape=8)
        table.append(TABLE)
        table.flush()
        table.cols.col_C.create_csindex()
    return found


@pytest.fixture
def reader(path: Path) -> Iterator[Any]:
    """The Reader of a program that closes it at its end."""
    with opened(path) as reader:
        yield reader


# ---- the quick start


def test_the_quick_start_of_streams(path: Path) -> None:
    stream = multitables.Streamer(filename=path)
    rows = []
    for row in stream.get_generator(path="/box"):
        rows.append(row)  # noqa: PERF402
    same(np.array(rows), BOX)


def test_the_quick_start_of_random_access(path: Path) -> None:
    reader = multitables.Reader(filename=path)
    dataset = reader.get_dataset(path="/table")
    stage = dataset.create_stage(10)

    req = dataset["col_A"][30:35]
    future = reader.request(req, stage)
    with future.get_unsafe() as data:
        same(data, TABLE["col_A"][30:35])
    data = None

    req = dataset.col("col_A")[30:35, ..., :100]
    future = reader.request(req, stage)
    with future.get_proxy() as data:
        np.testing.assert_array_equal(data, TABLE["col_A"][30:35, ..., :100])

    req = dataset["col_A"][30:35, WIDE]
    future = reader.request(req, stage)
    same(future.get(), TABLE["col_A"][30:35, WIDE])
    reader.close(wait=True)


def test_the_same_without_dropping_names(reader: Any) -> None:
    dataset = reader.get_dataset(path="/table")
    stage = dataset.create_stage(10)
    for first in range(0, ROWS, 10):
        with reader.request(dataset["col_A"][first : first + 10], stage).get_unsafe() as data:
            same(data, TABLE["col_A"][first : first + 10])
        with reader.request(dataset[first : first + 10], stage).get_unsafe() as data:
            same(data, TABLE[first : first + 10])
        with reader.request(dataset.col("col_B")[first], stage).get_proxy() as data:
            np.testing.assert_array_equal(data, TABLE["col_B"][first])
        same(reader.request(dataset[first], stage).get(), np.asarray(TABLE[first]))


# ---- streams


def test_a_direct_queue(path: Path) -> None:
    stream = multitables.Streamer(filename=path)
    queue = stream.get_queue(
        path="/box", n_procs=4, read_ahead=5, cyclic=False, block_size=32, ordered=False
    )
    blocks = []
    while True:
        guard = queue.get()
        if guard is multitables.QueueClosed:
            break
        with guard as block:
            blocks.append(block.copy())
    last_block = stream.get_remainder("/box", queue.block_size)
    same(np.concatenate([*blocks, last_block]), BOX)
    queue.close()


def test_the_iterator_of_a_queue(path: Path) -> None:
    stream = multitables.Streamer(filename=path)
    queue = stream.get_queue(path="/table", n_procs=2, block_size=20, field="col_C")
    blocks = []
    for guard in queue.iter():
        with guard as block:
            blocks.append(block.copy())
    same(np.concatenate(blocks), TABLE["col_C"])
    queue.close()


def test_a_cyclic_queue(path: Path) -> None:
    stream = multitables.Streamer(filename=path)
    queue = stream.get_queue("/box", 2, None, True, 25, True)
    seen = 0
    while seen < 4 * ROWS:
        with queue.get() as block:
            rows = np.arange(seen, seen + 25) % ROWS
            same(block, BOX[rows])
            seen += len(block)
    queue.close()


def test_a_generator(path: Path) -> None:
    stream = multitables.Streamer(filename=path)
    kept = list(stream.get_generator("/box", 2, 3, False, 32))
    same(np.array(kept), BOX)
    for number, row in enumerate(stream.get_generator("/box", 2, 3, True, 32)):
        same(row, BOX[number % ROWS])
        if number == 3 * ROWS:
            break


def test_one_queue_and_many_threads(path: Path) -> None:
    stream = multitables.Streamer(filename=path)
    queue = stream.get_queue(path="/box", n_procs=2, block_size=5)
    firsts: list[int] = []

    def work() -> None:
        for guard in queue.iter():
            with guard as block:
                firsts.append(int(block[0, 0, 0]))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(firsts) == list(range(0, ROWS * 100, 500))
    queue.close()


# ---- one stage


def test_random_access_in_a_loop(reader: Any) -> None:
    for path, want in (("/box", BOX), ("/table", TABLE)):
        dataset = reader.get_dataset(path=path)
        stage = dataset.create_stage(2)
        for idx in np.random.default_rng(1).permutation(np.arange(0, dataset.shape[0], 2)):
            with reader.request(dataset[idx : idx + 2], stage).get_unsafe() as data:
                same(data, want[idx : idx + 2])
    data = None


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda future, look: look(future.get()),
    "get_direct": lambda future, look: future.get_direct(look),
    "get_unsafe": lambda future, look: _within(future.get_unsafe(), look),
    "get_proxy": lambda future, look: _within(future.get_proxy(), look),
}


def _within(lent: Any, look: Any) -> None:
    with lent as data:
        look(data)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_taking(reader: Any, way: str) -> None:
    dataset = reader.get_dataset(path="/box")
    stage = dataset.create_stage(shape=10)
    for first in range(0, ROWS, 10):
        seen: list[Any] = []
        WAYS[way](reader.request(dataset[first : first + 10], stage), seen.append)
        if way != "get_proxy":
            same(seen[0], BOX[first : first + 10])
    stage.close()


def test_a_stage_for_each_of_several_requests(reader: Any) -> None:
    dataset = reader.get_dataset(path="/box")
    stages = [dataset.create_stage(1) for _ in range(10)]
    for start in range(0, ROWS, 10):
        reqs = [(start + i, reader.request(dataset[start + i], stages[i])) for i in range(10)]
        for number, req in reqs:
            same(req.get(), BOX[number])


INDEXES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "column, rows": ("/table", lambda d: d["col_A"][30:35]),
    "rows, column": ("/table", lambda d: d[30:35]["col_A"]),
    "column, rows, mask": ("/table", lambda d: d["col_A"][30:35, WIDE]),
    "all, column, rows, mask": ("/table", lambda d: d[:]["col_A"][30:35, WIDE]),
    "column, list": ("/table", lambda d: d["col_A"][[1, 2, 3]]),
    "list, column": ("/table", lambda d: d[[1, 2, 3]]["col_A"]),
    "column, row": ("/table", lambda d: d["col_A"][0]),
    "row, column": ("/table", lambda d: d[0]["col_A"]),
    "steps": ("/box", lambda d: d[4:16:2, ...]),
    "last axis": ("/box", lambda d: d[..., :105]),
    "all, mask": ("/box", lambda d: d[:][:, BOX[0] > 5]),
    "mask": ("/box", lambda d: d[BOX > 5]),
    "lists": ("/box", lambda d: d[[1, 2, 3], [1, 2, 3], [1, 2, 3]]),
    "all, lists": (
        "/box", lambda d: d[:][np.array([1, 2, 3])[:, np.newaxis], [1, 2, 3], [1, 2, 3]]
    ),
}  # fmt: skip


def test_indexes_through_one_stage(reader: Any) -> None:
    stages: dict[str, Any] = {}
    for path, index in INDEXES.values():
        dataset = reader.get_dataset(path=path)
        stage = stages.setdefault(path, dataset.create_stage(ROWS))
        with reader.request(index(dataset), stage).get_unsafe() as data:
            same(data, np.asarray(index({"/box": BOX, "/table": TABLE}[path])))


def test_methods_of_tables_through_one_stage(reader: Any) -> None:
    dataset = reader.get_dataset(path="/table")
    stage = dataset.create_stage(ROWS)
    part, ordered = TABLE[10:40], np.sort(TABLE, order="col_C")
    req = dataset.where("col_C > x", condvars={"x": 0.11}, start=10, stop=40)
    with reader.request(req, stage).get_unsafe() as data:
        same(data, part[part["col_C"] > 0.11])
    req = dataset.read_sorted("col_C", checkCSI=True, start=20, stop=30)
    with reader.request(req, stage).get_unsafe() as data:
        same(data, ordered[20:30])
    data = None


def test_what_was_an_error_is_one(reader: Any) -> None:
    dataset = reader.get_dataset(path="/box")
    stage = dataset.create_stage(ROWS)
    with pytest.raises(IndexError):
        dataset[...][:5]
    for req in (
        dataset[:, BOX[0] > 5],
        dataset[:, [1, 2, 3], [1, 2, 3]],
        dataset[np.array([1, 2, 3])[:, np.newaxis], [1, 2, 3], [1, 2, 3]],
    ):
        with pytest.raises(IndexError), reader.request(req, stage).get_unsafe():
            raise AssertionError("a result")
    small = dataset.create_stage(10)
    with pytest.raises(multitables.SharedMemoryError):
        reader.request(dataset[:], small).get()
    first = reader.request(dataset[0:5], small)
    with pytest.raises(RuntimeError):  # the stage is busy
        reader.request(dataset[5:9], small)
    same(first.get(), BOX[0:5])
    same(reader.request(dataset[5:9], small).get(), BOX[5:9])
    stage.close()
    with pytest.raises(RuntimeError):
        reader.request(dataset[0], stage)


# ---- several threads


def test_a_pool_of_stages_and_a_pool_of_requests(reader: Any) -> None:
    dataset = reader.get_dataset(path="/table")
    stage_pool = dataset.create_stage_pool(1, 10)
    reqs = multitables.RequestPool()
    table_len = dataset.shape[0]

    def loader() -> None:
        for idx in range(table_len):
            reqs.add(reader.request(dataset[idx : idx + 1], stage_pool))

    loader_thread = threading.Thread(target=loader)
    loader_thread.start()
    for idx in range(table_len):
        same(reqs.next().get(), TABLE[idx : idx + 1])
    loader_thread.join()


def test_the_same_with_views(reader: Any) -> None:
    """More results are looked at, and kept by their names, than the pool has stages."""
    dataset = reader.get_dataset(path="/table")
    stage_pool = dataset.create_stage_pool(1, 2)
    reqs = multitables.RequestPool()

    def loader() -> None:
        for idx in range(ROWS):
            reqs.add(reader.request(dataset[idx : idx + 1], stage_pool))

    loader_thread = threading.Thread(target=loader)
    loader_thread.start()
    kept = []
    for _ in range(ROWS):
        with reqs.next().get_unsafe() as data:
            kept.append(data)
    loader_thread.join()
    same(np.concatenate(kept), TABLE)


def test_stages_that_two_threads_pass_on(reader: Any) -> None:
    dataset = reader.get_dataset(path="/table")
    free = collections.deque(dataset.create_stage(1) for _ in range(4))
    asked: collections.deque[Any] = collections.deque()
    changed = threading.Condition()

    def loader() -> None:
        for idx in range(ROWS):
            with changed:
                while not free:
                    changed.wait()
                stage = free.popleft()
            request = reader.request(dataset[idx : idx + 1], stage)
            with changed:
                asked.append((idx, stage, request))
                changed.notify_all()

    loader_thread = threading.Thread(target=loader)
    loader_thread.start()
    for _ in range(ROWS):
        with changed:
            while not asked:
                changed.wait()
            idx, stage, request = asked.popleft()
        with request.get_unsafe() as data:
            same(data, TABLE[idx : idx + 1])
        with changed:
            free.append(stage)
            changed.notify_all()
    loader_thread.join()
    data = None


def test_a_function_that_is_notified(path: Path) -> None:
    told: queues.SimpleQueue[Any] = queues.SimpleQueue()
    reader = multitables.Reader(filename=path, n_procs=2, notify=told.put)
    dataset = reader.get_dataset(path="/box")
    pool = dataset.create_stage_pool(1, 5)
    rows = set()
    for idx in range(5):
        reader.request(dataset[idx], pool)
    for idx in range(5, ROWS + 5):
        with told.get().get_unsafe() as data:  # in the order in which they are done
            rows.add(int(data[0, 0]) // 100)
        if idx < ROWS:
            reader.request(dataset[idx], pool)
    assert rows == set(range(ROWS))
    reader.close(wait=True)
    assert told.get() is multitables.QueueClosed


# ---- the end


def test_programs_that_close_nothing(path: Path) -> None:
    reader = multitables.Reader(filename=path, n_procs=2)
    dataset = reader.get_dataset(path="/box")
    stage = dataset.create_stage(10)
    same(reader.request(dataset[:10], stage).get(), BOX[:10])


def test_close_without_waiting(path: Path) -> None:
    reader = multitables.Reader(filename=path, n_procs=2)
    dataset = reader.get_dataset(path="/box")
    stage = dataset.create_stage(10)
    with reader.request(dataset[:10], stage).get_unsafe() as data:
        same(data, BOX[:10])
    data = None
    stage.close()
    reader.close()
    with pytest.raises(multitables.QueueClosedException):
        reader.request(dataset[0], stage)
