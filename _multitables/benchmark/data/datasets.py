"""The datasets of the studies: rows of one shape, stored in several ways.

Law
---
1. A value: it names a `Workload`, and writes nothing.
2. Datasets of several studies stand here once; a study decides on its sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from _multitables.benchmark.data.workloads import Workload, rows_of_size


@dataclass(frozen=True)
class Dataset:
    """Rows, and how they are stored.

    Attributes
    ----------
    title : str
        For tables.
    stored : mapping
        The fields of `Workload` that say how: filters, chunks.
    columns, dtype, values : int, str, str
        What a row is.
    least_rows, step : int
        The least number of rows, and a number that divides it.
    """

    title: str
    stored: Mapping[str, Any] = field(default_factory=dict)
    columns: int = 256
    dtype: Any = "float32"
    values: str = "waves"
    least_rows: int = 1
    step: int = 1

    def workload(self, name: str, size_bytes: float) -> Workload:
        """Its file, of about `size_bytes` of decoded data."""
        rows = rows_of_size(size_bytes, self.columns, self.dtype)
        rows = max(self.least_rows, rows // self.step * self.step)
        return Workload(name, rows, self.columns, self.dtype, self.values, **self.stored)


LZ4: Mapping[str, Any] = {"complib": "blosc:lz4", "complevel": 5}
ZLIB: Mapping[str, Any] = {"complib": "zlib", "complevel": 3}
#: Name on the command line -> title and filter.
FILTERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "none": ("no filter", {}),
    "lz4": ("blosc:lz4 5", LZ4),
    "zlib": ("zlib 3", ZLIB),
}


def of_each_filter(**row: Any) -> dict[str, Dataset]:
    """The same rows with each filter; `row` are fields of `Dataset`, or of `Workload`."""
    own = {name: row.pop(name) for name in tuple(row) if name in Dataset.__dataclass_fields__}
    return {
        name: Dataset(title, {**filters, **row}, **own)
        for name, (title, filters) in FILTERS.items()
    }
