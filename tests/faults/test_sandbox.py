"""Sandboxes: the kernel refuses a system call, or hides /proc. Right data, or a named error.

1. `refused_calls` in tests/support has the table; tools/sandbox.py tries all of it, and here some
   rows are drawn. The seed is printed with a failure.
2. What was wrong once is tried each time.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest
import refused_calls

from _multitables.errors import SYSTEM_ADVICE

DRAWN = 10
#: Forks without MADV_WIPEONFORK, cores, ends of readers, sessions, the working directory, messages.
ONCE_WRONG = (
    ("madvise", "EINVAL"), ("sched_getaffinity", "EPERM"), ("kill", "EPERM"), ("setsid", "EPERM"),
    ("wait4", "ENOSYS"), ("getcwd", "EPERM"), ("getppid", "ENOSYS"), ("memfd_create", "ENOSYS"),
    ("execve", "EPERM"), ("old kernel", "ENOSYS"), ("sendmsg", "EPERM"), ("recvmsg", "ENOSYS"),
    ("epoll_wait", "EPERM"), ("accept4", "EPERM"), ("newfstatat", "EPERM"),
)  # fmt: skip
NOTHING_STARTS = {"memfd_create", "execve"}


def outcomes(path: Path, rows: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """What comes of rows."""
    if refused_calls.cannot_refuse():
        pytest.skip(refused_calls.cannot_refuse())
    found = list(refused_calls.outcomes(path, rows))
    assert len(found) == len(rows) * len(refused_calls.WAYS)
    return found


@pytest.mark.hang(240)
def test_what_was_wrong_once_is_right_or_named(tmp_path: Path) -> None:
    hidden = [] if os.getuid() else [(refused_calls.HIDDEN, "")]  # only root can hide it
    found = outcomes(refused_calls.file_in(tmp_path), [*ONCE_WRONG, *hidden])
    assert [one for one in found if not one["is_right"]] == []
    # A refusal is not described as a shortage, nor as a Python that is missing.
    named = [one for one in found if one["call"] in NOTHING_STARTS and one["kind"] == "named"]
    assert {one["call"] for one in named} == NOTHING_STARTS
    assert [one for one in named if SYSTEM_ADVICE[errno.EPERM] not in one["said"]] == []


@pytest.mark.hang(240)
def test_rows_of_the_table_are_right_or_named(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    rows = [(call, error) for call in refused_calls.CALLS for error in refused_calls.ERRORS]
    found = outcomes(refused_calls.file_in(tmp_path), random.Random(seed).sample(rows, DRAWN))
    assert [one for one in found if not one["is_right"]] == [], f"seed {seed}"
