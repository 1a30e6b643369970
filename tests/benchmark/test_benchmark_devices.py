"""What a file lies on, as told by answers that look like lsblk's.

Law
---
1. Answers have the fields and the nesting of `lsblk --json --inverse`: children lie below.
2. What the answer does not say must come out as unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from _multitables.benchmark.machine import devices, mounts
from _multitables.benchmark.machine.devices import Device

Row = dict[str, Any]


def row(name: str, *below: Row, kind: str = "disk", **more: Any) -> Row:
    found = {"kname": name, "name": name, "maj:min": f"8:{sum(map(ord, name))}", "type": kind}
    return {**found, **more, **({"children": list(below)} if below else {})}


def ssd(name: str, **more: Any) -> Row:
    ata = {"tran": "sata", "vendor": "ATA     ", "model": "Samsung SSD 860"}
    return row(name, **{**ata, "rota": False, **more})


def hdd(name: str, **more: Any) -> Row:
    return ssd(name, **{"model": "ST4000DM004", "rota": True, **more})


def part(disk: Row) -> Row:
    return row(f"{disk['kname']}1", disk, kind="part")


def mount(directory: str, kind: str, source: str, number: str, options: str = "rw") -> str:
    return f"1 1 {number} / {directory} rw shared:1 - {kind} {source} {options}\n"


def describe(
    top: Row, filename: str = "/data/run7.h5", more: str = "", kind: str = "ext4"
) -> Device:
    on = mount("/", kind, f"/dev/{top['kname']}", top["maj:min"])
    return devices.describe(filename, json.dumps({"blockdevices": [top]}), on + more)


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_nvme_disk_and_its_partition(partitioned: bool) -> None:
    model = "Samsung SSD 980 PRO 1TB"
    disk = row("nvme0n1", tran="nvme", model=model, rota=False, sched="none")
    found = describe(part(disk) if partitioned else disk, kind="xfs")
    text, number = f"nvme0n1 ({model})", disk["maj:min"]
    assert found == Device("NVMe SSD", (text,), "", (), False, "xfs", "/", number, ("none",))
    assert str(found) == f"NVMe SSD: {text}"
    assert found.scheduler == "none"


def test_raid_by_md_over_partitions() -> None:
    md = row("md0", part(ssd("sda")), part(ssd("sdb")), kind="raid1", sched="mq-deadline")
    found = describe(part(md))
    assert (found.name, found.raid) == ("2x SATA SSD in raid1", "raid1")
    assert (found.rotational, found.layers) == (False, ("md0 raid1",))
    assert found.disks == ("sda (Samsung SSD 860)", "sdb (Samsung SSD 860)")
    assert found.number == md["maj:min"]  # md is throttled and not its parts
    assert found.scheduler == "mq-deadline"


def test_lvm_over_disks() -> None:
    found = describe(row("dm-0", part(hdd("sda")), kind="lvm"))
    assert (found.name, found.raid, found.rotational) == ("SATA HDD", "", True)
    assert str(found) == "SATA HDD: sda (ST4000DM004); dm-0 lvm"
    found = describe(row("dm-0", hdd("sda"), ssd("sdb"), kind="lvm"))
    assert found.name == "1x SATA HDD and 1x SATA SSD joined by dm-0 lvm"
    assert (found.raid, found.rotational) == ("unknown", None)  # lsblk tells no level


def test_encryption_over_lvm_over_raid() -> None:
    md = row("md127", *(hdd(name) for name in ("sda", "sdb", "sdc")), kind="raid5")
    found = describe(row("dm-1", row("dm-0", md, kind="lvm"), kind="crypt"))
    assert found.name == "3x SATA HDD in raid5, encrypted"
    assert found.layers == ("dm-1 crypt", "dm-0 lvm", "md127 raid5")


def test_raid_over_raid() -> None:
    pairs = [row(f"md{n}", ssd(f"sda{n}"), ssd(f"sdb{n}"), kind="raid1") for n in range(2)]
    assert describe(row("md2", *pairs, kind="raid0")).name == "4x SATA SSD in raid0 over raid1"


def test_the_paths_to_one_disk_are_one_disk() -> None:
    paths = [row(name, tran="fc", model="VRAID", rota=True) for name in ("sda", "sdb")]
    found = describe(row("dm-1", row("dm-0", *paths, kind="mpath"), kind="part"))
    assert found.disks == ("sda (VRAID)",)
    assert (found.raid, found.rotational) == ("unknown", None)


@pytest.mark.parametrize(
    ("name", "more", "kind"),
    [
        ("vda", {"subsystems": "block:virtio:pci", "vendor": "0x1af4"}, "virtual disk"),
        ("xvda", {}, "virtual disk"),
        ("sda", {"tran": "sata", "model": "QEMU HARDDISK"}, "virtual disk"),
        ("sda", {"subsystems": "block:scsi:virtio:pci", "vendor": "X"}, "virtual disk"),
        ("sda", {"vendor": "Msft", "model": "Virtual Disk"}, "virtual disk"),
        ("sda", {"vendor": "DELL", "model": "PERC H730P Mini"}, "hardware RAID volume"),
        ("sda", {"tran": "iscsi", "vendor": "LIO"}, "iSCSI disk"),
        ("sda", {"tran": "usb", "vendor": "WD"}, "USB disk"),
        ("nbd0", {}, "network block device"),
        ("nvme1n1", {"subsystems": "block:nvme:nvme-fabrics"}, "NVMe over a network"),
    ],
)
def test_the_flag_of_what_is_no_disk_is_not_believed(name: str, more: Row, kind: str) -> None:
    found = describe(row(name, rota=True, **more))
    assert (found.name, found.rotational, found.raid) == (kind, None, "unknown")


@pytest.mark.parametrize(
    ("name", "flag", "more", "kind", "rotational"),
    [
        ("sda", "1", {"tran": "sas", "vendor": "SEAGATE"}, "SAS HDD", True),
        ("sda", "0", {"tran": "sas", "vendor": "ATA"}, "SATA SSD", False),
        ("sda", None, {"tran": "sata"}, "SATA disk", None),
        ("mmcblk0", True, {}, "memory card (SD or eMMC)", False),
        ("strange0", True, {}, "HDD", True),
    ],
)
def test_how_a_disk_is_attached(
    name: str, flag: Any, more: Row, kind: str, rotational: bool | None
) -> None:
    found = describe(row(name, rota=flag, **more))
    assert (found.name, found.rotational, found.raid) == (kind, rotational, "")


def test_a_loop_device_is_followed_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "disk.img"
    image.touch()
    monkeypatch.setattr(devices, "_read", lambda _name: str(image))
    loop = row("loop0", kind="loop")
    listed = json.dumps({"blockdevices": [part(loop), hdd("sda")]})
    under = mount("/data", "ext4", "/dev/loop0p1", part(loop)["maj:min"])
    on_disk = mount(str(tmp_path), "xfs", "/dev/sda", hdd("sda")["maj:min"])
    found = devices.describe("/data/x", listed, under + on_disk)
    assert (found.name, found.rotational) == ("loop device on SATA HDD", True)
    assert (found.filesystem, found.number) == ("ext4", loop["maj:min"])
    in_memory = mount(str(tmp_path), "tmpfs", "tmpfs", "0:40")
    assert devices.describe("/data/x", listed, under + in_memory).name == (
        "loop device on memory (tmpfs)"
    )
    onto_itself = mount("/", "ext4", "/dev/loop0p1", part(loop)["maj:min"])
    found = devices.describe("/data/x", listed, onto_itself)
    assert (found.name, found.raid) == ("loop device on a file out of sight", "unknown")


def test_btrfs_over_two_disks_tells_its_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.dumps({"blockdevices": [part(ssd("sda")), part(ssd("sdb"))]})
    on = mount("/", "btrfs", "/dev/sda1", "0:30")
    monkeypatch.setattr(devices, "BTRFS", str(tmp_path))
    assert devices.describe("/x", listed, on).name == "SATA SSD"
    for name in ("devices/sda1", "devices/sdb1", "allocation/data/raid1"):
        (tmp_path / "0123" / name).mkdir(parents=True)
    found = devices.describe("/x", listed, on)
    assert (found.name, found.raid, found.number) == ("2x SATA SSD in raid1", "raid1", "")
    (tmp_path / "0123" / "allocation" / "data" / "single").mkdir()  # on its way to another
    assert devices.describe("/x", listed, on).raid == "unknown"


@pytest.mark.parametrize(
    ("kind", "name", "rotational", "raid"),
    [
        ("tmpfs", "memory (tmpfs)", False, ""),
        ("nfs4", "network file system (nfs4)", None, "unknown"),
        ("fuse", "FUSE file system", None, "unknown"),
        ("fuse.sshfs", "FUSE file system (sshfs)", None, "unknown"),
        ("virtiofs", "directory of the virtual machine's host (virtiofs)", None, "unknown"),
        ("zfs", "unknown device (zfs)", None, "unknown"),
    ],
)
def test_file_systems_without_a_block_device(
    kind: str, name: str, rotational: bool | None, raid: str
) -> None:
    found = describe(hdd("sda"), more=mount("/data", kind, "some:/where", "0:50"))
    assert (found.name, found.rotational, found.raid) == (name, rotational, raid)
    assert (found.disks, found.number, str(found)) == ((), "", name)
    assert found.scheduler == "unknown"


def test_an_overlay_is_said_and_followed_where_it_can_be(tmp_path: Path) -> None:
    options = f"rw,lowerdir=/l,upperdir={tmp_path}/upper"
    more = mount("/data", "overlay", "overlay", "0:60", options)
    assert describe(ssd("sda"), more=more).name == "overlay file system"
    (tmp_path / "upper").mkdir()
    found = describe(ssd("sda"), more=more)
    assert found.name == "overlay file system on SATA SSD"
    assert (found.filesystem, found.layers) == ("overlay", ("overlay on ext4",))


def test_nothing_to_read_is_unknown() -> None:
    found = devices.describe("/data/x", '{"blockdevices": []}', "")
    assert (found.name, found.rotational) == ("unknown device (unknown)", None)
    found = devices.describe("/x", '{"blockdevices": []}', "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert (found.name, found.raid) == ("unknown device (ext4)", "unknown")


@pytest.mark.parametrize("program", ["lsblk", "no such program"])
def test_this_machine_is_described(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lsblk where it is there, and without it by /sys."""
    monkeypatch.setattr(devices, "LSBLK", program)
    found = devices.describe(str(tmp_path))
    assert found.name
    assert found.filesystem == mounts.mount_of(str(tmp_path)).kind
    assert "\n" not in str(found)


def test_the_mount_of_a_file() -> None:
    text = (
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "22 21 0:5 / /data\\040x rw - xfs /dev/sdb rw,name=a\\054b\n"
        "23 21 0:6 / /data\\040x/tmp rw - tmpfs none rw\n"
    )
    assert mounts.mount_of("/home/x", text)[:4] == ("/dev/sda1", "/", "ext4", "8:1")
    assert mounts.mount_of("/data x/y", text).kind == "xfs"
    assert mounts.mount_of("/data x/tmp/y", text).kind == "tmpfs"
    assert mounts.mount_of("/data x/tmpy", text).kind == "xfs"
    assert mounts.mount_of("/data x", text).option("name") == "a"
    assert mounts.mount_of("/", text).option("name") == ""
