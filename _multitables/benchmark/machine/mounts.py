"""Where a file lies: the mount that holds it, as /proc tells.

Law
---
1. It reads mountinfo (proc(5)) and nothing else; what a device is stands in `devices`.
2. What cannot be found out is "unknown".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

UNKNOWN = "unknown"
MEMORY_KINDS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


class Mount(NamedTuple):
    """A mount.

    ``number`` is ``major:minor`` of the device; its major number is 0 where the file system has no
    block device of its own (btrfs and others, that know theirs in other ways, among them).
    ``root`` is the directory of the file system that is seen at ``directory``.
    """

    source: str
    directory: str
    kind: str
    number: str = ""
    options: str = ""
    root: str = "/"

    def option(self, name: str) -> str:
        """The value of a mount option of the file system; empty without it."""
        found = re.search(rf"(?:^|,){re.escape(name)}=([^,]*)", self.options)
        return found[1] if found else ""


def mounts(mountinfo: str | None = None) -> Iterator[Mount]:
    """All mounts, in the order they were made."""
    for line in (mountinfo if mountinfo is not None else _mountinfo()).split("\n"):
        left, separator, right = line.partition(" - ")
        if not separator:
            continue
        _, _, number, root, directory = left.split()[:5]
        kind, source, options = [*right.split(), "", ""][:3]
        source, directory, options, root = map(_unescape, (source, directory, options, root))
        yield Mount(source, directory, kind, number, options, root)


def mount_of(filename: str, mountinfo: str | None = None) -> Mount:
    """The mount that holds `filename`, which need not exist yet."""
    target = os.path.realpath(filename)
    best = Mount(UNKNOWN, "", UNKNOWN)
    for one in mounts(mountinfo):
        inside = target == one.directory or target.startswith(one.directory.rstrip("/") + "/")
        # a later mount over the same directory hides the earlier one
        if inside and len(one.directory) >= len(best.directory):
            best = one
    return best


def in_memory(filename: str) -> bool:
    """Whether the file system keeps its files in memory, so that no device is measured."""
    return mount_of(filename).kind in MEMORY_KINDS


def _mountinfo() -> str:
    try:
        with open("/proc/self/mountinfo", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
