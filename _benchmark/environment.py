"""What the numbers were measured on: machine, cores, device, file system, versions.

Law
---
1. It reads /proc, /sys and version strings, and measures nothing.
2. What cannot be found out is "unknown", never left out and never guessed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
from typing import Any, NamedTuple

UNKNOWN = "unknown"


class Mount(NamedTuple):
    """Where a file lies."""

    source: str
    directory: str
    kind: str


def _read(filename: str) -> str:
    try:
        with open(filename, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def mount_of(filename: str, mountinfo: str | None = None) -> Mount:
    """The mount that holds `filename` (proc(5), mountinfo)."""
    target = os.path.realpath(filename)
    best = Mount(UNKNOWN, "", UNKNOWN)
    for line in (mountinfo if mountinfo is not None else _read("/proc/self/mountinfo")).split("\n"):
        left, separator, right = line.partition(" - ")
        if not separator:
            continue
        directory = _unescape(left.split()[4])
        kind, source = right.split()[:2]
        inside = target == directory or target.startswith(directory.rstrip("/") + "/")
        # a later mount over the same directory hides the earlier one
        if inside and len(directory) >= len(best.directory):
            best = Mount(_unescape(source), directory, kind)
    return best


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def in_memory(filename: str) -> bool:
    """Whether the file system keeps its files in memory, so that no device is measured."""
    return mount_of(filename).kind in ("tmpfs", "ramfs", "devtmpfs")


def device_of(filename: str) -> str:
    """The disks below `filename`: ``nvme0n1 (Samsung SSD 980, solid state)``."""
    mount = mount_of(filename)
    if in_memory(filename):
        return "memory"
    number = os.stat(filename).st_dev
    block = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    if not os.path.exists(block):  # btrfs and others hand out numbers of no device
        block = f"/sys/class/block/{os.path.basename(os.path.realpath(mount.source))}"
    disks = _disks(os.path.realpath(block)) if os.path.exists(block) else []
    return "; ".join(disks) or mount.source


def _disks(block: str) -> list[str]:
    """The disks that a block device stands on, through partitions, device mapper and RAID."""
    name = os.path.basename(block)
    if os.path.exists(f"{block}/partition"):
        return _disks(os.path.dirname(block))
    below = sorted(os.listdir(f"{block}/slaves")) if os.path.isdir(f"{block}/slaves") else []
    if below:
        level = _read(f"{block}/md/level") or "mapped"
        paths = [os.path.realpath(f"{block}/slaves/{one}") for one in below]
        parts = [disk for path in paths for disk in _disks(path)]
        return [f"{name} ({level} of {', '.join(parts)})"]
    model = _read(f"{block}/device/model") or "model unknown"
    turning = {"0": "solid state", "1": "rotational"}.get(_read(f"{block}/queue/rotational"))
    if name.startswith("vd"):
        model = "virtual disk"
        turning = f"says {turning}" if turning else None
    return [f"{name} ({model}, {turning or UNKNOWN})"]


class HugePages(NamedTuple):
    """The kernel's reserve of huge pages (hugetlbfs), which is empty unless root fills it."""

    free: int
    size_bytes: int


def huge_pages(meminfo: str | None = None) -> HugePages:
    """How many are free, and how large they are (proc(5), meminfo); 0 where there are none."""
    text = meminfo if meminfo is not None else _read("/proc/meminfo")
    free = re.search(r"^HugePages_Free:\s*(\d+)", text, re.M)
    size = re.search(r"^Hugepagesize:\s*(\d+) kB", text, re.M)
    return HugePages(int(free[1]) if free else 0, int(size[1]) * 1024 if size else 0)


def cores() -> str:
    """Cores this process may use, of all; and the control group's quota where there is one."""
    text = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        text += f", limited to {int(quota) / int(period):g}"
    return text


def facts(filename: str, face: Any = None) -> dict[str, str]:
    """Everything that belongs to a number, by name.

    Parameters
    ----------
    filename : str
        The file or directory that is measured.
    face : module, optional
        The imported ``multitables``: its own word counts, another may be installed.
    """
    processor = re.search(r"^(?:model name|Model)\s*:\s*(.*)$", _read("/proc/cpuinfo"), re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo"), re.M)
    versions = {"multitables": getattr(face, "__version__", UNKNOWN)}
    versions |= {name: version_of(name) for name in ("numpy", "h5py", "tables", "hdf5plugin")}
    found = {
        "machine": f"{processor[1] if processor else UNKNOWN} ({platform.machine()})",
        "cores": cores(),
        "memory": f"{int(memory[1]) / 2**20:.1f} GiB" if memory else UNKNOWN,
        "device": device_of(filename),
        "filesystem": mount_of(filename).kind,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    if face is not None:
        said = {"multitables", "python", "platform", *versions}
        build = {name: value for name, value in face.build_info().items() if name not in said}
        found["build"] = as_line(build)
    return found


def version_of(distribution: str) -> str:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def as_line(value: Any) -> str:
    """A nested value on one line: ``core 3.0.0, codecs (zlib 1.2, ...)``."""
    if isinstance(value, dict):
        parts = []
        for name, one in value.items():
            inner = as_line(one)
            nested = isinstance(one, (dict, list, tuple))
            parts.append(f"{name} ({inner})" if nested else f"{name} {inner}")
        return ", ".join(parts)
    if isinstance(value, (list, tuple)):
        return ", ".join(as_line(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, default=str)
