"""What this machine has: the cores and the memory that the process may use, and Python's program.

Law
---
1. Asks when it is called and remembers nothing: containers' limits change.
2. What the kernel does not tell is no limit, never an error.
"""

from __future__ import annotations

import os
import shutil
import sys

import _multitables
from _multitables.errors import ReaderDiedError

#: Memory that rings and stages leave to others, at least.
SPARED_BYTES = 256 << 20


#: A container's limit, in version 2 of cgroups and in version 1. What is used of it says little:
#: the page cache counts, and gives way.
CGROUP_FILES = ("memory.max", "memory/memory.limit_in_bytes")


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def available_bytes() -> int:
    """Memory that the machine has to give, or the container's limit where that is less."""
    limit = 1 << 62
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    limit = int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    for name in CGROUP_FILES:
        try:
            with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as file:
                limit = min(limit, int(file.read()))
        except (OSError, ValueError):
            continue
    return limit


def memory_limit_bytes() -> int:
    """Bytes that a ring or all stages may have: what the machine or container has, less 1/8.

    The kernel charges shared memory to no process: when it takes everything, others are killed.
    """
    limit = available_bytes()
    return limit - max(limit // 8, min(limit, SPARED_BYTES))


def python_program() -> str:
    """Return Python's program; an embedding program names it with `multiprocessing`.

    Raises
    ------
    ReaderDiedError
        It is not known, as in a program that embeds Python.
    """
    spawn = sys.modules.get("multiprocessing.spawn")  # not imported: nothing was named
    named = (spawn.get_executable() if spawn else None) or sys.executable
    if named:
        return os.fsdecode(named)
    name = "python{}.{}".format(*sys.version_info)
    folders = [os.path.join(prefix, "bin") for prefix in (sys.exec_prefix, sys.base_exec_prefix)]
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if found is None:
        raise ReaderDiedError(
            f"no process can be started: Python's program is not known (sys.executable is "
            f"{sys.executable!r}), and there is no {name} in {', '.join(folders)} or PATH",
            advice=f"Name it with multiprocessing.set_executable('/path/of/{name}')",
            executable=named,
        )
    return found


def python_path() -> str:
    """Return the PYTHONPATH with which a child finds the modules that this process finds."""
    paths = [os.path.abspath(path) for path in sys.path if path]
    root = os.path.dirname(os.path.dirname(os.path.abspath(_multitables.__file__)))
    return os.pathsep.join(paths if root in paths else [root, *paths])
