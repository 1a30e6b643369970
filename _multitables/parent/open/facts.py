"""A dataset in a few values: for the command, and for notebooks.

Law
---
1. Public names of datasets alone, which are `Any` here: they show themselves by this. Of elements
   nothing is read.
2. A type that NumPy lacks is a value, too. For damage it is `happened` of the error, under
   "error".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from _multitables.errors import MultitablesError, UnsupportedDatasetError
from _multitables.filter_names import NAMES

if TYPE_CHECKING:
    import numpy as np

#: The names that blosc gives its compressors, by their numbers.
CODECS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


def facts(dataset: Any) -> dict[str, Any]:
    """Return the type, extents, chunks, filters and bytes; "error": what cannot be known, and why.

    Where the file has no chunks, or elements no size, it is None.
    """
    found: dict[str, Any] = {}
    try:
        found["shape"], dtype = dataset.shape, _dtype(dataset)
        found["dtype"] = dtype if isinstance(dtype, str) else type_name(dtype)
        found["chunks"], found["filters"] = dataset.chunks, filters(dataset)
        is_sized = not (isinstance(dtype, str) or dtype.hasobject)
        found["decoded_bytes"] = dataset.nbytes if is_sized else None
        found["stored_bytes"] = dataset.id.get_storage_size()
    except MultitablesError as error:
        found["error"] = error.happened
    return found


def _dtype(dataset: Any) -> np.dtype[Any] | str:
    """Return the dtype, or why NumPy has none."""
    try:
        dtype: np.dtype[Any] = dataset.dtype
    except UnsupportedDatasetError as error:
        return error.happened
    return dtype


def type_name(dtype: np.dtype[Any]) -> str:
    """Return NumPy's name of a type, or what h5py's metadata says of objects."""
    more: Mapping[str, Any] = dtype.metadata or {}
    if "vlen" in more:
        base = more["vlen"]
        return "text" if base in (str, bytes) else f"{base} of any length"
    return "reference" if "ref" in more else str(dtype)


def filters(dataset: Any) -> list[str]:
    """Return the filters by their names, with the level of deflate and the codec of blosc."""
    found = zip(dataset.filter_ids, dataset.filter_names, dataset.filters.values(), strict=True)
    return [_filter(*one) for one in found]


def _filter(number: int, stored: str, values: Any) -> str:
    name = NAMES.get(number) or stored or f"filter {number}"
    if name == "deflate":
        return f"{name} {values}"
    if name in ("blosc", "blosc2") and values and len(values) > 6 and values[6] < len(CODECS):
        return f"{name} ({CODECS[values[6]]} {values[4]})"
    return name


def chunk_bytes(dataset: Any) -> int:
    """Return the decoded bytes of one chunk, 0 without chunks."""
    return math.prod(dataset.chunks) * dataset.dtype.itemsize if dataset.chunks else 0


def read_by(dataset: Any) -> tuple[str, str]:
    """Return who reads it in streams, and why it is not the core.

    "core"; "library": an HDF5 library, in the readers; "indexing": no stream reads it, `open` does.
    """
    try:
        why = dataset.why_library
    except UnsupportedDatasetError as error:
        return "indexing", error.happened
    return ("library", why) if why else ("core", "")
