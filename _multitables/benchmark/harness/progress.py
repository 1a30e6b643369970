"""What the user sees while measurements run: a bar with the time left, and notes above it.

Law
---
1. Progress goes to standard error; results go to standard output and never through here.
2. Every step checks whether the user wants the run to end.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

import tqdm

from _multitables.benchmark.harness import interruption

#: Of units that may be passed in parts.
BAR = "{desc}{percentage:3.0f}%|{bar}| of {total} {unit} [{elapsed}<{remaining}]"


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
        of_bytes = unit == "B"
        self._bar = _Bar(
            total=total,
            unit=unit,
            unit_scale=of_bytes,
            bar_format=None if of_bytes else BAR,
            mininterval=0.5,
            file=sys.stderr,
        )

    def stage(self, text: str) -> None:
        """Say what runs now."""
        interruption.check()
        self._bar.set_description(text)

    def tick(self, amount: float) -> None:
        """Move the bar on by `amount`, and never past its end: parts of a unit are not exact."""
        interruption.check()
        self._bar.update(min(amount, max(0, self._bar.total - self._bar.n)))

    def part(self, steps: int) -> Part:
        """One unit of the bar, in `steps`."""
        return Part(self, 1 / max(1, steps))

    def reach(self, total: float) -> None:
        """Move the bar on to `total`, over what was left out."""
        self.tick(max(0, total - self._bar.n))

    def note(self, text: str) -> None:
        """A line that stays."""
        self._bar.write(text, file=sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._bar.close()


@dataclass(frozen=True)
class Part:
    """Steps that are one unit of a bar together."""

    bar: Progress
    step: float

    def stage(self, text: str) -> None:
        """Say what runs now."""
        self.bar.stage(text)

    def tick(self, amount: float) -> None:
        """Move the bar on by `amount` steps."""
        self.bar.tick(amount * self.step)
