"""The thread that tells requests their end to those who do not ask: callbacks, asyncio, notify.

Law
---
1. The thread starts when the first request is watched, or when a close does not wait; it ends with
   the service.
2. This thread alone settles the future's parts of a request, so their state changes once, under
   their own lock, and nobody who waits on them is missed.
3. No lock is held while a callback runs.
4. Only the thread, and a request that is told here, hold the service: its memory goes with its last
   user and does not wait for the garbage collector.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from _multitables import _core, options
from _multitables.parent.random.request import Ask


class Host(Protocol):
    """What the thread asks of the service whose requests it watches."""

    queue: _core.WorkQueue
    ended: bool

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made it."""

    def look(self) -> None:
        """Look at the readers."""

    def end_if_drained(self) -> None:
        """End after a close, once everything is answered and told."""

    def closed_error(self) -> BaseException:
        """Compose the error for what cannot be answered any more."""


class Notifier:
    """Watches the requests of one service."""

    def __init__(self, service: Host, at_end: Callable[[], None]) -> None:
        self._service_seen = weakref.ref(service)
        self._at_end = at_end
        self._lock = threading.RLock()
        self._requests: list[Ask] = []
        self._thread: threading.Thread | None = None
        self._over = False

    @property
    def _service(self) -> Host:
        service = self._service_seen()
        assert service is not None  # its caller holds it
        return service

    @property
    def idle(self) -> bool:
        """Whether every request that is watched has been told."""
        return not self._requests

    def add(self, request: Ask) -> None:
        """Make a request a future for others, and tell them when it has ended."""
        if not self._service.mine:  # a lock may be held by a thread that this process has not
            if not request.is_future:
                request.become_future()
                self._tell(request)
            return
        with self._lock:
            if request.is_future:
                return
            request.become_future()
            if not self._over:
                self._requests.append(request)
                self.start()
                self._service.queue.wake()
                return
        self._tell(request)

    def start(self) -> bool:
        """Start the thread, if it was not yet; whether there is one now."""
        with self._lock:
            if self._thread is None and not self._over and self._service.mine:
                self._thread = threading.Thread(
                    target=self._run,
                    args=[self._service],
                    name="multitables-reader",
                    daemon=True,
                )
                self._thread.start()
            return self._thread is not None

    def join(self) -> None:
        """Wait for the thread's end, if there is one and it is another."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def end(self) -> None:
        """Say that the service has ended."""
        with self._lock:
            if self._thread is None:
                self._over = True
        self._service.queue.wake()

    def _run(self, service: Host) -> None:
        while not service.ended:
            with self._lock:
                watched = list(self._requests)
            handles = [handle for one in watched if (handle := one.handle) is not None]
            service.queue.ended(handles, options.WATCH_SECONDS)
            del handles
            self._look_at(watched)
            del watched
            service.look()
            service.end_if_drained()
        with self._lock:
            self._over = True
            watched, self._requests = self._requests, []
        for request in watched:
            self._tell(request)
        self._at_end()

    def _look_at(self, watched: list[Ask]) -> None:
        ended = [request for request in watched if request.done()]
        if not ended:
            return
        gone = set(map(id, ended))
        with self._lock:
            self._requests = [one for one in self._requests if id(one) not in gone]
        for request in ended:
            request.tell()

    def _tell(self, request: Ask) -> None:
        """Tell the end of a request whose service has ended."""
        if not request.done():
            request.error = self._service.closed_error()
        request.tell()
