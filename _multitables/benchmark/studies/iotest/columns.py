"""The published columns: names, order and formats.

Law
---
1. The header is the published program's, byte for byte, so that its notebooks load the file.
2. Rates are of one rank's bytes, as published: not of all ranks together.
3. A file of an earlier run is written anew, unless that run is resumed.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from typing import Any

from _multitables.benchmark.contenders.iotest_contenders import grid_of
from _multitables.benchmark.data.iotest_ini import Configuration

MIB = 2**20
HEADER = (
    "steps,arrays,rows,cols,scaling,proc-rows,proc-cols,slowdim,rank,alignment-increment,"
    "alignment-threshold,layout,fill,mpi-io,wall [s],fsize [B],write-phase-min [s],"
    "write-phase-max [s],creat-min [s],creat-max [s],write-min [s],write-max [s],"
    "write-rate-min [MiB/s],write-rate-max [MiB/s],read-phase-min [s],read-phase-max [s],"
    "read-min [s],read-max [s],read-rate-min [MiB/s],read-rate-max [MiB/s]"
)


def row(test: Configuration, found: Mapping[str, Any]) -> list[str]:
    """One run; `found` has the seconds under the names of a sample."""
    mib = grid_of(test).rank_bytes / MIB

    def rates(what: str) -> list[float]:
        return [mib / max(found[f"{what}_{end}"], 1e-9) for end in ("max", "min")]

    def seconds(*names: str) -> list[float]:
        return [found[f"{name}_{end}"] for name in names for end in ("min", "max")]

    numbers = [
        *seconds("write_phase", "creat", "write"),
        *rates("write"),
        *seconds("read_phase", "read"),
        *rates("read"),
    ]
    told = (
        test.steps,
        test.arrays,
        test.rows,
        test.columns,
        test.scaling,
        test.process_rows,
        test.process_columns,
        test.slowest_dimension,
        test.dataset_rank,
        test.alignment_increment,
        test.alignment_threshold,
        test.layout,
        test.fill_values,
        test.mpi_io,
        f"{found['wall']:.2f}",
        f"{found['fsize']:.0f}",
    )
    return [*map(str, told), *(f"{number:.2f}" for number in numbers)]


def append(filename: str, test: Configuration, found: Mapping[str, Any], anew: bool) -> None:
    """Add a run to a file; `anew` forgets the runs before."""
    os.makedirs(os.path.dirname(os.path.abspath(filename)), exist_ok=True)
    begins = anew or not os.path.exists(filename) or not os.path.getsize(filename)
    with open(filename, "w" if begins else "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if begins:
            file.write(f"{HEADER}\n")
        writer.writerow(row(test, found))
