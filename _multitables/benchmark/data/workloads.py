"""The files that are read: seeded, of any size, written once and verified before they are reused.

Law
---
1. A workload is a value; the same value gives the same bytes on every machine and run.
2. A file appears under its name only when it is complete, and never replaces a file of another's.
3. It writes files, and does not know who reads them.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
    dtype : str or numpy.dtype
        One with fields is written as a Table, of one column of records.
    values : str
        A name in `VALUES`.
    complib : str
        PyTables' name; only used when `complevel` is not 0.
    complevel : int
    shuffle : bool
    chunk_rows : int or None
        None: PyTables' own choice, told the number of rows.
    chunk_columns : int or None
        None: all. Only where `chunk_rows` is given.
    seed : int
    """

    name: str
    rows: int
    columns: int = 1024
    dtype: str | np.dtype[Any] = "float64"
    values: str = "uniform"
    complib: str = "blosc"
    complevel: int = 0
    shuffle: bool = True
    chunk_rows: int | None = None
    chunk_columns: int | None = None
    seed: int = 0

    @property
    def row_bytes(self) -> int:
        """Decoded bytes of one row."""
        return self.columns * np.dtype(self.dtype).itemsize

    @property
    def is_table(self) -> bool:
        """Whether rows are records."""
        return np.dtype(self.dtype).names is not None

    def shape(self, rows: int) -> tuple[int, ...]:
        """The shape of an array of `rows` rows."""
        return (rows,) if self.is_table else (rows, self.columns)

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """The shape of a chunk; None: PyTables' own choice."""
        if self.chunk_rows is None:
            return None
        shape = self.shape(self.chunk_rows)
        return shape if self.chunk_columns is None else (*shape[:-1], self.chunk_columns)

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


def _uniform(random: np.random.Generator, shape: tuple[int, ...], _start: int) -> Any:
    return random.random(shape)


def _normal(random: np.random.Generator, shape: tuple[int, ...], _start: int) -> Any:
    return 256 * random.standard_normal(shape, dtype=np.float32)


def _counts(random: np.random.Generator, shape: tuple[int, ...], _start: int) -> Any:
    return random.integers(0, 1000, shape)


def _smooth(_random: np.random.Generator, shape: tuple[int, ...], start: int) -> Any:
    down = np.arange(start, start + shape[0], dtype=np.float32)[:, np.newaxis]
    across = np.linspace(0, 2 * np.pi, shape[1], dtype=np.float32)
    rows = 280 + 15 * np.sin(2 * across + down / 700) + 4 * np.sin(7 * across - down / 90)
    return np.round(rows * 128) / 128


def _poisson(random: np.random.Generator, shape: tuple[int, ...], start: int) -> Any:
    rates = 12 + 10 * np.sin(np.arange(start, start + shape[0]) / 300)
    return random.poisson(rates[:, np.newaxis], shape)


def _categories(random: np.random.Generator, shape: tuple[int, ...], _start: int) -> Any:
    # patches of one class, some 30 wide, as in a map of land cover
    changes = random.random(shape) < 1 / 30
    patches = np.cumsum(changes, axis=1, dtype=np.int64)
    classes = random.integers(0, 12, shape)
    return np.take_along_axis(classes, patches, axis=1)


def _waves(random: np.random.Generator, shape: tuple[int, ...], _start: int) -> Any:
    angles = np.linspace(0, 4 * np.pi, shape[1], dtype=np.float32)
    parts = random.standard_normal((shape[0], 2), dtype=np.float32)
    rows = parts @ np.stack([np.sin(angles), np.cos(angles)])
    rows += random.standard_normal(shape, dtype=np.float32) / 128
    return np.round(rows * 512) / 512


#: Up to here every whole number is a float32.
MAX_NUMBERED_ROWS = 2**24


def _numbered(random: np.random.Generator, shape: tuple[int, ...], start: int) -> Any:
    if start + shape[0] > MAX_NUMBERED_ROWS:
        raise ValueError(f"float32 cannot number more than {MAX_NUMBERED_ROWS} rows")
    rows = _waves(random, shape, start)
    rows[:, 0] = np.arange(start, start + shape[0])
    return rows


#: A record of 1 KiB, as a detector may write it.
EVENT = np.dtype(
    [
        ("number", "<i8"),
        ("time", "<f8"),
        ("place", "<f8", (3,)),
        ("channel", "<i4"),
        ("quality", "<i2"),
        ("flags", "u1", (2,)),
        ("counts", "<u2", (104,)),
        ("signal", "<f4", (192,)),
    ]
)


def _events(random: np.random.Generator, shape: tuple[int, ...], start: int) -> Any:
    (n,) = shape
    rows = np.zeros(n, EVENT)
    rows["number"] = np.arange(start, start + n)
    rows["time"] = (rows["number"] + random.random(n)) / 1000
    rows["place"] = random.standard_normal((n, 3))
    rows["channel"] = random.integers(0, 64, n)
    rows["quality"] = random.integers(0, 4, n)
    rows["flags"] = random.integers(0, 2, (n, 2))
    rows["counts"] = random.poisson(3, (n, 104))
    rows["signal"] = _waves(random, (n, 192), start)
    return rows


# name -> the values of an array of rows, the first of which has the given number:
# uniform: noise; normal: noise as in the benchmark of 2.x; counts: small whole numbers;
# smooth: a field that varies slowly, in steps of 1/128; poisson: counts around a varying rate;
# categories: classes in patches; waves: in each row a wave of its own size and phase, with noise,
# in steps of 1/512, as a digitiser gives it; numbered: waves with the row's number as first value;
# events: records of a number, a rising time, noise, small whole numbers and such a wave
VALUES: dict[str, Callable[[np.random.Generator, tuple[int, ...], int], Any]] = {
    "uniform": _uniform,
    "normal": _normal,
    "counts": _counts,
    "smooth": _smooth,
    "poisson": _poisson,
    "categories": _categories,
    "waves": _waves,
    "numbered": _numbered,
    "events": _events,
}


def slabs(workload: Workload) -> Iterator[Any]:
    """The rows in order, in arrays of a few MiB."""
    random = np.random.default_rng(workload.seed)
    slab_rows = max(1, SLAB_BYTES // workload.row_bytes)
    for start in range(0, workload.rows, slab_rows):
        shape = workload.shape(min(slab_rows, workload.rows - start))
        yield VALUES[workload.values](random, shape, start).astype(workload.dtype, copy=False)


class Needs(Protocol):
    """What is written to a file of its own."""

    @property
    def needed_bytes(self) -> int: ...


class NotEnoughDiskError(OSError):
    """The file would not fit; nothing was written."""


def check_disk(directory: str, needed_bytes: int) -> None:
    """Raise before the first byte is written when the disk is too small."""
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < needed_bytes:
        raise NotEnoughDiskError(
            f"{directory!r} has {free_bytes / 1e9:.2f} GB free, and the benchmark file needs "
            f"{needed_bytes / 1e9:.2f} GB. Nothing was written. Choose another place with --file "
            "or --data_dir, or a smaller --size or --rows."
        )


def write(workload: Workload, filename: str) -> None:
    """Write the workload's file.

    Raises
    ------
    NotEnoughDiskError
        Before anything is written.
    ValueError
        PyTables knows no such `complib`.
    """
    import tables

    filters = None
    if workload.complevel:
        filters = tables.Filters(
            complevel=workload.complevel, complib=workload.complib, shuffle=workload.shuffle
        )
    with whole(workload, filename) as part:
        with tables.open_file(part, "w") as file:
            array = _create(file, workload, filters)
            for slab in slabs(workload):
                array.append(slab)
        # written back before anything is timed, or O_DIRECT would wait for it
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _create(file: Any, workload: Workload, filters: Any) -> Any:
    """The empty dataset, a Table or an EArray."""
    import tables

    options = {
        "filters": filters,
        "expectedrows": workload.rows,
        "chunkshape": workload.chunk_shape,
    }
    dtype = np.dtype(workload.dtype)
    if workload.is_table:
        return file.create_table("/", PATH[1:], dtype, **options)
    atom = tables.Atom.from_dtype(dtype)
    return file.create_earray("/", PATH[1:], atom, workload.shape(0), **options)


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
                array.shape == workload.shape(workload.rows)
                and array.dtype == np.dtype(workload.dtype)
                and same_filters
                and workload.chunk_shape in (None, array.chunkshape)
                and np.array_equal(array[:1], next(slabs(workload))[:1])
            )
    except (tables.HDF5ExtError, tables.NodeError, OSError):
        return False


def in_directory(workload: Workload, directory: str) -> str:
    """The workload's file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    # the plain name is the full-size one, so that a small run never costs the big file
    rows = "" if workload.decoded_bytes == 2**30 else f"_{workload.rows}rows"
    return kept(workload, os.path.join(directory, f"{workload.name}{rows}.h5"), holds, write)


def array_in_directory(workload: Workload, directory: str) -> str:
    """The workload's rows as an .npy file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    filename = os.path.join(directory, f"{workload.name}_{workload.rows}rows.npy")
    return kept(workload, filename, _array_holds, _write_array)


Written = TypeVar("Written", bound=Needs)


def kept(
    workload: Written,
    filename: str,
    holds: Callable[[Written, str], bool],
    write: Callable[[Written, str], None],
) -> str:
    """A file that is written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    if not os.path.lexists(filename):
        write(workload, filename)
    elif not holds(workload, filename):
        raise FileExistsError(
            f"{filename!r} exists and holds something else than the benchmark's data. "
            "Remove it, or choose another directory."
        )
    return filename


def _array_holds(workload: Workload, filename: str) -> bool:
    try:
        found = np.load(filename, mmap_mode="r")
    except (OSError, ValueError):
        return False
    same = found.shape == workload.shape(workload.rows) and found.dtype == workload.dtype
    return same and np.array_equal(found[:1], next(slabs(workload))[:1])


def _write_array(workload: Workload, filename: str) -> None:
    with whole(workload, filename) as part:
        shape = workload.shape(workload.rows)
        array = np.lib.format.open_memmap(part, "w+", np.dtype(workload.dtype), shape)
        start = 0
        for slab in slabs(workload):
            array[start : start + len(slab)] = slab
            start += len(slab)
        array.flush()
        del array


@contextlib.contextmanager
def whole(workload: Needs, filename: str) -> Iterator[str]:
    """A temporary neighbour that takes the name at the end.

    A file that is cut short by Ctrl-C is so never taken for a whole one.
    """
    check_disk(os.path.dirname(os.path.abspath(filename)), workload.needed_bytes)
    part = f"{filename}.part{os.getpid()}"
    try:
        yield part
        os.replace(part, filename)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


@contextlib.contextmanager
def scratch_directory(parent: str | None = None) -> Iterator[str]:
    """A directory that is gone at the end, however the end comes (but for SIGKILL)."""
    directory = tempfile.mkdtemp(prefix="multitables_benchmark_", dir=parent)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def data_directory(kept: str | None) -> Iterator[str]:
    """Where a study's files lie: the user's directory, or one that is removed."""
    if kept is None:
        with scratch_directory(tempfile.gettempdir()) as directory:
            yield directory
    else:
        os.makedirs(kept, exist_ok=True)
        yield os.path.abspath(kept)


def as_size(size_bytes: float) -> str:
    """Bytes for people: ``1.0 GiB``."""
    power = min(3, int(math.log(max(size_bytes, 1), 1024)))
    return f"{size_bytes / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB')[power]}"
