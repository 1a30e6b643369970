"""The page of the scoreboard is what its tool writes; a test that is missing is an error."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "scoreboard.py"
#: A test that is named -> one that does not exist.
GONE = {
    "tests/batches/test_batches_resume.py::test_states_of_a_resumed_run": (
        "tests/batches/test_batches_resume.py::test_states_of_no_run"
    ),
    "tests/plan/test_checkpoint.py::test_out_of_step_with_the_states_of_all": (
        "tests/plan/test_no_file.py::test_out_of_step_with_the_states_of_all"
    ),
    "tests/adapters/test_torch_processes.py::test_a_state_is_for_one_pass": (
        "tests/adapters/test_torch_processes.py::test_a_state_is_for_no_pass"
    ),
}


def tool(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not TOOL.exists():
        pytest.skip("an installation has no tools")
    command = [sys.executable, str(root / "tools" / TOOL.name), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A project of the same files, whose page and failures may be changed."""
    for name in ("tools", "tests", "_multitables"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    return tmp_path


def test_the_page_is_what_the_tool_writes() -> None:
    done = tool(ROOT, "--check")
    assert done.returncode == 0, done.stderr


def test_a_page_of_older_rows_is_stale(other: Path) -> None:
    page = other / "docs" / "scoreboard.rst"
    page.write_text(page.read_text().replace(" of 25\n", " of 26\n", 1))
    done = tool(other, "--check")
    assert done.returncode == 1
    assert "scoreboard.rst is stale" in done.stderr


def test_a_missing_test_is_an_error(other: Path) -> None:
    """A test, a file, and a test of a file that needs a library."""
    failures = other / "docs" / "failures.csv"
    text = failures.read_text()
    for known, gone in GONE.items():
        assert known in text
        text = text.replace(known, gone, 1)
    failures.write_text(text)
    done = tool(other, "--check")
    assert done.returncode == 1
    assert done.stderr.startswith("no such test: ")
    assert set(done.stderr.removeprefix("no such test: ").strip().split(", ")) == {*GONE.values()}


def test_threads_are_public_addresses() -> None:
    rows = (ROOT / "docs" / "failures.csv").read_text().splitlines()[1:]
    address = re.compile(r",https://github\.com/[\w-]+/[\w-]+/(?:issues|pull)/\d+,tests/")
    assert len(rows) > 20
    assert [row for row in rows if not address.search(row)] == []


def test_every_promise_is_on_the_page() -> None:
    page = (ROOT / "docs" / "scoreboard.rst").read_text()
    promises = (ROOT / "docs" / "explanation" / "failure_model.rst").read_text()
    tests = re.findall(r"``tests/([\w/]+\.py)(?:::(\w+))?``", promises)
    assert len(tests) > 60
    for file, name in tests:
        assert (f"``{name}`` (``{file}``)" if name else f"``{file}``") in page
