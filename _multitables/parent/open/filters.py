"""The filters of a dataset in h5py's words.

Law
---
1. What the core says of a pipeline in, h5py's values out.
2. The index of a dataset knows its reader, from its filters and its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from _multitables.filter_names import name_of

if TYPE_CHECKING:
    from _multitables.index.opened.open_files import Place
    from _multitables.parent.open.handle import Handle

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


class Filtered:
    """The filters of a dataset, and the libraries that can undo them."""

    __slots__ = ()
    _handle: Handle
    _place: Place

    @property
    def _pipeline(self) -> Sequence[Filter]:
        raise NotImplementedError

    @property
    def filters(self) -> dict[str, Any]:
        """h5py's name of each filter, or its number, with its settings or None; in their order."""
        return settings(self._pipeline)

    @property
    def filter_ids(self) -> tuple[int, ...]:
        """HDF5's numbers of the filters."""
        return tuple(found[0] for found in self._pipeline)

    @property
    def filter_names(self) -> tuple[str, ...]:
        """Names of the filters: those in the file, or else the registered ones."""
        return tuple(
            name_of(found[0], found[3].decode("utf-8", "surrogateescape"))
            for found in self._pipeline
        )

    @property
    def compression(self) -> str | None:
        """``"gzip"``, ``"lzf"``, ``"szip"``, ``"unknown"`` (a plugin's) or None."""
        return compression(self.filters)

    @property
    def compression_opts(self) -> Any:
        """The level of gzip, or the settings of szip."""
        name = self.compression
        return None if name is None else self.filters.get(name)

    @property
    def shuffle(self) -> bool:
        """Whether bytes are shuffled."""
        return "shuffle" in self.filters

    @property
    def fletcher32(self) -> bool:
        """Whether chunks have a checksum."""
        return "fletcher32" in self.filters

    @property
    def scaleoffset(self) -> int | None:
        """Bits of whole numbers (0: chosen by HDF5), or decimal places of floats, or None."""
        found = self.filters.get("scaleoffset")
        return None if found is None else int(found[1])

    @property
    def why_library(self) -> str:
        """Why streams and requests of it need an HDF5 library; "" where the core reads it.

        Raises
        ------
        UnsupportedDatasetError
            It has no rows that can be streamed, as a scalar. Indexing reads it.
        """
        from _multitables.index.types.plugins import READERS_FILTERS

        source, place = self._handle.shared.source, self._place
        heap = source.heap(place)
        index = heap.descriptors if heap else source.index_at(place)
        return index.why_library(READERS_FILTERS)
