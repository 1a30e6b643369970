"""System calls that fail at the N-th call, in the parent or in its readers.

Law
---
1. `failing_calls.c` is compiled by ``cc`` when it is first needed, and preloaded into a program.
2. Only calls of the core count, so a number means the same call on every machine with its kernel.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

ROLES = ("parent", "reader")
#: Each call, the processes that make it, and the errors with which it may fail; 0: a short call.
CALLS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "read": (ROLES[:1], (errno.EIO, errno.EINTR, 0)),
    "pread": (ROLES, (errno.EIO, errno.EINTR, 0)),  # and preadv, from the same places
    "pwrite": (ROLES, (errno.ENOSPC, errno.EIO, errno.EINTR, 0)),
    "open": (ROLES[:1], (errno.EMFILE, errno.EIO, errno.EINTR)),
    "memfd_create": (ROLES[:1], (errno.EMFILE, errno.ENOMEM)),
    "fallocate": (ROLES[:1], (errno.ENOSPC, errno.EINTR)),
    "mmap": (ROLES, (errno.ENOMEM,)),
    "recvmsg": (ROLES[1:], (errno.EINTR,)),
    "pthread_create": (ROLES, (errno.EAGAIN,)),
    "fstat": (ROLES, (errno.EIO,)),
    "futex": (ROLES, (errno.EINTR,)),
    "io_uring_setup": (ROLES[1:], (errno.ENOSYS, errno.EPERM, errno.ENOMEM, errno.EMFILE)),
}
#: Where the numbers of calls begin, in words of the control file.
COUNTS = 8
NEVER = 2**31 - 1


def missing_compiler() -> str:
    """Why calls cannot be made to fail on this machine; nothing if they can."""
    return "" if shutil.which("cc") else "the calls that fail are compiled by cc"


def preloaded(folder: Path) -> dict[str, str]:
    """Compile the library into a folder; return the variables of a program that loads it."""
    library, control = folder / "failing_calls.so", folder / "calls"
    numbers = [f"-DCALL_{name}={number}" for number, name in enumerate(CALLS)]
    source = Path(__file__).with_suffix(".c")
    # Of glibc before 2.34 some are in libraries of their own.
    command = [
        "cc",
        "-O1",
        "-shared",
        "-fPIC",
        *numbers,
        source,
        "-o",
        library,
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(list(map(str, command)), check=True)
    control.write_bytes(bytes(4096))
    return {"LD_PRELOAD": str(library), "FAILING_CALLS": str(control)}


class Control:
    """What a program that was preloaded says of its calls, and of those of its readers."""

    def __init__(self) -> None:
        with open(os.environ["FAILING_CALLS"], "r+b") as file:
            self._words = mmap.mmap(file.fileno(), 4096)

    def arm(
        self, call: str | None = None, role: str = "parent", error: int = 0,
        first: int = NEVER, last: int = NEVER,
    ) -> None:  # fmt: skip
        """Count from 0 again; let a call fail from the first to the last of these numbers."""
        number = -1 if call is None else list(CALLS).index(call)
        words = (os.getpid(), number, ROLES.index(role), first, last, error, 0, 0)
        self._words[4 : 4 * COUNTS] = bytes(4 * COUNTS - 4)  # no call fails between two writes
        self._words[4 * COUNTS : 4 * (COUNTS + 2 * len(CALLS))] = bytes(8 * len(CALLS))
        self._words[: 4 * COUNTS] = struct.pack("8i", *words)

    def failed(self) -> int:
        """How many calls failed since `arm`."""
        return int(struct.unpack_from("i", self._words, 4 * 6)[0])

    def counts(self) -> dict[tuple[str, str], int]:
        """How often each call was made since `arm`, by its name and by who made it."""
        found = struct.unpack_from(f"{2 * len(CALLS)}i", self._words, 4 * COUNTS)
        return {
            (call, role): found[2 * i + j]
            for i, call in enumerate(CALLS)
            for j, role in enumerate(ROLES)
        }
