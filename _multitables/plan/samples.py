"""Samples that are not rows: clips, patches, ranges of rows, rows and boxes at given places.

Law
---
1. These are values that the user gives. sample_rows.py finds the rows of samples, and
   sample_boxes.py their boxes.
2. They stand where `Streamer.get_batches` takes ``sample=``. Knows no file and no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, public
from _multitables.options import whole, wrong
from _multitables.tree import WholeNumbers, whole_numbers

#: Rows of one dataset that a sample has, counted from where it begins; or the extents of its box.
Offsets = int | range | Sequence[int | None] | npt.NDArray[np.integer[Any]]
#: The same for all datasets, or by the keys of a dict of paths.
Take = Offsets | Mapping[Any, Offsets]
#: How the beginnings of clips are drawn.
DRAWN = (None, "uniform", "segments")
#: Kinds of padding of patches that are not a number.
PADS = ("reflect", "edge")


@public
@dataclass(frozen=True, eq=False)
class At:
    """Samples at starts that the user gives: rows, or places in several axes.

    A batch has the shape (samples, rows of a sample, ...), or ``(samples, *box, ...)``.

    Parameters
    ----------
    starts : array of int, or an object with a length
        The row at which each sample begins; or of shape (samples, axes) its first element along the
        leading axes. Of an object, slices and arrays of indices give arrays of int, so that very
        many need never be made.
    take : int, range or sequence of int, or dict of them
        The rows of a sample: how many, or their offsets from its beginning, such as
        ``range(0, 20, 5)`` or ``[-1, 0]``. Where samples begin in several axes, the extents of
        their box along these: ``(32, 32, 32)``. Of a dict of paths also a dict with the same keys.

    Examples
    --------
    >>> multitables.At([0, 100, 250], range(0, 20, 5))
    At(starts=array([  0, 100, 250]), take=range(0, 20, 5))
    """

    starts: Any
    take: Take

    def __post_init__(self) -> None:
        if isinstance(self.starts, (list, tuple, np.ndarray, range)):
            object.__setattr__(self, "starts", whole_numbers("starts", self.starts, most_axes=2))
        elif not (hasattr(self.starts, "__len__") and hasattr(self.starts, "__getitem__")):
            raise wrong(
                "starts",
                "must be whole numbers, or have a length and slices",
                self.starts,
                "Give an array of the rows at which samples begin",
                tell_type=True,
            )
        for one in self.takes:
            box_of("take", one) if self.n_axes else offsets_of("take", one)

    @property
    def takes(self) -> Sequence[Offsets]:
        """The take of each path by name, or of all."""
        return list(self.take.values()) if isinstance(self.take, Mapping) else [self.take]

    @property
    def n_axes(self) -> int:
        """The number of axes of starts; 0: starts are rows."""
        starts = self.starts
        if not isinstance(starts, np.ndarray):
            starts = np.asarray(starts[np.arange(min(1, len(starts)))])
        return int(starts.shape[1]) if starts.ndim == 2 else 0


@public
@dataclass(frozen=True, eq=False)
class Ranges:
    """Samples of different lengths: rows from a start up to a stop, which may overlap.

    A batch is a `RaggedBlock`.

    Parameters
    ----------
    starts, stops : array of int
        The first row of each sample, and the one behind its last.

    Examples
    --------
    >>> multitables.Ranges([0, 50], [10, 75])
    Ranges(starts=array([ 0, 50]), stops=array([10, 75]))
    """

    starts: Sequence[int] | npt.NDArray[np.integer[Any]]
    stops: Sequence[int] | npt.NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        for name in ("starts", "stops"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))


@public
@dataclass(frozen=True, eq=False)
class Clips:
    """Samples of rows that follow each other, or with a stride, and never cross a segment.

    Of several files, and of several datasets that are joined, each is a segment. A batch has the
    shape (samples, rows of a sample, ...), or that of rows with the steps in the place of `axis`.

    Parameters
    ----------
    steps : int
        Rows of a clip.
    stride : int or pair of int, optional
        Distance of its rows. Of a pair ``(low, high)`` each clip has one that is drawn from `seed`
        and epoch, both ends included; clips begin where the longest of them fits.
    every : int, optional
        Distance of the rows of a segment at which clips begin.
    before : int, optional
        How many of the `steps` lie before the row at which a clip begins.
    lengths, offsets : str or array of int, optional
        Segments: how many rows each has, or where they begin and the last one ends. An array, or
        the path of a dataset. Default: the data is one segment.
    axis : int, optional
        The axis along which a clip has its steps, of the data as `inner` selects it; 0 is that of
        rows. Along another axis each row is a segment, such as a trajectory, and `lengths` may give
        the number of its places. A clip keeps all other axes.
    pad : {None, "edge"} or number, optional
        Clips begin at all rows, also where some of theirs lie outside the segment: these are
        copies of the segment's first or last row, or this number. None: clips lie inside.
    mask : str or True, optional
        With `pad`, deliver which rows are not padding: an array of bool of shape (samples, steps),
        under this key where paths are a dict; True: as the last array of a tuple.
    per_path : dict, optional
        Of a dict of paths, those of which a sample has other rows: their offsets from the row at
        which the clip begins, in strides, such as ``{"action": range(20)}``.
    starts : {None, "uniform", "segments"}, optional
        Which clips an epoch has: each one once, or `draws` of them that are drawn anew in each
        epoch: of all alike, or a segment first, and then one of its clips.
    draws : int, optional
        How many are drawn. Default: as many as there are clips.
    replace : bool, optional
        A clip may be drawn several times. So it is with ``starts="segments"`` in any case.

    Examples
    --------
    >>> multitables.Clips(16, stride=2, lengths="/episodes/length")  # doctest: +SKIP
    >>> multitables.Clips(4, before=1, pad="edge", mask="valid")  # doctest: +SKIP
    """

    steps: int
    _: KW_ONLY
    stride: int | tuple[int, int] = 1
    every: int = 1
    before: int = 0
    lengths: WholeNumbers | None = None
    offsets: WholeNumbers | None = None
    axis: int = 0
    pad: Any = None
    mask: str | bool | None = None
    per_path: Mapping[Any, Offsets] | None = None
    starts: str | None = None
    draws: int | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        made = object.__setattr__
        made(self, "steps", whole("steps", self.steps, 1, "It is the number of rows of a clip"))
        made(self, "every", whole("every", self.every, 1, "1: a clip begins at each row"))
        made(self, "before", whole("before", self.before, 0, "It is how many of them come before"))
        made(self, "stride", _stride(self.stride))
        made(self, "axis", whole("axis", self.axis, 0, "0 is the axis of rows"))
        if self.axis and self.offsets is not None:
            advice = "Give lengths, one for each row, or leave both out"
            raise wrong("offsets", "cannot be given with an axis behind rows", self.axis, advice)
        if self.before >= self.steps:
            advice = f"A clip has {self.steps} rows"
            raise wrong("before", "must be less than steps", self.before, advice)
        if self.lengths is not None and self.offsets is not None:
            raise wrong("offsets", "cannot be given with lengths", self.offsets, "Leave one out")
        for name in ("lengths", "offsets"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):
                made(self, name, whole_numbers(name, given))
        if isinstance(self.pad, str) and self.pad != "edge":
            raise wrong("pad", "must be None, 'edge' or a number", self.pad, "'edge' repeats a row")
        if self.mask not in (None, False) and self.pad is None:
            raise wrong("mask", "needs pad", self.mask, "Without pad no row of a clip is missing")
        for one in (self.per_path or {}).values():
            offsets_of("per_path", one)
        self._check_draws()

    def _check_draws(self) -> None:
        if self.starts not in DRAWN:
            advice = "Leave it out for each clip once an epoch"
            raise wrong("starts", f"must be one of {DRAWN}", self.starts, advice)
        if self.draws is not None:
            whole("draws", self.draws, 1, "It is how many clips an epoch has")
        if self.starts is None and (self.draws is not None or self.replace):
            name, got = ("draws", self.draws) if self.draws is not None else ("replace", True)
            raise wrong(name, "needs starts='uniform' or 'segments'", got, "Say how to draw")

    @property
    def strides(self) -> tuple[int, int]:
        """The least and the greatest stride."""
        return self.stride if isinstance(self.stride, tuple) else (self.stride, self.stride)


class EachRow:
    """The starts of samples that are one row each."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows

    def __len__(self) -> int:
        return self._n_rows

    def __getitem__(self, numbers: Any) -> Any:
        return numbers


@public
@dataclass(frozen=True, eq=False)
class Patches:
    """Boxes of one shape on a grid, which may overlap: patches of images, volumes, simulations.

    Of several files each has a grid of its own, and no patch has rows of two. A batch has the shape
    ``(samples, *shape, ...)``.

    Parameters
    ----------
    shape : int or tuple of int or None
        Extents along the leading axes; None: all of the axis, as of those behind. ``(1, 64, 64)``
        and ``(None, 64, 64)`` are patches of one image of several, and through all of them.
    stride : int or tuple of int, optional
        Distance of the patches along each axis. Default: `shape`, so that they lie side by side.
    jitter : int or tuple of int, optional
        Patches begin at most this far from their place on the grid, in both directions: how far is
        drawn for each from `seed` and epoch. Without `pad` they stay inside the data.
    pad : {None, "reflect", "edge"} or number, optional
        The grid covers all of the data. Elements beyond its edge are mirrored at the last element,
        copies of it, or this number. None: patches lie inside.
    where : str or array of bool, optional
        A mask of the patches to take, of the shape of the grid (of several files, one after another
        along the first axis), or the path of a dataset that has it.

    Examples
    --------
    >>> multitables.Patches((32, 32, 32), stride=16, jitter=4)  # doctest: +SKIP
    >>> multitables.Patches((None, 256, 256), pad="reflect")  # doctest: +SKIP
    """

    shape: Any
    stride: Any = None
    _: KW_ONLY
    jitter: Any = 0
    pad: Any = None
    where: str | npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        made = object.__setattr__
        given = self.shape if isinstance(self.shape, (tuple, list)) else (self.shape,)
        shape = box_of("shape", given)
        made(self, "shape", shape)
        if self.stride is None:
            made(self, "stride", tuple(extent or 1 for extent in shape))
        made(self, "stride", self._each("stride", 1))
        made(self, "jitter", self._each("jitter", 0))
        if isinstance(self.pad, str) and self.pad not in PADS:
            advice = "'reflect' mirrors the data, 'edge' repeats the last element"
            raise wrong("pad", "must be None, 'reflect', 'edge' or a number", self.pad, advice)
        if self.where is not None and not isinstance(self.where, str):
            mask = np.array(self.where)
            if mask.dtype != bool:
                advice = "Give a bool for each patch, as an array of the shape of the grid"
                raise wrong("where", "must be bool", mask.dtype, advice)
            made(self, "where", mask)

    def _each(self, name: str, least: int) -> tuple[int, ...]:
        """Return one number for each axis."""
        given, n_axes = getattr(self, name), len(self.shape)
        each = list(given) if isinstance(given, (tuple, list, np.ndarray)) else [given] * n_axes
        if len(each) != n_axes:
            raise wrong(name, f"must have {n_axes} numbers", given, "Give one for each of shape")
        # An axis that is taken whole has no number of its own.
        advice = "Give a number, or one for each axis"
        return tuple(
            least if extent is None else whole(name, one, least, advice)
            for one, extent in zip(each, self.shape, strict=True)
        )


#: What `sample` may be.
Sample = At | Clips | Patches | Ranges


def check_sample(name: str, value: Any) -> Sample | None:
    """Check what samples are; None: each row is one."""
    if value is not None and not isinstance(value, Sample):
        advice = "Give multitables.Clips, Patches, At or Ranges"
        raise wrong(name, "must say what a sample is", value, advice, tell_type=True)
    sample: Sample | None = value
    return sample


def numbered(sample: Any) -> Any:
    """Check that samples have numbers and one shape; None: each row is one."""
    found = check_sample("sample", sample)
    if isinstance(found, Ranges):
        advice = "Give Clips, Patches or At"
        raise wrong("sample", "has samples of different lengths", found, advice)
    if isinstance(found, Clips) and found.starts is not None:
        advice = "Leave starts out, and draw numbers of clips"
        raise wrong("sample", "draws its samples", found, advice)
    return found


def offsets_of(name: str, take: Any) -> npt.NDArray[np.int64]:
    """Return offsets of rows; of a number, that many from 0 on."""
    if isinstance(take, (int, np.integer)) and not isinstance(take, bool):
        return np.arange(whole(name, take, 1, "It is the number of rows"), dtype=np.int64)
    offsets = whole_numbers(name, take).astype(np.int64)
    if not len(offsets):
        raise wrong(name, "takes no row", take, "Give at least one offset")
    return offsets


def box_of(name: str, take: Any) -> tuple[int | None, ...]:
    """Return the extents of a box; None: all of an axis."""
    if not isinstance(take, (tuple, list, np.ndarray)) or not len(take):
        raise wrong(name, "must have a number for each axis", take, "Such as (32, 32, 32)")
    advice = "It is the extent of the box along an axis, or None for all"
    return tuple(None if one is None else whole(name, one, 1, advice) for one in take)


def _stride(value: Any) -> int | tuple[int, int]:
    advice = "Give a number from 1 on, or the least and the greatest"
    if not isinstance(value, (tuple, list)):
        return whole("stride", value, 1, advice)
    if len(value) != 2:
        raise OptionsError(
            f"stride must be one number or two, got {value!r}", advice=advice, option="stride"
        )
    low, high = (whole("stride", one, 1, advice) for one in value)
    if low > high:
        raise wrong("stride", "must ascend", value, advice)
    return low, high
