"""From a selection as written to its normal form: native, for a library, or refused.

Law
---
1. Results are NumPy's on the whole array, step after step.
2. But the first index on a dataset itself follows PyTables' grammar, and what PyTables refuses in
   one step is an `IndexError`: index arrays have one dimension; one of them may stand among
   numbers, slices and an Ellipsis, or there is one for each axis, all of one length; a mask of
   several axes stands alone; no None, no booleans. Beyond PyTables' own limits in that grammar
   (repeated or empty lists, negative steps, a list alone on several axes, a mask of fewer axes than
   the dataset) NumPy's result is given, and with a mask of one axis in any place. The second step,
   also after a field, is NumPy's; so is the first, if the dataset says so.
3. `read`, `where` and `read_sorted` take start, stop and step as PyTables does.
4. Nothing is raised here: what is wrong comes as `Refused`, with its exception and text.

Pure: this file must never know readers or files.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from _multitables.errors import MissingFieldError
from _multitables.select.fallback_call import LibraryCall, call_for, ragged_call
from _multitables.select.hyperslab import Hyperslab, hyperslab_of
from _multitables.select.lazy_view import (
    NotNative,
    Range,
    View,
    checked,
    first_field,
    is_boolean,
    whole,
)
from _multitables.select.selection import (
    Boxes,
    Coordinates,
    DatasetInfo,
    FieldNames,
    Read,
    Selection,
    Sorted,
    Spans,
    Step,
    Where,
    as_key,
)

__all__ = [
    "LibraryCall",
    "Native",
    "Refused",
    "library_call",
    "normalize",
    "slab_of",
    "whole_rows",
]


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """The core serves it, if it serves the dataset (else: `library_call`)."""

    hyperslab: Hyperslab


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """What is raised at get()."""

    kind: type[Exception]
    #: What is wrong and of which dataset, expected against got; what to do.
    text: str


def whole_rows(selection: Selection) -> tuple[str, int, int, int, bool] | None:
    """(field or "", start, step, count, scalar) of a selection of whole rows, or None.

    For the most frequent requests, in about a microsecond: one number, slice or Ellipsis, before or
    after at most one field. None: `normalize` decides.
    """
    dataset = selection.dataset
    found = _rows(dataset, selection.steps)
    if found is None:
        return None
    field, key = found
    n_rows = dataset.shape[0]
    kind = type(key)
    if kind is int or kind is np.int64:
        if not -n_rows <= key < n_rows:
            return None
        return field, int(key) % n_rows, 1, 1, True
    if key is Ellipsis:
        return field, 0, 1, n_rows, False
    if kind is not slice:
        return None
    try:
        start, stop, step = key.indices(n_rows)
    except (TypeError, ValueError):
        return None
    count = len(range(start, stop, step))
    # All of these fit the core's numbers: of nothing a slice begins anywhere, and steps are any.
    return field, start if count else 0, step if count > 1 else 1, count, False


def normalize(selection: Selection) -> Native | LibraryCall | Refused:
    """Return the normal form of a selection.

    Returns
    -------
    Native
        It has a `Hyperslab`.
    LibraryCall
        No hyperslab says it.
    Refused
        It is wrong in itself: out of range, no such field, or refused in one step.
    """
    dataset = selection.dataset
    try:
        ragged = dataset.kind in ("vlarray", "objects")
        slab = None if ragged else _windows(dataset, selection.steps)
        if slab is None and not ragged:
            slab = slab_of(dataset, _as_keys(dataset, selection.steps))
        return library_call(selection) if slab is None else Native(slab)
    except KeyError as error:
        missing, names = error.args
        listed = ", ".join(map(repr, names)) or "no names"
        kind = " of a fixed size" if dataset.is_mixed else ""
        text = f"no field {missing!r}{kind} (expected {listed})"
        if dataset.is_mixed:
            text += ". Read the others with multitables.open"
        return _refused(dataset, MissingFieldError(text))
    except (IndexError, ValueError, TypeError) as error:
        return _refused(dataset, error)


def _refused(dataset: DatasetInfo, error: Exception) -> Refused:
    return Refused(type(error), f"{dataset.path!r} in {dataset.filename!r}: {error}")


def library_call(selection: Selection) -> LibraryCall:
    """Return how a library serves a selection that is not refused, also a native one.

    For datasets that the core does not read.
    """
    dataset = selection.dataset
    steps = _as_keys(dataset, selection.steps)
    if dataset.kind == "vlarray":
        return ragged_call(dataset, steps)
    view = _view(dataset, steps)
    call = call_for(dataset, steps, None if view is None else view.shape)
    if dataset.kind == "objects":
        ragged = np.dtype(np.uint8)  # as they travel
        return replace(call, method="getobjects", ragged=True, dtype=ragged, shape=None)
    return call


# ---- methods as keys ----------------------------------------------------------------------


def _as_keys(dataset: DatasetInfo, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Check the first step, and write it as keys where a key says it."""
    if not steps:
        return steps
    first, *others = steps
    field: str | None
    key: Any
    if isinstance(first, Read):
        field, key = first.field, _range_read(dataset, first)
    elif isinstance(first, Coordinates):
        field, key = first.field, first.coords
        if not isinstance(key, np.ndarray) or key.ndim != 1:
            raise IndexError("coordinates are a flat list of row numbers, or a mask of the rows")
    elif isinstance(steps[-1], (Spans, Boxes)):
        return (*steps[:-1], steps[-1].key)
    else:
        if not dataset.is_numpys and not isinstance(first, (str, FieldNames, Sorted, Where)):
            check_first(first, dataset.shape)
        return steps
    return (*([] if field is None else [field]), key, *others)


def _range_read(dataset: DatasetInfo, read: Read) -> slice:
    start, n_rows = read.start, dataset.shape[0]
    if dataset.kind == "array" and start is not None and read.stop is None and read.step is None:
        start = operator.index(start)  # of an array, PyTables' read(start) reads that row only
        if start >= n_rows:
            raise IndexError(f"start is out of range (expected at most {n_rows - 1}, got {start})")
        start = max(start + n_rows, -1) if start < 0 else start
        return slice(start, start + 1) if start >= 0 else slice(0, 0)
    return slice(start, read.stop, read.step)


def check_first(key: Any, shape: tuple[int, ...]) -> None:
    """Refuse what PyTables does not take in one step.

    Raises
    ------
    IndexError
        See the law.
    """
    items = key if isinstance(key, tuple) else (key,)
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    masks = [array for array in arrays if array.dtype == bool]
    if any(item is None or is_boolean(item) for item in items):
        what = "None and booleans cannot index a dataset directly"
    elif len(items) == len(masks) == 1:
        return
    elif any(array.ndim > 1 for array in masks):
        n_dims = max(array.ndim for array in masks)
        what = f"a mask of several axes must stand alone (got {n_dims} axes, and others beside it)"
    elif any(array.ndim > 1 for array in arrays):
        what = f"index arrays must be flat (got {max(array.ndim for array in arrays)} dimensions)"
    elif (
        len(arrays) > 1
        and not masks
        and [array.size for array in arrays] != [arrays[0].size] * max(len(shape), len(items))
    ):
        lengths = ", ".join(str(array.size) for array in arrays)
        what = (
            "several lists must be one for each axis, all of one length "
            f"(expected {len(shape)} lists, got the lengths {lengths})"
        )
    else:
        return
    raise IndexError(f"{what}. Index the result instead: dataset[:][...]")


# ---- native -------------------------------------------------------------------------------


def _rows(dataset: DatasetInfo, steps: tuple[Step, ...]) -> tuple[str, Any] | None:
    """The field, or "", and the key of one index on rows, if that is all there is."""
    if len(steps) == 1:
        return None if dataset.kind == "vlarray" else ("", steps[0])
    if len(steps) != 2:
        return None
    field, key = steps
    if type(field) is not str:
        field, key = key, field
    if type(field) is not str or field not in (dataset.dtype.names or ()):
        return None
    return field, key


def _listed_rows(dataset: DatasetInfo, steps: tuple[Step, ...]) -> Hyperslab | None:
    """The short way for rows by their numbers, as they are asked for by the thousand."""
    found = _rows(dataset, steps)
    if found is None or type(found[1]) is not np.ndarray or 0 in dataset.shape:
        return None
    field, key = found
    if key.ndim != 1 or key.dtype.kind not in "iu" or not len(key):
        return None
    numbers = checked(key, 0, dataset.shape[0])
    n_dims, dtype = dataset.n_dims, dataset.dtype
    rows = tuple(Range(0, 1, extent) for extent in dataset.shape[1:n_dims])
    if field:
        dtype = first_field(dtype, field)[2]
        if n_dims < len(dataset.shape) or 0 in dtype.shape:
            return None
    shape = (len(numbers), *dataset.shape[1:], *dtype.shape)
    element_bytes = math.prod(dataset.shape[n_dims:]) * dtype.itemsize
    none = np.zeros(0, np.int64)
    return Hyperslab(field, 0, none, (numbers, *rows), (), element_bytes, shape, dtype.base)


def _box(dataset: DatasetInfo, steps: tuple[Step, ...]) -> Hyperslab | None:
    """The short way for one index of numbers and slices, one for each of HDF5's dims."""
    n_dims, extents = dataset.n_dims, dataset.shape
    if len(steps) != 1 or type(steps[0]) is not tuple or len(steps[0]) != n_dims:
        return None
    axes, shape = [], []
    for item, length in zip(steps[0], extents, strict=False):
        if type(item) is int and -length <= item < length:
            axes.append(Range(item % length, 1, 1))
        elif type(item) is slice:
            start, stop, step = item.indices(length)
            axes.append(Range(start, step, len(range(start, stop, step))))
            shape.append(axes[-1].n)
        else:
            return None
    shape += extents[n_dims:]
    if not n_dims or 0 in shape:
        return None
    element_bytes = math.prod(extents[n_dims:]) * dataset.dtype.itemsize
    none = np.zeros(0, np.int64)
    return Hyperslab("", 0, none, tuple(axes), (), element_bytes, tuple(shape), dataset.dtype)


def _windows(dataset: DatasetInfo, steps: tuple[Step, ...]) -> Hyperslab | None:
    """The short way for spans of rows, and for boxes."""
    found = _rows(dataset, steps)
    if found is None or not isinstance(found[1], (Spans, Boxes)):
        return None
    (field, step), shape, dtype = found, dataset.shape, dataset.dtype
    n_dims, points = dataset.n_dims, np.zeros(0, np.int64)
    extents: tuple[int, ...] = ()
    lead: tuple[Range | Spans, ...] = ()
    if isinstance(step, Boxes):
        begins, extents = step.begins, step.extents
        out = (len(begins), *extents)
    else:
        lead = (step,)
        if len(step.begins) == 1:
            lead = (Range(int(step.begins[0]), 1, int(step.lengths[0])),)
        out = (int(step.lengths.sum()),)
    if field:
        dtype = first_field(dtype, field)[2]
    k = len(extents)
    dims = shape[k + len(lead) : n_dims]
    inner = step.inner or (slice(None),) * len(dims)
    rest = tuple(_range_of(item, dim) for item, dim in zip(inner, dims, strict=True))
    kept = zip(rest, inner, strict=True)
    out += (*(one.n for one, item in kept if isinstance(item, slice)), *shape[n_dims:])
    if 0 in out or 0 in dtype.shape or k > n_dims or (field and n_dims < len(shape)):
        return None
    if k:
        points = np.ravel_multi_index(tuple(begins.T), shape[:k]).astype(np.int64)
    element_bytes = math.prod(shape[n_dims:]) * dtype.itemsize
    out += dtype.shape if field else ()
    axes, to = (*lead, *rest), step.arrangement
    if to is not None:
        parts = () if to.parts is None else (to.parts,)
        out = (*parts, *out[: len(out) - len(to.shape)], *to.shape)
    return Hyperslab(field, k, points, axes, (), element_bytes, out, dtype.base, extents, to)


def _range_of(item: int | slice, dim: int) -> Range:
    if isinstance(item, int):
        return Range(item, 1, 1)
    chosen = range(dim)[item]
    return Range(chosen.start, chosen.step, len(chosen))


def _view(dataset: DatasetInfo, steps: Sequence[Step]) -> View | None:
    """The result as a view, or None where that cannot be."""
    view = whole(dataset.shape, dataset.n_dims, dataset.dtype)
    try:
        for step in steps:
            if isinstance(step, (FieldNames, Sorted, Where)):
                return None
            if not isinstance(step, str):
                view = view.index(step)
            elif view.dtype.names:
                view = view.select(step)
            else:
                raise IndexError(f"the dataset has no fields (got the name {step!r})")
    except NotNative:
        return None
    return view


def slab_of(dataset: DatasetInfo, steps: tuple[Step, ...]) -> Hyperslab | None:
    """Return the hyperslab of NumPy's indexes, one after another, or None where that cannot be.

    Raises
    ------
    KeyError, IndexError
        As NumPy; of a field the arguments are the missing name and the names there are.
    """
    slab = _box(dataset, steps) or _windows(dataset, steps) or _listed_rows(dataset, steps)
    steps = tuple(map(as_key, steps))
    if slab is None and (view := _view(dataset, steps)) is not None:
        with contextlib.suppress(NotNative):
            slab = hyperslab_of(view)
    return slab
