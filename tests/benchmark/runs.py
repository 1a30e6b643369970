"""What the tests of the benchmark program share: the workload, its options, what a run leaves.

Law
---
1. Runs are of a few MiB, and in the test's own directory.
2. It asserts nothing.
"""

from __future__ import annotations

import csv
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import multitables_benchmark
from _multitables.benchmark.contract import Contender, Differs
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.harness.results import ResultFile
from _multitables.benchmark.studies.frame import Case, Plan, Prepared, StudyRun, Wanted
from _multitables.benchmark.studies.setting import Setting
from _multitables.benchmark.studies.views import views

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TINY = Workload("tiny", rows=300, columns=64, complevel=3)


def left_behind(directory: Path) -> list[str]:
    """Everything in `directory` but the results."""
    return sorted(path.name for path in directory.iterdir() if path.name != "results")


def rows_of(name: str) -> list[dict[str, str]]:
    with open(f"results/multitables_{name}.csv") as file:
        return list(csv.DictReader(file))


def csv_of(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """Write rows of equal columns."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def sweep_arguments(*words: str) -> Any:
    return multitables_benchmark.parser_of("sweep").parse_args(words)


def setting_in(directory: Path, size_bytes: float = 2**20) -> Setting:
    """Of a tiny run."""
    none = "no old release"
    return Setting(str(directory), 1, size_bytes, ("none",), (1, 2), smoke=True, old_reason=none)


def case_of(
    *contenders: Contender,
    differs: Differs = lambda _found: "",
    files: Sequence[str] = (),
    wanted: Sequence[Wanted] = (),
    unit: str = "MB/s",
) -> Case:
    """A case of these contenders."""
    made = Prepared(contenders, differs, files, wanted=wanted)
    return Case({"part": "part", "dataset": "data"}, lambda _stack: made, unit)


def study_run(
    directory: Path,
    *cases: Case,
    more: Sequence[str] = (),
    resume: bool = False,
    rounds: int = 1,
    judges: bool = True,
) -> StudyRun:
    """A run of some cases, which keeps its rows as the study of targets does."""
    plan = Plan(cases, views, more=more, judges=judges)
    where = str(directory / "results")
    results = ResultFile(where, "targets", plan.columns, {}, {}, resume)
    return StudyRun(plan, results, rounds)


def measured(run: StudyRun) -> StudyRun:
    """The same, when it has ended."""
    with run.results:
        run.measure()
    return run


def interrupting(_setting: Setting) -> Iterator[Case]:
    """A part that ends by Ctrl-C when its case is prepared."""

    def prepare(_stack: ExitStack) -> Prepared:
        raise KeyboardInterrupt

    yield Case({"part": "interrupting", "dataset": "data"}, prepare)


def hide_module(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the children of a run not find a module, wherever it is installed."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(f"import sys\nsys.modules[{name!r}] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(directory))
