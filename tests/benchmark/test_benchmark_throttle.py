"""The throttle of the device: who is in which group, what is written there, and what is left.

Law
---
1. Nothing is timed. Where the kernel's groups may be written they are; the other version's
   interface is a directory that looks like it.
2. Whatever happens inside, this process is in its old group afterwards, and the new one is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from _multitables.benchmark.machine import devices, throttle
from _multitables.benchmark.machine.devices import Device
from _multitables.benchmark.machine.throttle import CannotLimitError, Control

BLKIO = "31 23 0:35 {root} /cg/blkio rw - cgroup cgroup rw,blkio\n"
UNIFIED = "41 31 0:38 {root} {directory} rw - cgroup2 cgroup2 rw\n"


@pytest.fixture
def writable(tmp_path: Path) -> Control:
    """The control of this machine, where it can be used."""
    try:
        found = throttle.control()
        with throttle.limited(str(tmp_path), 2**30, found):
            return found
    except CannotLimitError as error:
        pytest.skip(str(error))


def groups() -> str:
    return Path("/proc/self/cgroup").read_text()


def test_this_process_and_its_children_are_limited_and_come_back(
    writable: Control, tmp_path: Path
) -> None:
    before, standing = groups(), set(os.listdir(writable.parent))
    number = devices.describe(str(tmp_path)).number
    with throttle.limited(str(tmp_path), 1e9):
        assert groups() != before
        (made,) = set(os.listdir(writable.parent)) - standing
        group = Path(writable.parent, made)
        limit = (group / writable.setting).read_text().split()
        assert limit[0] == number
        assert limit[1].endswith("1000000000")
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            assert str(child.pid) in (group / throttle.PROCESSES).read_text().split()
            child.communicate(b"\n")
    assert groups() == before
    assert set(os.listdir(writable.parent)) == standing


def test_a_child_that_goes_on_is_brought_along(writable: Control, tmp_path: Path) -> None:
    before, standing = groups(), set(os.listdir(writable.parent))
    with throttle.limited(str(tmp_path), 10**9):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        assert Path(f"/proc/{child.pid}/cgroup").read_text() == before
        child.communicate(b"\n")
    assert set(os.listdir(writable.parent)) == standing


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_inside_leaves_nothing(
    writable: Control, tmp_path: Path, error: type[BaseException]
) -> None:
    before, standing = groups(), set(os.listdir(writable.parent))
    with pytest.raises(error), throttle.limited(str(tmp_path), 10**9):
        raise error
    assert groups() == before
    assert set(os.listdir(writable.parent)) == standing


def test_a_limit_that_the_kernel_refuses_is_said(writable: Control, tmp_path: Path) -> None:
    before, standing = groups(), set(os.listdir(writable.parent))
    wrong = Control(writable.own, writable.parent, writable.setting, "no limit", enables=False)
    with (
        pytest.raises(CannotLimitError, match=r"the kernel refuses .*systemd-run"),
        throttle.limited(str(tmp_path), 10**9, wrong),
    ):
        pytest.fail("a limit that was refused must not be entered")
    assert groups() == before
    assert set(os.listdir(writable.parent)) == standing


@pytest.mark.parametrize("passed_on", ["", "cpu io"])
def test_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed_on: str) -> None:
    parent, own = tmp_path / "cg", tmp_path / "cg" / "mine"
    own.mkdir(parents=True)
    (parent / "cgroup.controllers").write_text("cpu io memory\n")
    switch = parent / "cgroup.subtree_control"
    switch.write_text(passed_on)
    written: list[tuple[str, str]] = []
    write = throttle._write

    def note(filename: str, text: str) -> None:
        written.append((os.path.basename(filename), text))
        write(filename, text)

    remove_empty = os.rmdir

    def remove(directory: str) -> None:  # the kernel's groups hold files, and go all the same
        for filename in Path(directory).iterdir():
            filename.unlink()
        remove_empty(directory)

    monkeypatch.setattr(throttle, "_write", note)
    monkeypatch.setattr(os, "rmdir", remove)
    disk = Device("SATA HDD", (), "", (), True, "ext4", "/", "8:16")
    monkeypatch.setattr(devices, "describe", lambda _name: disk)
    found = throttle.control(UNIFIED.format(root="/", directory=parent), "0::/mine\n")
    assert (found.own, found.parent) == (str(own), str(parent))
    me = str(os.getpid())
    with throttle.limited("/data", 5 * 10**6, found):
        (group,) = parent.glob("multitables_benchmark_*")
        assert (group / "io.max").read_text() == "8:16 rbps=5000000"
        assert (group / "cgroup.procs").read_text() == me
    assert (own / "cgroup.procs").read_text() == me
    assert not group.exists()
    switched = [text for name, text in written if name == "cgroup.subtree_control"]
    assert switched == ([] if passed_on else ["+io", "-io"])


def test_the_control_is_found_by_the_mounts(tmp_path: Path) -> None:
    mine = "9:name=systemd:/x\n7:blkio,cpu:/mine\n0::/u\n"
    both = UNIFIED.format(root="/", directory=tmp_path) + BLKIO
    found = throttle.control(both.format(root="/"), mine)
    assert (found.own, found.parent) == ("/cg/blkio/mine", "/cg/blkio/mine")
    # a container sees only its own part, and its own name within or without it
    assert throttle.control(both.format(root="/mine"), mine).own == "/cg/blkio"
    assert throttle.control(both.format(root="/docker/a"), mine).own == "/cg/blkio"


@pytest.mark.parametrize("controllers", ["", "cpu memory"])
def test_no_control_is_said(tmp_path: Path, controllers: str) -> None:
    (tmp_path / "cgroup.controllers").write_text(controllers)
    mountinfo = UNIFIED.format(root="/", directory=tmp_path)
    with pytest.raises(CannotLimitError, match="systemd-run --scope"):
        throttle.control(mountinfo, "0::/\n")
    with pytest.raises(CannotLimitError, match="systemd-run --scope"):
        throttle.control("", "")


def test_only_a_block_device_is_limited() -> None:
    with (
        pytest.raises(CannotLimitError, match=r"/proc.* is not a single block device"),
        throttle.limited("/proc", 10**6),
    ):
        pytest.fail("nothing can be limited there")
