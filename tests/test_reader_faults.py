"""Random access: faults x entry points, and what is still good after each.

1. A request fails alone, typed and with its place; other requests, and the Reader, go on.
2. Nothing hangs: whatever waits gets a result or an error.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from oracle import same
from payload import CHUNK, COLUMNS, ROWS, content
from processes import (
    alive,
    children,
    environment,
    first_readers,
    kill,
    readers,
    run_script,
    script,
    wait_until,
)

import multitables

DATA = content()
BATCHES = [slice(0, 70), slice(5000, 5999), [3, 5999, 70, 70, 0], 17, slice(None, None, 97)]


@pytest.fixture
def reader(numbered: Path) -> Iterator[Any]:
    with multitables.Reader(numbered, n_procs=2) as reader:
        yield weakref.proxy(reader)  # pytest keeps what it is given beyond the audit
    assert children() == {}


def check(reader: Any, rounds: int = 1) -> None:
    """The Reader works."""
    dataset = reader.get_dataset("/rows")
    for _ in range(rounds):
        requests = [reader.request(dataset[key]) for key in BATCHES]
        for key, request in zip(BATCHES, requests, strict=True):
            same(request.get(), np.asarray(DATA[key]))


def kill_all() -> None:
    for pid in readers():
        kill(pid)
        wait_until(lambda pid=pid: not alive(pid), "a dead reader")


# ---- readers that die


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


def poisoned(h5: Path, monkeypatch: pytest.MonkeyPatch, deaths: int) -> None:
    """A file whose /x is read through h5py, which kills so many readers."""
    poison = h5.parent / "poison"
    poison.mkdir()
    (poison / "h5py.py").write_text(
        "import os, pathlib, signal, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        f"if len(list(here.glob('death*'))) < {deaths}:\n"
        "    (here / f'death{os.getpid()}').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.path.remove(str(here))\n"
        "del sys.modules['h5py']\n"
        "import h5py\n"
        "sys.modules['h5py'] = h5py\n"
    )
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(10, 3), scaleoffset=0)
        file.create_dataset("y", data=smooth((40, 3)), chunks=(10, 3), compression="gzip")
    monkeypatch.syspath_prepend(str(poison))


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
    monkeypatch.setattr("_multitables.parent.supervisor._executable", lambda: "/bin/false")
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
    monkeypatch.setattr("_multitables.parent.supervisor._executable", lambda: "/no/such/python")
    with pytest.raises(OSError, match="/no/such/python"):
        multitables.Reader(numbered, n_procs=2)
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


# ---- the end


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


# ---- stages


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


# ---- files that are damaged


def test_a_corrupt_chunk_fails_the_requests_that_need_it(h5: Path) -> None:
    images = np.arange(1000 * 64, dtype="f4").reshape(1000, 8, 8)
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("images", data=images, chunks=(64, 8, 8), fletcher32=True)
        stored = made.id.get_chunk_info_by_coord((192, 0, 0))
    with open(h5, "r+b") as raw:
        raw.seek(stored.byte_offset + 100)
        raw.write(b"oops")
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/images")
        for key in (slice(100, 200), 193, [5, 255, 999], slice(None)):
            with pytest.raises(multitables.CorruptChunkError, match="fletcher32") as caught:
                reader.request(dataset[key]).get()
            error = caught.value
            assert isinstance(error, OSError)
            assert (error.path, error.chunk_offset) == ("/images", (192, 0, 0))
            assert error.byte_offset == stored.byte_offset
            assert error.byte_range == (stored.byte_offset, stored.byte_offset + stored.size)
            assert "chunk (192, 0, 0)" in str(error)
            assert "other requests are not affected" in str(error)
        for key in (slice(0, 192), 256, [191, 256], slice(256, None)):
            same(reader.request(dataset[key]).get(), np.asarray(images[key]))
        del error, caught


def test_a_file_that_is_cut_short(numbered: Path, h5: Path) -> None:
    h5.write_bytes(numbered.read_bytes())
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/raw")
        same(reader.request(dataset[5]).get(), DATA[5])
        os.truncate(h5, h5.stat().st_size // 4)
        kinds = (multitables.FileChangedError, multitables.CorruptChunkError)
        with pytest.raises(kinds, match=r"data\.h5") as caught:
            reader.request(dataset[ROWS - 300 :]).get()
        assert isinstance(caught.value, OSError)
        del caught
    with pytest.raises(multitables.FileOpenError, match="truncated"):
        multitables.Reader(h5)


def test_a_file_that_is_written_to(numbered: Path, h5: Path) -> None:
    h5.write_bytes(numbered.read_bytes())
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/rows")
        same(reader.request(dataset[5]).get(), DATA[5])
        with h5py.File(h5, "r+") as file:
            file["rows"][1000:2000] = 0
        with pytest.raises(multitables.FileChangedError, match="changed after it was indexed"):
            reader.request(dataset[1500:1600]).get()
        again = reader.get_dataset("/rows")
        assert not reader.request(again[1500:1600]).get().any()


def test_a_column_of_a_file_that_was_written_to(h5: Path) -> None:
    rows = np.zeros(100, [("a", "<i4"), ("b", "<f8")])
    with h5py.File(h5, "w") as file:
        file.create_dataset("t", data=rows, chunks=(10,))
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/t")
        with h5py.File(h5, "r+") as file:
            file["more"] = 3
        with pytest.raises(multitables.FileChangedError):
            reader.request(dataset["b"][3:5]).get()


def test_a_file_that_is_gone(numbered: Path, h5: Path) -> None:
    h5.write_bytes(numbered.read_bytes())
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/rows")
        h5.unlink()
        with pytest.raises(OSError, match="rows") as caught:
            reader.request(dataset[5]).get()
        assert isinstance(caught.value, multitables.SubprocessException)
        with pytest.raises(FileNotFoundError):
            reader.get_dataset("/raw")


# ---- the user's process


PRELUDE = """
import os, sys, threading, time, gc
import numpy as np
import multitables
reader = multitables.Reader(sys.argv[1], n_procs=2)
dataset = reader.get_dataset('/rows')
stage = dataset.create_stage(100)
"""
RUNNING = {
    "busy": "print('ready', flush=True)\nwhile True: reader.request(dataset[3:90], stage).get()",
    "idle": "reader.request(dataset[3]).get(); print('ready', flush=True); time.sleep(1000)",
    "watched": """
reader.request(dataset[3]).add_done_callback(lambda _: print('ready', flush=True))
time.sleep(1000)
""",
    "thread": """
def ask():
    while True: reader.request(dataset[3:9]).get()
threading.Thread(target=ask, daemon=True).start()
print('ready', flush=True)
while True: reader.request(dataset[5]).get()
""",
}


def gone(pids: list[int]) -> None:
    wait_until(lambda: not any(map(alive, pids)), f"the end of {pids}")


@pytest.mark.parametrize("case", RUNNING)
def test_a_killed_parent_takes_its_readers_with_it(numbered: Path, case: str) -> None:
    with script(PRELUDE + RUNNING[case], numbered) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        team = first_readers(2, process.pid)
        kill(process.pid)
        process.wait(20)
        gone(team)


def test_ctrl_c(numbered: Path) -> None:
    with script(PRELUDE + RUNNING["busy"], numbered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        team = first_readers(2, process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
        gone(team)
        said = process.stderr.read()
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert said.count("Traceback") == 1


def test_ctrl_c_in_a_get_that_waits(numbered: Path) -> None:
    """Readers are stopped, so the wait is long; the program lives on."""
    source = (
        PRELUDE
        + """
import signal
with open(f'/proc/self/task/{os.getpid()}/children') as listed:
    team = [int(pid) for pid in listed.read().split()]
for pid in team: os.kill(pid, signal.SIGSTOP)
request = reader.request(dataset[3:9], stage)
try:
    print('ready', flush=True)
    request.get()
except KeyboardInterrupt:
    for pid in team: os.kill(pid, signal.SIGCONT)
    assert request.get()[0, 0] == 3 * 64
    print('closed', flush=True)
reader.close(wait=True)
"""
    )
    with script(source, numbered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "closed\n"
        assert process.wait(20) == 0, process.stderr.read()


EXITS = {
    "end": "",
    "sys.exit": "sys.exit(3)",
    "os._exit": "os._exit(3)",
    "pending": "requests = [reader.request(dataset[:]) for _ in range(20)]",
    "view": "view = reader.request(dataset[3:9], stage).get_unsafe().__enter__()",
    "thread": """
def ask():
    try:
        while True: reader.request(dataset[:]).get()
    except multitables.ClosedError: pass
threading.Thread(target=ask, daemon=True).start()
""",
    "watched": "reader.request(dataset[:]).add_done_callback(lambda _: None)",
    "closing": "request = reader.request(dataset[:]); reader.close()",
    "cycle": "reader.me = reader; request = reader.request(dataset[3]); request.me = request",
    "atexit": "import atexit; atexit.register(lambda: reader.request(dataset[3]).get())",
    "notify": "other = multitables.Reader(sys.argv[1], 1, notify=lambda _: None); "
    "other.request(other.get_dataset('/raw')[3])",
}


@pytest.mark.parametrize("case", EXITS)
def test_an_interpreter_ends_with_a_running_reader(numbered: Path, case: str) -> None:
    """Quietly: no message, no wait, no reader."""
    source = PRELUDE + "assert reader.request(dataset[3]).get()[0] == 192\n" + EXITS[case]
    done = run_script(source, numbered)
    assert done.returncode == (3 if "exit(3)" in EXITS[case] else 0), done.stderr
    assert done.stderr == ""
    wait_until(lambda: _open_elsewhere(numbered) == [], "the end of the readers")


def _open_elsewhere(path: Path) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            opened = [os.readlink(f"/proc/{entry}/fd/{n}") for n in os.listdir(f"/proc/{entry}/fd")]
        except OSError:
            continue
        if str(path) in opened:
            found.append(int(entry))
    return found


FORKED = (
    PRELUDE
    + """
import warnings
warnings.simplefilter('ignore', DeprecationWarning)  # of fork beside threads
answered = reader.request(dataset[5:9], stage)
answered.exception()
pending = reader.request(dataset[:])
watched = reader.request(dataset[1]); watched.add_done_callback(lambda _: None)
child = os.fork()
if child == 0:
    status = 1
    {child}
    os._exit(status)
_, status = os.waitpid(child, 0)
assert answered.get()[0, 0] == 5 * 64
assert len(pending.get()) == 6000
for _ in range(50):
    assert reader.request(dataset[7:9], stage).get()[0, 0] == 7 * 64
assert reader.statistics()['readers_replaced'] == 0
print('status', os.waitstatus_to_exitcode(status), flush=True)
reader.close(wait=True)
"""
)
CHILDREN = {
    "asks": """
    for ask in (
        lambda: reader.request(dataset[3]), lambda: reader.request(dataset[3], stage),
        lambda: reader.get_dataset('/rows'), answered.get, pending.get, pending.result,
        lambda: reader.request(dataset[[1, 2]]), watched.get, watched.result,
    ):
        try:
            ask()
        except multitables.ClosedError as error:
            assert 'fork' in str(error) and str(os.getppid()) in str(error)
        else:
            os._exit(9)
    assert pending.done()
    told = []
    pending.add_done_callback(told.append); watched.add_done_callback(told.append)
    assert told[0] is pending
    status = 0""",
    "closes": "reader.close(wait=True); reader.stop(); stage.close(); status = 0",
    "drops": "del reader, dataset, stage, answered, pending, watched; gc.collect(); status = 0",
    "exits": "sys.exit(0)",
    "reads": """
    with multitables.Reader(sys.argv[1], n_procs=1) as mine:
        rows = mine.get_dataset('/rows')
        own = rows.create_stage(3)
        assert mine.request(rows[3:5], own).get()[0, 0] == 3 * 64
        assert mine.request(rows[4]).get()[0] == 4 * 64
        for ask in (
            lambda: mine.request(dataset[3]), lambda: mine.request(dataset[[1, 2]]),
            lambda: mine.request(rows[3], stage),
        ):
            try:
                ask()
            except multitables.ClosedError as error:
                assert 'stage is closed' in str(error) or 'of this process' in str(error), error
            else:
                os._exit(9)
        status = 0""",
}


@pytest.mark.parametrize("case", CHILDREN)
def test_forked_children_do_no_harm(numbered: Path, case: str) -> None:
    done = run_script(FORKED.replace("{child}", CHILDREN[case].strip()), numbered)
    assert done.stdout == "status 0\n", done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_readers_hold_nothing_of_the_parent(numbered: Path) -> None:
    """Neither its descriptors nor its modules: the socket, the data, the board and the arena."""
    with multitables.Reader(numbered, n_procs=1) as reader:
        check(reader)
        (pid,) = readers()
        targets = {
            os.readlink(f"/proc/{pid}/fd/{name}").split(":")[0]
            for name in os.listdir(f"/proc/{pid}/fd")
            if int(name) > 2
        }
        assert targets <= {"anon_inode", "socket", "/memfd", str(numbered)}
        maps = Path(f"/proc/{pid}/maps").read_text()
        for library in ("h5py", "numpy", "libhdf5", "tables"):
            assert f"/{library}" not in maps
    assert not [name for name in os.listdir("/dev/shm") if "multitables" in name]


def test_rows_are_whole(numbered: Path) -> None:
    """What the file promises of itself, so that the tests above mean something."""
    assert DATA.shape == (ROWS, COLUMNS)
    assert ROWS % CHUNK == 0
    assert environment()["PYTHONPATH"]
