"""What holds a file: whether the device rotates, allows direct I/O, or is not needed at all.

Law
---
1. Asks sysfs, `open` and the page cache; never waits for a device.
2. In doubt a device does not rotate: virtual disks say that they do, but they do not.
3. A device over others (LVM, dm-crypt, RAID) rotates if all of them do and one of them holds each
   byte next to its neighbours: the disks of a striped device seek independently.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Sequence
from pathlib import Path

from _multitables._core import Descriptor
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import SourceFile

#: RAID levels of md that keep neighbouring bytes on one disk.
ONE_AFTER_THE_OTHER = ("raid1", "linear")


def rotates(filename: str, sysfs: str = "/sys") -> bool:
    """True when `filename` lies on a single rotating disk, where parallel reads would seek."""
    try:
        return number_rotates(os.stat(filename).st_dev, sysfs)
    except OSError:
        return False


@functools.lru_cache(maxsize=64)  # streams of many small datasets ask again and again
def number_rotates(number: int, sysfs: str = "/sys") -> bool:
    """Whether the device of this number is a single rotating disk."""
    node = Path(sysfs, "dev", "block", f"{os.major(number)}:{os.minor(number)}")
    try:
        return _device_rotates(node.resolve(strict=True), Path(sysfs, "class", "block"))
    except (OSError, ValueError, RuntimeError):
        return False


def _device_rotates(device: Path, devices: Path) -> bool:
    """Tell the same of a device's folder in sysfs; `devices` holds the folders of all."""
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


def is_cached(of: SourceFile, offsets: Sequence[int]) -> bool:
    """Say whether the page cache has these bytes of a file, without a read from the device."""
    opened = of.fingerprint.opened
    if opened is not None and opened.descriptor is not None:
        return opened.has_cached(offsets)
    byte = bytearray(1)
    try:
        file = Descriptor.open(of.filename, os.O_RDONLY)
        return all(os.preadv(file.fileno(), [byte], at, os.RWF_NOWAIT) == 1 for at in offsets)
    except (OSError, AttributeError):
        return False


def check_direct(filename: str, option: str = "DRIVER='H5FD_DIRECT'") -> None:
    """Raise if the file system refuses the direct I/O for which the user's `option` asks."""
    if refuses_direct(filename):
        raise OptionsError(
            f"the file system of {filename!r} refuses direct I/O (O_DIRECT)",
            advice=f"Leave {option} out, or put the file on another file system",
            filename=filename,
        )


def refuses_direct(filename: str) -> bool:
    """True when the file system does not open `filename` for direct I/O."""
    try:
        Descriptor.open(filename, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        return error.errno == errno.EINVAL
    return False
