"""The shapes that projects load: who loads them, and the target of each.

Law
---
1. A shape is a row of `SHAPES`, and its cases are made in the same way for all. A target is a
   multiple of another contender's rate.
2. It measures nothing: the frame checks the data and takes the turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from _multitables.benchmark.contenders import loader_contenders
from _multitables.benchmark.contenders.loader_contenders import (
    COLLECTION,
    FRAMES,
    IN_DATALOADER,
    LANCE,
    OPEN,
    PEER,
    UNIT,
)
from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.data import special_files, structures, workloads
from _multitables.benchmark.data.loader_files import LoaderFile
from _multitables.benchmark.data.special_files import MEAN_LENGTH, SparseFile
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.objects.server import NoServerError
from _multitables.benchmark.objects.store import Store
from _multitables.benchmark.studies.frame import Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting, case

#: Name of a filter -> level of gzip, and in words.
LEVELS = {"none": (0, "no filter"), "gzip": (1, "gzip 1")}
DATASETS = tuple(LEVELS)
CELLS = "multitables, chunks shuffled"
UNIT_OF_RATES = "samples/s"


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
    wanted: Mapping[str, tuple[Wanted, ...]]


def _beside_h5py(ours: float, theirs: float, name: str = UNIT) -> Wanted:
    """Rates that were wanted and measured where the targets were set."""
    return Wanted(name, (PEER, PEER + IN_DATALOADER), ours / theirs)


SHAPES = {
    "clips": Shape(
        "clips of 4 frames of 224x224x3, every fifth",
        1,
        {"none": (Wanted(UNIT, (FRAMES,), 0.9), Wanted(UNIT, (LANCE,), 10))},
    ),
    "fluids": Shape(
        "windows of 5 steps of two fields",
        4,
        {"none": (_beside_h5py(300, 35),), "gzip": (_beside_h5py(120, 12.6),)},
    ),
    "waves": Shape(
        "windows of 4096 values of two channels",
        4,
        {"none": (_beside_h5py(17_000, 2195),), "gzip": (_beside_h5py(5000, 704),)},
    ),
    "patches": Shape(
        "patches of 32x128x128 of volumes, and labels", 4, {"gzip": (_beside_h5py(200, 18.6),)}
    ),
    "robots": Shape(
        "sequences of 10 steps of demonstrations", 1, {"gzip": (_beside_h5py(1500, 175),)}
    ),
    "molecules": Shape(
        "configurations of molecules",
        1,
        {"none": (_beside_h5py(2000, 195, COLLECTION), _beside_h5py(500, 195, OPEN))},
    ),
}
#: Of sparse matrices; others shuffle runs of rows, so this library does, too.
WANTED_OF_CELLS = Wanted(CELLS, ("annbatch",), 5), Wanted(CELLS, ("scDataset",), 20)

#: Targets of clips in a store.
WANTED_OF_STORE = (Wanted(UNIT, (LANCE,), 0.5),)
LATENCY_MS = 20


def loaded(name: str, setting: Setting) -> Iterator[Case]:
    """Load the samples of one shape."""
    for filter_name in (one for one in setting.datasets if one in SHAPES[name].wanted):
        title = f"{SHAPES[name].title}, {LEVELS[filter_name][1]}"
        yield case(name, title, _loaded, setting, name, filter_name, unit=UNIT_OF_RATES)


def _loaded(setting: Setting, name: str, filter_name: str) -> Prepared:
    shape, (level, _) = SHAPES[name], LEVELS[filter_name]
    each_bytes = int(setting.size_bytes) // shape.n_files
    files = [
        setting.prepared(LoaderFile(name, number, each_bytes, level), structures.in_directory)
        for number in range(shape.n_files)
    ]
    everybody = loader_contenders.everybody(name, files, setting.seconds)
    right, wanted = against(everybody[0].check), shape.wanted[filter_name]
    return Prepared(everybody, right, files, wanted=wanted)


def store(setting: Setting) -> Iterator[Case]:
    """The clips as an object, and as Lance's objects in the same bucket."""

    def prepare(stack: ExitStack) -> Prepared:
        made = LoaderFile("clips", 0, int(setting.size_bytes), 0)
        filename = setting.prepared(made, structures.in_directory)
        folder = stack.enter_context(workloads.scratch_directory(setting.directory))
        try:
            objects = stack.enter_context(Store(folder, LATENCY_MS / 1000))
            url = objects.put(filename, os.path.basename(filename))
        except (NoServerError, ImportError) as error:
            raise NotMeasuredError(str(error)) from error
        in_store = [url], objects.options
        everybody = loader_contenders.everybody("clips", [filename], setting.seconds, *in_store)
        return Prepared(everybody, against(everybody[0].check), [filename], wanted=WANTED_OF_STORE)

    title = f"{SHAPES['clips'].title}, in a store at {LATENCY_MS} ms a request"
    yield Case({"part": "store", "dataset": title}, prepare, UNIT_OF_RATES)


def cells(setting: Setting) -> Iterator[Case]:
    """Batches of 256 rows of a sparse matrix; a sample is an element."""
    for filter_name in setting.datasets:
        title = f"batches of rows of a CSR matrix, {LEVELS[filter_name][1]}"
        yield case("cells", title, _cells, setting, LEVELS[filter_name][0])


def _cells(setting: Setting, level: int) -> Prepared:
    n_rows = max(512, int(setting.size_bytes) // (8 * MEAN_LENGTH))
    made = SparseFile(f"loaders_cells_{level}_{n_rows}", n_rows, level)
    filename = setting.prepared(made, special_files.in_directory)
    everybody = loader_contenders.cells(filename)
    wanted = () if level else WANTED_OF_CELLS
    return Prepared(everybody, against(everybody[-1].check), [filename], wanted=wanted)


PARTS: dict[str, Part] = {
    **{name: partial(loaded, name) for name in SHAPES},
    "store": store,
    "cells": cells,
}
