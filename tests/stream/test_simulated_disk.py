"""The simulated disk itself: a folder like others, and nothing is left of it."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import simulated_disk
from disk_cases import forget, spinning
from processes import alive, run_script, wait_until
from simulated_disk import Mounted

SUPPORT = Path(simulated_disk.__file__).parent


def test_a_folder_like_others(disk: Mounted) -> None:
    data = os.urandom(3_000_001)
    (disk.path / "a").mkdir()
    (disk.path / "a" / "b").write_bytes(data)
    with open(disk.path / "a" / "b", "r+b") as file:
        file.seek(1_000_000)
        file.write(b"here")
        file.truncate(2_000_000)
    want = data[:1_000_000] + b"here" + data[1_000_004:2_000_000]
    (disk.path / "a" / "b").rename(disk.path / "c")
    forget(disk.path / "c")
    assert (disk.path / "c").read_bytes() == want == (disk.backing / "c").read_bytes()
    assert disk.told()["bytes"] >= 2_000_000
    assert sorted(os.listdir(disk.path)) == ["a", "c"]
    os.utime(disk.path / "c", (5, 6))
    os.chmod(disk.path / "c", 0o640)
    status = os.stat(disk.path / "c")
    assert (status.st_mtime, status.st_mode & 0o777, status.st_size) == (6, 0o640, 2_000_000)
    (disk.path / "a").rmdir()
    (disk.path / "c").unlink()
    assert os.listdir(disk.path) == os.listdir(disk.backing) == []
    with pytest.raises(FileNotFoundError):
        (disk.path / "c").read_bytes()
    with h5py.File(disk.path / "new.h5", "w") as file:
        file["x"] = np.arange(100_000)
    with h5py.File(disk.path / "new.h5") as file:
        assert np.array_equal(file["x"][:], np.arange(100_000))


def test_direct_reads_are_of_whole_sectors(disk: Mounted) -> None:
    data = os.urandom(20_000)
    (disk.backing / "x").write_bytes(data)
    descriptor = os.open(disk.path / "x", os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, 32_768) as room:
        assert os.preadv(descriptor, [room], 8192) == len(data) - 8192
        assert room[: len(data) - 8192] == data[8192:]
        with pytest.raises(OSError, match="Invalid argument"):
            os.preadv(descriptor, [room], 4097)
        with pytest.raises(OSError, match="Invalid argument"), memoryview(room) as view:
            os.preadv(descriptor, [view[:100]], 0)
    os.close(descriptor)


def test_a_pace_makes_it_wait(tmp_path: Path) -> None:
    """Not how long, but that it is not sooner than the disk allows."""
    import time

    with spinning(tmp_path, pace=1.0, bytes_per_second=50e6) as disk:
        (disk.backing / "x").write_bytes(bytes(10_000_000))
        begin = time.monotonic()
        (disk.path / "x").read_bytes()
        assert time.monotonic() - begin > 0.1


ORPHAN = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from simulated_disk import mounted
with mounted(Path(sys.argv[1])) as disk:
    print(disk.process.pid, flush=True)
    time.sleep(60)
"""


def test_it_ends_with_its_parent(tmp_path: Path, disk: Mounted) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    command = [sys.executable, "-c", ORPHAN, str(inside), str(SUPPORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.path.ismount(inside / "disk")
        parent.kill()
    wait_until(lambda: not alive(pid), "the end of the disk")
    assert not os.path.ismount(inside / "disk")


def test_nothing_is_left_when_it_dies_itself(tmp_path: Path) -> None:
    with spinning(tmp_path) as disk:
        os.kill(disk.process.pid, signal.SIGKILL)
    assert not (tmp_path / "disk").exists()


@pytest.mark.parametrize("scheduler", [None, "mq-deadline", "no-such"])
def test_the_program_runs_a_command(tmp_path: Path, disk: Mounted, scheduler: str | None) -> None:
    program = SUPPORT / "simulated_disk.py"
    code = "import sys; open(sys.argv[1] + '/x', 'wb').write(bytes(99)); print(sys.argv[1])"
    given = ["--directory", str(tmp_path), "--pace", "0"]
    given += [] if scheduler is None else ["--scheduler", scheduler]
    given += ["--run", "--", sys.executable, "-c", code]
    done = subprocess.run(
        [sys.executable, str(program), *given, "{mount}"],
        capture_output=True,
        text=True,
        check=True,
    )
    if scheduler is not None and "SKIPPED" in done.stderr:
        assert list(tmp_path.iterdir()) == [disk.path, disk.backing]
        if scheduler == "no-such":
            return
        pytest.skip(done.stderr)
    assert scheduler != "no-such"
    assert "the disk was busy for" in done.stderr
    where = Path(done.stdout.strip())
    assert not where.exists()
    assert not where.parent.exists()


def test_without_fuse_it_says_so(tmp_path: Path) -> None:
    done = run_script(
        "import sys, os\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "import fuse_protocol\n"
        "def refuse(where): raise OSError('no /dev/fuse here')\n"
        "fuse_protocol.mount = refuse\n"
        "import simulated_disk\n"
        "from pathlib import Path\n"
        "simulated_disk.serve(Path(sys.argv[1]), Path(sys.argv[1]), None, 0.0)\n",
        tmp_path,
        SUPPORT,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("no /dev/fuse here")
