"""The page cache: what of a file lies in it, forgetting and filling it, and going around it.

Law
---
1. A cache state is what mincore reports, never an assumption.
2. It asks the kernel about files, and does not know who reads them.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence

import numpy as np

PAGE_BYTES = mmap.PAGESIZE
COLD_FRACTION = 0.01  # below this a file counts as cold, above 1 - this as warm


def resident_fraction(filename: str) -> float:
    """The part of the file's pages that lie in the page cache (mincore), 0 to 1."""
    size_bytes = os.path.getsize(filename)
    if size_bytes == 0:
        return 0.0
    pages = -(-size_bytes // PAGE_BYTES)
    found = np.zeros(pages, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    with open(filename, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    window = np.frombuffer(mapped, np.uint8)
    try:
        failed = libc.mincore(
            ctypes.c_void_p(window.ctypes.data),
            ctypes.c_size_t(size_bytes),
            ctypes.c_void_p(found.ctypes.data),
        )
        if failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), filename)
    finally:
        del window
        mapped.close()
    return float(np.mean(found & 1))


def drop_page_cache(filename: str) -> None:
    """Ask the kernel to forget the file's pages; written ones are brought to the device first."""
    descriptor = os.open(filename, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def fill_page_cache(filename: str) -> None:
    """Read the file once, so that its pages are in the page cache."""
    with open(filename, "rb", buffering=0) as file:
        room = bytearray(2**22)
        while file.readinto(room):
            pass


def resident_fraction_of(filenames: Sequence[str]) -> float:
    """The part of all these files' bytes that lies in the page cache, 0 to 1."""
    sizes = [os.path.getsize(filename) for filename in filenames]
    resident = [size * resident_fraction(one) for one, size in zip(filenames, sizes, strict=True)]
    return sum(resident) / max(1, sum(sizes))


def cache_state(filename: str) -> str:
    """``cold``, ``warm`` or how much of the file is in the page cache."""
    return cache_state_of([filename])


def cache_state_of(filenames: Sequence[str]) -> str:
    """The same of several files that are read together."""
    fraction = resident_fraction_of(filenames)
    if fraction <= COLD_FRACTION:
        return "cold"
    return "warm" if fraction >= 1 - COLD_FRACTION else f"{fraction:.0%} in the page cache"


def direct_refusal(filename: str) -> str:
    """Why the file cannot be read with O_DIRECT; empty when it can."""
    room = mmap.mmap(-1, PAGE_BYTES)  # a mapping is aligned, as O_DIRECT wants it
    try:
        descriptor = os.open(filename, os.O_RDONLY | os.O_DIRECT)
        try:
            os.preadv(descriptor, [room], 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return f"the file system refuses O_DIRECT ({os.strerror(error.errno)})"
        raise
    finally:
        room.close()
    return ""
