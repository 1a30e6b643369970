"""A selection as a library serves it: what it is asked, and the steps that are left for NumPy.

Law
---
1. A library is asked for one index, of one field, or for one method of PyTables' tables; NumPy does
   the rest on what it gave.
2. The dtype of the result is known before, its shape where that can be told.
3. What is wrong in itself raises NumPy's exception.

Pure: this file must never know readers or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.select.lazy_view import (
    axes_used,
    first_field,
    is_boolean,
    is_number,
    name_at,
    whole,
)
from _multitables.select.selection import DatasetInfo, FieldNames, Sorted, Step, Where

ALL = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCall:
    """A library serves it in a reader."""

    dataset: DatasetInfo
    #: "getitem", "getobjects", "getragged", "read_sorted" or "where".
    method: str
    #: Of the first two: `fields`, one in the other, and `key`, which acts on the last one's array,
    #: of this `shape`, whose first `n_dims` are HDF5's.
    arguments: dict[str, Any]
    #: Fields and indexes that NumPy applies to what the method gave.
    steps: tuple[Step, ...]
    #: Of one element of the result; uint8 of a ragged one.
    dtype: np.dtype[Any]
    #: The result is a list of arrays, packed: see `request_bytes.unpack_ragged`.
    ragged: bool = False
    #: Of the result, where it can be told.
    shape: tuple[int, ...] | None = None


def call_for(
    dataset: DatasetInfo, steps: tuple[Step, ...], shape: tuple[int, ...] | None
) -> LibraryCall:
    """Return how a library serves steps whose first is a key, or a method of tables only.

    `shape` is that of the result, where it can be told.
    """
    if steps and isinstance(steps[0], (Sorted, Where)):
        first, *rest = steps
        arguments = first._asdict()
        field = arguments.pop("field", None)
        others = tuple(rest) if field is None else (field, *rest)
        method = "where" if isinstance(first, Where) else "read_sorted"
        dtype = folded(dataset.dtype, 1, others)
        return LibraryCall(dataset, method, arguments, others, dtype)
    dtype = folded(dataset.dtype, len(dataset.shape), steps)
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


def ragged_call(dataset: DatasetInfo, steps: tuple[Step, ...]) -> LibraryCall:
    """Return how a library serves ragged rows.

    A number gives one array of atoms, anything else a list of them.
    """
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
