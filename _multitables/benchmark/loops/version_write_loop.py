"""The loop that writes the files of the study of versions, as a child of its own.

Law
---
1. Transactions are written and timed as in the published study: each change is an assignment of
   one element, and what is flushed after a transaction counts for the next one.
2. What was written is read again by h5py, and compared with what NumPy made of the same steps. A
   time is answered only when all is equal.
"""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

import numpy as np

from . import refusals, version_steps
from .shell import Loop

VERSIONED, PLAIN = "versioned-hdf5", "h5py, unversioned"
STORED = "_version_data/versions"


def storage(spec: Any, exponent: int, compression: str) -> dict[str, dict[str, Any]]:
    """How each dataset is stored."""
    state = next(version_steps.states(version_steps.Spec(spec.test, 0, False)))
    packed = None if compression == "none" else compression
    return {
        name: {"chunks": (2**exponent,) * array.ndim, "compression": packed}
        for name, array in state.items()
    }


def write(asked: dict[str, Any]) -> list[float]:
    """Write the file; returns the seconds of each transaction, and of all of them."""
    h5py = importlib.import_module("h5py")
    spec = version_steps.Spec(**asked["spec"])
    kept = storage(spec, asked["exponent"], asked["compression"])
    state, every = version_steps.steps(spec)
    times: list[float] = []
    with h5py.File(asked["filename"], "w") as file:
        package = None
        if asked["recipe"] == VERSIONED:
            package = importlib.import_module("versioned_hdf5").VersionedHDF5File(file)
        begin = last = time.perf_counter()
        group = file
        if package is None:
            _create(group, spec, state, kept, resizable=True)
        else:
            with package.stage_version(version_steps.FIRST) as group:
                _create(group, spec, state, kept, resizable=False)
        for step, name in zip(every, spec.names[1:], strict=True):
            if package is None:
                _apply(spec, step, group[spec.group])
            else:
                with package.stage_version(name) as group:
                    _apply(spec, step, group[spec.group])
            now = time.perf_counter()
            times.append(now - last)
            last = now
            file.flush()
        times.append(last - begin)
    return times


def _create(group: Any, spec: Any, state: Any, kept: Any, resizable: bool) -> None:
    for name, data in state.items():
        more = {"maxshape": (None,) * data.ndim} if resizable else {}
        group.create_dataset(f"{spec.group}/{name}", data=data, **kept[name], **more)


def _apply(spec: Any, step: Any, group: Any) -> None:
    """Do what a transaction does; all behind the first place that moves is written anew."""
    datasets = {name: group[name] for name in (*version_steps.KEYS, version_steps.VAL)}
    axes = spec.nominal.axes
    for place, value in zip(step.changed.tolist(), step.values.tolist(), strict=True):
        datasets[version_steps.VAL][tuple(place)] = value
    for axis, where in enumerate(step.deleted):
        for name, own in axes[axis].items() if len(where) else ():
            _rewrite(datasets[name], own, where, None)
    for axis, (where, rows) in enumerate(step.inserted):
        for name, own in axes[axis].items() if len(where) else ():
            _rewrite(datasets[name], own, where, rows[name])
    for name, rows in step.appended.items():
        if len(rows):
            dataset = datasets[name]
            dataset.resize((len(dataset) + len(rows), *dataset.shape[1:]))
            dataset[-len(rows) :] = rows


def _rewrite(dataset: Any, axis: int, where: Any, rows: Any) -> None:
    """Insert these rows at these places of an axis, or delete what is there."""
    start = int(where[0])
    behind = (*(slice(None),) * axis, slice(start, None))
    found = dataset[behind]
    if rows is None:
        found = np.delete(found, where - start, axis)
    else:
        found = np.insert(found, where - start, rows, axis)
    shape = list(dataset.shape)
    shape[axis] = start + found.shape[axis]
    dataset.resize(tuple(shape))
    dataset[behind] = found


def compare(asked: dict[str, Any]) -> None:
    """Compare the file with the arrays of NumPy, every version of it.

    Raises
    ------
    WrongError
        A dataset has another shape or another value.
    """
    h5py = importlib.import_module("h5py")
    spec = version_steps.Spec(**asked["spec"])
    with h5py.File(asked["filename"], "r") as file:
        for name, state in zip(spec.names, version_steps.states(spec), strict=True):
            place = f"{STORED}/{name}/{spec.group}"
            if asked["recipe"] == PLAIN:
                if name != spec.names[-1]:
                    continue
                place = spec.group
            for dataset, want in state.items():
                if not np.array_equal(file[place][dataset][()], want):
                    raise refusals.WrongError(f"{dataset} of {name} was not written as it is")


def holds(asked: dict[str, Any]) -> bool:
    """Whether the file has what is asked, stored as is asked."""
    h5py = importlib.import_module("h5py")
    spec = version_steps.Spec(**asked["spec"])
    kept = storage(spec, asked["exponent"], asked["compression"])
    try:
        compare(asked)
        with h5py.File(asked["filename"], "r") as file:
            for name, wanted in kept.items():
                place = f"{spec.group}/{name}"
                versioned = asked["recipe"] == VERSIONED
                stored = file[f"_version_data/{place}/raw_data" if versioned else place]
                if {one: getattr(stored, one) for one in wanted} != wanted:
                    return False
    except (refusals.WrongError, KeyError, OSError):
        return False
    return True


def write_right(asked: dict[str, Any]) -> dict[str, Any]:
    """Write the file and compare it; returns the seconds of `write`, and its size."""
    times = write(asked)
    compare(asked)
    return {"t_write": times, "file_bytes": os.path.getsize(asked["filename"])}


LOOP = Loop({"holds": holds, "time": write_right}, library="")
