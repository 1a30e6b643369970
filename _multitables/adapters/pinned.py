"""Rings from which CUDA copies directly, and leases that end with the copies.

Law
---
1. A ring is registered with CUDA once, in one piece, and unregistered before its memory is freed:
   the registration holds the memory, and everything that is lent from it holds the registration.
2. Copies may still run when the program drops a tensor. So an event is recorded then, and the block
   is given back when the event has come. Nothing waits for the whole device.
3. While no batch is ready, the readers may lack the blocks that wait for their events. Only then is
   the oldest event waited for.
4. All calls of CUDA are in `Cuda`, for which tests put a stand-in. A forked child makes none, as
   CUDA does not serve it.
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
    """A mark in a stream's queue of work."""

    def query(self) -> bool:
        """Tell whether the work before it is done."""

    def synchronize(self) -> None:
        """Wait until it is done."""


class Cuda:
    """The calls of CUDA, through torch."""

    def available(self) -> bool:
        """Tell whether there is a device."""
        return torch.cuda.is_available()

    def register(self, address: int, n_bytes: int) -> int:
        """Pin memory and return CUDA's status; 0 is success."""
        return int(torch.cuda.cudart().cudaHostRegister(address, n_bytes, _PORTABLE))

    def unregister(self, address: int) -> int:
        """Undo `register`."""
        return int(torch.cuda.cudart().cudaHostUnregister(address))

    def record(self, stream: Any) -> Event:
        """Record an event on a stream, or on the current one.

        To wait for it takes no time of a core, which the readers need.
        """
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream() if stream is None else stream)
        return event


class Registration:
    """Memory that is registered as long as this object lives, and that `owner` keeps mapped."""

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
        # Not at exit: copies may still run, and the end of the process unpins its memory anyway.
        weakref.finalize(self, _unregister, cuda, address, owner, os.getpid()).atexit = False


def _unregister(cuda: Cuda, address: int, _owner: object, process: int) -> None:
    if os.getpid() == process:
        cuda.unregister(address)


class Pinned:
    """The rings of a dataset in this process, and its blocks that copies may still read.

    Consecutive passes may share a ring, so this outlives them.

    Attributes
    ----------
    streams : sequence
        Streams on which the program copies. If empty, that is the stream that is current where a
        tensor is dropped.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.streams: Sequence[Any] = ()
        #: The rings of the latest pass; and all rings of which something is lent.
        self._rings: dict[int, Registration] = {}
        self._known: weakref.WeakValueDictionary[int, Registration] = weakref.WeakValueDictionary()
        self._copied: deque[tuple[list[Event], object]] = deque()
        self._process = os.getpid()
        weakref.finalize(self, _wait_for_all, self._copied, self._process)

    def renew(self, memory: Iterable[tuple[int, int, object]]) -> None:
        """Register the rings that the pass has now: address, bytes and owner of each.

        A ring that it no longer has stays registered while something of it is lent.
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
        """Return a view; when it is gone and copies from it are done, its block is given back."""
        view = array[...]
        weakref.finalize(view, self._dropped, array, tuple(self._rings.values())).atexit = False
        return view

    def collect(self) -> None:
        """Give back the blocks from which all copies are done."""
        copied = self._copied
        while copied and all(event.query() for event in copied[0][0]):
            copied.popleft()

    def make_room(self, ready: Callable[[], object]) -> None:
        """Give back blocks until a batch is `ready`, or no block waits for its event."""
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
