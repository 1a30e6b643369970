"""Random access: however the user's process ends or forks, nothing is left and nothing hangs.

Law
---
1. A request fails alone, typed and with its place; other requests, and the Reader, go on.
2. Nothing hangs: whatever waits gets a result or an error.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from payload import CHUNK, COLUMNS, ROWS
from processes import (
    environment,
    first_readers,
    gone,
    kill,
    readers,
    run_script,
    script,
    wait_until,
)
from reader_cases import DATA, check

import multitables

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
other = dataset.create_stage(2)
with reader.request(dataset[20:22], other).get_unsafe() as kept:
    pass
child = os.fork()
if child == 0:
    status = 1
    {child}
    os._exit(status)
_, status = os.waitpid(child, 0)
assert answered.get()[0, 0] == 5 * 64
assert len(pending.get()) == 6000
for _ in range(50):
    with reader.request(dataset[8:9], other).get_unsafe() as view:
        assert view[0, 0] == 8 * 64
    assert kept[1, 0] == 21 * 64
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
    "keeps a view": """
    assert kept[1, 0] == 21 * 64
    assert not other.busy
    del kept
    gc.collect()
    other.close()
    status = 0""",
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
