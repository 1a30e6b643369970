"""A rank's connection with the host of the readers that the ranks of a node share.

Law
---
1. The host must be a process of this user that knows what the run has agreed on; before that is
   known it is given nothing. A missing one is started.
2. A host that ends is an error, and so is one that does not answer for `options.STALL_SECONDS`, as
   a signal has stopped it. The same holds for a rank that is stopped and for which this one waits.
3. It is closed once, by any thread: then nothing is sent, and nothing connects again.
4. It knows no streams: what a message says, but for what concerns the host, is the caller's.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from _multitables import options
from _multitables._core import Descriptor
from _multitables.errors import (
    ClosedError,
    MultitablesError,
    OptionsError,
    ReaderDiedError,
    StalledError,
    advice_for,
)
from _multitables.parent.node import kernel_view, meeting, messages
from _multitables.parent.node.place import NodePlace, agreed
from _multitables.parent.readers.process import start_alone

HOST = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from _multitables.parent.node.host import main; main()"
)
#: How soon a rank that was not let in tries again.
RETRY_SECONDS = 0.01
#: As many hosts may end before they let this rank in: then something ends each.
MAX_HOSTS = 8
#: What lasts must be looked at so often: meanwhile this process may itself have been stopped.
GAP_SECONDS = 5.0


class HostLink:
    """A connection that is made when something is sent for the first time."""

    def __init__(self, place: NodePlace, purpose: str, library_timeout: float | None) -> None:
        self._place, self._library_timeout = place, library_timeout
        self._name = agreed(purpose, "the name of the socket")
        self._proofs = agreed(purpose, "a rank's proof"), agreed(purpose, "the host's proof")
        self._socket: socket.socket | None = None
        self._is_closed = False
        #: By which copies of the socket are recognised.
        self._identity: os.stat_result | None = None
        self._host_pid = 0
        #: A question is on its way; when it was sent; the stopped rank in the last answer.
        self._is_asking, self._asked = False, 0.0
        self._stopped: dict[str, int] | None = None
        self._silence, self._standstill = _Lasting(), _Lasting()

    @property
    def is_open(self) -> bool:
        """It is made, and not closed."""
        return self._socket is not None

    def copy(self) -> Descriptor:
        """Return a descriptor that keeps this rank present for the host."""
        connection = self._socket
        if connection is None or (number := connection.fileno()) < 0:
            raise closed()
        return Descriptor.copy_of(number)

    def is_copy(self, descriptor: int) -> bool:
        """Whether a descriptor is still one of those."""
        return self._identity is not None and os.path.samestat(os.fstat(descriptor), self._identity)

    def close(self) -> None:
        """Close it. May be called again."""
        self._is_closed = True
        left, self._socket = self._socket, None
        if left is not None:
            left.close()

    # ---- messages

    def send(
        self,
        message: dict[str, Any],
        memory: Sequence[Descriptor] = (),
        ring: Sequence[int] = (),
    ) -> None:
        """Send a message, with the descriptors of a ring and of other memory.

        Raises
        ------
        ClosedError
            Another thread has closed this.
        """
        connection = self._socket or self._connected()
        message["sent"] = kernel_view.now()
        try:
            if self._socket is None:
                self._socket, self._identity = connection, os.fstat(connection.fileno())
                if self._is_closed:  # meanwhile
                    self.close()
                    raise closed()
            messages.send(connection, message, memory, ring)
        except BlockingIOError:
            raise _not_answering(self._host_pid) from None
        except OSError as error:
            raise closed() if self._is_closed else host_ended(error) from None

    def receive(self, timeout: float) -> tuple[dict[str, Any] | None, list[Descriptor]]:
        """Take a message; None: nothing came."""
        connection = self._socket  # which another thread may close
        try:
            if connection is None or not _can_be_read(connection, timeout):
                return None, []
            message, descriptors = messages.receive(connection)
        except (OSError, ValueError) as error:
            if self._is_closed:
                return None, []
            raise host_ended(error) from None
        if message is None:
            raise host_ended()
        try:
            self._note(message)
        except BaseException:
            messages.close(descriptors)
            raise
        return message, descriptors

    def _note(self, message: dict[str, Any]) -> None:
        """Keep what concerns the host, or raise it."""
        if "pong" in message:
            self._is_asking, self._stopped = False, message.get("stopped")
        elif "failed" in message:
            raise ReaderDiedError(
                f"the process that hosts the readers of this node gave up: {message['failed']}",
                good="What was delivered is good",
                advice=message.get("advice", ""),
            )

    def look(self, at: int, waits_for: int | None) -> None:
        """Ask whether the host is there, and whether the rank that this one waits for is stopped.

        Raises
        ------
        StalledError
            It is so. Later looks may show that they go on.
        """
        if self._silence.lasts(self._is_asking):
            raise _not_answering(self._host_pid)
        now = time.monotonic()
        if not self._is_asking and now - self._asked > options.STALL_SECONDS / 20:
            self._is_asking, self._asked = True, now
            self.send({"ping": at, "waits_for": waits_for})
        stopped = self._stopped
        if self._standstill.lasts(stopped is not None) and stopped is not None:
            raise StalledError(
                f"no block for {options.STALL_SECONDS:g} s: rank number {stopped['rank']} of this "
                f"node (pid {stopped['pid']}) is stopped by a signal, and nothing comes without it",
                good="What was delivered is good",
                advice=f"Let it go on (kill -CONT {stopped['pid']}), or end it: the others go on "
                "without it",
                **stopped,
            )

    # ---- the host

    def _connected(self) -> socket.socket:
        """Reach the host, which is started if it is missing."""
        deadline, n_hosts = time.monotonic() + options.STALL_SECONDS, 0
        try:
            while not self._is_closed:
                with contextlib.suppress(BlockingIOError):  # too many come at once
                    connection = meeting.connected(self._name)
                    if connection is None and n_hosts < MAX_HOSTS and self._start_host():
                        n_hosts += 1
                        continue
                    if connection is not None and self._came_in(connection, deadline):
                        return connection
                if n_hosts == MAX_HOSTS:
                    raise host_ended()
                if time.monotonic() > deadline:
                    raise _not_answering(self._host_pid)
                time.sleep(RETRY_SECONDS)
            raise closed()
        except OSError as error:
            if isinstance(error, MultitablesError):
                raise
            raise host_ended(error) from None

    def _start_host(self) -> bool:
        """Start the process that hosts the readers, unless another rank is about to."""
        listener = meeting.listening(self._name, self._place.count)
        if listener is None:
            return False
        with listener:
            arguments = [str(self._place.count), str(self._library_timeout or 0)]
            said = " ".join(self._proofs)
            start_alone(HOST, listener, arguments, said, options.STALL_SECONDS)
        return True

    def _came_in(self, connection: socket.socket, deadline: float) -> bool:
        is_let_in = False
        try:
            is_let_in = self._is_let_in(connection, deadline)
        finally:
            if not is_let_in:
                connection.close()
        return is_let_in

    def _is_let_in(self, connection: socket.socket, deadline: float) -> bool:
        """Introduce this rank and the host to each other; False: the host has ended meanwhile."""
        _, user = kernel_view.peer(connection)
        if user != os.geteuid():
            raise _foreign(f"it belongs to user {user} (expected {os.geteuid()})")
        of_rank, of_host = self._proofs
        try:
            hello = {"hello": self._place.number, "proof": of_rank, "sent": kernel_view.now()}
            messages.send(connection, hello)
            if not _can_be_read(connection, max(0.0, deadline - time.monotonic())):
                return False
            answer, descriptors = messages.receive(connection)
        except (ConnectionError, ValueError):
            return False
        messages.close(descriptors)
        if answer is None:
            return False
        if answer.get("welcome") == of_host:
            self._host_pid = answer["pid"]
            return True
        if "refused" in answer:
            raise OptionsError(
                f"rank number {self._place.number} of this node is there already, or came too late",
                advice="Give each rank its own number, start ranks together, and node by node. Two "
                "runs at the same time may need different names in MULTITABLES_RUN",
                option="rank",
                got=self._place.number,
            )
        raise _foreign("it does not know the run to which it would belong")


class _Lasting:
    """For how long something lasts, as far as it was looked at."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._seen = 0.0

    def lasts(self, it_does: bool) -> bool:
        """Whether it does, and did at each look for `options.STALL_SECONDS`."""
        now = time.monotonic()
        if not it_does:
            self._since = None
        elif self._since is None or now - self._seen > GAP_SECONDS:
            self._since = now
        self._seen = now
        return self._since is not None and now - self._since > options.STALL_SECONDS


def _can_be_read(connection: socket.socket, seconds: float) -> bool:
    poll = select.poll()  # `select` knows no descriptors from 1024 on
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def closed() -> ClosedError:
    """Compose the exception for a link that another thread has closed."""
    return ClosedError(
        "these readers were closed",
        good="Blocks that are held stay valid",
        advice="Make the stream again",
    )


def host_ended(error: Exception | None = None) -> ReaderDiedError:
    """Compose the exception for a host that is not there."""
    why = f" ({error})" if error else ""
    advice = "A SIGKILL that you did not send is usually the kernel out of memory (see dmesg)"
    return ReaderDiedError(
        f"the process that hosts the readers of this node has ended or cannot be reached{why}",
        good="What was delivered is good",
        advice=advice_for(error, advice) if isinstance(error, OSError) else advice,
    )


def _foreign(why: str) -> OptionsError:
    return OptionsError(
        f"share='node' found another process where it looks for the host of this node: {why}",
        good="It was given nothing",
        advice=meeting.OWN_FOLDER,
        option="share",
    )


def _not_answering(pid: int) -> StalledError:
    process = f"pid {pid}" if pid else "which a rank starts"
    return StalledError(
        f"the process that hosts the readers of this node ({process}) did not answer for "
        f"{options.STALL_SECONDS:g} s",
        good="What was delivered is good",
        advice="If a signal has stopped it, let it go on (kill -CONT). Else start all ranks again",
        pid=pid,
    )
