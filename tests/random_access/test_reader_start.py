"""Readers start in any working directory, under any Python options, from any program.

Law: each test is a program of its own; it prints the sum of the rows it got.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import payload
import pytest
from processes import environment, run_script

STREAM = """
import sys
import multitables
total = 0
for guard in multitables.Streamer(sys.argv[1]).get_queue("rows", n_procs=2):
    with guard as block:
        total += int(block.sum())
print(total)
"""
TOTAL = str(int(payload.content().sum()))


def test_what_lies_in_the_working_directory_is_not_imported(numbered: Path, tmp_path: Path) -> None:
    for name in ("_multitables", "json", "os", "encodings", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the wrong place')")
    change = f"import os, sys\nimport h5py\nsys.path.remove('')\nos.chdir({str(tmp_path)!r})\n"
    done = run_script(change + STREAM, numbered)
    assert (done.stdout.strip(), done.stderr) == (TOTAL, "")


@pytest.mark.parametrize("program", ["file", "module", "stdin"])
def test_a_program_needs_no_guard(numbered: Path, tmp_path: Path, program: str) -> None:
    (tmp_path / "program.py").write_text(STREAM)
    arguments = {
        "file": ["program.py", str(numbered)],
        "module": ["-m", "program", str(numbered)],
        "stdin": ["-", str(numbered)],
    }[program]
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=tmp_path,
        env=environment(),
        input=STREAM if program == "stdin" else "",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (TOTAL, "")


def test_an_environment_meant_for_the_parent_does_no_harm(numbered: Path) -> None:
    options = {
        "PYTHONSAFEPATH": "1",
        "PYTHONWARNINGS": "error",
        "PYTHONOPTIMIZE": "2",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", STREAM, str(numbered)],
        env={**environment(), **options},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (TOTAL, "")


def test_closed_standard_streams(numbered: Path, tmp_path: Path) -> None:
    """Descriptors 0 to 2 are free there, and must not be taken for ours."""
    result = tmp_path / "result"
    source = STREAM.replace("print(total)", f"open({str(result)!r}, 'w').write(str(total))")
    command = 'exec "$0" -c "$1" "$2" <&- >&- 2>&-'
    subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, source, os.fspath(numbered)],
        env=environment(),
        timeout=30,
        check=True,
    )
    assert result.read_text() == TOTAL
