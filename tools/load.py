"""Load: many readers, many queues, many hand-overs, and opening and closing again and again.

Law
---
1. All that comes is checked. Then memory, descriptors and threads are what they were after the
   first tenth of the cycles, but for `GROWTH_BYTES` of memory.
2. Cycles open and close over readers that are kept, in milliseconds each. Starts do the same with
   readers of their own, which takes a hundred times as long.
3. It ends with status 1 if anything was wrong; arguments make it smaller.

Usage: ``PYTHONPATH=tests/support python tools/load.py [--readers 64] [--queues 200]
[--hand-overs 1000000] [--cycles 100000] [--starts 2000] [READING ...]``; 0 leaves a part out.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import payload  # type: ignore[import-not-found]  # these are of the tests
import readings  # type: ignore[import-not-found]
from plain_server import plain_server  # type: ignore[import-not-found]
from processes import Holdings, leaks  # type: ignore[import-not-found]

import multitables

#: What the allocator may keep more at the end than after the first cycles.
GROWTH_BYTES = 4 << 20
#: Readings that change their folder below the readers, which are not kept then.
NEVER_KEPT = ("cached",)


def memory_bytes() -> int:
    """Return the memory of this process that is not shared with a file or others."""
    gc.collect()
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    return 0


def many_readers(path: Path, count: int) -> None:
    """One stream of many readers."""
    at = 0
    options: Any = {"n_procs": count, "block_size": readings.CHUNK}
    with multitables.Streamer(path).get_queue("/rows", **options) as stream:
        for guard in stream:
            with guard as block:
                at = payload.check(block, at, readings.ROWS)
            del block, guard
    assert at == readings.ROWS, f"{at} rows of {readings.ROWS}"


def many_queues(path: Path, count: int) -> None:
    """Many streams at a time, of which each gives a block in turn."""
    with contextlib.ExitStack() as opened:
        streams: list[Any] = [
            opened.enter_context(
                multitables.Streamer(path).get_queue("/rows", n_procs=1, block_size=readings.CHUNK)
            )
            for _ in range(count)
        ]
        for begin in range(0, readings.ROWS, readings.CHUNK):
            for stream in streams:
                with stream.get() as block:
                    payload.check(block, begin, readings.ROWS)
                del block


def hand_overs(path: Path, count: int) -> None:
    """Many blocks of one row, from one stream without end."""
    options: Any = {"n_procs": 2, "block_size": 1, "cyclic": True}
    with multitables.Streamer(path).get_queue("/rows", **options) as stream:
        for number in range(count):
            with stream.get() as block:
                payload.check(block, number % readings.ROWS, readings.ROWS)
            del block


def cycles(place: Any, reading: str, count: int, is_kept: bool) -> None:
    """Open, take the first step, and close, again and again."""
    begin = readings.READINGS[reading][1]
    first = max(1, count // 10)
    with contextlib.closing(begin(place)) as steps:
        next(steps)  # threads of libraries start with their first use, and stay
    outside = Holdings.now()
    with contextlib.ExitStack() as kept:
        place.kept = kept if is_kept else None
        before, memory = outside, 0
        for number in range(count):
            if number == first:
                before, memory = Holdings.now(), memory_bytes()
            with contextlib.closing(begin(place)) as steps:
                next(steps)
            place.server.sent.clear()  # it keeps the headers of every request
        left = leaks(before)
        grown = memory_bytes() - memory
    left = left or leaks(outside)
    assert not left, f"left behind: {left}"
    assert grown < GROWTH_BYTES, f"{grown} bytes more than after {first} of {count} cycles"
    print(f"    {grown} bytes more than after {first} cycles; no descriptor, no thread")


def main() -> int:
    """Run what the arguments say; return the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--hand-overs", type=int, default=1_000_000)
    parser.add_argument("--cycles", type=int, default=100_000, help="of each reading")
    parser.add_argument("--starts", type=int, default=2_000, help="of each reading")
    parser.add_argument("readings", nargs="*", metavar="READING")
    given = parser.parse_args()
    wrong = 0

    def part(name: str, count: int, act: Callable[[], None]) -> None:
        nonlocal wrong
        if not count:
            return
        began = time.monotonic()
        try:
            act()
        except (AssertionError, multitables.MultitablesError, OSError) as error:
            wrong += 1
            print(f"{name}, {count}: {type(error).__name__}: {error}")
        print(f"{name}, {count}: {time.monotonic() - began:.1f} s", flush=True)

    with tempfile.TemporaryDirectory() as folder, plain_server() as server:
        readings.write(Path(folder))
        numbered = Path(folder, "numbered.h5")
        part("readers", given.readers, lambda: many_readers(numbered, given.readers))
        part("queues", given.queues, lambda: many_queues(numbered, given.queues))
        part("hand-overs", given.hand_overs, lambda: hand_overs(numbered, given.hand_overs))
        for name in given.readings or readings.READINGS:
            path = Path(folder, f"{readings.READINGS[name][0]}.h5")
            for what, count in (("cycles", given.cycles), ("starts", given.starts)):
                is_kept = what == "cycles"
                if is_kept and name in NEVER_KEPT:
                    continue
                act = partial(cycles, readings.Place(path, server), name, count, is_kept)
                part(f"{what} of {name}", count, act)
    print(f"{wrong} wrong; this process: {os.times().user:.0f} s of processor time")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
