"""How the sweep goes: dataset by dataset, written, checked, and only then timed, in turns.

Law
---
1. Each dataset's file is written, every line is checked against PyTables, and only then is any of
   them timed. A line whose data is wrong has no number, and the exit status is 1.
2. What an earlier run kept is not measured again, and nothing is written for it.
3. It keeps rows and faults; what they mean is shown by `views`, from them alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from _benchmark.contenders import streams
from _benchmark.contract import NotMeasuredError, Source
from _benchmark.data import workloads
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import Kept, ResultFile
from _benchmark.harness.rounds import turns
from _benchmark.machine import io_mode, throttle
from _benchmark.studies.sweep.lines import MakeContender, Readers
from _benchmark.studies.sweep.plan import OURS, Dataset, Line


@dataclass(frozen=True)
class Place:
    """Where files lie: a device."""

    directory: str
    filename: str
    readers: Readers
    limits: Sequence[float | None]


@dataclass
class Sweep:
    """One run; filled as it goes, so that an interrupted run can be shown."""

    results: ResultFile
    cycles: int
    make_contender: MakeContender
    progress: Progress
    notes: list[str] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def more(self) -> dict[str, Any]:
        """What is kept beside the rows."""
        return {"notes": self.notes, "faults": self.faults, "left_out": self.left_out}

    def kept(self) -> Kept:
        """What there is to show."""
        return self.results.kept(**self.more())

    def note(self, text: str) -> None:
        """Say once what the reader of the numbers must know."""
        if text and text not in self.notes:
            self.notes.append(text)
            self.progress.note(f"note: {text}")

    def measure(self, place: Place, dataset: Dataset) -> None:
        """Everything about one dataset on one place."""
        workload = dataset.workload
        source = Source(place.filename, workloads.PATH, workload.rows, workload.row_bytes)
        with workloads.scratch_directory(os.path.dirname(place.filename)) as scratch:
            lines = place.readers.lines(source, self.make_contender)
            todo = [line for line in lines if self._missing(place, dataset, line)]
            done = len(lines) - len(todo)
            self.progress.tick(done * (1 + self.cycles * len(place.limits)) * source.decoded_bytes)
            if not todo and not place.readers.has_peers:
                self.progress.tick(2 * source.decoded_bytes)
                return
            self.progress.stage(f"{dataset}: write")
            workloads.write(workload, place.filename, self.progress.tick)
            peers = place.readers.peers(source, workload, scratch)
            todo += [line for line in peers if self._missing(place, dataset, line)]
            verified = self._checked(place, dataset, source, todo)
            for limit in place.limits:
                with self._limited(place, limit) as allowed:
                    if allowed:
                        self._timed(place, dataset, source, verified, limit)

    def _key(self, place: Place, dataset: Dataset, line: Line) -> dict[str, Any]:
        return {"place": place.directory, **dataset.key, **line.key}

    def _missing(self, place: Place, dataset: Dataset, line: Line) -> bool:
        key = self._key(place, dataset, line)
        return any(
            len(self.results.earlier(**key, limit_mb_per_s=limit)) < self.cycles
            for limit in place.limits
        )

    def _checked(
        self, place: Place, dataset: Dataset, source: Source, lines: Sequence[Line]
    ) -> dict[str, Line]:
        """Those that deliver what PyTables reads, by name."""
        self.progress.stage(f"{dataset}: PyTables")
        expected = streams.oracle(source, self.progress.tick)
        verified = {}
        for line in lines:
            self.progress.stage(f"{dataset}: check {line.name}")
            try:
                fault = streams.differs(
                    line.contender.check(self.progress.tick), expected, line.contender.in_order
                )
            except Exception as error:  # noqa: BLE001  whatever is raised belongs in the table
                self._fails(place, dataset, line, error)
                continue
            if fault:
                self._fails(place, dataset, line, fault)
            else:
                verified[line.name] = line
        return verified

    def _fails(self, place: Place, dataset: Dataset, line: Line, fault: Exception | str) -> None:
        """Note why a line has no number: it cannot run here, or it is wrong."""
        if isinstance(fault, NotMeasuredError) and line.contender_name != OURS:
            datasets = self.left_out.setdefault(line.contender_name, {}).setdefault(str(fault), [])
            if str(dataset) not in datasets:
                datasets.append(str(dataset))
            return
        text = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
        self.faults.append({**self._key(place, dataset, line), "fault": text})
        self.progress.note(f"FAILED {dataset}, {line.name}: {text}")

    @contextlib.contextmanager
    def _limited(self, place: Place, limit: float | None) -> Iterator[bool]:
        """The kernel's throttle, where there is to be one; False when it cannot be had."""
        with contextlib.ExitStack() as stack:
            if limit is not None:
                try:
                    stack.enter_context(throttle.limited(place.filename, limit * 1e6))
                except NotMeasuredError as error:
                    self.note(f"{limit:g} MB/s not measured: {error}")
                    yield False
                    return
            yield True

    def _timed(
        self,
        place: Place,
        dataset: Dataset,
        source: Source,
        verified: dict[str, Line],
        limit: float | None,
    ) -> None:
        """Time them in turns; those that fail are out from there on."""
        stored_bytes = os.path.getsize(source.filename)
        broken: set[str] = set()
        for cycle, name in turns(list(verified), self.cycles):
            line = verified[name]
            key = {**self._key(place, dataset, line), "limit_mb_per_s": limit}
            if name in broken or self.results.earlier(**key, cycle=cycle):
                continue
            self.progress.stage(f"{dataset}: time {name}")
            before = io_mode.prepare(line.driver, line.filenames)
            try:
                (one,) = line.contender.passes(1, self.progress.tick)
            except Exception as error:  # noqa: BLE001
                broken.add(name)
                self._fails(place, dataset, line, error)
                continue
            self.results.add(
                study=self.results.name,
                **key,
                cache=io_mode.cache_of(line.driver, line.filenames, before),
                cycle=cycle,
                rows=source.rows,
                row_bytes=source.row_bytes,
                stored_bytes=stored_bytes,
                seconds=one.seconds,
                decoded_bytes=one.decoded_bytes,
                mb_per_s=round(one.rate, 1),
                stored_mb_per_s=round(one.rate * stored_bytes / source.decoded_bytes, 1),
            )
