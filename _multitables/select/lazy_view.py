"""A result that is described, not read, and NumPy's indexing of it.

Law
---
1. A `View` says where in the dataset each of its axes goes. A field, or an index on it, gives the
   `View` that NumPy's result would be, transposed advanced axes and all.
2. What NumPy refuses raises NumPy's exception, with the values in its text; what a `View` cannot
   say raises `NotNative`.
3. Nothing grows with the data: ranges stay ranges, only lists of the user's are lists.

Pure: this file must never know datasets by name, readers or files.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


class NotNative(Exception):  # noqa: N818 - not an error: a library does it instead
    """NumPy may do this, a `View` cannot say it."""


class Range(NamedTuple):
    """`n` indices from `start` on, `step` apart."""

    start: int
    step: int
    n: int


#: The indices of one axis of the dataset.
Indices = Range | I64


class Axis(NamedTuple):
    """An axis of the result, and the axes of the dataset that it goes along."""

    #: Has not one length only when an array of other than one dimension made it.
    shape: tuple[int, ...]
    #: Axis of the dataset, and where the result's axis goes on it; several go together.
    along: tuple[tuple[int, Indices], ...]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Part of a dataset, in the shape that NumPy would give it."""

    #: HDF5's own axes; what follows in `extents` are dims of subarrays.
    n_dims: int
    extents: tuple[int, ...]
    #: Bytes between neighbours, of the subarrays' dims.
    strides: tuple[int, ...]
    axes: tuple[Axis, ...]
    #: Axes of the dataset that the result has no more: their one index.
    fixed: Mapping[int, int]
    #: Of the dataset, and the names that lead to the field whose catalogue is used; its bytes.
    root: np.dtype[Any]
    names: tuple[str, ...]
    field_bytes: int
    #: Bytes into that field, where the first element of `dtype` lies.
    offset: int
    dtype: np.dtype[Any]

    @property
    def field(self) -> str:
        """Path of the field whose catalogue is used, "" for none."""
        return "/".join(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(length for axis in self.axes for length in axis.shape)

    def select(self, name: str) -> View:
        """Return one field: ``view[name]``; ``"a/b"`` is ``b`` in ``a``."""
        name, offset, dtype, rest = first_field(self.dtype, name)
        base, inner = dtype.base, dtype.shape
        first = len(self.extents)
        view = replace(
            self,
            extents=self.extents + inner,
            strides=self.strides + _strides(inner, base.itemsize),
            axes=self.axes + tuple(whole_axis(first + i, n) for i, n in enumerate(inner)),
            offset=self.offset + offset,
            dtype=base,
        )
        if first == self.n_dims:  # else inside a subarray: some bytes of the field that holds it
            names = (*self.names, name)
            if len(names) > 1 and _names_of(self.root, "/".join(names)) != names:
                raise NotNative("a path of fields that is another's, as a name holds a slash")
            view = replace(view, names=names, field_bytes=dtype.itemsize, offset=0)
        return view.select(rest) if rest else view

    def index(self, key: Any) -> View:
        """Return ``view[key]`` for anything that is no field."""
        items = list(key) if isinstance(key, tuple) else [key]
        if not self.axes and self.dtype.names and len(items) == 1 and is_number(items[0]):
            return self.select(name_at(self.dtype.names, operator.index(items[0])))
        if any(len(axis.shape) != 1 for axis in self.axes):
            raise NotNative("an index on the result of an index array of several dimensions")
        places = _places(items, self.shape)
        if not any(isinstance(place.item, np.ndarray) for place in places):
            return self._basic(places)
        return self._advanced(places)

    def _basic(self, places: Sequence[Place]) -> View:
        axes: list[Axis] = []
        fixed = dict(self.fixed)
        for item, at in places:
            if item is None:
                axes.append(Axis((1,), ()))
            elif item is Ellipsis:  # the slices that it stands for follow it
                continue
            elif isinstance(item, slice):
                axes.append(_cut(self.axes[at], item))
            else:
                fixed.update(_pick(self.axes[at], at, item))
        return replace(self, axes=tuple(axes), fixed=fixed)

    def _advanced(self, places: Sequence[Place]) -> View:
        """Arrays, and numbers beside them, make one axis together, at the first one's place.

        Or in front, when something stands between them, be it an Ellipsis for no axis.
        """
        fancy = [i for i, place in enumerate(places) if not _makes_axes(place.item)]
        arrays = [place for place in places if isinstance(place.item, np.ndarray)]
        try:
            together = np.broadcast_arrays(*(place.item for place in arrays))
        except ValueError:
            shapes = ", ".join(str(place.item.shape) for place in arrays)
            raise IndexError(
                f"index arrays do not go together: their shapes are {shapes}"
            ) from None
        along: list[tuple[int, Indices]] = []
        for array, (_, at) in zip(together, arrays, strict=True):
            numbers = checked(array.reshape(-1), at, self.axes[at].shape[0])
            along += [(source, _taken(on, numbers)) for source, on in self.axes[at].along]
        view = self._basic([place for place in places if not isinstance(place.item, np.ndarray)])
        before = [place for place in places[: fancy[0]] if place.item is not Ellipsis]
        where = len(before) if fancy[-1] - fancy[0] + 1 == len(fancy) else 0
        made = Axis(together[0].shape, tuple(along))
        return replace(view, axes=(*view.axes[:where], made, *view.axes[where:]))


class Place(NamedTuple):
    """One item of a key, and the result's axis that it acts on."""

    item: Any
    axis: int


def whole(shape: tuple[int, ...], n_dims: int, dtype: np.dtype[Any]) -> View:
    """Return the view of an entire dataset, whose last dims may be those of a subarray."""
    return View(
        n_dims=n_dims,
        extents=shape,
        strides=_strides(shape[n_dims:], dtype.itemsize),
        axes=tuple(whole_axis(i, length) for i, length in enumerate(shape)),
        fixed={},
        root=dtype,
        names=(),
        field_bytes=math.prod(shape[n_dims:]) * dtype.itemsize,
        offset=0,
        dtype=dtype,
    )


def whole_axis(source: int, length: int) -> Axis:
    """Return the axis that goes along all of the dataset's axis `source`."""
    return Axis((length,), ((source, Range(0, 1, length)),))


def first_field(dtype: np.dtype[Any], path: str) -> tuple[str, int, np.dtype[Any], str]:
    """Return the name, byte offset and dtype of a path's first field, and the rest of the path.

    The dtype is `flat`.

    Raises
    ------
    KeyError
        No such field; the arguments are the missing name and the names there are.
    """
    names = dtype.names or ()
    name, _, rest = path.partition("/")
    if path in names:  # a name may itself hold a slash
        name, rest = path, ""
    if name not in names or dtype.fields is None:
        raise KeyError(path, list(names))
    found, offset = dtype.fields[name][:2]
    one = np.empty(0, found)  # an array of arrays is one array to NumPy
    return name, offset, np.dtype((one.dtype, one.shape[1:])), rest


def is_number(item: Any) -> bool:
    """Whether an item of a key is a number, booleans excepted."""
    return hasattr(item, "__index__") and not isinstance(item, (bool, np.bool_, np.ndarray))


def _places(items: list[Any], shape: tuple[int, ...]) -> list[Place]:
    """Say which axis each item acts on; masks become arrays, Ellipsis becomes slices."""
    if any(is_boolean(item) for item in items):
        raise NotNative("a boolean in place of an index")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(map(axes_used, items))
    if used > len(shape):
        raise IndexError(f"too many indices: expected at most {len(shape)}, got {used}")
    at = dots[0] if dots else len(items)
    left = [slice(None)] * (len(shape) - used)
    places: list[Place] = []
    axis = 0
    for item in [*items[: at + 1], *left, *items[at + 1 :]]:
        if isinstance(item, np.ndarray) and item.dtype == np.bool_:
            _check_mask(item.shape, shape, axis)
            parts: Sequence[Any] = item.nonzero()
        else:
            parts = [item]
        for part in parts:
            places.append(Place(part, axis))
            axis += item is not None and item is not Ellipsis
    return places


def is_boolean(item: Any) -> bool:
    """Whether an item of a key is one boolean."""
    if isinstance(item, np.ndarray):
        return item.ndim == 0 and item.dtype == np.bool_
    return isinstance(item, (bool, np.bool_))


def axes_used(item: Any) -> int:
    """How many axes of an array an item of a key acts on."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, slice) or is_number(item):
        return 1
    if isinstance(item, np.ndarray) and item.dtype.kind in "iub":
        return item.ndim if item.dtype.kind == "b" else 1
    kind = f"array of {item.dtype}" if isinstance(item, np.ndarray) else repr(item)
    raise IndexError(
        "only integers, slices, '...', None and arrays of integers or booleans are indices "
        f"(got {kind})"
    )


def _check_mask(mask: tuple[int, ...], shape: tuple[int, ...], axis: int) -> None:
    for i, (got, expected) in enumerate(zip(mask, shape[axis:], strict=False)):
        if got not in (expected, 0):  # NumPy lets a mask without elements pass
            raise IndexError(
                f"a mask does not fit along axis {axis + i} (expected {expected}, got {got})"
            )


def _makes_axes(item: Any) -> bool:
    return item is None or item is Ellipsis or isinstance(item, slice)


def checked(array: npt.NDArray[Any], axis: int, length: int) -> I64:
    """Return indices from 0 on, also for those that count from the end.

    Raises
    ------
    IndexError
        One is beyond the axis.
    """
    if not array.size:
        return array.astype(np.int64)
    low, high = int(array.min()), int(array.max())
    if high >= length or low < -length:
        raise out_of_range(high if high >= length else low, axis, length)
    numbers: I64 = array.astype(np.int64)
    if low < 0:
        numbers[numbers < 0] += length
    return numbers


def out_of_range(number: int, axis: int, length: int) -> IndexError:
    """Compose the error for an index beyond an axis."""
    expected = f"{-length} to {length - 1}" if length else "none, as it is empty"
    return IndexError(f"index out of range for axis {axis} (expected {expected}, got {number})")


def name_at(names: Sequence[str], position: int) -> str:
    """Return the field that NumPy gives for a number on a row."""
    if not -len(names) <= position < len(names):
        raise IndexError(
            f"field number out of range (expected less than {len(names)}, got {position})"
        )
    return names[position]


def _names_of(dtype: np.dtype[Any], path: str) -> tuple[str, ...]:
    """The fields that a path is taken for."""
    names: list[str] = []
    with contextlib.suppress(KeyError):
        while path:
            name, _, dtype, path = first_field(dtype, path)
            names.append(name)
    return tuple(names)


def _strides(dims: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(math.prod(dims[i + 1 :]) * itemsize for i in range(len(dims)))


def _pick(axis: Axis, at: int, item: Any) -> dict[int, int]:
    number, length = operator.index(item), axis.shape[0]
    if not -length <= number < length:
        raise out_of_range(number, at, length)
    number %= length
    return {
        source: on.start + on.step * number if isinstance(on, Range) else int(on[number])
        for source, on in axis.along
    }


def _cut(axis: Axis, item: slice) -> Axis:
    wanted = range(*item.indices(axis.shape[0]))
    along = tuple(
        (source, _cut_range(at, wanted) if isinstance(at, Range) else at[item])
        for source, at in axis.along
    )
    return Axis((len(wanted),), along)


def _cut_range(at: Range, wanted: range) -> Range:
    return Range(at.start + at.step * wanted.start, at.step * wanted.step, len(wanted))


def _taken(at: Indices, numbers: I64) -> I64:
    return at.start + at.step * numbers if isinstance(at, Range) else at[numbers]
