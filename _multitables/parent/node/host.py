"""The process that hosts the readers which ranks of a node share.

Actors
------
::

    rank (any of them)            host                         readers
       | hello: number, proof ---->|
       |<-- welcome: proof, pid ---|
       | next: n ----------------->|  the first one is told to plan it
       |<-- plan ------------------|
       | planned: n, ring -------->| assign -----------------> serve the ring
       |<-- ready: n, ring --------|  (all the others; without a ring it is only memory)
       | (blocks come through the ring, in shared memory)
       | ping: n ----------------->|
       |<-- pong: n, stopped ------|  (a rank that is stopped, and without which nothing comes)
       | left: n ----------------->|  (it gives back what it holds, if it holds something)
       |<-- death: n --------------| watch <------------------ a task that killed twice

Law
---
1. It is no rank's child, so any rank may be killed at any time. Its blocks are skipped, and the
   others go on. One that does not come within `WAIT_SECONDS` is gone, too.
2. It ends with the last rank, or `LEFT_SECONDS` after the last process that came to it has ended,
   though not all came. A rank that began after all who were here have ended is of another run:
   then it ends at once, and that run has a host of its own.
3. It knows rings and readers, no data: a rank plans, and if it fails, the next one does.
4. Only this user's processes are let in that know what the run has agreed on, and it proves that it
   does. One that sends anything else than a rank does is gone, and the others go on.
5. It imports as little as a reader does: ranks wait for it.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from _multitables import _core
from _multitables._core import Descriptor
from _multitables.errors import MultitablesError
from _multitables.parent.node import kernel_view, meeting, messages
from _multitables.parent.readers.process import leave_parent
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.supervisor import Readers

#: How often it looks after its readers.
LOOK_SECONDS = 0.05
#: How long it waits for ranks that have not come yet, while others are here.
WAIT_SECONDS = 300.0
#: The same while none is.
LEFT_SECONDS = 5.0


@dataclass(eq=False)
class _Rank:
    """A process that has connected; a rank, as soon as it has a number."""

    socket: socket.socket
    pid: int
    number: int = -1


@dataclass
class _Stream:
    """One ring, and who reads into it."""

    planner: int | None = None
    #: Ranks that wait for the plan, ranks that have left, and those of them that took no block.
    waiting: list[int] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    #: The planner has sent its ring, or its memory.
    is_planned: bool = False
    ring: _core.Ring | None = None
    readers: Readers | None = None
    #: The planner's memory for the others.
    extra: Descriptor | None = None


class Host:
    """Serves the ranks of one node.

    Parameters
    ----------
    proofs : (str, str)
        What a rank has to say, and what this process says to it.
    """

    def __init__(
        self, listener: socket.socket, n_ranks: int, timeout: float | None, proofs: tuple[str, str]
    ) -> None:
        self._listener, self._n_ranks, self._proofs = listener, n_ranks, proofs
        self._pool = ReaderPool(True, timeout)
        #: What can be read -> what is done then.
        self._selector = selectors.PollSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._let_in)
        self._ranks: dict[int, _Rank] = {}
        self._gone: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        #: Sockets of ranks, and descriptors of their processes, that have not ended; and since when
        #: there is none.
        self._here: set[socket.socket | int] = set()
        self._left = time.monotonic()
        #: When a rank has last sent something.
        self._last_sent = 0.0
        self._is_over = False

    def run(self) -> None:
        """Serve until all ranks came and left."""
        begin = time.monotonic()
        try:
            while not (self._is_over or len(self._gone) == self._n_ranks or self._is_left()):
                events = [key for key, _ in self._selector.select(LOOK_SECONDS)]
                for key in sorted(events, key=self._is_listener):  # ends, before others come
                    act: Callable[[], None] = key.data
                    if not self._is_over:  # else who comes beside it finds the next host, too
                        act()
                for number, stream in list(self._streams.items()):
                    self._look(number, stream)
                if time.monotonic() - begin > WAIT_SECONDS:
                    for number in set(range(self._n_ranks)) - self._ranks.keys() - self._gone:
                        self._lose(number)
        except MultitablesError as error:  # no reader can be started
            for rank in list(self._ranks.values()):
                self._send(rank, {"failed": error.happened, "advice": error.advice})
        self._close()
        for stream in self._streams.values():
            self._end(stream)
        self._pool.close()

    def _close(self) -> None:
        """Let those who still connect, or wait, find another host."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            else:
                os.close(key.fd)
        self._selector.close()

    def _is_listener(self, key: selectors.SelectorKey) -> bool:
        return key.fileobj is self._listener

    def _is_left(self) -> bool:
        return not self._here and time.monotonic() - self._left > LEFT_SECONDS

    # ---- who is here

    def _let_in(self) -> None:
        connection, _ = self._listener.accept()
        try:
            pid, user = kernel_view.peer(connection)
        except OSError:
            pid, user = 0, -1
        if user != os.geteuid():
            connection.close()
            return
        rank = _Rank(connection, pid)
        self._selector.register(connection, selectors.EVENT_READ, partial(self._hear, rank))

    def _greet(self, rank: _Rank, message: dict[str, Any]) -> None:
        """Let a rank in by its first message."""
        number, proof = message["hello"], message["proof"]
        if proof != self._proofs[0]:
            raise ValueError("it does not know the run")
        if not (isinstance(number, int) and 0 <= number < self._n_ranks):
            raise ValueError("no such rank")
        is_known = number in self._ranks or number in self._gone
        if self._last_sent and not self._here and self._is_later(rank, is_known):
            self._is_over = True
            return
        if is_known:
            self._send(rank, {"refused": number})
            self._drop(rank)
            return
        rank.number = number
        self._ranks[number] = rank
        self._here.add(rank.socket)
        watched = kernel_view.watched(rank.pid)
        if watched is not None:
            self._here.add(watched)
            ended = partial(self._see_end, watched)
            self._selector.register(watched, selectors.EVENT_READ, ended)
        self._send(rank, {"welcome": self._proofs[1], "pid": os.getpid()})

    def _is_later(self, rank: _Rank, is_known: bool) -> bool:
        """Whether a rank began after the last sign of life of those that were here before."""
        began = kernel_view.began(rank.pid)
        if began is None:
            return is_known
        return began + kernel_view.TICK_SECONDS > self._last_sent

    def _see_end(self, watched: int) -> None:
        """Note that the process of a rank has ended."""
        self._selector.unregister(watched)
        os.close(watched)
        self._leave_here(watched)

    def _leave_here(self, one: socket.socket | int) -> None:
        if one in self._here:
            self._here.remove(one)
            self._left = time.monotonic()

    def _drop(self, rank: _Rank) -> None:
        """Close the connection with a rank, which is gone then."""
        if rank.socket.fileno() < 0:
            return
        self._selector.unregister(rank.socket)
        rank.socket.close()
        self._leave_here(rank.socket)
        if rank.number >= 0:
            self._lose(rank.number)

    def _lose(self, number: int) -> None:
        """Take an ended rank out of all streams."""
        self._ranks.pop(number, None)
        self._gone.add(number)
        for at, stream in list(self._streams.items()):
            self._give_up(number, stream)
            self._leave(number, at)

    # ---- messages

    def _hear(self, rank: _Rank) -> None:
        """Take one message of a rank."""
        if rank.socket.fileno() < 0:  # it was dropped meanwhile
            return
        descriptors: list[Descriptor] = []
        try:
            message, descriptors = messages.receive(rank.socket)
            if message is None:
                self._drop(rank)
            elif rank.number < 0:
                self._greet(rank, message)
            else:
                self._act(rank.number, message, descriptors)
            if message is not None:
                self._last_sent = max(self._last_sent, float(message["sent"]))
        except MultitablesError:
            raise
        except (OSError, LookupError, TypeError, ValueError, AttributeError):
            self._drop(rank)  # it has ended, or is no rank
        finally:
            messages.close(descriptors)

    def _act(self, number: int, message: dict[str, Any], descriptors: list[Descriptor]) -> None:
        if "next" in message:
            self._ask(number, message["next"])
        elif "planned" in message:
            self._start(number, message, descriptors)
        elif "left" in message:
            at = message["left"]
            if not message["holds"] and at in self._streams:
                self._streams[at].lost.add(number)
                self._give_up(number, self._streams[at])
            self._leave(number, at)
        elif "ping" in message:
            stopped = self._stopped(message["ping"], message["waits_for"])
            self._send(self._ranks[number], {"pong": message["ping"], "stopped": stopped})

    def _stopped(self, at: int, consumer: int | None) -> dict[str, int] | None:
        """Return the rank without which nothing comes, if a signal has stopped it."""
        stream = self._streams.get(at)
        if stream is not None and not stream.is_planned:
            consumer = stream.planner
        rank = None if consumer is None else self._ranks.get(consumer)
        if rank is None or not kernel_view.is_stopped(rank.pid):
            return None
        return {"rank": rank.number, "pid": rank.pid}

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

    def _start(self, number: int, message: dict[str, Any], descriptors: list[Descriptor]) -> None:
        """Start the readers of a planned stream, and send it to the ranks that wait."""
        at = message["planned"]
        stream = self._streams[at]
        if stream.planner != number or stream.is_planned:
            raise ValueError("it was not to plan this")
        of_ring = 2 if "n_readers" in message else 0
        if of_ring:
            plan, ring = descriptors[:of_ring]
            stream.ring = _core.Ring.attached(plan, ring)
            stream.readers = self._pool.take(message["n_readers"])
            stream.readers.assign(stream.ring)
        if descriptors[of_ring:]:
            seals = messages.SIZE_SEALS if "is_written" in message else messages.SEALS
            messages.sealed_bytes(descriptors[of_ring], seals)
            stream.extra = descriptors.pop(of_ring)
        stream.is_planned = True
        for lost in self._gone | stream.lost:
            self._give_up(lost, stream)
            self._leave(lost, at)
        waiting, stream.waiting = stream.waiting, []
        for other in waiting:
            self._tell(other, at, stream)

    def _tell(self, number: int, at: int, stream: _Stream) -> None:
        """Give a rank the ring of a stream."""
        if number not in self._ranks:
            return
        ring = () if stream.ring is None else stream.ring.descriptors()
        memory = [] if stream.extra is None else [stream.extra]
        self._send(self._ranks[number], {"ready": at}, memory, ring)

    def _give_up(self, number: int, stream: _Stream) -> None:
        """Free the blocks of a rank that takes none, so that the others go on."""
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
        if stream.planner == number and not stream.is_planned:
            stream.planner = None  # it could not plan, or is gone: the next one tries
            if stream.waiting:
                self._ask(stream.waiting.pop(0), at)
        if len(stream.left) == self._n_ranks:
            self._streams.pop(at, None)
            self._end(stream)

    def _look(self, at: int, stream: _Stream) -> None:
        """Look after the readers of a stream, and tell ranks when it cannot go on."""
        death = stream.readers.watch() if stream.readers is not None else None
        if death is not None:
            self._end(stream, sound=False)
            for rank in list(self._ranks.values()):
                self._send(rank, {"death": at, "told": asdict(death)})

    def _end(self, stream: _Stream, sound: bool = True) -> None:
        readers, stream.readers = stream.readers, None
        if stream.ring is not None:
            stream.ring.stop()
            if readers is not None:
                self._pool.give_back()(readers, sound)
        if stream.extra is not None:
            stream.extra.close()
            stream.extra = None

    def _send(
        self,
        rank: _Rank,
        message: dict[str, Any],
        memory: Sequence[Descriptor] = (),
        ring: Sequence[int] = (),
    ) -> None:
        try:
            messages.send(rank.socket, message, memory, ring)
        except OSError:  # it has ended, or does not take what it was sent, and would wait for it
            self._drop(rank)


def main() -> None:
    """Host the readers of a run: socket, number of ranks and time-out; proofs on standard input."""
    descriptor, n_ranks, timeout = sys.argv[1:]
    of_ranks, of_host = sys.stdin.read().split()
    with socket.socket(fileno=int(descriptor)) as listener:
        listener.set_inheritable(False)
        leave_parent()  # the rank waits for this: now it can connect
        Host(listener, int(n_ranks), float(timeout) or None, (of_ranks, of_host)).run()
    meeting.remove_left()


if __name__ == "__main__":
    main()
