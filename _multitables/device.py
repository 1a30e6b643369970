"""What kind of device holds a file, as far as reading order depends on it.

Law
---
1. Knows sysfs and open flags; never reads a file's data.
2. When in doubt a device does not rotate: virtual disks say that they do, and do not.
"""

from __future__ import annotations

import errno
import os


def rotates(filename: str) -> bool:
    """True when `filename` lies on a single rotating disk, where parallel reads would seek."""
    try:
        number = os.stat(filename).st_dev
        node = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
        real = os.path.realpath(node)
        disk = real if os.path.exists(f"{real}/queue") else os.path.dirname(real)
        if not os.path.basename(disk).startswith("sd") or "/virtio" in disk:
            return False
        with open(f"{disk}/queue/rotational", encoding="ascii") as file:
            return file.read().strip() == "1"
    except (OSError, ValueError):
        return False


def refuses_direct(filename: str) -> bool:
    """True when the file system does not open `filename` for direct I/O."""
    try:
        descriptor = os.open(filename, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as error:
        return error.errno == errno.EINVAL
    os.close(descriptor)
    return False
