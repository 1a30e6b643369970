"""What ranks and the host of their readers send each other: texts, and shared memory.

Law
---
1. A message is a JSON object in one datagram. Memory goes along as descriptors.
2. Memory that comes in belongs to a process that may change it: it is used only if its seals keep
   its bytes as they are (rings: the core looks at theirs), and is read by its own size.
3. Sending never waits: a process that takes nothing, as it is stopped, holds up nobody.
4. Descriptors are `Descriptor`: what is interrupted leaves none open, nor does the program that
   runs next have one.
"""

from __future__ import annotations

import array
import fcntl
import json
import mmap
import os
import socket
from collections.abc import Sequence
from typing import Any

from _multitables._core import Descriptor

#: Bytes of a message at most.
MESSAGE_BYTES = 1 << 16
#: The seals that keep the size of memory, and its bytes, as they are.
SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
SEALS = SIZE_SEALS | fcntl.F_SEAL_WRITE


def send(
    to: socket.socket,
    message: dict[str, Any],
    memory: Sequence[Descriptor] = (),
    ring: Sequence[int] = (),
) -> None:
    """Send a message, with the descriptors of a ring and of other memory, or raise OSError."""
    descriptors = [*ring, *(one.fileno() for one in memory)]
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    to.sendmsg([json.dumps(message).encode()], [rights] if descriptors else [], flags)


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[Descriptor]]:
    """Take a message (None: the other end is closed), and descriptors.

    Raises
    ------
    OSError, ValueError
        There is no message, or none of this kind.
    """
    data, descriptors, is_cut = Descriptor.received(connection.fileno(), MESSAGE_BYTES)
    try:
        if not data:
            return None, close(descriptors)
        message = json.loads(data)
        if is_cut or not isinstance(message, dict):
            raise ValueError("a message of another kind")
    except (ValueError, RecursionError) as error:
        close(descriptors)
        raise ValueError(str(error)) from None
    return message, descriptors


def close(descriptors: list[Descriptor]) -> list[Descriptor]:
    """Close descriptors, though an exception may refer to them; return the empty list."""
    while descriptors:
        descriptors.pop().close()
    return descriptors


def sealed_bytes(memory: Descriptor, seals: int = SEALS) -> int:
    """Return the size of memory that stays as its seals say.

    Raises
    ------
    OSError, ValueError
        It is no such memory.
    """
    if fcntl.fcntl(memory, fcntl.F_GET_SEALS) & seals != seals:
        raise ValueError("shared memory is not sealed")
    return os.fstat(memory.fileno()).st_size


def content(memory: Descriptor) -> bytes:
    """Return all bytes of sealed memory."""
    size = sealed_bytes(memory)
    if not size:
        return b""
    with mmap.mmap(memory.fileno(), size, access=mmap.ACCESS_READ) as mapped:
        return mapped[:]
