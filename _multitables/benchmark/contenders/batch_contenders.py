"""Who is measured at training batches, each in a process of its own.

Law
---
1. Every figure is checked by what its consumer saw, before the clock and under it
   (`batch_check`).
2. This library is timed over whole epochs. Peers may be timed over a part of one, at whose end as
   much is prepared in advance as at its start; the start itself does not count against them.
3. It owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _multitables.benchmark.contenders import batch_check
from _multitables.benchmark.contenders.batch_check import Oracle
from _multitables.benchmark.contract import Sample, Source
from _multitables.benchmark.harness.child import Child
from _multitables.benchmark.loops import batch_loop

BATCH_ROWS = 256
WORKERS = 2  # readers of this library, workers of a DataLoader
CHECKED_BATCHES = 8  # of a peer; of this library a whole epoch
TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Task:
    """The rows, and what is right; peers are timed for `seconds`."""

    source: Source
    oracle: Oracle
    array_filename: str = ""
    seed: int = 1
    seconds: float = 1.0


@dataclass(frozen=True)
class BatchContender:
    """One recipe for training batches.

    Attributes
    ----------
    name : str
    recipe : str
        In `batch_recipes.RECIPES`.
    python, module_directory : str
        The interpreter, and where it finds multitables.
    options : mapping
        Of `get_batches`.
    whole : bool
        Timed over whole epochs, not over a part of one.
    later : int
        Number of epochs that are timed after the first one; 0: the first, with the start.
    needs : tuple of str
        Modules. They are imported before any clock starts.
    statistics : dict
        What it says of itself when it is checked; its rows have them, too.
    """

    task: Task
    name: str
    recipe: str
    module_directory: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    later: int = 0
    needs: tuple[str, ...] = ()
    statistics: dict[str, Any] = field(default_factory=dict)
    python: str = sys.executable

    def _ask(self, verb: str, n_epochs: int = 1, **more: Any) -> dict[str, Any]:
        """Ask a fresh process, and check what it kept."""
        source = self.task.source
        with tempfile.TemporaryDirectory() as directory:
            seen = os.path.join(directory, "seen.npz")
            place = self.python, self.module_directory
            with Child(*place, TIMEOUT_SECONDS, batch_loop, self.name) as child:
                found: dict[str, Any] = child.ask(
                    verb=verb,
                    recipe=self.recipe,
                    filename=os.path.abspath(source.filename),
                    path=source.path,
                    array_filename=self.task.array_filename,
                    rows=source.rows,
                    batch_rows=BATCH_ROWS,
                    epochs=n_epochs,
                    seed=self.task.seed,
                    workers=WORKERS,
                    options=dict(self.options),
                    imports=[*self.needs],
                    seen=seen,
                    **more,
                )
            with np.load(seen) as kept:
                batch_check.check(self.task.oracle, dict(kept), n_epochs, found["ended"])
        return found

    def check(self) -> None:
        """Raise unless an epoch, or the first batches of a peer, are right in every byte."""
        found = self._ask("check", most_batches=0 if self.whole else CHECKED_BATCHES)
        self.statistics.update(found["statistics"])

    def measure(self) -> Sample:
        """MB/s of a part of an epoch, of a whole one with its start, or of later ones."""
        if not self.whole:
            found = self._ask("part", seconds=self.task.seconds)
            rate = self._megabytes(found["rows"]) / float(found["seconds"])
            return Sample(rate, {"epochs": found["rows"] / self.task.source.rows})
        ends = self._ask("epochs", 1 + self.later)["ends"]
        epoch = self._megabytes(self.task.source.rows)
        first = epoch / float(ends[0])
        if not self.later:
            return Sample(first, {"epochs": 1, **self.statistics})
        rate = self.later * epoch / float(ends[-1] - ends[0])
        return Sample(rate, {"epochs": self.later, "first_epoch": first, **self.statistics})

    def _megabytes(self, n_rows: int) -> float:
        return n_rows * self.task.source.row_bytes / 1e6
