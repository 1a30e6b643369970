"""The memory of processes: their peaks, what they share, and the shared memory that they named.

Law
---
1. It reads /proc, and changes nothing.
2. A process that ends meanwhile is an error only for a caller who asked about that process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """Peak memory of one process beyond what it shares with others as a ring, in bytes."""

    process: int
    own_bytes: int
    shared_bytes: int


def process_memory(process: int) -> Memory:
    """What /proc says now; ``own`` is anonymous and file-backed memory, ``shared`` is shmem.

    Raises
    ------
    OSError
        The process is gone.
    """
    found: dict[str, int] = {}
    with open(f"/proc/{process}/status") as status:
        for line in status:
            key, _, value = line.partition(":")
            if key in ("RssAnon", "RssFile", "RssShmem"):
                found[key] = int(value.split()[0]) * 1024
    return Memory(
        process, found.get("RssAnon", 0) + found.get("RssFile", 0), found.get("RssShmem", 0)
    )


def named_memory(process: int) -> set[str]:
    """The files in /dev/shm that a process has mapped or open, and that still have their names."""
    found: set[str] = set()
    with contextlib.suppress(OSError), open(f"/proc/{process}/maps") as maps:
        found |= {line.split(maxsplit=5)[-1].strip() for line in maps}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{process}/fd/{name}"))
    return {one for one in found if one.startswith("/dev/shm/") and os.path.exists(one)}


def child_processes(process: int) -> list[int]:
    """The direct children of every thread of `process`."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{process}/task/{thread}/children") as children,
            ):
                found += [int(child) for child in children.read().split()]
    return found


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read()
    return b""


@contextlib.contextmanager
def peak_memory(process: int, every_seconds: float = 0.005) -> Iterator[dict[int, Memory]]:
    """Watch `process` and its children; the mapping holds each one's peaks at the end.

    A child that still has its parent's command line has its parent's memory, too, until it runs a
    program of its own; it does not count until then.
    """
    peaks: dict[int, Memory] = {}
    done = threading.Event()
    parents = _command(process)

    def watch() -> None:
        while True:
            children = [one for one in child_processes(process) if _command(one) != parents]
            for one in (process, *children):
                with contextlib.suppress(OSError):
                    now = process_memory(one)
                    before = peaks.get(one, Memory(one, 0, 0))
                    peaks[one] = Memory(
                        one,
                        max(now.own_bytes, before.own_bytes),
                        max(now.shared_bytes, before.shared_bytes),
                    )
            if done.wait(every_seconds):
                return

    watcher = threading.Thread(target=watch, name="peak_memory")
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()
