"""Faults: what may happen to a program that reads, and how its reading may end then.

Law
---
1. A fault acts at a moment: before a step of the reading, or at the N-th call of its kind.
2. Right data is always right. An error is right only if the fault's row names it.
3. A fault takes no step of the reading itself, and leaves nothing behind but what it is for.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from failing_calls import CALLS, NEVER, Control
from plain_server import PlainServer, Sent
from processes import alive, kill
from readings import Place

#: A variable that marks the processes of a program, also those that are nobody's children.
MARK = "MULTITABLES_TEST_MARK"


@dataclass
class Scene:
    """What a fault may touch."""

    place: Place
    draw: random.Random
    control: Control
    #: How often each call is made where nothing fails.
    counts: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    `act` is called before the step at which the fault happens. `ends` are the errors that may come
    of it. `only` and `not_for` name readings; a signal is for the program itself where `parent`
    says so, and the program that started it sends it. `begins` acts before anything is opened.
    """

    act: Callable[[Scene], None] = lambda _: None
    ends: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    not_for: tuple[str, ...] = ()
    parent: tuple[signal.Signals, ...] = ()
    begins: bool = False
    #: It comes from another thread, a little later.
    soon: bool = False
    #: A system call fails.
    is_call: bool = False
    #: A reader that cannot begin says so on standard error.
    prints: bool = False

    def is_for(self, reading: str) -> bool:
        return (not self.only or reading in self.only) and reading not in self.not_for


# ---- processes


def marked() -> Iterator[tuple[int, str]]:
    """The living processes that carry this program's mark: pid and command line."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    yield from with_mark(mark)


def with_mark(mark: bytes) -> Iterator[tuple[int, str]]:
    """The living processes with a variable: pid and command line."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                yield int(entry), Path(f"/proc/{entry}/cmdline").read_bytes().decode()
        except OSError:
            continue


def reader_pids() -> list[int]:
    """Readers of this program, and of a host that it started."""
    return sorted(pid for pid, line in marked() if "_multitables.reader" in line)


def _to_one(number: signal.Signals) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        if found := reader_pids():
            kill(scene.draw.choice(found), number)

    return act


def _to_all(number: signal.Signals) -> Callable[[Scene], None]:
    def act(_: Scene) -> None:
        for pid in reader_pids():
            kill(pid, number)

    return act


def _stop_and_continue(_: Scene) -> None:
    found = reader_pids()
    for pid in found:
        kill(pid, signal.SIGSTOP)
    time.sleep(0.2)
    for pid in found:
        kill(pid, signal.SIGCONT)


def _host(_: Scene) -> None:
    for pid, line in marked():
        if "node.host" in line and alive(pid):
            kill(pid)


def _interrupt(_: Scene) -> None:
    os.kill(os.getpid(), signal.SIGINT)


# ---- files


def _remove(scene: Scene) -> None:
    scene.place.path.unlink()


def _replace(scene: Scene) -> None:
    """Another file of the same name, size and content."""
    twin = scene.place.path.with_suffix(".twin")
    shutil.copy(scene.place.path, twin)
    os.replace(twin, scene.place.path)


def _truncate(scene: Scene) -> None:
    size = scene.place.path.stat().st_size
    os.truncate(scene.place.path, scene.draw.randrange(size))


def _append(scene: Scene) -> None:
    with scene.place.path.open("ab") as file:
        file.write(b"more")


def _damage(scene: Scene) -> None:
    """A byte of a stored chunk, and the file's time as before."""
    path = scene.place.path
    before = path.stat()
    offset, size = scene.draw.choice(json.loads(path.with_suffix(".json").read_text()))
    at = offset + scene.draw.randrange(size)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << scene.draw.randrange(8)]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# ---- stores


def _refused(status: int, times: int) -> Callable[[Scene], None]:
    """The next requests, or all from now on, get a status; -1: the server hangs up."""

    def act(scene: Scene) -> None:
        left = [times]

        def answer(_: Sent) -> int:
            left[0] -= 1
            return status if left[0] >= 0 else 0

        scene.place.server.status = answer

    return act


def _other_object(scene: Scene) -> None:
    scene.place.server.etag = '"2"'


def _shorter_object(scene: Scene) -> None:
    server: PlainServer = scene.place.server
    for name, data in server.objects.items():
        server.objects[name] = data[: scene.draw.randrange(len(data))]


def _no_object(scene: Scene) -> None:
    scene.place.server.objects.clear()


# ---- calls


def _call(name: str, role: str, error: int, is_lasting: bool) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        if count := scene.counts.get((name, role), 0):
            first = 1 + scene.draw.randrange(count)
            scene.control.arm(name, role, error, first, NEVER if is_lasting else first)

    return act


#: A short read, and a call that is made again.
HARMLESS = (0, errno.EINTR)
#: The errors that a call which fails may end in, by the call and by who made it.
CALL_ENDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("pread", "parent"): ("FileOpenError", "SubprocessException"),
    ("pread", "reader"): ("SubprocessException",),
    ("pwrite", "parent"): ("OptionsError",),  # the cache's folder cannot be made
    ("open", "parent"): ("FileOpenError",),
    ("memfd_create", "parent"): ("SharedMemoryError",),
    ("fallocate", "parent"): ("SharedMemoryError",),
    ("mmap", "parent"): ("SharedMemoryError",),
    ("mmap", "reader"): ("ReaderDiedError", "SharedMemoryError"),
    ("pthread_create", "parent"): ("ReaderDiedError",),
    ("pthread_create", "reader"): ("ReaderDiedError",),
    ("fstat", "parent"): ("SubprocessException",),
    ("fstat", "reader"): ("SubprocessException",),
}
#: Readings that make a call which others do not make.
CALL_ONLY: dict[tuple[str, str], tuple[str, ...]] = {
    ("read", "parent"): ("collection",),
    ("fstat", "parent"): ("columns", "ragged", "open", "threads"),
    **{("pwrite", role): ("cached",) for role in ("parent", "reader")},
    ("io_uring_setup", "reader"): ("direct",),
}
DEADLY = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)
STORES = ("remote", "cached")
#: Without readers of their own.
ALONE = ("open", "threads")
CHANGED = ("FileChangedError", "CorruptChunkError", "CorruptFileError", "FileOpenError")

FAULTS: dict[str, Fault] = {
    # Readers
    **{
        f"{number.name} of a reader": Fault(_to_one(number), not_for=ALONE, soon=True)
        for number in (*DEADLY, signal.SIGINT, signal.SIGABRT, signal.SIGBUS)
    },
    "SIGKILL of all readers": Fault(_to_all(signal.SIGKILL), not_for=ALONE, soon=True),
    "SIGSTOP of all readers, SIGCONT": Fault(_stop_and_continue, not_for=ALONE, soon=True),
    "SIGKILL of the host": Fault(_host, ("ReaderDiedError",), only=("node",), soon=True),
    # The program
    "SIGINT": Fault(_interrupt, ("KeyboardInterrupt",), soon=True),
    **{
        f"{number.name} of the program": Fault(parent=(number,))
        for number in (*DEADLY, signal.SIGHUP)
    },
    "SIGSTOP of the program, SIGCONT": Fault(parent=(signal.SIGSTOP, signal.SIGCONT)),
    # Files
    "removed": Fault(_remove, ("MissingFileError", "FileChangedError"), not_for=STORES),
    "replaced": Fault(_replace, ("FileChangedError",), not_for=STORES),
    "truncated": Fault(_truncate, CHANGED, not_for=STORES),
    "appended to": Fault(_append, CHANGED, not_for=STORES),
    "damaged": Fault(_damage, ("CorruptChunkError",), begins=True),
    "damaged meanwhile": Fault(_damage, CHANGED, not_for=STORES),
    # Stores
    **{
        f"{name} {'for ever' if times == NEVER else 'once'}": Fault(
            _refused(status, times),
            ends if times == NEVER or status in (403, 404) else (),
            only=STORES,
        )
        for name, status, ends in (
            *((f"status {n}", n, ("StoreError",)) for n in (403, 429, 500, 503)),
            ("status 404", 404, ("MissingFileError",)),
            ("hanging up", -1, ("StoreError",)),
        )
        for times in (1, NEVER)
    },
    "another object": Fault(_other_object, ("FileChangedError",), only=STORES),
    "a shorter object": Fault(_shorter_object, ("FileChangedError", "StoreError"), only=STORES),
    "no object": Fault(_no_object, ("MissingFileError", "FileChangedError"), only=STORES),
    # Calls
    **{
        f"{errno.errorcode.get(error, 'short')} of {name}, {role}{', for ever' * lasting}": Fault(
            _call(name, role, error, lasting),
            () if error in HARMLESS else CALL_ENDS.get((name, role), ()),
            only=CALL_ONLY.get((name, role), ()),
            not_for=ALONE if role == "reader" else (),
            begins=True,
            is_call=True,
            prints=(name, role) in (("mmap", "reader"), ("pthread_create", "reader")),
        )
        for name, (roles, errors) in CALLS.items()
        for role in roles
        for error in errors
        for lasting in (False, True)[: 1 + (error not in HARMLESS)]
    },
}
