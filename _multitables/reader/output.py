"""What libraries print inside a reader: it does not flood the user's terminal.

Law
---
1. During a call standard output and standard error are a file in memory that cannot grow: writes
   past its end fail.
2. After the call the first few KiB go to the real standard error. A reader that is killed inside
   takes what was printed with it.
3. Python and native code print: the descriptors are changed, not `sys.stdout`.

This file must never know what is called.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys

#: What a call may print, and how much of it is passed on.
HELD_BYTES, TOLD_BYTES = 256 << 10, 4 << 10


class Held:
    """The output of one call after the other; made at the first."""

    def __init__(self) -> None:
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self._memory = os.memfd_create("multitables-output", flags)
        os.ftruncate(self._memory, HELD_BYTES)
        fcntl.fcntl(self._memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
        self._real = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in (1, 2)]

    def __enter__(self) -> None:
        _flush()
        os.lseek(self._memory, 0, os.SEEK_SET)
        for standard in (1, 2):
            os.dup2(self._memory, standard)

    def __exit__(self, *_: object) -> None:
        _flush()
        for standard, real in enumerate(self._real, start=1):
            os.dup2(real, standard)
        size = os.lseek(self._memory, 0, os.SEEK_CUR)
        if size:
            text = os.pread(self._memory, min(size, TOLD_BYTES), 0)
            if size > TOLD_BYTES:
                text += b"\n... (more of a library's output was left out)\n"
            with contextlib.suppress(OSError):
                os.write(2, text)


_held: Held | None = None


def held() -> Held:
    """Hold output back for the length of a ``with``."""
    global _held
    if _held is None:
        _held = Held()
    return _held


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
