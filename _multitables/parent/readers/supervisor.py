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
3. Readers hold nothing of value, so stopping is a kill and a wait with an end: it cannot hang.
4. A forked child of the user's process never touches readers.
5. A reader that is inside a library for longer than the deadline, without reading, or that somebody
   stops and does not continue, is killed. The rest is as if it had died by itself; one that even
   then does not end, because a device does not answer, ends the work.
6. Work that a reader cannot be given yet is offered again at each look.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from dataclasses import replace

from _multitables import _core
from _multitables.errors import INFO, ReaderDiedError, note
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.process import KILLED, Process, end_all, poll, start

#: A task, or a start, may cost this many readers before the stream ends.
DEATHS_ALLOWED = 2
#: Seconds that a reader gets to come back from a stream before it is replaced by a new one.
RETURN_SECONDS = 0.5
#: Seconds between two looks at the readers during a trial.
LOOK_SECONDS = 0.1
#: Seconds inside a library from which on its reads are counted.
COUNT_SECONDS = 1.0
#: Seconds for which a reader may be stopped by a signal.
STOPPED_SECONDS = 10.0
#: Seconds in which a reader that was killed must end.
KILL_SECONDS = 5.0
#: Seconds for which work that the system does not let through is offered.
SEND_SECONDS = 30.0
#: The system has no room for now: descriptors on their way count for all processes of a user.
CROWDED = {errno.ETOOMANYREFS, errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM}
#: The reader has ended, which `watch` finds.
ENDED = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN}

_Work = _core.Ring | _core.WorkQueue | _core.Trial


class Readers:
    """A group of reader processes; serves one stream at a time, or one work queue of requests."""

    def __init__(self, count: int, library_timeout_seconds: float | None = None) -> None:
        self._timeout = library_timeout_seconds
        #: Calls of a library that take long: pid -> (its begin, reads, when these were fewer).
        self._calls: dict[int, tuple[int, int | None, float]] = {}
        #: Readers that are stopped: pid -> since when, and when that was last seen.
        self._stops: dict[int, tuple[float, float]] = {}
        #: Readers that were killed for a deadline: pid -> when, and whether they were stopped.
        self._late: dict[int, tuple[float, bool]] = {}
        #: Readers that were not given their work yet: number -> since when.
        self._unsent: dict[int, float] = {}
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._looking = self._stop_asked = False
        self._members: list[Process] = []
        self._work: _core.Ring | _core.WorkQueue | None = None
        self._deaths: dict[int | None, int] = {}
        self._progress = 0
        self.replaced = 0
        #: Readers did not end when they were killed, and may yet write what they were about to.
        self.outlived = False
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
        return [process.pid for process in self._members]

    def assign(self, work: _core.Ring | _core.WorkQueue) -> None:
        """Let all readers work on a ring, or from a work queue."""
        self._work = work
        self._deaths = {}
        self._progress = 0
        self._send_all(work)

    def measure(self, trial: _core.Trial) -> Death | None:
        """Let all readers do their shares of `trial`, and wait. Returns a death that spoils it."""
        self._send_all(trial)
        while not trial.wait(LOOK_SECONDS):
            for number, process in enumerate(self._members):
                status = poll(process)
                if status is None:
                    death = self._end_if_late(trial, number, process)
                else:
                    death = self._death(trial, number, process.pid, status)
                if death is not None:
                    return death
        return None

    def _send_all(self, work: _Work) -> None:
        self._unsent.clear()
        for number in range(len(self._members)):
            self._send(number, work)

    def _send(self, number: int, work: _Work) -> Death | None:
        """Give a reader its work, now or at a later look. Returns why it cannot be given any."""
        process = self._members[number]
        since = self._unsent.setdefault(number, time.monotonic())
        try:
            work.send_to(process, number)
        except OSError as error:
            if error.errno not in ENDED:
                if error.errno in CROWDED and time.monotonic() - since < SEND_SECONDS:
                    return None
                return _refused(number, process.pid, error)
        self._unsent.pop(number, None)
        return None

    def watch(self) -> Death | None:
        """Replace readers that died. Returns the death that ends the work, if one does."""
        if (
            self._looking or not self.mine
        ):  # another thread is; a lock may be one's that is not here
            return None
        try:
            with self._lock:  # an interrupt leaves it to nobody
                if self._work is None:
                    return None
                try:
                    self._looking = True
                    return self._look(self._work)
                finally:
                    self._looking = False
        finally:
            if self._stop_asked:
                self.stop()

    def _look(self, work: _core.Ring | _core.WorkQueue) -> Death | None:
        for number, process in enumerate(self._members):
            status = poll(process)
            if status is None:
                death = self._end_if_late(work, number, process)
            else:
                death = self._recover(work, number, process, status)
            if death is not None:
                return death
        return None

    def _end_if_late(self, work: _Work, number: int, process: Process) -> Death | None:
        """Kill a reader that does not go on. Returns why the work ends, if it does."""
        pid = process.pid
        if number in self._unsent:
            death = self._send(number, work)
            if death is not None:
                return death
        if pid in self._late:
            stays = time.monotonic() - self._late[pid][0] > KILL_SECONDS
            return self._death(work, number, pid, KILLED) if stays else None
        is_stopped = self._is_stopped(process)
        if is_stopped or (not isinstance(work, _core.Trial) and self._is_late(work, number, pid)):
            self._late[pid] = time.monotonic(), is_stopped
            process.end()
        return None

    def _death(self, work: _Work, number: int, pid: int, status: int) -> Death:
        """Return what is known of a death, or of one that does not come."""
        death = Death(number, pid, status, 1, None)
        if pid in self._late:
            was_stopped = self._late[pid][1]
            death = replace(
                death,
                stopped_seconds=STOPPED_SECONDS if was_stopped else None,
                timeout_seconds=None if was_stopped else self._timeout,
            )
        if isinstance(work, _core.Trial):
            return death
        claimed = work.claimed(number)
        named, since_ns, chunk = work.inside(number)
        in_library = named == pid and since_ns > 0
        return replace(
            death,
            task=claimed[0] if claimed else None,
            in_library=in_library,
            chunk=chunk - 1 if in_library and chunk else None,
        )

    def _is_stopped(self, process: Process) -> bool:
        """Tell whether a reader has been stopped by a signal for too long."""
        if not process.is_stopped:
            self._stops.pop(process.pid, None)
            return False
        now = time.monotonic()
        since, seen = self._stops.get(process.pid, (now, now))
        if now - seen > STOPPED_SECONDS / 2:  # nobody looked: perhaps all were stopped
            since = now
        self._stops[process.pid] = since, now
        return now - since > STOPPED_SECONDS

    def _is_late(self, work: _core.Ring | _core.WorkQueue, number: int, pid: int) -> bool:
        """Tell whether a reader has been inside a library for too long without reading."""
        if self._timeout is None:
            return False
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
        numbers = work.counters(number)
        claimed = work.claimed(number)
        if not claimed and numbers[0] == _core.STATE_FINISHED:
            return None  # it had nothing left to do
        pid = process.pid
        death = self._death(work, number, pid, status)
        for kept in (self._calls, self._late, self._stops):
            kept.pop(pid, None)
        recover = getattr(work, "recover", None)
        if recover is not None:
            for slot in recover(number, status):
                self.killers[slot] = replace(death, deaths=DEATHS_ALLOWED, task=slot)
        # An idle reader of a work queue may die as often as it likes, once it has come to life.
        if recover is None or (not claimed and numbers[1] != pid):
            deaths = self._count(work, death.task)
            if deaths >= DEATHS_ALLOWED + (death.task is None):
                return replace(death, deaths=deaths)
        try:
            (self._members[number],) = start(1)
        except ReaderDiedError as error:
            return replace(death, hindrance=error.happened, advice=error.advice)
        self.replaced += 1
        note("reader %d is replaced: process %d ended with %d", number, pid, status, level=INFO)
        self._unsent.pop(number, None)
        return self._send(number, work)

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
        for number, process in enumerate(self._members):
            while work.counters(number)[0] not in (_core.STATE_FINISHED, _core.STATE_FAILED):
                if poll(process) is not None or time.monotonic() > deadline:
                    return False
                with contextlib.suppress(OSError):  # a sandbox refuses to sleep
                    time.sleep(pause)
                pause = min(2 * pause, 0.001)
        if not all(poll(process) is None for process in self._members):
            return False
        if isinstance(work, _core.Ring):
            work.keep()
        return True

    def stop(self) -> None:
        """End every reader and reap it. May be called again, and from any thread."""
        if not self.mine:  # a lock may be held by a thread that this process has not
            self._members = []
            return
        with self._lock:
            if self._looking:  # garbage is collected in the middle of a look, and stops us
                self._stop_asked = True
                return
            self._work = None
            members, self._members = self._members, []
        if not end_all(members):
            self.outlived = True


def _refused(number: int, pid: int, error: OSError) -> Death:
    if error.errno in CROWDED:
        advice = (
            "Start fewer streams at once, or allow more with `ulimit -n`: descriptors on their way "
            "count for all processes of a user"
        )
    else:
        advice = "Let the sandbox allow sendmsg() with descriptors; open() reads without readers"
    text = os.strerror(error.errno) if error.errno else str(error)
    return Death(
        number, pid, 0, 1, None, refusal=f"cannot be given its work: {text}", advice=advice
    )


def _reads(pid: int) -> int | None:
    """System calls by which a process has read so far; None where that is not told."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("syscr:"))
    except (OSError, StopIteration):
        return None
