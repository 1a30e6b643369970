"""A file of this machine for libraries, which open files by their names and lock them.

Law
---
1. A file that lost its name is opened through a descriptor of the parent. HDF5 refuses such
   a name: h5py reads a file object then, and PyTables a copy, as of objects of stores.
2. A file system may have no locks: a library takes none there, as the core.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence

from _multitables import _core

#: What file systems without locks answer; the last is Linux's ENOTSUPP, which NFS gives.
NO_LOCKS = {
    errno.ENOLCK,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EIO,
    errno.EBADFD,
    errno.EINVAL,
    524,
}


def opening_name(filename: str, identity: Sequence[int] | None) -> str:
    """Return a name that opens a file of this device and inode."""
    if identity is None or os.path.exists(filename):
        return filename
    return _core.name_of_unlinked(*identity) or filename


def is_unlinked(filename: str) -> bool:
    """Whether a name, which `opening_name` gave, is that of a descriptor."""
    return filename.startswith("/proc/")


def whole(filename: str) -> bytes:
    """Return all bytes of a file."""
    with open(filename, "rb") as file:
        return file.read()


def takes_locks(filename: str) -> bool:
    """Whether the file system of a file has the locks that HDF5 takes."""
    try:
        with open(filename, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in NO_LOCKS
    return True
