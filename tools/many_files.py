"""A manifest of many files: how long it takes, what memory, and whether the rows are right.

Law
---
1. Files are hard links of a few real ones, which saves room on the disk. Rows of the whole, of
   single files and of items are checked against what was written.
2. Each measurement runs in a process of its own, whose memory is then its own, too.
3. It ends with status 1 if anything was wrong.

Usage: ``python tools/many_files.py [--files 100000] [--real 50] [--rows 100] [--folder DIR]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import multitables

COLUMNS = 8
#: Files in a folder, as file systems bound the links of a file and lists of long folders are slow.
IN_A_FOLDER = 1000
MANIFEST = "all.mtidx"


def rows_of(real: int, n_rows: int) -> np.ndarray:
    """Return the rows of a real file."""
    begin = real * n_rows * COLUMNS
    return np.arange(begin, begin + n_rows * COLUMNS, dtype="<i4").reshape(n_rows, COLUMNS)


def write(folder: Path, count: int, n_real: int, n_rows: int) -> list[str]:
    """Write the real files and link them; return the names of the links."""
    for real in range(n_real):
        with h5py.File(folder / f"real{real}.h5", "w", libver="latest") as file:
            file.create_dataset("x", data=rows_of(real, n_rows), chunks=(n_rows, COLUMNS))
            file["y"] = -np.arange(n_rows)
    names = []
    for number in range(count):
        inside = folder / f"{number // IN_A_FOLDER:04}"
        if number % IN_A_FOLDER == 0:
            inside.mkdir()
        names.append(str(inside / f"f{number:07}.h5"))
        os.link(folder / f"real{number % n_real}.h5", names[-1])
    return names


class Case:
    """Many files, and the rows that they have."""

    def __init__(self, folder: Path, count: int, n_real: int, n_rows: int) -> None:
        self.folder, self.count, self.n_rows = folder, count, n_rows
        self.real = [rows_of(real, n_rows) for real in range(n_real)]
        self.name = folder / MANIFEST

    def same(self, row: int, rows: np.ndarray) -> None:
        """Raise unless these are the rows from `row` on."""
        at = np.arange(row, row + len(rows))
        files, within = at // self.n_rows % len(self.real), at % self.n_rows
        expected = np.stack(self.real)[files, within]
        np.testing.assert_array_equal(rows, expected)

    def opens(self) -> None:
        """Open the manifest as one file, and read the rows of three files."""
        with multitables.open(self.name) as file:
            x = file["x"]
            assert x.shape == (self.count * self.n_rows, COLUMNS), x.shape
            for number in (0, self.count // 2, self.count - 1):
                begin = number * self.n_rows
                self.same(begin, x[begin : begin + self.n_rows])

    def first_batch(self) -> None:
        """Take a batch of shuffled rows, each of which says which it is."""
        with multitables.Streamer(self.name).get_batches("/x", 64, epochs=1, n_procs=1) as batches:
            batch = next(iter(batches)).copy()
        known = np.concatenate(self.real)
        np.testing.assert_array_equal(known[batch[:, 0] // COLUMNS], batch)

    def items(self) -> None:
        """Make a collection with an item of each file, and read three of them."""
        options: Any = {"by": "file", "n_procs": 1, "order": "file"}
        with multitables.Streamer(self.name).get_collection("/*", **options) as items:
            assert len(items.keys) == self.count
            for number, item in zip(range(3), items, strict=False):
                np.testing.assert_array_equal(item["x"], self.real[number % len(self.real)])

    def rows(self) -> None:
        """Stream all rows in their order."""
        row, streamer = 0, multitables.Streamer(self.name)
        options: Any = {"block_size": 1 << 16}
        with streamer.get_queue("/x", **options) as stream:
            for guard in stream:
                with guard as block:
                    self.same(row, np.asarray(block))
                    row += len(block)
                del block, guard
        left = streamer.get_remainder("/x", **options)
        if left is not None:
            self.same(row, left)
            row += len(left)
        assert row == self.count * self.n_rows, row


MEASURED: dict[str, Callable[[Case], None]] = {
    "open, three files": Case.opens,
    "first batch": Case.first_batch,
    "collection, three items": Case.items,
    "all rows": Case.rows,
}


def measured(case: Case, what: str) -> None:
    """Do one thing, and print its time and memory: what this process has beyond its imports."""
    before = most_kib()
    begin = time.perf_counter()
    MEASURED[what](case)
    seconds = time.perf_counter() - begin
    memory = most_kib() - before
    print(f"{what:24} {seconds:8.2f} s {memory / 1024:8.0f} MiB", flush=True)


def most_kib() -> int:
    """Return the most memory that this process had, which a parent's does not count in."""
    words = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()
    return int(words[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("files", 100_000), ("real", 50), ("rows", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", choices=MEASURED, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measured(Case(given.folder, given.files, given.real, given.rows), given.measure)
        return 0
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        names = write(Path(folder), given.files, given.real, given.rows)
        load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{len(names)} files of {given.rows} rows; load {load}; {os.cpu_count()} cores")
        for what in ("index", "index again"):
            begin = time.perf_counter()
            multitables.index_files(names, to=Path(folder) / MANIFEST, progress=False)
            print(f"{what:24} {time.perf_counter() - begin:8.2f} s", flush=True)
        size = (Path(folder) / MANIFEST).stat().st_size
        print(f"{'manifest':24} {size / len(names):8.0f} bytes a file")
        sizes = [f"--{of}={getattr(given, of)}" for of in ("files", "real", "rows")]
        command = [sys.executable, __file__, *sizes, f"--folder={folder}"]
        runs = [subprocess.run([*command, f"--measure={what}"], check=False) for what in MEASURED]
    return int(any(run.returncode for run in runs))


if __name__ == "__main__":
    sys.exit(main())
