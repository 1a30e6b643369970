"""The frame of a study of targets: options that all have, the run of its parts, what is kept.

Law
---
1. Parts are a table of functions of a `TargetRun`; what they compare is theirs.
2. A rival that cannot run is left out with its reason. A failure of multitables is a fault, and so
   are wrong data of any contender.
3. A missed target does not make the program fail; wrong data does.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from _benchmark.contenders import old_release
from _benchmark.contract import (
    Contender,
    ContenderError,
    Differs,
    NotMeasuredError,
    Sample,
    Source,
    WrongDataError,
)
from _benchmark.data import workloads
from _benchmark.harness.child import face
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile
from _benchmark.harness.rounds import summary
from _benchmark.harness.runner import Entry, Runner, told
from _benchmark.machine import environment, page_cache
from _benchmark.machine.io_mode import WARM, IoMode
from _benchmark.report.tables import aligned
from _benchmark.studies.arguments import add_result_options, positive
from _benchmark.studies.conduct import conduct
from _benchmark.studies.targets import verdicts
from _benchmark.studies.targets.verdicts import COLUMNS, LABEL, Target
from _benchmark.studies.targets.views import target_table, views

__all__ = ["Parts", "TargetRun", "add_arguments", "run", "views"]


@dataclass
class TargetRun:
    """One run of a study of targets; parts read its settings and fill its lists.

    `seconds` is how long each is timed, where the parts leave that open, and `sizes` are what else
    a study counts. `judged` is False for data so small that figures mean little. `samples` are
    those of the last `measure`, by name.
    """

    directory: str
    size_bytes: float
    rounds: int
    processes: tuple[int, ...]
    datasets: tuple[str, ...]
    old_python: str | None
    old_reason: str
    results: ResultFile
    seconds: float = 1.0
    sizes: Mapping[str, int] = field(default_factory=dict)
    judged: bool = True
    parts: Sequence[Callable[[TargetRun], None]] = ()
    tables: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def array_filename(self, workload: workloads.Workload) -> str:
        """The workload's rows as an .npy file, written if need be."""
        return self.prepared(workload, workloads.array_in_directory)

    def source(self, workload: workloads.Workload) -> Source:
        """The workload's file, written if need be."""
        filename = self.prepared(workload, workloads.in_directory)
        return Source(filename, workloads.PATH, workload.rows, workload.row_bytes)

    def prepared(self, workload: Any, write: Callable[[Any, str], str]) -> str:
        """The file of anything with a `name`, written by `write` if need be, in the page cache."""
        with Progress(1, "files") as progress:
            progress.stage(f"prepare {workload.name}")
            filename = write(workload, self.directory)
            progress.tick(1)
        page_cache.fill_page_cache(filename)
        return filename

    def rates(
        self,
        part: str,
        dataset: str,
        everybody: Sequence[Contender],
        differs: Differs,
        *files: str,
        unit: str = "MB/s",
        mode: IoMode = WARM,
        rounds: int | None = None,
    ) -> dict[str, list[float]]:
        """Check and measure everybody in turns; the values of those that never failed, by name."""
        key = {"part": part, "dataset": dataset, "unit": unit}
        entries = [
            Entry(one.name, one, {**key, "contender": one.name}, files, mode) for one in everybody
        ]
        self.samples.clear()
        found = Runner(self.results, "round", self._columns, self._failed).run(
            entries, differs, range(rounds or self.rounds)
        )
        return {name: [float(row["value"]) for row in rows] for name, rows in found.items()}

    def _columns(self, entry: Entry, sample: Sample) -> dict[str, Any]:
        self.samples.setdefault(entry.name, []).append(sample)
        return {"value": sample.value}

    def _failed(self, entry: Entry, error: Exception) -> None:
        self.reasons[entry.name] = str(error)
        may_fail = isinstance(error, (ContenderError, OSError)) and not entry.name.startswith(LABEL)
        if isinstance(error, WrongDataError) or not (
            may_fail or isinstance(error, NotMeasuredError)
        ):
            where = f"{entry.key['part']} {entry.key['dataset']}"
            self.faults.append(f"{where}, {entry.name}: {told(error)}")

    def table(
        self,
        title: str,
        names: Iterable[str],
        rates: Mapping[str, Sequence[float]],
        ours: str | None,
        form: str = ".0f",
        unit: str = "MB/s",
        notes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add the table of a part: each contender's figure, and `ours` beside it."""
        rows = []
        for name in names:
            if name not in rates:
                rows.append([name, "not measured", "", self.reasons.get(name, "")])
                continue
            found = verdicts.with_spread(summary(rates[name]), form)
            ratio = verdicts.as_ratio(rates.get(ours or ""), rates[name])
            rows.append([name, found, ratio, notes.get(name, "")])
        header = ["contender", unit, f"{ours or LABEL} / it", "note"]
        self.tables.append(f"{title}\n{aligned(header, rows, left=('note',))}")

    def judge(self, target: Target) -> None:
        """Add a target; of little data it is not judged."""
        self.targets.append(target if self.judged else dataclasses.replace(target, met=None))

    def keep(self, value: float, **key: Any) -> None:
        """Keep one figure that nobody was timed for, unless the run that is resumed has it."""
        if not self.results.earlier(**key):
            self.results.add(**key, cache="", value=value)

    def measure(self) -> None:
        """Run the parts."""
        for part in self.parts:
            part(self)

    def text(self) -> str:
        """What was finished."""
        targets = [target_table(self.targets).text()] if self.targets else []
        text = "\n\n".join([*self.tables, *targets])
        return text + ("\n\nFAILED\n" + "\n".join(self.faults) if self.faults else "")

    @property
    def more(self) -> dict[str, Any]:
        """What is kept beside the rows."""
        return {
            "targets": [dataclasses.asdict(target) for target in self.targets],
            "faults": self.faults,
        }


Parts = Mapping[str, Callable[[TargetRun], None]]


def add_arguments(
    parser: argparse.ArgumentParser,
    parts: Iterable[str],
    datasets: Iterable[str],
    with_old_release: bool = True,
) -> None:
    """The options that every study of targets has; and the old release's, where it takes part."""
    add = parser.add_argument
    add(
        "--rounds",
        type=positive(int),
        default=5,
        metavar="N",
        help="how often every contender is measured (default 5)",
    )
    for option, names in (("part", parts), ("dataset", datasets)):
        add(
            f"--{option}",
            action="append",
            choices=list(names),
            metavar="NAME",
            help=f"only this {option}, may be repeated: {', '.join(names)}",
        )
    add(
        "--data_dir",
        metavar="DIR",
        help="keep the datasets here and use them again (default: temporary files)",
    )
    if with_old_release:
        add(
            "--old_env",
            metavar="DIR",
            help=f"virtual environment with multitables {old_release.VERSION}; made, from PyPI, "
            "when it is not there (default: the old release is not measured)",
        )
    add_result_options(parser)


def run(
    study: str,
    parts: Parts,
    arguments: argparse.Namespace,
    what: str,
    more_facts: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> int:
    """Measure, print, keep; returns the exit status.

    `what` says how much is measured; `settings` are those of `TargetRun` that the study decides,
    and `more_facts` what belongs to its numbers beside the machine.
    """
    has_old_release = "old_env" in arguments
    old_python, old_reason = _old_python(arguments.old_env) if has_old_release else (None, "")
    with workloads.data_directory(arguments.data_dir) as directory:
        facts = environment.facts(directory, face()) | dict(more_facts)
        if has_old_release:
            facts["old release"] = (
                f"not measured: {old_reason}"
                if old_reason
                else f"{old_release.VERSION} in its own venv"
            )
        judged = settings["judged"]
        facts["run"] = what + ("" if judged else "; numbers of so little data are not judged")
        with ResultFile(
            arguments.output, study, COLUMNS, facts, _told(settings), arguments.resume
        ) as results:
            found = TargetRun(
                directory=directory,
                rounds=arguments.rounds,
                old_python=old_python,
                old_reason=old_reason,
                results=results,
                parts=[parts[name] for name in arguments.part or parts],
                **settings,
            )
            return conduct(results, facts, found)


def _told(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a run that is resumed must share; it may have other parts, datasets and rounds."""
    return {name: value for name, value in settings.items() if name != "datasets"}


def _old_python(directory: str | None) -> tuple[str | None, str]:
    """The old release's interpreter, or why it is missing."""
    if directory is None:
        return None, "name an environment with --old_env DIR"
    try:
        return old_release.interpreter(directory), ""
    except NotMeasuredError as error:
        return None, str(error)
