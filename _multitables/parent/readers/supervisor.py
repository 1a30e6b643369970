"""A group of reader processes: assigned to work, watched, replaced and stopped.

Actors
------
::

    a stream, a service          Readers                  a reader process, one of several

                          start     |-------------------> waits at its control socket
    assign ------------------------>|-- ring, queue ----> serves it to its end
    watch ------------------------->|<- exit status ----- (its counters are in shared memory)
                          replace   |-- start ----------> a new one with the same number
    rest -------------------------->|<- finished -------- waits at its control socket again
    stop -------------------------->|-- kill, wait

There is no thread here: the threads that wait for data call `watch`, one at a time.

Law
---
1. Reader processes belong to a group; only process.py starts and ends them.
2. A reader that dies is replaced; the new one has its number, and its claimed tasks run again.
   A task that kills twice ends the stream, with its address; of a work queue only this task fails.
   Where no new one can be started, the stream or the work queue ends.
3. Readers hold nothing of value, so stopping is a kill and a wait: it cannot hang.
4. A forked child of the user's process never touches readers.
5. A reader that is inside a library for longer than the deadline, without reading, is killed. The
   rest is as if it had died by itself.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading
import time
from dataclasses import replace

from _multitables import _core
from _multitables.errors import ReaderDiedError
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.process import Process, start

#: A task, or a start, may cost this many readers before the stream ends.
DEATHS_ALLOWED = 2
#: Seconds that a reader gets to come back from a stream before it is replaced by a new one.
RETURN_SECONDS = 0.5
#: Seconds between two looks at the readers during a trial.
LOOK_SECONDS = 0.1
#: Seconds inside a library from which on its reads are counted.
COUNT_SECONDS = 1.0


class Readers:
    """A group of reader processes; serves one stream at a time, or one work queue of requests."""

    def __init__(self, count: int, library_timeout_seconds: float | None = None) -> None:
        self._timeout = library_timeout_seconds
        #: Calls of a library that take long: pid -> (its begin, reads, when these were fewer).
        self._calls: dict[int, tuple[int, int | None, float]] = {}
        #: The reader that was killed for the deadline.
        self._late: set[int] = set()
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._looking = self._stop_asked = False
        self._members: list[tuple[Process, socket.socket]] = []
        self._work: _core.Ring | _core.WorkQueue | None = None
        self._deaths: dict[int | None, int] = {}
        self._progress = 0
        self.replaced = 0
        #: Of a work queue: the last death in each slot whose task failed for it.
        self.killers: dict[int, Death] = {}
        self._members = start(count)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that started the readers."""
        return os.getpid() == self._owner

    @property
    def pids(self) -> list[int]:
        """Process ids, by reader number."""
        return [process.pid for process, _ in self._members]

    def assign(self, work: _core.Ring | _core.WorkQueue) -> None:
        """Let all readers work on a ring, or from a work queue."""
        self._work = work
        self._deaths = {}
        self._progress = 0
        for number in range(len(self._members)):
            self._send(number, work)

    def measure(self, trial: _core.Trial) -> Death | None:
        """Let all readers do their shares of `trial`, and wait. Returns a death that spoils it."""
        for number in range(len(self._members)):
            self._send(number, trial)
        while not trial.wait(LOOK_SECONDS):
            for number, (process, _) in enumerate(self._members):
                status = process.poll()
                if status is not None:
                    return Death(number, process.pid, status, 1, None)
        return None

    def _send(self, number: int, work: _core.Ring | _core.WorkQueue | _core.Trial) -> None:
        mark = getattr(work, "MARK", 0)
        descriptors = array.array("i", work.descriptors())
        with contextlib.suppress(OSError):  # it died at once: `watch` finds it
            self._members[number][1].sendmsg(
                [(number | mark).to_bytes(4, "little")],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
            )

    def watch(self) -> Death | None:
        """Replace readers that died. Returns the death that ends the work, if one does."""
        if not self._lock.acquire(blocking=False):
            return None  # another thread is looking
        try:
            work = self._work
            if work is None or os.getpid() != self._owner:
                return None
            self._looking = True
            for number, (process, _) in enumerate(self._members):
                status = process.poll()
                if status is None:
                    if self._timeout is not None and self._is_late(work, number, process.pid):
                        self._late.add(process.pid)
                        process.end()
                else:
                    death = self._recover(work, number, process, status)
                    if death is not None:
                        return death
            return None
        finally:
            self._looking = False
            self._lock.release()
            if self._stop_asked:
                self.stop()

    def _is_late(self, work: _core.Ring | _core.WorkQueue, number: int, pid: int) -> bool:
        """Tell whether a reader has been inside a library for too long without reading."""
        assert self._timeout is not None
        named, since_ns, _ = work.inside(number)
        inside = (time.monotonic_ns() - since_ns) / 1e9
        if named != pid or not since_ns or inside < min(COUNT_SECONDS, self._timeout / 2):
            self._calls.pop(pid, None)
            return False
        now, reads = time.monotonic(), _reads(pid)
        begun, before, moved = self._calls.get(pid, (0, None, 0.0))
        if begun != since_ns:
            # Nobody may have looked for a while: what it read until now is not known.
            moved = now - (inside if reads is None else min(inside, self._timeout / 2))
        elif reads != before:
            moved = now
        self._calls[pid] = since_ns, reads, moved
        return now - moved > self._timeout

    def _recover(
        self, work: _core.Ring | _core.WorkQueue, number: int, process: Process, status: int
    ) -> Death | None:
        claimed = work.claimed(number)
        numbers = work.counters(number)
        if not claimed and numbers[0] == _core.STATE_FINISHED:
            return None  # it had nothing left to do
        pid = process.pid
        named, since_ns, chunk = work.inside(number)
        in_library = named == pid and since_ns > 0
        self._calls.pop(pid, None)
        death = Death(
            number,
            pid,
            status,
            1,
            claimed[0] if claimed else None,
            in_library,
            chunk - 1 if in_library and chunk else None,
            self._timeout if pid in self._late else None,
        )
        self._late.discard(pid)
        recover = getattr(work, "recover", None)
        if recover is not None:
            for slot in recover(number, status):
                self.killers[slot] = replace(death, deaths=DEATHS_ALLOWED, task=slot)
        # An idle reader of a work queue may die as often as it likes, once it has come to life.
        if recover is None or (not claimed and numbers[1] != pid):
            deaths = self._count(work, death.task)
            if deaths >= DEATHS_ALLOWED + (death.task is None):
                return replace(death, deaths=deaths)
        self._members[number][1].close()
        try:
            self._members[number] = start(1)[0]
        except ReaderDiedError as error:
            return replace(death, hindrance=error.happened, advice=error.advice)
        self.replaced += 1
        self._send(number, work)
        return None

    def _count(self, work: _core.Ring | _core.WorkQueue, task: int | None) -> int:
        """Count a death for its task, or for no task."""
        progress = sum(work.counters(reader)[2] for reader in range(len(self._members)))
        if task is None:
            # Since the last death of this kind readers have worked: it is no failing start.
            if progress > self._progress:
                self._deaths.pop(None, None)
            self._progress = progress
        deaths = self._deaths.get(task, 0) + 1
        self._deaths[task] = deaths
        return deaths

    def rest(self) -> bool:
        """After a stream's end, wait for the readers to come back; False when one does not."""
        if not self.mine:
            return False
        work, self._work = self._work, None
        if work is None:
            return True
        deadline, pause = time.monotonic() + RETURN_SECONDS, 5e-5
        for number, (process, _) in enumerate(self._members):
            while work.counters(number)[0] not in (_core.STATE_FINISHED, _core.STATE_FAILED):
                if process.poll() is not None or time.monotonic() > deadline:
                    return False
                with contextlib.suppress(OSError):  # a sandbox refuses to sleep
                    time.sleep(pause)
                pause = min(2 * pause, 0.001)
        return all(process.poll() is None for process, _ in self._members)

    def stop(self) -> None:
        """End every reader and reap it. May be called again, and from any thread."""
        if not self.mine:  # a lock may be held by a thread that this process has not
            for _, control in self._members:
                control.close()
            self._members = []
            return
        with self._lock:
            if self._looking:  # garbage is collected in the middle of a look, and stops us
                self._stop_asked = True
                return
            self._work = None
            members, self._members = self._members, []
        for process, control in members:
            control.close()
            process.end()
        for process, _ in members:
            process.wait()


def _reads(pid: int) -> int | None:
    """System calls by which a process has read so far; None where that is not told."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("syscr:"))
    except (OSError, StopIteration):
        return None
