"""The one loop of all studies: contenders are checked, then timed in turns, and rows are kept.

Law
---
1. A contender is measured only after its data was checked in the same run. Without a right digest
   it has no number.
2. Contenders take turns, so a drift of the machine affects all. One that fails is not asked again.
3. What an earlier run kept is neither checked nor measured again.
4. The study decides what a failure means, and what a row holds beside the contender and the round.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _benchmark.contract import (
    Contender,
    Differs,
    Digest,
    Sample,
    WrongDataError,
    differs,
    require,
)
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile, Row
from _benchmark.harness.rounds import turns
from _benchmark.machine import io_mode
from _benchmark.machine.io_mode import WARM, IoMode


@dataclass(frozen=True)
class Entry:
    """A contender, and how its rows are found.

    Attributes
    ----------
    name : str
        Unlike any other that is measured beside it.
    contender : Contender
    key : mapping
        The columns that its rows have in common, but for the round.
    files : sequence of str
        What it reads; the page cache is brought into the state of `mode` for them.
    mode : IoMode
    """

    name: str
    contender: Contender
    key: Mapping[str, Any]
    files: Sequence[str] = ()
    mode: IoMode = WARM


@dataclass(frozen=True)
class Runner:
    """How a study measures.

    Attributes
    ----------
    results : ResultFile
    counter : str
        The column that numbers the rounds.
    columns : callable
        What a row holds of an entry's sample.
    failed : callable
        Told of an entry that cannot run, or whose data is wrong.
    progress : Progress or None
        Of the whole study; None shows one for each step.
    """

    results: ResultFile
    counter: str
    columns: Callable[[Entry, Sample], Mapping[str, Any]]
    failed: Callable[[Entry, Exception], None]
    progress: Progress | None = None

    def missing(self, entry: Entry, rounds: Iterable[int]) -> bool:
        """Whether a round of it is not kept yet."""
        return any(self._kept(entry, number) is None for number in rounds)

    def _kept(self, entry: Entry, number: int) -> Row | None:
        found = self.results.earlier(**entry.key, **{self.counter: number})
        return found[0] if found else None

    def _bar(self, total: int, unit: str) -> contextlib.AbstractContextManager[Progress]:
        return contextlib.nullcontext(self.progress) if self.progress else Progress(total, unit)

    def run(
        self, entries: Sequence[Entry], differs: Differs, rounds: Sequence[int]
    ) -> dict[str, list[Row]]:
        """Check the entries that lack a round, and measure; returns the rows of each by name."""
        todo = [one for one in entries if self.missing(one, rounds)]
        out = {one.name for one in todo} - {one.name for one in self.verified(todo, differs)}
        return self.measure([one for one in entries if one.name not in out], rounds)

    def verified(self, entries: Sequence[Entry], differs: Differs) -> list[Entry]:
        """The entries that deliver the right rows."""
        found = []
        with self._bar(len(entries), "checks") as bar:
            for entry in entries:
                bar.stage(f"check {entry.name}")
                try:
                    require(entry.contender.needs)
                    digest = entry.contender.check()
                    fault = "" if digest is None else differs(digest)
                    if fault:
                        raise WrongDataError(fault)
                except Exception as error:  # noqa: BLE001  whatever is raised is the study's to judge
                    self.failed(entry, error)
                else:
                    found.append(entry)
                bar.tick(1)
        return found

    def measure(self, entries: Sequence[Entry], rounds: Sequence[int]) -> dict[str, list[Row]]:
        """Measure each once a round, in turns; returns the rows of those that never failed."""
        by_name = {entry.name: entry for entry in entries}
        found: dict[str, list[Row]] = {name: [] for name in by_name}
        with self._bar(len(rounds) * len(entries), "passes") as bar:
            for number, name in turns(list(by_name), rounds):
                bar.tick(1)
                if name not in found:
                    continue
                row = self._kept(by_name[name], number)
                if row is None:
                    bar.stage(name)
                    row = self._measured(by_name[name], number)
                if row is None:
                    del found[name]
                else:
                    found[name].append(row)
        return found

    def _measured(self, entry: Entry, number: int) -> Row | None:
        """Measure once and keep the row; None when that fails."""
        before = io_mode.prepare(entry.mode, entry.files)
        try:
            sample = entry.contender.measure()
        except Exception as error:  # noqa: BLE001
            self.failed(entry, error)
            return None
        cache = io_mode.cache_of(entry.mode, entry.files, before)
        kept = {**entry.key, self.counter: number, "cache": cache}
        return self.results.add(**kept, **self.columns(entry, sample))


def against(oracle: Callable[[], Digest]) -> Differs:
    """What differs from the digest of `oracle`, which is asked when it is first needed."""
    expected = functools.cache(oracle)
    return lambda found: differs(found, expected())


def told(error: Exception) -> str:
    """An error for people: of wrong data what is wrong, of others their type, too."""
    named = "" if isinstance(error, WrongDataError) else f"{type(error).__name__}: "
    return f"{named}{error}"
