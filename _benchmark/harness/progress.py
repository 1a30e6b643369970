"""What the user sees while measurements run: a bar with the time left, and notes above it.

Law
---
1. Progress goes to standard error; results go to standard output and never through here.
2. Every step checks whether the user wants the run to end.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

import tqdm

from _benchmark.harness import interruption


class _Bar(tqdm.tqdm):  # type: ignore[misc]  # tqdm has no types
    monitor_interval = 0  # no thread of its own beside what is measured


_Bar.set_lock(threading.RLock())  # nor the semaphore of a multiprocessing lock


class Progress:
    """A bar; a context manager.

    Parameters
    ----------
    total : int
        In units of `unit`; bytes are shown scaled.
    unit : str
        ``"B"`` or a noun.
    """

    def __init__(self, total: int, unit: str = "B") -> None:
        self._bar = _Bar(
            total=total, unit=unit, unit_scale=unit == "B", mininterval=0.5, file=sys.stderr
        )

    def stage(self, text: str) -> None:
        """Say what runs now."""
        interruption.check()
        self._bar.set_description(text)

    def tick(self, amount: int) -> None:
        """Move the bar on by `amount`."""
        interruption.check()
        self._bar.update(amount)

    def reach(self, total: int) -> None:
        """Move the bar on to `total`, over what was left out."""
        self.tick(max(0, total - self._bar.n))

    def note(self, text: str) -> None:
        """A line that stays."""
        self._bar.write(text, file=sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._bar.close()
