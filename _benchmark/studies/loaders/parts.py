"""The shapes that projects load: who loads them, and the target of each.

Law
---
1. A shape is a row of `SHAPES`, and what is done with it is the same for all. A target is a
   multiple of another contender's rate: the best one whose name begins so.
2. It measures only through `TargetRun`, which checks the data and takes the turns.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from _benchmark.contenders import loader_contenders
from _benchmark.contenders.loader_contenders import (
    COLLECTION,
    FRAMES,
    LANCE,
    OPEN,
    PEER,
    UNIT,
)
from _benchmark.contract import Contender, Digest
from _benchmark.data import special_files, structures, workloads
from _benchmark.data.loader_files import LoaderFile
from _benchmark.data.special_files import MEAN_LENGTH, SparseFile
from _benchmark.harness.runner import against
from _benchmark.objects.server import NoServerError
from _benchmark.objects.store import Store
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import best, ratio_target

#: Name of a filter -> level of gzip.
LEVELS = {"none": 0, "gzip": 1}
CELLS = "multitables, chunks shuffled"
#: (whom, beside whom) -> multiple of that rate.
Wanted = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Shape:
    """What is loaded.

    Attributes
    ----------
    title : str
        Of one sample.
    n_files : int
    wanted : mapping
        Filter -> targets. Filters that are not named are not measured.
    """

    title: str
    n_files: int
    wanted: Mapping[str, Wanted]


def _beside_h5py(ours: float, theirs: float, name: str = UNIT) -> Wanted:
    """Rates that were wanted and measured where the targets were set."""
    return {(name, PEER): ours / theirs}


SHAPES = {
    "clips": Shape(
        "clips of 4 frames of 224x224x3, every fifth",
        1,
        {"none": {(UNIT, FRAMES): 0.9, (UNIT, LANCE): 10}},
    ),
    "fluids": Shape(
        "windows of 5 steps of two fields",
        4,
        {"none": _beside_h5py(300, 35), "gzip": _beside_h5py(120, 12.6)},
    ),
    "waves": Shape(
        "windows of 4096 values of two channels",
        4,
        {"none": _beside_h5py(17_000, 2195), "gzip": _beside_h5py(5000, 704)},
    ),
    "patches": Shape(
        "patches of 32x128x128 of volumes, and labels", 4, {"gzip": _beside_h5py(200, 18.6)}
    ),
    "robots": Shape(
        "sequences of 10 steps of demonstrations", 1, {"gzip": _beside_h5py(1500, 175)}
    ),
    "molecules": Shape(
        "configurations of molecules",
        1,
        {"none": {**_beside_h5py(2000, 195, COLLECTION), **_beside_h5py(500, 195, OPEN)}},
    ),
}
#: Of sparse matrices; others shuffle runs of rows, so this library does, too.
WANTED_OF_CELLS: Wanted = {(CELLS, "annbatch"): 5, (CELLS, "scDataset"): 20}

#: Targets of clips in a store.
WANTED_OF_STORE: Wanted = {(UNIT, LANCE): 0.5}
LATENCY_MS = 20


def loaded(name: str, run: TargetRun) -> None:
    """Load the samples of one shape."""
    shape = SHAPES[name]
    for filter_name in (one for one in run.datasets if one in shape.wanted):
        level, each_bytes = LEVELS[filter_name], int(run.size_bytes) // shape.n_files
        files = [
            run.prepared(LoaderFile(name, number, each_bytes, level), structures.in_directory)
            for number in range(shape.n_files)
        ]
        everybody = loader_contenders.everybody(name, files, run.seconds)
        title = f"{shape.title}, {_filter_title(level)}"
        _measure(run, name, title, everybody, everybody[0], shape.wanted[filter_name], files)


def store(run: TargetRun) -> None:
    """The clips as an object, and as Lance's objects in the same bucket."""
    shape = SHAPES["clips"]
    title = f"{shape.title}, in a store at {LATENCY_MS} ms a request"
    made = LoaderFile("clips", 0, int(run.size_bytes), 0)
    filename = run.prepared(made, structures.in_directory)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(workloads.scratch_directory(run.directory))
        try:
            objects = stack.enter_context(Store(folder, LATENCY_MS / 1000))
            url = objects.put(filename, os.path.basename(filename))
        except (NoServerError, ImportError) as error:
            what, least = f"{title}: {UNIT} / {LANCE}", WANTED_OF_STORE[UNIT, LANCE]
            run.judge(ratio_target(what, None, None, least, str(error)))
            return
        in_store = [url], objects.options
        everybody = loader_contenders.everybody("clips", [filename], run.seconds, *in_store)
        _measure(run, "store", title, everybody, everybody[0], WANTED_OF_STORE, [filename])


def cells(run: TargetRun) -> None:
    """Batches of 256 rows of a sparse matrix; a sample is an element."""
    for level in (LEVELS[one] for one in run.datasets):
        n_rows = max(512, int(run.size_bytes) // (8 * MEAN_LENGTH))
        made = SparseFile(f"loaders_cells_{level}_{n_rows}", n_rows, level)
        filename = run.prepared(made, special_files.in_directory)
        everybody = loader_contenders.cells(filename)
        title = f"batches of rows of a CSR matrix, {_filter_title(level)}"
        wanted = WANTED_OF_CELLS if not level else {}
        _measure(run, "cells", title, everybody, everybody[-1], wanted, [filename], "MB/s")


def _filter_title(level: int) -> str:
    return f"gzip {level}" if level else "no filter"


def _measure(
    run: TargetRun,
    part: str,
    title: str,
    everybody: Sequence[Contender],
    oracle: Contender,
    wanted: Wanted,
    files: Sequence[str],
    unit: str = "samples/s",
) -> None:
    """Check and measure everybody, and judge each of whom something is wanted."""

    def right() -> Digest:
        found = oracle.check()
        assert found is not None
        return {name: found[name] for name in found if name != "in_order"} | {"in_order": None}

    found = run.rates(part, title, everybody, against(right), *files, unit=unit)
    ours = next((ours for ours, _ in wanted), everybody[0].name)
    names = [one.name for one in everybody]
    run.table(f"{title}, page cache warm", names, found, ours, ".4g", unit)
    for (name, start), least in wanted.items():
        other = best(found, start) or start
        reason = run.reasons.get(name) or next(
            (why for one, why in run.reasons.items() if one.startswith(start)), ""
        )
        what = f"{title}: {name} / {other}"
        run.judge(ratio_target(what, found.get(name), found.get(other), round(least, 2), reason))


PARTS: dict[str, Callable[[TargetRun], None]] = {
    **{name: partial(loaded, name) for name in SHAPES},
    "store": store,
    "cells": cells,
}
DATASETS = tuple(LEVELS)
