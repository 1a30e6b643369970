"""What a saved index holds of each object, in both directions.

Law
---
1. What is loaded has the types and ranges that the core's answers have, or the index is damaged.

This file must never know where the bytes of an index lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from _multitables import _core
from _multitables.index.saved.format import DamagedIndexError

MAX_RANK = 32
MAX_NUMBER = 2**64
LAYOUTS = ("compact", "contiguous", "chunked", "virtual")
#: What a question raises where the file is damaged, or has what the core does not know.
UNREADABLE = (_core.Corrupt, _core.Unknown)
#: What a conversion raises that gets another value than it expects.
RAISED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


def to_text(stored: bytes) -> str:
    """Bytes as JSON takes them."""
    return stored.decode("latin-1")


def to_bytes(text: str) -> bytes:
    """The bytes of `to_text`."""
    return text.encode("latin-1")


def to_number(value: Any) -> int:
    """An unsigned number; not whatever else `int` takes."""
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise ValueError(value)
    return value


def to_flag(value: Any) -> bool:
    """Either flag; not whatever else is true."""
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def to_dims(dims: list[Any]) -> tuple[int | None, ...]:
    """Dims; one without a bound is None."""
    if len(dims) > MAX_RANK:
        raise ValueError(dims)
    return tuple(None if dim is None else to_number(dim) for dim in dims)


@lru_cache(1024)
def _element_bytes(datatype: bytes) -> int:
    return _core.datatype(datatype).size


def _filters(filters: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (to_number(number), to_number(flags), tuple(map(to_number, values)), to_bytes(name))
        for number, flags, values, name in filters
    ]


def _external(files: list[Any]) -> list[tuple[Any, ...]]:
    return [(to_bytes(name), to_number(begin), to_number(size)) for name, begin, size in files]


def _same(value: Any) -> Any:
    return value


def _optional(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else change(value)


#: How what `MetadataFile.dataset` tells is saved and loaded: first what is a dataset's own, then
#: what many datasets have in common.
SPACE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "is_null": (_same, to_flag),
    "dims": (_same, to_dims),
    "max_dims": (_same, to_dims),
}
STORAGE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "layout": (LAYOUTS.index, lambda number: LAYOUTS[to_number(number)]),
    "datatype": (to_text, to_bytes),
    "element_bytes": (_same, to_number),
    "chunk_dims": (_same, _optional(to_dims)),
    "filters": (lambda all_: [(*of[:3], to_text(of[3])) for of in all_], _filters),
    "fill_value": (_optional(to_text), _optional(to_bytes)),
    "fill_is_never_written": (_same, to_flag),
    "external_files": (lambda all_: [(to_text(of[0]), *of[1:]) for of in all_], _external),
}
#: The same for the kinds of a survey. A missing fill value, like one of zeros, is saved empty.
KIND: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    **{name: STORAGE[name] for name in ("layout", "datatype", "element_bytes", "filters")},
    "fill_value": (to_text, to_bytes),
    "class_name": (to_text, to_bytes),
}


def _loaded(saved: Any, table: dict[str, Any]) -> dict[str, Any]:
    """Load what was saved by one of the tables."""
    try:
        values = zip(table.items(), saved, strict=True)
        return {key: load(value) for (key, (_, load)), value in values}
    except (*RAISED, IndexError) as error:
        raise DamagedIndexError(f"unexpected values: {saved!r:.100}") from error


def load_space(saved: Any) -> dict[str, Any]:
    """Load the shape of a dataset."""
    space = _loaded(saved, SPACE)
    if len(space["dims"]) != len(space["max_dims"]) or None in space["dims"]:
        raise DamagedIndexError(f"dims contradict one another: {saved!r:.100}")
    return space


def load_storage(saved: Any) -> dict[str, Any]:
    """Load what many datasets have in common, which agrees with itself."""
    dataset = _typed(saved, STORAGE)
    is_chunked = dataset["layout"] == "chunked"
    chunk_dims = dataset["chunk_dims"] if is_chunked else dataset.pop("chunk_dims")
    if (
        (chunk_dims is not None) != is_chunked or not all(chunk_dims or ())  # neither 0 nor None
    ):
        raise DamagedIndexError(f"a dataset contradicts itself: {dataset!r:.200}")
    return dataset


def load_kind(saved: Any) -> _core.StoredKind:
    """Load a kind of a survey."""
    try:
        return _core.StoredKind(**_typed(saved, KIND))
    except RAISED as error:
        raise DamagedIndexError(f"a kind contradicts itself: {error}") from error


def _typed(saved: Any, table: dict[str, Any]) -> dict[str, Any]:
    """Load what has a datatype."""
    loaded = _loaded(saved, table)
    try:
        size = _element_bytes(loaded["datatype"])
    except UNREADABLE as error:
        raise DamagedIndexError(f"a datatype cannot be read: {error.args[0]}") from error
    if size != loaded["element_bytes"] or len(loaded["fill_value"] or b"") not in (0, size):
        raise DamagedIndexError(f"sizes of elements contradict one another: {loaded!r:.200}")
    return loaded


def load_attributes(saved: Any) -> list[tuple[Any, ...]]:
    """Load an object's attributes."""
    try:
        return [_attribute(*attribute) for attribute in saved]
    except (*RAISED, *UNREADABLE) as error:
        raise DamagedIndexError("unexpected values of attributes") from error


def _attribute(name: Any, order: Any, datatype: Any, dims: Any, elements: Any) -> tuple[Any, ...]:
    attribute = (
        to_bytes(name),
        _optional(to_number)(order),
        to_bytes(datatype),
        _optional(to_dims)(dims),
    )
    stored, shape = to_bytes(elements), attribute[3]
    expected = 0 if shape is None else math.prod(shape) * _element_bytes(attribute[2])
    if len(stored) != expected:
        raise ValueError(stored)
    return (*attribute, stored)
