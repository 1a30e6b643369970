"""Items of a collection as a bag of Dask.

Law
---
1. A partition is some items that follow each other; who reads them, the caller says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from _multitables.errors import MissingLibraryError
from _multitables.parent.collection.item import Item

#: Bytes of the items of a partition, about.
PARTITION_BYTES = 64 << 20


def bag_of(
    read: Callable[[Sequence[str]], list[Item]], keys: Sequence[str], sizes: Sequence[int]
) -> Any:
    """Make the bag of the items of some keys, which have these sizes in bytes."""
    try:
        import dask.bag
    except ModuleNotFoundError:
        raise MissingLibraryError(
            "to_dask_bag needs Dask, which is not installed",
            good="Iterating over the collection works without it",
            advice="Install it: pip install dask[bag]",
            library="dask",
        ) from None
    return dask.bag.from_sequence(parts_of(keys, sizes), partition_size=1).map(read).flatten()


def parts_of(keys: Sequence[str], sizes: Sequence[int]) -> list[list[str]]:
    """Cut keys into parts of about `PARTITION_BYTES`, at least one key each."""
    parts: list[list[str]] = []
    n_bytes = 0
    for key, size in zip(keys, sizes, strict=True):
        if not parts or n_bytes + size > PARTITION_BYTES:
            parts.append([])
            n_bytes = 0
        parts[-1].append(key)
        n_bytes += size
    return parts
