"""Forked children of a process that streams: they harm nothing, and are told what they cannot do.

Law: every test is a program of its own, since this process must never fork.
"""

from __future__ import annotations

from pathlib import Path

import payload
import pytest
from processes import run_script

pytestmark = pytest.mark.parametrize("n_procs", [2, 0])

START = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
import multitables

def rest(queue):
    rows = 0
    for guard in queue:
        with guard as block:
            rows += len(block)
    return rows

def forked(inside):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        inside()
        sys.exit(0)  # with all that Python does at exit
    return os.waitpid(pid, 0)[1]

streamer = multitables.Streamer(sys.argv[1])
"""


def run(source: str, numbered: Path, n_procs: int) -> list[str]:
    source = source.replace("n_procs=2", f"n_procs={n_procs}")
    done = run_script(START + source, numbered, flags=())
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_child_that_ends_leaves_the_stream_alone(numbered: Path, n_procs: int) -> None:
    lines = run(
        """
queue = streamer.get_queue("rows", n_procs=2)
guard = queue.get()
def inside():
    with guard as block:
        print(block.shape)
    queue.close()
    streamer.close()
print(forked(inside))
print(len(guard.__enter__()) + rest(queue))
""",
        numbered,
        n_procs,
    )
    assert lines == [f"({payload.CHUNK}, {payload.COLUMNS})", "0", str(payload.ROWS)]


def test_a_child_is_told_whose_the_stream_is(numbered: Path, n_procs: int) -> None:
    lines = run(
        """
queue = streamer.get_queue("rows", n_procs=2)
def inside():
    try:
        queue.get()
    except multitables.ClosedError as error:
        print(error)
print(forked(inside))
print(rest(queue))
""",
        numbered,
        n_procs,
    )
    assert "is a fork" in lines[0]
    assert lines[1:] == ["0", str(payload.ROWS)]


def test_a_child_may_stream_with_its_parents_streamer(numbered: Path, n_procs: int) -> None:
    lines = run(
        """
with streamer:
    def inside():
        print(rest(streamer.get_queue("rows", n_procs=2)))
    inside()
    print(forked(inside))
    inside()
""",
        numbered,
        n_procs,
    )
    rows = str(payload.ROWS)
    assert lines == [rows, rows, "0", rows]


def test_a_child_has_no_part_in_batches(numbered: Path, n_procs: int) -> None:
    lines = run(
        """
import numpy as np
def batches():
    return streamer.get_batches("rows", 50, n_procs=2, shuffle="window")
with batches() as ours:
    iterator = iter(ours)
    first = next(iterator).copy()
    def inside():
        try:
            next(iterator)
        except multitables.ClosedError as error:
            print(error)
        with batches() as own:
            print((next(iter(own)) == first).all())
    print(forked(inside))
    rows = [first, *(batch.copy() for batch in iterator)]
    rows = np.concatenate(rows)
    print((rows[:, 0] // rows.shape[1] == ours.order(0)).all())
""",
        numbered,
        n_procs,
    )
    assert "is a fork" in lines[0]
    assert lines[1:] == ["True", "0", "True"]
