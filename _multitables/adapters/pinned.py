"""Memory of rings that CUDA copies from directly, and leases that end when the copies have.

Law
---
1. A ring is registered with CUDA once, in one piece, and unregistered before its memory goes:
   the registration holds the memory, and whatever is lent from it holds the registration.
2. When the program drops a tensor, copies from it may still run. An event is recorded then, and
   the block is given back when the event has come. Nothing waits for the whole device.
3. When no batch is ready, blocks that wait for their event may be what the readers lack: then, and
   only then, the oldest event is waited for.
4. All calls of CUDA are in `Cuda`; tests put another in its place. A forked child, which CUDA does
   not serve, makes none.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch

from _multitables.errors import SharedMemoryError

#: `cudaHostRegisterPortable`: pinned for every device.
_PORTABLE = 1


class Event(Protocol):
    """A mark in the work of a stream."""

    def query(self) -> bool:
        """Tell whether the work before it is done."""

    def synchronize(self) -> None:
        """Wait until it is."""


class Cuda:
    """The calls of CUDA, through torch."""

    def available(self) -> bool:
        """Tell whether there is a device."""
        return torch.cuda.is_available()

    def register(self, address: int, n_bytes: int) -> int:
        """Pin memory; returns CUDA's status, 0 when it went well."""
        return int(torch.cuda.cudart().cudaHostRegister(address, n_bytes, _PORTABLE))

    def unregister(self, address: int) -> int:
        """Undo `register`."""
        return int(torch.cuda.cudart().cudaHostUnregister(address))

    def record(self, stream: Any) -> Event:
        """Record an event on a stream, on the current one if it is None.

        A wait for it leaves the core to the readers.
        """
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream() if stream is None else stream)
        return event


class Registration:
    """Memory that is registered as long as this object lives.

    Parameters
    ----------
    cuda : Cuda
    address, n_bytes : int
    owner : object
        What keeps the memory mapped.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, cuda: Cuda, address: int, n_bytes: int, owner: object) -> None:
        status = cuda.register(address, n_bytes)
        if status:
            raise SharedMemoryError(
                f"CUDA cannot pin the ring ({n_bytes} bytes): cudaHostRegister returned {status}",
                good="Nothing was delivered yet; without pin_memory the same batches arrive",
                advice="Choose a smaller batch_size or read_ahead, or leave pin_memory out",
                expected=n_bytes,
                status=status,
            )
        # Not at exit: copies may run then, and the end of the process unpins its memory.
        weakref.finalize(self, _unregister, cuda, address, owner, os.getpid()).atexit = False


def _unregister(cuda: Cuda, address: int, _owner: object, process: int) -> None:
    if os.getpid() == process:
        cuda.unregister(address)


class Pinned:
    """The rings of a dataset in this process, and its blocks that copies may still read.

    Passes that follow each other may have the same ring, so this outlives them.

    Parameters
    ----------
    cuda : Cuda

    Attributes
    ----------
    streams : sequence
        Streams on which the program copies. Empty: the one that is current where a tensor is
        dropped.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.streams: Sequence[Any] = ()
        #: Those of the pass that was last served, and all that anything of is lent.
        self._rings: dict[int, Registration] = {}
        self._known: weakref.WeakValueDictionary[int, Registration] = weakref.WeakValueDictionary()
        self._copied: deque[tuple[list[Event], object]] = deque()
        self._process = os.getpid()
        weakref.finalize(self, _wait_for_all, self._copied, self._process)

    def renew(self, memory: Iterable[tuple[int, int, object]]) -> None:
        """Register the rings of the pass as they are now: (address, bytes, owner) of each.

        A ring that is no longer among them stays registered while something of it is lent.
        """
        rings = {}
        for address, n_bytes, owner in memory:
            ring = self._known.get(address) or Registration(self._cuda, address, n_bytes, owner)
            self._known[address] = rings[address] = ring
        self._rings = rings

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made this."""
        return os.getpid() == self._process

    def lend(self, array: Any) -> Any:
        """Return a view whose block is given back when it is gone and copies from it are done."""
        view = array[...]
        weakref.finalize(view, self._dropped, array, tuple(self._rings.values())).atexit = False
        return view

    def collect(self) -> None:
        """Give back the blocks from which all copies are done."""
        copied = self._copied
        while copied and all(event.query() for event in copied[0][0]):
            copied.popleft()

    def make_room(self, ready: Callable[[], object]) -> None:
        """Give back blocks until a batch is `ready`, or none waits for its event."""
        self.collect()
        while self._copied and not ready():
            _wait_for_oldest(self._copied)

    def _dropped(self, array: object, rings: object) -> None:
        if not self.mine:
            return
        events = [self._cuda.record(stream) for stream in self.streams or (None,)]
        self._copied.append((events, (array, rings)))


def _wait_for_oldest(copied: deque[tuple[list[Event], object]]) -> None:
    for event in copied[0][0]:
        event.synchronize()
    copied.popleft()


def _wait_for_all(copied: deque[tuple[list[Event], object]], process: int) -> None:
    while copied and os.getpid() == process:
        _wait_for_oldest(copied)
