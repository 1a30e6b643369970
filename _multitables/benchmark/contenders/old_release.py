"""The old release of multitables, in a virtual environment of its own.

Law
---
1. It makes that environment, and never imports anything from it.
2. Nothing is installed unless the user asked for it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from _multitables.benchmark.contract import NotMeasuredError

VERSION = "2.0.1"
# the last releases it works with: it uses names that NumPy 2 and wrapt 1.15 took away
REQUIREMENTS = (f"multitables=={VERSION}", "numpy<2", "tables<3.11", "wrapt<1.15")
# with a later Python it can be installed, and fails while it reads: its wrapt knows no later one
SUITABLE = "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 11))"


def default_directory() -> str:
    """Where the environment lies when the user names no place."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "multitables", f"old_release_{VERSION}")


def interpreter(directory: str) -> str:
    """The Python of the environment in `directory`, which is made when it is not there.

    Raises
    ------
    NotMeasuredError
    """
    python = os.path.join(os.path.abspath(directory), "bin", "python")
    if not os.path.exists(python):
        done = _run(_suitable_python(), "-m", "venv", directory)
        if done.returncode:
            raise NotMeasuredError(
                f"no environment could be made in {directory!r}: {_last_line(done)}"
            )
    if _run(python, "-c", SUITABLE).returncode:
        raise NotMeasuredError(
            f"the Python of {directory!r} is not 3.10 or 3.11, with which multitables {VERSION} "
            "reads; remove the directory, or name another one"
        )
    if not _works(python):
        done = _run(python, "-m", "pip", "install", "--quiet", *REQUIREMENTS)
        if done.returncode or not _works(python):
            raise NotMeasuredError(
                f"multitables {VERSION} could not be installed in {directory!r}: {_last_line(done)}"
            )
    return python


def _suitable_python() -> str:
    """This Python, or one in PATH, which the old release reads with.

    Raises
    ------
    NotMeasuredError
    """
    for python in (sys.executable, "python3.11", "python3.10"):
        with contextlib.suppress(OSError):  # not in PATH
            if not _run(python, "-c", SUITABLE).returncode:
                return python
    raise NotMeasuredError(
        f"multitables {VERSION} reads with Python 3.10 and 3.11 only; put python3.11 in PATH"
    )


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]


def _works(python: str) -> bool:
    check = "import importlib.metadata as m, multitables; print(m.version('multitables'))"
    return _run(python, "-I", "-c", check).stdout.strip() == VERSION
