"""Limits of control groups: sizes follow them, and a shortage is an error, not a death.

1. A program in a group of its own (version 1 or 2, for which these tests need root) asks for more
   memory than the group may have. The kernel would kill it without a word.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest
from processes import run_script

from _multitables import machine

MIB = 1 << 20
LIMIT = 300 * MIB
#: Where groups of memory are, and the file that limits one.
PLACES = {
    "/sys/fs/cgroup/memory": "memory.limit_in_bytes",
    "/sys/fs/cgroup": "memory.max",
}
PROGRAM = """
import os, sys
folder, path = sys.argv[1:]
with open(folder + "/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
import multitables
from _multitables import machine
print(machine.available_bytes() >> 20)
def attempt(act):
    try:
        act()
        print("data")
    except multitables.MultitablesError as error:
        print(type(error).__name__)
streamer = multitables.Streamer(path)
attempt(lambda: streamer.get_queue("/x", n_procs=1, block_size=400_000).get())
for _ in range(30):  # what was given back is there again
    streamer.get_queue("/x", n_procs=1, block_size=20_000).close()
with multitables.Reader(path, n_procs=1) as reader:
    data = reader.get_dataset("/x")
    attempt(lambda: data.create_stage(500_000))
    kept = []
    attempt(lambda: [kept.append(data.create_stage(5_000)) for _ in range(100)])
    print(0 < len(kept) < 60)
    del kept
with streamer.get_batches("/x", 100, shuffle="full", n_procs=1) as batches:
    attempt(lambda: next(iter(batches)))
"""
#: Where groups of cores are, the file with a quota, and that of one and a half.
QUOTAS = {
    "/sys/fs/cgroup/cpu": ("cpu.cfs_quota_us", "150000"),
    "/sys/fs/cgroup": ("cpu.max", "150000 100000"),
}
CORES = """
import os, sys
folder, *cores = sys.argv[1:]
if folder:
    with open(folder + "/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
else:
    os.sched_setaffinity(0, set(map(int, cores)))
from _multitables import machine
print(machine.available_cores())
"""


@pytest.fixture
def group() -> Iterator[str]:
    """The folder of a group that may have LIMIT bytes."""
    for place, name in PLACES.items():
        folder = Path(place, f"multitables-{os.getpid()}")
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                (folder / name).write_text(str(LIMIT), encoding="ascii")
                yield str(folder)
                return
            finally:
                folder.rmdir()
    pytest.skip("no control group with a limit of memory can be made here")


def test_a_shortage_in_a_group_is_an_error(group: str, tmp_path: Path) -> None:
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:  # nothing is stored: 2 GB of one number
        file.create_dataset("x", (2_000_000, 256), "<u4", chunks=(1000, 256), fillvalue=7)
    done = run_script(PROGRAM, group, path)
    assert done.returncode == 0, done.stderr
    available, *said = done.stdout.split()
    assert 0 < int(available) < LIMIT // MIB
    assert said == ["OptionsError", "SharedMemoryError", "SharedMemoryError", "True", "data"]


def test_cores_are_those_that_the_process_may_use() -> None:
    assert machine.available_cores() <= len(os.sched_getaffinity(0))
    done = run_script(CORES, "", min(os.sched_getaffinity(0)))
    assert done.stdout == "1\n", done.stderr


@pytest.fixture
def quota_group() -> Iterator[str]:
    """The folder of a group without a quota, in one that may use a core and a half."""
    for place, (name, value) in QUOTAS.items():
        outer = Path(place, f"multitables-{os.getpid()}")
        with contextlib.suppress(OSError):
            outer.mkdir()
            try:
                (outer / name).write_text(value, encoding="ascii")
                (outer / "inner").mkdir()
                try:
                    yield str(outer / "inner")
                    return
                finally:
                    (outer / "inner").rmdir()
            finally:
                outer.rmdir()
    pytest.skip("no control group with a quota can be made here")


def test_the_quota_of_a_group_above_is_fewer_cores(quota_group: str) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core here, and no quota makes it less")
    done = run_script(CORES, quota_group)
    assert done.stdout == "1\n", done.stderr


def test_what_is_left_to_others_leaves_something(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, limit in ((0, 0), (200, 150), (1024, 768), (8192, 7168)):
        monkeypatch.setattr(machine, "available_bytes", lambda have=available: have * MIB)
        assert machine.memory_limit_bytes() == limit * MIB
