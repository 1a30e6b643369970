"""How far a call is: a bar on standard error, and lines of the log.

Law
---
1. It starts no thread in the user's process, and makes no semaphore between processes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from _multitables.errors import INFO, MissingLibraryError, note


class Steps:
    """Counts the steps of a call that may take long, and notes them every few seconds."""

    SECONDS = 2.0

    def __init__(self, title: str, total: int | None = None) -> None:
        self._title, self._of = title, "" if total is None else f" of {total}"
        self._done, self._next = 0, time.monotonic() + self.SECONDS

    def __call__(self, steps: int = 1) -> None:
        self._done += steps
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self.SECONDS
            note("%s: %d%s", self._title, self._done, self._of, level=INFO)


@contextlib.contextmanager
def shown(
    progress: bool, name: str, unit: str, total: int | None = None
) -> Iterator[Callable[[int], Any]]:
    """Show how far a call is, on a bar, too, if `progress`; yields what counts its steps."""
    steps = Steps(f"{name!r} is indexed,{unit}", total)
    if not progress:
        yield steps
        return
    try:
        import tqdm
    except ImportError:
        raise MissingLibraryError(
            "tqdm is not installed, which shows the progress",
            advice="Install it: pip install 'multitables[all]', or leave progress out",
        ) from None

    class Bar(tqdm.tqdm):  # type: ignore[misc]  # tqdm has no types
        monitor_interval = 0

    Bar.set_lock(threading.RLock())
    title = os.path.basename(name)
    with Bar(unit=unit, desc=title, total=total, file=sys.stderr) as bar:

        def advance(count: int) -> None:
            bar.update(count)
            steps(count)

        yield advance
