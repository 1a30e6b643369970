"""Types, fill values and filters: NumPy's and HDF5's on one side, Zarr's JSON on the other.

Law
---
1. What one side has and the other has not is `NotRepresentableError`, which says why.
2. The forms are those of Zarr's specification, version 2, and of numcodecs.

This file must never know files, paths or chunks.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Kinds of NumPy's dtypes that Zarr has, and the largest element of each where others are not.
KINDS = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16, "S": None, "V": None, "M": 8, "m": 8}
#: What floats are called that JSON has no number for.
FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
BLOSC_CODECS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")

#: The type of an element that is no compound, as NumPy writes it.
SIMPLE = re.compile(r"[<>|=]?[A-Za-z]\d{0,10}(\[\d{0,9}\w{1,2}\])?")
#: Bytes of one element, of which fill values are made, and fields of a compound, all together.
MAX_ELEMENT_BYTES, MAX_FIELDS = 16 << 20, 1 << 13

Filter = tuple[int, int, tuple[int, ...], bytes]  # number, flags, values, name


class NotRepresentableError(Exception):
    """Its text is what cannot be represented."""


def to_zarr(dtype: np.dtype[Any]) -> Any:
    """Return a dtype as Zarr's JSON has it."""
    if dtype.names is not None and dtype.fields is not None:
        fields, end = [], 0
        for name in sorted(dtype.names, key=lambda name: dtype.fields[name][1]):  # type: ignore[index]
            field, offset = dtype.fields[name][:2]
            if offset < end:
                raise NotRepresentableError("a compound whose fields overlap")
            fields += [
                *_gap(end, offset),
                [name, to_zarr(field.base), list(field.shape)][: 2 + bool(field.shape)],
            ]
            end = offset + field.itemsize
        return fields + _gap(end, dtype.itemsize)
    most = KINDS.get(dtype.kind, 0)
    if most is not None and dtype.itemsize > most:
        raise NotRepresentableError(f"elements of the type {dtype}")
    return dtype.str


def _gap(begin: int, end: int) -> list[Any]:
    return [[f"_unused{begin}", f"|V{end - begin}"]] if end > begin else []


def from_zarr(described: Any) -> np.dtype[Any]:
    """Return the dtype that Zarr's JSON describes."""
    try:
        if _n_fields(described) > MAX_FIELDS:
            raise NotRepresentableError(f"elements of more than {MAX_FIELDS} fields")
        dtype = _dtype(described)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        raise NotRepresentableError(f"elements of the type {described!r:.80}") from error
    if dtype.itemsize > MAX_ELEMENT_BYTES:
        raise NotRepresentableError(
            f"elements of {dtype.itemsize} bytes, more than {MAX_ELEMENT_BYTES}"
        )
    return dtype


def _n_fields(described: Any) -> int:
    return sum(_n_fields(of) for _, of, *_ in described) if isinstance(described, list) else 1


def _dtype(described: Any) -> np.dtype[Any]:
    if isinstance(described, list) and described:
        fields = [(name, _dtype(of), *map(tuple, shape)) for name, of, *shape in described]
        return np.dtype(fields)
    if not isinstance(described, str) or not SIMPLE.fullmatch(described):
        raise TypeError
    dtype: np.dtype[Any] = np.dtype(described)
    if dtype.kind not in KINDS or not dtype.itemsize:
        raise TypeError
    return dtype


def fill_to_zarr(stored: bytes, dtype: np.dtype[Any]) -> Any:
    """Return a fill value, which is one stored element, as Zarr's JSON has it."""
    if dtype.kind in "SV":
        return base64.b64encode(stored).decode()
    value = np.frombuffer(stored, dtype)[0]
    if dtype.kind in "Mm":
        return int(value.view("i8"))
    if dtype.kind == "c":
        return [_float(float(value.real)), _float(float(value.imag))]
    return _float(value.item()) if dtype.kind == "f" else value.item()


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def fill_from_zarr(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Return one stored element of a fill value of Zarr's JSON; b"" for none."""
    if value is None:
        return b""
    try:
        if dtype.kind in "SV":
            if value == 0:  # as some write it
                return bytes(dtype.itemsize)
            return base64.b64decode(value, validate=True).ljust(dtype.itemsize, b"\0")[
                : dtype.itemsize
            ]
        if dtype.kind == "c" and isinstance(value, list):
            value = complex(*[_number(part) for part in value])
        element = np.empty((), dtype)
        element[()] = _number(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotRepresentableError(f"the fill value {value!r:.80}") from error
    return element.tobytes()


def _number(value: Any) -> Any:
    return FLOATS.get(value, value) if isinstance(value, str) else value


def _blosc(values: Sequence[int]) -> dict[str, Any]:
    level, shuffle, codec = (*values[4:7], *(5, 1, 0)[max(0, len(values) - 4) :])
    name = BLOSC_CODECS[codec] if codec < len(BLOSC_CODECS) else BLOSC_CODECS[0]
    return {"id": "blosc", "cname": name, "clevel": level, "shuffle": shuffle, "blocksize": 0}


#: HDF5's filters that numcodecs decodes as well, by their numbers.
TO_NUMCODECS: dict[int, Callable[[Sequence[int]], dict[str, Any]]] = {
    1: lambda values: {"id": "zlib", "level": values[0] if values else 1},
    2: lambda values: {"id": "shuffle", "elementsize": values[0] if values else 1},
    3: lambda values: {"id": "fletcher32"},
    307: lambda values: {"id": "bz2", "level": values[0] if values else 9},
    32001: _blosc,
    32015: lambda values: {"id": "zstd", "level": values[0] if values else 3},
}


def filters_to_zarr(filters: Sequence[Filter], masks: np.typing.NDArray[np.uint32]) -> list[Any]:
    """Return the codecs of numcodecs for a pipeline of which chunks leave out what `masks` say."""
    mask = int(masks[0]) if len(masks) else 0
    if np.any(masks != mask):
        raise NotRepresentableError("chunks that differ in the filters they went through")
    codecs = []
    for place, (number, _, values, name) in enumerate(filters):
        if mask >> place & 1:
            continue
        if number not in TO_NUMCODECS:
            called = name.decode("utf-8", "replace") or "one of HDF5's own"
            raise NotRepresentableError(
                f"the filter {number} ({called}), whose format no codec of numcodecs reads"
            )
        codecs.append(TO_NUMCODECS[number](values))
    return codecs


def _from_blosc(codec: dict[str, Any], element_bytes: int, chunk_bytes: int) -> Filter:
    name, shuffle = codec.get("cname", "lz4"), codec.get("shuffle", 1)
    code = BLOSC_CODECS.index(name) if name in BLOSC_CODECS else 0
    level = int(codec.get("clevel", 5))
    values = (2, 2, element_bytes, chunk_bytes, level, max(0, int(shuffle)), code)
    return 32001, 0, values, b"blosc"


def _level(codec: dict[str, Any]) -> int:
    return int(codec.get("level", 1)) % 2**32  # as HDF5 keeps the negative ones of zstd


#: Codecs of numcodecs that are filters of HDF5 as well, by their names.
FROM_NUMCODECS: dict[str, Callable[[dict[str, Any], int, int], Filter]] = {
    "zlib": lambda codec, *_: (1, 0, (_level(codec),), b"deflate"),
    "shuffle": lambda codec, *_: (2, 0, (int(codec.get("elementsize", 4)),), b"shuffle"),
    "fletcher32": lambda codec, *_: (3, 0, (), b"fletcher32"),
    "blosc": _from_blosc,
    "zstd": lambda codec, *_: (32015, 0, (_level(codec),), b"zstd"),
}


def filters_from_zarr(codecs: Sequence[Any], element_bytes: int, chunk_bytes: int) -> list[Filter]:
    """Return the pipeline for codecs of numcodecs, in the order of writing."""
    filters = []
    for codec in codecs:
        name = codec.get("id") if isinstance(codec, dict) else None
        if name not in FROM_NUMCODECS:
            raise NotRepresentableError(f"the codec {codec!r:.80}, which is not decoded here")
        try:
            filters.append(FROM_NUMCODECS[name](codec, element_bytes, chunk_bytes))
        except (TypeError, ValueError) as error:
            raise NotRepresentableError(f"the codec {codec!r:.80}") from error
    return filters
