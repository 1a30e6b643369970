"""The user's process is killed, interrupted, or ends in its own way.

1. Each case is a script in a process of its own, so that a real end is a real end.
2. Its readers are found by their process ids, and must be gone; nothing may be printed at exit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from parent_scripts import PRELUDE, by
from payload import ROWS
from processes import (
    children,
    environment,
    first_readers,
    gone,
    kill,
    run_script,
    script,
    wait_until,
)

#: What a program does while its stream runs; each prints a line when it is in the middle.
RUNNING = {
    "queue": """
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True)
guard = stream.get()
print('ready', flush=True)
for guard in stream:
    with guard:
        pass
""",
    "waiting": """
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True, read_ahead=1)
print('ready', flush=True)
held = [guard for guard in stream]
""",
    "generator": """
rows = streamer.get_generator('/rows', n_procs=2, cyclic=True)
next(rows)
print('ready', flush=True)
for row in rows:
    pass
""",
    "resting": """
streamer.__enter__()
with streamer.get_queue('/rows', n_procs=2) as stream:
    for guard in stream:
        with guard:
            pass
print('ready', flush=True)
time.sleep(1000)
""",
    "idle": """
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True)
guard = stream.get()
print('ready', flush=True)
time.sleep(1000)
""",
    "thread": """
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True)
def consume():
    for guard in stream:
        with guard:
            pass
threading.Thread(target=consume, daemon=True).start()
print('ready', flush=True)
time.sleep(1000)
""",
}


@pytest.mark.parametrize("case", ["waiting", "resting", "thread"])
def test_a_killed_parent_takes_its_readers_with_it(numbered: Path, case: str) -> None:
    with script(PRELUDE + RUNNING[case], numbered) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        team = first_readers(2, process.pid)
        kill(process.pid)
        process.wait(20)
        gone(team)


def test_a_stopped_reader_of_a_killed_parent(numbered: Path) -> None:
    """It cannot see the end while it is stopped; when it goes on, it does."""
    with script(PRELUDE + RUNNING["idle"], numbered) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        team = first_readers(2, process.pid)
        for pid in team:
            kill(pid, signal.SIGSTOP)
        kill(process.pid)
        process.wait(20)
        for pid in team:
            kill(pid, signal.SIGCONT)
        gone(team)


@pytest.mark.parametrize("n_procs", [2, 0])
@pytest.mark.parametrize("case", ["queue", "waiting", "generator", "idle", "thread"])
def test_ctrl_c_in_a_loop(numbered: Path, case: str, n_procs: int) -> None:
    """The signal goes to the whole group, as from a terminal; Python's own answer is all."""
    with script(PRELUDE + by(n_procs, RUNNING[case]), numbered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        team = first_readers(n_procs, process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
        gone(team)
        said = process.stderr.read()
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert said.count("Traceback") == 1
        assert "Exception ignored" not in said


@pytest.mark.parametrize("n_procs", [2, 0])
def test_ctrl_c_that_is_caught(numbered: Path, n_procs: int) -> None:
    """The program lives on: the stream can be closed, or used further."""
    source = by(
        n_procs,
        PRELUDE
        + """
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True)
for attempt in range(3):
    try:
        print('ready', flush=True)
        while True:
            with stream.get() as block:
                first = int(block[0, 0]) // 64
            del block
    except KeyboardInterrupt:
        with stream.get() as block:
            assert len(block) == stream.block_size
        del block
stream.close()
print('closed', flush=True)
""",
    )
    with script(source, numbered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(3):
            assert process.stdout.readline() == "ready\n"
            first_readers(n_procs, process.pid)
            os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "closed\n"
        assert process.wait(20) == 0, process.stderr.read()


BODY = {
    "queue": """
for guard in streamer.get_queue('/rows', n_procs=2, cyclic=True):
    with guard as block:
        1 / 0
""",
    "with queue": """
with streamer.get_queue('/rows', n_procs=2, cyclic=True) as stream:
    for guard in stream:
        with guard:
            1 / 0
""",
    "generator": """
for row in streamer.get_generator('/rows', n_procs=2, cyclic=True):
    1 / 0
""",
    "streamer": """
with streamer:
    for row in streamer.get_generator('/rows', n_procs=2):
        1 / 0
""",
}


@pytest.mark.parametrize("n_procs", [2, 0])
@pytest.mark.parametrize("case", BODY)
def test_an_exception_in_the_loop_body_ends_the_program(
    numbered: Path, case: str, n_procs: int
) -> None:
    source = PRELUDE + by(n_procs, BODY[case])
    done = run_script(source, numbered)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")
    assert done.stderr.count("Traceback") == 1
    assert _readers_of_anybody(numbered) == []


def _readers_of_anybody(path: Path) -> list[int]:
    """Processes that have this file open, or are readers whose parent is init."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            opened = [
                os.readlink(f"/proc/{entry}/fd/{fd}") for fd in os.listdir(f"/proc/{entry}/fd")
            ]
        except OSError:
            continue
        if str(path) in opened:
            found.append(int(entry))
    return found


@pytest.mark.parametrize("n_procs", [2, 0])
@pytest.mark.parametrize("body", list(BODY.values()), ids=list(BODY))
def test_an_exception_that_is_caught_leaves_no_reader(
    numbered: Path, body: str, n_procs: int
) -> None:
    """Once the exception is gone, so are the readers: they do not wait for the program's end."""
    indented = "\n".join("    " + line for line in by(n_procs, body).splitlines())
    source = (
        PRELUDE
        + f"def loop():\n{indented}\n"
        + """
try:
    loop()
except ZeroDivisionError:
    pass
import gc
gc.collect()
with open(f'/proc/self/task/{os.getpid()}/children') as listed:
    team = listed.read().split()
multitables.release_memory()
def threads():
    names = []
    for task in os.listdir('/proc/self/task'):
        try:
            names.append(open(f'/proc/self/task/{task}/comm').read())
        except OSError:
            pass
    return [name for name in names if 'multitables' in name]
deadline = time.monotonic() + 5
while threads() and time.monotonic() < deadline:
    pass
print(team, threads())
"""
    )
    done = run_script(source, numbered)
    assert done.stdout == "[] []\n", done.stderr


EXITS = {
    "end": "",
    "sys.exit": "sys.exit(3)",
    "os._exit": "os._exit(3)",
    "thread": "threading.Thread(target=stream.get, daemon=True).start()",
    "cycle": "stream.me = stream; cycle = [stream]; cycle.append(cycle)",
    "held": "blocks = [stream.get().__enter__() for _ in range(5)]",
    "atexit": "import atexit; atexit.register(lambda: stream.get())",
    "generator": "rows = streamer.get_generator('/rows', n_procs=1); next(rows)",
    "streamer": "streamer.__enter__(); other = streamer.get_queue('/raw', n_procs=1)",
}


@pytest.mark.parametrize("n_procs", [2, 0])
@pytest.mark.parametrize("case", EXITS)
def test_an_interpreter_ends_with_a_running_stream(numbered: Path, case: str, n_procs: int) -> None:
    """Quietly: no message, no wait, no reader."""
    source = (
        PRELUDE
        + f"stream = streamer.get_queue('/rows', n_procs={n_procs}, cyclic=True)\n"
        + "guard = stream.get()\n"
        + EXITS[case]
    )
    done = run_script(source, numbered)
    assert done.returncode == (3 if "exit(3)" in EXITS[case] else 0), done.stderr
    assert done.stderr == ""
    wait_until(lambda: _readers_of_anybody(numbered) == [], "the end of the readers")


def test_no_main_guard_is_needed(numbered: Path, tmp_path: Path) -> None:
    """A plain script that streams at its top level, run as a file and through a pipe."""
    source = (
        "import sys, multitables\n"
        "count = 0\n"
        "for row in multitables.Streamer(sys.argv[1]).get_generator('/rows', n_procs=2):\n"
        "    count += 1\n"
        "print(count)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(source)
    for command, stdin in (
        ([sys.executable, str(program), str(numbered)], None),
        ([sys.executable, "-", str(numbered)], source),
        ([sys.executable, "-I", str(program), str(numbered)], None),
    ):
        if "-I" in command and not _installed():
            continue
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=environment(), timeout=40,
            check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.stdout == f"{ROWS}\n", done.stderr
        assert done.stderr == ""


def _installed() -> bool:
    found = subprocess.run(
        [sys.executable, "-I", "-c", "import multitables"], capture_output=True, check=False
    )
    return found.returncode == 0


def test_files_beside_the_program_are_not_taken_for_modules(numbered: Path, tmp_path: Path) -> None:
    """A folder with a `json.py` or `struct.py` of the user's harms no reader."""
    for name in ("json", "struct", "encodings", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('the user has his own')\n")
    source = (
        "import sys, os\n"
        "sys.path = [entry for entry in sys.path if entry not in ('', os.getcwd())]\n"
        "import multitables\n"
        "rows = multitables.Streamer(sys.argv[1]).get_generator('/rows', n_procs=1)\n"
        "print(sum(1 for _ in rows))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(numbered)],
        capture_output=True, text=True, env=environment(), timeout=40, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == f"{ROWS}\n", done.stderr


def test_in_a_notebook(numbered: Path) -> None:
    """Cells run by exec in a `__main__` without a file, in a thread that is not the main one."""
    cells = [
        "import multitables; streamer = multitables.Streamer(path)",
        "stream = streamer.get_queue('/rows', n_procs=2)",
        "at = 0\nfor guard in stream:\n    with guard as block:\n        at += len(block)",
        "print(at)",
        "stream = streamer.get_queue('/rows', n_procs=2, cyclic=True); stream.get()",
        # the same cell again: the old stream goes
        "stream = streamer.get_queue('/rows', n_procs=2, cyclic=True)",
        "print(len(stream.statistics()['readers']))",
    ]
    source = (
        "import sys, threading, __main__\n"
        "if hasattr(__main__, '__file__'): del __main__.__file__\n"
        f"cells = {cells!r}\n"
        "namespace = {'__name__': '__main__', 'path': sys.argv[1]}\n"
        "def run():\n"
        "    for cell in cells:\n"
        "        exec(cell, namespace)\n"
        "thread = threading.Thread(target=run); thread.start(); thread.join()\n"
    )
    done = run_script(source, numbered)
    assert done.stdout == f"{ROWS}\n2\n", done.stderr
    assert done.stderr == ""


def test_a_consumer_that_never_comes_back(numbered: Path) -> None:
    """Nobody calls `get`: readers fill the ring once and then sleep; they are there when wanted."""
    import multitables

    with multitables.Streamer(numbered).get_queue(
        "/rows", n_procs=2, cyclic=True, read_ahead=3
    ) as stream:
        team = first_readers(2)

        def state() -> list[str]:
            return [
                Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in team
            ]

        def counted() -> int:
            return sum(reader["tasks"] for reader in stream.statistics()["readers"])

        wait_until(lambda: stream.qsize() >= 3, "a ring that is full")
        wait_until(lambda: state() == ["S", "S"], "readers that sleep")
        tasks = counted()
        rows = stream.statistics()["ring_rows"]
        spans = ROWS / stream.statistics()["tasks"]
        assert tasks <= rows / spans + 1  # not more than fits
        assert stream.get() is not None
    assert children() == {}
