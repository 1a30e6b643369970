"""The survey of a file's objects, as columns of its saved index.

Law
---
1. Saved batch by batch: chunks of all datasets need not fit into memory.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.index.chunk_index import U64
from _multitables.index.metadata import Metadata
from _multitables.index.saved.objects import KIND, fields

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
        text = json.dumps(fields(kind, KIND))
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
