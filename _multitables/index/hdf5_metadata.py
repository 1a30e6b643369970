"""Who wrote a dataset, what its rows are if they are ragged, and its filters.

Law
---
1. One question, one function; each takes h5py's low-level dataset, or what the core tells of it.

This file must never know of indexes, plans or options.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.filter_names import HDF5

#: Classes of datasets that PyTables wrote, in the attribute CLASS.
PYTABLES_CLASSES = (b"TABLE", b"ARRAY", b"CARRAY", b"EARRAY", b"VLARRAY")


@dataclass(frozen=True)
class FilterSpec:
    """One filter of a pipeline, as stored with the dataset."""

    id: int
    flags: int
    values: tuple[int, ...]
    name: str


def is_pytables(dataset: Any) -> bool:
    """Whether PyTables wrote a dataset: then its types are what PyTables makes of them."""
    from h5py import h5a

    if not h5a.exists(dataset, b"CLASS"):
        return False
    attribute = h5a.open(dataset, b"CLASS")
    kind = attribute.get_type()
    if attribute.shape != () or not hasattr(kind, "is_variable_str") or kind.is_variable_str():
        return False
    text = np.zeros((), attribute.dtype)
    attribute.read(text)
    return bytes(text[()]).rstrip(b"\0") in PYTABLES_CLASSES


def ragged_type(dataset: Any) -> Any:
    """Return the type of one atom of ragged data, or None for any other dataset."""
    from h5py import h5t

    kind = dataset.get_type()
    return kind.get_super() if kind.get_class() == h5t.VLEN else None


def is_pseudo_atom(dataset: Any) -> bool:
    """Whether a row is not an array of atoms but what PyTables pickled, or a string."""
    from h5py import h5a

    return bool(h5a.exists(dataset, b"PSEUDOATOM"))


def pipeline_of(
    filters: Iterable[tuple[int, int, tuple[int, ...], bytes]],
) -> tuple[FilterSpec, ...]:
    """Return the filters that the core tells of a dataset, in the order of writing."""
    return tuple(
        FilterSpec(number, flags, values, name.decode("utf-8", "replace") or HDF5.get(number, ""))
        for number, flags, values, name in filters
    )
