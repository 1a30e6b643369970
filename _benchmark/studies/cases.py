"""The frame of a study of cases: contenders measure each combination of its parameters in turns.

Law
---
1. A `Case` is a row of parameters. Its files are written when it is measured; a run that is resumed
   and has all rounds of a case does not need them.
2. Contenders of a case are checked, then timed in turns. A rival that cannot run is left out with
   its reason; a failure of multitables is a fault, and so are wrong data of any contender.
3. What is shown is made from the rows that are kept, by the study's own views.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from _benchmark.contract import (
    Contender,
    ContenderError,
    Differs,
    NotMeasuredError,
    Sample,
    WrongDataError,
)
from _benchmark.data import workloads
from _benchmark.harness.child import face
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import Kept, ResultFile, Row
from _benchmark.harness.runner import Entry, Runner, told
from _benchmark.machine import environment
from _benchmark.machine.io_mode import WARM, IoMode
from _benchmark.report.tables import View
from _benchmark.studies.arguments import add_result_options, positive
from _benchmark.studies.conduct import conduct

OURS = "multitables"


@dataclass(frozen=True)
class Prepared:
    """What a case reads, and who reads it.

    Attributes
    ----------
    contenders : sequence of Contender
        Those whose names begin with `OURS` must not fail.
    differs : callable
        What is wrong with a digest that a contender was checked with.
    files : sequence of str
        What they read; the page cache is brought into the state of `mode` for them.
    mode : IoMode
    """

    contenders: Sequence[Contender]
    differs: Differs
    files: Sequence[str] = ()
    mode: IoMode = WARM


@dataclass(frozen=True)
class Case:
    """One combination of a study's parameters.

    Attributes
    ----------
    key : mapping
        Its parameters, by the columns of the results.
    names : sequence of str
        The contenders that `prepare` makes.
    prepare : callable
        Writes the files if need be.
    unit : str
        Of the figures of this case.
    label : str
        For the progress; "" for all parameters.
    """

    key: Mapping[str, Any]
    names: Sequence[str]
    prepare: Callable[[], Prepared]
    unit: str = "s"
    label: str = ""

    @property
    def title(self) -> str:
        """For the progress."""
        return self.label or ", ".join(
            f"{name} {value}" for name, value in self.key.items() if value != ""
        )


@dataclass(frozen=True)
class Plan:
    """What a study measures.

    Attributes
    ----------
    keys, more : sequences of str
        The columns of `Case.key`, and those that are taken from ``Sample.more`` where it has them.
    cases : sequence of Case
    views : callable
        What the kept rows show, `without_numbers` among it.
    keep : callable
        Told of each row with its sample when the case ends, also by Ctrl-C: for the files in the
        format of the published study.
    """

    keys: Sequence[str]
    more: Sequence[str]
    cases: Sequence[Case]
    views: Callable[[Kept], Sequence[View]]
    keep: Callable[[Row, Sample], None] = lambda _row, _sample: None


@dataclass
class CaseRun:
    """One run of a study of cases."""

    plan: Plan
    results: ResultFile
    rounds: int
    faults: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def measure(self) -> None:
        """Measure every case that lacks a round."""
        total = sum(len(one.names) * (self.rounds + 1) for one in self.plan.cases)
        with Progress(total, "passes") as bar:
            for done, case in enumerate(self.plan.cases):
                if self._lacks(case):
                    bar.stage(f"prepare {case.title}")
                    self._measure(case, bar)
                bar.reach(
                    sum(len(c.names) for c in self.plan.cases[: done + 1]) * (self.rounds + 1)
                )

    def _lacks(self, case: Case) -> bool:
        return any(
            not self.results.earlier(**_key(case, name), round=number)
            for name in case.names
            for number in range(self.rounds)
        )

    def _measure(self, case: Case, bar: Progress) -> None:
        made = case.prepare()
        entries = [
            Entry(one.name, one, _key(case, one.name), made.files, made.mode)
            for one in made.contenders
        ]
        samples: list[Sample] = []

        def columns(_entry: Entry, sample: Sample) -> dict[str, Any]:
            samples.append(sample)
            more = {name: sample.more[name] for name in self.plan.more if name in sample.more}
            return {"value": sample.value, "unit": case.unit, **more}

        known = len(self.results.rows)
        runner = Runner(self.results, "round", columns, self._failed, bar)
        try:
            runner.run(entries, made.differs, range(self.rounds))
        finally:
            for row, sample in zip(self.results.rows[known:], samples, strict=False):
                self.plan.keep(row, sample)

    def _failed(self, entry: Entry, error: Exception) -> None:
        rival = isinstance(error, (ContenderError, OSError)) and not entry.name.startswith(OURS)
        allowed = rival or isinstance(error, NotMeasuredError)
        if isinstance(error, WrongDataError) or not allowed:
            where = ", ".join(f"{name} {value}" for name, value in entry.key.items() if value != "")
            self.faults.append(f"{where}: {told(error)}")
        else:
            self.left_out[entry.name] = str(error)

    @property
    def more(self) -> dict[str, Any]:
        """What is kept beside the rows."""
        return {"faults": self.faults, "left_out": self.left_out}

    def text(self) -> str:
        """What was finished."""
        views = self.plan.views(self.results.kept(**self.more))
        return "\n\n".join(view.text() for view in views)


def without_numbers(kept: Kept) -> list[View]:
    """The view of what failed or was left out, and why; none where all has numbers."""
    said = [f"FAILED, so it has no number: {fault}." for fault in kept.more.get("faults", ())]
    said += [f"Not measured: {who}: {why}" for who, why in kept.more.get("left_out", {}).items()]
    return [View("Without numbers", {}, sentences=said)] if said else []


def _key(case: Case, contender: str) -> dict[str, Any]:
    return {**case.key, "contender": contender}


def add_arguments(parser: argparse.ArgumentParser, scale: str, rounds: int = 3) -> None:
    """The options that every study of cases has; `scale` says what has which size at 1."""
    add = parser.add_argument
    add(
        "--scale",
        type=positive(float),
        default=1,
        metavar="X",
        help=f"this many times as large: {scale} (default 1)",
    )
    add(
        "--rounds",
        type=positive(int),
        default=rounds,
        metavar="N",
        help=f"how often every contender is measured (default {rounds})",
    )
    add(
        "--data_dir",
        metavar="DIR",
        help="keep the files here and use them again (default: temporary files)",
    )
    add_result_options(parser)


def run(
    study: str,
    arguments: argparse.Namespace,
    what: str,
    plan: Callable[[str], Plan],
    settings: Mapping[str, Any],
    more_facts: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Measure, print, keep; returns the exit status.

    `plan` is given the directory of the data. `settings` are what a run that is resumed must share,
    and `more_facts` what belongs to the numbers beside the machine.
    """
    with workloads.data_directory(arguments.data_dir) as directory:
        planned = plan(directory)
        facts = environment.facts(directory, face()) | {**more_facts, "run": what}
        columns = ("study", *planned.keys, "contender", "cache", "round", "value", "unit")
        with ResultFile(
            arguments.output,
            study,
            (*columns, *planned.more),
            facts,
            settings,
            arguments.resume,
        ) as results:
            return conduct(results, facts, CaseRun(planned, results, arguments.rounds))
