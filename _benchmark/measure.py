"""How a measurement is taken: rounds, medians, the page cache, the memory of processes.

Law
---
1. Contenders take turns: each round measures every one once, so a drift of the machine hits all.
2. A cache state is what mincore says, never what was hoped for.
3. It knows nothing of HDF5 and of no contender by name.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import statistics
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

PAGE_BYTES = mmap.PAGESIZE
COLD_FRACTION = 0.01  # below this a file counts as cold, above 1 - this as warm


class Pass(NamedTuple):
    """One timed pass."""

    seconds: float
    decoded_bytes: int

    @property
    def rate(self) -> float:
        """MB/s of decoded data, MB = 10**6 bytes."""
        return self.decoded_bytes / 1e6 / self.seconds


@dataclass(frozen=True)
class Summary:
    """Median and spread of repeats."""

    median: float
    low: float
    high: float
    repeats: int

    def __str__(self) -> str:
        if self.repeats == 1:
            return f"{self.median:.0f}"
        return f"{self.median:.0f} ({self.low:.0f}-{self.high:.0f})"


def summary(values: Sequence[float]) -> Summary:
    """Median, minimum and maximum of at least one value."""
    return Summary(statistics.median(values), min(values), max(values), len(values))


def turns(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """``(round, name)`` for every measurement; each round starts one contender further on.

    A contender would otherwise always follow the same one, and find its caches as that left them.
    """
    for number in range(rounds):
        shift = number % max(1, len(names))
        for name in [*names[shift:], *names[:shift]]:
            yield number, name


# The page cache


def resident_fraction(filename: str) -> float:
    """The part of the file's pages that lie in the page cache (mincore), 0 to 1."""
    size_bytes = os.path.getsize(filename)
    if size_bytes == 0:
        return 0.0
    pages = -(-size_bytes // PAGE_BYTES)
    found = np.zeros(pages, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    with open(filename, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    window = np.frombuffer(mapped, np.uint8)
    try:
        failed = libc.mincore(
            ctypes.c_void_p(window.ctypes.data),
            ctypes.c_size_t(size_bytes),
            ctypes.c_void_p(found.ctypes.data),
        )
        if failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), filename)
    finally:
        del window
        mapped.close()
    return float(np.mean(found & 1))


def drop_page_cache(filename: str) -> None:
    """Ask the kernel to forget the file's pages; written ones are brought to the device first."""
    descriptor = os.open(filename, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def fill_page_cache(filename: str) -> None:
    """Read the file once, so that its pages are in the page cache."""
    with open(filename, "rb", buffering=0) as file:
        room = bytearray(2**22)
        while file.readinto(room):
            pass


def resident_fraction_of(filenames: Sequence[str]) -> float:
    """The part of all these files' bytes that lies in the page cache, 0 to 1."""
    sizes = [os.path.getsize(filename) for filename in filenames]
    resident = [size * resident_fraction(one) for one, size in zip(filenames, sizes, strict=True)]
    return sum(resident) / max(1, sum(sizes))


def cache_state(filename: str) -> str:
    """``cold``, ``warm`` or how much of the file is in the page cache."""
    return cache_state_of([filename])


def cache_state_of(filenames: Sequence[str]) -> str:
    """The same of several files that are read together."""
    fraction = resident_fraction_of(filenames)
    if fraction <= COLD_FRACTION:
        return "cold"
    return "warm" if fraction >= 1 - COLD_FRACTION else f"{fraction:.0%} in the page cache"


def direct_refusal(filename: str) -> str:
    """Why the file cannot be read with O_DIRECT; empty when it can."""
    room = mmap.mmap(-1, PAGE_BYTES)  # a mapping is aligned, as O_DIRECT wants it
    try:
        descriptor = os.open(filename, os.O_RDONLY | os.O_DIRECT)
        try:
            os.preadv(descriptor, [room], 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return f"the file system refuses O_DIRECT ({os.strerror(error.errno)})"
        raise
    finally:
        room.close()
    return ""


# The memory of processes


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


@contextlib.contextmanager
def peak_memory(process: int, every_seconds: float = 0.005) -> Iterator[dict[int, Memory]]:
    """Watch `process` and its children; the mapping holds each one's peaks at the end."""
    peaks: dict[int, Memory] = {}
    done = threading.Event()

    def watch() -> None:
        while True:
            for one in (process, *child_processes(process)):
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
