"""A simulated disk for a test, and files whose bytes the kernel has not seen."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disk_model import Figures
from simulated_disk import Mounted, NoDiskError, mounted


@contextlib.contextmanager
def spinning(inside: Path, pace: float = 0.0, **figures: Any) -> Iterator[Mounted]:
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(mounted(inside, Figures(**figures), pace))
        except NoDiskError as error:
            pytest.skip(str(error))
        yield disk


def stored(disk: Mounted, file: Path) -> Path:
    """A copy of a file on the disk, written behind it; the kernel has seen none of its bytes."""
    shutil.copy(file, disk.backing)
    return disk.path / file.name


def forget(path: Path) -> None:
    """Let the page cache forget a file."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
