"""Single disks: how one is attached, what it is called, and whether it rotates.

Law
---
1. It reads the directory of one block device below /sys, and measures nothing.
2. What cannot be found out is "unknown" or None. The kernel's flag "rotational" is not believed
   where nothing stands behind it: virtual disks, USB bridges, arrays over a network.
3. What is known of buses and models stands in tables.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from _benchmark.machine.mounts import UNKNOWN


class Bus(NamedTuple):
    """What is known of the disks on a bus.

    ``word`` names them; ``{}`` in it is HDD, SSD or disk as the kernel's flag says, which is not
    believed without it. ``solid`` ones never rotate. Those that are not ``seen`` stand for disks,
    and for RAID perhaps, that are out of sight.
    """

    word: str
    solid: bool = False
    seen: bool = True


BUSES = {
    "nvme": Bus("NVMe {}", solid=True),
    "sata": Bus("SATA {}"),
    "sas": Bus("SAS {}"),
    "scsi": Bus("SCSI {}"),
    "usb": Bus("USB disk"),  # bridges say rotational of everything
    "firewire": Bus("FireWire disk"),
    "mmc": Bus("SD card or eMMC", solid=True),
    "pmem": Bus("persistent memory", solid=True),
    "ram": Bus("memory (ramdisk)", solid=True),
    "zram": Bus("memory (zram)", solid=True),
    "nvme over a network": Bus("NVMe over a network", seen=False),
    "raid controller": Bus("hardware RAID volume", seen=False),
    "iscsi": Bus("iSCSI disk", seen=False),
    "fibre channel": Bus("Fibre Channel disk", seen=False),
    "nbd": Bus("network block device (nbd)", seen=False),
    "rbd": Bus("network block device (rbd)", seen=False),
    "drbd": Bus("replicated block device (drbd)", seen=False),
    "virtio": Bus("virtual disk", seen=False),
    "xen": Bus("virtual disk", seen=False),
    "virtual": Bus("virtual disk", seen=False),
    UNKNOWN: Bus("{}"),
}
# (a pattern of vendor and model, bus): who only passes on what others store
MODELS = (
    (
        r"QEMU|VBOX|VMware|Virtual[ _]Disk|PersistentDisk|nvme_card-pd|Elastic Block Store",
        "virtual",
    ),
    (r"MSFT NVMe Accelerator|BlockVolume|Virtio", "virtual"),
    (r"PERC|RAID|\bMR\d{4}|LOGICAL VOLUME|Smart ?Array", "raid controller"),
)
# (a pattern of the kernel's name, bus)
NAMES = (
    (r"nvme\d", "nvme"),
    (r"vd[a-z]", "virtio"),
    (r"xvd[a-z]", "xen"),
    (r"mmcblk\d", "mmc"),
    (r"pmem\d", "pmem"),
    (r"ram\d", "ram"),
    (r"zram\d", "zram"),
    (r"nbd\d", "nbd"),
    (r"rbd\d", "rbd"),
    (r"drbd\d", "drbd"),
)
# (a pattern of the path below /sys/devices, bus): how a SCSI disk is attached
PATHS = (
    (r"/usb\d", "usb"),
    (r"/fw\d", "firewire"),
    (r"/session\d", "iscsi"),
    (r"/rport-", "fibre channel"),
    (r"/virtio\d|/vmbus|/VMBUS|/vbd-", "virtual"),
    (r"/ata\d", "sata"),
    (r"/end_device-|/port-\d", "sas"),
    (r"/host\d", "scsi"),
)


@dataclass(frozen=True)
class Disk:
    """A disk as the kernel sees it, with nothing below it.

    Attributes
    ----------
    kernel_name : str
        ``sda``.
    model : str
    bus : str
        A name in `BUSES`.
    rotational : bool or None
    """

    kernel_name: str
    model: str
    bus: str
    rotational: bool | None

    @property
    def kind(self) -> str:
        """``SATA HDD``, ``NVMe SSD``, ``virtual disk``."""
        return BUSES[self.bus].word.format(
            {True: "HDD", False: "SSD", None: "disk"}[self.rotational]
        )

    @property
    def seen(self) -> bool:
        """Whether it is a disk, and not a stand-in for others out of sight."""
        return BUSES[self.bus].seen

    def __str__(self) -> str:
        return f"{self.kernel_name} ({self.model if self.model != UNKNOWN else 'model unknown'})"


def disk_of(block: str) -> Disk:
    """The disk whose real directory below /sys is `block`."""
    name = os.path.basename(block)
    vendor, model = read(f"{block}/device/vendor"), read(f"{block}/device/model")
    bus = _bus(block, name, vendor, model)
    known = BUSES[bus]
    flag = {"0": False, "1": True}.get(read(f"{block}/queue/rotational"))
    rotational = False if known.solid else flag if "{}" in known.word else None
    # numbers (virtio, NVMe) and ATA name no maker
    maker = vendor if re.match(r"[A-Za-z]", vendor) and vendor != "ATA" else ""
    return Disk(name, f"{maker} {model}".strip() if model else UNKNOWN, bus, rotational)


def _bus(block: str, name: str, vendor: str, model: str) -> str:
    for pattern, bus in MODELS:
        if re.search(pattern, f"{vendor} {model}"):
            return bus
    for pattern, bus in NAMES:
        if re.match(pattern, name):
            remote = bus == "nvme" and read(f"{block}/device/transport") not in ("", "pcie")
            return "nvme over a network" if remote else bus
    for pattern, bus in PATHS:
        if re.search(pattern, block):
            # SATA disks on a SAS controller say ATA in place of their maker
            return "sata" if bus in ("sas", "scsi") and vendor == "ATA" else bus
    return UNKNOWN


def read(filename: str) -> str:
    """The text of a small file below /sys; empty when it is not there."""
    try:
        with open(filename, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
