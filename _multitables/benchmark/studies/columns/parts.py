"""The cases of the study of columns: how files are stored, and how many ranks analyse them.

Law
---
1. The published method and this library read the same files, with the same number of ranks.
2. Ranks of this library share their readers where there are several; how many, and whether they are
   processes, is the library's choice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from _multitables.benchmark.contenders.columns_contenders import Analysis, Oracle
from _multitables.benchmark.data import particle_columns
from _multitables.benchmark.harness.results import Row
from _multitables.benchmark.machine.io_mode import COLD, WARM
from _multitables.benchmark.studies.frame import LABEL, Case, Prepared

KEYS = ("storage", "ranks")
MORE = (
    *("read", "compute", "total", "wall", "rank_reads", "rank_bytes", "seconds"),
    "decoded_bytes",
)
PUBLISHED = "published"
#: The folder of the logs, below that of the results.
LOGS = "columns_logs"
#: contender -> who reads the keys in the published method.
METHODS = {"all": PUBLISHED, "root": f"{PUBLISHED}, keys by root", "shared": f"{PUBLISHED}, shared"}


@dataclass(frozen=True)
class Columns:
    """What is varied, and what all cases share."""

    directory: str
    storages: Sequence[str]
    ranks: Sequence[int]
    evtseq: Sequence[str]
    n_spills: int
    n_files: int
    seed: int
    mpiexec: str
    cold: bool

    def cases(self) -> Iterator[Case]:
        """One for each storage and number of ranks."""
        names = [METHODS[one] for one in self.evtseq] + [LABEL]
        for storage in self.storages:
            files = particle_columns.files(self.n_spills, self.n_files, storage, self.seed)
            oracle = Oracle(files)
            for ranks in self.ranks:
                key = {"storage": storage, "ranks": ranks}
                yield Case(key, partial(self._prepare, oracle, ranks), "s", names)

    def _prepare(self, oracle: Oracle, ranks: int, _stack: ExitStack) -> Prepared:
        filenames = [particle_columns.in_directory(one, self.directory) for one in oracle.files]
        share = {"share": "node" if ranks > 1 else "", "readers": None}
        makers: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
            (METHODS[one], "published", {"keys": one}, ("h5py", "pandas")) for one in self.evtseq
        ]
        makers.append((LABEL, "multitables", share, ()))
        decoded = sum(one.decoded_bytes for one in oracle.files)
        contenders = [
            Analysis(name, recipe, filenames, oracle, ranks, self.mpiexec, options, decoded, needs)
            for name, recipe, options, needs in makers
        ]
        return Prepared(contenders, oracle.differs, filenames, COLD if self.cold else WARM)


def keep_logs(output: str, row: Row, logs: dict[str, str]) -> None:
    """Write the logs of one run into a folder of their own."""
    who = row["contender"].replace(", ", "_").replace(" ", "_")
    name = f"{row['storage']}_{row['ranks']}ranks_{who}_{row['round']}"
    folder = os.path.join(output, LOGS, name)
    os.makedirs(folder, exist_ok=True)
    for filename, text in logs.items():
        with open(os.path.join(folder, filename), "w") as out:
            out.write(text)
