"""What the kernel says of the processes of a node.

Law
---
1. Believes the kernel only, never a process: who is at the other end of a socket, when a process
   began, whether it is stopped.
2. What the kernel does not say (another pid namespace, a hidden /proc) is None or False, never an
   error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

#: The kernel says in such steps when a process began.
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return pid and user of the process that connected, or that listened; pid 0: not known."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, user, _ = struct.unpack("3i", credentials)
    return pid, user


def now() -> float:
    """Seconds since the machine was booted, as `began` counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def began(pid: int) -> float | None:
    """Return when a process began, up to one tick too early."""
    fields = _fields(pid)
    return None if len(fields) < 20 else int(fields[19]) * TICK_SECONDS


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process, which a debugger does otherwise."""
    return _fields(pid)[:1] == ["T"]


def watched(pid: int) -> int | None:
    """Return a descriptor that can be read when a process has ended."""
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


def _fields(pid: int) -> list[str]:
    """Return what /proc says of a process, from its state on."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split() if pid else []
    except OSError:
        return []
