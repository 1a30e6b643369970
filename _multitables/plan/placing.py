"""Where readers place the elements of each row: `crop`, `flip`, `channels` and `into`.

Law
---
1. Pure: options in, the axes of each dataset's rows out, and their places in an array of several.
   What no dataset can have raises `OptionsError`: names before a file is opened, sizes as soon as
   they are known.
2. Draws are a function of seed, epoch and sample. All datasets of a sample, and all its rows, have
   the same draw.
3. The core places what is read (scatter/arrange.rs); nothing is copied for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.options import whole, wrong
from _multitables.plan.casts import of_each
from _multitables.plan.stacking import Into, check_into
from _multitables.plan.weights import CROPS, FLIPS, below, hashed, unit
from _multitables.select.selection import Arrangement, RowAxis
from _multitables.tree import Paths

I64 = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

#: Extents of a crop: those of the two axes of a picture, or one for each axis of a row.
Extents = tuple[int | None, ...]
#: Axes that are mirrored: of a picture by their names, of a row by their numbers.
Flip = tuple[int | str, ...]
#: Axes of a picture, in their order.
PICTURE = ("vertical", "horizontal")
CHANNELS = ("first", "last")
#: Chunks that a crop does not touch are left out where it is at most this part of its rows.
SMALL = 4

#: The options as they are given: for all datasets, or by paths or keys.
Crop = int | Sequence[int | None]
Crops = Crop | Mapping[Any, Crop]
Flips = str | int | Sequence[int | str] | Mapping[Any, str | int | Sequence[int | str]]
Channels = str | Mapping[Any, str]

_CROP = "Give crop=(height, width), or an extent or None for each axis of a row"
_FLIP = "Give 'horizontal', 'vertical', or a tuple of numbers of a row's axes"


@dataclass(frozen=True)
class Placing:
    """The options, of each dataset."""

    crops: tuple[Extents | None, ...]
    flips: tuple[Flip | None, ...]
    channels: tuple[str | None, ...]
    #: Those that were given for all, and not by paths: rows that they do not fit stay as they are.
    for_all: frozenset[str]
    #: Which datasets lie in one array.
    into: Into | None

    @property
    def identity(self) -> str:
        """The value of a state for them."""
        return repr((self.crops, self.flips, self.channels, self.into))

    @property
    def option(self) -> str:
        """The option that names them in errors."""
        given = {"crop": self.crops, "flip": self.flips, "channels": self.channels}
        return next((name for name, each in given.items() if any(each)), "into")


def check_placing(
    path: Paths, crop: Any, flip: Any, channels: Any, into: Any = None
) -> Placing | None:
    """Check `crop`, `flip`, `channels` and `into`, and return those of each dataset.

    Raises
    ------
    OptionsError
        There are no such datasets, axes or extents.
    """
    given = {"crop": crop, "flip": flip, "channels": channels}
    if into is None and all(one is None for one in given.values()):
        return None
    for_all = {name for name, one in given.items() if not isinstance(one, Mapping)}
    each = {name: of_each(name, one, path) for name, one in given.items()}
    for one in each["channels"]:
        if one not in (None, *CHANNELS):
            advice = "'first' moves the last axis of a row before the others, 'last' the reverse"
            raise wrong("channels", "must be 'first' or 'last'", one, advice)
    crops = tuple(map(_crop, each["crop"]))
    flips = tuple(map(_flip, each["flip"]))
    stacked = check_into(path, into)
    return Placing(crops, flips, tuple(each["channels"]), frozenset(for_all), stacked)


def _crop(given: Any) -> Extents | None:
    if given is None:
        return None
    if not isinstance(given, (tuple, list, np.ndarray)):
        side = whole("crop", given, 1, _CROP)
        return side, side
    extents = tuple(None if one is None else whole("crop", one, 1, _CROP) for one in given)
    if all(one is None for one in extents):
        raise wrong("crop", "has no extent", given, _CROP)
    return extents


def _flip(given: Any) -> Flip | None:
    if given is None:
        return None
    each = (given,) if isinstance(given, (str, int, np.integer)) else given
    if not isinstance(each, (tuple, list)) or not each:
        raise wrong("flip", "names no axis", given, _FLIP)
    for one in each:
        is_number = isinstance(one, (int, np.integer)) and not isinstance(one, bool)
        if not is_number and one not in PICTURE:
            raise wrong("flip", "is no axis", one, _FLIP)
    return tuple(one if isinstance(one, str) else int(one) for one in each)


# ---- the rows of one dataset


@dataclass(frozen=True, eq=False)
class Placement:
    """How the rows of one dataset are placed."""

    seed: int
    #: Extents of a row as it is read.
    extents: tuple[int, ...]
    #: Those of the window that is delivered.
    window: tuple[int, ...]
    #: The axes that are cropped, and those that are mirrored, in the order of their draws.
    cropped: tuple[int, ...]
    mirrored: tuple[int, ...]
    #: The axes of a delivered row.
    order: tuple[int, ...]
    #: Boxes are read in the place of rows: axes of these up to the last that is cropped.
    n_box_axes: int = 0
    #: It is one part of these, along an axis of batches; None: no other lies in its array.
    parts: int | None = None
    part: int = 0
    axis: int = 1
    #: Batches have an axis of steps.
    has_steps: bool = False

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a delivered row."""
        return tuple(self.window[axis] for axis in self.order)

    @property
    def n_axes(self) -> int:
        """The axes up to the last that changes in any way."""
        each = enumerate(zip(self.extents, self.window, self.order, strict=True))
        changed = [at for at, (extent, window, of) in each if extent != window or at != of]
        return 1 + max((-1, *changed, *self.mirrored, self.behind - 1))

    @property
    def behind(self) -> int:
        """The axes of a delivered row before that of parts."""
        return 0 if self.parts is None else max(0, self.axis - 1 - self.has_steps)

    def whole(self, array: Array, lead: tuple[int, ...]) -> Array:
        """Return a result with all parts, which has rows of these axes, as it is delivered."""
        assert self.parts is not None
        shape = [*lead, *self.row_shape]
        shape.insert(self.axis, self.parts)
        return array.reshape(shape)

    def arrangement(self, epoch: int, numbers: I64, n_rows: int) -> Arrangement:
        """Return where the rows of some samples are placed, each of `n_rows` rows."""
        begins = np.zeros((len(numbers), len(self.extents)), np.int64)
        for draw, axis in enumerate(self.cropped):
            room = self.extents[axis] - self.window[axis] + 1
            begins[:, axis] = below(hashed(self.seed, epoch, CROPS + draw, numbers), room)
        mirrored = np.zeros(len(numbers), np.int64)
        for draw, axis in enumerate(self.mirrored):
            drawn = unit(hashed(self.seed, epoch, FLIPS + draw, numbers)) < 1 / 2
            mirrored |= drawn.astype(np.int64) << axis
        places = np.argsort(self.order).tolist()
        axes = zip(self.extents, self.window, places, strict=True)
        return Arrangement(
            tuple(RowAxis(*one) for one in axes)[: self.n_axes],
            np.repeat(mirrored, n_rows),
            np.repeat(begins, n_rows, axis=0),
            self.row_shape,
            self.n_box_axes,
            self.parts,
            self.part,
            self.behind,
            n_rows if self.has_steps and self.parts is not None and self.axis == 1 else 1,
        )


def placements(
    placing: Placing | None, indexes: Sequence[ChunkIndex], seed: int, axis: int = 0
) -> list[Placement | None]:
    """Return what becomes of the rows of each dataset, as the user selected them.

    Rows are what lies behind `axis` of the data.

    Raises
    ------
    OptionsError
        A crop is larger than a row, or rows have no such axes.
    """
    if placing is None:
        return [None] * len(indexes)
    rows = [Rows(index, axis) for index in indexes]
    found = [_placement(placing, at, one, seed) for at, one in enumerate(rows)]
    if placing.option != "into" and not any(found):
        shapes = ", ".join(f"{one.index.path!r}: {one.shape}" for one in rows)
        raise OptionsError(
            f"{placing.option} changes no dataset (got rows of the shapes {shapes})",
            advice="Two numbers and names of axes are for rows of two or three axes. Give numbers "
            "of axes of other rows, and a dict by paths",
            option=placing.option,
        )
    return found


def as_part(
    of: Placement | None, shape: tuple[int, ...], part: int, into: Into, parts: int, steps: bool
) -> Placement:
    """Return the placement of one dataset of several in an array; `shape` is that of its rows.

    Raises
    ------
    OptionsError
        Batches have no such axis.
    """
    if of is None:
        of = Placement(0, shape, shape, (), (), tuple(range(len(shape))))
    n_axes = 2 + steps + len(shape)
    axis = into.axis + n_axes * (into.axis < 0)
    if not 1 <= axis < n_axes:
        advice = "Take an axis behind that of samples"
        raise wrong("into", f"must be below the {n_axes} axes of a batch", into.axis, advice)
    found = replace(of, parts=parts, part=part, axis=axis, has_steps=steps)
    if found.n_axes > _core.MAX_ROW_AXES:
        advice = "Take an axis before those of rows"
        raise wrong("into", "lies behind too many axes", into.axis, advice)
    return found


@dataclass(frozen=True, eq=False)
class Rows:
    """The part of a dataset behind an axis."""

    index: ChunkIndex
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row, as the user selected it."""
        return self.index.row_shape[self.axis :]


def _placement(placing: Placing, at: int, rows: Rows, seed: int) -> Placement | None:
    extents, channels = rows.shape, placing.channels[at]
    n_axes = len(extents)
    if channels and "channels" in placing.for_all and n_axes < 3:
        channels = None
    if channels and n_axes < 2:
        raise _no_axes("channels", channels, rows, "two axes or more")
    picture: tuple[int, ...] = ()
    if n_axes in (2, 3):
        picture = (1, 2) if channels == "last" and n_axes == 3 else (0, 1)
    crop = _cropped(placing, at, rows, picture)
    flips = _flipped(placing, at, rows, picture)
    window = tuple(crop.get(axis, extent) for axis, extent in enumerate(extents))
    order = list(range(n_axes))
    if channels == "first":
        order = [order[-1], *order[:-1]]
    elif channels == "last":
        order = [*order[1:], order[0]]
    if 0 in extents or not (crop or flips or channels):
        return None
    found = Placement(seed, extents, window, tuple(crop), flips, tuple(order))
    if found.n_axes > _core.MAX_ROW_AXES:
        raise _no_axes(placing.option, n_axes, rows, f"at most {_core.MAX_ROW_AXES} axes")
    return replace(found, n_box_axes=_box_axes(found, rows))


def _cropped(placing: Placing, at: int, rows: Rows, picture: Sequence[int]) -> dict[int, int]:
    """Return the extent along each axis that is cropped."""
    given, extents, index = placing.crops[at], rows.shape, rows.index
    if given is None:
        return {}
    is_picture = len(given) == 2 and picture
    axes = picture if is_picture else range(len(extents))
    if len(axes) != len(given):
        if "crop" in placing.for_all:
            return {}
        raise _no_axes("crop", given, rows, f"{len(given)} axes")
    crop = {axis: one for axis, one in zip(axes, given, strict=True) if one is not None}
    for axis, one in crop.items():
        if one > extents[axis]:
            raise OptionsError(
                f"crop is larger than a row of {index.path!r} in {index.filename!r} (expected at "
                f"most {extents[axis]} along axis {axis} of {extents}, got {one})",
                advice="Take a smaller crop, or give a dict by paths",
                option="crop",
                expected=extents,
                got=given,
                path=index.path,
                filename=index.filename,
            )
    return crop


def _flipped(placing: Placing, at: int, rows: Rows, picture: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that are mirrored."""
    given, n_axes = placing.flips[at], len(rows.shape)
    if given is None:
        return ()
    found = []
    for one in given:
        axis = one if isinstance(one, int) else picture[PICTURE.index(one)] if picture else n_axes
        if not -n_axes <= axis < n_axes:
            if "flip" in placing.for_all:
                return ()
            raise _no_axes("flip", one, rows, "an axis of this name or number")
        found.append(axis % n_axes)
    if len(set(found)) < len(found):
        raise wrong("flip", f"names an axis of {rows.index.path!r} twice", given, "Name it once")
    return tuple(found)


def _box_axes(of: Placement, rows: Rows) -> int:
    """Return how many axes of rows the boxes to read have; 0: rows are read whole.

    Where a row is one chunk, and of pictures that are decoded, there is nothing to leave out.
    """
    index, both = rows.index, zip(of.extents, of.window, strict=True)
    n_axes = 1 + max((at for at, (extent, one) in enumerate(both) if one < extent), default=-1)
    if rows.axis or index.windows or n_axes >= len(index.dims):
        return 0
    read = np.prod(of.window, dtype=np.float64) / np.prod(of.extents, dtype=np.float64)
    is_cut = index.chunk_dims is not None and index.chunk_dims[1:] != index.dims[1:]
    return n_axes if is_cut or (index.chunk_dims is None and read * SMALL <= 1) else 0


def _no_axes(option: str, got: object, rows: Rows, expected: str) -> OptionsError:
    index = rows.index
    return OptionsError(
        f"{option}={got!r} does not fit rows of {index.path!r} in {index.filename!r} (expected "
        f"{expected}, got the shape {rows.shape})",
        advice=f"Give {option} as a dict that names the datasets that it is for",
        option=option,
        expected=expected,
        got=rows.shape,
        path=index.path,
        filename=index.filename,
    )


def no_placing(placing: Placing, what: str, index: ChunkIndex) -> OptionsError:
    """Compose the error for data whose elements readers cannot place."""
    return OptionsError(
        f"{placing.option} cannot be given with {what} ({index.path!r} in {index.filename!r})",
        advice="Take batches of rows, Clips or At of rows, or place elements with transform",
        option=placing.option,
        path=index.path,
        filename=index.filename,
    )
