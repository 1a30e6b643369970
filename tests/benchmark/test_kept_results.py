"""The results that are kept: one command for each folder, the same sources and one machine for all.

Law
---
1. Nothing is measured: commands are read, and folders are made by the test.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from runs import csv_of

import multitables_benchmark

TOOL = Path(__file__).parents[2] / "tools" / "kept_results.py"
if not TOOL.exists():
    pytest.skip("the tools are not beside the tests", allow_module_level=True)


@pytest.fixture
def checkout() -> ModuleType:
    """The tool, which finds the results of this checkout."""
    spec = importlib.util.spec_from_file_location("kept_results", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tool(checkout: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, which finds results in the test's own directory."""
    monkeypatch.setattr(checkout, "RESULTS", tmp_path)
    return checkout


def test_the_kept_results_are_of_one_state_and_machine(checkout: ModuleType) -> None:
    assert checkout.faults() == []


def test_the_program_takes_every_command(tool: ModuleType) -> None:
    for folder in tool.KEPT:
        settings = set()
        for number, run in enumerate(tool.runs_of(folder)):
            command = tool.command_of(run, "output", number > 0)
            words = command[command.index("multitables_benchmark.py") + 1 :]
            arguments = multitables_benchmark.parser_of(words[0]).parse_args(words[1:])
            assert arguments.output == "output"
            assert arguments.resume == (number > 0)
            settings.add((vars(arguments).get("rounds"), str(vars(arguments).get("processes"))))
        assert len(settings) == 1, "a run goes on only with rows of the same settings"


def test_a_simulated_disk_is_put_before_the_program(tool: ModuleType) -> None:
    (run,) = tool.runs_of("simulated_hdd_bfq")
    text = shlex.join(tool.command_of(run, "output", resume=False))
    assert text.startswith(
        f"{sys.executable} tests/support/simulated_disk.py --scheduler bfq --run"
    )
    assert "--directory '{mount}'" in text


def test_the_checkout_is_compiled_before_anything_is_measured(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def measure(folder: str) -> int:
        order.append(folder)
        return 0

    def compile_dir(directory: Path, **_options: int) -> None:
        order.append(directory.name)

    monkeypatch.setattr(tool, "sources_of", lambda _root: "abc")
    monkeypatch.setattr(tool.compileall, "compile_dir", compile_dir)
    monkeypatch.setattr(tool, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["kept_results.py", "peers", "small"])
    assert tool.main() == 0
    assert order == ["_multitables", "peers", "small"]


def test_kept_results_name_no_place_of_one_machine() -> None:
    for path in (TOOL.parents[1] / "docs" / "results").rglob("*.*"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(root|home|work)/|/bin/", text), path


def keep(directory: Path, folder: str, sources: str, machine: str = "a machine") -> None:
    (directory / folder).mkdir(parents=True)
    rows = [{"study": "x", "value": "1", "machine": machine, "sources": sources}]
    csv_of(directory / folder / "multitables_x.csv", rows)


def test_folders_of_several_sources_or_machines_are_faults(
    tool: ModuleType, tmp_path: Path
) -> None:
    for folder in tool.KEPT:
        keep(tmp_path, folder, "abc")
    assert tool.faults() == []
    (tmp_path / "peers").rename(tmp_path / "published")
    assert tool.faults() == ["peers is missing"]
    keep(tmp_path, "peers", "def")
    keep(tmp_path, "other", "abc", "another")
    first, *rest = tool.faults()
    assert first == "other is in no row of KEPT"
    assert [one.partition(":")[0] for one in rest] == [
        "abc on a machine",
        "abc on another",
        "def on a machine",
    ]
