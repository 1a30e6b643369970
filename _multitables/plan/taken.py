"""What samples take of a dataset: rows, boxes, or places along an axis of rows.

Law
---
1. Pure. Each says what is read, what is made of that, and which samples have elements of a chunk.
2. Coordinates are those of the data as the user selected it; `windows` lead to the stored ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import AxisWindow
from _multitables.select.selection import Arrangement, Boxes, Spans

I64 = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
#: Extents of a box along the leading axes of a dataset.
Extents = tuple[int, ...]
#: What the user selected of each axis behind the first; (): all.
Windows = tuple[AxisWindow, ...]
#: Of each axis, the first element and the one behind the last.
Box: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class TakenRows:
    """The rows of some samples: the rows to read, and the samples made from them."""

    rows: I64
    #: Which are not padding; None: all.
    inside: Mask | None
    pad: Any
    #: Each sample is one row, and delivered as such.
    are_rows: bool = False
    windows: Windows = ()
    arrangement: Arrangement | None = None

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes of samples before those of a row, as they are read."""
        return self.rows.shape[: 1 if self.are_rows else 2]

    @property
    def steps(self) -> slice:
        """Which rows that are read are steps."""
        return slice(None)

    @property
    def n_rows(self) -> int:
        """Rows that are read for each sample."""
        return int(self.rows.shape[1])

    @property
    def placed(self) -> Arrangement | None:
        """The places of the rows that are read."""
        to = self.arrangement
        return to.of_boxes if to is not None and to.n_box_axes else to

    @property
    def step(self) -> Spans | Boxes:
        """The step of a selection that reads them."""
        rows, n, to = self.rows, self.rows.shape[1], self.arrangement
        if to is not None and to.n_box_axes:
            begins = np.column_stack([rows.reshape(-1), to.begins[:, : to.n_box_axes]])
            windows = (axis.window for axis in to.axes[: to.n_box_axes])
            return Boxes(begins, (1, *windows), (), self.placed)
        # Samples of rows in line are spans as they are, which takes a fraction of the time.
        if self.inside is None and len(rows) and (np.diff(rows[0]) == 1).all():
            begins = rows[:, 0]
            if (rows[:, -1] - begins == n - 1).all():
                lengths = np.full(len(rows), n, np.int64)
                return Spans(begins, lengths, _key(self.windows), to).joined()
        return Spans(*Spans.of(rows.reshape(-1))[:2], _key(self.windows), to)

    def made(self, read: Array) -> Array:
        """Return samples of the rows that were read."""
        if self.arrangement is not None and self.arrangement.n_box_axes:
            read = read[:, 0]
        if self.are_rows:
            return read
        return _padded(read.reshape(*self.rows.shape, *read.shape[1:]), self.inside, self.pad)

    def touched(self, box: Box) -> Mask:
        """Return which samples have elements of a box."""
        here = _within(self.rows, box[0])
        if self.arrangement is not None:
            here &= self.arrangement.meets(box[1:]).reshape(here.shape)
        return _read(here, self.inside, self.pad)


@dataclass(frozen=True, eq=False)
class TakenAlong:
    """Places along an axis behind the first, each sample's in one row."""

    #: Numbers of places, row after row.
    places: I64
    inside: Mask | None
    pad: Any
    #: The axis, and the extents up to it.
    axis: int
    dims: Extents
    windows: Windows = ()
    arrangement: Arrangement | None = None

    @property
    def placed(self) -> Arrangement | None:
        """The places of the rows that are read."""
        return self.arrangement

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes of samples before those of a row, as they are read."""
        return len(self.places), self.n_rows

    @property
    def steps(self) -> slice:
        """Which rows that are read are steps."""
        covered, _ = _covered(self.axis + 1, self.windows) if self._is_in_line else ((), ())
        along = [one.step for one in covered if not one.is_dropped]
        return slice(None, None, *along[-1:])

    @property
    def n_rows(self) -> int:
        """Rows that are read for each sample: what lies behind the axis, at each place."""
        step = replace(self, arrangement=None).step
        return len(step.begins) // len(self.places) * math.prod(step.extents)

    @property
    def _is_in_line(self) -> bool:
        """Whether each sample is one box."""
        return self.inside is None and bool((np.diff(self.places, axis=1) == 1).all())

    @property
    def step(self) -> Boxes:
        """The step of a selection that reads them."""
        places, n = self.places, 1
        if self._is_in_line:
            places, n = places[:, :1], places.shape[1]
        begins = np.zeros((places.size, self.axis + 1), np.int64)
        begins[:, 0], begins[:, -1] = np.divmod(places.reshape(-1), self.dims[-1])
        boxes = stored_boxes(begins, self._extents(n), self.windows)
        return Boxes(*boxes[:3], self.arrangement)

    def _extents(self, n: int) -> Extents:
        return (1, *self.dims[1:-1], n)

    def made(self, read: Array) -> Array:
        """Return samples from the elements that were read."""
        read = thinned(read, self.axis + 1, self.windows)
        shape, between, rest = self.places.shape, self.dims[1:-1], read.shape[self.axis + 2 :]
        if self._is_in_line:
            return read.reshape(shape[0], *between, shape[1], *rest)
        made = _padded(read.reshape(*shape, *between, *rest), self.inside, self.pad)
        return np.ascontiguousarray(np.moveaxis(made, 1, self.axis))

    def touched(self, box: Box) -> Mask:
        """Return which samples have elements of a box."""
        rows, places = np.divmod(self.places, self.dims[-1])
        here = _within(rows, box[0]) & _within(places, box[self.axis])
        if self.arrangement is not None:
            meets = self.arrangement.meets(box[self.axis + 1 :])
            here &= meets.reshape(len(here), -1)[:, :1]  # all of a sample have one window
        return _read(here, self.inside, self.pad)


@dataclass(frozen=True, eq=False)
class TakenBoxes:
    """The boxes of some samples: the elements to read, and the samples made from them."""

    begins: I64
    #: Extents of the box to read, and of the delivered one.
    read: Extents
    extents: Extents
    #: Along each axis, which of the read elements each delivered one is, of shape (samples,
    #: extent), and whether it lies in the segment; None: no sample has some outside.
    sources: list[tuple[I64, Mask]] | None = None
    pad: Any = None
    windows: Windows = ()

    #: Boxes have no mask, and come as they are read.
    inside = placed = None

    @property
    def step(self) -> Boxes:
        """The step of a selection that reads them."""
        return stored_boxes(self.begins, self.read, self.windows)

    def made(self, read: Array) -> Array:
        """Return samples from the elements that were read."""
        read = thinned(read, len(self.read), self.windows)
        if self.sources is None:
            return read
        k = len(self.extents)
        padded = np.zeros(len(read), np.bool_)
        for _, here in self.sources:
            padded |= ~here.all(axis=1)
        made = np.empty((len(read), *self.extents, *read.shape[k + 1 :]), read.dtype)
        if self.read == self.extents:
            made[~padded] = read[~padded]
        part = read[padded]
        for axis, (source, here) in enumerate(self.sources, start=1):
            along = [1] * part.ndim
            along[0], along[axis] = len(part), source.shape[1]
            part = np.take_along_axis(part, source[padded].reshape(along), axis)
            if not isinstance(self.pad, str):
                outside = ~here[padded].reshape(along)
                part = np.where(outside, np.asarray(self.pad).astype(part.dtype), part)
        made[padded] = part
        return made

    def touched(self, box: Box) -> Mask:
        """Return which samples have elements of a box."""
        found = np.ones(len(self.begins), np.bool_)
        for axis, (extent, low_high) in enumerate(zip(self.read, box, strict=False)):
            begins = self.begins[:, axis, None]
            if self.sources is None:
                low, high = low_high
                found &= ((begins < high) & (begins + extent > low))[:, 0]
                continue
            source, inside = self.sources[axis]
            found &= _read(_within(begins + source, low_high), inside, self.pad)
        return found


#: The part of a dataset that samples take.
Taken = TakenRows | TakenAlong | TakenBoxes


def _padded(made: Array, inside: Mask | None, pad: Any) -> Array:
    """Put a number in the place of what lies outside; ``"edge"`` was read."""
    if inside is None or pad == "edge" or inside.all():
        return made
    made = made.copy()
    made[~inside] = pad
    return made


def _within(places: I64, ends: tuple[int, int]) -> Mask:
    return (places >= ends[0]) & (places < ends[1])


def _read(here: Mask, inside: Mask | None, pad: Any) -> Mask:
    """Return which samples read a place that is here: of padding by a number none is read."""
    is_read = here if inside is None or isinstance(pad, str) else here & inside
    return np.asarray(is_read.any(axis=1))


# ---- what the user selected of the axes behind the first


def stored_boxes(begins: I64, extents: Extents, windows: Windows) -> Boxes:
    """Return the boxes to read for boxes of what the user selected."""
    if not windows:
        return Boxes(begins, extents)
    places, read = [begins[:, 0]], [extents[0]]
    covered, rest = _covered(len(extents), windows)
    axis = 1
    for one in covered:
        at, extent = np.zeros(len(begins), np.int64), 1
        if not one.is_dropped:
            at, extent, axis = begins[:, axis], extents[axis], axis + 1
            at = one.count - at - extent if one.step < 0 else at
        places.append(one.start + at * abs(one.step))
        read.append((extent - 1) * abs(one.step) + 1 if extent else 0)
    return Boxes(np.stack(places, axis=1), tuple(read), _key(rest))


def _key(windows: Windows) -> tuple[int | slice, ...]:
    return tuple(one.start if one.is_dropped else one.key for one in windows)


def thinned(read: Array, n_axes: int, windows: Windows) -> Array:
    """Return what was selected of the elements that `stored_boxes` with `n_axes` axes reads."""
    covered, _ = _covered(n_axes, windows)
    each = (0 if one.is_dropped else slice(None, None, one.step) for one in covered)
    return read[(slice(None), slice(None), *each)] if covered else read


def _covered(n_axes: int, windows: Windows) -> tuple[Windows, Windows]:
    """Cut windows behind those of a box, which has `n_axes` axes of what was selected."""
    if not windows:
        return (), ()
    ends = np.cumsum([not one.is_dropped for one in windows])
    end = int(np.searchsorted(ends, n_axes - 1)) + 1 if n_axes > 1 else 0
    return windows[:end], windows[end:]


def selected_box(box: Box, windows: Windows) -> Box | None:
    """Return which part of what the user selected lies in a box of stored elements, if any."""
    if not windows:
        return box
    found = [box[0]]
    for one, (begin, end) in zip(windows, box[1:], strict=True):
        ends = [math.ceil((at - one.start) / abs(one.step)) for at in (begin, end)]
        low, high = (min(max(at, 0), one.count) for at in ends)
        if low >= high:
            return None
        if one.step < 0:
            low, high = one.count - high, one.count - low
        if not one.is_dropped:
            found.append((low, high))
    return tuple(found)
