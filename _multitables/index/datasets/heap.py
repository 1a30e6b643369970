"""Rows of any length that lie in the global heaps of files, as an index.

Law
---
1. A value, as chunk_index.py says. Its descriptors are a dataset of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import NO_MEMBERS, ChunkIndex, Members
from _multitables.index.types.element_type import ElementType


@dataclass(frozen=True)
class Heap(ChunkIndex):
    """Rows of any length in the global heaps of its files."""

    #: Its elements, as stored, say which object of a heap each row is.
    descriptors: ChunkIndex = field(kw_only=True, repr=False)
    #: Of an element of a row; None: rows are texts.
    atom: np.dtype[Any] | None = field(kw_only=True)
    #: Datasets whose rows it has, one behind the other; (): it is one.
    members: Members = field(default=NO_MEMBERS, repr=False)
    #: Rows that are not read.
    left_out: tuple[int, ...] = ()

    @property
    def parts(self) -> Sequence[ChunkIndex]:
        """The datasets whose rows it has."""
        return self.members or (self,)

    def in_file(self, row: int) -> tuple[ChunkIndex, int]:
        """Return which of its datasets has a row, and its first row."""
        begins = np.cumsum([0, *(one.n_rows for one in self.parts)])
        at = int(np.searchsorted(begins, row, "right")) - 1
        return self.parts[at], int(begins[at])


def heap_of(descriptors: ChunkIndex, atoms: ChunkIndex | None, element: ElementType | None) -> Heap:
    """Return the index of rows of atoms; of texts without.

    Raises
    ------
    UnsupportedDatasetError
        Atoms are not delivered as they are stored.
    """
    if element is not None and (reason := element.oddness):
        raise UnsupportedDatasetError(
            f"{descriptors.path!r} in {descriptors.filename!r} has rows of {reason}, which "
            "are not streamed (expected numbers, or compounds of them)",
            advice="Read it with multitables.Reader or h5py",
            path=descriptors.path,
            filename=descriptors.filename,
        )
    kind, of = replace(descriptors.kind, pipeline=()), tuple(descriptors.files[:1])
    atom = None if atoms is None else atoms.dtype
    at = of, descriptors.path, kind, descriptors.dims, None
    return Heap(*at, descriptors=descriptors, atom=atom)
