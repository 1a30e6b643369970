"""How reader processes begin, whatever program starts them.

1. They are looked at from outside: /proc and system calls say what a reader has.
2. A program may have closed its standard input and output; readers have all three.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import run_script

from _multitables.parent.readers.supervisor import Readers

#: System calls by machine, and what they take: <linux/kcmp.h>, <linux/ioprio.h>.
CALLS = {
    "x86_64": {"kcmp": 312, "ioprio_set": 251, "ioprio_get": 252},
    "aarch64": {"kcmp": 272, "ioprio_set": 30, "ioprio_get": 31},
}
KCMP_IO, WHO_PROCESS = 5, 1


@pytest.fixture
def call() -> Callable[..., int]:
    """A system call by its name."""
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = CALLS.get(os.uname().machine)
    if numbers is None:
        pytest.skip(f"unknown numbers of system calls: {os.uname().machine}")

    def call(name: str, *given: int) -> int:
        result: int = libc.syscall(numbers[name], *given)
        if result < 0:
            pytest.skip(f"{name}: {os.strerror(ctypes.get_errno())}")
        return result

    return call


def test_readers_are_one_client_of_the_disk(call: Callable[..., int]) -> None:
    """A scheduler that serves one client at a time (BFQ) has none to wait for while others ask."""
    team = Readers(3)
    try:
        first, *others = team.pids
        compared = [call("kcmp", first, pid, KCMP_IO, 0, 0) for pid in others]
        parents = call("kcmp", first, os.getpid(), KCMP_IO, 0, 0)
    finally:
        team.stop()
    assert compared == [0, 0]
    # What the user's own program reads is another client's matter.
    assert parents != 0


def test_readers_have_the_priority_of_who_starts_them(call: Callable[..., int]) -> None:
    """``ionice -n 6 python train.py``."""
    before = call("ioprio_get", WHO_PROCESS, 0)
    wanted = 2 << 13 | 6  # best effort
    call("ioprio_set", WHO_PROCESS, 0, wanted)
    try:
        team = Readers(2)
        try:
            found = [call("ioprio_get", WHO_PROCESS, pid) for pid in team.pids]
        finally:
            team.stop()
    finally:
        call("ioprio_set", WHO_PROCESS, 0, before)
    assert found == [wanted, wanted]


CLOSED = """
import os, sys
import numpy as np
import multitables

for number in map(int, sys.argv[2]):
    os.close(number)
with multitables.Streamer(sys.argv[1]).get_queue("/raw", n_procs=2, remainder=True) as stream:
    rows, targets = 0, set()
    ours = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
            if int(number) < 3 and os.path.exists(f"/proc/self/fd/{number}")]
    assert not any(name.startswith("socket:") for name in ours), ours
    for guard in stream:
        for pid in () if rows else stream.source.readers.pids:
            targets |= {os.readlink(f"/proc/{pid}/fd/{number}") for number in sys.argv[2]}
        with guard as block:
            rows += len(block)
with open(sys.argv[3], "w") as told:
    print(rows, *targets, file=told)
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "12", "012"])
def test_a_program_without_standard_input_or_output(
    numbered: Path, tmp_path: Path, closed: str
) -> None:
    """As daemons are: the sockets of readers must not take the places of 0, 1 and 2."""
    told = tmp_path / "told"
    done = run_script(CLOSED, numbered, closed, told)
    assert done.returncode == 0, done.stderr
    assert told.read_text() == "6000 /dev/null\n"
