"""What a file lies on, as told by trees that look like /sys.

Law
---
1. The trees have the kernel's layout: devices below `devices`, links in `dev/block`,
   `class/block` and `slaves`.
2. What the tree does not say must come out as unknown.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from _benchmark.machine import devices, mounts
from _benchmark.machine.devices import Device
from _benchmark.machine.disks import Disk

PCI = "devices/pci0000:00/0000:00:17.0"
SATA = f"{PCI}/ata1/host0/target0:0:0/0:0:0:0"


class FakeSys:
    """A directory that looks like /sys, and the mounts of its devices."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._minor = 0
        self._mounts: list[str] = []

    def write(self, name: str, text: str) -> None:
        filename = self.directory / name
        filename.parent.mkdir(parents=True, exist_ok=True)
        filename.write_text(text + "\n")

    def link(self, name: str, target: str) -> None:
        link = self.directory / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.directory / target, link.parent))

    def block(self, place: str, slaves: tuple[str, ...] = (), **files: str) -> str:
        """A block device at ``place``; in the names of files ``__`` stands for ``/``."""
        self._minor += 1
        number, name = f"8:{self._minor}", os.path.basename(place)
        for file, text in {"dev": number, **files}.items():
            self.write(f"{place}/{file.replace('__', '/')}", text)
        self.link(f"dev/block/{number}", place)
        self.link(f"class/block/{name}", place)
        for slave in slaves:
            self.link(f"{place}/slaves/{os.path.basename(slave)}", slave)
        return place

    def disk(self, name: str, turning: str = "0", place: str = SATA, **files: str) -> str:
        """A disk, with a partition."""
        place = f"{place.replace('ata1', f'ata{self._minor + 1}')}/block/{name}"
        self.block(place, queue__rotational=turning, **files)
        return place

    def partition(self, disk: str) -> str:
        between = "p" if disk[-1].isdigit() else ""
        return self.block(f"{disk}/{os.path.basename(disk)}{between}1", partition="1")

    def scsi(
        self, name: str, turning: str, model: str, vendor: str = "ATA", place: str = SATA
    ) -> str:
        return self.disk(name, turning, place, device__model=model, device__vendor=vendor)

    def virtual(self, name: str, *slaves: str, **files: str) -> str:
        """md, dm, loop."""
        return self.block(f"devices/virtual/block/{name}", slaves, **files)

    def mount(
        self, directory: str, kind: str, source: str, number: str, options: str = "rw"
    ) -> None:
        self._mounts.append(f"1 1 {number} / {directory} rw shared:1 - {kind} {source} {options}")

    def on(self, block: str, directory: str = "/", kind: str = "ext4") -> None:
        number = (self.directory / block / "dev").read_text().strip()
        self.mount(directory, kind, f"/dev/{os.path.basename(block)}", number)

    def describe(self, filename: str = "/data/run7.h5") -> Device:
        return devices.describe(filename, str(self.directory), "\n".join(self._mounts))


@pytest.fixture
def fake(tmp_path: Path) -> FakeSys:
    return FakeSys(tmp_path / "sys")


@pytest.mark.parametrize("partitioned", [False, True])
def test_an_nvme_disk_and_its_partition(fake: FakeSys, partitioned: bool) -> None:
    place = "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1"
    disk = fake.block(place, queue__rotational="0", device__model="Samsung SSD 980 PRO 1TB")
    fake.on(fake.partition(disk) if partitioned else disk, kind="xfs")
    found = fake.describe()
    assert found == Device(
        "NVMe SSD",
        (Disk("nvme0n1", "Samsung SSD 980 PRO 1TB", "nvme", False),),
        raid="",
        layers=(),
        rotational=False,
        filesystem="xfs",
        mount="/",
        number="8:1",
    )
    assert str(found) == "NVMe SSD: nvme0n1 (Samsung SSD 980 PRO 1TB)"


def test_nvme_over_a_network_is_somebody_elses_disk(fake: FakeSys) -> None:
    place = "devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1"
    fake.on(
        fake.block(place, queue__rotational="0", device__transport="tcp", device__model="Linux")
    )
    found = fake.describe()
    assert (found.name, found.rotational, found.raid) == ("NVMe over a network", None, "unknown")


@pytest.mark.parametrize("degraded", ["0", "1"])
def test_raid_by_md_over_partitions(fake: FakeSys, degraded: str) -> None:
    parts = [fake.partition(fake.scsi(name, "0", "Samsung SSD 860")) for name in ("sda", "sdb")]
    md = fake.virtual("md0", *parts, md__level="raid1", md__degraded=degraded)
    fake.on(md, "/data")
    found = fake.describe()
    assert found.name == "2x SATA SSD in raid1"
    assert [disk.kernel_name for disk in found.disks] == ["sda", "sdb"]
    assert (found.raid, found.rotational, found.mount) == ("raid1", False, "/data")
    assert found.layers == (("md0 raid1", "md0 raid1 (degraded)")[int(degraded)],)
    # md is throttled and not its parts
    assert found.number == (fake.directory / md / "dev").read_text().strip()
    fake.on(fake.partition(md), "/data")
    assert fake.describe() == found


def test_lvm_over_a_disk_that_rotates(fake: FakeSys) -> None:
    disk = fake.partition(fake.scsi("sda", "1", "ST4000DM004"))
    fake.on(fake.virtual("dm-0", disk, dm__name="vg-home", dm__uuid="LVM-abcdef"))
    found = fake.describe()
    assert (found.name, found.raid, found.rotational) == ("SATA HDD", "", True)
    assert found.layers == ("dm-0 LVM",)
    assert str(found) == "SATA HDD: sda (ST4000DM004); dm-0 LVM"


def test_lvm_over_several_disks_says_no_level(fake: FakeSys) -> None:
    disks = [fake.scsi("sda", "1", "ST4000DM004"), fake.scsi("sdb", "0", "Samsung SSD 860")]
    fake.on(fake.virtual("dm-0", *disks, dm__uuid="LVM-abcdef"))
    found = fake.describe()
    assert found.name == "1x SATA HDD and 1x SATA SSD joined by dm-0 LVM"
    assert (found.raid, found.rotational) == ("unknown", None)


def test_encryption_over_lvm_over_raid(fake: FakeSys) -> None:
    disks = [fake.scsi(name, "1", "ST4000DM004") for name in ("sda", "sdb", "sdc")]
    md = fake.virtual("md127", *disks, md__level="raid5")
    volume = fake.virtual("dm-0", md, dm__uuid="LVM-abcdef")
    fake.on(fake.virtual("dm-1", volume, dm__uuid="CRYPT-LUKS2-0123-home"))
    found = fake.describe()
    assert found.name == "3x SATA HDD in raid5, encrypted"
    assert found.layers == ("dm-1 crypt", "dm-0 LVM", "md127 raid5")
    assert (found.raid, found.rotational) == ("raid5", True)


def test_raid_over_raid(fake: FakeSys) -> None:
    pairs = []
    for n in range(2):
        disks = [fake.scsi(f"sd{'abcd'[2 * n + m]}", "0", "Samsung SSD 860") for m in range(2)]
        pairs.append(fake.virtual(f"md{n}", *disks, md__level="raid1"))
    fake.on(fake.virtual("md2", *pairs, md__level="raid0"))
    assert fake.describe().name == "4x SATA SSD in raid0 over raid1"


def test_the_paths_to_one_disk_are_one_disk(fake: FakeSys) -> None:
    place = "devices/pci0000:00/0000:03:00.0/host{}/rport-{}:0-1/target/0:0:0:1"
    paths = [
        fake.scsi(name, "1", "DGC VRAID", "IBM", place.format(n, n))
        for n, name in enumerate(("sda", "sdb"))
    ]
    whole = fake.virtual("dm-0", *paths, dm__uuid="mpath-36006")
    fake.on(fake.virtual("dm-1", whole, dm__uuid="part1-mpath-36006"))
    found = fake.describe()
    assert [disk.kernel_name for disk in found.disks] == ["sda"]
    assert found.layers[-1] == "dm-0 multipath of 2"
    assert (found.raid, found.rotational) == ("unknown", None)


@pytest.mark.parametrize(
    ("name", "place", "vendor", "model", "kind"),
    [
        ("vda", "devices/pci0000:00/0000:00:02.0/virtio1", "0x1af4", "", "virtual disk"),
        ("xvda", "devices/vbd-51712", "", "", "virtual disk"),
        ("sda", SATA, "ATA", "QEMU HARDDISK", "virtual disk"),
        ("sda", "devices/pci0000:00/virtio2/host2/target2:0:0/2:0:0:0", "X", "Y", "virtual disk"),
        ("sda", SATA, "Msft", "Virtual Disk", "virtual disk"),
        (
            "sda",
            f"{PCI}/host0/target0:2:0/0:2:0:0",
            "DELL",
            "PERC H730P Mini",
            "hardware RAID volume",
        ),
        (
            "sda",
            "devices/platform/host3/session1/target3:0:0/3:0:0:0",
            "LIO",
            "disk0",
            "iSCSI disk",
        ),
        ("nbd0", "devices/virtual", "", "", "network block device (nbd)"),
    ],
)
def test_the_flag_of_what_is_no_disk_is_not_believed(
    fake: FakeSys, name: str, place: str, vendor: str, model: str, kind: str
) -> None:
    fake.on(fake.scsi(name, "1", model, vendor, place))
    found = fake.describe()
    assert (found.name, found.rotational, found.raid) == (kind, None, "unknown")


@pytest.mark.parametrize(
    ("name", "turning", "place", "vendor", "kind"),
    [
        ("sda", "1", f"{PCI}/host0/port-0:0/end_device-0:0/target", "SEAGATE", "SAS HDD"),
        ("sda", "0", f"{PCI}/host0/port-0:0/end_device-0:0/target", "ATA", "SATA SSD"),
        ("sda", "1", f"{PCI}/usb2/2-1/host5/target5:0:0/5:0:0:0", "WD", "USB disk"),
        ("sda", "", SATA, "ATA", "SATA disk"),
        ("mmcblk0", "0", "devices/platform/soc/mmc_host/mmc0", "", "SD card or eMMC"),
        ("strange0", "1", "devices/platform/strange", "", "HDD"),
    ],
)
def test_how_a_disk_is_attached(
    fake: FakeSys, name: str, turning: str, place: str, vendor: str, kind: str
) -> None:
    fake.on(fake.scsi(name, turning, "M1", vendor, place))
    assert fake.describe().name == kind


def test_a_loop_device_is_followed_to_its_file(fake: FakeSys, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.touch()
    fake.on(fake.scsi("sda", "1", "ST4000DM004"), str(tmp_path), "xfs")
    loop = fake.virtual("loop0", loop__backing_file=str(image))
    fake.on(fake.partition(loop), "/data")
    found = fake.describe()
    assert found.name == "loop device on SATA HDD"
    assert found.layers == ("loop0 loop on xfs",)
    assert (found.rotational, found.filesystem) == (True, "ext4")
    assert found.number == (fake.directory / loop / "dev").read_text().strip()
    # the same over memory, and over a file that is elsewhere
    fake.mount(str(tmp_path), "tmpfs", "tmpfs", "0:40")
    assert fake.describe().name == "loop device on memory (tmpfs)"
    image.unlink()
    found = fake.describe()
    assert (found.name, found.raid) == ("loop device on a file out of sight", "unknown")


def test_what_stands_on_loop_devices_is_named(fake: FakeSys, tmp_path: Path) -> None:
    disks = [fake.scsi(name, "1", "ST4000DM004") for name in ("sda", "sdb")]
    fake.on(fake.virtual("md9", *disks, md__level="raid0"), str(tmp_path))
    loops = []
    for name in ("loop0", "loop1"):
        (tmp_path / name).touch()
        loops.append(fake.virtual(name, loop__backing_file=str(tmp_path / name)))
    fake.on(fake.virtual("dm-0", loops[0], dm__uuid="CRYPT-LUKS2-x"), "/data")
    assert fake.describe().name == "loop device on 2x SATA HDD in raid0, encrypted"
    fake.on(fake.virtual("md0", *loops, md__level="raid1"), "/data")
    assert fake.describe().name == "loop device on 2x SATA HDD in raid0 in raid1 over raid0"


def test_a_loop_that_leads_to_itself_ends(fake: FakeSys, tmp_path: Path) -> None:
    (tmp_path / "disk.img").touch()
    fake.on(fake.virtual("loop0", loop__backing_file=str(tmp_path / "disk.img")))
    assert fake.describe().rotational is None


def test_btrfs_over_two_disks_tells_its_profile(fake: FakeSys) -> None:
    blocks = [fake.partition(fake.scsi(name, "0", "Samsung SSD 860")) for name in ("sda", "sdb")]
    fake.mount("/", "btrfs", "/dev/sda1", "0:30")
    assert fake.describe().name == "SATA SSD"  # its number is of no device, the source is
    for block in blocks:
        fake.link(f"fs/btrfs/0123/devices/{os.path.basename(block)}", block)
    fake.write("fs/btrfs/0123/allocation/data/flags", "1")
    fake.write("fs/btrfs/0123/allocation/data/raid1/used_bytes", "1")
    found = fake.describe()
    assert found.name == "2x SATA SSD in raid1"
    assert (found.layers, found.raid, found.number) == (("btrfs raid1",), "raid1", "")
    fake.write("fs/btrfs/0123/allocation/data/single/used_bytes", "1")  # on its way to another
    assert fake.describe().raid == "unknown"


def test_a_mapping_is_found_by_its_name_where_dev_has_no_links(fake: FakeSys) -> None:
    disk = fake.scsi("sda", "1", "ST4000DM004")
    fake.virtual("dm-0", disk, dm__uuid="LVM-abcdef", dm__name="vg-nowhere_here")
    fake.mount("/", "btrfs", "/dev/mapper/vg-nowhere_here", "0:30")
    assert fake.describe().layers == ("dm-0 LVM",)


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
    fake: FakeSys, kind: str, name: str, rotational: bool | None, raid: str
) -> None:
    fake.mount("/", kind, "some:/where", "0:50")
    found = fake.describe()
    assert (found.name, found.rotational, found.raid) == (name, rotational, raid)
    assert (found.disks, found.number, str(found)) == ((), "", name)


def test_an_overlay_is_said_and_followed_where_it_can_be(fake: FakeSys, tmp_path: Path) -> None:
    fake.on(fake.scsi("sda", "0", "Samsung SSD 860"))
    fake.mount("/data", "overlay", "overlay", "0:60", f"rw,lowerdir=/l,upperdir={tmp_path}/upper")
    assert fake.describe().name == "overlay file system"
    (tmp_path / "upper").mkdir()
    found = fake.describe()
    assert found.name == "overlay file system on SATA SSD"
    assert (found.filesystem, found.layers) == ("overlay", ("overlay on ext4",))


def test_nothing_to_read_is_unknown(tmp_path: Path) -> None:
    found = devices.describe("/data/x", str(tmp_path), "")
    assert (found.name, found.rotational, found.raid) == (
        "unknown device (unknown)",
        None,
        "unknown",
    )
    found = devices.describe("/data/x", str(tmp_path), "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert found.name == "unknown device (ext4)"


def test_this_machine_is_described(tmp_path: Path) -> None:
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


def test_the_schedulers_in_use(fake: FakeSys, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.touch()
    fake.on(fake.disk("sda", queue__scheduler="none [mq-deadline] bfq"), str(tmp_path))
    loop = fake.virtual("loop0", loop__backing_file=str(image), queue__scheduler="none [bfq]")
    fake.on(fake.partition(loop), "/data")
    assert fake.describe().schedulers == ("bfq", "mq-deadline")
    assert fake.describe().scheduler == "bfq, mq-deadline"
    other = fake.virtual("dm-0", fake.disk("nvme0n1", queue__scheduler="[none] kyber"))
    fake.on(other, "/fast")
    assert fake.describe("/fast/x").scheduler == "none"
    fake.mount("/far", "nfs4", "server:/far", "0:50")
    assert fake.describe("/far/x").scheduler == "unknown"
