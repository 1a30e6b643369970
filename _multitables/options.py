"""The knobs of streams and of random access: their defaults, their limits and their check.

Law
---
1. The only home of defaults and of limits; everybody else asks here.
2. An option that cannot work is an `OptionsError` before any file is opened or process started.
3. Knows nothing of datasets, files or processes; the kernel is asked by machine.py.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

from _multitables.errors import OptionsError
from _multitables.machine import (
    available_bytes,
    available_cores,
)

#: Readers when `n_procs` is None, if as many cores are available.
DEFAULT_N_PROCS = 4
#: More readers than this serve no machine, and the ring keeps room for each.
MAX_N_PROCS = 200
#: Seconds without a block or a free stage, while the user holds all that there are, before
#: `StalledError`.
STALL_SECONDS = 30.0
#: Seconds between two looks at the readers while somebody waits for them.
WATCH_SECONDS = 0.05
#: Seconds that a reader may be inside a library without reading, by default.
LIBRARY_TIMEOUT_SECONDS = 60.0
#: Rows of unchunked data that make a block by default, in bytes.
UNCHUNKED_BLOCK_BYTES = 128 << 10
#: The library's own choice of ring is at least this large, so that jitter is hidden, ...
RING_BYTES = 6 << 20
#: ... up to this size holds two tasks more than there are readers, so that none waits for room, ...
MAX_RING_BYTES = 16 << 20
#: ... and has with direct I/O this much for each reader, so that requests can be in flight.
DIRECT_READER_BYTES = 16 << 20
#: Decoded bytes that make a task worth its claim; small chunks are grouped up to it.
TASK_BYTES = 256 << 10
#: The same for direct reads, where one task is one request to the device.
DIRECT_TASK_BYTES = 1 << 20
#: The same for chunks that have little of each row, less than `LITTLE_BYTES` of
#: core/src/scatter/interleave.rs: chunks beside each other are copied to their rows together.
BESIDE_TASK_BYTES = 1 << 20
LITTLE_BYTES = 256
#: So many deflated chunks are decoded side by side, if they make no more bytes than the latter. It
#: is `ABREAST_BYTES` of core/src/filters/pipeline.rs; a task has as many.
ABREAST = 4
ABREAST_BYTES = 2 << 20
#: Rows of contiguous data are cut into pieces of about this size.
PIECE_BYTES = 256 << 10
#: What may be shuffled, by its number in core/src/shuffle/order.rs.
SHUFFLES = (None, "chunks", "window", "full")
#: Seeds and epochs are numbers of so many bits.
SEED_BITS = 63
#: Chunks that are shuffled by chunks alone are, where it costs nothing, of windows of this size.
CHUNKS_BYTES = 2 << 20
#: Rows are mixed over a window of about this size by default, and of at least so many chunks.
WINDOW_BYTES = 8 << 20
WINDOW_CHUNKS = 16
#: ... where these are no more than this; of larger ones at least so few.
MAX_WINDOW_BYTES = 256 << 20
MIN_WINDOW_CHUNKS = 4
#: To find the places of rows up to this size takes longer than to read them, so that each window is
#: one reader's.
SMALL_ROW_BYTES = 64
#: What each reader holds for a row of a full shuffle, beside the ring, where its windows are small
#: beside the whole: shorter rows count as this.
PLACE_BYTES = 32
#: Memory of a stream in which all rows are shuffled, by default.
SHUFFLE_BYTES = 512 << 20
#: Decoded chunks of smaller datasets beside a shuffled one, that each reader keeps, in bytes.
KEEP_BYTES = 64 << 20
#: Decoded chunks that the readers of a `Reader` keep between requests: together they take one in so
#: many bytes of the memory that is to be had when they start, ...
CACHE_SHARE = 32
#: ... but each at least so many bytes, ...
MIN_CACHE_BYTES = 64 << 20
#: ... and at most so many.
MAX_CACHE_BYTES = 512 << 20
#: Results of requests without a stage of their own, that a `Reader` holds at once, in bytes.
REQUEST_BYTES = 256 << 20
#: A first guess of what a library's result needs, if its size cannot be told.
GUESSED_BYTES = 1 << 20
#: Tasks of requests that can be on their way at once, for each `Reader`.
REQUEST_SLOTS = 1024


@dataclass(frozen=True)
class StreamOptions:
    """Checked options of one stream."""

    n_procs: int
    read_ahead: int | None
    cyclic: bool
    block_size: int | None
    ordered: bool
    remainder: bool


@dataclass(frozen=True)
class BatchOptions:
    """Checked options of `get_batches`."""

    batch_size: int
    n_procs: int
    #: One of `SHUFFLES`.
    shuffle: str | None
    seed: int
    epochs: int | None
    start_epoch: int
    drop_last: bool
    rank: int
    world_size: int
    read_ahead: int | None
    window_rows: int | None
    even: bool
    memory_limit_bytes: int
    skip_damaged: bool


@dataclass(frozen=True)
class ReaderOptions:
    """Checked options of a `Reader`."""

    n_procs: int
    memory_limit_bytes: int
    cache_limit_bytes: int
    library_timeout_seconds: float | None


def _whole(name: str, value: object, least: int, advice: str) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise OptionsError(
            f"{name} must be a whole number, got {value!r} ({type(value).__name__})",
            advice=advice,
            option=name,
            got=value,
        ) from None
    if number < least or isinstance(value, bool):
        raise OptionsError(
            f"{name} is out of range: expected at least {least}, got {value!r}",
            advice=advice,
            option=name,
            got=value,
        )
    return number


def check_options(
    n_procs: int | None,
    read_ahead: int | None,
    cyclic: bool,
    block_size: int | None,
    ordered: bool,
    remainder: bool,
) -> StreamOptions:
    """Check the options of `get_queue` and `get_generator`, and fill in what is left open."""
    procs = _procs(n_procs)
    ahead = None
    if read_ahead is not None:
        ahead = _whole("read_ahead", read_ahead, 1, "Leave it out for the library's choice")
    size = None
    if block_size is not None:
        size = _whole("block_size", block_size, 1, "Leave it out for the chunk's outer length")
    return StreamOptions(procs, ahead, bool(cyclic), size, bool(ordered), bool(remainder))


def check_batch_options(
    *,
    batch_size: int,
    n_procs: int | None,
    shuffle: str | bool | None,
    seed: int,
    epochs: int | None,
    start_epoch: int,
    drop_last: bool,
    rank: int,
    world_size: int,
    read_ahead: int | None,
    window_rows: int | None,
    even: bool,
    memory_limit_bytes: int | None,
    skip_damaged: bool,
) -> BatchOptions:
    """Check the options of `get_batches`, and fill in what is left open."""
    kind = {True: "window", False: None}[shuffle] if isinstance(shuffle, bool) else shuffle
    if kind not in SHUFFLES:
        raise OptionsError(
            f"unknown shuffle: expected None, 'chunks', 'window', 'full', True or False, "
            f"got {shuffle!r}",
            advice="True mixes rows over a window, at the speed of a stream",
            option="shuffle",
            got=shuffle,
        )
    ranks = _whole("world_size", world_size, 1, "It is the number of ranks")
    me = _whole("rank", rank, 0, "Ranks count from 0")
    if me >= ranks:
        raise OptionsError(
            f"rank is out of range: expected less than the world_size of {ranks}, got {me}",
            advice="Ranks count from 0",
            option="rank",
            expected=ranks,
            got=me,
        )

    def optional(name: str, value: int | None, advice: str) -> int | None:
        return None if value is None else _whole(name, value, 1, advice)

    memory = optional("memory_limit_bytes", memory_limit_bytes, "Leave it out for 512 MiB")
    return BatchOptions(
        batch_size=_whole("batch_size", batch_size, 1, "It is the number of rows of a batch"),
        n_procs=_procs(n_procs),
        shuffle=kind,
        seed=_number("seed", seed),
        epochs=optional("epochs", epochs, "None has no end"),
        start_epoch=check_epoch("start_epoch", start_epoch),
        drop_last=bool(drop_last),
        rank=me,
        world_size=ranks,
        read_ahead=optional("read_ahead", read_ahead, "Leave it out for the library's choice"),
        window_rows=optional("window_rows", window_rows, "Leave it out for about 8 MiB of rows"),
        even=bool(even),
        memory_limit_bytes=SHUFFLE_BYTES if memory is None else memory,
        skip_damaged=bool(skip_damaged),
    )


def check_rotational(value: bool | None) -> bool | None:
    """Check what a `Streamer` is told of its disk."""
    if value is None or isinstance(value, bool):
        return value
    raise OptionsError(
        f"rotational must be True, False or None, got {value!r} ({type(value).__name__})",
        advice="Leave it out to go by what the kernel says of the disk",
        option="rotational",
        got=value,
    )


def check_library_timeout(seconds: float | None) -> float | None:
    """Check how long a reader may be inside a library."""
    if seconds is None:
        return None
    try:
        number = math.nan if isinstance(seconds, bool) else float(seconds)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise OptionsError(
            f"library_timeout_seconds must be seconds above 0, or None, got {seconds!r}",
            advice="None waits for ever",
            option="library_timeout_seconds",
            got=seconds,
        )
    return number


def check_epoch(name: str, epoch: int) -> int:
    """Check the number of an epoch."""
    return _number(name, epoch)


def _number(name: str, value: int) -> int:
    number = _whole(name, value, 0, f"It is a number of up to {SEED_BITS} bits")
    if number >> SEED_BITS:
        raise OptionsError(
            f"{name} is out of range: expected less than 2**{SEED_BITS}, got {value!r}",
            advice="Take a smaller number",
            option=name,
            got=value,
        )
    return number


def _procs(n_procs: int | None) -> int:
    if n_procs is None:
        return min(DEFAULT_N_PROCS, available_cores())
    procs = _whole("n_procs", n_procs, 1, "Leave it out for one reader a core, up to 4")
    if procs > MAX_N_PROCS:
        raise OptionsError(
            f"n_procs is out of range: expected at most {MAX_N_PROCS}, got {procs}",
            advice="One reader a core is enough",
            option="n_procs",
            got=procs,
        )
    return procs


def check_reader_options(
    n_procs: int | None,
    memory_limit_bytes: int | None,
    cache_limit_bytes: int | None,
    library_timeout_seconds: float | None = LIBRARY_TIMEOUT_SECONDS,
) -> ReaderOptions:
    """Check the options of `Reader`, and fill in what is left open."""
    procs, memory = _procs(n_procs), REQUEST_BYTES
    if memory_limit_bytes is not None:
        memory = _whole("memory_limit_bytes", memory_limit_bytes, 1, "Leave it out for 256 MiB")
    if cache_limit_bytes is None:
        cache = cache_bytes(available_bytes(), procs)
    else:
        cache = _whole("cache_limit_bytes", cache_limit_bytes, 0, "0 keeps no chunks")
    return ReaderOptions(procs, memory, cache, check_library_timeout(library_timeout_seconds))


def cache_bytes(memory_bytes: int, n_procs: int) -> int:
    """Bytes of decoded chunks that each of these readers may keep, if nobody says otherwise.

    A cache that holds a good part of what is asked for saves its decoding; a share of what is to be
    had stays small beside the page cache, which takes the rest.
    """
    share = memory_bytes // CACHE_SHARE // n_procs
    return min(max(share, MIN_CACHE_BYTES), MAX_CACHE_BYTES)
