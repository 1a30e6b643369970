"""A bar on standard error that shows how far a call is.

Law
---
1. It starts no thread in the user's process, and makes no semaphore between processes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from _multitables.errors import MissingLibraryError


@contextlib.contextmanager
def shown(
    progress: bool, name: str, unit: str, total: int | None = None
) -> Iterator[Callable[[int], Any]]:
    """Show a bar; what moves it on."""
    if not progress:
        yield lambda _: None
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
        yield bar.update
