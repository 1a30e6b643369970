"""What the kernel and a file system in user space say to each other through /dev/fuse.

Law
---
1. Numbers and layouts only, those of <linux/fuse.h>, version 7.31 (Linux 5.4 and later); and the
   system calls mount and umount.
2. It never opens a user's file and knows nothing of what a file system does.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import os
import shutil
import socket
import stat
import struct
import subprocess
from enum import IntEnum
from pathlib import Path

MAJOR, MINOR = 7, 31
ROOT = 1
#: The largest read or write that one request carries, and so the largest message.
MOST_BYTES = 1 << 20
MESSAGE_BYTES = MOST_BYTES + (1 << 16)
#: Capabilities: reads side by side, O_TRUNC in open, writes of more than a page, direct reads side
#: by side, look-ups side by side, requests of many pages.
WANTED = 1 << 0 | 1 << 3 | 1 << 5 | 1 << 15 | 1 << 18 | 1 << 22
BACKGROUND = 256
#: Nobody but this file system changes its files, so what it said of them stays true.
VALID_SECONDS = 3600

OPEN_DIRECT, OPEN_KEEP_CACHE = 1, 2
SET_MODE, SET_UID, SET_GID, SET_SIZE, SET_ATIME, SET_MTIME = 1, 2, 4, 8, 16, 32
SET_ATIME_NOW, SET_MTIME_NOW = 128, 256

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
ATTR = struct.Struct("<6Q10I")
ENTRY_TIMES = struct.Struct("<4Q2I")
ATTR_TIMES = struct.Struct("<Q2I")
OPEN_OUT = struct.Struct("<QII")
READ_IN = struct.Struct("<QQIIQII")
WRITE_OUT = struct.Struct("<II")
SETATTR_IN = struct.Struct("<IIQQQQQQIIIIIIII")
INIT_IN = struct.Struct("<IIII")
INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
STATFS_OUT = struct.Struct("<5Q4I24x")
DIRENT = struct.Struct("<QQII")


class Op(IntEnum):
    """The requests that there are answers to; others are answered with ENOSYS."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    RENAME2 = 45


#: These want no answer.
SILENT = (Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT)


def attr(status: os.stat_result) -> bytes:
    """What the kernel keeps of a file."""
    times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
    return ATTR.pack(
        status.st_ino,
        status.st_size,
        status.st_blocks,
        *(time // 10**9 for time in times),
        *(time % 10**9 for time in times),
        status.st_mode,
        status.st_nlink,
        status.st_uid,
        status.st_gid,
        0,
        4096,
        0,
    )


def entry(node: int, status: os.stat_result) -> bytes:
    """The answer to a look-up."""
    return ENTRY_TIMES.pack(node, 0, VALID_SECONDS, VALID_SECONDS, 0, 0) + attr(status)


def attr_out(status: os.stat_result) -> bytes:
    """The answer to a question for attributes."""
    return ATTR_TIMES.pack(VALID_SECONDS, 0, 0) + attr(status)


def init_out(body: bytes) -> bytes:
    """The answer to the first request; raises OSError for a kernel that is too old."""
    major, minor, read_ahead, offered = INIT_IN.unpack_from(body)
    if (major, minor) < (MAJOR, MINOR):
        raise OSError(f"the kernel speaks FUSE {major}.{minor}, older than {MAJOR}.{MINOR}")
    pages = MOST_BYTES // os.sysconf("SC_PAGE_SIZE")
    return INIT_OUT.pack(
        MAJOR,
        MINOR,
        read_ahead,
        offered & WANTED,
        BACKGROUND,
        BACKGROUND * 3 // 4,
        MOST_BYTES,
        1,
        pages,
        0,
        0,
    )


def dirent(number: int, name: bytes, status: os.stat_result) -> bytes:
    """One entry of a folder's listing; `number` is where the next one begins."""
    kind = stat.S_IFMT(status.st_mode) >> 12
    record = DIRENT.pack(status.st_ino, number, len(name), kind) + name
    return record.ljust(-(-len(record) // 8) * 8, b"\0")


def mount(where: Path) -> int:
    """Mount a new file system at `where`; returns the descriptor on which its requests come.

    Raises
    ------
    OSError
        There is no /dev/fuse, or this user may not mount.
    """
    if os.geteuid() != 0:
        return _mount_by_helper(where)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={MOST_BYTES}"
    libc = ctypes.CDLL(None, use_errno=True)
    nosuid, nodev = 2, 4
    kind = b"fuse.simulated_disk"
    if libc.mount(b"simulated_disk", bytes(where), kind, nosuid | nodev, options.encode()) != 0:
        os.close(device)
        number = ctypes.get_errno()
        raise OSError(number, f"cannot mount: {os.strerror(number)}")
    return device


def _mount_by_helper(where: Path) -> int:
    """Let the setuid program of the package fuse3 mount for an ordinary user."""
    if shutil.which("fusermount3") is None:
        raise OSError("there is no program fusermount3 (Debian: apt-get install fuse3)")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            ["fusermount3", "-o", f"fsname=simulated_disk,max_read={MOST_BYTES}", "--", where],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise OSError(f"fusermount3: {done.stderr.strip()}")
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        _, sent, _, _ = ours.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
        return array.array("i", sent[0][2])[0]


def unmount(where: Path) -> None:
    """Take the file system at `where` away, also one that is in use or dead; none is no error."""
    if os.geteuid() == 0:
        detach = 2
        ctypes.CDLL(None).umount2(bytes(where), detach)
        return
    with contextlib.suppress(OSError):
        command = ["fusermount3", "-u", "-z", "-q", "--", where]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
