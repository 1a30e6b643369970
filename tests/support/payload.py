"""Rows that say which row they are, so that any block can be checked by itself.

Law
---
1. Owns the self-checking file: /rows (compressed), /raw (contiguous), /labels (other dtype and
   chunks, equal length), and the one check of a block of them.
2. Element j of row i of /rows and /raw is i * COLUMNS + j; element i of /labels is -i.
3. A check names the first row that is wrong; it never looks into the library.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

ROWS = 6000
COLUMNS = 64
CHUNK = 50
BLOCK_BYTES = CHUNK * COLUMNS * 8


def content(rows: int = ROWS) -> np.ndarray:
    """All rows of /rows."""
    return np.arange(rows * COLUMNS, dtype="<i8").reshape(rows, COLUMNS)


def write(path: Path, rows: int = ROWS, chunk: int = CHUNK) -> Path:
    """Writes the self-checking file."""
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "rows", data=content(rows), chunks=(chunk, COLUMNS), compression="gzip", shuffle=True
        )
        file.create_dataset("raw", data=content(rows))
        file.create_dataset("labels", data=-np.arange(rows, dtype=">i2"), chunks=(chunk * 3 // 2,))
    return path


def first_row(block: np.ndarray) -> int:
    """Which row a block of /rows begins with."""
    return int(block[0, 0]) // COLUMNS


def check(block: np.ndarray, start: int | None = None, rows: int = ROWS) -> int:
    """Checks every element of a block of /rows or /raw; returns the row after its last.

    A block may cross the end of the dataset (cyclic streams).
    """
    begin = first_row(block) if start is None else start
    numbers = (begin + np.arange(len(block), dtype="<i8")) % rows
    want = numbers[:, None] * COLUMNS + np.arange(COLUMNS, dtype="<i8")
    if not np.array_equal(block, want):
        bad = int(np.argmax((block != want).any(axis=1)))
        raise AssertionError(
            f"row {bad} of a block that begins with row {begin}: "
            f"got {block[bad, :4]}..., expected {want[bad, :4]}..."
        )
    return begin + len(block)
