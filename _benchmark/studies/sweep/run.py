"""How the sweep goes: dataset by dataset, written, checked, and only then timed, in turns.

Law
---
1. Each dataset's file is written, every line is checked against PyTables, and only then is any of
   them timed. A line whose data is wrong has no number, and the exit status is 1.
2. What an earlier run kept is not measured again, and nothing is written for it.
3. It keeps rows and faults; `views` shows what they mean.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from _benchmark.contenders import streams
from _benchmark.contract import NotMeasuredError, Sample, Source
from _benchmark.data import workloads
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile
from _benchmark.harness.runner import Entry, Runner, against, told
from _benchmark.machine import throttle
from _benchmark.studies.sweep.lines import MakeContender, Readers
from _benchmark.studies.sweep.plan import OURS, Dataset
from _benchmark.studies.sweep.views import views


@dataclass(frozen=True)
class Place:
    """Where files lie: a device."""

    directory: str
    filename: str
    readers: Readers
    limits: Sequence[float | None]


@dataclass
class Sweep:
    """One run; filled as it goes, so that an interrupted run can be shown.

    `places` are the devices, each with its facts.
    """

    results: ResultFile
    cycles: int
    plan: Sequence[Dataset]
    make_contender: MakeContender
    progress: Progress
    places: Iterable[tuple[Mapping[str, str], Place]] = ()
    notes: list[str] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @property
    def more(self) -> dict[str, Any]:
        """What is kept beside the rows."""
        return {"notes": self.notes, "faults": self.faults, "left_out": self.left_out}

    def text(self) -> str:
        """What was finished."""
        return "\n\n".join(view.text() for view in views(self.results.kept(**self.more)))

    def note(self, text: str) -> None:
        """Say once what the reader of the numbers must know."""
        if text and text not in self.notes:
            self.notes.append(text)
            self.progress.note(f"note: {text}")

    def measure(self) -> None:
        """Every dataset on every device."""
        with self.progress:
            for facts, place in self.places:
                self.results.describe(facts)
                for dataset in self.plan:
                    self._dataset(place, dataset)

    def _dataset(self, place: Place, dataset: Dataset) -> None:
        workload = dataset.workload
        source = Source(place.filename, workloads.PATH, workload.rows, workload.row_bytes)
        here = {"place": place.directory, **dataset.key}
        columns, failed = partial(self._columns, source), partial(self._failed, dataset, here)
        runner = Runner(self.results, "cycle", columns, failed, self.progress)
        cycles = range(self.cycles)

        def limited(line: Entry, limit: float | None) -> Entry:
            return replace(line, key={**here, **line.key, "limit_mb_per_s": limit})

        def missing(lines: Sequence[Entry]) -> list[Entry]:
            return [
                line
                for line in lines
                if any(runner.missing(limited(line, limit), cycles) for limit in place.limits)
            ]

        with workloads.scratch_directory(os.path.dirname(place.filename)) as scratch:
            lines = place.readers.lines(source, self.make_contender)
            todo = missing(lines)
            done = len(lines) - len(todo)
            self.progress.tick(done * (1 + self.cycles * len(place.limits)) + 1)
            if not todo and not place.readers.has_peers:
                return
            self.progress.stage(f"{dataset}: write")
            workloads.write(workload, place.filename)
            todo += missing(place.readers.peers(source, workload, scratch))
            verified = runner.verified(todo, against(partial(streams.oracle, source)))
            for limit in place.limits:
                with self._limited(place, limit) as allowed:
                    if allowed:
                        runner.measure([limited(line, limit) for line in verified], cycles)

    def _failed(
        self, dataset: Dataset, here: Mapping[str, Any], line: Entry, error: Exception
    ) -> None:
        """Note why a line has no number: it cannot run here, or it is wrong."""
        who = line.key["contender"]
        if isinstance(error, NotMeasuredError) and who != OURS:
            datasets = self.left_out.setdefault(who, {}).setdefault(str(error), [])
            if str(dataset) not in datasets:
                datasets.append(str(dataset))
            return
        key = {name: line.key[name] for name in line.key if name != "limit_mb_per_s"}
        self.faults.append({**here, **key, "fault": told(error)})
        self.progress.note(f"FAILED {dataset}, {line.name}: {told(error)}")

    @contextlib.contextmanager
    def _limited(self, place: Place, limit: float | None) -> Iterator[bool]:
        """The kernel's throttle, where there is to be one; False when it cannot be had."""
        with contextlib.ExitStack() as stack:
            if limit is not None:
                try:
                    stack.enter_context(throttle.limited(place.filename, limit * 1e6))
                except throttle.CannotLimitError as error:
                    self.note(f"{limit:g} MB/s not measured: {error}")
                    yield False
                    return
            yield True

    @staticmethod
    def _columns(source: Source, _line: Entry, sample: Sample) -> dict[str, Any]:
        stored_bytes = os.path.getsize(source.filename)
        return {
            **sample.more,
            "rows": source.rows,
            "row_bytes": source.row_bytes,
            "stored_bytes": stored_bytes,
            "mb_per_s": round(sample.value, 1),
            "stored_mb_per_s": round(sample.value * stored_bytes / source.decoded_bytes, 1),
        }
