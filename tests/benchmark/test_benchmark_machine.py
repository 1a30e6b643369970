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
from types import SimpleNamespace

import numpy as np
import pytest
import tables
from processes import wait_until
from runs import TINY

import multitables
from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.machine import environment, process_memory

# ---- the environment, and the files


def test_huge_pages_are_counted() -> None:
    meminfo = "HugePages_Total:  5\nHugePages_Free:  3\nHugepagesize:  2048 kB\nHugetlb: 9 kB\n"
    assert environment.huge_pages(meminfo) == (3, 2**21)
    assert environment.huge_pages("MemTotal:  1 kB\n") == (0, 0)


def test_processors_of_one_name() -> None:
    both = [
        f"cpu family\t: {family}\nmodel\t\t: {n + 1}\nmodel name\t: AMD EPYC\nflags\t:\n\n"
        for n, family in enumerate((25, 26))
    ]
    assert environment.processor(both[0]) == "AMD EPYC, family 25 model 1"
    assert environment.processor(both[1]) == "AMD EPYC, family 26 model 2"
    arm = "processor\t: 0\nFeatures\t: fp\n\nModel\t\t: Raspberry Pi 5\n"
    assert environment.processor(arm) == "Raspberry Pi 5"
    assert environment.processor("") == "unknown"


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


def test_a_checkout_has_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.setenv(f"GIT_{who}", "a@b")
    place = SimpleNamespace(__file__=str(tmp_path / "face.py"), build_info=dict)
    assert "sources" not in environment.facts(str(tmp_path), place)

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    assert "sources" not in environment.facts(str(tmp_path), place)  # no commit yet
    for file in ("docs/page.rst", "core/lib.rs", "_multitables/table.py"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text("")
    git("add", ".")
    git("commit", "-qm", "one")
    package, core = (git("rev-parse", f"HEAD:{one}")[:8] for one in ("_multitables", "core"))
    (tmp_path / "docs/page.rst").write_text("more words")
    git("commit", "-qam", "another commit of the same sources")
    kept = environment.facts(str(tmp_path), place)["sources"]
    assert kept == f"_multitables {package}, core {core}"
    (tmp_path / "core/lib.rs").write_text("changed")
    assert environment.facts(str(tmp_path), place)["sources"] == f"{kept}, with changes"
    git("commit", "-qam", "other sources")
    assert environment.facts(str(tmp_path), place)["sources"].startswith(f"_multitables {package}")
    assert environment.facts(str(tmp_path), place)["sources"] != kept


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


def test_a_child_counts_when_it_runs_a_program_of_its_own() -> None:
    command = [sys.executable, "-c", "import os; os.fork() or input(); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as parent:
        wait_until(lambda: process_memory.child_processes(parent.pid), "a forked child")
        (child,) = process_memory.child_processes(parent.pid)
        with process_memory.peak_memory(parent.pid) as peaks:
            wait_until(lambda: parent.pid in peaks, "the parent")
        assert child not in peaks
        parent.communicate(b"\n\n\n")
