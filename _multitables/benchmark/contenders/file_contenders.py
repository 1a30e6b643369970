"""Who reads whole datasets of kinds other than a plain one; each in a process of its own.

Law
---
1. What they do stands in `file_loop`; a figure is made only of what was checked.
2. It owns no table of results, no target and no order of measuring.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contract import Sample
from _multitables.benchmark.loops import csr_loop, file_loop

OURS = "multitables"
INSTALL = "pip install multitables[bench]"
#: Of a sparse matrix: name of a contender, recipe of `csr_loop`, and our shuffle.
SPARSE = (
    (f"{OURS}, chunks shuffled", "multitables", "chunks"),
    (f"{OURS}, windows shuffled", "multitables", "window"),
    ("scDataset", "scdataset", ""),
    ("annbatch, from zarr", "annbatch", ""),
    ("h5py", "h5py", ""),
)
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def ours(
    name: str,
    filename: str,
    path: str | Mapping[str, str],
    n_procs: int,
    *,
    shuffle: str = "",
    **options: Any,
) -> Asked:
    """This library: a queue with these options, or batches where there is a `shuffle`."""
    asked = {"path": path, "n_procs": n_procs, "shuffle": shuffle, "options": options}
    return _one("multitables", f"{OURS}{name}", filename, asked, in_order=not shuffle)


def sparse(filename: str, n_procs: int) -> list[Asked]:
    """Who reads batches of 256 rows of a sparse matrix, in random order; and h5py, in order."""
    asked = {"filename": os.path.abspath(filename), "n_procs": n_procs}
    return [
        Asked(
            name,
            csr_loop,
            {**asked, "recipe": recipe, "shuffle": shuffle},
            _rate,
            "pip install multitables[bench-sparse]",
            in_order=False,
        )
        for name, recipe, shuffle in SPARSE
    ]


def theirs(
    recipe: str,
    name: str,
    filename: str,
    paths: Sequence[str],
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Asked:
    """h5py or PyTables, which read these paths one behind the other."""
    return _one(recipe, name, filename, {"paths": list(paths), "options": dict(options)})


def _one(
    recipe: str, name: str, filename: str, asked: Mapping[str, Any], in_order: bool = True
) -> Asked:
    request = {"recipe": recipe, "filename": os.path.abspath(filename), **asked}
    return Asked(name, file_loop, request, _rate, INSTALL, in_order)


def _rate(found: Mapping[str, Any]) -> Sample:
    return Sample.of(found["seconds"], found["n_bytes"])
