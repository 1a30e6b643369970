"""Threads of this process that answer requests, as reader processes would.

Actors
------
::

    a service         RequestThreads         threads of the core      reader processes

    assign --------------->|   (who waits answers)
    start ---------------->|-- queue -----------> answer its tasks
    hand_over ------------>|-- leave -----------> end
                           |-- queue, their numbers ------------------> go on
    watch ---------------->|<------------------------- exit status ---- (as of `Readers`)

Law
---
1. Until `start` only who waits for an answer gives it: to wake a thread takes longer than to copy
   what is little. What cannot wait, or has more than one request on its way, calls `start`.
2. A thread holds the work queue itself, and ends when the requests end. It is never waited for.
3. What only a library or a plugin reads is read by processes: the work queue is handed over to them
   for good, before it has a task for a library.
"""

from __future__ import annotations

import enum
import os
import threading

from _multitables import _core
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.supervisor import Readers


class Answers(enum.Enum):
    """Who answers requests."""

    CALLER = enum.auto()
    THREADS = enum.auto()
    PROCESSES = enum.auto()


class RequestThreads:
    """The threads that serve one work queue."""

    def __init__(
        self,
        count: int,
        library_timeout_seconds: float | None,
        who: Answers = Answers.CALLER,
    ) -> None:
        self._count = count
        #: Who answers at first.
        self._who = who
        self._timeout = library_timeout_seconds
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._queue: _core.WorkQueue | None = None
        #: Somebody answers, be there who waits or not.
        self.is_started = self._ended = False
        #: To whom the queue was handed over.
        self._processes: Readers | None = None
        self.replaced = 0
        self.outlived = False
        self.killers: dict[int, Death] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def pids(self) -> list[int]:
        """Process ids of those to whom the queue was handed over."""
        return [] if self._processes is None else self._processes.pids

    def assign(self, queue: _core.WorkQueue) -> None:
        """Let who waits for an answer answer, and threads, if these shall at first."""
        self._queue = queue
        queue.answer_here(True)
        self.let(self._who)

    def let(self, who: Answers) -> None:
        """Let others than who waits answer, from now on."""
        if who is Answers.PROCESSES:
            self.hand_over()
        elif who is Answers.THREADS:
            self.start()

    def start(self) -> None:
        """Let threads answer, unless others do already, or no thread can be started."""
        if self.is_started or self._queue is None:
            return
        self.is_started = True
        try:
            for number in range(self._count):
                self._queue.start_thread(number)
        except OSError:  # the system has no thread for us
            self.hand_over()

    def hand_over(self) -> None:
        """Let processes answer from now on.

        Raises
        ------
        ReaderDiedError
            No process can be started.
        """
        with self._lock:
            if self._processes is not None or self._queue is None or self._ended:
                return
            self.is_started = True
            processes = Readers(self._count, self._timeout)
            self._queue.answer_here(False)
            self._processes, self.killers = processes, processes.killers
            processes.assign(self._queue)

    def watch(self) -> Death | None:
        """Look at the processes, if there are any."""
        processes = self._processes
        if processes is None:
            return None
        death = processes.watch()
        self.replaced = processes.replaced
        return death

    def rest(self) -> bool:
        """Nobody rests between two uses; False."""
        return False

    def stop(self) -> None:
        """End the processes, if there are any; the threads end with their requests."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._ended = True
            if self._processes is not None:
                self._processes.stop()
                self.outlived = self._processes.outlived
