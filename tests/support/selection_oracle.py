"""What a selection means, by NumPy: applied to an array as the core, or a library, would.

Law
---
1. Owns no case: `agrees` says in which form a selection was read, or fails.
2. A hyperslab is applied element by element, in the dullest way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from oracle import same

from _multitables.select.hyperslab import Hyperslab
from _multitables.select.lazy_view import Range
from _multitables.select.normalize import (
    LibraryCall,
    Native,
    Refused,
    library_call,
    normalize,
)
from _multitables.select.selection import DatasetInfo, FieldNames, Selection, Spans

INNER = np.dtype([("x", "<i2"), ("y", "<f4", (2,))])
ROW = np.dtype(
    [("a", "<i4"), ("b", ">i2", (3, 2)), ("n", INNER), ("m", INNER, (2,)), ("s/t", "S3")]
)


def info(array: np.ndarray, kind: str = "", n_dims: int | None = None) -> DatasetInfo:
    kind = kind or ("table" if array.ndim == 1 and array.dtype.names else "array")
    n_dims = array.ndim if n_dims is None else n_dims
    return DatasetInfo("a.h5", "/x", kind, array.shape, array.dtype, n_dims)


def applied(array: np.ndarray, slab: Hyperslab, n_dims: int) -> bytes:
    """What a hyperslab takes of a dataset, element by element."""
    field = array
    rest = slab.field
    while rest:
        names = field.dtype.names or ()
        name, _, after = rest.partition("/")
        name, after = (rest, "") if rest in names else (name, after)
        field, rest = field[name], after
    dims = array.shape[:n_dims]
    bytes_each = math.prod(field.shape[n_dims:]) * field.dtype.itemsize
    stored = np.frombuffer(field.tobytes(), np.uint8).reshape(*dims, bytes_each)
    stored = stored.reshape(math.prod(dims[: slab.k]), *dims[slab.k :], bytes_each)
    if slab.extents:
        starts = np.unravel_index(slab.points, dims[: slab.k])
        corners = [np.arange(extent) for extent in slab.extents]
        within = np.meshgrid(*corners, indexing="ij")
        at = [start[:, None] + one.reshape(-1) for start, one in zip(starts, within, strict=True)]
        stored = stored[np.ravel_multi_index(at, dims[: slab.k]).reshape(-1)]
    else:
        stored = stored[slab.points] if slab.k else stored[0]
    assert len(slab.axes) == n_dims - slab.k
    for at, indices in enumerate(slab.axes, start=1 if slab.k else 0):
        if isinstance(indices, Range):
            start, step, count = indices
            places = np.array([start + step * i for i in range(count)], np.int64)
        elif isinstance(indices, Spans):
            pairs = zip(*indices[:2], strict=True)
            places = np.concatenate([np.arange(begin, begin + n) for begin, n in pairs])
        else:
            places = indices
        assert ((places >= 0) & (places < stored.shape[at])).all()
        stored = stored.take(places, at)
    if slab.runs:
        assert sum(length for _, length in slab.runs) == slab.element_bytes
        parts = [stored[..., start : start + length] for start, length in slab.runs]
        stored = np.concatenate(parts, axis=-1)
    assert stored.shape[-1] == slab.element_bytes
    return stored.tobytes()


def indexed(array: Any, key: Any) -> Any:
    """`array[key]` with the array's own byte order, also of a scalar; rows stay NumPy's voids."""
    if isinstance(key, str):
        while key not in array.dtype.names:
            first, _, key = key.partition("/")
            array = array[first]
    got = array[list(key) if isinstance(key, FieldNames) else key]
    if isinstance(got, (np.ndarray, np.void)):
        return got
    of_field = isinstance(key, str) or (isinstance(array, np.void) and array.dtype.names)
    return np.array(got, array.dtype[key] if of_field else array.dtype)


def step_by_step(array: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        array = indexed(array, step)
    return array


def through_library(array: np.ndarray, call: LibraryCall) -> Any:
    assert call.method == "getitem"
    steps = (*call.arguments["fields"], call.arguments["key"], *call.steps)
    return step_by_step(array, steps)


def agrees(array: np.ndarray, dataset: DatasetInfo, selection: Selection, want: Any) -> str:
    """The normal form gives what NumPy gave; returns which form it is."""
    want = np.asarray(want)
    found = normalize(selection)
    assert not isinstance(found, Refused), found.text
    if isinstance(found, Native):
        slab = found.hyperslab
        assert math.prod(slab.shape) * slab.dtype.itemsize == want.nbytes
        got = np.frombuffer(applied(array, slab, dataset.n_dims), slab.dtype)
        same(got.reshape(slab.shape), want)
    call = library_call(selection)
    got = np.asarray(through_library(array, call))
    assert call.dtype == want.dtype
    assert call.shape in (None, want.shape)
    same(got, want)
    return type(found).__name__
