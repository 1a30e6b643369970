"""The process that hosts the readers which ranks of a node share.

Actors
------
::

    rank (any of them)            host                         readers
       | hello: number             |
       | next: n ----------------->|  the first one is told to plan it
       |<-- plan ------------------|
       | planned: n, ring -------->| assign -----------------> serve the ring
       |<-- ready: n, ring --------|  (all the others; without a ring it is only memory)
       | (blocks come through the ring, in shared memory)
       | left: n ----------------->|
       |<-- death: n --------------| watch <------------------ a task that killed twice

Law
---
1. It is no rank's child, so any rank may be killed at any time. Its blocks are skipped, and the
   others go on. One that does not come within `WAIT_SECONDS` is gone, too. It ends with the last.
2. It knows rings and readers, no data: a rank plans, and if it fails, the next one does.
3. Messages are JSON in datagrams; memory goes as descriptors. Only the same user is let in.
4. It imports as little as a reader does: ranks wait for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from _multitables import _core
from _multitables.parent.readers.process import leave_parent
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.supervisor import Readers

#: Bytes of a message at most, and descriptors.
MESSAGE_BYTES, DESCRIPTORS = 1 << 16, 3
#: How often it looks after its readers.
LOOK_SECONDS = 0.05
#: Stands for the number of a refused rank, whose messages are ignored.
REFUSED = -1
#: How long it waits for ranks that have not come yet.
WAIT_SECONDS = 300.0


@dataclass
class _Stream:
    """One ring, and who reads into it."""

    planner: int | None = None
    #: Ranks that wait for the plan, and ranks that have left.
    waiting: list[int] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    #: The planner has sent its ring, or its memory.
    is_planned: bool = False
    ring: _core.Ring | None = None
    readers: Readers | None = None
    #: The planner's message to the others, and its memory.
    told: dict[str, Any] = field(default_factory=dict)
    extra: int | None = None


class Host:
    """Serves the ranks of one node."""

    def __init__(self, listener: socket.socket, n_ranks: int, timeout: float | None) -> None:
        self._listener, self._n_ranks = listener, n_ranks
        self._pool = ReaderPool(True, timeout)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._ranks: dict[int, socket.socket] = {}
        self._gone: set[int] = set()
        self._streams: dict[int, _Stream] = {}

    def run(self) -> None:
        """Serve until all ranks came and left."""
        begin = time.monotonic()
        while len(self._gone) < self._n_ranks:
            for key, _ in self._selector.select(LOOK_SECONDS):
                if key.fileobj is self._listener:
                    self._let_in()
                else:
                    self._hear(key.fileobj, key.data)  # type: ignore[arg-type]
            for number, stream in list(self._streams.items()):
                self._look(number, stream)
            if time.monotonic() - begin > WAIT_SECONDS:
                for number in set(range(self._n_ranks)) - self._ranks.keys() - self._gone:
                    self._lose(number)
        for stream in self._streams.values():
            self._end(stream)
        self._pool.close()

    def _let_in(self) -> None:
        rank, _ = self._listener.accept()
        peer = rank.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", peer)[1] != os.getuid():
            rank.close()
            return
        self._selector.register(rank, selectors.EVENT_READ, None)

    def _hear(self, rank: socket.socket, number: int | None) -> None:
        """Take one message of a rank, whose number its first one tells."""
        try:
            data, descriptors, *_ = socket.recv_fds(rank, MESSAGE_BYTES, DESCRIPTORS)
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._selector.unregister(rank)
            rank.close()
            if number not in (None, REFUSED):
                self._lose(number)
            return
        message = json.loads(data)
        if number is None:
            number = message["hello"]
            if number in self._ranks or number in self._gone:
                self._send(rank, {"refused": number})
                self._selector.modify(rank, selectors.EVENT_READ, REFUSED)
                return
            self._ranks[number] = rank
            self._selector.modify(rank, selectors.EVENT_READ, number)
        elif number == REFUSED:
            return
        elif "next" in message:
            self._ask(number, message["next"])
        elif "planned" in message:
            self._start(message, descriptors)
        elif "left" in message:
            self._leave(number, message["left"])  # it may still hold blocks of it

    def _lose(self, number: int) -> None:
        """Take an ended rank out of all streams."""
        self._ranks.pop(number, None)
        self._gone.add(number)
        for at, stream in list(self._streams.items()):
            self._give_up(number, stream)
            self._leave(number, at)

    def _ask(self, number: int, at: int) -> None:
        """Let a rank plan a stream, or give it what another one planned."""
        stream = self._streams.setdefault(at, _Stream())
        if stream.is_planned:
            self._tell(number, at, stream)
        elif stream.planner is None:
            stream.planner = number
            self._send(self._ranks[number], {"plan": at})
        else:
            stream.waiting.append(number)

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        """Start the readers of a planned stream, and send it to the ranks that wait."""
        at = message["planned"]
        stream = self._streams[at]
        stream.is_planned, stream.told = True, message["told"]
        if "n_readers" in message:
            plan, ring, *descriptors = descriptors
            stream.ring = _core.Ring.attached(plan, ring)
            stream.readers = self._pool.take(message["n_readers"])
            stream.readers.assign(stream.ring)
        stream.extra = descriptors[0] if descriptors else None
        for gone in self._gone:
            self._give_up(gone, stream)
            self._leave(gone, at)
        waiting, stream.waiting = stream.waiting, []
        for other in waiting:
            self._tell(other, at, stream)

    def _tell(self, number: int, at: int, stream: _Stream) -> None:
        """Give a rank the ring of a stream."""
        if number not in self._ranks:
            return
        descriptors = [] if stream.ring is None else list(stream.ring.descriptors())
        if stream.extra is not None:
            descriptors.append(stream.extra)
        self._send(self._ranks[number], {"ready": at, "told": stream.told}, descriptors)

    def _give_up(self, number: int, stream: _Stream) -> None:
        """Free the blocks of a rank that has ended, so that the others go on."""
        if stream.ring is not None:
            stream.ring.leave(number)

    def _leave(self, number: int, at: int) -> None:
        """Take a rank out of a stream."""
        stream = self._streams.get(at)
        if stream is None:
            return
        stream.left.add(number)
        if number in stream.waiting:
            stream.waiting.remove(number)
        if not stream.is_planned:
            if stream.planner == number:  # it could not plan, or is gone: the next one tries
                stream.planner = None
                if stream.waiting:
                    self._ask(stream.waiting.pop(0), at)
                elif len(stream.left) == self._n_ranks:
                    del self._streams[at]
            return
        if len(stream.left) == self._n_ranks:
            self._end(self._streams.pop(at))

    def _look(self, at: int, stream: _Stream) -> None:
        """Look after the readers of a stream, and tell ranks when it cannot go on."""
        death = stream.readers.watch() if stream.readers is not None else None
        if death is not None:
            self._end(stream, sound=False)
            for rank in self._ranks.values():
                self._send(rank, {"death": at, "told": asdict(death)})

    def _end(self, stream: _Stream, sound: bool = True) -> None:
        readers, stream.readers = stream.readers, None
        if stream.ring is not None:
            stream.ring.stop()
            if readers is not None:
                self._pool.give_back()(readers, sound)
        if stream.extra is not None:
            os.close(stream.extra)
            stream.extra = None

    def _send(
        self, rank: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None
    ) -> None:
        with contextlib.suppress(OSError):  # it is gone, which its socket tells next
            socket.send_fds(rank, [json.dumps(message).encode()], descriptors or [])


def main() -> None:
    """Host the readers of this name, unless another process already does."""
    name, n_ranks, timeout = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind("\0" + name)
    except OSError:
        return  # another rank was faster
    listener.listen(int(n_ranks))
    leave_parent()  # the rank waits for this: now it can connect
    Host(listener, int(n_ranks), float(timeout) or None).run()


if __name__ == "__main__":
    main()
