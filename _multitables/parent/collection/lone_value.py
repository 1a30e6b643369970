"""Datasets without rows: scalars as `multitables.open` gives them, and null dataspaces.

Law
---
1. Read in this process, without a request, because there is one element at most.
2. Objects, such as strings of any length, come as themselves; numbers as arrays without axes.
"""

from __future__ import annotations

from typing import Any

from _multitables.elements.empty import Empty
from _multitables.elements.values import decode
from _multitables.index.hdf5_file import errors_named
from _multitables.index.kept_source import KeptSource
from _multitables.index.numpy_type import datatype_of, dtype_of
from _multitables.parent.readers.local_rows import whole


def has_rows(file: KeptSource, path: str) -> bool:
    """Whether a dataset has at least one axis."""
    with file.open() as source:
        return bool(source.told(source.find(path))["dims"])


def value_of(file: KeptSource, path: str) -> Any:
    """Read a dataset without rows.

    Raises
    ------
    UnsupportedDatasetError
        NumPy has no such type, or the core does not read the dataset.
    CorruptFileError
        What it names in the file is not there.
    """
    with file.open() as source:
        place = source.find(path)
        with errors_named(place):
            told = source.told(place)
            if told["is_null"]:
                return Empty(dtype_of(told["datatype"]))
            stored = whole(source.index_at(place, as_stored=True)).reshape(())
            value = decode(stored, datatype_of(told["datatype"]), place.file)
            return value[()] if value.dtype.hasobject else value
