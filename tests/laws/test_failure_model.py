"""What is promised has a test: the failure model of the documentation and SECURITY.md, as texts.

Law
---
1. Each promise names the tests that hold it, as ``tests/folder/test_file.py::test_name``, and these
   exist. Each row of a table of promises has at least one.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "explanation" / "failure_model.rst", ROOT / "SECURITY.md"]
#: A test that a page names, or a file of tests.
TEST = re.compile(r"``?(tests/[\w/]+\.py)(?:::(\w+))?``?")
#: A row of a table of promises: its first cell, and the cell of its tests.
ROW = re.compile(r"^   \* - (.+?)\n     - (.+?)(?=^   \* - |^\S|\Z)", re.MULTILINE | re.DOTALL)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    named = TEST.findall(page.read_text())
    assert named
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert not name or name in functions(ROOT / file), f"{file}::{name}"


def test_each_promise_has_a_test() -> None:
    rows = [row for row in ROW.findall(PAGES[0].read_text()) if row[0] != "Promise"]
    assert len(rows) > 30
    assert [promise for promise, tests in rows if not TEST.search(tests)] == []
