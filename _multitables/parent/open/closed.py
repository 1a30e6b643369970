"""Files whose last handle was closed, kept for some seconds: programs open a file for each sample.

Law
---
1. A file is kept without its lock, and taken again only as what it was: by device, inode, size and
   both times of change, looked at under the lock. One that changed within `SETTLED_NS` before it
   was opened is not kept, as a second change might have the same times.
2. What leads to other files is not kept: virtual datasets, external links, external data.
3. At most `FILES` are kept, with `CACHE_BYTES` of decoded chunks; the oldest go first. A thread
   drops those that no program opened for `SECONDS`, and ends with the last one. `release_memory`
   drops all.
4. Nothing here waits for a lock, as files are closed while garbage is collected and processes fork.
   A forked child forgets what is kept.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from _multitables import _core, machine

if TYPE_CHECKING:
    from _multitables.index.opened.open_files import OpenFiles

State = tuple[int, ...]
SECONDS = 5.0
FILES = 32
CACHE_BYTES = 64 << 20
SETTLED_NS = 2_000_000_000
#: Name, options and folder of a file -> what is kept of it.
_kept: dict[Any, Parked] = {}


class Parked:
    """What the handles of one file shared."""

    __slots__ = ("cached", "files", "parts", "since", "state")

    def __init__(self, state: State, files: OpenFiles, cached: int, parts: dict[str, Any]) -> None:
        #: `cached`: bytes of decoded chunks.
        self.state, self.files, self.cached, self.parts = state, files, cached, parts
        self.since = time.monotonic()


def state_of(filename: str) -> State:
    """Return what identifies a file and its contents; () if that cannot be said for sure."""
    try:
        now = os.stat(filename)
    except OSError:
        return ()
    if time.time_ns() - now.st_ctime_ns < SETTLED_NS:
        return ()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def take(key: Any, filename: str) -> dict[str, Any] | None:
    """Return the parts of a kept file, with its lock; None: it is to be opened."""
    found = _kept.pop(key, None)
    if found is None:
        return None
    with contextlib.suppress(OSError):  # it is gone, or a writer has it: opening it says so
        found.files.main.metadata.lock(filename)
        if state_of(filename) == found.state:
            return found.parts
    found.files.forget()
    return None


def park(key: Any, state: State, files: OpenFiles, cached: int, parts: dict[str, Any]) -> bool:
    """Keep what was shared, without its lock; False if it may not be kept."""
    is_plain = len(files) == 1 and type(files.main.metadata) is _core.MetadataFile
    if not (state and is_plain):
        return False
    files.close()
    before, _kept[key] = _kept.pop(key, None), Parked(state, files, cached, parts)
    if before is not None:
        before.files.forget()
    most = min(FILES, os.sysconf("SC_OPEN_MAX") // 16)
    while len(_kept) > most or sum(one.cached for one in list(_kept.values())) > CACHE_BYTES:
        _drop(0)
    _start_thread()
    return True


def _drop(seconds: float) -> None:
    """Drop the oldest, and all that are kept for longer."""
    until = time.monotonic() - seconds
    for number, key in enumerate(list(_kept)):
        one = _kept.get(key)
        if one is not None and (one.since <= until if seconds else not number):
            _kept.pop(key, None)
            one.files.forget()


def release() -> None:
    """Drop all that is kept, and end the thread."""
    while _kept:
        _drop(0)
    with contextlib.suppress(RuntimeError):  # it was released already
        _wakes.release()


def _start_thread() -> None:
    global _is_timed
    if _is_timed:
        return
    try:
        _is_timed = True
        _thread.start_new_thread(_drop_in_time, ())
    except RuntimeError:  # there may be no more threads, or Python ends
        _is_timed = False
        release()


def _drop_in_time() -> None:
    global _is_timed
    while _kept:
        _wakes.acquire(timeout=SECONDS)
        _drop(SECONDS)
    _is_timed = False
    if _kept:  # which came meanwhile
        _start_thread()


def _begin_in_fork() -> None:
    global _is_timed, _wakes
    _is_timed, _wakes = False, _locked()
    release()


def _locked() -> _thread.LockType:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


_wakes = _locked()  # the thread waits until it is released
_is_timed = False
machine.RELEASES.append(release)
os.register_at_fork(after_in_child=_begin_in_fork)
