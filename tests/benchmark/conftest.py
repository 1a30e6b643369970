"""What every test of the benchmark program runs under: a directory of its own, and a small file.

Law
---
1. Temporary files, results and the current directory are the test's own; signals are as before it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import ENDING, TINY

from _benchmark import workloads
from _benchmark.contenders import Source


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files and results go to the test's own directory; signals are as before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handlers = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def tiny(tmp_path: Path) -> Source:
    """A small compressed file."""
    filename = str(tmp_path / "tiny.h5")
    workloads.write(TINY, filename)
    return Source(filename, workloads.PATH, TINY.rows, TINY.row_bytes)
