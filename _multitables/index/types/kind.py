"""What elements of datasets are, how they are stored, and whether the core decodes them.

Law
---
1. Many datasets share one value, so it does not say where a dataset is, or how long.

This file must never know files, paths or chunks.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from _multitables import _core
from _multitables.index.types.element_type import Conversion, FieldType
from _multitables.index.types.hdf5_metadata import FilterSpec

if TYPE_CHECKING:
    from _multitables.index.types.cast import Cast


@dataclass(frozen=True)
class Kind:
    """What elements of datasets are, and how they are stored; many datasets may share it."""

    #: What of an element reaches the user, and what the core changes of it.
    part: FieldType
    #: Of one stored element.
    element_bytes: int
    #: In the order of writing.
    pipeline: tuple[FilterSpec, ...] = ()
    #: As one stored element.
    fill_value: bytes = b""
    #: "h5py" or "tables": which library reads what the core does not.
    library: str = "h5py"
    #: The conversion of its numbers that comes last.
    cast: Cast | None = None

    def why_library(self, filters: Container[int]) -> str:
        """Name the filter that only a library decodes; "" where readers have all of its filters."""
        unknown = (spec for spec in self.pipeline if spec.id not in filters)
        return next((f"filter {spec.id} ({spec.name or 'unnamed'})" for spec in unknown), "")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of one element as the user sees it: of the chosen field, with subarrays unpacked."""
        return self.part.element.dtype.base if self.cast is None else self.cast.dtype

    @property
    def uncast(self) -> Kind:
        """The kind of its elements before they are cast."""
        return self if self.cast is None else replace(self, cast=None)

    @property
    def for_table(self) -> _core.Kind:
        """What a table says of it."""
        offset, size, converted, words = self.part.for_table
        if self.cast is not None and (words or size != self.element_bytes):
            element = self.part.element  # not in place: other elements are made of these
            converted = element.delivered_bytes
            words = [word for one in element.conversions for word in one.words]
        filters = [spec[:3] for spec in self.pipeline]
        return (self.element_bytes, offset, size, converted), filters, words, self.fill_value

    @property
    def conversion(self) -> tuple[int, int, tuple[int, ...]] | None:
        """How whole stored elements become delivered ones (`DatasetInfo`); None: in place."""
        offset, element = self.part.offset, self.part.element
        changes, delivered = element.changes, element.converted_bytes
        if not delivered:
            if element.size_bytes == self.element_bytes or self.library != "h5py":
                return None
            delivered = element.size_bytes
            changes = (Conversion.of(delivered), *changes)
        words = tuple(word for one in changes for word in one.moved(offset, 0).words)
        return self.element_bytes, delivered, words
