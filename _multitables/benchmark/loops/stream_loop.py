"""The loop in which a stream is checked and timed, in this process or as a child of its own.

Law
---
1. It owns the timed loop, and the digest of what the consumer saw.
2. The library and its old release run this same code, so neither gets a loop that suits it better.
3. It also runs under other interpreters and older NumPy: standard library and NumPy only.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .shell import Loop

ACCESSES = ("queue", "generator")  # what the old release has, too
EVERY_ACCESS = (*ACCESSES, "batches")
BATCH_ROWS = 256
AHEAD_BYTES = 16 * 2**20  # no stream here reads further ahead than this for each of its readers


def drop_pages(filename: str) -> None:
    """Ask the kernel to forget the pages of a file that nobody writes to."""
    descriptor = os.open(filename, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


class Digest:
    """What a consumer saw: one 64-bit hash per row, summed up in order and in any order.

    A row's hash is the sum of its 64-bit words times fixed odd numbers, modulo 2**64. An odd
    factor is invertible there, so a change of any one word always changes the hash, and a change
    of several, or of their places, does so but for a chance of about 2**-64.
    """

    def __init__(self) -> None:
        self._hashes: list[Any] = []
        self._weights = np.empty(0, np.uint64)

    def see(self, block: Any) -> None:
        """Take in the rows of `block` (shape: rows first); copies nothing that is kept."""
        rows = len(block)
        if rows == 0:
            return
        raw = np.ascontiguousarray(block).reshape(rows, -1).view(np.uint8)
        short_bytes = -raw.shape[1] % 8
        if short_bytes:
            raw = np.pad(raw, ((0, 0), (0, short_bytes)))
        words = raw.view(np.uint64)
        if len(self._weights) != words.shape[1]:
            self._weights = odd_weights(words.shape[1])
        self._hashes.append(np.einsum("ij,j->i", words, self._weights))

    def hashes(self) -> Any:
        """The hash of each row seen, in order."""
        return np.concatenate(self._hashes) if self._hashes else np.empty(0, np.uint64)

    def result(self) -> dict[str, Any]:
        """Rows seen, and the digests ``in_order`` and ``any_order`` (hexadecimal)."""
        return summed_up(self.hashes())


def hashes_of(rows: Any) -> Any:
    """The hash of each row."""
    digest = Digest()
    digest.see(rows)
    return digest.hashes()


def summed_up(hashes: Any) -> dict[str, Any]:
    """The digest of rows with these hashes."""
    return {
        "rows": len(hashes),
        "in_order": hashlib.sha256(hashes.tobytes()).hexdigest()[:16],
        "any_order": hashlib.sha256(np.sort(hashes).tobytes()).hexdigest()[:16],
    }


def odd_weights(count: int) -> Any:
    """`count` fixed odd 64-bit numbers (splitmix64 of the position; Steele et al. 2014)."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


def arrays(streamer: Any, path: str, access: str, n_procs: int) -> Iterator[Any]:
    """One whole pass, as the user gets it: blocks of rows (a generator's row is a block of one)."""
    if access == "generator":
        for row in streamer.get_generator(path, n_procs=n_procs):
            yield np.asarray(row)[np.newaxis]
        return
    if access == "batches":
        with shuffled_batches(streamer, path, n_procs, 1) as batches:
            yield from batches
        return
    queue = streamer.get_queue(path, n_procs=n_procs, remainder=True)
    try:
        for guard in queue.iter():
            with guard as block:
                yield block
    finally:
        queue.close()


def shuffled_batches(streamer: Any, path: str, n_procs: int, epochs: int | None) -> Any:
    """Batches whose rows are mixed over a window, as training takes them."""
    return streamer.get_batches(path, BATCH_ROWS, n_procs=n_procs, shuffle="window", epochs=epochs)


def digest_of(blocks: Iterator[Any]) -> dict[str, Any]:
    """The digest of everything `blocks` yields."""
    digest = Digest()
    for block in blocks:
        digest.see(block)
    return digest.result()


def timed_pass(
    streamer: Any,
    path: str,
    access: str,
    n_procs: int,
    rows: int,
    row_bytes: int,
    cold: str = "",
) -> tuple[float, int]:
    """Seconds and decoded bytes of one pass of an endless stream.

    The clock starts when what may have been read ahead is consumed, so that a pass ends with as
    much in hand as it began with; start-up is a study of its own. The file named `cold` is then
    dropped from the page cache, for the end of a pass reads again what came before its beginning.
    """

    def timed(take: Callable[[int], int], ahead_rows: int) -> tuple[float, int]:
        take(ahead_rows)
        if cold:
            drop_pages(cold)
        start = time.perf_counter()
        seen = take(rows)
        return time.perf_counter() - start, seen * row_bytes

    ahead_rows = -(-AHEAD_BYTES * n_procs // row_bytes)
    if access == "generator":
        stream = streamer.get_generator(path, n_procs=n_procs, cyclic=True)
        with contextlib.closing(stream):
            return timed(_rows_of(stream), ahead_rows)
    if access == "batches":
        with shuffled_batches(streamer, path, n_procs, None) as batches:
            # The clock starts after as many rows as the ring may hold in advance.
            take = _batches_of(iter(batches))
            first = take(1)
            ring_rows = batches.statistics()["ring_bytes"] // row_bytes
            return timed(take, ring_rows - first)
    queue = streamer.get_queue(path, n_procs=n_procs, cyclic=True)
    with contextlib.closing(queue):
        return timed(_blocks_of(queue), ahead_rows)


# Each consumes at least the rows asked for, and returns how many.


def _blocks_of(queue: Any) -> Callable[[int], int]:
    def take(rows: int) -> int:
        seen = 0
        while seen < rows:
            with queue.get() as block:
                seen += len(block)
        return seen

    return take


def _rows_of(stream: Any) -> Callable[[int], int]:
    def take(rows: int) -> int:
        for _row in itertools.islice(stream, rows):
            pass
        return rows

    return take


def _batches_of(batches: Iterator[Any]) -> Callable[[int], int]:
    def take(rows: int) -> int:
        seen = 0
        while seen < rows:
            seen += len(next(batches))
        return seen

    return take


def version(library: Any, _asked: dict[str, Any]) -> str:
    """The version of the library."""
    return str(getattr(library, "__version__", "unknown"))


def check(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The digest of one whole pass."""
    return digest_of(arrays(*_case(library, asked)))


def timed(library: Any, asked: dict[str, Any]) -> tuple[float, int]:
    """The result of `timed_pass` for a pass."""
    size = (asked["rows"], asked["row_bytes"])
    return timed_pass(*_case(library, asked), *size, cold=asked.get("cold", ""))


def _case(library: Any, asked: dict[str, Any]) -> tuple[Any, str, str, int]:
    streamer = library.Streamer(asked["filename"], **asked["options"])
    return streamer, asked["path"], asked["access"], asked["n_procs"]


LOOP = Loop({"version": version, "check": check, "time": timed})
