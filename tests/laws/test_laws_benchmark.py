"""The laws of the benchmark's house, read off the sources: one rule per folder.

Law
---
1. The table of folders says who may import whom.
2. Sources are found where they are imported from, so the test also runs on an installation.
3. That the benchmark imports only the face of the library is tested in `test_laws`.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from each import for_each

import _multitables.benchmark

BENCHMARK = Path(_multitables.benchmark.__file__).parent
PACKAGE = _multitables.benchmark.__name__
ROOT = BENCHMARK.parents[1]
FILES = sorted(BENCHMARK.rglob("*.py"))

#: folder or module of the benchmark -> the others that it may import.
LOWEST = {"machine", "data", "objects", "loops", "analysis"}
MAY: dict[str, set[str]] = {
    **{folder: set() for folder in LOWEST},
    "contract": LOWEST,
    "harness": LOWEST | {"contract"},
    "contenders": LOWEST | {"contract", "harness"},
    "report": LOWEST | {"contract", "harness"},
    "studies": LOWEST | {"contract", "harness", "contenders", "report"},
}
LOOSE_AT_MOST = 5
LINES_AT_MOST = 500


def name_of(path: Path) -> str:
    """``data.workloads``; of a package the folder's name, and nothing for the outermost."""
    parts = path.relative_to(BENCHMARK).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in FILES}


def imports(path: Path) -> Iterator[str]:
    """What a file imports: modules, and names of modules as ``module.name``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            of_loops = path.parent == BENCHMARK / "loops" and node.module != "__future__"
            module = node.module or ""
            if node.level:
                assert (of_loops, node.level) == (True, 1), f"{path}: a relative import"
                module = ".".join([PACKAGE, "loops", *filter(None, [module])])
            else:
                assert not (of_loops and module.startswith(PACKAGE)), f"{path}: no relative import"
            yield from (f"{module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """The benchmark's modules that a file imports, by the names of `NAMES`."""
    found = set()
    for name in imports(path):
        if name.startswith(f"{PACKAGE}."):
            rest = name.removeprefix(f"{PACKAGE}.")
            found.add(rest if rest in NAMES else rest.rpartition(".")[0])
    return found


def folder(name: str) -> str:
    """The folder of a module, or the name of one that stands in none."""
    return name.partition(".")[0]


def edges() -> set[tuple[str, str]]:
    """(who, whom) of all imports between modules."""
    return {(name, other) for name, path in NAMES.items() for other in ours(path)}


def test_there_is_something_to_read() -> None:
    assert {"contract", "harness.rounds", "loops.stream_loop", "studies.sweep.study"} <= set(NAMES)
    assert ("harness.child", "loops.stream_loop") in edges()
    assert {folder(name) for name in NAMES} - {""} == set(MAY)


def test_folders_import_what_the_table_allows() -> None:
    against = {
        (who, whom)
        for who, whom in edges()
        if folder(whom) != folder(who) and folder(whom) not in MAY.get(folder(who), set())
    }
    assert against == set()


def test_studies_do_not_know_each_other() -> None:
    def study(name: str) -> str:
        return ".".join(name.split(".")[:2])

    inside = {(who, whom) for who, whom in edges() if who.count(".") == whom.count(".") == 2}
    assert {(who, whom) for who, whom in inside if study(who) != study(whom)} == set()


def test_what_the_entry_imports() -> None:
    entry = ROOT / "multitables_benchmark.py"
    if not entry.exists():
        pytest.skip("the entry is not beside the benchmark's inside")
    assert ours(entry) == {
        "contract",
        "harness.interruption",
        "harness.results",
        "report.publish",
        "report.tables",
        "studies",
        "studies.arguments",
    }


def test_the_contract_is_what_stands_loose() -> None:
    loose = [path.name for path in FILES if path.parent == BENCHMARK]
    assert len(loose) <= LOOSE_AT_MOST


def test_children_import_their_neighbours_only() -> None:
    """Under other interpreters their folder is the package `loops`, and no other is there.

    So they import each other by relative names, which all other files avoid.
    """
    for name, path in NAMES.items():
        if folder(name) == "loops":
            assert {folder(other) for other in ours(path)} <= {"loops"}, name


def test_each_loop_has_its_verbs() -> None:
    for name in NAMES:
        if folder(name) == "loops" and name.endswith("_loop"):
            assert importlib.import_module(f"{PACKAGE}.{name}").LOOP.verbs, name


def test_loops_are_a_package_where_nothing_else_of_this_project_is() -> None:
    names = [
        path.stem for path in FILES if path.parent == BENCHMARK / "loops" and path.stem[0] != "_"
    ]
    script = (
        "import importlib, sys\n"
        "sys.modules['_multitables'] = sys.modules['multitables'] = None\n"
        f"sys.path.append({str(BENCHMARK)!r})\n"
        "importlib.import_module('loops.startup_loop')\n"
        "assert 'numpy' not in sys.modules, 'it times the import of NumPy'\n"
        f"for name in {names}:\n"
        "    importlib.import_module(f'loops.{name}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_one_loop_looks_behind_the_face() -> None:
    behind = re.compile(r'"_multitables\.(?!benchmark)')
    inside = {name for name, path in NAMES.items() if behind.search(path.read_text())}
    assert inside == {"loops.index_loop"}


def test_analysis_is_pure() -> None:
    machinery = {"os", "subprocess", "socket", "time", "threading", "random", "datetime"}
    for name, path in NAMES.items():
        if folder(name) == "analysis":
            assert not {other.partition(".")[0] for other in imports(path)} & machinery, name


@for_each(sorted(NAMES))
def test_files_begin_with_their_law_and_are_short(name: str) -> None:
    path = NAMES[name]
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= LINES_AT_MOST
    doc = ast.get_docstring(ast.parse(source))
    assert doc, f"{path} begins with no law"
    assert doc.splitlines()[0].endswith(".")
    if path.name != "__init__.py":
        assert "1. " in doc, f"{path} has no numbered rule"
