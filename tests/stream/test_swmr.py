"""Files written in SWMR mode: refused while their writer is at it, right bytes once it has closed.

1. The writer is a process of its own, as in practice, and one in this process.
2. A refusal names the file and what to do, and leaves nothing running: see every test's audit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from oracle import fast
from processes import readers

import multitables

WRITER = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w", libver="latest") as file:
    options = dict(chunks=(20, 5), maxshape=(None, 5), compression="gzip", fletcher32=True)
    made = file.create_dataset("x", (0, 5), "f8", **options)
    file.create_dataset("grid", (0, 0), "f4", chunks=(8, 8), maxshape=(None, None))
    file.swmr_mode = True
    for line in sys.stdin:
        rows = len(made)
        made.resize(rows + 50, 0)
        made[rows:] = np.arange(rows * 5, (rows + 50) * 5).reshape(50, 5)
        file["grid"].resize((rows + 50, rows + 30))
        file["grid"][rows:, rows:] = rows
        made.flush()
        print("flushed", flush=True)
"""
ENTRIES: dict[str, Callable[[Path], Any]] = {
    "queue": lambda path: multitables.Streamer(path).get_queue("/x", n_procs=2),
    "direct": lambda path: multitables.Streamer(path, DRIVER="H5FD_DIRECT").get_queue("/x"),
    "generator": lambda path: multitables.Streamer(path).get_generator("/x"),
    "remainder": lambda path: multitables.Streamer(path).get_remainder("/x", 7),
    "limit": lambda path: multitables.measure_limit(path, "/x"),
}


@pytest.fixture(params=list(ENTRIES))
def entry(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    return ENTRIES[request.param]


@pytest.fixture
def writer(h5: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the file open, and writes 50 rows for each line that it is sent."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WRITER, str(h5)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            write(process)
            yield process
        finally:
            process.kill()


def write(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "flushed\n"


def refused(entry: Callable[[Path], Any], path: Path, *parts: str) -> None:
    with pytest.raises(multitables.FileOpenError) as caught:
        entry(path)
    text = str(caught.value)
    for part in (repr(str(path)), "open for writing", *parts):
        assert part in text
    assert caught.value.advice
    assert readers() == []


def test_a_file_that_is_being_written(
    h5: Path, writer: subprocess.Popen[str], entry: Callable[[Path], Any]
) -> None:
    refused(entry, h5, "Close it there (or wait)")
    write(writer)  # the refusal is not in the writer's way
    refused(entry, h5)


def test_a_file_whose_writer_was_killed(
    h5: Path, writer: subprocess.Popen[str], entry: Callable[[Path], Any]
) -> None:
    writer.kill()
    writer.wait()
    refused(entry, h5, "its writer was killed", "h5clear -s")


def test_a_file_that_this_process_writes(h5: Path, entry: Callable[[Path], Any]) -> None:
    with h5py.File(h5, "w", libver="latest") as file:
        made = file.create_dataset("x", data=np.arange(100.0), maxshape=(None,), chunks=(20,))
        file.swmr_mode = True
        refused(entry, h5)
        made[0] = 5
    fast(h5, "x")


@pytest.mark.parametrize("name", ["x", "grid"])
def test_a_file_whose_writer_has_closed(h5: Path, writer: subprocess.Popen[str], name: str) -> None:
    for _ in range(5):
        write(writer)
    writer.communicate()
    assert writer.returncode == 0
    fast(h5, name)
    fast(h5, name, open_options={"DRIVER": "H5FD_DIRECT"})
    assert readers() == []
