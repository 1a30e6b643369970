"""What the sweep measures, as values: datasets, and the columns of its rows.

Law
---
1. Pure but for the names of files: it opens, writes and measures nothing.
2. The values of the noise are those of the 2.x benchmark, float32 from a normal distribution in
   rows of 1024, so that tables published then can be laid beside these.
3. A dataset without compression is one dataset, whatever compression libraries are swept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _benchmark.data import workloads
from _benchmark.data.workloads import Workload

OURS = "multitables"
COLUMNS_A_ROW = 1024
COMPLEVELS = (0, 3, 9)

#: data -> values of `workloads.VALUES`, and the dtype
DATA = {
    "noise": ("normal", "float32"),
    "smooth": ("smooth", "float32"),
    "counts": ("poisson", "int32"),
    "categories": ("categories", "uint8"),
}
#: what --data takes: the data it stands for
FIELDS = {"noise": ("noise",), "real": tuple(DATA)}

#: What names a cell: with a cycle it is one row of the results.
KEY = (
    *("place", "data", "complib", "complevel", "contender", "access", "driver", "n_procs"),
    "limit_mb_per_s",
)
COLUMNS = (
    *("study", *KEY, "cache", "cycle", "rows", "row_bytes", "stored_bytes", "seconds"),
    *("decoded_bytes", "mb_per_s", "stored_mb_per_s"),
)


@dataclass(frozen=True)
class Dataset:
    """One file of the sweep."""

    data: str
    complib: str
    complevel: int
    workload: Workload

    @property
    def key(self) -> dict[str, Any]:
        """Its part of a row."""
        return {"data": self.data, "complib": self.complib, "complevel": self.complevel}

    def __str__(self) -> str:
        return f"{self.data} {self.complib} {self.complevel}"


def datasets(
    fields: Sequence[str], complibs: Sequence[str], complevels: Sequence[int], size_bytes: float
) -> list[Dataset]:
    """Every file, each once."""
    found: dict[tuple[str, str, int], Dataset] = {}
    for data in fields:
        values, dtype = DATA[data]
        for complib in complibs:
            for level in complevels:
                workload = Workload(
                    name="sweep",
                    rows=workloads.rows_of_size(size_bytes, COLUMNS_A_ROW, dtype),
                    columns=COLUMNS_A_ROW,
                    dtype=dtype,
                    values=values,
                    complib=complib,
                    complevel=level,
                )
                name = complib if level else "none"
                found.setdefault((data, name, level), Dataset(data, name, level, workload))
    return list(found.values())


def needed_bytes(plan: Sequence[Dataset], peers: bool) -> int:
    """Free bytes on a device: one file at a time, and the peers' copy of it."""
    return max(one.workload.needed_bytes for one in plan) * (2 if peers else 1)


def key_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What a row of the results is a pass of."""
    return tuple("" if row[name] is None else str(row[name]) for name in KEY)
