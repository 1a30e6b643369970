"""What ranks and the host of their readers send each other: texts, and shared memory.

Law
---
1. A message is a JSON object in one datagram. Memory goes along as descriptors.
2. Memory that comes in belongs to a process that may change it: it is used only if its seals keep
   its bytes as they are (rings: the core looks at theirs), and is read by its own size.
3. Sending never waits: a process that takes nothing, as it is stopped, holds up nobody.
4. Descriptors that come in are closed with the program that runs next.
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

#: Bytes of a message at most, and descriptors.
MESSAGE_BYTES, DESCRIPTORS = 1 << 16, 3
#: What keeps the bytes of memory as they are.
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
#: Neither all of a message, nor all of its descriptors.
_CUT = socket.MSG_TRUNC | socket.MSG_CTRUNC


def send(to: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message, or raise OSError."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    to.sendmsg([json.dumps(message).encode()], [rights] if descriptors else [], flags)


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Take a message (None: the other end is closed), and descriptors, which are the caller's.

    Raises
    ------
    OSError, ValueError
        There is no message, or none of this kind.
    """
    flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    data, descriptors, came, _ = socket.recv_fds(connection, MESSAGE_BYTES, DESCRIPTORS, flags)
    try:
        if not data:
            return None, close(descriptors)
        message = json.loads(data)
        if came & _CUT or not isinstance(message, dict):
            raise ValueError("a message of another kind")
    except (ValueError, RecursionError) as error:
        close(descriptors)
        raise ValueError(str(error)) from None
    return message, descriptors


def close(descriptors: list[int]) -> list[int]:
    """Close descriptors and return that none is left."""
    while descriptors:
        os.close(descriptors.pop())
    return descriptors


def filled(data: bytes) -> int:
    """Return the descriptor of memory that has these bytes for ever."""
    memory = os.memfd_create("multitables-message", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(memory, "wb", closefd=False) as out:
            out.write(data)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(memory)
        raise
    return memory


def sealed_bytes(memory: int) -> int:
    """Return the size of memory whose bytes stay as they are.

    Raises
    ------
    OSError, ValueError
        It is no such memory.
    """
    if fcntl.fcntl(memory, fcntl.F_GET_SEALS) & SEALS != SEALS:
        raise ValueError("shared memory is not sealed")
    return os.fstat(memory).st_size


def content(memory: int) -> bytes:
    """Return all bytes of sealed memory."""
    size = sealed_bytes(memory)
    if not size:
        return b""
    with mmap.mmap(memory, size, access=mmap.ACCESS_READ) as mapped:
        return mapped[:]
