"""What a saved index holds of each object, as values of JSON.

Law
---
1. The core reads what is written here: core/crates/hdf5_format/src/saved_values.rs.

This file must never know where the bytes of an index lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _multitables import _core

LAYOUTS = ("compact", "contiguous", "chunked", "virtual")
#: What a question raises where the file is damaged, or has what the core does not know.
UNREADABLE = (_core.Corrupt, _core.Unknown)


def to_text(stored: bytes) -> str:
    """Bytes as JSON takes them."""
    return stored.decode("latin-1")


def _same(value: Any) -> Any:
    return value


#: How the fields of a dataset are saved: first what is its own, then what many have in common.
SPACE: dict[str, Callable[[Any], Any]] = {"is_null": _same, "dims": _same, "max_dims": _same}
STORAGE: dict[str, Callable[[Any], Any]] = {
    "layout": LAYOUTS.index,
    "datatype": to_text,
    "element_bytes": _same,
    "chunk_dims": _same,
    "filters": lambda all_: [(*of[:3], to_text(of[3])) for of in all_],
    "fill_value": lambda value: None if value is None else to_text(value),
    "fill_is_never_written": _same,
    "external_files": lambda all_: [(to_text(of[0]), *of[1:]) for of in all_],
}
#: The same for the kinds of a survey. A missing fill value, like one of zeros, is saved empty.
KIND = {
    **{name: STORAGE[name] for name in ("layout", "datatype", "element_bytes", "filters")},
    "fill_value": to_text,
    "class_name": to_text,
}


def fields(of: Any, table: dict[str, Callable[[Any], Any]]) -> list[Any]:
    """Return the fields of a value of the core that a table names."""
    return [change(getattr(of, name)) for name, change in table.items()]
