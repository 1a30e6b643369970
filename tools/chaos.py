"""Let things go wrong at random moments while every way of reading runs, and print what is wrong.

Law
---
1. The table of faults, readings and moments is tests/support/moments.py; schedules.py judges. A
   schedule is known by the seed and its number, and runs again by them.
2. It ends with status 1 if anything was wrong: wrong data, an error that the table does not name,
   no end, or something that was left behind.

Usage: ``PYTHONPATH=tests/support python tools/chaos.py [--schedules 10000] [--seed SEED]
[--minutes M] [--jobs 2] [--schedule NUMBER]``
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from schedules import Runner  # type: ignore[import-not-found]  # of the tests


class Run:
    """Schedules by several programs at a time, and how they ended."""

    def __init__(self, seed: int, numbers: Iterator[int], minutes: float) -> None:
        self.seed, self._numbers = seed, numbers
        self._deadline = time.monotonic() + 60 * minutes
        self._lock = threading.Lock()
        #: Fault and end -> how often.
        self.ends: Counter[tuple[str, str]] = Counter()
        self.wrong = 0

    def work(self, runner: Any) -> None:
        """Run schedules until the last one, or until the time is over."""
        while (number := self._next()) is not None:
            self._add(runner.run(number))

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None) if time.monotonic() < self._deadline else None

    def _add(self, verdict: Any) -> None:
        with self._lock:
            self.ends[verdict.schedule.fault_name, verdict.end] += 1
            if verdict.wrong:
                self.wrong += 1
                print(verdict, flush=True)


def main() -> int:
    """Run what the arguments say; return the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--schedule", type=int, help="only the one of this number")
    given = parser.parse_args()
    print(f"--seed {given.seed}", flush=True)
    numbers = itertools.count() if given.schedule is None else iter([given.schedule])
    run = Run(given.seed, itertools.islice(numbers, given.schedules), given.minutes)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        # All files are written before the first program starts, which would inherit their locks.
        runners = [
            opened.enter_context(Runner(Path(folder, str(job)), run.seed))
            for job in range(given.jobs if given.schedule is None else 1)
        ]
        with ThreadPoolExecutor(len(runners)) as threads:
            list(threads.map(run.work, runners))  # raises what one of them raised
    faults = sorted({fault for fault, _ in run.ends})
    for fault in faults:
        ends = [f"{end} {n}" for (name, end), n in sorted(run.ends.items()) if name == fault]
        print(f"{fault:40} {', '.join(ends)}")
    print(f"{run.ends.total()} schedules, {run.wrong} wrong")
    return int(run.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
