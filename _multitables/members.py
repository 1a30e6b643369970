"""One array, or a tuple or dict of them: what a batch is, whatever library its arrays belong to.

Law
---
1. A batch has the form of the `path` that was asked for; who changes its arrays keeps its form.
2. Knows no library but NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def each(batch: Any, change: Callable[[Any], Any]) -> Any:
    """Return the batch with every array changed."""
    if isinstance(batch, dict):
        return {name: change(array) for name, array in batch.items()}
    if isinstance(batch, tuple):
        return tuple([change(array) for array in batch])
    return change(batch)


def native(array: Any) -> Any:
    """Return the array, or a copy in this machine's byte order if it has the other."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))
