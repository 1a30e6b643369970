"""What the tests of the benchmark program share: the workload, its options, what a run leaves.

Law
---
1. Runs are of a few MiB, and in the test's own directory.
2. It asserts nothing.
"""

from __future__ import annotations

import csv
import signal
from pathlib import Path
from typing import Any

import pytest

import multitables_benchmark
from _benchmark.data.workloads import Workload
from _benchmark.harness.results import ResultFile
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import COLUMNS

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TINY = Workload("tiny", rows=300, columns=64, complevel=3)


def left_behind(directory: Path) -> list[str]:
    """Everything in `directory` but the results."""
    return sorted(path.name for path in directory.iterdir() if path.name != "results")


def rows_of(name: str) -> list[dict[str, str]]:
    with open(f"results/multitables_{name}.csv") as file:
        return list(csv.DictReader(file))


def sweep_arguments(*words: str) -> Any:
    return multitables_benchmark.parser_of("sweep").parse_args(words)


def some_run(directory: Path, resume: bool = False) -> TargetRun:
    results = ResultFile(str(directory / "results"), "targets", COLUMNS, {}, {}, resume)
    return TargetRun(str(directory), 2**20, 1, (1, 2), ("none",), None, "no old release", results)


def hide_module(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the children of a run not find a module, wherever it is installed."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(f"import sys\nsys.modules[{name!r}] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(directory))
