"""The normal form of a selection: which elements of an HDF5 dataset, which bytes of each.

Law
---
1. In C order of the result: points over the leading `k` axes, or none, and of each the box that
   begins there; then each remaining axis by itself; then the runs of bytes inside one element.
2. Points only where axes by themselves cannot say it, and over as few axes as can be.
3. Result axes that are not in the dataset's order become points, up to a limit; what takes more
   is `NotNative`, as are axes of a subarray that go together with, or before, the dataset's.

Pure: this file must never know datasets by name, readers or files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.select.lazy_view import I64, Axis, Indices, NotNative, Range, View
from _multitables.select.selection import Arrangement, Spans

#: Points that stand for axes in another order, and runs in an element, at most.
MAX_POINTS = 1 << 20
MAX_RUNS = 1 << 16
#: Shorter lists of indices stay what they are.
MIN_LISTED = 16


@dataclass(frozen=True, slots=True, eq=False)
class Hyperslab:
    """Which elements of a dataset, and which bytes of each."""

    #: Path of the field, "" for whole elements.
    field: str
    #: How many leading HDF5 axes are selected by points together.
    k: int
    #: Row-major numbers over the first `k` dims.
    points: I64
    #: Of each remaining HDF5 axis.
    axes: tuple[Indices | Spans, ...]
    #: Byte offset in the field and length; none: the entire field.
    runs: tuple[tuple[int, int], ...]
    #: Bytes delivered of each element.
    element_bytes: int
    #: Of the result.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: Extents of the box at each point; empty: points alone.
    extents: tuple[int, ...] = ()
    #: Where rows of this are placed; None: as they are selected.
    arrangement: Arrangement | None = None


def hyperslab_of(view: View) -> Hyperslab:
    """Return the normal form of a view.

    Raises
    ------
    NotNative
        There is none.
    """
    axes = [axis for axis in view.axes if axis.along]
    if any(math.prod(axis.shape) > 1 for axis in view.axes if not axis.along):
        raise NotNative("repetitions along an axis that the dataset does not have")
    n_outer = sum(_is_outer(axis, view.n_dims) for axis in axes)
    outer, inner = axes[:n_outer], axes[n_outer:]
    if any(_is_outer(axis, view.n_dims) for axis in inner):
        raise NotNative("dims of a subarray before the dataset's")
    shape = view.shape
    if 0 in shape:  # nothing at all, said in the one way
        nothing = tuple(Range(0, 1, 0) for _ in range(view.n_dims))
        empty = np.zeros(0, np.int64)
        return Hyperslab(view.field, 0, empty, nothing, (), view.field_bytes, shape, view.dtype)
    runs, element_bytes = _runs(view, inner)
    k, points, remaining = _points(view, outer)
    by_source = {axis.along[0][0]: axis.along[0][1] for axis in remaining}
    places = tuple(
        _shortest(by_source[source]) if source in by_source else Range(view.fixed[source], 1, 1)
        for source in range(k, view.n_dims)
    )
    return Hyperslab(view.field, k, points, places, runs, element_bytes, shape, view.dtype)


def _shortest(indices: Indices) -> Indices | Spans:
    """Return a list as spans where it has few: windows, which are copied whole."""
    if isinstance(indices, Range) or len(indices) < MIN_LISTED:
        return indices
    spans = Spans.of(indices)
    return spans if 2 * len(spans.begins) <= len(indices) else indices


def _is_outer(axis: Axis, n_dims: int) -> bool:
    outer = {source < n_dims for source, _ in axis.along}
    if len(outer) > 1:
        raise NotNative("dims of a subarray together with the dataset's")
    return outer.pop()


def _points(view: View, axes: Sequence[Axis]) -> tuple[int, I64, Sequence[Axis]]:
    """As few leading axes of the result as must become points, and the others."""
    for n in range(len(axes) + 1):
        covered = {source for axis in axes[:n] for source, _ in axis.along}
        k = max(covered, default=-1) + 1
        sources = [source for axis in axes[n:] for source, _ in axis.along]
        by_themselves = all(len(axis.along) == 1 for axis in axes[n:])
        in_order = all(a < b for a, b in zip([k - 1, *sources], sources, strict=False))
        if by_themselves and in_order and (n == 0 or not set(range(k)) - covered - set(view.fixed)):
            break
    if n == 0:
        return 0, np.zeros(0, np.int64), axes
    if n > 1 and math.prod(math.prod(axis.shape) for axis in axes[:n]) > MAX_POINTS:
        raise NotNative("very many elements in another order than the dataset's")
    dims = view.extents[:k]
    strides = [math.prod(dims[i + 1 :]) for i in range(k)]
    fixed = sum(at * strides[source] for source, at in view.fixed.items() if source < k)
    return k, _outer_sum(fixed, axes[:n], strides, 0), axes[n:]


def _outer_sum(first: int, axes: Sequence[Axis], strides: Sequence[int], at: int) -> I64:
    """Numbers of all combinations of the axes' indices; `strides` are of the sources from `at`."""
    numbers = np.array(first, np.int64)
    for axis in axes:
        numbers = np.add.outer(
            numbers,
            sum(_numbers(indices) * strides[source - at] for source, indices in axis.along),
        )
    return numbers.reshape(-1)


def _numbers(indices: Indices) -> I64:
    if isinstance(indices, Range):
        return indices.start + indices.step * np.arange(indices.n, dtype=np.int64)
    return indices


def _runs(view: View, axes: Sequence[Axis]) -> tuple[tuple[tuple[int, int], ...], int]:
    """Byte runs inside the field, none if it is entire, and the bytes of all."""
    inner = view.extents[view.n_dims :]
    entire = [((view.n_dims + i, Range(0, 1, n)),) for i, n in enumerate(inner)]
    itemsize = view.dtype.itemsize
    if view.field_bytes == math.prod(inner) * itemsize and _same(axes, entire):
        return (), view.field_bytes
    fixed = view.offset + sum(
        at * view.strides[source - view.n_dims]
        for source, at in view.fixed.items()
        if source >= view.n_dims
    )
    starts = _outer_sum(fixed, axes, view.strides, view.n_dims)
    begins = np.flatnonzero(np.diff(starts, prepend=starts[:1] - 2 * itemsize) != itemsize)
    if len(begins) > MAX_RUNS:
        raise NotNative("very many pieces of one element")
    lengths = np.diff(begins, append=len(starts)) * itemsize
    runs = tuple(zip(starts[begins].tolist(), lengths.tolist(), strict=True))
    return runs, len(starts) * itemsize


def _same(axes: Sequence[Axis], entire: Sequence[tuple[tuple[int, Range], ...]]) -> bool:
    return len(axes) == len(entire) and all(
        isinstance(axis.along[0][1], Range) and axis.along == whole
        for axis, whole in zip(axes, entire, strict=True)
    )
