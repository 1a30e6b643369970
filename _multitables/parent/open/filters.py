"""The filters of a dataset in h5py's words.

Law
---
1. Pure: what the core tells of a pipeline in, h5py's values out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: id, flags, values and name of one filter, in the order of writing.
Filter = tuple[int, int, tuple[int, ...], bytes]

#: What h5py calls HDF5's own filters, and LZF, which it brings along.
NAMES = {
    1: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    6: "scaleoffset",
    32000: "lzf",
}
COMPRESSIONS = ("gzip", "lzf", "szip")
SZIP_CODERS = {4: "ec", 32: "nn"}  # bits of szip's first value


def settings(pipeline: Sequence[Filter]) -> dict[str, Any]:
    """Return name -> settings of each filter: gzip's level, or its values; None if it has none."""
    return {
        NAMES.get(number, str(number)): _setting(number, values)
        for number, _, values, _ in pipeline
    }


def _setting(number: int, values: tuple[int, ...]) -> Any:
    name = NAMES.get(number)
    if name == "gzip" and values:
        return values[0]
    if name == "szip" and len(values) > 1:
        coder = next((coder for bit, coder in SZIP_CODERS.items() if values[0] & bit), None)
        return coder, values[1]
    return None if name == "lzf" else values or None


def compression(found: dict[str, Any]) -> str | None:
    """Return the name of the compression among filters; "unknown" if only a plugin has it."""
    for name in COMPRESSIONS:
        if name in found:
            return name
    return "unknown" if set(found) - set(NAMES.values()) else None
