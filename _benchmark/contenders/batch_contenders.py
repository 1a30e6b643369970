"""Who is measured at training batches, each in a process of its own.

Law
---
1. Every figure is proved by what its consumer saw, before the clock and under it (`batch_check`).
2. This library is timed over whole epochs. Peers may be timed over a part of one, while as much is
   prepared in advance at its end as at its start, which they are not charged for.
3. It owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _benchmark.contenders import batch_check
from _benchmark.contenders.batch_check import Oracle
from _benchmark.contract import NotMeasuredError, Source
from _benchmark.harness.child import Child
from _benchmark.loops import batch_loop

BATCH_ROWS = 256
WORKERS = 2  # readers of this library, workers of a DataLoader
CHECKED_BATCHES = 8  # of a peer; of this library a whole epoch
TIMEOUT_SECONDS = 300.0

#: What to do when a module is not there.
ADVICE = {
    "torch": "pip install multitables[torch]",
    "torchdata": "pip install torchdata",
    "grain": "pip install grain",
    "h5py": "pip install h5py hdf5plugin",
}


@dataclass(frozen=True)
class Task:
    """The rows, and what is right."""

    source: Source
    oracle: Oracle
    array_filename: str = ""
    seed: int = 1


@dataclass
class Found:
    """What checks and measurements told beside the figures."""

    part_of_epoch: float | None = None
    first_rates: list[float] = field(default_factory=list)
    read_amplification: float | None = None


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
        Timed over whole epochs from the very start, not over a part of one.
    needs : tuple of str
        Modules. They are imported before any clock starts.
    """

    task: Task
    name: str
    recipe: str
    module_directory: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    needs: tuple[str, ...] = ()
    found: Found = field(default_factory=Found)
    python: str = sys.executable

    def _ask(self, verb: str, n_epochs: int = 1, **more: Any) -> dict[str, Any]:
        """Ask a fresh process, and prove what it kept."""
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                raise NotMeasuredError(ADVICE[module])
        source = self.task.source
        with tempfile.TemporaryDirectory() as directory:
            seen = os.path.join(directory, "seen.npz")
            program = batch_loop.__file__
            with Child(self.python, self.module_directory, TIMEOUT_SECONDS, program) as child:
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
                batch_check.prove(self.task.oracle, dict(kept), n_epochs, found["ended"])
        return found

    def prove(self) -> None:
        """Raise unless an epoch, or the first batches of a peer, are right in every byte."""
        found = self._ask("check", most_batches=0 if self.whole else CHECKED_BATCHES)
        self.found.read_amplification = found["statistics"].get("read_amplification")

    def rate(self, seconds: float) -> float:
        """MB/s of a whole epoch with its start, or of a part of one."""
        if self.whole:
            found = self._ask("epochs")
            return self._megabytes(self.task.source.rows) / float(found["ends"][0])
        found = self._ask("part", seconds=seconds)
        self.found.part_of_epoch = found["rows"] / self.task.source.rows
        return self._megabytes(found["rows"]) / float(found["seconds"])

    def later_rate(self, n_epochs: int) -> float:
        """MB/s of so many epochs behind the first, of one pass.

        The rate of the first, with the start, is remembered.
        """
        found = self._ask("epochs", 1 + n_epochs)
        epoch, ends = self._megabytes(self.task.source.rows), found["ends"]
        self.found.first_rates.append(epoch / float(ends[0]))
        return n_epochs * epoch / float(ends[-1] - ends[0])

    def _megabytes(self, n_rows: int) -> float:
        return n_rows * self.task.source.row_bytes / 1e6
