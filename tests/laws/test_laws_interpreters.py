"""The laws that a running interpreter shows: what it imports, and how it ends.

1. Each test starts an interpreter of its own, which has imported nothing before.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from processes import environment, run_script

import _multitables

ROOT = Path(_multitables.__file__).parents[1]


def test_a_reader_imports_no_library() -> None:
    """In the running process, see also /proc in faults. `contextlib` alone takes half as long as
    Python itself needs to start."""
    done = run_script(
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "before = set(sys.modules)\n"
        "import _multitables.reader.__main__\n"
        "print(*sorted(set(sys.modules) - before))",
        flags=("-S",),
    )
    names = ("", ".reader", ".reader.__main__", "._core")
    assert set(done.stdout.split()) <= {"posix", *(f"_multitables{name}" for name in names)}


def test_the_face_imports_no_library() -> None:
    done = run_script(
        "import sys, multitables\n"
        "dir(multitables)\n"
        "from multitables import *\n"
        "libraries = {'h5py', 'tables', 'hdf5plugin', 'torch', 'jax', 'tensorflow', 'dask'}\n"
        "print(sorted(libraries & set(sys.modules)))"
    )
    assert done.stdout == "[]\n", done.stderr


def test_the_reader_program_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "_multitables.reader"],
        env=environment(), capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode != 0
    assert "multitables" in done.stderr


def test_no_assertion_is_needed_in_production() -> None:
    """`python -O` streams as well."""
    done = run_script(
        "import multitables; assert False; print(multitables.QueueClosed)", flags=("-O",)
    )
    assert done.stdout == "multitables.QueueClosed\n", done.stderr
