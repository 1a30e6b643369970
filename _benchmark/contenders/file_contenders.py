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

from _benchmark.contenders.asked import Asked
from _benchmark.contract import Sample
from _benchmark.loops import file_loop

OURS = "multitables"
INSTALL = "pip install multitables[bench]"
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
    return Asked(name, file_loop.__file__, request, _rate, INSTALL, in_order)


def _rate(found: Sequence[Any]) -> Sample:
    return Sample.of(*found)
