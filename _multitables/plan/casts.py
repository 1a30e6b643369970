"""What readers make of the elements of each dataset of a stream, by `decode`, `dtype` and `scale`.

Law
---
1. Pure: options in, changes of each dataset out. Unknown names and types raise `OptionsError`
   before a file is opened; elements and rows that do not fit, as soon as they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex, changed
from _multitables.index.datasets.heap import Heap
from _multitables.index.types.cast import BFLOAT16, NUMBERS, Cast, is_number
from _multitables.index.types.image import Image
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.options import wrong
from _multitables.plan.stacking import check_into
from _multitables.tree import Paths, map_arrays, structure_of

#: Values of `dtype`: one for all datasets, or some by their paths, or keys.
Dtype = npt.DTypeLike | Mapping[Any, npt.DTypeLike]
#: A mean and a standard deviation, for all datasets, or by paths or keys.
Scale = tuple[npt.ArrayLike, npt.ArrayLike]
Scales = Scale | Mapping[Any, Scale]
#: The pictures of all datasets, or of some by paths or keys.
Images = Image | Mapping[Any, Image]

_TYPES = "Give one of 'f2', 'f4', 'f8', 'bfloat16' and the integers of NumPy"
_IMAGE = "Give decode={path: multitables.Image(height, width)}"
_PAIR = "Give scale=(mean, std), each a number or an array that broadcasts to a row"


@dataclass(frozen=True)
class Casts:
    """The pictures and the cast of each dataset, or None where nothing is changed."""

    each: tuple[Cast | None, ...]
    images: tuple[Image | None, ...]
    #: The option that names them in errors.
    option: str

    def of(self, number: int) -> Casts:
        """Return those of one dataset."""
        return Casts((self.each[number],), (self.images[number],), self.option)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A value that is equal for equal casts."""
        each = ((one.name, one.mean, one.deviation) if one else None for one in self.each)
        images = (one.shape if one else None for one in self.images)
        return (*each, *images) if any(self.images) else tuple(each)


def check_casts(
    path: Paths, dtype: Dtype | None, scale: Scales | None, decode: Images | None = None
) -> Casts | None:
    """Check `dtype`, `scale` and `decode`, and return what is made of each dataset.

    Raises
    ------
    OptionsError
        There are no such types or datasets, or a scale is not a pair of numbers.
    """
    if dtype is None and scale is None and decode is None:
        return None
    images = of_each("decode", decode, path)
    for image in images:
        if not isinstance(image, Image | None):
            raise wrong("decode", "must be an Image, or name one for a path", image, _IMAGE)
    names = [_name(one) for one in of_each("dtype", dtype, path)]
    scales = [_pair(one) for one in of_each("scale", scale, path)]
    each = [_cast(*both) for both in zip(names, scales, strict=True)]
    given = {"scale": scale, "dtype": dtype, "decode": decode}
    option = next(name for name, one in given.items() if one is not None)
    return Casts(tuple(each), tuple(images), option)


def bfloat16_of(path: Paths, options: Mapping[str, Any]) -> list[bool]:
    """Return for each array of a batch whether it has bits of bfloat16."""
    if options.get("dtype") is None:
        return []
    each = [_name(one) == BFLOAT16 for one in of_each("dtype", options["dtype"], path)]
    into = check_into(path, options.get("into"))
    return each if into is None else [each[one[0]] for one in into.outputs(len(each))]


def as_bfloat16(batch: Any, brains: Sequence[bool], change: Callable[[Any], Any]) -> Any:
    """Return a batch in which arrays of bits of bfloat16 are changed."""
    which = iter(brains)
    return map_arrays(lambda array: change(array) if next(which, False) else array, batch)


def of_each(option: str, given: Any, path: Paths) -> list[Any]:
    """Return what is given for each dataset: for all, or by paths or keys."""
    structure, paths = structure_of(path)
    names = [str(one) for one in paths]
    if not isinstance(given, Mapping):
        return [given] * len(names)
    keys = structure.keys or names
    known = [*keys, *(name for name in names if name not in keys)]
    if unknown := [key for key in given if key not in known]:
        happened = f"names no dataset that is streamed: expected some of {known}"
        raise wrong(option, happened, unknown[0], "Give a dict by paths, or by the keys of `path`")
    return [given.get(key, given.get(name)) for key, name in zip(keys, names, strict=True)]


def _name(given: Any) -> str | None:
    """Return the name of a type of NumPy, of torch or of ml_dtypes."""
    if given is None:
        return None
    name = str(given).removeprefix("torch.")
    if name != BFLOAT16:
        try:
            dtype = np.dtype(name if name in NUMBERS else given)
        except (TypeError, ValueError):
            raise wrong("dtype", "is not a type of numbers", given, _TYPES) from None
        name = dtype.name if dtype.isnative else ""
    if name not in NUMBERS or name == "bool":
        raise wrong("dtype", "is not a type that numbers are converted to", given, _TYPES)
    return name


def _pair(given: Any) -> tuple[Any, Any] | None:
    if given is None:
        return None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise wrong("scale", "must be a pair (mean, std)", given, _PAIR)
    try:
        mean, deviation = (np.array(one, np.float64) for one in given)
        np.broadcast_shapes(mean.shape, deviation.shape)
    except (TypeError, ValueError):
        raise wrong("scale", "must be numbers that fit together", given, _PAIR) from None
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all() and deviation.all()):
        advice = "Give finite numbers, and a std of 1 for constant elements"
        raise wrong("scale", "has a std of 0, or a number that is not finite", given, advice)
    return mean, deviation


def _cast(name: str | None, scale: tuple[Any, Any] | None) -> Cast | None:
    if scale is not None:
        return Cast(name or "float32", *scale)
    return None if name is None else Cast(name)


def cast_indexes(indexes: Sequence[ChunkIndex], casts: Casts) -> list[ChunkIndex]:
    """Return the indexes of datasets whose elements readers change."""
    indexes = [
        index if image is None else _decoded(index, image)
        for index, image in zip(indexes, casts.images, strict=True)
    ]
    return [
        index if cast is None else _with(index, cast, casts.option)
        for index, cast in zip(indexes, casts.each, strict=True)
    ]


def _decoded(index: ChunkIndex, image: Image) -> ChunkIndex:
    """Return the index of a dataset whose elements, of a fixed size or rows, are pictures."""
    if isinstance(index, Heap):
        if index.atom is None or index.atom.itemsize != 1 or index.atom.shape:
            got = "strings" if index.atom is None else f"sequences of {index.atom}"
            raise no_pictures(index, f"its elements are {got}")
        part = image.part(index.kind.element_bytes)
        return changed(index, kind=changed(index.kind, part=part))
    part, why = index.kind.part, index.why_library(READERS_FILTERS)
    if len(index.dims) != 1:
        why = why or f"it has {len(index.dims)} dimensions, where pictures have one"
    is_bytes = part.element.dtype.kind in "SV" and part.element.dtype.names is None
    if is_bytes and not (part.element.dtype.shape or part.leading_dims) and not why:
        made = image.part(part.element.size_bytes, part.offset)
        return changed(index, kind=changed(index.kind, part=made))
    raise no_pictures(index, why or f"its elements are {index.dtype}")


def no_pictures(index: ChunkIndex, why: str) -> UnsupportedDatasetError:
    """Compose the error for a dataset whose elements cannot be pictures."""
    return UnsupportedDatasetError(
        f"readers cannot decode pictures of {index.path!r} in {index.filename!r}: {why} "
        "(expected bytes: a sequence of uint8 of any length, opaque elements, or fixed strings)",
        advice="Give decode as a dict that names the datasets of encoded pictures",
        path=index.path,
        filename=index.filename,
        option="decode",
    )


def _with(index: ChunkIndex, cast: Cast, option: str) -> ChunkIndex:
    dtype = index.dtype
    where = {"path": index.path, "filename": index.filename, "option": option}
    if not is_number(dtype):
        raise UnsupportedDatasetError(
            f"readers cannot convert the elements of {index.path!r} in {index.filename!r} "
            f"(expected integers, floats of 2 to 8 bytes or bool, got {dtype})",
            advice=f"Give {option} as a dict that names the datasets of numbers",
            **where,
        )
    if cast.mean is None or cast.deviation is None:
        return index if dtype == cast.dtype and cast.name != BFLOAT16 else _changed(index, cast)
    shape = np.broadcast_shapes(cast.mean.shape, cast.deviation.shape)
    try:
        fits = np.broadcast_shapes(shape, index.row_shape) == index.row_shape
    except ValueError:
        fits = False
    if not fits:
        raise OptionsError(
            f"scale does not broadcast to a row of {index.path!r} in {index.filename!r} "
            f"(expected {index.row_shape}, got {shape})",
            advice="Means along the first axis of rows of shape (3, 8, 8) have the shape (3, 1, 1)",
            expected=index.row_shape,
            got=shape,
            **where,
        )
    return _changed(index, cast)


def _changed(index: ChunkIndex, cast: Cast) -> ChunkIndex:
    return changed(index, kind=changed(index.kind, cast=cast))
