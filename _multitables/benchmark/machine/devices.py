"""What a file lies on: the disks below its mount, through partitions, mappings and RAID, by name.

Law
---
1. lsblk of util-linux tells the devices. Where that program is missing, /sys tells of the uppermost
   one. Nothing is measured.
2. What cannot be found out is "unknown" or None. The kernel's flag "rotational" is not believed of
   a device that stands for disks out of sight: virtual ones, USB bridges, arrays over a network.
3. What is known of disks stands in one table.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from _multitables.benchmark.machine.mounts import MEMORY_KINDS, UNKNOWN, Mount, mount_of

LSBLK = "lsblk"
BTRFS = "/sys/fs/btrfs"
COLUMNS = "KNAME,NAME,MAJ:MIN,TYPE,SUBSYSTEMS,TRAN,VENDOR,MODEL,ROTA,SCHED"
NETWORK_KINDS = (
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "afs"),
    *("orangefs", "pvfs2", "panfs", "wekafs", "coda"),
)
HOST_KINDS = ("9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs")
# (a pattern of what lsblk says, the disk's name). {} is HDD or SSD as the flag says; a name with
# SSD or memory never rotates; any other stands for disks, and perhaps RAID, out of sight.
KINDS = (
    (r"nvme-fabrics|^nvme.* (tcp|rdma|fc) ", "NVMe over a network"),
    (r"QEMU|VBOX|VMware|Virtual[ _]Disk|PersistentDisk|nvme_card-pd", "virtual disk"),
    (r"Elastic Block Store|MSFT NVMe Accelerator|BlockVolume|Virtio", "virtual disk"),
    (r"^x?vd[a-z]|\bvirtio|\bxen\b|\bvbd\b|\bvmbus\b", "virtual disk"),
    (r"PERC|RAID|\bMR\d{4}|LOGICAL VOLUME|Smart ?Array", "hardware RAID volume"),
    (r"^(nbd|d?rbd)\d", "network block device"),
    (r"\biscsi\b|/session\d", "iSCSI disk"),
    (r" fc |/rport-", "Fibre Channel disk"),
    (r"\busb\d?\b", "USB disk"),
    (r"\bsbp\b|\bfirewire\b", "FireWire disk"),
    (r"^(dm-|md)\d", "mapped device"),
    (r"^mmcblk", "memory card (SD or eMMC)"),
    (r"^pmem", "persistent memory"),
    (r"^z?ram\d", "memory (ramdisk)"),
    (r"^nvme", "NVMe SSD"),
    (r"\bs?ata\d?\b|\bATA\b", "SATA {}"),
    (r"\bsas\b", "SAS {}"),
    (r"", "{}"),
)


@dataclass(frozen=True)
class Device:
    """What a file lies on.

    Attributes
    ----------
    name : str
        For people and for the heads of tables: ``NVMe SSD``, ``2x SATA SSD in raid1``.
    disks : tuple of str
        With their models; empty where they cannot be seen, and for memory.
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
        The kernel's I/O schedulers of the block devices, from the top.
    """

    name: str
    disks: tuple[str, ...]
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
        layers = f"; {' on '.join(self.layers)}" if self.layers else ""
        return self.name + (f": {', '.join(self.disks)}" if self.disks else "") + layers


class Disk(NamedTuple):
    """A block device with nothing below it; `raid` is "unknown" where it stands for others."""

    text: str
    kind: str
    rotational: bool | None
    raid: str


def describe(filename: str, listed: str | None = None, mountinfo: str | None = None) -> Device:
    """What the file or directory `filename` lies on; it need not exist yet.

    Parameters
    ----------
    filename : str
    listed, mountinfo : str, optional
        The texts to be read in place of lsblk's answer and /proc/self/mountinfo.
    """
    mount = mount_of(filename, mountinfo)
    where = mount.kind, mount.directory
    if mount.kind in MEMORY_KINDS:
        return Device(f"memory ({mount.kind})", (), "", (), False, *where)
    upper = mount.option("upperdir") if mount.kind == "overlay" else ""
    if os.path.isdir(upper) and mount_of(upper, mountinfo).kind != "overlay":
        below = describe(upper, listed, mountinfo)
        name, layer = f"overlay file system on {below.name}", f"overlay on {below.filesystem}"
        layers = (layer, *below.layers)
        return replace(below, name=name, layers=layers, filesystem=where[0], mount=where[1])
    row = _row_of(mount, listed)
    if row is None:
        return Device(_kind_without_block(mount.kind), (), UNKNOWN, (), None, *where)
    if row["type"] == "part" and row.get("children"):
        (row,) = row["children"]

    def backing(name: str) -> Device | None:
        """What the file of a loop device lies on, unless its path leads elsewhere from here."""
        file = _read(f"/sys/block/{name}/loop/backing_file")
        seen = os.path.exists(file) and mount_of(file, mountinfo) != mount
        return describe(file, listed, mountinfo) if seen else None

    rows = list(_below(row))
    disks = tuple(dict.fromkeys(_disk(one, backing) for one in rows if not one.get("children")))
    layers = tuple(f"{one['kname']} {one['type']}" for one in rows if one.get("children"))
    told = [one["type"] for one in rows if one["type"].startswith("raid")]
    hidden = any(one.raid for one in disks) or len(disks) > 1
    raid = " over ".join(dict.fromkeys(told)) or (UNKNOWN if hidden else "")
    turning = {one.rotational for one in disks}
    return Device(
        name=_name(disks, raid, layers),
        disks=tuple(one.text for one in disks),
        raid=raid,
        layers=tuple(dict.fromkeys(layers)),
        rotational=turning.pop() if len(turning) == 1 else None,
        filesystem=where[0],
        mount=where[1],
        number=str(row["maj:min"]),
        schedulers=tuple(dict.fromkeys(one["sched"] for one in rows if one.get("sched"))),
    )


def _name(disks: Sequence[Disk], raid: str, layers: Sequence[str]) -> str:
    kinds = Counter(disk.kind for disk in disks)
    one = len(disks) == 1
    text = " and ".join(kind if one else f"{n}x {kind}" for kind, n in kinds.items())
    if raid not in ("", UNKNOWN):
        text += f" in {raid}"
    elif not one:
        text += f" joined by {layers[0]}"
    return text + ", encrypted" * any(layer.endswith(" crypt") for layer in layers)


def _row_of(mount: Mount, listed: str | None) -> dict[str, Any] | None:
    """What lsblk says of the device of a mount, which its number names, or else its source."""
    rows = _listed() if listed is None else json.loads(listed)["blockdevices"]
    if rows is None:
        return _by_sysfs(mount.number)
    everything = [one for row in rows for one in _nested(row)]
    names = {os.path.basename(mount.source), os.path.basename(os.path.realpath(mount.source))}
    for row in everything:
        if row["maj:min"] == mount.number:
            return dict(row)
    for row in everything:
        if mount.source.startswith("/") and names & {row["kname"], row["name"]}:
            return _btrfs(row, everything) if mount.kind == "btrfs" else dict(row)
    return None


def _btrfs(row: Mapping[str, Any], everything: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The devices of a btrfs file system, which is a layer over them where they are several."""
    for members in _directories(f"{BTRFS}/*/devices"):
        names = os.listdir(members)
        if row["kname"] in names and len(names) > 1:
            data = os.path.join(os.path.dirname(members), "allocation", "data")
            level = [os.path.basename(one) for one in _directories(f"{data}/*")]
            # there are two of them while data is brought from one to the other
            kind = level[0] if len(level) == 1 else "btrfs"
            below = {one["kname"]: one for one in everything if one["kname"] in names}
            top = {"kname": "btrfs", "name": "btrfs", "maj:min": "", "type": kind}
            return {**top, "children": list(below.values())}
    return dict(row)


def _directories(pattern: str) -> list[str]:
    return [one for one in sorted(glob.glob(pattern)) if os.path.isdir(one)]


def _listed() -> list[dict[str, Any]] | None:
    """All block devices, each with those below it as its children; None without lsblk."""
    words = [LSBLK, "--json", "--inverse", "--output", COLUMNS]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found: list[dict[str, Any]] = json.loads(done.stdout)["blockdevices"]
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError):
        return None
    return found


def _by_sysfs(number: str) -> dict[str, Any] | None:
    """What /sys says of one block device, in lsblk's words."""
    block = os.path.realpath(f"/sys/dev/block/{number}")
    if not number or not os.path.exists(block):
        return None
    if os.path.exists(f"{block}/partition"):
        block = os.path.dirname(block)
    found: dict[str, Any] = {"kname": os.path.basename(block), "name": "", "subsystems": block}
    found |= {"maj:min": _read(f"{block}/dev"), "rota": _read(f"{block}/queue/rotational")}
    found |= {name: _read(f"{block}/device/{name}") for name in ("vendor", "model")}
    used = re.search(r"\[(.+)\]", _read(f"{block}/queue/scheduler"))
    kind = "loop" if os.path.exists(f"{block}/loop") else "disk"
    return {**found, "type": kind, "sched": used[1] if used else ""}


def _below(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A device and all below it but partitions; all paths to a disk lead to the same one."""
    children = row.get("children", [])
    if row["type"] != "part" or not children:
        yield row
    for child in children[:1] if row["type"] == "mpath" else children:
        yield from _below(child)


def _nested(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A row and all rows in it."""
    yield row
    for child in row.get("children", []):
        yield from _nested(child)


def _disk(row: Mapping[str, Any], backing: Callable[[str], Device | None]) -> Disk:
    """The disk that lsblk's row tells of."""
    if row["type"] == "loop":
        file = backing(row["kname"])
        on = file.name if file else "a file out of sight"
        turns = file.rotational if file else None
        return Disk(row["kname"], f"loop device on {on}", turns, file.raid if file else UNKNOWN)
    words = {name: str(row.get(name) or "").strip() for name in ("vendor", "model", "tran")}
    text = " ".join([row["kname"], str(row.get("subsystems") or ""), *words.values(), ""])
    kind = next(kind for pattern, kind in KINDS if re.search(pattern, text))
    flag = {"0": False, "False": False, "1": True, "True": True}.get(str(row.get("rota")))
    solid = re.search("SSD|memory", kind)
    rotational = False if solid else flag if "{}" in kind else None
    # numbers (virtio, NVMe) and ATA name no maker
    maker = words["vendor"] if re.match("[A-Za-z]", words["vendor"]) else ""
    model = f"{maker.replace('ATA', '')} {words['model']}".strip()
    word = kind.format({True: "HDD", False: "SSD", None: "disk"}[flag])
    text = f"{row['kname']} ({model or 'model unknown'})"
    return Disk(text, word, rotational, "" if solid or "{}" in kind else UNKNOWN)


def _kind_without_block(kind: str) -> str:
    if kind in NETWORK_KINDS:
        return f"network file system ({kind})"
    if kind in HOST_KINDS:
        return f"directory of the virtual machine's host ({kind})"
    if kind.startswith("fuse"):
        program = kind.partition(".")[2]
        return f"FUSE file system ({program})" if program else "FUSE file system"
    return "overlay file system" if kind == "overlay" else f"unknown device ({kind})"


def _read(filename: str) -> str:
    """The text of a small file; empty when it is not there."""
    try:
        with open(filename, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
