"""The cast of each dataset of a stream, from `dtype` and `scale`.

Law
---
1. Pure: options in, a cast for each dataset out. Unknown names and types raise `OptionsError`
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
from _multitables.index.types.cast import BFLOAT16, NUMBERS, Cast, is_number
from _multitables.options import wrong
from _multitables.tree import Paths, map_arrays, structure_of

#: Values of `dtype`: one for all datasets, or some by their paths, or keys.
Dtype = npt.DTypeLike | Mapping[Any, npt.DTypeLike]
#: A mean and a standard deviation, for all datasets, or by paths or keys.
Scale = tuple[npt.ArrayLike, npt.ArrayLike]
Scales = Scale | Mapping[Any, Scale]

_TYPES = "Give one of 'f2', 'f4', 'f8', 'bfloat16' and the integers of NumPy"
_PAIR = "Give scale=(mean, std), each a number or an array that broadcasts to a row"


@dataclass(frozen=True)
class Casts:
    """A cast for each dataset, or None where nothing is changed."""

    each: tuple[Cast | None, ...]
    #: The option that names them in errors.
    option: str

    @property
    def identity(self) -> tuple[Any, ...]:
        """A value that is equal for equal casts."""
        each = ((one.name, one.mean, one.deviation) if one else None for one in self.each)
        return tuple(each)


def check_casts(path: Paths, dtype: Dtype | None, scale: Scales | None) -> Casts | None:
    """Check `dtype` and `scale`, and return the cast of each dataset.

    Raises
    ------
    OptionsError
        There are no such types or datasets, or a scale is not a pair of numbers.
    """
    if dtype is None and scale is None:
        return None
    names = [_name(one) for one in _of_each("dtype", dtype, path)]
    scales = [_pair(one) for one in _of_each("scale", scale, path)]
    each = [_cast(*both) for both in zip(names, scales, strict=True)]
    return Casts(tuple(each), "dtype" if scale is None else "scale")


def bfloat16_of(path: Paths, dtype: Dtype | None) -> list[bool]:
    """Return for each dataset whether it is delivered as bits of bfloat16."""
    return [_name(one) == BFLOAT16 for one in _of_each("dtype", dtype, path)]


def as_bfloat16(batch: Any, brains: Sequence[bool], change: Callable[[Any], Any]) -> Any:
    """Return a batch in which arrays of bits of bfloat16 are changed."""
    which = iter(brains)
    return map_arrays(lambda array: change(array) if next(which) else array, batch)


def _of_each(option: str, given: Any, path: Paths) -> list[Any]:
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
    """Return the indexes of datasets whose numbers readers change."""
    return [
        index if cast is None else _with(index, cast, casts.option)
        for index, cast in zip(indexes, casts.each, strict=True)
    ]


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
