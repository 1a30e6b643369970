"""A rank's side of the readers that the ranks of a node share.

Law
---
1. Every rank asks for the same streams in the same order. One of them plans each, which the host
   decides (host.py), and the plan comes to the others with the ring: they neither open the file nor
   plan (plans.py). A rank that wants something else gets an error.
2. A rank takes blocks from the ring without asking the host, which only reports deaths. A rank
   that has closed this counts as present until its blocks are back.
3. In a forked child everything is closed.
4. What another process sends is used only if it is of what this rank wants, and cannot change.
5. A rank that gets nothing looks after the host, and through it after the rank for which it waits
   (host_link.py).
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from _multitables import _core
from _multitables._core import Descriptor
from _multitables.errors import (
    ClosedError,
    MultitablesError,
    ReaderDiedError,
    SharedMemoryError,
    StalledError,
)
from _multitables.parent.node import messages, plans
from _multitables.parent.node.host_link import HostLink, closed
from _multitables.parent.node.place import NodePlace
from _multitables.parent.readers.death import Death
from _multitables.parent.stream.open_stream import (
    Opened,
    encoded_plan,
    made_ring,
    ring_shortage,
    views_of,
)
from _multitables.parent.stream.ring_blocks import RingBlocks
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.plan.stream_plan import ReadPlan
from _multitables.tree import Structure

#: How often a rank that waits for an answer looks after the host.
LOOK_SECONDS = 0.1

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
        _made[purpose] += 1
        self._link = HostLink(place, f"{_made[purpose]} {purpose}", library_timeout)
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._streams = itertools.count()
        #: A copy of the connection for each ring.
        self._ties: list[int] = []
        #: Deaths that ended a stream, by its number.
        self._deaths: dict[int, Death] = {}
        _all.add(self)

    # ---- streams

    def opened(
        self, wanted: bytes, structure: Structure, open_here: Callable[[], Opened | _T]
    ) -> Opened | _T:
        """Return what one of the ranks, which want the same, opens for all.

        What is of another kind each of them opens.
        """
        opened: list[Opened | _T] = []

        def made() -> tuple[Any, ...]:
            opened.append(open_here())
            return plans.of_opened(opened[0]) if isinstance(opened[0], Opened) else (None,)

        given = self._values(wanted, made)
        if opened:
            return opened[0]
        if given == (None,):
            return open_here()
        with _checked("an index"):
            return plans.opened_of(given, structure)

    def agree(self, wanted: bytes) -> None:
        """Raise an OptionsError if another rank wants something else."""
        self._values(wanted, lambda: (None,))

    def _values(self, wanted: bytes, made: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the values that one of the ranks, which want the same, makes for all."""

        def given(at: int, answer: dict[str, Any], descriptors: list[Descriptor]) -> Any:
            if "plan" in answer:
                value = made()
                descriptors.append(_filled(plans.encode(wanted, value)))
                self._link.send({"planned": at}, descriptors)
            else:
                with _checked("an index"):
                    value = plans.decode(messages.content(descriptors[0]), wanted)
            self._leave(at, holds=False)
            return value

        return self._next(given)

    def chunks(self, n_bytes: int) -> Descriptor:
        """Return memory for decoded chunks, which one of the ranks makes for all."""

        def given(at: int, answer: dict[str, Any], descriptors: list[Descriptor]) -> Descriptor:
            if "plan" in answer:
                try:
                    descriptors.append(Descriptor.for_chunks(n_bytes))
                except OSError as error:
                    raise ring_shortage(error, n_bytes, "chunks that ranks share") from error
                self._link.send({"planned": at, "is_written": True}, descriptors)
            self._leave(at, holds=False)
            return Descriptor.copy_of(descriptors[0].fileno())

        return self._next(given)

    def start(
        self,
        n_readers: int,
        wanted: bytes,
        opened: Opened,
        planned: Callable[[], tuple[ReadPlan, int, _T]],
    ) -> tuple[StreamQueue, _T]:
        """Return this rank's blocks of the next stream, and what its planner has for all ranks.

        Parameters
        ----------
        wanted : bytes
            What is to be planned of what was opened: equal in all ranks.
        planned : callable
            Returns the plan, the rows of a block, and what all ranks are to have.
        """

        def stream(
            at: int, answer: dict[str, Any], descriptors: list[Descriptor]
        ) -> tuple[StreamQueue, _T]:
            if "plan" in answer:
                plan, block_size, others = planned()
                number = self.place.number
                ring = made_ring(encoded_plan(plan, opened), plan, opened, consumer=number)
                data = plans.encode(wanted, (plan, block_size, others), opened.indexes)
                descriptors.append(_filled(data))
                message = {"planned": at, "n_readers": n_readers}
                self._link.send(message, descriptors, ring.descriptors())
            else:
                with _checked("a ring"):
                    value = plans.decode(messages.content(descriptors[2]), wanted, opened.indexes)
                    plan, block_size, others = value
                    ring = self._joined(plan, opened.structure, descriptors)
            self._stay_while_lent(ring)
            readers = ReadersOfStream(self, at, ring)
            blocks = RingBlocks(ring, readers, plan, block_size, readers.leave, {})
            return StreamQueue(blocks), others

        return self._next(stream)

    def memory(self, made: Callable[[], bytes], n_bytes: int) -> mmap.mmap | None:
        """Return bytes that one of the ranks makes for all, `n_bytes` or none; None if none.

        What this rank writes there, the others do not see.
        """

        def mapped(
            at: int, answer: dict[str, Any], descriptors: list[Descriptor]
        ) -> mmap.mmap | None:
            if "plan" in answer:
                descriptors.append(_filled(made()))
                self._link.send({"planned": at}, descriptors)
            self._leave(at, holds=False)
            with _checked("memory"):
                size = messages.sealed_bytes(descriptors[0])
                if size not in (0, n_bytes):
                    raise ValueError(f"it has another size (expected {n_bytes}, got {size} bytes)")
                number = descriptors[0].fileno()
                return mmap.mmap(number, size, access=mmap.ACCESS_COPY) if size else None

        return self._next(mapped)

    def _next(self, act: Callable[[int, dict[str, Any], list[Descriptor]], _T]) -> _T:
        """Ask for the next stream, and act on the host's answer: plan it, or join it."""
        if os.getpid() != self._owner:
            raise ClosedError(
                f"these readers belong to process {self._owner}, of which this one "
                f"({os.getpid()}) is a fork",
                advice="Make the stream in this process",
            )
        with self._lock:
            at = next(self._streams)
            self._link.send({"next": at})
            descriptors: list[Descriptor] = []
            try:
                answer, descriptors = self._answer(at)
                return act(at, answer, descriptors)
            except BaseException:
                self._leave(at, holds=False)
                raise
            finally:
                messages.close(descriptors)

    def _joined(
        self, plan: ReadPlan, structure: Structure, descriptors: list[Descriptor]
    ) -> _core.Ring:
        """Return the ring that another rank made for a plan."""
        views = views_of(plan)
        if any(dtype.hasobject for dtype, _ in views):
            raise ValueError("its elements are no values")
        messages.sealed_bytes(descriptors[0])
        plan_fd, ring_fd = descriptors[:2]
        return _core.Ring.attached(plan_fd, ring_fd, self.place.number, views, structure.keys)

    def _stay_while_lent(self, ring: _core.Ring) -> None:
        """Keep this rank present for the host while it holds blocks of a ring."""
        tie = self._link.copy()
        self._ties.append(tie.fileno())
        ring.keep_open(tie)

    def _answer(self, at: int) -> tuple[dict[str, Any], list[Descriptor]]:
        while True:
            message, descriptors = self._link.receive(LOOK_SECONDS)
            if not self._link.is_open:  # another thread has closed it
                messages.close(descriptors)
                raise closed()
            if message is None:
                self._link.look(at, None)
            elif at in (message.get("plan"), message.get("ready")):
                return message, descriptors
            messages.close(descriptors)
            self._note(message)

    def _note(self, message: dict[str, Any] | None) -> None:
        """Keep that a stream has ended, whichever it is."""
        if message is not None and "death" in message:
            with _checked("the death of a reader"):
                self._deaths[message["death"]] = Death(**message["told"])

    def watch(self, at: int, waits_for: int | None) -> Death | None:
        """Return the death that ended a stream, if one did.

        Parameters
        ----------
        waits_for : int or None
            The rank that has to give blocks back before readers can go on, if it is so.

        Raises
        ------
        ReaderDiedError
            The host ended.
        StalledError
            The host does not answer, or a rank is stopped for which this one waits. Later calls may
            find that they go on.
        """
        if os.getpid() != self._owner:
            return None
        try:
            if not self._lock.acquire(blocking=False):
                return None  # another thread is looking
            while at not in self._deaths:
                message, descriptors = self._link.receive(0.0)
                messages.close(descriptors)
                self._note(message)
                if message is None:
                    self._link.look(at, waits_for)
                    return None
            return self._deaths[at]
        except ClosedError:
            return None  # another thread has closed this, and each stream before
        finally:
            try:  # noqa: SIM105 (`suppress` is a call, after which an interrupt may come)
                self._lock.release()
            except RuntimeError:  # it was not taken
                pass

    def leave(self, at: int) -> None:
        """Take no more of a stream."""
        if os.getpid() == self._owner:
            with self._lock:
                self._leave(at, holds=True)

    def _leave(self, at: int, *, holds: bool) -> None:
        if self._link.is_open:
            with contextlib.suppress(ReaderDiedError, StalledError, ClosedError):
                self._link.send({"left": at, "holds": holds})

    def close(self) -> None:
        """Take no more. Blocks that are held stay valid. May be called again."""
        self._link.close()

    def close_in_child(self) -> None:
        """Close the descriptors that a forked child has inherited."""
        for tie in self._ties:
            with contextlib.suppress(OSError):
                if self._link.is_copy(tie):  # its ring may be closed
                    os.close(tie)
        self.close()

    def __del__(self) -> None:
        self.close()


class ReadersOfStream:
    """The readers of one stream, as far as a rank has to do with them."""

    #: The host counts them.
    replaced = 0

    def __init__(self, readers: SharedReaders, at: int, ring: _core.Ring) -> None:
        self._shared, self._at, self._ring = readers, at, ring

    def watch(self) -> Death | None:
        """Return the death that ended the stream, if one did."""
        return self._shared.watch(self._at, self._ring.waits_for())

    def leave(self, _sound: bool) -> None:
        """Take no more of it."""
        self._shared.leave(self._at)


@contextlib.contextmanager
def _checked(what: str) -> Iterator[None]:
    """Name what is wrong with what another process has sent."""
    try:
        yield
    except MultitablesError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SharedMemoryError(
            f"another process of this node sent {what} that cannot be used: {error}",
            good="What was delivered is good",
            advice="End all ranks of the node and start them again",
        ) from error


def _filled(data: bytes) -> Descriptor:
    """Return memory that has these bytes for ever."""
    try:
        return Descriptor.holding(data)
    except OSError as error:
        raise ring_shortage(error, len(data), "what ranks of a node share") from error


def _leave_in_child() -> None:
    """Close a forked child's copies, so that the host sees its parent end."""
    for readers in list(_all):
        readers.close_in_child()


os.register_at_fork(after_in_child=_leave_in_child)
