"""What a file lies on: its disks, through partitions, mappings and RAID, and a name for all that.

Law
---
1. It reads /sys and the mounts, and measures nothing.
2. What cannot be found out is "unknown" or None, never guessed.
3. What is known of mappings and file systems stands in tables; of single disks, in `disks`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, replace

from _benchmark.machine.disks import Disk, disk_of, read
from _benchmark.machine.mounts import MEMORY_KINDS, UNKNOWN, Mount, mount_of

# file systems without a block device here
NETWORK_KINDS = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "afs"),
    *("orangefs", "pvfs2", "panfs", "wekafs", "coda"),
)
HOST_KINDS = ("9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs")
# (prefix of a mapping's uuid, what it is)
MAPPINGS = (
    ("LVM-", "LVM"),
    ("CRYPT-", "crypt"),
    ("mpath-", "multipath"),
    ("DMRAID-", "dmraid"),
)


@dataclass(frozen=True)
class Device:
    """What a file lies on.

    Attributes
    ----------
    name : str
        For people and for the heads of tables: ``NVMe SSD``, ``2x SATA SSD in raid1``.
    disks : tuple of Disk
        Empty where they cannot be seen, and for memory.
    raid : str
        The level; empty without RAID, "unknown" where it cannot be seen.
    layers : tuple of str
        What lies between the file system and the disks, from the top: ``dm-0 crypt``.
    rotational : bool or None
    filesystem, mount : str
        Its kind, and its directory.
    number : str
        ``major:minor`` of the uppermost whole block device; empty without one.
    schedulers : tuple of str
        The kernel's I/O schedulers of the block devices, from the top; ``none`` where there is
        none.
    """

    name: str
    disks: tuple[Disk, ...]
    raid: str
    layers: tuple[str, ...]
    rotational: bool | None
    filesystem: str
    mount: str
    number: str = ""
    schedulers: tuple[str, ...] = ()

    @property
    def scheduler(self) -> str:
        """The schedulers in use, or ``none``; "unknown" where no block device is seen."""
        used = [one for one in self.schedulers if one != "none"]
        return ", ".join(used) or ("none" if self.schedulers else UNKNOWN)

    def __str__(self) -> str:
        """One line with the name, the disks and the layers."""
        disks = ", ".join(map(str, self.disks))
        layers = f"; {' on '.join(self.layers)}" if self.layers else ""
        return self.name + (f": {disks}" if disks else "") + layers


def describe(filename: str, sysfs: str = "/sys", mountinfo: str | None = None) -> Device:
    """What the file or directory `filename` lies on; it need not exist yet.

    Parameters
    ----------
    filename : str
    sysfs : str, optional
        The directory to be read as /sys.
    mountinfo : str, optional
        The text to be read as /proc/self/mountinfo.
    """
    return _Machine(sysfs, mountinfo).device(filename)


@dataclass(frozen=True)
class _Stack:
    """A block device with all below it. ``loop`` is the name of what a loop device's file is on."""

    disks: tuple[Disk, ...]
    raid: str = ""
    layers: tuple[str, ...] = ()
    loop: str = ""
    schedulers: tuple[str, ...] = ()

    @property
    def rotational(self) -> bool | None:
        found = {disk.rotational for disk in self.disks}
        return found.pop() if len(found) == 1 else None

    @property
    def name(self) -> str:
        one = len(self.disks) == 1
        kinds = Counter(disk.kind for disk in self.disks)
        text = " and ".join(kind if one else f"{n}x {kind}" for kind, n in kinds.items())
        if self.loop:
            text = f"loop device on {self.loop}"
        if self.raid not in ("", UNKNOWN):
            text += f" in {self.raid}" if self.raid not in text else ""
        elif not one and not self.loop:
            text += f" joined by {self.layers[0]}"
        encrypted = any(layer.endswith(" crypt") for layer in self.layers)
        return text + (", encrypted" if encrypted and "encrypted" not in text else "")


def _above(layer: str, level: str, below: list[_Stack]) -> _Stack:
    """The stack with one layer more; a level over another is said as ``raid0 over raid1``."""
    disks = tuple(dict.fromkeys(disk for one in below for disk in one.disks))
    inner = tuple(dict.fromkeys(layer for one in below for layer in one.layers))
    levels = list(dict.fromkeys([level, *(one.raid for one in below)]))
    told = [one for one in levels if one not in ("", UNKNOWN)]
    raid = " over ".join(told) if told else UNKNOWN if UNKNOWN in levels else ""
    loop = next((one.loop for one in below if one.loop), "")
    schedulers = tuple(dict.fromkeys(name for one in below for name in one.schedulers))
    return _Stack(disks, raid, (layer, *inner), loop, schedulers)


class _Machine:
    """The block devices below a directory that looks like /sys, and the mounts of a text."""

    def __init__(self, sysfs: str, mountinfo: str | None) -> None:
        self._sysfs = sysfs
        self._mountinfo = mountinfo

    def device(self, filename: str, loops: tuple[str, ...] = ()) -> Device:
        """What `filename` lies on; `loops` are the loop devices passed on the way."""
        mount = mount_of(filename, self._mountinfo)
        if mount.kind in MEMORY_KINDS:
            return _without(f"memory ({mount.kind})", mount, raid="", rotational=False)
        if mount.kind == "overlay":
            return self._overlay(mount, loops)
        blocks = self._blocks(mount)
        if not blocks:
            return _without(_kind_without_block(mount.kind), mount)
        stack = self._joined(mount, blocks, loops)
        return Device(
            stack.name,
            stack.disks,
            stack.raid,
            stack.layers,
            stack.rotational,
            mount.kind,
            mount.directory,
            _number(blocks),
            stack.schedulers,
        )

    def _overlay(self, mount: Mount, loops: tuple[str, ...]) -> Device:
        """Directories from elsewhere; new files go to the upper one, which may be in sight."""
        upper = mount.option("upperdir")
        if not os.path.isdir(upper) or mount_of(upper, self._mountinfo).kind == "overlay":
            return _without("overlay file system", mount)
        below = self.device(upper, loops)
        return Device(
            f"overlay file system on {below.name}",
            below.disks,
            below.raid,
            (f"overlay on {below.filesystem}", *below.layers),
            below.rotational,
            mount.kind,
            mount.directory,
            below.number,
            below.schedulers,
        )

    # ---- from a mount to block devices

    def _blocks(self, mount: Mount) -> list[str]:
        """The directories of the block devices that a mount stands on, mostly one."""
        block = f"{self._sysfs}/dev/block/{mount.number}"
        if mount.number and os.path.exists(block):
            return [os.path.realpath(block)]
        # the number is of no device: the source names one, or several (bcachefs)
        blocks = [one for one in map(self._named, mount.source.split(":")) if one]
        home = self._btrfs(mount, blocks)
        return _links(f"{home}/devices") if home else blocks

    def _named(self, source: str) -> str:
        """The directory of the block device ``/dev/sda1`` or ``/dev/mapper/home``; or nothing."""
        if not source.startswith("/"):
            return ""
        for name in (os.path.basename(os.path.realpath(source)), os.path.basename(source)):
            block = f"{self._sysfs}/class/block/{name}"
            if name and os.path.exists(block):
                return os.path.realpath(block)
        # a container may lack the links of /dev/mapper
        for block in _links(f"{self._sysfs}/class/block"):
            if os.path.basename(source) == read(f"{block}/dm/name"):
                return block
        return ""

    def _btrfs(self, mount: Mount, blocks: list[str]) -> str:
        """The directory of the btrfs file system that stands on a block device; or nothing."""
        if mount.kind != "btrfs" or not blocks:
            return ""
        for home in _links(f"{self._sysfs}/fs/btrfs"):
            if os.path.basename(blocks[0]) in _names(f"{home}/devices"):
                return home
        return ""

    # ---- from block devices to disks

    def _joined(self, mount: Mount, blocks: list[str], loops: tuple[str, ...]) -> _Stack:
        """The stack of a mount; a file system over several devices is a layer itself."""
        stacks = [self._stack(block, loops) for block in blocks]
        if len(stacks) == 1:
            return stacks[0]
        data = f"{self._btrfs(mount, blocks)}/allocation/data"
        profiles = [one for one in _names(data) if os.path.isdir(f"{data}/{one}")]
        # two of them while data is brought from one to the other
        level = profiles[0] if len(profiles) == 1 else UNKNOWN
        layer = mount.kind if level == UNKNOWN else f"{mount.kind} {level}"
        return _above(layer, "" if level == "single" else level, stacks)

    def _stack(self, block: str, loops: tuple[str, ...]) -> _Stack:
        """A block device with all below it."""
        if os.path.exists(f"{block}/partition"):
            return self._stack(os.path.dirname(block), loops)
        below = self._without_scheduler(block, loops)
        own = re.findall(r"\[(.+)\]", read(f"{block}/queue/scheduler"))
        return replace(below, schedulers=tuple(dict.fromkeys([*own, *below.schedulers])))

    def _without_scheduler(self, block: str, loops: tuple[str, ...]) -> _Stack:
        name = os.path.basename(block)
        if os.path.exists(f"{block}/loop"):
            return self._loop(block, loops)
        below = [self._stack(one, loops) for one in _links(f"{block}/slaves")]
        if not below:
            disk = disk_of(block)
            return _Stack((disk,), "" if disk.seen else UNKNOWN)
        level = read(f"{block}/md/level")
        if level:
            degraded = read(f"{block}/md/degraded") not in ("", "0")
            return _above(f"{name} {level}" + " (degraded)" * degraded, level, below)
        uuid = re.sub(r"^part\d+-", "", read(f"{block}/dm/uuid"))
        what = next((what for prefix, what in MAPPINGS if uuid.startswith(prefix)), "mapped")
        if what == "multipath":  # every path leads to the same disk
            return _above(f"{name} multipath of {len(below)}", "", below[:1])
        # the tables of mappings are not in /sys: stripes, mirrors and mere joints look the same
        return _above(f"{name} {what}", UNKNOWN if len(below) > 1 else "", below)

    def _loop(self, block: str, loops: tuple[str, ...]) -> _Stack:
        name = os.path.basename(block)
        backing = read(f"{block}/loop/backing_file")
        # in a container the path may lead elsewhere, to what stands on this device even
        if name in loops or not os.path.exists(backing):
            return _Stack((), UNKNOWN, (f"{name} loop",), "a file out of sight")
        below = self.device(backing, (*loops, name))
        layers = (f"{name} loop on {below.filesystem}", *below.layers)
        return _Stack(below.disks, below.raid, layers, below.name, below.schedulers)


def _without(
    name: str, mount: Mount, raid: str = UNKNOWN, rotational: bool | None = None
) -> Device:
    """A file system whose disks are not seen from here."""
    return Device(name, (), raid, (), rotational, mount.kind, mount.directory)


def _kind_without_block(kind: str) -> str:
    if kind in NETWORK_KINDS:
        return f"network file system ({kind})"
    if kind in HOST_KINDS:
        return f"directory of the virtual machine's host ({kind})"
    if kind.startswith("fuse"):
        program = kind.partition(".")[2]
        return f"FUSE file system ({program})" if program else "FUSE file system"
    return f"unknown device ({kind})"


def _number(blocks: list[str]) -> str:
    """``major:minor`` of the whole device, if it is one."""
    if len(blocks) != 1:
        return ""
    (block,) = blocks
    whole = os.path.dirname(block) if os.path.exists(f"{block}/partition") else block
    return read(f"{whole}/dev")


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _links(directory: str) -> list[str]:
    return [os.path.realpath(f"{directory}/{name}") for name in _names(directory)]
