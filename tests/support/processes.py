"""What a process holds, and scripts run in a process of their own.

Law
---
1. Owns every look into /proc and every script that a test starts; tests only ask.
2. It knows nothing of streams: a reader is a child whose command line names _multitables,
   and not the programs of the benchmark in it.
3. A wait always has a deadline, and says what it waited for.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from _multitables import machine

SETTLE_SECONDS = 3.0
READER = re.compile(r"_multitables(?!.benchmark)")
#: A script is hung up on by default, also where the tests run under ``nohup``.
HANG_UP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"


#: Servers that run for all tests of this process, and are no test's children.
lasting: set[int] = set()


def children(pid: int | None = None) -> dict[int, str]:
    """The direct children of a process, zombies too: pid -> command line."""
    found = {}
    for child in _children(os.getpid() if pid is None else pid):
        if child not in lasting and (state := _stat(child)) is not None:
            found[child] = _command_line(child) or f"(zombie or kernel, {state[0]})"
    return found


def _children(parent: int) -> Iterator[int]:
    try:
        for task in _tasks(parent):
            yield from map(int, Path(f"/proc/{parent}/task/{task}/children").read_text().split())
    except FileNotFoundError:  # a thread that ended, or a kernel that does not list children
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (state := _stat(int(entry))) is not None and state[1] == parent:
                yield int(entry)


def readers(pid: int | None = None) -> list[int]:
    """The living reader processes of a parent, oldest first."""
    lines = children(pid).items()
    return sorted(child for child, line in lines if READER.search(line) and alive(child))


def alive(pid: int) -> bool:
    """Whether the process exists and is not only a zombie."""
    state = _stat(pid)
    return state is not None and state[0] not in "ZX"


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and parent of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1])


def _command_line(pid: int) -> str:
    """Its command line; none of a zombie."""
    found: list[str] = []

    def is_told() -> bool:
        with contextlib.suppress(OSError):
            found[:] = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()]
        return any(found) or not alive(pid)

    # In the middle of an exec, and at the end of its life, a process has none for a moment.
    wait_until(is_told, f"the command line of process {pid}")
    return "".join(found)


@dataclass(frozen=True)
class Holdings:
    """What this process holds at one moment; each item named so that it can be printed."""

    children: frozenset[str]
    descriptors: frozenset[str]
    threads: frozenset[str]
    mappings: frozenset[str]

    @classmethod
    def now(cls) -> Holdings:
        return cls(
            frozenset(f"{pid} {line}" for pid, line in children().items()),
            frozenset(_descriptors()),
            frozenset(threads()),
            frozenset(_mappings()),
        )

    def since(self, before: Holdings) -> dict[str, list[str]]:
        """What is here and was not before."""
        new = {
            "child processes": self.children - before.children,
            "descriptors": self.descriptors - before.descriptors,
            "threads": self.threads - before.threads,
            "shared mappings": self.mappings - before.mappings,
        }
        return {kind: sorted(items) for kind, items in new.items() if items}


def _descriptors() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if not target.startswith("/proc/"):  # the one that lists this folder
                yield f"{name} -> {target}"


def threads() -> Iterator[str]:
    """The threads of this process, each with its name, but for one that Arrow's allocator keeps."""
    for tid in _tasks(os.getpid()):
        with contextlib.suppress(OSError):
            name = Path(f"/proc/self/task/{tid}/comm").read_text().strip()
            if name != "jemalloc_bg_thd":
                yield f"{tid} {name}"


def _tasks(pid: int) -> set[str]:
    """The threads of a process; read until two lists agree.

    The kernel ends a list early when the thread that it stands at ends meanwhile.
    """
    tasks: set[str] = set()
    while tasks != (again := set(os.listdir(f"/proc/{pid}/task"))):
        tasks = again
    return tasks


def _mappings() -> Iterator[str]:
    whole = Path("/proc/self/maps").read_bytes()
    if b"memfd:" not in whole and b"/dev/shm/" not in whole:
        return  # after most of thousands of tests, of a thousand lines
    for line in whole.splitlines():
        if b"memfd:" in line or b"/dev/shm/" in line:
            place, *_, name = line.decode().split(maxsplit=5)
            yield f"{place} {name}"


def leaks(before: Holdings, seconds: float = SETTLE_SECONDS) -> dict[str, list[str]]:
    """What was not given back within some seconds; garbage is collected before it counts."""
    deadline = time.monotonic() + seconds
    while True:
        machine.release_memory()  # kept for more streams, for some seconds
        new = Holdings.now().since(before)
        if not new or time.monotonic() > deadline:
            return new
        if not gc.collect():
            time.sleep(0.005)


def wait_until(condition: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    """Waits for a condition; the failure says which one did not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not after {seconds} s")
        time.sleep(0.005)


def first_readers(count: int = 1, pid: int | None = None) -> list[int]:
    """Waits until a parent has that many readers, and returns them."""
    wait_until(lambda: len(readers(pid)) >= count, f"{count} readers")
    return readers(pid)


def gone(pids: list[int]) -> None:
    """Waits until all of them have ended."""
    wait_until(lambda: not any(map(alive, pids)), f"the end of {pids}")


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal to a process that may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def environment() -> dict[str, str]:
    """The environment of a script, which can import the tested library and these helpers."""
    face = importlib.util.find_spec("multitables")
    assert face is not None
    assert face.origin is not None
    paths = [str(Path(place).parent) for place in (face.origin, __file__)]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def run_script(
    source: str, *arguments: object, seconds: float = 30.0, flags: tuple[str, ...] = ("-W", "error")
) -> subprocess.CompletedProcess[str]:
    """Runs `python -c source arguments...` to its end."""
    command = [sys.executable, *flags, "-c", source, *map(str, arguments)]
    return subprocess.run(
        command,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@contextlib.contextmanager
def script(
    source: str, *arguments: object, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A running `python -c source arguments...` in a session of its own, killed at the end."""
    command = [sys.executable, "-W", "error", "-c", HANG_UP + source, *map(str, arguments)]
    with subprocess.Popen(
        command,
        env={**environment(), **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
