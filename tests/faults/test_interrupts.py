"""Ctrl-C at any step of a program that catches it: nothing is left, and the program can go on.

1. A step is a call or a return of Python's or the core's functions, which is where Python notices
   signals. An interrupt comes at some of them, drawn by a seed that is printed, without a clock; at
   all of them with ``MULTITABLES_STEPS=100000``.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from processes import Holdings, leaks

import multitables

#: Steps of each way of reading at which an interrupt comes.
STEPS = int(os.environ.get("MULTITABLES_STEPS", "12"))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interrupts") / "data.h5"
    with h5py.File(path, "w") as file:
        rows = np.arange(4000 * 8).reshape(-1, 8)
        file.create_dataset("rows", data=rows, chunks=(500, 8), compression="gzip")
        for item in range(4):
            file[f"items/{item}/a"] = np.arange(100) + item
    return path


def queue(path: Path, **options: int) -> None:
    options = {"n_procs": 2, **options}
    with multitables.Streamer(path).get_queue("/rows", **options) as stream:
        for guard in stream:
            with guard:
                pass


def this_thread(path: Path) -> None:
    queue(path, n_procs=0)


def threads(path: Path) -> None:
    """With a ring that does not hold all."""
    queue(path, n_procs=0, read_ahead=2)


def kept_readers(path: Path) -> None:
    with multitables.Streamer(path) as streamer:
        for _ in range(2):
            for _ in streamer.get_generator("/rows", n_procs=2):
                pass


def batches(path: Path) -> None:
    streamer = multitables.Streamer(path)
    with streamer.get_batches("/rows", 500, shuffle=True, n_procs=2, epochs=2) as some:
        for _ in some:
            pass


def collection(path: Path) -> None:
    with multitables.Streamer(path).get_collection("/items/*/*", n_procs=2) as items:
        for item in items:
            list(item.values())


def requests(path: Path) -> None:
    with multitables.Reader(path, n_procs=2) as reader:
        rows = reader.get_dataset("/rows")
        many = [reader.request(rows[at : at + 50]) for at in range(0, 4000, 500)]
        assert [request.get()[0, 0] for request in many] == list(range(0, 32000, 4000))


def handle(path: Path) -> None:
    with multitables.open(path) as file:
        assert file["rows"][1000:3000][0, 0] == 8000


WAYS: list[Callable[[Path], None]] = [
    queue, this_thread, threads, kept_readers, batches, collection, requests, handle
]  # fmt: skip


@pytest.fixture
def swallowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Python prints what is raised where garbage is collected, and goes on.

    So it does where a file is closed by that.
    """
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: lost.append(raised.exc_type))
    yield lost
    assert set(lost) <= {KeyboardInterrupt, ResourceWarning}


#: The steps beside these are always among those that are drawn.
MARKED = {"start_together", "end_children"}


def steps_of(way: Callable[[Path], None], path: Path, last: int | None) -> tuple[int, set[int]]:
    """Read, and be interrupted at a step. Returns their number, and the marked ones.

    The last one is the call that ends the counting.
    """
    step = 0
    marked: set[int] = set()

    def count(_frame: object, _event: str, of: Any) -> None:
        nonlocal step
        step += 1
        if step == last:
            raise KeyboardInterrupt
        if getattr(of, "__name__", "") in MARKED:
            marked.update((step, step + 1))

    sys.setprofile(count)
    try:
        way(path)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return step, marked


@pytest.mark.hang(120 if STEPS < 100 else 3600)
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_leaves_nothing(
    path: Path, way: Callable[[Path], None], swallowed: list[Any]
) -> None:
    way(path)
    steps, marked = steps_of(way, path, None)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    drawn = random.Random(seed).sample(range(1, steps), min(STEPS, steps - 1))
    gc.collect()
    before = Holdings.now()
    for last in [*drawn, *marked]:
        steps_of(way, path, last)
        left = leaks(before)
        assert not left, f"interrupted at step {last} of {steps} (seed {seed}): {left}"
    way(path)
