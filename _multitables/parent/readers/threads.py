"""Threads of this process that read a stream, as reader processes would.

Actors
------
::

    a stream              Threads              threads of the core       reader processes

    assign --------------->|-- ring ------------> read it to its end
    watch ---------------->|<- handed over? ----- leave it
                           |-- ring, their numbers -----------------------> go on

Law
---
1. A thread is started for each stream and never waited for: it holds the ring itself, and ends when
   the stream is over or closed.
2. What only a library or a plugin reads is read by processes. A thread that comes upon it hands the
   ring over: all threads end, and processes of their numbers go on with what they had claimed.
3. Little data that the page cache has is read on the caller's own thread, before `assign` returns.
"""

from __future__ import annotations

import os
import threading

from _multitables import _core
from _multitables.errors import ReaderDiedError, advice_for
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.supervisor import Readers


class Threads:
    """The threads that read one stream."""

    def __init__(self, count: int, library_timeout_seconds: float | None, here: bool) -> None:
        self._count = count
        self._timeout = library_timeout_seconds
        #: Read on the caller's own thread.
        self._here = here
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ring: _core.Ring | None = None
        #: To whom the ring was handed over.
        self._processes: Readers | None = None
        self._ended = False

    def __len__(self) -> int:
        return self._count

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made this."""
        return os.getpid() == self._owner

    @property
    def replaced(self) -> int:
        """How many processes that the ring was handed over to were replaced."""
        return 0 if self._processes is None else self._processes.replaced

    @property
    def pids(self) -> list[int]:
        """Process ids of those to whom the ring was handed over."""
        return [] if self._processes is None else self._processes.pids

    def assign(self, ring: _core.Ring) -> None:
        """Let the threads read a ring.

        Raises
        ------
        ReaderDiedError
            The system starts no thread.
        """
        self._ring = ring
        if self._here and ring.read_here():
            return
        for number in range(self._count):
            try:
                ring.start_thread(number)
            except OSError as error:
                ring.close()  # of those that run
                raise _cannot_start(error) from None

    def watch(self) -> Death | None:
        """Let processes go on with a ring that was handed over, and look at them."""
        if self._processes is None and self._ring is not None and self.mine:
            with self._lock:
                self._hand_over(self._ring)
        return None if self._processes is None else self._processes.watch()

    def _hand_over(self, ring: _core.Ring) -> None:
        states = {ring.counters(number)[0] for number in range(self._count)}
        ended = {_core.STATE_HANDED_OVER, _core.STATE_FINISHED, _core.STATE_FAILED}
        if self._ended or _core.STATE_HANDED_OVER not in states or not states <= ended:
            return
        if self._processes is None:
            self._processes = Readers(self._count, self._timeout)
            self._processes.assign(ring)

    def rest(self) -> bool:
        """Nobody rests between two streams; False."""
        return False

    def stop(self) -> None:
        """End the processes, if there are any; the threads end with their stream."""
        if not self.mine:
            return
        self._ended = True
        if self._processes is not None:
            self._processes.stop()


def _cannot_start(error: OSError) -> ReaderDiedError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return ReaderDiedError(
        f"a thread that reads cannot be started: {reason}",
        advice=advice_for(
            error, "`ulimit -u`, or a container's pids limit, says how many there may be"
        ),
        errno=error.errno,
    )
