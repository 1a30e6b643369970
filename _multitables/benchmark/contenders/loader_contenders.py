"""The loaders of the samples of a shape, each in processes of its own.

Law
---
1. The loops have the code of loaders. A figure, samples a second, is kept only after its check.
2. It owns no table of results, no target and no order of measuring.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from _multitables.benchmark.contenders import file_contenders
from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contract import Contender, Measurement, Sample, WrongDataError
from _multitables.benchmark.loops import loader_loop

OURS = "multitables"
WORKERS = 2  # readers of this library, processes of a DataLoader
PEER, OPEN = "h5py", f"{OURS}.open"
IN_DATALOADER = f", DataLoader x{WORKERS}"
UNIT = f"{OURS} sample="
FRAMES = f"{OURS}, rows in place of clips"
REQUESTS = f"{OURS} Reader"
BY_NUMBER = f"{OPEN}, patches"
COLLECTION = f"{OURS} collection"
LANCE = "Lance, raw frames"
WEBDATASET = "WebDataset, clips cut before"
MOSAIC = "MosaicML Streaming, clips cut before"
TORCH = "pip install multitables[torch]"
INSTALL = "pip install multitables[bench-loaders]"
#: The project's class in its two forms: name, recipe, processes of a DataLoader, modules.
CLASSES: tuple[tuple[str, str, int, tuple[str, ...]], ...] = (
    (PEER, "h5py", 0, ()),
    (PEER + IN_DATALOADER, "h5py", WORKERS, ("torch",)),
    (OPEN, "open", 0, ()),
    (OPEN + IN_DATALOADER, "open", WORKERS, ("torch",)),
)
#: Shape -> name -> recipe of `loader_recipes`.
UNITS: dict[str, dict[str, str]] = {
    "clips": {
        UNIT: "unit",
        FRAMES: "rows",
        LANCE: "lance",
        WEBDATASET: "webdataset",
        MOSAIC: "mosaic",
    },
    "fluids": {UNIT: "unit", REQUESTS: "reader"},
    "waves": {UNIT: "unit"},
    "patches": {UNIT: "unit", BY_NUMBER: "by number"},
    "robots": {UNIT: "unit"},
    "molecules": {COLLECTION: "unit"},
}
#: Contenders that read objects.
OF_OBJECTS = (UNIT, LANCE)
BATCH = {"clips": 64, "fluids": 4, "waves": 64, "patches": 4, "robots": 64, "molecules": 64}
#: Samples that are some MB each; all patches, as those of `open` have an order of their own.
CHECKED = {"fluids": 20, "patches": 10**9}
OTHERS_CHECKED = 200


def everybody(
    shape: str,
    files: Sequence[str],
    seconds: float,
    objects: Sequence[str] = (),
    store: Mapping[str, str] = MappingProxyType({}),
) -> list[Contender]:
    """The loaders of a shape; the others are compared with the first.

    `OF_OBJECTS` read `objects`, URLs in a store with these options, in place of the files.
    """
    request = {
        "shape": shape,
        "files": [os.path.abspath(one) for one in files],
        "objects": list(objects),
        "store": dict(store),
        "batch": BATCH[shape],
        "n_procs": WORKERS,
        "checked": CHECKED.get(shape, OTHERS_CHECKED),
        "seconds": seconds,
    }

    def one(name: str, recipe: str, workers: int, needs: tuple[str, ...]) -> Asked:
        asked = {**request, "recipe": recipe, "workers": workers}
        install = TORCH if workers else INSTALL
        return Asked(name, loader_loop, asked, _rate, install, False, needs=needs)

    # with objects, the first one still reads the files, as the oracle
    found: list[Contender] = [one(*each) for each in CLASSES[: 1 if objects else None]]
    for name, recipe in UNITS[shape].items():
        if objects and name not in OF_OBJECTS:
            continue
        each = one(name, recipe, 0, ())
        # rows are no samples, so there is nothing to compare them with
        found.append(Measurement(name, each.measure) if name == FRAMES else each)
    return found


def _rate(found: Mapping[str, Any]) -> Sample:
    if not found["n"] or not found["n_bytes"]:
        raise WrongDataError(f"{found['n']} samples of {found['n_bytes']} bytes")
    return Sample(found["n"] / found["seconds"], found)


def cells(filename: str) -> list[Asked]:
    """The readers of batches of rows of a sparse matrix; the others are compared with the last."""
    return file_contenders.sparse(filename, WORKERS)
