"""From a selection as written to its normal form: native, for a library, or refused.

Law
---
1. Results are NumPy's on the whole array, step after step.
2. But the first index on a dataset itself follows PyTables' grammar, and what PyTables refuses in
   one step is an `IndexError`: a mask stands alone and has the dataset's shape (so for the rows of
   a table it has one axis); index arrays have one dimension; one of them may stand among numbers,
   slices and an Ellipsis, or there is one for each axis, all of one length; no None, no booleans.
   Beyond PyTables' own limits in that grammar (repeated or empty lists, negative steps, a list
   alone on several axes) NumPy's result is given. The second step, also after a field, is NumPy's.
3. `read`, `where` and `read_sorted` take start, stop and step as PyTables does.
4. Nothing is raised here: what is wrong comes as `Refused`, with its exception and text.

Pure: this file must never know readers or files.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.errors import MissingFieldError
from _multitables.hyperslab import Hyperslab, hyperslab_of
from _multitables.selection import (
    Coordinates,
    DatasetInfo,
    FieldNames,
    Read,
    Selection,
    Sorted,
    Step,
    Where,
)
from _multitables.view import (
    NotNative,
    View,
    axes_used,
    first_field,
    is_boolean,
    is_number,
    name_at,
    whole,
)

__all__ = ["LibraryCall", "Native", "Refused", "library_call", "normalise", "whole_rows"]

ALL = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """The core serves it, if it serves the dataset (else: `library_call`)."""

    hyperslab: Hyperslab


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCall:
    """A library serves it in a reader."""

    dataset: DatasetInfo
    #: "getitem", "getragged", "read_sorted" or "where".
    method: str
    #: Of "getitem": `fields`, one in the other, and `key`, which acts on the last one's array, of
    #: this `shape`, whose first `n_dims` are HDF5's.
    arguments: dict[str, Any]
    #: Fields and indexes that NumPy applies to what the method gave.
    steps: tuple[Step, ...]
    #: Of one element of the result; uint8 of a ragged one.
    dtype: np.dtype[Any]
    #: The result is a list of arrays, packed: see `wire_request.unpack_ragged`.
    ragged: bool = False
    #: Of the result, where it can be told.
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """What is raised at get()."""

    kind: type[Exception]
    text: str


def whole_rows(selection: Selection) -> tuple[str, int, int, int, bool] | None:
    """(field or "", start, step, count, scalar) of a selection of whole rows, or None.

    For the most frequent requests, in about a microsecond: one number or slice, before or after
    at most one field. None says nothing: then `normalise` tells.
    """
    steps, dataset = selection.steps, selection.dataset
    field = ""
    if len(steps) == 1:
        key = steps[0]
    elif len(steps) == 2:
        field, key = steps
        if type(field) is not str:
            field, key = key, field
        if type(field) is not str or field not in (dataset.dtype.names or ()):
            return None
    else:
        return None
    n_rows = dataset.shape[0]
    kind = type(key)
    if dataset.kind == "vlarray":
        return None
    if kind is int or kind is np.int64:
        if not -n_rows <= key < n_rows:
            return None
        return field, int(key) % n_rows, 1, 1, True
    if kind is not slice:
        return None
    try:
        start, stop, step = key.indices(n_rows)
    except (TypeError, ValueError):
        return None
    return field, start, step, len(range(start, stop, step)), False


def normalise(selection: Selection) -> Native | LibraryCall | Refused:
    """Return the normal form of a selection.

    Returns
    -------
    Native
        It has a `Hyperslab`.
    LibraryCall
        No hyperslab says it.
    Refused
        It is wrong in itself: out of range, no such field, not to be had in one step.
    """
    try:
        steps = _as_keys(selection.dataset, selection.steps)
        if selection.dataset.kind == "vlarray":
            return _ragged(selection.dataset, steps)
        if steps and isinstance(steps[0], (Sorted, Where)):
            return _call(selection.dataset, steps)
        try:
            return Native(hyperslab_of(_view(selection.dataset, steps)))
        except NotNative:
            return _call(selection.dataset, steps)
    except KeyError as error:
        return _no_field(selection.dataset, *error.args)
    except (IndexError, ValueError, TypeError) as error:
        dataset = selection.dataset
        return Refused(type(error), f"{dataset.path!r} in {dataset.filename!r}: {error}")


def library_call(selection: Selection) -> LibraryCall:
    """Return how a library serves a selection that is not refused, also a native one.

    For datasets that the core does not read.
    """
    steps = _as_keys(selection.dataset, selection.steps)
    if selection.dataset.kind == "vlarray":
        return _ragged(selection.dataset, steps)
    return _call(selection.dataset, steps)


# ---- methods as keys ----------------------------------------------------------------------


def _as_keys(dataset: DatasetInfo, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Check the first step, and write it as keys where a key says it."""
    if not steps:
        return steps
    first, *others = steps
    if isinstance(first, Read):
        field, key = first.field, _range_read(dataset, first)
    elif isinstance(first, Coordinates):
        field, key = first.field, first.coords
        if not isinstance(key, np.ndarray) or key.ndim != 1:
            raise IndexError("coordinates are a flat list of row numbers, or a mask of the rows")
    else:
        if not isinstance(first, (str, FieldNames, Sorted, Where)):
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
    if any(item is None or is_boolean(item) for item in items):
        what = "None or a boolean is no index of a dataset itself"
    elif any(array.dtype.kind == "b" for array in arrays):
        if len(items) == 1 and arrays[0].shape == shape:
            return
        got = "others beside it" if len(items) > 1 else arrays[0].shape
        what = f"a mask must stand alone and have the dataset's shape (expected {shape}, got {got})"
    elif any(array.ndim != 1 for array in arrays):
        what = f"index arrays must be flat (got {max(array.ndim for array in arrays)} dimensions)"
    elif len(arrays) > 1 and (
        len(items) < len(shape)
        or len(arrays) < len(items)
        or len({len(array) for array in arrays}) > 1
    ):
        what = (
            "several lists must be one for each axis, all of one length "
            f"(expected {len(shape)} lists, got {len(arrays)})"
        )
    else:
        return
    raise IndexError(f"{what}. Index the result instead: dataset[:][...]")


# ---- native -------------------------------------------------------------------------------


def _view(dataset: DatasetInfo, steps: Sequence[Step]) -> View:
    view = whole(dataset.shape, dataset.n_dims, dataset.dtype)
    for step in steps:
        if isinstance(step, str):
            if not view.dtype.names:
                raise IndexError(f"there are no fields (got the name {step!r})")
            view = view.select(step)
        elif isinstance(step, FieldNames):
            raise NotNative("several fields at once")
        else:
            view = view.index(step)
    return view


# ---- through a library --------------------------------------------------------------------


def _call(dataset: DatasetInfo, steps: tuple[Step, ...]) -> LibraryCall:
    if steps and isinstance(steps[0], (Sorted, Where)):
        first, *rest = steps
        arguments = first._asdict()
        field = arguments.pop("field", None)
        others = tuple(rest) if field is None else (field, *rest)
        method = "where" if isinstance(first, Where) else "read_sorted"
        dtype = folded(dataset.dtype, 1, others)
        return LibraryCall(dataset, method, arguments, others, dtype)
    dtype = folded(dataset.dtype, len(dataset.shape), steps)
    try:
        shape = _view(dataset, steps).shape
    except NotNative:
        shape = None
    fields, key, others = _rows_first(dataset, steps)
    extents = dataset.shape + _inner_dims(dataset.dtype, fields)
    arguments = {"fields": fields, "key": key, "shape": extents, "n_dims": dataset.n_dims}
    return LibraryCall(dataset, "getitem", arguments, others, dtype, shape=shape)


def _inner_dims(dtype: np.dtype[Any], fields: Sequence[str]) -> tuple[int, ...]:
    """Dims of the subarrays on the way to a field, and of its own."""
    inner: tuple[int, ...] = ()
    for path in fields:
        while path:
            _, _, found, path = first_field(dtype, path)  # noqa: PLW2901
            dtype, inner = found.base, inner + found.shape
    return inner


def _rows_first(
    dataset: DatasetInfo, steps: tuple[Step, ...]
) -> tuple[tuple[str, ...], Any, tuple[Step, ...]]:
    """The fields and key that a library applies, and the steps that are left for NumPy.

    Rows of a table are chosen before or after its fields with one result: no more is read than
    is needed.
    """
    key, left = ALL, list(steps)
    rows_chosen = False
    if dataset.kind == "table":
        if left and _is_key(left[0]):
            key, rows_chosen = _row_key(left.pop(0)), True
        elif len(left) > 1 and isinstance(left[0], FieldNames) and _is_key(left[1]):
            key, rows_chosen = _row_key(left.pop(1)), True
    fields: list[str] = []
    while left and isinstance(left[0], str):
        fields.append(left.pop(0))
    if not rows_chosen and left and _is_key(left[0]):
        key = left.pop(0)
    return tuple(fields), key, tuple(left)


def _is_key(step: Step) -> bool:
    return not isinstance(step, (str, FieldNames))


def _row_key(key: Any) -> Any:
    """A key on the rows of a table that means the same before further axes."""
    items = key if isinstance(key, tuple) else (key,)
    items = tuple(item for item in items if item is not Ellipsis)
    return items[0] if len(items) == 1 else items


def folded(dtype: np.dtype[Any], rank: int, steps: Sequence[Step]) -> np.dtype[Any]:
    """Return the dtype of a result from that of an array of `rank` dimensions.

    Raises
    ------
    KeyError, IndexError
        A field that is not there.
    """
    left = list(steps)
    while left:
        step = left.pop(0)
        if isinstance(step, FieldNames):
            for name in step:
                if name not in (dtype.names or ()):
                    raise KeyError(name, list(dtype.names or ()))
            dtype = dtype[list(step)]
        elif isinstance(step, str) or (not rank and dtype.names and is_number(step)):
            path = step if isinstance(step, str) else name_at(dtype.names or (), step)
            _, _, found, rest = first_field(dtype, path)
            dtype, rank = found.base, rank + found.ndim
            left[:0] = [rest] if rest else []
        else:
            rank = _rank(rank, step)
    return dtype


def _rank(rank: int, key: Any) -> int:
    """Return how many dimensions an array of `rank` has after an index."""
    items = key if isinstance(key, tuple) else (key,)
    booleans = [item for item in items if is_boolean(item)]
    items = tuple(item for item in items if not is_boolean(item))
    dims = [_made(item) for item in items if isinstance(item, np.ndarray)]
    rank += sum(item is None or isinstance(item, slice) for item in items)
    return rank - sum(map(axes_used, items)) + max(dims, default=1 if booleans else 0)


def _made(array: Any) -> int:
    return 1 if array.dtype.kind == "b" else int(array.ndim)


def _ragged(dataset: DatasetInfo, steps: tuple[Step, ...]) -> LibraryCall:
    """A number gives one array of atoms, anything else a list of them."""
    rows = whole(dataset.shape[:1], 1, np.dtype(np.uint8))
    if steps and isinstance(steps[0], (str, FieldNames, Sorted, Where)):
        raise IndexError(f"the rows are ragged (got {steps[0]!r} for an index)")
    key, others = (steps[0], steps[1:]) if steps else (ALL, ())
    rows = rows.index(key)
    left = list(others)
    while rows.axes and left:
        step = left.pop(0)
        if not (isinstance(step, slice) or is_number(step)):
            raise IndexError(f"a list of arrays takes a number or a slice (got {step!r})")
        rows = rows.index(step)
    arguments = {"key": key}
    if rows.axes:
        return LibraryCall(dataset, "getragged", arguments, others, np.dtype(np.uint8), ragged=True)
    dtype = folded(dataset.dtype, 1 + len(dataset.atom_shape), left)
    return LibraryCall(dataset, "getragged", arguments, others, dtype)


def _no_field(dataset: DatasetInfo, name: str, names: Sequence[str]) -> Refused:
    listed = ", ".join(map(repr, names)) or "none"
    text = (
        f"{dataset.path!r} in {dataset.filename!r} has no field {name!r} (expected one of {listed})"
    )
    return Refused(MissingFieldError, text)
