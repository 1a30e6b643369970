"""What the benchmark knows of the machine: page cache, driver, mounts, memory, and its files.

Law
---
1. The kernel is asked, and what it cannot say is set by the test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import tables
from processes import wait_until
from runs import TINY

import multitables
from _benchmark.data import workloads
from _benchmark.data.workloads import Workload
from _benchmark.machine import environment, process_memory

# ---- the environment, and the files


def test_huge_pages_are_counted() -> None:
    meminfo = "HugePages_Total:  5\nHugePages_Free:  3\nHugepagesize:  2048 kB\nHugetlb: 9 kB\n"
    assert environment.huge_pages(meminfo) == (3, 2**21)
    assert environment.huge_pages("MemTotal:  1 kB\n") == (0, 0)


def test_the_facts_are_all_there(tmp_path: Path) -> None:
    facts = environment.facts(str(tmp_path))
    assert all(facts.values())
    assert list(facts) == [
        *("machine", "cores", "memory", "device", "device_kind", "rotational", "raid"),
        *("scheduler", "filesystem", "kernel", "python", "versions"),
    ]
    assert facts["device"].startswith(facts["device_kind"])
    assert facts["rotational"] in ("yes", "no", "unknown")
    assert "build" in environment.facts(str(tmp_path), multitables)


def test_the_same_workload_is_the_same_file(tmp_path: Path) -> None:
    first = workloads.in_directory(TINY, str(tmp_path))
    again = str(tmp_path / "again.h5")
    workloads.write(TINY, again)
    assert workloads.holds(TINY, first)
    assert workloads.holds(TINY, again)
    with tables.open_file(first) as one, tables.open_file(again) as other:
        assert np.array_equal(one.root.data[:], other.root.data[:])
    other_filter = Workload("tiny", TINY.rows, TINY.columns, complevel=4)
    assert not workloads.holds(other_filter, first)
    assert workloads.in_directory(TINY, str(tmp_path)) == first


def test_the_memory_of_a_process_is_watched() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with process_memory.peak_memory(os.getpid()) as peaks:
            wait_until(lambda: child.pid in peaks and os.getpid() in peaks, "both processes")
        assert peaks[child.pid].own_bytes > 0
        child.kill()
