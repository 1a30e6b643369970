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
import subprocess
from collections.abc import Iterable
from typing import Any, NamedTuple

from _multitables.benchmark.machine import devices
from _multitables.benchmark.machine.mounts import UNKNOWN, in_memory, mount_of

__all__ = [
    "as_line",
    "cache_bytes",
    "cores",
    "facts",
    "huge_pages",
    "in_memory",
    "mount_of",
    "sources_of",
    "version_of",
]

#: The folders of a checkout on which a number depends.
SOURCES = ("_multitables", "core")


def _read(filename: str) -> str:
    try:
        with open(filename, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


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


def cache_bytes(directory: str = "/sys/devices/system/cpu/cpu0/cache") -> int:
    """The largest cache of the first core, in bytes; 0 where the kernel does not tell."""
    found = [0]
    for one in range(8):
        size = re.fullmatch(r"(\d+)([KMG])", _read(f"{directory}/index{one}/size"))
        if size:
            found.append(int(size[1]) << {"K": 10, "M": 20, "G": 30}[size[2]])
    return max(found)


def cores() -> str:
    """Cores this process may use, of all; and the control group's quota where there is one."""
    text = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}"
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        text += f", limited to {int(quota) / int(period):g}"
    return text


def processor(cpuinfo: str) -> str:
    """Its name, with family and model: virtual machines give several processors one name."""
    found = dict(re.findall(r"^([^:\n]+?)\s*:[ \t]*(.*)$", cpuinfo, re.M))
    name = found.get("model name") or found.get("Model") or UNKNOWN
    if "cpu family" not in found:
        return name
    return f"{name}, family {found['cpu family']} model {found.get('model', UNKNOWN)}"


def facts(filename: str, face: Any = None) -> dict[str, str]:
    """Everything that belongs to a number, by name.

    Parameters
    ----------
    filename : str
        The file or directory that is measured.
    face : module, optional
        The imported ``multitables``: its own word counts, another may be installed.
    """
    memory = re.search(r"^MemTotal:\s*(\d+)", _read("/proc/meminfo"), re.M)
    versions = {"multitables": getattr(face, "__version__", UNKNOWN)}
    versions |= {name: version_of(name) for name in ("numpy", "h5py", "tables", "hdf5plugin")}
    device = devices.describe(filename)
    found = {
        "machine": f"{processor(_read('/proc/cpuinfo'))} ({platform.machine()})",
        "cores": cores(),
        "memory": f"{int(memory[1]) / 2**20:.1f} GiB" if memory else UNKNOWN,
        "device": str(device),
        "device_kind": device.name,
        "rotational": {True: "yes", False: "no", None: UNKNOWN}[device.rotational],
        "raid": device.raid or "none",
        "scheduler": device.scheduler,
        "filesystem": device.filesystem,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    if face is not None:
        said = {"multitables", "python", "platform", *versions}
        build = {name: value for name, value in face.build_info().items() if name not in said}
        found["build"] = as_line(build)
        if sources := sources_of(os.path.dirname(os.path.abspath(face.__file__))):
            found["sources"] = sources
    return found


def sources_of(directory: str) -> str:
    """Git's digests of the trees `SOURCES`, which name what is measured; "" where it is installed.

    A tree keeps its digest in every commit that does not change it, and when a history is rebased.
    """
    if not os.path.exists(os.path.join(directory, ".git")):
        return ""
    trees = [f"HEAD:{one}" for one in SOURCES]
    commands = (["rev-parse", *trees], ["status", "--porcelain", "-uno", "--", *SOURCES])
    try:
        digests, changes = (
            subprocess.run(
                ["git", "-C", directory, *command], capture_output=True, text=True, check=True
            ).stdout
            for command in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    named = (f"{one} {digest[:8]}" for one, digest in zip(SOURCES, digests.split(), strict=True))
    return ", ".join((*named, *(["with changes"] if changes else [])))


def version_of(distribution: str) -> str:
    """The installed version of a distribution."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def versions_of(distributions: Iterable[str]) -> str:
    """The versions of several, on one line."""
    return ", ".join(f"{one} {version_of(one)}" for one in distributions)


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
