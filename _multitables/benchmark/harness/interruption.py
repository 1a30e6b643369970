"""Signals that end the program: they end a run cleanly, and cannot get lost.

Law
---
1. SIGINT, SIGTERM and SIGHUP raise `KeyboardInterrupt`, unless the user had them ignored.
2. A library prints and drops an exception raised inside its callback. The signal is therefore
   remembered, and `check`, which every step of the progress calls, raises again.
"""

from __future__ import annotations

import signal
from types import FrameType

_received = False


def install() -> None:
    """Take over the signals that end the program."""
    global _received
    _received = False
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    global _received
    _received = True
    raise KeyboardInterrupt


def check() -> None:
    """Raise `KeyboardInterrupt` if a signal came, however long ago."""
    if _received:
        raise KeyboardInterrupt
