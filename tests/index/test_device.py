"""Which disks rotate: what the user says, and what the kernel says of block devices.

1. The user has the last word.
2. The kernel's devices are folders with the layout of /sys.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import multitables
from _multitables.index.files import device
from _multitables.index.joined.kept_source import KeptSource
from _multitables.parent.stream.open_stream import DataSpec, open_data


@pytest.mark.parametrize("value", [0, 1, "yes", 7200.0, np.array(True)])
def test_what_is_no_answer(value: Any) -> None:
    with pytest.raises(multitables.OptionsError, match="rotational") as caught:
        multitables.Streamer("x.h5", rotational=value)
    assert caught.value.option == "rotational"


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("said", [None, False, True])
def test_the_user_has_the_last_word(
    numbered: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool, said: bool | None
) -> None:
    monkeypatch.setattr(device, "rotates", lambda filename: kernel)
    opened = open_data(DataSpec(KeptSource(numbered, {}, keeps=False), "rows", None, said))
    assert opened.turnstile is (kernel if said is None else said)


class Sysfs:
    """What the kernel says of block devices, as a folder."""

    def __init__(self, root: Path, filename: Path) -> None:
        self.root = root
        number = os.stat(filename).st_dev
        self.node = root / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
        for folder in (self.node.parent, root / "class" / "block"):
            folder.mkdir(parents=True)

    def add(self, place: str, rotational: int = 1, **level: str) -> Path:
        """A device in devices/`place`."""
        made = self.root / "devices" / place
        (made / "queue").mkdir(parents=True)
        (made / "queue" / "rotational").write_text(f"{rotational}\n")
        for name, text in level.items():
            (made / name).mkdir()
            (made / name / "level").write_text(text + "\n")
        self._name(made)
        return made

    def part(self, disk: Path, number: int) -> Path:
        made = disk / f"{disk.name}{number}"
        made.mkdir()
        (made / "partition").write_text(f"{number}\n")
        self._name(made)
        return made

    def _name(self, made: Path) -> None:
        (self.root / "class" / "block" / made.name).symlink_to(made)

    def over(self, upper: Path, *lower: Path) -> Path:
        for one in lower:
            (one / "holders").mkdir(exist_ok=True)
            (one / "holders" / upper.name).symlink_to(upper)
        return upper

    def holds(self, made: Path) -> None:
        """The test's file lies there."""
        self.node.symlink_to(made)


def disks(sysfs: Sysfs, *rotational: int) -> list[Path]:
    found = [sysfs.add(f"pci0/ata{n}/sd{'abcd'[n]}", one) for n, one in enumerate(rotational)]
    return [sysfs.part(one, 1) for one in found]


def plain(sysfs: Sysfs, rotational: int) -> Path:
    return disks(sysfs, rotational)[0]


def virtual(sysfs: Sysfs) -> Path:
    return sysfs.add("pci0/virtio2/host0/sda")


def paravirtual(sysfs: Sysfs) -> Path:
    return sysfs.add("pci0/virtio3/block/vda")


def lvm_on_crypt(sysfs: Sysfs, rotational: int) -> Path:
    crypt = sysfs.over(sysfs.add("virtual/dm-0"), *disks(sysfs, rotational))
    return sysfs.over(sysfs.add("virtual/dm-1"), crypt)


def volume_over(sysfs: Sysfs, *rotational: int) -> Path:
    return sysfs.over(sysfs.add("virtual/dm-0"), *disks(sysfs, *rotational))


def raid(sysfs: Sysfs, level: str, *rotational: int) -> Path:
    return sysfs.over(sysfs.add("virtual/md0", md=level), *disks(sysfs, *rotational))


def raid_parts(sysfs: Sysfs) -> Path:
    return sysfs.part(raid(sysfs, "raid1", 1, 1), 7)


STACKS: dict[str, tuple[Callable[[Sysfs], Path], bool]] = {
    "disk": (lambda sysfs: plain(sysfs, 1), True),
    "ssd": (lambda sysfs: plain(sysfs, 0), False),
    "virtual": (virtual, False),
    "paravirtual": (paravirtual, False),
    "crypt": (lambda sysfs: lvm_on_crypt(sysfs, 1), True),
    "crypt on ssd": (lambda sysfs: lvm_on_crypt(sysfs, 0), False),
    "volume": (lambda sysfs: volume_over(sysfs, 1, 1), True),
    "cached volume": (lambda sysfs: volume_over(sysfs, 1, 0), False),
    "raid1": (lambda sysfs: raid(sysfs, "raid1", 1, 1), True),
    "raid1 of ssds": (lambda sysfs: raid(sysfs, "raid1", 0, 0), False),
    "raid1 with an ssd": (lambda sysfs: raid(sysfs, "raid1", 0, 1), False),
    "linear": (lambda sysfs: raid(sysfs, "linear", 1, 1), True),
    "raid0": (lambda sysfs: raid(sysfs, "raid0", 1, 1), False),
    "raid5": (lambda sysfs: raid(sysfs, "raid5", 1, 1, 1), False),
    "part of raid1": (raid_parts, True),
}


@pytest.mark.parametrize("name", STACKS)
def test_what_the_kernel_says(tmp_path: Path, name: str) -> None:
    stack, rotating = STACKS[name]
    file = tmp_path / "file"
    file.touch()
    sysfs = Sysfs(tmp_path / "sys", file)
    sysfs.holds(stack(sysfs))
    assert device.rotates(str(file), str(sysfs.root)) is rotating


def test_of_other_files_the_kernel_says_nothing(tmp_path: Path) -> None:
    assert device.rotates(str(tmp_path / "none")) is False
    sysfs = Sysfs(tmp_path / "sys", tmp_path)
    assert device.rotates(str(tmp_path), str(sysfs.root)) is False
