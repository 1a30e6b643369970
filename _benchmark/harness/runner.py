"""What the parts of the targets share: the datasets, the check, the rounds, the verdicts.

Law
---
1. All contenders of a part are checked before any of them is timed, and then take turns.
2. A ratio is the median of the rounds' own ratios, so both its sides saw the same moment.
3. A rival that cannot run is left out with its reason; multitables failing is a fault.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from _benchmark.contenders import streams
from _benchmark.contenders.streams import ChildStream
from _benchmark.contract import Checked, Contender, NotMeasuredError, Source
from _benchmark.data import workloads
from _benchmark.harness.child import ContenderError, WrongDataError
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile
from _benchmark.harness.rounds import Summary, summary, turns
from _benchmark.machine import page_cache

COLUMNS = ("study", "part", "dataset", "contender", "cache", "round", "value", "unit")
LABEL = "multitables"
OLD_LABEL = "2.0.1"

OneChecked = TypeVar("OneChecked", bound=Checked)


class Checking(Protocol):
    """Who raises `WrongDataError` unless what it delivers is right."""

    @property
    def name(self) -> str: ...

    def prove(self) -> None: ...


OneChecking = TypeVar("OneChecking", bound=Checking)


@dataclass(frozen=True)
class Target:
    """One row of the final table; ``met`` is None for what was not measured or not judged."""

    what: str
    measured: str
    wanted: str
    met: bool | None
    note: str = ""

    @property
    def verdict(self) -> str:
        """``met``, ``MISSED``, ``not measured`` or ``not judged``."""
        if self.met is None:
            return "not measured" if self.measured == "-" else "not judged"
        return "met" if self.met else "MISSED"


@dataclass
class Bench:
    """One run of a study of targets; parts read its settings and fill its lists.

    `seconds` is how long each is timed, where the parts leave that open. `judged` is False for
    data so small that figures mean little.
    """

    directory: str
    size_bytes: float
    rounds: int
    processes: tuple[int, ...]
    datasets: tuple[str, ...]
    old_python: str | None
    old_reason: str
    results: ResultFile
    study: str = "targets"
    seconds: float = 1.0
    judged: bool = True
    tables: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    def array_filename(self, workload: workloads.Workload) -> str:
        """The workload's rows as an .npy file, written if need be, in the page cache."""
        with Progress(workload.decoded_bytes) as progress:
            progress.stage(f"prepare {workload.name}.npy")
            filename = workloads.array_in_directory(workload, self.directory, progress.tick)
        page_cache.fill_page_cache(filename)
        return filename

    def source(self, workload: workloads.Workload) -> Source:
        """The workload's file, written if need be, in the page cache."""
        with Progress(workload.decoded_bytes) as progress:
            progress.stage(f"prepare {workload.name}")
            filename = workloads.in_directory(workload, self.directory, progress.tick)
        page_cache.fill_page_cache(filename)
        return Source(filename, workloads.PATH, workload.rows, workload.row_bytes)

    def stream(self, source: Source, access: str, n_procs: int, **options: str) -> ChildStream:
        """This multitables, in a fresh process."""
        return ChildStream(
            source, LABEL, access, n_procs, sys.executable, module_directory(), options
        )

    def old_stream(self, source: Source, access: str, n_procs: int) -> ChildStream:
        """The old release; it promises no order."""
        assert self.old_python is not None
        return ChildStream(source, OLD_LABEL, access, n_procs, self.old_python, in_order=False)

    def verified(
        self,
        source: Source,
        everybody: Sequence[OneChecked],
        oracle: Callable[[], Mapping[str, Any]] | None = None,
    ) -> list[OneChecked]:
        """Those of `everybody` that deliver what the oracle says; the others are noted.

        The oracle is what PyTables reads, unless another is given.
        """
        found: list[OneChecked] = []
        where = os.path.basename(source.filename)
        with Progress(len(everybody) + 1, "checks") as progress:
            progress.stage(f"oracle of {where}")
            expected = oracle() if oracle else streams.oracle(source)
            progress.tick(1)
            for one in everybody:
                progress.stage(f"check {one.name}")
                try:
                    fault = streams.differs(one.check(), expected, one.in_order)
                except (NotMeasuredError, ContenderError, OSError) as error:
                    self._left_out(f"{where}, {one.name}", one.name, error)
                else:
                    if fault:
                        self.faults.append(f"{where}, {one.name}: {fault}")
                    else:
                        found.append(one)
                progress.tick(1)
        return found

    def proven(self, source: Source, everybody: Sequence[OneChecking]) -> list[OneChecking]:
        """Those of `everybody` that can prove what they deliver; the others are noted."""
        found: list[OneChecking] = []
        where = os.path.basename(source.filename)
        with Progress(len(everybody), "checks") as progress:
            for one in everybody:
                progress.stage(f"check {one.name}")
                try:
                    one.prove()
                except (NotMeasuredError, ContenderError, OSError) as error:
                    self._left_out(f"{where}, {one.name}", one.name, error)
                else:
                    found.append(one)
                progress.tick(1)
        return found

    def _left_out(self, where: str, name: str, error: Exception) -> None:
        self.reasons[name] = str(error)
        ours = name.startswith(LABEL) and not isinstance(error, NotMeasuredError)
        if ours or isinstance(error, WrongDataError):
            self.faults.append(f"{where}: {error}")

    def measure(
        self,
        part: str,
        dataset: str,
        measurements: Mapping[str, Callable[[], float]],
        unit: str = "MB/s",
        before: Callable[[], str] = lambda: "warm",
        rounds: int | None = None,
    ) -> dict[str, list[float]]:
        """Each measurement once a round, in turns; those that fail are left out with a reason.

        `before` runs ahead of every measurement and says the cache state.
        """
        rounds = rounds or self.rounds
        found: dict[str, list[float]] = {name: [] for name in measurements}
        with Progress(rounds * len(measurements), "passes") as progress:
            for number, name in turns(list(measurements), rounds):
                progress.stage(f"{dataset}: {name}")
                progress.tick(1)
                if name not in found:
                    continue
                key = {"part": part, "dataset": dataset, "contender": name, "round": number}
                for row in self.results.earlier(**key, unit=unit):
                    found[name].append(float(row["value"]))
                    break
                else:
                    self._once(found, key, measurements[name], unit, before)
        return {name: values for name, values in found.items() if values}

    def _once(
        self,
        found: dict[str, list[float]],
        key: Mapping[str, Any],
        measurement: Callable[[], float],
        unit: str,
        before: Callable[[], str],
    ) -> None:
        """Measure one contender once; it leaves `found` when it cannot."""
        name = key["contender"]
        cache = before()
        try:
            value = measurement()
        except (NotMeasuredError, ContenderError, OSError) as error:
            del found[name]
            self._left_out(f"{key['part']} {key['dataset']}, {name}", name, error)
            return
        found[name].append(value)
        self.keep(**key, cache=cache, value=value, unit=unit)

    def keep(self, value: float, cache: str, **key: Any) -> None:
        """Keep one figure, unless the run that is resumed has it."""
        if not self.results.earlier(**key):
            self.results.add(study=self.study, **key, cache=cache, value=value)

    def ratio_target(
        self,
        what: str,
        ours: Sequence[float] | None,
        theirs: Sequence[float] | None,
        least: float,
        note: str,
    ) -> None:
        """Judge ours / theirs, round by round."""
        wanted = f">= {least:g}x"
        if not ours or not theirs:
            self.targets.append(Target(what, "-", wanted, None, note))
            return
        found = ratios(ours, theirs)
        self._judge(what, as_ratio(found), wanted, found.median >= least, note)

    def limit_target(
        self, what: str, values: Sequence[float] | None, most: float, unit: str, note: str = ""
    ) -> None:
        """Judge the median of values that must stay below a limit."""
        wanted = f"< {most:g} {unit}"
        self._level_target(what, values, wanted, ".3g", lambda value: value < most, note)

    def floor_target(
        self, what: str, values: Sequence[float] | None, least: float, unit: str, note: str = ""
    ) -> None:
        """Judge the median of values that must reach a floor."""
        wanted = f">= {least:g} {unit}"
        self._level_target(what, values, wanted, ".0f", lambda value: value >= least, note)

    def _level_target(
        self,
        what: str,
        values: Sequence[float] | None,
        wanted: str,
        form: str,
        meets: Callable[[float], bool],
        note: str,
    ) -> None:
        if not values:
            self.targets.append(Target(what, "-", wanted, None, note))
            return
        found, unit = summary(values), wanted.split(" ", 2)[2]
        measured = f"{with_spread(found, form)} {unit}"
        self._judge(what, measured, wanted, meets(found.median), note)

    def _judge(self, what: str, measured: str, wanted: str, met: bool, note: str) -> None:
        self.targets.append(Target(what, measured, wanted, met if self.judged else None, note))


def module_directory() -> str | None:
    """Where the face lies, for children: they must load the same library as this process."""
    filename = streams.face().__file__
    return os.path.dirname(os.path.abspath(filename)) if filename else None


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Summary:
    """Each round's ratio, summed up."""
    return summary([one / other for one, other in zip(ours, theirs, strict=False)])


def with_spread(found: Summary, form: str, unit: str = "") -> str:
    """The median, and the spread where there is one."""
    median = f"{found.median:{form}}{unit}"
    return median if found.repeats == 1 else f"{median} ({found.low:{form}}-{found.high:{form}})"


def as_ratio(found: Summary) -> str:
    """``6.10x (5.80-6.30)``."""
    return with_spread(found, ".2f", "x")


def best(rates: Mapping[str, Sequence[float]], start: str) -> str | None:
    """The fastest contender whose name begins with `start`, by median."""
    names = [name for name in rates if name.startswith(start)]
    return max(names, key=lambda name: statistics.median(rates[name]), default=None)


def warm(source: Source) -> str:
    """Have the file in the page cache; returns what mincore says."""
    if page_cache.cache_state(source.filename) != "warm":
        page_cache.fill_page_cache(source.filename)
    return page_cache.cache_state(source.filename)


def rate_of(contender: Contender) -> Callable[[], float]:
    """MB/s of one pass of `contender`."""
    return lambda: contender.passes(1)[0].rate
