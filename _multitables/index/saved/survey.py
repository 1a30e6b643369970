"""The survey of a file's objects, saved as columns of its index.

``common`` says which of the index's kinds a dataset has, or that the object is ``ALONE`` or
`NO_DATASET`; the kinds are one text of JSON. ``dims_end`` and ``scale_end`` say where the dims and
the scales of an object end, which begin where those of the one before it end.

Law
---
1. A loaded survey has the types and ranges that the core's answer has, or the index is damaged. Of
   chunks it is as in the core's: readers check each before they fetch it.
2. Saved batch by batch: chunks of all datasets need not fit into memory.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.index.chunk_index import U32, U64
from _multitables.index.metadata import Metadata
from _multitables.index.saved.format import (
    I64,
    DamagedIndexError,
    SavedIndex,
)
from _multitables.index.saved.objects import KIND, load_kind

NO_DATASET = _core.SURVEY_NO_DATASET
#: Objects that are described at once when they are saved.
BATCH = 1 << 12
#: What is surveyed of each object, or of each dim or scale of one.
SURVEYED = ("common", "rank", "dims", "chunk_dims", "n_scales", "scale_axis", "scale_target")


class Kinds:
    """The kinds of all datasets that are saved, by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def encoded(self) -> npt.NDArray[np.uint8]:
        """As the index has them."""
        return np.frombuffer(f"[{','.join(self._numbers)}]".encode(), np.uint8)

    def number(self, kind: _core.StoredKind) -> int:
        """The number of a kind."""
        text = json.dumps([save(getattr(kind, of)) for of, (save, _) in KIND.items()])
        return self._numbers.setdefault(text, len(self._numbers))


def surveyed(metadata: Metadata, offsets: U64, kinds: Kinds) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the objects of a file."""
    columns: dict[str, list[Any]] = {name: [np.zeros(0, np.uint64)] for name in SURVEYED}
    for begin in range(0, len(offsets), BATCH):
        one = metadata.survey(offsets[begin : begin + BATCH], True, [])
        common, of_kind = one.kind, [kinds.number(kind) for kind in one.kinds]
        is_one = common < NO_DATASET
        common[is_one] = np.array(of_kind, np.uint32)[common[is_one]]
        objects, axes, targets = one.scales.T
        n_scales = np.bincount(objects.astype(np.int64), minlength=len(one))
        found = common, one.ranks, one.dims, one.chunk_dims, n_scales, axes, targets
        for column, part in zip(columns.values(), found, strict=True):
            column.append(part)
    return {name: np.concatenate(parts).astype(np.uint64) for name, parts in columns.items()}


def load(index: SavedIndex, rows: I64, with_scales: bool, files: U32 | None = None) -> _core.Survey:
    """Answer as the file does for these objects, without attributes; or as each of many files."""
    every, common = _kinds(index), index.common[rows]
    used = np.flatnonzero(np.bincount(common[common < len(every)])).tolist()
    kinds = {number: load_kind(every[number]) for number in used}
    of = np.zeros(len(rows), np.uint32) if files is None else files
    return index.survey(rows, of, kinds, with_scales)


def _kinds(index: SavedIndex) -> list[Any]:
    try:
        kinds = json.loads(index.kinds.tobytes())
    except (ValueError, RecursionError) as error:
        raise DamagedIndexError("the kinds of datasets are not JSON") from error
    if not isinstance(kinds, list):
        raise DamagedIndexError("the kinds of datasets are no list")
    return kinds
