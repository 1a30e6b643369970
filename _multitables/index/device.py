"""What kind of device holds a file, as far as reading order depends on it.

Law
---
1. Knows sysfs and open flags; never reads a file's data.
2. When in doubt a device does not rotate: virtual disks say that they do, and do not.
3. What lies over other devices (LVM, dm-crypt, RAID) rotates when all of these do and each byte
   is read from one of them: striped disks seek on their own.
"""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

from _multitables.errors import OptionsError

#: RAID levels of md at which the bytes of one disk follow each other as in the file.
ONE_AFTER_THE_OTHER = ("raid1", "linear")


def rotates(filename: str, sysfs: str = "/sys") -> bool:
    """True when `filename` lies on a single rotating disk, where parallel reads would seek."""
    try:
        return _number_rotates(os.stat(filename).st_dev, sysfs)
    except (OSError, ValueError, RuntimeError):
        return False


@functools.lru_cache(maxsize=64)  # two dozen looks at sysfs, for each of many small streams
def _number_rotates(number: int, sysfs: str) -> bool:
    node = Path(sysfs, "dev", "block", f"{os.major(number)}:{os.minor(number)}")
    return _device_rotates(node.resolve(strict=True), Path(sysfs, "class", "block"))


def _device_rotates(device: Path, devices: Path) -> bool:
    """The same of a device's folder in sysfs; `devices` has all of them."""
    if (device / "partition").exists():
        return _device_rotates(device.parent, devices)
    below = [held.parent.parent for held in devices.glob(f"*/holders/{device.name}")]
    if below:
        level = device / "md" / "level"
        if level.exists() and _text(level) not in ONE_AFTER_THE_OTHER:
            return False
        return all(_device_rotates(one.resolve(strict=True), devices) for one in below)
    if not device.name.startswith("sd") or "virtio" in str(device):
        return False
    return _text(device / "queue" / "rotational") == "1"


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def check_direct(filename: str, option: str = "DRIVER='H5FD_DIRECT'") -> None:
    """Raise if the file system refuses direct I/O, which an option of the user's asks for."""
    if refuses_direct(filename):
        raise OptionsError(
            f"the file system of {filename!r} refuses direct I/O (O_DIRECT)",
            advice=f"Leave {option} out, or put the file on another file system",
            filename=filename,
        )


def refuses_direct(filename: str) -> bool:
    """True when the file system does not open `filename` for direct I/O."""
    try:
        descriptor = os.open(filename, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as error:
        return error.errno == errno.EINVAL
    os.close(descriptor)
    return False
