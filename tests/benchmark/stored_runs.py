"""Runs that never were: kept rows with chosen numbers, as the studies keep them.

Law
---
1. Files are written by what writes those of true runs.
2. It asserts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from _multitables.benchmark.harness.results import ResultFile
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.sweep import cases as sweep_cases
from _multitables.benchmark.studies.sweep.views import views
from _multitables.benchmark.studies.views import COLUMNS

FACTS = {
    "machine": "Some 8-core CPU (x86_64)",
    "cores": "8 of 8",
    "memory": "64.0 GiB",
    "device": "nvme0n1 (A* disk_)",
    "device_kind": "NVMe SSD",
    "rotational": "no",
    "raid": "none",
    "filesystem": "ext4",
    "python": "3.11.7",
    "run": "1 GiB of decoded data a file",
}

#: (access, complib, complevel) -> number of processes -> MB/s of each round
Rates = Mapping[tuple[str, str, int], Mapping[int, Sequence[float]]]

RISING: Rates = {
    ("queue", "none", 0): {1: (900, 1000, 1100), 2: (1800, 1900, 2000), 4: (1850, 1950, 2050)},
    ("queue", "blosc", 9): {1: (400, 400, 400), 2: (800, 800, 800), 4: (1500, 1500, 1500)},
    ("generator", "none", 0): {1: (500, 500, 500), 2: (975, 975, 975), 4: (970, 970, 970)},
}


def sweep_row(
    data: str, complib: str, level: int, contender: str, access: str, driver: str, n_procs: int
) -> dict[str, object]:
    """The columns of a row of the sweep, but for the figures."""
    return {
        "study": "sweep",
        "place": "/data",
        "data": data,
        "complib": complib,
        "complevel": level,
        "contender": contender,
        "access": access,
        "driver": driver,
        "n_procs": n_procs,
        "limit_mb_per_s": "",
        "unit": "MB/s",
        "rows": 262144,
        "row_bytes": 4096,
        "stored_bytes": 2**30,
        "decoded_bytes": 2**30,
    }


def keep_sweep(
    directory: Path,
    by_contender: Mapping[str, Rates],
    driver: str = "direct",
    cache: str = "warm",
) -> None:
    """A sweep of one device, in `directory`."""
    columns = Plan([], views, sweep_cases.KEYS, sweep_cases.MORE).columns
    with ResultFile(str(directory), "sweep", columns, FACTS) as file:
        for contender, rates in by_contender.items():
            for (access, complib, level), by_processes in rates.items():
                for n_procs, values in by_processes.items():
                    row = sweep_row("noise", complib, level, contender, access, driver, n_procs)
                    for number, value in enumerate(values):
                        file.add(
                            **row,
                            cache="bypassed" if driver == "direct" else cache,
                            round=number,
                            seconds=2**30 / 1e6 / value,
                            value=value,
                            stored_mb_per_s=value,
                        )
        file.save_json(interrupted=False)


#: part, dataset, contender, unit, value of each round
Figures = Iterable[tuple[str, str, str, str, Sequence[float]]]

FIGURES: Figures = (
    ("streams", "zlib 3", "multitables queue x2", "MB/s", (1000, 1200, 1100)),
    ("streams", "zlib 3", "h5py <read_direct>", "MB/s", (400, 450, 425)),
    ("streams", "no filter", "multitables queue x2", "MB/s", (14000,)),
    ("latency", "ready blocks", "multitables: get()", "us", (0.5, 0.7, 0.6)),
)
TARGETS = (
    {"what": "zlib 3 / h5py", "measured": "2.6x", "wanted": ">= 4x", "met": False, "note": "n"},
    {"what": "latency", "measured": "0.6 us", "wanted": "< 5 us", "met": True, "note": ""},
    {"what": "zlib 3 / 2.0.1", "measured": "-", "wanted": ">= 4x", "met": None, "note": "no env"},
)


def keep_targets(
    directory: Path,
    figures: Figures = FIGURES,
    targets: Sequence[Mapping[str, object]] = TARGETS,
    faults: Sequence[Mapping[str, str]] = (),
    interrupted: bool = False,
    study: str = "targets",
    left_out: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """A study of targets, in `directory`."""
    with ResultFile(str(directory), study, COLUMNS, FACTS) as file:
        for part, dataset, contender, unit, values in figures:
            for number, value in enumerate(values):
                file.add(
                    study=study,
                    part=part,
                    dataset=dataset,
                    contender=contender,
                    cache="warm",
                    round=number,
                    value=value,
                    unit=unit,
                )
        more = {"targets": list(targets), "faults": list(faults), "left_out": dict(left_out)}
        file.save_json(interrupted=interrupted, **more)
