"""The surveys of several files as one.

Law
---
1. Pure. First come the objects that were looked for in each file, then the scales of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from _multitables.index.runs import I64, Places, Run
from _multitables.index.survey import NO_DATASET, OF_OBJECTS, Kind, Survey


def joined_surveys(surveys: Sequence[Survey], counts: Sequence[int]) -> tuple[Survey, list[I64]]:
    """Join surveys, and return the new numbers of each file's objects.

    Parameters
    ----------
    counts : sequence of int
        How many objects were looked for in each file; the others are scales. Attributes are those
        of one file, and not kept.
    """
    numbers = _numbers(surveys, counts)
    order = np.argsort(np.concatenate(numbers), kind="stable")
    known: dict[Any, int] = {}
    kinds = list[Kind]()
    columns: dict[str, list[I64]] = {name: [] for name in OF_OBJECTS}
    n_files = n_dims = n_chunks = 0
    for one in surveys:
        is_kind, kind = one.kind < NO_DATASET, one.kind.copy()
        kind[is_kind] = np.array([_known(of, known, kinds) for of in one.kinds])[kind[is_kind]]
        moved = {
            "file": one.file + n_files,
            "kind": kind,
            "dims_at": one.dims_at + n_dims,
            "chunks_at": one.chunks_at + n_chunks,
        }
        for name, column in columns.items():
            column.append(moved.get(name, getattr(one, name)))
        n_files, n_dims = n_files + len(one.files), n_dims + len(one.dims)
        n_chunks += len(one.chunks)
    scales = np.concatenate([_moved(s.scales, at) for s, at in zip(surveys, numbers, strict=True)])
    scales = scales[np.argsort(scales[:, 0], kind="stable")]
    whole = Survey(
        places=Places(_runs(surveys, counts)),
        files=tuple(chain.from_iterable(one.files for one in surveys)),
        kinds=tuple(kinds),
        **{name: np.concatenate(column)[order] for name, column in columns.items()},
        dims=np.concatenate([one.dims for one in surveys]),
        chunk_dims=np.concatenate([one.chunk_dims for one in surveys]),
        chunks=np.concatenate([one.chunks for one in surveys]),
        inline=tuple(chain.from_iterable(one.inline for one in surveys)),
        scales=scales,
        scales_at=np.searchsorted(scales[:, 0], np.arange(len(order) + 1)),
        attributes={},
    )
    return whole, numbers


def _numbers(surveys: Sequence[Survey], counts: Sequence[int]) -> list[I64]:
    """Return the new numbers of the objects of each file."""
    found, scales, numbers = 0, sum(counts), []
    for one, count in zip(surveys, counts, strict=True):
        others = len(one) - count
        own = np.arange(found, found + count), np.arange(scales, scales + others)
        numbers.append(np.concatenate(own))
        found, scales = found + count, scales + others
    return numbers


def _known(kind: Kind, known: dict[Any, int], kinds: list[Kind]) -> int:
    """Return the number of a kind; files have many in common."""
    # What dtypes say besides, such as the names of an enum, does not count when they are compared.
    is_plain = kind.dtype.names is None and kind.dtype.metadata is None
    number = known.setdefault((kind, None if is_plain else len(kinds)), len(kinds))
    if number == len(kinds):
        kinds.append(kind)
    return number


def _moved(scales: I64, numbers: I64) -> I64:
    """Return rows of object, axis and scale with new numbers."""
    return np.stack([numbers[scales[:, 0]], scales[:, 1], numbers[scales[:, 2]]], axis=1)


def _runs(surveys: Sequence[Survey], counts: Sequence[int]) -> list[Run]:
    found, scales = list[Run](), list[Run]()
    for one, count in zip(surveys, counts, strict=True):
        at = 0
        for run in one.places.runs:
            (found if at < count else scales).append(run)
            at += len(run.names)
    return found + scales
