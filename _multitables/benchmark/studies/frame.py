"""The frame of every study that measures: its cases, one after the other, and what becomes of them.

Law
---
1. A `Case` is a row of parameters. Its files are written when it is measured; of a run that is
   resumed, a case whose contenders are named and have all rounds does not need them.
2. Contenders of a case are checked, then timed in turns. A rival that cannot run is left out with
   its reason. A failure of multitables is a fault, and so are wrong data of any contender.
3. The study's views make tables and plots from the rows that are kept.
4. However a run ends, what was finished is printed and kept. The exit status is 1 when a check of
   the data failed, 130 when the run was interrupted, 2 when no row could be measured, else 0. A
   missed target does not make the program fail.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from _multitables.benchmark.contract import (
    Contender,
    ContenderError,
    Differs,
    NotMeasuredError,
    Sample,
    WrongDataError,
)
from _multitables.benchmark.harness.progress import Progress
from _multitables.benchmark.harness.results import Kept, ResultFile, Row
from _multitables.benchmark.harness.runner import Entry, Runner, described
from _multitables.benchmark.machine.io_mode import WARM, IoMode
from _multitables.benchmark.report.figures import Figures
from _multitables.benchmark.report.tables import Section, View, heading
from _multitables.benchmark.studies import verdicts
from _multitables.benchmark.studies.verdicts import LABEL, Target, Wanted

__all__ = ["LABEL", "Case", "Plan", "Prepared", "StudyRun", "Wanted", "conduct"]


@dataclass(frozen=True)
class Prepared:
    """The files of a case, and its contenders.

    Attributes
    ----------
    contenders : sequence of Contender or Entry
        Those whose names begin with `LABEL` must not fail. An `Entry` has columns, files or a mode
        of its own.
    differs : callable
        What is wrong with a digest that a contender was checked with.
    files : sequence of str
        What they read; the page cache is brought into the state of `mode` for them.
    mode : IoMode
    wanted : sequence of Wanted
    """

    contenders: Sequence[Contender | Entry]
    differs: Differs = lambda _found: ""
    files: Sequence[str] = ()
    mode: IoMode = WARM
    wanted: Sequence[Wanted] = ()


@dataclass(frozen=True)
class Case:
    """One combination of a study's parameters.

    Attributes
    ----------
    key : mapping
        Its parameters, by the columns of the results.
    prepare : callable
        Writes the files if need be. What it enters into the stack it is given (a server, a limit of
        the device) lives until the case is measured. A `ContenderError` that it raises is a fault.
    unit : str
        Of its figures.
    names : sequence of str or mapping
        The contenders that `prepare` makes, where they are known without it; a mapping has the
        columns of an `Entry`.
    rounds : int, range or None
        How often each is measured, or which rounds; None: as often as the run says.
    facts : mapping
        What belongs to its numbers in place of the run's facts; empty: those.
    label : str
        For people; "" for all parameters.
    """

    key: Mapping[str, Any]
    prepare: Callable[[contextlib.ExitStack], Prepared]
    unit: str = "MB/s"
    names: Sequence[str | Mapping[str, Any]] = ()
    rounds: int | range | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    label: str = ""

    @property
    def title(self) -> str:
        """For people."""
        return self.label or _words(self.key)


@dataclass(frozen=True)
class Plan:
    """The cases of a study, and their columns.

    Attributes
    ----------
    cases : sequence of Case
    views : callable
        What the kept rows show, `without_numbers` among it.
    keys : sequence of str
        The columns of ``Case.key``, and of each `Entry`.
    more : sequence of str
        The columns that are taken from ``Sample.more`` where it has them.
    judges : bool
        Whether the data is large enough for verdicts.
    keep : callable
        Receives each row with its sample when the case ends, also by Ctrl-C: for the files in the
        format of a published study.
    beside : mapping
        What the JSON file holds beside the rows; it may fill while the run goes on. A list begins
        with what it held in the run that is resumed.
    """

    cases: Sequence[Case]
    views: Callable[[Kept], Sequence[View]]
    keys: Sequence[str] = ("part", "dataset")
    more: Sequence[str] = ()
    judges: bool = True
    keep: Callable[[Row, Sample], None] = lambda _row, _sample: None
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the results."""
        return ("study", *self.keys, "contender", "cache", "round", "value", "unit", *self.more)


@dataclass
class StudyRun:
    """One run of a study; it fills itself as it goes, so that an interrupted run can be shown.

    `left_out` has the reasons of each contender, with the cases that each is of.
    """

    plan: Plan
    results: ResultFile
    rounds: int
    faults: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    def measure(self) -> None:
        """Measure every case that lacks a round."""
        for name, found in self.plan.beside.items():
            if isinstance(found, list):
                found.extend(self.results.before.get(name, ()))
        with Progress(len(self.plan.cases), "cases") as bar:
            for done, case in enumerate(self.plan.cases):
                if case.facts:
                    self.results.describe(case.facts)
                if self._lacks(case):
                    bar.stage(f"prepare {case.title}")
                    with contextlib.ExitStack() as stack:
                        try:
                            made = case.prepare(stack)
                        except NotMeasuredError as error:
                            self._leave_out(case.title, "all", str(error))
                        except ContenderError as error:
                            self.faults.append({**case.key, "fault": described(error)})
                            bar.note(f"{case.title}: {described(error)}")
                        else:
                            self._measure(case, made, bar)
                bar.reach(done + 1)

    def _rounds(self, case: Case) -> range:
        rounds = case.rounds or self.rounds
        return rounds if isinstance(rounds, range) else range(rounds)

    def _lacks(self, case: Case) -> bool:
        return not case.names or any(
            not self.results.earlier(**case.key, **columns, round=number)
            for name in case.names
            for columns in ({"contender": name} if isinstance(name, str) else name,)
            for number in self._rounds(case)
        )

    def _measure(self, case: Case, made: Prepared, bar: Progress) -> None:
        entries = [_entry(case, made, one) for one in made.contenders]
        samples: list[Sample] = []
        reasons: dict[str, str] = {}

        def columns(_entry: Entry, sample: Sample) -> dict[str, Any]:
            samples.append(sample)
            more = {name: sample.more[name] for name in self.plan.more if name in sample.more}
            return {"value": sample.value, "unit": case.unit, **more}

        def failed(entry: Entry, error: Exception) -> None:
            reasons[entry.key["contender"]] = str(error)
            self._failed(case, entry, error)
            bar.note(f"{case.title}, {entry.name}: {described(error)}")

        known = len(self.results.rows)
        part = bar.part(len(entries) * (1 + len(self._rounds(case))))
        runner = Runner(self.results, columns, failed, part)
        try:
            runner.run(entries, made.differs, self._rounds(case))
        finally:
            for row, sample in zip(self.results.rows[known:], samples, strict=False):
                self.plan.keep(row, sample)
        found = Figures(self.results.rows, self.faults).where(**case.key)
        self.targets += [
            verdicts.judged(case.title, one, found, reasons, self.plan.judges)
            for one in made.wanted
        ]

    def _failed(self, case: Case, entry: Entry, error: Exception) -> None:
        who = entry.key["contender"]
        rival = isinstance(error, (ContenderError, OSError)) and not who.startswith(LABEL)
        may_fail = rival or isinstance(error, NotMeasuredError)
        if isinstance(error, WrongDataError) or not may_fail:
            self.faults.append({**entry.key, "fault": described(error)})
        else:
            self._leave_out(case.title, who, str(error))

    def _leave_out(self, title: str, who: str, reason: str) -> None:
        titles = self.left_out.setdefault(who, {}).setdefault(reason, [])
        if title not in titles:
            titles.append(title)

    @property
    def more(self) -> dict[str, Any]:
        """The content of the JSON file beside the rows."""
        return {
            "faults": self.faults,
            "left_out": self.left_out,
            "targets": [dataclasses.asdict(one) for one in self.targets],
            **self.plan.beside,
        }

    def text(self) -> str:
        """Tables of the rows that were measured."""
        kept = self.results.kept(facts=self.results.facts, **self.more)
        views = Section.of("", kept, self.plan.views(kept)).views
        return "\n\n".join(view.text() for view in views)


def _entry(case: Case, made: Prepared, one: Contender | Entry) -> Entry:
    if isinstance(one, Entry):
        return dataclasses.replace(one, key={**case.key, **one.key})
    return Entry(one.name, one, {**case.key, "contender": one.name}, made.files, made.mode)


def _words(key: Mapping[str, Any]) -> str:
    plain = ("part", "dataset")  # their values say what they are
    words = [v if n in plain else f"{n} {v}" for n, v in key.items() if v not in ("", None)]
    return ", ".join(words)


def without_numbers(kept: Kept) -> list[View]:
    """The view of what failed or was left out, and why; empty where all has numbers."""
    lines = [
        f"FAILED, so it has no number: {_words({n: one[n] for n in one if n != 'fault'})}: "
        f"{one['fault']}."
        for one in kept.more.get("faults", ())
    ]
    for who, reasons in kept.more.get("left_out", {}).items():
        lines += [f"Not measured: {who} ({'; '.join(of)}): {why}" for why, of in reasons.items()]
    return [View("Without numbers", {}, sentences=lines)] if lines else []


def conduct(run: StudyRun, facts: Mapping[str, str]) -> int:
    """Measure, print, keep; returns the exit status."""
    results = run.results
    print(heading(facts), flush=True)
    interrupted = False
    try:
        run.measure()
    except KeyboardInterrupt:
        interrupted = True
    results.save_json(interrupted=interrupted, **run.more)
    text = run.text()
    results.save_text(f"{heading(facts)}\n\n{text}")
    print(f"\n{text}")
    if interrupted or results.rows:
        end = "interrupted; what was finished" if interrupted else "results"
        print(f"\n{end}: {results.filename}")
    else:
        print("\nno row could be measured: there are no results")
    if run.faults:
        return 1
    return 130 if interrupted else 0 if results.rows else 2
