"""Who tells the structure of a file, and who reads it through an open handle; each in a process.

Law
---
1. One table of people for each question; what they do stands in `index_loop`, `small_loop` and
   `handle_loop`.
2. A figure is made only of what was checked: counts in full, rows as random access checks them.
3. It owns no table of results, no target and no order of measuring.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contenders.random_contenders import Task
from _multitables.benchmark.contract import (
    Contender,
    Differs,
    Digest,
    Measurement,
    Sample,
    WrongDataError,
)
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import handle_loop, index_loop, small_loop

OPEN = "multitables.open"
ORACLE = "h5py"
INTO = ("open", "h5py")  # recipes with `read_direct`
#: Name of a contender -> recipe of `index_loop`.
TELLERS = {
    OPEN: "open",
    "multitables core": "core",
    "h5py": "h5py",
    "pyfive": "pyfive",
    "hidefix": "hidefix",
}
#: Name of a contender -> recipe of `small_loop`. hidefix takes minutes to open such a file.
READERS = {
    OPEN: "open",
    "multitables Reader": "reader",
    "multitables Reader, 64 in flight": "reader ahead",
    "multitables Streamer": "streamer",
    "h5py": "h5py",
    "pyfive": "pyfive",
}
#: Name of a contender -> recipe of `handle_loop`.
HANDLES = {OPEN: "open", "h5py": "h5py", "pyfive": "pyfive", "hidefix": "hidefix"}
INSTALL = {one: f"pip install {one}" for one in ("pyfive", "hidefix")}


def once_checked(one: Asked) -> Measurement:
    """The same, checked only once, however often it is asked."""
    return Measurement(one.name, one.measure, functools.cache(one.check))


def telling(filename: str, task: str, n: int, **request: Any) -> list[Contender]:
    """Who tells the `n` datasets of a file, or chunks of a dataset."""
    asked = {"filename": os.path.abspath(filename), "task": task, **request}
    return _everybody(TELLERS, index_loop, asked, n, in_order=False)


def reading_small(filename: str, paths: Sequence[str]) -> list[Contender]:
    """Who opens, indexes and reads small datasets, one after the other."""
    asked = {"filename": os.path.abspath(filename), "paths": list(paths)}
    return _everybody(READERS, small_loop, asked, len(paths))


def _everybody(
    recipes: Mapping[str, str],
    loop: ModuleType,
    asked: Mapping[str, Any],
    n: int,
    in_order: bool = True,
) -> list[Contender]:
    """Each in turns, in numbers per second; h5py is the oracle, so it is checked once."""

    def figure(found: Mapping[str, Any]) -> Sample:
        if found["n"] not in (n, None):  # hidefix does not say how many
            raise WrongDataError(f"{found['n']} instead of {n}")
        return Sample(n / found["seconds"], found)

    def one(name: str, recipe: str, in_order: bool) -> Asked:
        request = {**asked, "recipe": recipe}
        return Asked(name, loop, request, figure, INSTALL.get(recipe, ""), in_order)

    return [
        once_checked(one(name, recipe, True)) if name == ORACLE else one(name, recipe, in_order)
        for name, recipe in recipes.items()
    ]


def oracle_of(everybody: Sequence[Contender]) -> Differs:
    """What differs from what h5py delivers."""
    (one,) = (one for one in everybody if one.name == ORACLE)

    def right() -> Digest:
        found = one.check()
        assert found is not None
        return found

    return against(right)


# ---- the open file


def first_reads(filename: str, indexed: str, path: str) -> list[Contender]:
    """Who opens a file and reads one dataset; of `indexed` the index is saved before."""
    cases = {name: (recipe, filename, False) for name, recipe in HANDLES.items()}
    cases.pop("hidefix", None)  # it takes minutes
    cases[f"{OPEN}, saved index"] = HANDLES[OPEN], indexed, True
    found: list[Contender] = []
    for name, (recipe, place, saved_index) in cases.items():
        request = {
            "filename": os.path.abspath(place),
            "path": path,
            "saved_index": saved_index,
            "recipe": recipe,
            "task": "first",
        }
        one = Asked(name, handle_loop, request, _milliseconds, INSTALL.get(recipe, ""))
        found.append(once_checked(one) if name == ORACLE else one)
    return found


def _milliseconds(found: Mapping[str, Any]) -> Sample:
    return Sample(1000 * found["seconds"], found)


def whole(task: Task) -> list[Contender]:
    """Who reads a whole dataset, into a new array or into one that is used again."""
    found: list[Contender] = []
    for name, recipe in HANDLES.items():
        for into in (False, True) if recipe in INTO else (False,):
            request = {**_place(task), "recipe": recipe, "task": "whole", "into": into}
            how = "read_direct" if into else "[...]"
            title, install = f"{name}, {how}", INSTALL.get(recipe, "")
            found.append(Asked(title, handle_loop, request, _rate, install))
    return found


def _rate(found: Mapping[str, Any]) -> Sample:
    return Sample.of(found["seconds"], found["n_bytes"])


def keyed(task: Task, n_users: int = 1, **options: Any) -> list[Contender]:
    """Who reads the rows of a draw, in that many threads at once; `options` are those of `open`."""

    def figure(found: Sequence[dict[str, Any]]) -> Sample:
        rate = 0.0
        for number, one in enumerate(found):
            draw = replace(task.draw, batches=task.draw.batches[number::n_users])
            rate += replace(task, draw=draw).rate(one).value
        return Sample(rate)

    more = {"task": "keys", "n_users": n_users, "options": options}
    return _of_draw(task, more, figure, f", {n_users} threads" if n_users > 1 else "")


def latencies(task: Task) -> list[Contender]:
    """Who reads single rows, one after the other."""
    return _of_draw(task, {"task": "latency"}, task.latency, "")


def _of_draw(
    task: Task, more: Mapping[str, Any], figure: Callable[[Any], Sample], suffix: str
) -> list[Contender]:
    request = {**_place(task), "kind": task.draw.kind, "batches": task.draw.batches, **more}
    request["seconds"] = task.seconds
    checked = {"batches": task.check_draw.batches}
    return [
        Asked(
            f"{name}{suffix}",
            handle_loop,
            {**request, "recipe": recipe},
            figure,
            INSTALL.get(recipe, ""),
            checked=checked,
        )
        for name, recipe in HANDLES.items()
    ]


def _place(task: Task) -> dict[str, Any]:
    return {"filename": os.path.abspath(task.source.filename), "path": task.source.path}
