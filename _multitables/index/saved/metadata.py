"""The metadata of a file from its saved index, which the core reads.

Law
---
1. The face is `_core.MetadataFile`'s. The file itself answers what is not saved.
2. A damaged index is left with a warning; from then on the file answers everything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from _multitables import _core
from _multitables._core import DamagedIndexError, SavedIndex
from _multitables.errors import SavedIndexWarning, note
from _multitables.index.chunk_index import I64, U64, Fingerprint, Records
from _multitables.index.metadata import Delegated, Metadata, names_of
from _multitables.index.saved import format as saved_format
from _multitables.index.saved.owners import ForeignIndexError
from _multitables.index.types.hdf5_metadata import Attribute

#: Names of this many groups are kept: many groups have links of the same names.
MAX_NAMES = 4096


def with_first(
    found: list[tuple[str, str | None]], fingerprint: Fingerprint, file: Metadata
) -> Metadata:
    """Put the first saved index of the file as it is before it.

    Each has the name of the file beside which it lies; None: it is in the cache directory.
    """
    for place, of in found:
        try:
            index = saved_format.read(place, fingerprint, of)
        except (DamagedIndexError, ForeignIndexError, OSError) as error:
            _warn(place, error)
        else:
            if index is not None:
                note("the saved index %r is used", place)
                return SavedMetadata(index, place, file)
            note("the saved index %r is of another version of its file, and not used", place)
    return file


class SavedMetadata(Delegated):
    """As `_core.MetadataFile`, of a file that has a saved index. Any thread may use it."""

    def __init__(self, index: SavedIndex, place: str, file: Metadata) -> None:
        #: The file, for what is not saved.
        self.file = file
        self._index, self._place = index, place
        self._is_left = False
        self._names: dict[bytes, tuple[str, ...]] = {}

    @property
    def root(self) -> int:
        """Where the root group's header is."""
        return self._index.root

    def close(self) -> None:
        """Close the index; the file answers from now on, as far as it can."""
        self._is_left = True
        self._index.close()
        self.file.close()

    def find(self, path: bytes, start: int | None = None) -> tuple[Any, ...]:
        """Where a path leads."""
        saved = self._saved(self._index.find, path, self.root if start is None else start)
        if saved is None:
            return self.file.find(path, start)
        return self.file.find(*saved[1:]) if saved[0] == "unsaved" else saved

    def find_from(self, offsets: U64, path: bytes) -> I64:
        """Where a path leads from each of some groups."""
        saved: I64 | None = self._saved(self._index.find_from, offsets, path)
        return self.file.find_from(offsets, path) if saved is None else saved

    def kind(self, offset: int) -> str:
        """What an object is."""
        saved = self._saved(self._index.kind, offset)
        return self.file.kind(offset) if saved is None else saved

    def links(self, offset: int) -> list[tuple[Any, ...]]:
        """The links of a group, by name."""
        saved = self._saved(self._index.links, offset)
        return self.file.links(offset) if saved is None else saved

    def names(self, offset: int) -> list[str | bytes]:
        """The names of a group, in the order in which they are listed."""
        return names_of(self.links(offset))

    def n_links(self, offset: int) -> int:
        """How many links a group has."""
        return len(self.links(offset))

    def link(self, offset: int, name: bytes) -> tuple[Any, ...] | None:
        """The link of this name in a group."""
        saved = self._saved(self._index.link, offset, name)
        return self.file.link(offset, name) if saved is None else next(iter(saved), None)

    def attributes(self, offset: int) -> list[Attribute]:
        """The attributes of an object."""
        saved = self._saved(self._index.attributes, offset)
        return self.file.attributes(offset) if saved is None else saved

    def datatype(self, offset: int) -> bytes:
        """The element type of a dataset or a committed datatype."""
        saved = self._saved(self._index.datatype, offset)
        return self.file.datatype(offset) if saved is None else saved

    def dataset(self, offset: int) -> _core.StoredDataset:
        """What a dataset is."""
        saved = self._saved(self._index.dataset, offset)
        return self.file.dataset(offset) if saved is None else saved

    def chunks(self, offset: int) -> Records:
        """The stored chunks of a dataset."""
        saved = self._saved(self._index.chunks, offset)
        return self.file.chunks(offset) if saved is None else saved

    def listed(self, offsets: U64) -> tuple[list[tuple[str, ...]], I64]:
        """The names of the links of groups, and the targets of hard ones; other links have -1."""
        each = [self._listed(offsets[at : at + 1]) for at in range(len(offsets))]
        targets = np.concatenate([np.zeros(0, np.int64), *(of for _, of in each)])
        return [names for names, _ in each], targets

    def _listed(self, group: U64) -> tuple[tuple[str, ...], I64]:
        saved = self._saved(self._index.names, int(group[0]))
        if saved is None:
            of_file, targets = self.file.listed(group)
            return of_file[0], targets
        stored, targets = saved
        names = self._names.get(stored)
        if names is None:
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            texts = stored.decode("utf-8", "surrogateescape").split("\0")
            names = self._names[stored] = tuple(texts[:-1])
        return names, targets

    def survey(self, offsets: U64, with_scales: bool, names: Sequence[bytes]) -> _core.Survey:
        """What many objects are. The file itself gives their attributes."""
        saved = None if names else self._saved(self._index.survey, offsets, with_scales)
        if saved is None:
            return self.file.survey(offsets, with_scales, names)
        of_index: _core.Survey = saved[0]
        is_saved = saved[1]
        if is_saved.all():
            return of_index
        of_file = self.file.survey(offsets[~is_saved], with_scales, names)
        places = np.flatnonzero(is_saved), np.flatnonzero(~is_saved)
        return _core.Survey.joined([(of_index, [0], places[0]), (of_file, [0], places[1])])

    def _saved(self, question: Callable[..., Any], *of: Any) -> Any:
        """The answer, or None for the file to answer."""
        if not self._is_left:
            try:
                return question(*of)
            except (DamagedIndexError, OSError) as error:
                self._is_left = True
                _warn(self._place, error)
        return None


def _warn(place: str, error: Exception) -> None:
    warnings.warn(
        SavedIndexWarning(
            f"the saved index {place!r} cannot be used: {error}",
            good="The file itself is read in its place",
            advice="Delete the index, or write it anew with multitables.index_file",
            filename=place,
        ),
        stacklevel=2,
    )
