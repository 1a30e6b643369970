"""What rows of a stream have of the axes behind the first: what the user wrote, as windows.

Law
---
1. Pure: an index and what the user wrote in, the index of the selected rows out.
2. An inner selection reads as NumPy's basic indexing of one row does: an integer drops its axis.
3. The index still tells where all chunks lie; which of them are needed is the plan's matter.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from _multitables.errors import OptionsError
from _multitables.index.chunk_index import AxisWindow, ChunkIndex
from _multitables.tree import Structure


def select_inner(
    indexes: Sequence[ChunkIndex], inner: Any, structure: Structure
) -> list[ChunkIndex]:
    """Return the indexes of datasets whose rows have only what `inner` selects.

    Parameters
    ----------
    inner : None, int, slice, Ellipsis or tuple of them, or list or dict of selections
        A selection of every dataset, or with the structure of the paths one for each: a list, as a
        tuple is a selection of several axes, or a dict, whose missing keys select everything.

    Raises
    ------
    OptionsError
        Not such selections, or more than there are axes, or an integer beyond its axis.
    """
    selections = _of_each(inner, structure, len(indexes))
    return [_selected(index, one) for index, one in zip(indexes, selections, strict=True)]


def as_selected(index: ChunkIndex) -> ChunkIndex:
    """Return an index with the dims that `inner` left, for samples."""
    if not index.windows:
        return index
    each = enumerate((AxisWindow(0, 1, index.n_rows), *index.windows))
    kept = [(at, one) for at, one in each if not one.is_dropped]
    dims = tuple(one.count for _, one in kept)
    chunk_dims = index.chunk_dims and tuple(
        min(max(1, index.chunk_dims[at] // abs(one.step)), max(1, one.count)) for at, one in kept
    )
    return replace(index, dims=dims, chunk_dims=chunk_dims, windows=())


def _of_each(inner: Any, structure: Structure, count: int) -> list[Any]:
    if isinstance(inner, Mapping):
        keys = structure.keys or ()
        if unknown := [key for key in inner if key not in keys]:
            raise _wrong(
                f"inner has an unknown key: expected some of {list(keys)}, got {unknown[0]!r}",
                "Give a dict of selections with the keys of a dict of paths",
                inner,
            )
        return [inner.get(key) for key in keys]
    if isinstance(inner, list):
        if structure.keys is None or len(inner) != count:
            raise _wrong(
                f"a list of inner selections has one for each path: expected {count}, "
                f"got {len(inner)}" + " for one path" * (structure.keys is None),
                "Give one selection for all paths, or a list of as many (None selects everything)",
                inner,
            )
        return inner
    return [inner] * count


def _selected(index: ChunkIndex, inner: Any) -> ChunkIndex:
    if inner is None:
        return index
    items = inner if isinstance(inner, tuple) else (inner,)
    if not all(item is Ellipsis or _is_basic(item) for item in items):
        raise _wrong(
            f"inner must be integers, slices and '...', got {inner!r:.80}",
            "Read lists and masks of inner axes with multitables.Reader",
            inner,
        )
    dims = index.dims[1:]
    n_dots = sum(item is Ellipsis for item in items)
    if n_dots > 1 or len(items) - n_dots > len(dims):
        got = "more than one '...'" if n_dots > 1 else f"selections of {len(items) - n_dots}"
        raise _wrong(
            f"inner does not fit {index.path!r}: expected at most {len(dims)} axes behind the "
            f"first, got {got}",
            "Give a dict or a list with a selection for each path where datasets differ",
            inner,
            index,
        )
    at = next((at for at, item in enumerate(items) if item is Ellipsis), len(items))
    rest = items[at + 1 :]
    all_of = [slice(None)] * (len(dims) - at - len(rest))
    each = enumerate(zip([*items[:at], *all_of, *rest], dims, strict=True), 1)
    windows = tuple(_window(item, dim, axis, index, inner) for axis, (item, dim) in each)
    if windows == tuple(AxisWindow(0, 1, dim) for dim in dims):
        return index  # whose chunks need no numbers of their own
    return replace(index, windows=windows)


def _window(item: Any, dim: int, axis: int, index: ChunkIndex, inner: Any) -> AxisWindow:
    if isinstance(item, slice):
        wanted = range(dim)[item]
        if len(wanted) < 2:
            return AxisWindow(wanted[0] if wanted else 0, 1, len(wanted))
        return AxisWindow(min(wanted[0], wanted[-1]), wanted.step, len(wanted))
    number = operator.index(item)
    if not -dim <= number < dim:
        raise _wrong(
            f"inner lies outside axis {axis} of {index.path!r}: expected {-dim} to {dim - 1}, "
            f"got {number}",
            "Give an index that the axis has",
            inner,
            index,
        )
    return AxisWindow(number % dim, 1, 1, is_dropped=True)


def _is_basic(item: Any) -> bool:
    """Whether it is an integer, or a slice of integers without a step of 0."""
    try:
        _ = range(0)[item] if isinstance(item, slice) else operator.index(item)
    except (TypeError, ValueError):
        return False
    return not isinstance(item, bool)


def _wrong(
    happened: str, advice: str, inner: object, index: ChunkIndex | None = None
) -> OptionsError:
    where = {} if index is None else {"path": index.path, "filename": index.filename}
    return OptionsError(happened, advice=advice, option="inner", got=inner, **where)
