"""What the tests of random access share: the requests, a Reader, whether it works, a killer.

Law
---
1. It asserts only that a Reader gives right rows, and that no reader process is left.
2. A test is given a Reader that it cannot keep.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from oracle import same
from payload import content
from processes import alive, children, kill, readers, wait_until

import multitables

DATA = content()
BATCHES = [slice(0, 70), slice(5000, 5999), [3, 5999, 70, 70, 0], 17, slice(None, None, 97)]


@contextlib.contextmanager
def opened(path: Path, n_procs: int = 2) -> Iterator[Any]:
    """A Reader with two reader processes, or with 0 of them, whose requests this one answers."""
    with multitables.Reader(path, n_procs) as reader:
        yield weakref.proxy(reader)  # pytest keeps what it is given beyond the audit
    del reader
    assert children() == {}


def check(reader: Any, rounds: int = 1) -> None:
    """The Reader works."""
    dataset = reader.get_dataset("/rows")
    for _ in range(rounds):
        requests = [reader.request(dataset[key]) for key in BATCHES]
        for key, request in zip(BATCHES, requests, strict=True):
            same(request.get(), np.asarray(DATA[key]))


def kill_all() -> None:
    for pid in readers():
        kill(pid)
        wait_until(lambda pid=pid: not alive(pid), "a dead reader")


def poisoned(h5: Path, monkeypatch: pytest.MonkeyPatch, deaths: int) -> None:
    """A file whose /x is read through h5py, which kills this many readers."""
    poison = h5.parent / "poison"
    poison.mkdir()
    (poison / "h5py.py").write_text(
        "import os, pathlib, signal, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        f"if len(list(here.glob('death*'))) < {deaths}:\n"
        "    (here / f'death{os.getpid()}').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.path.remove(str(here))\n"
        "del sys.modules['h5py']\n"
        "import h5py\n"
        "sys.modules['h5py'] = h5py\n"
    )
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(10, 3), scaleoffset=0)
        file.create_dataset("y", data=smooth((40, 3)), chunks=(10, 3), compression="gzip")
    monkeypatch.syspath_prepend(str(poison))
