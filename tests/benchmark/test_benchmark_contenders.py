"""Contenders that cannot run here: each says what is missing, and none stands in for another.

Law
---
1. What a machine has or lacks is set by the test; nothing is installed or changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import TINY, measured, rows_of, setting_in, study_run

from _multitables.benchmark.contenders import old_release, streams
from _multitables.benchmark.contract import ContenderError, NotMeasuredError, Source
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.child import Child
from _multitables.benchmark.machine import environment, page_cache
from _multitables.benchmark.studies.targets import parts as target_parts


@pytest.mark.parametrize("huge_pages", [False, True])
def test_fio_that_is_not_there(
    huge_pages: bool, tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotMeasuredError, match="install fio"):
        streams.fio_read(tiny.filename, "io_uring", 2**20, huge_pages)


@pytest.fixture
def fake_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fio that reads nothing; the file it returns has the arguments of each call in a line."""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "fio"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"print(*sys.argv[1:], file=open({str(calls)!r}, 'a'))\n"
        "print(json.dumps({'jobs': [{'read': {'io_bytes': 2**20, 'bw_bytes': 2**20}}]}))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return calls


def free_huge_pages(monkeypatch: pytest.MonkeyPatch, free: int, size_bytes: int = 2**21) -> None:
    found = environment.HugePages(free, size_bytes)
    monkeypatch.setattr(environment, "huge_pages", lambda: found)


def test_fio_differs_in_its_buffers_only(
    fake_fio: Path, tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_huge_pages(monkeypatch, 4)
    for huge_pages in (False, True):
        assert streams.fio_read(tiny.filename, "libaio", 2**20, huge_pages).more["seconds"] == 1
    small, huge = fake_fio.read_text().splitlines()
    assert huge == f"{small} --iomem=mmaphuge"


@pytest.mark.parametrize(
    ("free", "size_bytes", "said"),
    [
        (3, 2**21, "3 of 4 huge pages are free: as root, echo 4 > /proc/sys/vm/nr_hugepages"),
        (0, 2**30, "0 of 1 huge pages are free: as root, echo 1 > /proc/sys/vm/nr_hugepages"),
        (0, 0, "this kernel has no huge pages"),
    ],
)
def test_fio_without_huge_pages_says_how_to_have_them(
    free: int,
    size_bytes: int,
    said: str,
    fake_fio: Path,
    tiny: Source,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free_huge_pages(monkeypatch, free, size_bytes)
    with pytest.raises(NotMeasuredError, match=said):
        streams.fio_read(tiny.filename, "libaio", 2**20, huge_pages=True)
    assert not fake_fio.exists()


@pytest.mark.parametrize("free", [0, 4])
def test_direct_io_is_set_beside_both_kinds_of_buffers(
    free: int, fake_fio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    if page_cache.direct_refusal(workloads.in_directory(TINY, str(tmp_path))):
        pytest.skip("the file system refuses O_DIRECT")
    free_huge_pages(monkeypatch, free)
    run = measured(study_run(tmp_path, *target_parts.direct(setting_in(tmp_path))))
    assert run.faults == []
    small, huge = run.targets
    assert small.what.startswith("direct, direct I/O, no filter, 1 process: multitables queue x1 /")
    assert " / fio " in small.what
    assert " / huge-page fio" in huge.what
    names = {row["contender"] for row in rows_of("targets")}
    assert {"fio io_uring", "fio libaio"} < names
    assert ({"huge-page fio io_uring", "huge-page fio libaio"} < names) == bool(free)
    if not free:
        assert (huge.measured, huge.verdict) == ("-", "not measured")
        assert "echo 4 > /proc/sys/vm/nr_hugepages" in huge.note
        assert run.text().count("Not measured: huge-page fio") == 2


def test_h5py_without_the_filter(tiny: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("h5py.h5z.filter_avail", lambda _number: False)
    with pytest.raises(NotMeasuredError, match="pip install hdf5plugin"):
        streams.h5py_read(tiny).check()


def test_an_old_release_that_cannot_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(command: Sequence[str], **_options: Any) -> Any:
        failed = "pip" in command
        return subprocess.CompletedProcess(command, failed, "", "no network" * failed)

    monkeypatch.setattr("subprocess.run", no_network)
    with pytest.raises(NotMeasuredError, match="no network"):
        old_release.interpreter(str(tmp_path / "old"))


def test_an_old_release_of_a_later_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_release, "SUITABLE", "raise SystemExit(1)")
    with pytest.raises(NotMeasuredError, match=r"Python 3.10 and 3.11 only; put python3.11 in"):
        old_release.interpreter(str(tmp_path / "old"))
    assert not (tmp_path / "old").exists()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(NotMeasuredError, match=r"is not 3.10 or 3.11.*name another one"):
        old_release.interpreter(str(tmp_path))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import os; os._exit(3)", "exit status 3"),
        ("import time; time.sleep(60)", "no answer within"),
    ],
)
def test_a_child_that_fails(code: str, said: str, tiny: Source, tmp_path: Path) -> None:
    (tmp_path / "multitables.py").write_text(code)
    stream = streams.ChildStream(
        tiny, "x", "queue", 1, module_directory=str(tmp_path), timeout_seconds=1.5
    )
    with pytest.raises(ContenderError, match=said):
        stream.check()


def test_shared_memory_that_a_child_leaves_is_removed(tiny: Source, tmp_path: Path) -> None:
    name = f"/dev/shm/multitables_test_{os.getpid()}"
    (tmp_path / "multitables.py").write_text(
        "import mmap, os\n"
        f"file = os.open({name!r}, os.O_CREAT | os.O_RDWR)\n"
        "os.ftruncate(file, 4096)\n"
        "kept = mmap.mmap(file, 4096)\n"
    )
    with Child(sys.executable, str(tmp_path), 10) as child:
        child.ask(verb="version")
        assert os.path.exists(name)
    assert not os.path.exists(name)


def test_what_a_child_raises_and_prints_is_told_apart(tiny: Source, tmp_path: Path) -> None:
    (tmp_path / "multitables.py").write_text(
        "print('noise')\nclass Streamer:\n    def __init__(self, filename):\n        1 / 0\n"
    )
    stream = streams.ChildStream(tiny, "x", "queue", 1, module_directory=str(tmp_path))
    with pytest.raises(ContenderError, match="ZeroDivisionError"):
        stream.check()
