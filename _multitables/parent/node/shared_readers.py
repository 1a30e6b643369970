"""A rank's side of the readers that the ranks of a node share.

Law
---
1. Every rank asks for the same streams in the same order. One of them plans each, which the host
   decides (host.py); a rank that plans otherwise than that one is told so.
2. A rank takes blocks from the ring without asking the host, which only reports deaths. A rank
   that has closed this counts as present until its blocks are back.
3. In a forked child everything is closed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import mmap
import os
import select
import socket
import threading
import time
import weakref
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from _multitables import _core
from _multitables.errors import ClosedError, OptionsError, ReaderDiedError
from _multitables.parent.node import host
from _multitables.parent.node.place import NodePlace, run_name
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.process import start_alone
from _multitables.parent.stream.open_stream import Opened, encoded_plan, made_ring, views_of
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.plan.stream_plan import ReadPlan

HOST = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from _multitables.parent.node.host import main; main()"
)
#: How long a rank tries to reach the host that it, or another one, has started.
CONNECT_SECONDS = 30.0
#: Plans a stream, from another rank's bytes if given, and returns bytes for the other ranks.
Planned = Callable[[bytes | None], tuple[Opened, ReadPlan, int, bytes]]

_T = TypeVar("_T")
_made: Counter[str] = Counter()
_all: weakref.WeakSet[SharedReaders] = weakref.WeakSet()


class SharedReaders:
    """The readers that the ranks of a node share for one purpose, such as the batches of a loop.

    Parameters
    ----------
    place : NodePlace
        This rank among them.
    purpose : str
        Which is the same in all of them.
    """

    def __init__(self, place: NodePlace, purpose: str, library_timeout: float | None) -> None:
        self.place = place
        purpose = hashlib.sha256(f"{run_name()}:{purpose}".encode()).hexdigest()[:24]
        _made[purpose] += 1
        self._name = f"multitables-{os.getuid()}-{purpose}-{_made[purpose]}"
        self._library_timeout = library_timeout
        self._socket: socket.socket | None = None
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._streams = itertools.count()
        #: A copy of the socket for each ring, and the identity by which a copy is recognised.
        self._ties: list[int] = []
        self._identity: os.stat_result | None = None
        #: Deaths that ended a stream, by its number.
        self._deaths: dict[int, Death] = {}
        _all.add(self)

    # ---- streams

    def start(self, n_readers: int, planned: Planned) -> StreamQueue:
        """Return this rank's blocks of the next stream."""
        return self._next(lambda at, *told: self._stream(at, n_readers, planned, *told))

    def memory(self, made: Callable[[], bytes]) -> mmap.mmap | None:
        """Return bytes that one of the ranks makes for all; None if there are none.

        What this rank writes there, the others do not see.
        """

        def mapped(at: int, answer: dict[str, Any], descriptors: list[int]) -> mmap.mmap | None:
            if "plan" in answer:
                descriptors = [_filled(made())]
                self._send({"planned": at, "told": {}}, descriptors)
            self._leave(at)
            try:
                size = os.fstat(descriptors[0]).st_size
                return mmap.mmap(descriptors[0], size, access=mmap.ACCESS_COPY) if size else None
            finally:
                os.close(descriptors[0])

        return self._next(mapped)

    def _next(self, act: Callable[[int, dict[str, Any], list[int]], _T]) -> _T:
        """Ask for the next stream, and act on the host's answer: plan it, or join it."""
        if os.getpid() != self._owner:
            raise ClosedError(
                f"these readers belong to process {self._owner}, of which this one "
                f"({os.getpid()}) is a fork",
                advice="Make the stream in this process",
            )
        with self._lock:
            at = next(self._streams)
            self._send({"next": at})
            answer, descriptors = self._answer(at)
            try:
                return act(at, answer, descriptors)
            except BaseException:
                self._leave(at)
                raise

    def _stream(
        self,
        at: int,
        n_readers: int,
        planned: Planned,
        answer: dict[str, Any],
        descriptors: list[int],
    ) -> StreamQueue:
        number = self.place.number
        if "plan" in answer:
            opened, plan, block_size, extra = planned(None)
            encoded = encoded_plan(plan, opened)
            ring = made_ring(encoded, plan, opened, consumer=number)
            given = list(ring.descriptors())
            more = [_filled(extra)] if extra else []
            told = {"plan": zlib.crc32(encoded)}
            try:
                message = {"planned": at, "n_readers": n_readers, "told": told}
                self._send(message, given + more)
            finally:
                for one in more:
                    os.close(one)
        else:
            plan_fd, ring_fd, *more = descriptors
            try:
                extra = b"".join(os.pread(one, os.fstat(one).st_size, 0) for one in more)
                opened, plan, block_size, _ = planned(extra)
                is_same = zlib.crc32(encoded_plan(plan, opened)) == answer["told"]["plan"]
            except BaseException:
                more += plan_fd, ring_fd
                raise
            finally:
                for one in more:
                    os.close(one)
            if not is_same:
                os.close(plan_fd)
                os.close(ring_fd)
                raise OptionsError(
                    f"rank number {number} of this node asks for other data than the rank that "
                    "planned the stream (expected equal options, files and places to go on)",
                    advice="Give all ranks of a node the same options, and the states of all ranks",
                    option="share",
                )
            keys = opened.structure.keys
            ring = _core.Ring.attached(plan_fd, ring_fd, number, views_of(plan), keys)
        self._stay_while_lent(ring)
        readers = ReadersOfStream(self, at)
        return StreamQueue(ring, readers, plan, block_size, readers.leave)

    def _stay_while_lent(self, ring: _core.Ring) -> None:
        """Keep this rank present for the host while it holds blocks of a ring."""
        assert self._socket is not None
        self._ties.append(os.dup(self._socket.fileno()))
        ring.keep_open(self._ties[-1])

    def _answer(self, at: int) -> tuple[dict[str, Any], list[int]]:
        while True:
            message, descriptors = self._receive(None)
            if message is None:  # another thread has closed it
                raise _ended()
            if at in (message.get("plan"), message.get("ready")):
                return message, descriptors

    def watch(self, at: int) -> Death | None:
        """Return the death that ended a stream, if one did.

        Raises
        ------
        ReaderDiedError
            The host ended.
        """
        if os.getpid() != self._owner or not self._lock.acquire(blocking=False):
            return None  # another thread is looking
        try:
            while at not in self._deaths:
                if self._receive(0.0)[0] is None:
                    return None
            return self._deaths[at]
        finally:
            self._lock.release()

    def leave(self, at: int) -> None:
        """Take no more of a stream."""
        if os.getpid() == self._owner:
            with self._lock:
                self._leave(at)

    def _leave(self, at: int) -> None:
        if self._socket is not None:
            with contextlib.suppress(ReaderDiedError):
                self._send({"left": at})

    def close(self) -> None:
        """Take no more. Blocks that are held stay valid. May be called again."""
        left, self._socket = self._socket, None
        if left is not None:
            left.close()

    def close_in_child(self) -> None:
        """Close the descriptors that a forked child has inherited."""
        itself = self._identity
        for tie in self._ties:
            with contextlib.suppress(OSError):
                if itself and os.path.samestat(os.fstat(tie), itself):  # its ring may be closed
                    os.close(tie)
        self.close()

    def __del__(self) -> None:
        self.close()

    # ---- messages

    def _send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        if self._socket is None:
            self._socket = self._connected()
            self._identity = os.fstat(self._socket.fileno())
            self._send({"hello": self.place.number})
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors or [])
        except OSError:
            raise _ended() from None

    def _receive(self, timeout: float | None) -> tuple[dict[str, Any] | None, list[int]]:
        """Take a message; None: there is none."""
        if self._socket is None or not select.select([self._socket], [], [], timeout)[0]:
            return None, []
        try:
            data, descriptors, *_ = socket.recv_fds(
                self._socket, host.MESSAGE_BYTES, host.DESCRIPTORS
            )
        except OSError:
            data, descriptors = b"", []
        if not data:
            raise _ended()
        message: dict[str, Any] = json.loads(data)
        if "death" in message:
            self._deaths[message["death"]] = Death(**message["told"])
        if "refused" in message:
            raise OptionsError(
                f"rank number {self.place.number} of this node is there already, or came too late",
                advice="Give each rank its own number, start ranks together, and node by node",
                option="rank",
                got=self.place.number,
            )
        return message, descriptors

    def _connected(self) -> socket.socket:
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                connection.connect("\0" + self._name)
            except OSError:
                connection.close()
                if time.monotonic() > deadline:
                    raise _ended() from None
                self._start_host()
            else:
                return connection

    def _start_host(self) -> None:
        """Start the process that hosts the readers; it ends at once if another one does already."""
        timeout = self._library_timeout or 0
        start_alone(HOST, [self._name, str(self.place.count), str(timeout)])


class ReadersOfStream:
    """The readers of one stream, as far as a rank has to do with them."""

    #: The host counts them.
    replaced = 0

    def __init__(self, readers: SharedReaders, at: int) -> None:
        self._shared, self._at = readers, at

    def watch(self) -> Death | None:
        """Return the death that ended the stream, if one did."""
        return self._shared.watch(self._at)

    def leave(self, _sound: bool) -> None:
        """Take no more of it."""
        self._shared.leave(self._at)


def _filled(data: bytes) -> int:
    """Return the descriptor of memory that has these bytes."""
    memory = os.memfd_create("multitables-told")
    with open(memory, "wb", closefd=False) as out:
        out.write(data)
    return memory


def _ended() -> ReaderDiedError:
    return ReaderDiedError(
        "the process that hosts the readers of this node has ended or cannot be reached",
        good="What was delivered is good",
        advice="A SIGKILL that you did not send is usually the kernel out of memory (see dmesg)",
    )


def _leave_in_child() -> None:
    """Close a forked child's copies, so that the host sees its parent end."""
    for readers in list(_all):
        readers.close_in_child()


os.register_at_fork(after_in_child=_leave_in_child)
