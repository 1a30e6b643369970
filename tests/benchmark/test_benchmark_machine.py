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
import pytest
import tables
from processes import wait_until
from runs import TINY

import multitables
from _benchmark import environment, measure, workloads
from _benchmark.contenders import Source
from _benchmark.studies import device_sweep
from _benchmark.workloads import Workload

# ---- the page cache and the driver


def test_a_file_system_without_direct_io_is_read_through_the_page_cache(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    monkeypatch.setattr(measure, "direct_refusal", lambda _name: "it refuses O_DIRECT")
    driver = device_sweep.choose_driver(tiny.filename, direct_off=False)
    assert (driver.name, dict(driver.options), driver.drop_before) == ("buffered", {}, True)
    assert driver.note == "it refuses O_DIRECT. The page cache is dropped before each pass."


def test_direct_io_is_the_default_and_can_be_turned_off(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    monkeypatch.setattr(measure, "direct_refusal", lambda _name: "")
    driver = device_sweep.choose_driver(tiny.filename, direct_off=False)
    assert (driver.name, dict(driver.options)) == ("direct", {"DRIVER": "H5FD_DIRECT"})
    driver = device_sweep.choose_driver(tiny.filename, direct_off=True)
    assert (driver.name, dict(driver.options)) == ("buffered", {})


def test_a_file_in_memory_is_said_to_measure_no_device(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: True)
    for direct_off in (False, True):
        driver = device_sweep.choose_driver(tiny.filename, direct_off)
        assert "no device is measured" in driver.note
        assert not driver.drop_before
    assert device_sweep.cache_of(driver, tiny.filename, "warm") == "in memory, no device"


def test_the_page_cache_is_asked_and_not_assumed(tiny: Source) -> None:
    measure.fill_page_cache(tiny.filename)
    assert measure.cache_state(tiny.filename) == "warm"
    if environment.in_memory(tiny.filename):
        pytest.skip("files in memory cannot be cold")
    measure.drop_page_cache(tiny.filename)
    assert measure.resident_fraction(tiny.filename) < 1


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
        *("filesystem", "kernel", "python", "versions"),
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
        with measure.peak_memory(os.getpid()) as peaks:
            wait_until(lambda: child.pid in peaks and os.getpid() in peaks, "both processes")
        assert peaks[child.pid].own_bytes > 0
        child.kill()
