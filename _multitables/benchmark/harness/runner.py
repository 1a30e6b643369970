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

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _multitables.benchmark.contract import (
    Contender,
    Differs,
    Digest,
    Sample,
    WrongDataError,
    differs,
    require,
)
from _multitables.benchmark.harness.progress import Part
from _multitables.benchmark.harness.results import ResultFile, Row
from _multitables.benchmark.harness.rounds import turns
from _multitables.benchmark.machine import io_mode
from _multitables.benchmark.machine.io_mode import WARM, IoMode


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
    columns : callable
        What a row holds of an entry's sample.
    failed : callable
        Called with an entry that cannot run, or delivers wrong data.
    progress : Part
        One step for each check and each measurement.
    """

    results: ResultFile
    columns: Callable[[Entry, Sample], Mapping[str, Any]]
    failed: Callable[[Entry, Exception], None]
    progress: Part

    def _kept(self, entry: Entry, number: int) -> Row | None:
        found = self.results.earlier(**entry.key, round=number)
        return found[0] if found else None

    def run(self, entries: Sequence[Entry], differs: Differs, rounds: Sequence[int]) -> None:
        """Check the entries that lack a round, and measure them, each once a round, in turns."""
        going = {one.name: one for one in entries}
        for entry in entries:
            lacks = any(self._kept(entry, number) is None for number in rounds)
            if lacks and not self._is_right(entry, differs):
                del going[entry.name]
            self.progress.tick(1)
        for number, name in turns(list(going), rounds):
            self.progress.tick(1)
            if name not in going or self._kept(going[name], number) is not None:
                continue
            self.progress.stage(f"{name}, round {number + 1} of {rounds[-1] + 1}")
            if not self._measured(going[name], number):
                del going[name]

    def _is_right(self, entry: Entry, differs: Differs) -> bool:
        """Whether it delivers the right rows."""
        self.progress.stage(f"check {entry.name}")
        try:
            require(entry.contender.needs)
            digest = entry.contender.check()
            fault = "" if digest is None else differs(digest)
            if fault:
                raise WrongDataError(fault)
        except Exception as error:  # noqa: BLE001  the study judges every error
            self.failed(entry, error)
            return False
        return True

    def _measured(self, entry: Entry, number: int) -> bool:
        """Measure once and keep the row; False when that fails."""
        before = io_mode.prepare(entry.mode, entry.files)
        try:
            sample = entry.contender.measure()
        except Exception as error:  # noqa: BLE001
            self.failed(entry, error)
            return False
        cache = io_mode.cache_of(entry.mode, entry.files, before)
        kept = {**entry.key, "round": number, "cache": cache}
        self.results.add(**kept, **self.columns(entry, sample))
        return True


def against(oracle: Callable[[], Digest | None]) -> Differs:
    """A comparison with the digest of `oracle`, which is called when it is first needed."""

    @functools.cache
    def expected() -> Digest:
        digest = oracle()
        assert digest is not None, "what is right has a digest"
        return digest

    return lambda found: differs(found, expected())


def described(error: Exception) -> str:
    """An error for people: of wrong data what is wrong, of others their type, too."""
    named = "" if isinstance(error, WrongDataError) else f"{type(error).__name__}: "
    return f"{named}{error}"
