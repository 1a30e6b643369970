"""What this machine has: the cores and the memory that the process may use, and Python's program.

Law
---
1. Limits are those of the machine and of every control group that the process is in; the core
   reads them (core/src/os/limits.rs). Groups' limits change: they are remembered for a second at
   most.
2. What the kernel does not tell is no limit, never an error.
"""

from __future__ import annotations

import os
import shutil
import sys

import _multitables
from _multitables import _core
from _multitables.errors import ReaderDiedError

#: Memory that rings and stages leave to others, if that is no more than a quarter.
SPARED_BYTES = 256 << 20


def available_cores() -> int:
    """Cores that this process may use: its own, or what quotas allow where that is less."""
    try:
        cores = len(os.sched_getaffinity(0))
    except OSError:  # a sandbox refuses it
        cores = os.cpu_count() or 1
    return max(1, min(cores, _core.cpu_quota() or cores))


def available_bytes() -> int:
    """Memory that the machine and the groups of this process have to give."""
    return _core.available_bytes()


def memory_limit_bytes() -> int:
    """Bytes that a ring or all stages may have: what there is to have, less 1/8.

    The kernel charges shared memory to no process: when it takes everything, others are killed.
    """
    limit = available_bytes()
    return limit - max(limit // 8, min(limit // 4, SPARED_BYTES))


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
