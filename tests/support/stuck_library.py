"""A library that does not come back, or dies, at one chunk: an h5py that does something there.

Law
---
1. It is h5py in all but one row: what reads this row acts first. Reader processes find it on the
   path; the tests' own process has imported h5py long before.
2. Owns the file: /x, which only a library reads, and /y, which readers decode; equal rows.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
from elements import smooth

ROWS, CHUNK, BAD_ROW = 80, 10, 25
DATA = smooth((ROWS, 3))

#: What the row does.
HANGS = "while True: time.sleep(1)"
SHOUTS = """
    while True:
        with contextlib.suppress(OSError):
            os.write(1, b"decoder: out of range\\n" * 100)
            os.write(2, b"decoder: out of range\\n" * 100)
"""
CRASHES = "os.kill(os.getpid(), signal.SIGSEGV)"
#: Takes three times the deadline of the tests, and reads all the while.
READS_ON = """
    for _ in range(15):
        time.sleep(0.1)
        open(__file__).read()
"""
SLEEPS = "time.sleep(1.5)"
SPEAKS = "print('a word of the library'); os.write(2, b'y' * 50_000)"

_MODULE = """
import contextlib, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
sys.path.remove(str(here))
del sys.modules["h5py"]
import h5py
sys.modules["h5py"] = h5py
real = h5py.Dataset.__getitem__

def getitem(self, key, *rest):
    rows = key[0] if isinstance(key, tuple) else key
    if isinstance(rows, slice) and rows.start <= {row} < rows.stop:
        act()
    return real(self, key, *rest)

def act():
    {act}

h5py.Dataset.__getitem__ = getitem
"""


def write(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        chunks = (CHUNK, 3)
        file.create_dataset("x", data=DATA, chunks=chunks, scaleoffset=0, compression="gzip")
        file.create_dataset("y", data=DATA, chunks=chunks, compression="gzip")


def chunk_bytes(h5: Path) -> tuple[int, int]:
    """Where the bad row's chunk lies in the file."""
    with h5py.File(h5) as file:
        info = file["x"].id.get_chunk_info_by_coord((BAD_ROW // CHUNK * CHUNK, 0))
        return info.byte_offset, info.byte_offset + info.size


def install(h5: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    """Writes the file, and lets readers to come have the library."""
    write(h5)
    folder = h5.parent / "stuck"
    folder.mkdir()
    (folder / "h5py.py").write_text(_MODULE.format(row=BAD_ROW, act=act))
    monkeypatch.syspath_prepend(str(folder))
