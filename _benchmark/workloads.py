"""The files that are read: seeded, of any size, written once and verified before they are reused.

Law
---
1. A workload is a value; the same value gives the same bytes on every machine and run.
2. A file appears under its name only when it is complete, and never replaces a file of another's.
3. It writes files and knows nothing of who reads them or how long that takes.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

PATH = "/data"
SLAB_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Workload:
    """One dataset to be read.

    Attributes
    ----------
    name : str
    rows, columns : int
    dtype : str
        NumPy's name.
    values : str
        A name in `VALUES`.
    complib : str
        PyTables' name; only used when `complevel` is not 0.
    complevel : int
    shuffle : bool
    chunk_rows : int or None
        None: PyTables' own choice, told the number of rows.
    seed : int
    """

    name: str
    rows: int
    columns: int = 1024
    dtype: str = "float64"
    values: str = "uniform"
    complib: str = "blosc"
    complevel: int = 0
    shuffle: bool = True
    chunk_rows: int | None = None
    seed: int = 0

    @property
    def row_bytes(self) -> int:
        """Decoded bytes of one row."""
        return self.columns * np.dtype(self.dtype).itemsize

    @property
    def decoded_bytes(self) -> int:
        """Decoded bytes of the dataset."""
        return self.rows * self.row_bytes

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need: noise grows a little under some filters."""
        return self.decoded_bytes + self.decoded_bytes // 16 + 2**22


def rows_of_size(size_bytes: float, columns: int, dtype: str) -> int:
    """Rows that make up `size_bytes` of decoded data, at least one."""
    return max(1, int(size_bytes // (columns * np.dtype(dtype).itemsize)))


def _uniform(random: np.random.Generator, shape: tuple[int, int]) -> Any:
    return random.random(shape)


def _normal(random: np.random.Generator, shape: tuple[int, int]) -> Any:
    return 256 * random.standard_normal(shape, dtype=np.float32)


def _counts(random: np.random.Generator, shape: tuple[int, int]) -> Any:
    return random.integers(0, 1000, shape)


# name -> values: noise as the old benchmark had it (normal), noise of issue 2's targets (uniform),
# and small whole numbers, which compress
VALUES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Any]] = {
    "uniform": _uniform,
    "normal": _normal,
    "counts": _counts,
}


def slabs(workload: Workload) -> Iterator[Any]:
    """The rows in order, in arrays of a few MiB."""
    random = np.random.default_rng(workload.seed)
    slab_rows = max(1, SLAB_BYTES // workload.row_bytes)
    for start in range(0, workload.rows, slab_rows):
        shape = (min(slab_rows, workload.rows - start), workload.columns)
        yield VALUES[workload.values](random, shape).astype(workload.dtype, copy=False)


class NotEnoughDiskError(OSError):
    """The file would not fit; nothing was written."""


def check_disk(directory: str, needed_bytes: int) -> None:
    """Raise before the first byte is written when the disk is too small."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < needed_bytes:
        raise NotEnoughDiskError(
            f"{directory!r} has {free_bytes / 1e9:.2f} GB free, and the benchmark file needs "
            f"{needed_bytes / 1e9:.2f} GB. Nothing was written. Choose another place with --file, "
            "or a smaller --size."
        )


def write(
    workload: Workload, filename: str, tick: Callable[[int], None] = lambda _bytes: None
) -> None:
    """Write the workload's file; `tick` is told the decoded bytes of each slab.

    The rows go to a temporary neighbour that takes the name at the end, so a file cut short by
    Ctrl-C is never taken for a whole one.

    Raises
    ------
    NotEnoughDiskError
        Before anything is written.
    ValueError
        PyTables knows no such `complib`.
    """
    import tables

    directory = os.path.dirname(os.path.abspath(filename))
    check_disk(directory, workload.needed_bytes)
    filters = None
    if workload.complevel:
        filters = tables.Filters(
            complevel=workload.complevel, complib=workload.complib, shuffle=workload.shuffle
        )
    part = f"{filename}.part{os.getpid()}"
    try:
        with tables.open_file(part, "w") as file:
            array = file.create_earray(
                "/",
                PATH[1:],
                tables.Atom.from_dtype(np.dtype(workload.dtype)),
                (0, workload.columns),
                filters=filters,
                expectedrows=workload.rows,
                chunkshape=workload.chunk_rows and (workload.chunk_rows, workload.columns),
            )
            for slab in slabs(workload):
                array.append(slab)
                tick(slab.nbytes)
        # on the device before anything is timed: O_DIRECT would otherwise wait for the writeback
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(part, filename)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def holds(workload: Workload, filename: str) -> bool:
    """Whether `filename` is this workload: shape, dtype, filters, and its first row."""
    import tables

    if not os.path.exists(filename):
        return False
    try:
        with tables.open_file(filename, "r") as file:
            array = file.get_node(PATH)
            same_filters = array.filters.complevel == workload.complevel and (
                not workload.complevel
                or (array.filters.complib, array.filters.shuffle)
                == (workload.complib, workload.shuffle)
            )
            return bool(
                array.shape == (workload.rows, workload.columns)
                and array.dtype == np.dtype(workload.dtype)
                and same_filters
                and workload.chunk_rows in (None, array.chunkshape[0])
                and np.array_equal(array[:1], next(slabs(workload))[:1])
            )
    except (tables.HDF5ExtError, tables.NodeError, OSError):
        return False


def in_directory(
    workload: Workload, directory: str, tick: Callable[[int], None] = lambda _bytes: None
) -> str:
    """The workload's file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    # the plain name is the full-size one, so that a small run never costs the big file
    full = workload.decoded_bytes == 2**30
    filename = os.path.join(
        directory, f"{workload.name}.h5" if full else f"{workload.name}_{workload.rows}rows.h5"
    )
    if not os.path.lexists(filename):
        write(workload, filename, tick)
    elif not holds(workload, filename):
        raise FileExistsError(
            f"{filename!r} exists and holds something else than the benchmark's data. "
            "Remove it, or choose another directory."
        )
    return filename


@contextlib.contextmanager
def scratch_directory(parent: str | None = None) -> Iterator[str]:
    """A directory that is gone at the end, however the end comes (but for SIGKILL)."""
    directory = tempfile.mkdtemp(prefix="multitables_benchmark_", dir=parent)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def as_size(size_bytes: float) -> str:
    """Bytes for people: ``1.0 GiB``."""
    power = min(3, int(math.log(max(size_bytes, 1), 1024)))
    return f"{size_bytes / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB')[power]}"
