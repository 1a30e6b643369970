"""The limits of a stream, each measured by itself: device, page cache, memory, hand-over.

Law
---
1. Each is timed for about the given seconds, with the given number of threads or requests.
2. It returns bytes and seconds; `advice` says what they mean.
3. Buffers are touched before the clock starts, and threads end before a function does.

(The fifth, fetching and decoding, is the library's own `multitables.measure_limit`.)
"""

from __future__ import annotations

import itertools
import mmap
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _multitables.benchmark.contract import Sample, Source, WrongDataError
from _multitables.benchmark.harness.child import face

REQUEST_BYTES = 2**20
BUFFER_BYTES = 256 * 2**10  # small enough to stay in a core's cache
COPY_BYTES = 256 * 2**20  # no cache holds twice this
HAND_OVERS = 2000
ROW_WORDS = 8
TIMES = ("fetch_seconds", "decode_seconds", "wait_seconds")


def together(count: int, work: Callable[[int, threading.Event], int]) -> tuple[float, int]:
    """Seconds and bytes of `work` in `count` threads, all from the same moment.

    `work` is given its number, and an event that is set when it must end; it returns its bytes.
    """
    done = [0] * count
    errors: list[BaseException] = []
    ended = threading.Event()
    ready = threading.Barrier(count + 1)

    def one(number: int) -> None:
        ready.wait()
        try:
            done[number] = work(number, ended)
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return seconds, sum(done)


def device(
    filename: str, offset: int, size_bytes: int, in_flight: int, seconds: float
) -> tuple[float, int]:
    """Read a part of a file with O_DIRECT, in order, requests of 1 MiB; again when it is through.

    Parameters
    ----------
    filename : str
    offset, size_bytes : int
        The part of the file.
    in_flight : int
        Requests on their way at once.
    seconds : float
        How long, about.
    """
    end_bytes = min(offset + size_bytes, os.path.getsize(filename))
    places = range(offset // REQUEST_BYTES * REQUEST_BYTES, end_bytes, REQUEST_BYTES)
    requests = itertools.cycle(places)  # the next of it is one step of the interpreter
    descriptor = os.open(filename, os.O_RDONLY | os.O_DIRECT)
    rooms = [mmap.mmap(-1, REQUEST_BYTES) for _ in range(in_flight)]  # aligned, as is wanted
    for room in rooms:
        room.write(bytes(REQUEST_BYTES))

    def work(number: int, ended: threading.Event) -> int:
        seen_bytes = 0
        deadline = time.perf_counter() + seconds
        while not ended.is_set() and time.perf_counter() < deadline:
            seen_bytes += os.preadv(descriptor, [rooms[number]], next(requests))
        return seen_bytes

    try:
        return together(in_flight, work)
    finally:
        os.close(descriptor)
        for room in rooms:
            room.close()


def page_cache(filename: str, n_threads: int, seconds: float) -> tuple[float, int]:
    """Read a file that lies in the page cache, again and again, into small buffers."""
    size_bytes = os.path.getsize(filename)
    descriptor = os.open(filename, os.O_RDONLY)
    rooms = [bytearray(b"\1" * BUFFER_BYTES) for _ in range(n_threads)]

    def work(number: int, ended: threading.Event) -> int:
        seen_bytes, place = 0, size_bytes * number // n_threads
        deadline = time.perf_counter() + seconds
        while not ended.is_set() and time.perf_counter() < deadline:
            got = os.preadv(descriptor, [rooms[number]], place)
            seen_bytes += got
            place = place + got if got else 0
        return seen_bytes

    try:
        return together(n_threads, work)
    finally:
        os.close(descriptor)


def memory_copy(n_threads: int, seconds: float, size_bytes: int = COPY_BYTES) -> tuple[float, int]:
    """Copy memory that no cache holds; bytes count once, not as read and as written."""
    share = size_bytes // n_threads
    sources = [np.ones(share, np.uint8) for _ in range(n_threads)]
    rooms = [np.full(share, 2, np.uint8) for _ in range(n_threads)]

    def work(number: int, ended: threading.Event) -> int:
        copied_bytes = 0
        deadline = time.perf_counter() + seconds
        while not ended.is_set() and time.perf_counter() < deadline:
            np.copyto(rooms[number], sources[number])
            copied_bytes += share
        return copied_bytes

    found = together(n_threads, work)
    if not all(room.all() and room.max() == 1 for room in rooms):
        raise WrongDataError("copied memory differs from what was copied")
    return found


def hand_over(directory: str) -> float:
    """Seconds to get and release one block that is ready.

    The data is the cheapest there is, and all of it is in the ring before the clock starts; what a
    block holds does not matter, for it is lent and not copied.
    """
    import h5py

    filename = os.path.join(directory, "hand_over.h5")
    rows = np.arange(HAND_OVERS * ROW_WORDS, dtype="i8").reshape(HAND_OVERS, ROW_WORDS)
    if not os.path.exists(filename):
        with h5py.File(filename, "w") as file:
            file["rows"] = rows
    streamer = face().Streamer(filename)
    options = {"n_procs": 1, "block_size": 1, "read_ahead": HAND_OVERS + 2}
    with streamer.get_queue("/rows", **options) as queue:
        _all_ready(queue)
        get = queue.get
        start = time.perf_counter()
        for _ in range(HAND_OVERS):
            with get():
                pass
        seconds = time.perf_counter() - start
    with streamer.get_queue("/rows", **options) as queue:
        for number, guard in enumerate(queue):
            with guard as block:
                if not np.array_equal(block, rows[number : number + 1]):
                    raise WrongDataError(f"row {number} of the hand-over's stream is wrong")
    return seconds / HAND_OVERS


def _all_ready(queue: Any) -> None:
    deadline = time.monotonic() + 10
    while queue.qsize() < HAND_OVERS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{queue.qsize()} of {HAND_OVERS} blocks were ready after 10 s")
        time.sleep(0.005)


def stream(
    source: Source,
    n_procs: int,
    block_size: int | None,
    options: dict[str, Any],
    seconds: float,
) -> Sample:
    """A stream without an end, timed when what may have been read ahead is consumed.

    Readers' times are those of the whole stream, start-up left out.
    """
    streamer = face().Streamer(source.filename, **options)
    with streamer.get_queue(
        source.path, n_procs=n_procs, block_size=block_size, cyclic=True
    ) as queue:
        ahead, seen = queue.statistics()["ring_rows"], 0
        while seen < ahead:
            with queue.get() as block:
                seen += len(block)
        clock, get, seen_bytes = time.perf_counter, queue.get, 0
        start = clock()
        deadline = start + seconds
        while clock() < deadline:
            with get() as block:
                seen_bytes += block.nbytes
        took = clock() - start
        readers = queue.statistics()["readers"]
        spent = {name: sum(reader[name] for reader in readers) for name in TIMES}
    return Sample.of(took, seen_bytes, **spent)
