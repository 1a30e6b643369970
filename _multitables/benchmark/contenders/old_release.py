"""The old release of multitables, in a virtual environment of its own.

Law
---
1. It makes that environment, and never imports anything from it.
2. Nothing is installed unless the user asked for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv

from _multitables.benchmark.contract import NotMeasuredError

VERSION = "2.0.1"
# the last releases it works with: it uses names that NumPy 2 and wrapt 1.15 took away
REQUIREMENTS = (f"multitables=={VERSION}", "numpy<2", "tables<3.11", "wrapt<1.15")


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
        try:
            venv.create(directory, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotMeasuredError(f"no environment could be made in {directory!r}: {error}") from (
                error
            )
    if not _works(python):
        install = [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode or not _works(python):
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise NotMeasuredError(
                f"multitables {VERSION} could not be installed in {directory!r} with Python "
                f"{sys.version_info.major}.{sys.version_info.minor}: {lines[-1]}"
            )
    return python


def _works(python: str) -> bool:
    check = "import importlib.metadata as m, multitables; print(m.version('multitables'))"
    done = subprocess.run([python, "-I", "-c", check], capture_output=True, text=True, check=False)
    return done.stdout.strip() == VERSION
