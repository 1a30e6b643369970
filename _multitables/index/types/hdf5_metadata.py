"""Who wrote a dataset, what its rows are if they are ragged, and its filters.

Law
---
1. One question, one function; each takes what the core tells of a dataset.

This file must never know of indexes, plans or options.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from _multitables.filter_names import PYTABLES, name_of
from _multitables.index.types.numpy_type import datatype_of

#: Name, number in the order of creation, datatype, dims (None: a null dataspace) and elements.
Attribute = tuple[bytes, "int | None", bytes, "tuple[int, ...] | None", bytes]
#: Classes of datasets that PyTables wrote, in the attribute CLASS.
PYTABLES_CLASSES = (b"TABLE", b"ARRAY", b"CARRAY", b"EARRAY", b"VLARRAY")


class FilterSpec(NamedTuple):
    """One filter of a pipeline, as stored with the dataset."""

    id: int
    flags: int
    values: tuple[int, ...]
    name: str


def is_pytables(attributes: Iterable[Attribute]) -> bool:
    """Whether PyTables wrote a dataset: then its types are what PyTables makes of them."""
    for name, _, datatype, dims, value in attributes:
        if name == b"CLASS":
            is_text = dims == () and datatype_of(datatype).kind == "string"
            return is_text and value.rstrip(b"\0") in PYTABLES_CLASSES
    return False


def is_pseudo_atom(attributes: Iterable[Attribute]) -> bool:
    """Whether a row is not an array of atoms but what PyTables pickled, or a string."""
    return any(name == b"PSEUDOATOM" for name, *_ in attributes)


def pipeline_of(
    filters: Iterable[tuple[int, int, tuple[int, ...], bytes]],
) -> tuple[FilterSpec, ...]:
    """Return the filters that the core tells of a dataset, in the order of writing."""
    return tuple(
        FilterSpec(number, flags, values, name_of(number, name.decode("utf-8", "replace")))
        for number, flags, values, name in filters
    )


def library_for(pytables: bool, pipeline: tuple[FilterSpec, ...]) -> str:
    """Return which library reads a dataset that the core does not: "h5py" or "tables"."""
    own = any(spec.id in PYTABLES for spec in pipeline)
    return "tables" if pytables and own else "h5py"
