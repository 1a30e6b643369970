"""An index as h5py takes it, as field names and steps that are NumPy's.

Law
---
1. Where h5py gives a result, it is that: names stand anywhere among the items, one list goes along
   its own axis whatever stands beside it, True is 1, and Ellipsis is for the dataset's own axes.
2. Where h5py refuses and NumPy does not, it is NumPy's: any step of a slice, lists in any order and
   with repetitions or of several dimensions, several lists, masks of some of the axes. Which axes
   the result has never depends on the values of a list.
3. None and bare booleans of NumPy are refused. An exception has h5py's type.

Pure: this file must never know datasets, readers or files.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

ALL = slice(None)


#: One field, which is the result; several, which are a compound; or None.
Names = str | tuple[str, ...] | None


def names_and_items(key: Any) -> tuple[Names, tuple[Any, ...]]:
    """Part a key into the fields that it names, and the items that are left for the axes.

    A list of names is a compound, as NumPy has it, also of one.

    Raises
    ------
    ValueError
        A field is named twice.
    """
    items = key if isinstance(key, tuple) else (key,)
    named = [item for item in items if isinstance(item, str) or _are_names(item)]
    if not named:
        return None, items
    names = [name for item in named for name in ([item] if isinstance(item, str) else item)]
    if len(set(names)) < len(names):
        raise ValueError(f"a field is named twice: {names}")
    left = tuple(item for item in items if not (isinstance(item, str) or _are_names(item)))
    if len(named) == 1 and isinstance(named[0], str):
        return named[0], left
    return tuple(names), left


def _are_names(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(name, str) for name in item)


def steps_of(items: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the NumPy indexes, one after another, that give h5py's result on an array.

    Parameters
    ----------
    items : sequence
        Of the key, without names.
    shape : tuple of int
        The dataset's own axes.

    Raises
    ------
    TypeError, ValueError, IndexError
        As h5py raises them, or NumPy for what only NumPy takes.
    """
    if not shape and any(item is not Ellipsis and item is not None for item in items):
        raise ValueError("a scalar takes no index but () and ...")
    taken = [_item(item, shape, len(items)) for item in items]
    dots = [at for at, item in enumerate(taken) if item is Ellipsis]
    if len(dots) > 1:
        raise ValueError("an index can only have one Ellipsis")
    used = sum(map(_n_axes, taken))
    if used > len(shape):
        raise ValueError(f"too many indices: expected at most {len(shape)}, got {used}")
    at = dots[0] if dots else len(taken)
    taken[at : at + 1] = [ALL] * (len(shape) - used)
    first: list[Any] = []  # lists left out, each of which is a step of its own
    lists: list[tuple[int, Any]] = []
    n_before = 0  # axes that the result has before the item
    for at, item in enumerate(taken):
        n_axes = _n_axes(item)
        if _is_blocks(item):
            taken[at] = item = _blocks(item, shape[len(first)])  # noqa: PLW2901
        if isinstance(item, np.ndarray):
            lists.append((n_before, item))
        first += [ALL] * n_axes if isinstance(item, np.ndarray) else [item]
        n_before += n_axes * isinstance(item, (slice, np.ndarray))
    if len(lists) > 1:
        if dots and used == len(shape):  # to NumPy, lists around it are not beside each other
            taken.insert(dots[0], Ellipsis)
        return (tuple(taken),)
    steps = () if all(item == ALL for item in first) else (tuple(first),)
    return (*steps, *((*[ALL] * axis, item) if axis else item for axis, item in lists))


def _item(item: Any, shape: tuple[int, ...], n_items: int) -> Any:
    """Return one item as Ellipsis, a slice, a number or an array; blocks stay as they are."""
    if item is Ellipsis or isinstance(item, slice) or _is_blocks(item):
        return item
    if item is None:
        raise TypeError("None (np.newaxis) cannot index a dataset: index the result instead")
    with contextlib.suppress(TypeError):
        if not isinstance(item, np.bool_):  # which older NumPys take for a number
            return operator.index(item)
    try:
        array = np.asarray(item)
    except ValueError:  # lists of unequal lengths
        array = np.array(None, object)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)
    if array.ndim == 0 or array.dtype.kind not in "iub":
        raise TypeError(
            "a dataset takes numbers, slices, Ellipsis, lists of whole numbers, masks and names "
            f"of fields for an index, got {item!r}"
        )
    if array.dtype.kind == "b" and n_items == 1 and array.shape != shape[: array.ndim]:
        raise TypeError(
            f"a mask does not fit (expected the shape {shape} or that of its first axes, "
            f"got {array.shape})"
        )
    return array


def _n_axes(item: Any) -> int:
    """How many axes of the dataset an item acts on."""
    if item is Ellipsis:
        return 0
    return int(item.ndim) if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def _is_blocks(item: Any) -> bool:
    """Whether it is an h5py ``MultiBlockSlice``, which needs no import of h5py."""
    return hasattr(item, "stride") and hasattr(item, "block")


def _blocks(item: Any, length: int) -> npt.NDArray[np.int64]:
    start, stride, count, block = item.indices(length)
    starts = start + stride * np.arange(count, dtype=np.int64)
    numbers: npt.NDArray[np.int64] = np.add.outer(starts, np.arange(block, dtype=np.int64))
    return numbers.reshape(-1)


# ---- chunks one after another -------------------------------------------------------------


def chunk_slices(
    shape: tuple[int, ...], chunks: tuple[int, ...], selection: Any = None
) -> Iterator[tuple[slice, ...]]:
    """Yield the part of each chunk that lies in a selection, as slices, in C order.

    Parameters
    ----------
    shape, chunks : tuple of int
        Of the dataset, and of one chunk.
    selection : slice, int or sequence of them, optional
        One for each axis; steps are ignored, as h5py does. Default: everything.

    Raises
    ------
    ValueError
        The selection has another number of axes, is empty or goes beyond the dataset.
    TypeError
        It is something else.
    """
    if selection is None:
        selection = [slice(0, length) for length in shape]
    elif isinstance(selection, slice) or hasattr(selection, "__index__"):
        selection = [selection]
    if len(selection) != len(shape):
        raise ValueError(f"a selection has {len(shape)} axes here, got {len(selection)}")
    bounds = [_bounds(item, length) for item, length in zip(selection, shape, strict=True)]
    if any(
        not 0 <= start < stop <= length for (start, stop), length in zip(bounds, shape, strict=True)
    ):
        raise ValueError(f"a selection must lie in the dataset of shape {shape}, got {selection}")
    return _boxes(list(zip(bounds, chunks, strict=True)))


def _boxes(axes: list[tuple[tuple[int, int], int]]) -> Iterator[tuple[slice, ...]]:
    """Yield the chunks within bounds of each axis, one by one, as there may be very many."""
    if not axes:
        yield ()
        return
    ((start, stop), extent), *others = axes
    for at in range(start // extent * extent, stop, extent):
        for rest in _boxes(others):
            yield slice(max(start, at), min(stop, at + extent), 1), *rest


def _bounds(item: Any, length: int) -> tuple[int, int]:
    if isinstance(item, slice):
        return item.start or 0, item.stop or length
    try:
        return operator.index(item), operator.index(item) + 1
    except TypeError:
        raise TypeError(f"a selection of chunks takes slices and numbers, got {item!r}") from None
