"""Items of a collection: which datasets belong together, and where they lie in a result.

Law
---
1. Pure: equal arguments give equal plans.
2. Each dataset of a result begins at a multiple of `ALIGN_BYTES`; one without elements takes none.
3. Items are sorted by their keys, in which numbers count as numbers: "shot 9" is before "shot 10".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.plan.row_order import FILE_ORDER, FULL, OrderWords

I64 = npt.NDArray[np.int64]
#: As caches and vector instructions want it.
ALIGN_BYTES = 64
#: Bytes to decode that are worth another reader.
SHARE_BYTES = 2 << 20

_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Members:
    """One item: its key, and the number of the dataset of each name."""

    key: str
    objects: Mapping[str, int]


@dataclass(frozen=True)
class Layout:
    """Where datasets lie in a result."""

    #: For the readers: number in the table, first row, end of the rows, byte of the result.
    pieces: I64
    #: Of each dataset where it begins; those without elements begin anywhere.
    begins: list[int]
    n_bytes: int

    def n_shares(self, n_readers: int) -> int:
        """How many readers should share it."""
        return max(1, min(n_readers, self.n_bytes // SHARE_BYTES))


def members_of(found: Iterable[tuple[tuple[str, ...], str, int]], by: int) -> list[Members]:
    """Put datasets together.

    Parameters
    ----------
    found : iterable of (values, name, number)
        What the wildcards stand for, the last name of the path, and the dataset's number.
    by : int
        Which wildcard's value is the key.

    Returns
    -------
    list of Members
        By key. Names are the other values; with a single wildcard, the last name of the path.
    """
    items: dict[str, dict[str, int]] = {}
    for values, last, number in found:
        others = values[:by] + values[by + 1 :]
        name = "/".join(others) if others else last
        items.setdefault(values[by], {})[name] = number
    return [
        Members(key, {name: items[key][name] for name in sorted(items[key], key=natural)})
        for key in sorted(items, key=natural)
    ]


@lru_cache(maxsize=1 << 16)
def natural(key: str) -> tuple[Any, ...]:
    """Return what sorts texts by the numbers in them."""
    parts = _NUMBER.split(key)
    numbered = ((part, 0) if at % 2 == 0 else ("", int(part)) for at, part in enumerate(parts))
    return (*numbered, key)


def layout_of(numbers: Sequence[int], n_rows: I64, n_bytes: I64) -> Layout:
    """Lay datasets out in a result.

    Parameters
    ----------
    numbers : sequence of int
        Of each its number in the table; -1: it has no elements.
    n_rows, n_bytes : ndarray of int64
        Of the table's datasets.
    """
    number = np.array(numbers, np.int64)
    here = np.flatnonzero(number >= 0)
    begins = np.zeros(len(number), np.int64)
    rows, size = n_rows[number[here]], n_bytes[number[here]]
    padded = -(-size // ALIGN_BYTES) * ALIGN_BYTES
    begins[here] = np.cumsum(padded) - padded
    pieces = np.stack([number[here], np.zeros_like(rows), rows, begins[here]], axis=1)
    return Layout(pieces, begins.tolist(), int(padded.sum()))


def in_file_order(first: Sequence[tuple[int, int]]) -> I64:
    """Return items by where their first bytes lie: file and offset of each."""
    return np.array(sorted(range(len(first)), key=lambda item: (first[item], item)), np.int64)


def order_words(n_items: int, order: str, seed: int, epoch: int) -> OrderWords:
    """Return the order of an epoch, of which positions in the listing of items are the rows."""
    return OrderWords(
        start=0,
        step=1,
        n_rows=n_items,
        listed=None,
        shuffle=FULL if order == "random" else FILE_ORDER,
        seed=seed,
        first_epoch=epoch,
        chunk_rows=1,
        window_rows=max(1, n_items),
    )
