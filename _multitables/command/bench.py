"""`multitables bench`: how fast one dataset is read here, beside a loop over h5py.

Law
---
1. Both read the same rows in blocks of one size, from opening the file to the last row, and nothing
   else is done with them. Rounds alternate, who begins changes, and medians count.
2. The rows are compared before anything is timed: bytes that differ are an error.
3. Before each round the page cache is asked which of the rows it has; the answer is reported.
4. h5py decides how many rows are read: those that it reads in its share of the seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

import multitables
from _multitables.command.names import add_storage, title
from _multitables.command.output import Record, columns
from _multitables.parent.open.facts import read_by
from _multitables.parent.titles import printable, size

ROUNDS = 3
#: The least bytes of a block: no loop should pay for tiny ones.
BLOCK_BYTES = 256 << 10
#: Places of the rows that are looked for in the page cache.
LOOKS = 256
#: Below or above these parts the rows count as cold or warm.
COLD, WARM = 0.01, 0.99
#: With shorter rounds, to open and to start is a good part of them.
SHORT_SECONDS = 0.1
H5PY, OURS = "h5py", "multitables"

Blocks = Iterator[npt.NDArray[Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which dataset, and for how long."""
    add = parser.add_argument
    add("file", metavar="FILE", help="a file or a URL")
    add("path", nargs="?", metavar="PATH", help="the dataset (default: the largest)")
    add(
        "--seconds",
        type=_seconds,
        default=4,
        metavar="S",
        help="about how long to measure (default 4)",
    )
    add("--cold", action="store_true", help="drop the file from the page cache before each round")
    add_storage(parser)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and finite")
    return value


@dataclass(frozen=True)
class Case:
    """The first rows of a dataset, which are read."""

    file: str
    path: str
    rows: int
    block_rows: int
    storage_options: dict[str, Any] | None

    def ours(self, rows: int) -> Blocks:
        """Yield blocks of the stream."""
        streamer = multitables.Streamer(self.file, storage_options=self.storage_options)
        with streamer.get_queue(
            self.path, block_size=self.block_rows, rows=slice(0, rows), remainder=True
        ) as queue:
            for guard in queue:
                with guard as block:
                    yield block

    def h5py(self, rows: int) -> Blocks:
        """Yield blocks of a loop over h5py."""
        import h5py

        with h5py.File(self.file, "r") as file:
            dataset = file[self.path]
            for start in range(0, rows, self.block_rows):
                yield dataset[start : min(start + self.block_rows, rows)]


def records(arguments: argparse.Namespace) -> Iterator[Record]:
    """Measure, and yield one record."""
    case, record = _case(arguments)
    seconds = arguments.seconds / (2 * ROUNDS + 2)
    rows, is_compared, why_alone = _compared(case, seconds)
    places = _places(case, rows)
    readers: dict[str, Callable[[int], Blocks]] = {OURS: case.ours}
    if not why_alone:
        readers = {H5PY: case.h5py, OURS: case.ours}
    taken: dict[str, list[float]] = {name: [] for name in readers}
    states = []
    for number in range(ROUNDS):
        for name in list(readers)[:: 1 if number % 2 else -1]:
            if arguments.cold:
                _drop(case.file)
            states.append(_cached(case.file, places))
            begin = time.perf_counter()
            for _ in readers[name](rows):
                pass
            taken[name].append(time.perf_counter() - begin)
    row_bytes = record["row_bytes"]
    record |= {
        "rows": rows, "block_rows": case.block_rows, "rounds": ROUNDS,
        "page_cache": _state(states), "compared": is_compared,
        "why_no_h5py": why_alone or None,
    }  # fmt: skip
    for name in (H5PY, OURS):
        each = taken.get(name)
        record[name] = each and {
            "rows_per_second": rows / statistics.median(each),
            "mb_per_second": rows * row_bytes / statistics.median(each) / 1e6,
            "seconds": each,
        }
    both = record[H5PY] and record[OURS]
    ratio = record[OURS]["rows_per_second"] / record[H5PY]["rows_per_second"] if both else None
    yield record | {"times_as_fast": ratio}


def _case(arguments: argparse.Namespace) -> tuple[Case, Record]:
    name, storage = arguments.file, arguments.storage_options
    with multitables.open(name, storage_options=storage) as file:
        found = _dataset(file, arguments)
        row_bytes = max(1, found.nbytes // len(found))
        step = found.chunks[0] if found.chunks else 1
        block_rows = min(len(found), step * -(-BLOCK_BYTES // (step * row_bytes)))
        record: Record = {
            "file": title(name), "path": printable(found.name), "all_rows": len(found),
            "row_shape": found.shape[1:], "dtype": str(found.dtype), "row_bytes": row_bytes,
            "stored_bytes": found.id.get_storage_size(), "read_by": read_by(found)[0],
        }  # fmt: skip
        return Case(name, found.name, len(found), block_rows, storage), record


def _dataset(file: multitables.File, arguments: argparse.Namespace) -> multitables.Dataset:
    """Return what is named, or the dataset of the most bytes, if it has rows of one size."""
    if arguments.path is None:
        all_of_it = (found for found in file.walk("**") if not _why_not(found))
        found = max(all_of_it, key=_n_bytes, default=file)
    else:
        found = file[arguments.path]
    why = _why_not(found)
    if why or not isinstance(found, multitables.Dataset):
        raise multitables.UnsupportedDatasetError(
            f"bench needs a dataset with rows of one size, and {found!r} in {file.filename!r} "
            f"{why}",
            advice=f"List what is there with multitables tree {file.filename}",
            filename=file.filename,
            path=str(found.name),
        )
    return found


def _n_bytes(found: Any) -> int:
    n_bytes: int = found.nbytes
    return n_bytes


def _why_not(found: Any) -> str:
    """Say why rows of an object cannot be measured, "" if they can."""
    if not isinstance(found, multitables.Dataset):
        return "is no dataset"
    try:
        if not found.size or not found.shape or found.dtype.hasobject:
            return "has no elements, or elements of any length"
        reader, why = read_by(found)
    except multitables.MultitablesError as error:
        return f"cannot be read: {error.happened}"
    return f"is not streamed: {why}" if reader == "indexing" else ""


def _compared(case: Case, seconds: float) -> tuple[int, bool, str]:
    """Compare rows; return how many a round reads.

    Also whether they could be compared, and why h5py does not read them, "" if it does.
    """
    why, blocks = _no_h5py(case), []
    if not why:
        try:
            blocks = list(_hashes(case.h5py(case.rows), seconds))
        except (OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
            why = f"h5py cannot read it: {error}".splitlines()[0]
    if why:
        blocks = list(_hashes(case.ours(case.rows), seconds))
        return min(case.rows, len(blocks) * case.block_rows), False, why
    rows = min(case.rows, len(blocks) * case.block_rows)
    ours = list(_hashes(case.ours(rows), math.inf))
    is_alike = {dtype for dtype, _ in blocks} == {dtype for dtype, _ in ours}
    if is_alike and ours != blocks:
        raise multitables.CorruptFileError(
            f"rows of {case.path!r} in {case.file!r} are not those that h5py reads",
            advice="Report this as a bug of multitables",
            filename=case.file,
            path=case.path,
        )
    return rows, is_alike, ""


def _no_h5py(case: Case) -> str:
    if "://" in case.file:
        return "h5py is not measured with stores"
    try:
        import h5py  # noqa: F401
    except ImportError:
        return "h5py is not installed"
    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401  # its filters, for h5py
    return ""


def _hashes(blocks: Blocks, seconds: float) -> Iterator[tuple[str, bytes]]:
    """Yield dtype and digest of each block, until the time is over."""
    end = time.perf_counter() + seconds
    for block in blocks:
        yield str(block.dtype), hashlib.blake2b(_bytes(block), digest_size=8).digest()
        if time.perf_counter() > end:
            return


def _bytes(block: npt.NDArray[Any]) -> bytes:
    """Return the bytes of the elements, without what lies between fields."""
    if block.dtype.names:
        from numpy.lib.recfunctions import repack_fields

        block = repack_fields(block, recurse=True)
    return block.tobytes()


# ---- the page cache


def _drop(name: str) -> None:
    with open(name, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _places(case: Case, rows: int) -> list[int]:
    """Return some offsets in the file at which the rows are stored."""
    offsets: list[int] = []

    def see(chunk: Any) -> bool | None:
        if chunk.chunk_offset[0] >= rows:
            return True
        offsets.append(chunk.byte_offset)
        return None

    with multitables.open(case.file, storage_options=case.storage_options) as file:
        found = file[case.path]
        begin = found.id.get_offset()
        if found.chunks:
            found.id.chunk_iter(see)
        elif begin is not None:
            n_bytes = found.id.get_storage_size() * rows // len(found)
            offsets += range(begin, begin + n_bytes, max(1, n_bytes // LOOKS))
    return offsets[:: max(1, len(offsets) // LOOKS)]


def _cached(name: str, places: Sequence[int]) -> float | None:
    """Return which part of some places of a file the page cache has; None: it is not known."""
    byte = bytearray(1)
    try:
        with open(name, "rb") as file:
            return statistics.mean(_has(file.fileno(), byte, at) for at in places)
    except (OSError, AttributeError, statistics.StatisticsError):
        return None


def _has(descriptor: int, byte: bytearray, at: int) -> bool:
    try:
        return os.preadv(descriptor, [byte], at, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False


def _state(found: list[float | None]) -> str:
    """Return "warm", "cold", "unknown" or how much was in the page cache before the rounds."""
    known = [part for part in found if part is not None]
    if len(known) < len(found):
        return "unknown"
    if min(known) >= WARM:
        return "warm"
    if max(known) <= COLD:
        return "cold"
    return f"{min(known):.0%} to {max(known):.0%}"


# ---- as text


def lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield what was measured, in a table, and how."""
    for record in found:
        shape = record["row_shape"]
        row = f"{printable(record['dtype'])} {shape}" if shape else printable(record["dtype"])
        yield f"{record['path']} in {printable(record['file'])}: rows of {row}"
        rows = [["", "rows/s", "MB/s"], *_rates(record)]
        yield from columns(rows)
        read = size(record["rows"] * record["row_bytes"])
        which = "all" if record["rows"] == record["all_rows"] else "the first"
        yield (
            f"{which} {record['rows']} rows ({read}) in blocks of {record['block_rows']}, from "
            f"opening on; medians of {ROUNDS} alternating rounds; page cache: "
            f"{record['page_cache']}"
        )
        if record["why_no_h5py"]:
            yield f"not compared: {printable(record['why_no_h5py'])}"
        if not (record["compared"] or record["why_no_h5py"]):
            yield "not checked: h5py gives elements another type"
        if min(record[OURS]["seconds"]) < SHORT_SECONDS:
            yield "so little data that opening and starting are a good part of the time"


def _rates(record: Record) -> Iterator[list[str]]:
    for name, shown in ((H5PY, "h5py, a loop"), (OURS, OURS)):
        if record[name]:
            rates = record[name]["rows_per_second"], record[name]["mb_per_second"]
            times = record["times_as_fast"] if name == OURS else None
            more = [f"{times:.2g} times as fast"] if times else []
            yield [shown, *(f"{rate:.4g}" for rate in rates), *more]
