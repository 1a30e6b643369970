"""Ctrl-C and its kin: they end a run cleanly, and cannot get lost.

Law
---
1. SIGINT, SIGTERM and SIGHUP raise `KeyboardInterrupt`; one that the user had ignored stays so.
2. An exception raised inside a callback of a library is printed and dropped there. So the wish is
   remembered, and `check`, which every step of the progress calls, raises it again.
"""

from __future__ import annotations

import signal
from types import FrameType

_wished = False


def install() -> None:
    """Take over the signals that end the program."""
    global _wished
    _wished = False
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    global _wished
    _wished = True
    raise KeyboardInterrupt


def check() -> None:
    """Raise `KeyboardInterrupt` if a signal came, however long ago."""
    if _wished:
        raise KeyboardInterrupt
