"""A file as a disk with one of the kernel's own I/O schedulers: a loop device with ext4 on it.

Law
---
1. Reads and writes pass the scheduler as those of any disk, and go on to the file around the page
   cache: what lies behind is asked for what the scheduler sends, in its order.
2. It needs root, and says why it cannot be had.
3. Nothing of it is left when the block is.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

DEVICE_BYTES = 64 << 30
#: How often to try before the end is left to the kernel.
LOOKS = 50


class NoDeviceError(RuntimeError):
    """No such device can be had here; the message says why."""


@contextlib.contextmanager
def scheduled(file: Path, where: Path, scheduler: str) -> Iterator[Path]:
    """Make `file`, and from it a disk whose folder is `where`, until the block is left.

    Raises
    ------
    NoDeviceError
    """
    with contextlib.ExitStack() as stack:
        with file.open("wb") as new:
            new.truncate(DEVICE_BYTES)  # a hole: it takes no room before it is written to
        device = _call("losetup", "--direct-io=on", "--find", "--show", str(file))
        stack.callback(_call, "losetup", "--detach", device)
        queue = Path("/sys/block", Path(device).name, "queue")
        try:
            (queue / "scheduler").write_text(scheduler)
            (queue / "rotational").write_text("1")
        except OSError as error:
            known = (queue / "scheduler").read_text().split()
            raise NoDeviceError(f"no scheduler {scheduler!r} of {known}: {error}") from error
        # Nothing is left to be written later, while it is read.
        _call("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", device)
        where.mkdir()
        stack.callback(where.rmdir)
        _call("mount", device, str(where))
        stack.callback(_unmount, where)
        yield where


def _unmount(where: Path) -> None:
    """At once, or when the last one who still uses it has ended."""
    for _ in range(LOOKS):
        with contextlib.suppress(NoDeviceError):
            _call("umount", str(where))
            return
        time.sleep(0.1)
    _call("umount", "--lazy", str(where))


def _call(*command: str) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NoDeviceError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        raise NoDeviceError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()
