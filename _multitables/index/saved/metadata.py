"""The metadata of a file from its saved index: what `_core.MetadataFile` tells.

Law
---
1. The face is `_core.MetadataFile`'s, and two answers about many objects at once. What is not saved
   is asked of the file itself.
2. A damaged index is left with a warning; from then on the file answers everything.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.errors import SavedIndexWarning
from _multitables.index.chunk_index import U64, Fingerprint, Records, grid_of
from _multitables.index.metadata import Delegated, Metadata
from _multitables.index.saved import format as saved_format
from _multitables.index.saved import survey
from _multitables.index.saved.format import (
    HARD,
    I64,
    KINDS,
    LINK_KINDS,
    NO_NUMBER,
    NO_VALUE,
    USER_DEFINED,
    DamagedIndexError,
    SavedIndex,
)
from _multitables.index.saved.objects import (
    RAISED,
    load_attributes,
    load_space,
    load_storage,
    to_bytes,
)
from _multitables.index.saved.owners import ForeignIndexError
from _multitables.index.types.hdf5_metadata import Attribute

#: As many soft links as HDF5 follows on the way to an object.
MAX_SOFT_LINKS = 16
#: Shapes and types are shared by many datasets: this many are kept as they were loaded.
MAX_LOADED = 4096
#: After this many searches in a group a table of its names is made, which takes as long as some
#: thousand searches.
MAX_SEARCHES = 100


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
                return SavedMetadata(index, place, file)
    return file


class SavedMetadata(Delegated):
    """As `_core.MetadataFile`, of a file that has a saved index. Any thread may use it."""

    def __init__(self, index: SavedIndex, place: str, file: Metadata) -> None:
        #: The file, for what is not saved.
        self.file = file
        self._index, self._place = index, place
        self._is_left = False
        self._searches: Counter[int] = Counter()
        self._by_name: dict[int, dict[bytes, int]] = {}
        #: Many groups have links of the same names.
        self._texts: dict[bytes, tuple[str, ...]] = {}
        self._loaded: dict[tuple[Callable[[Any], Any], int], dict[str, Any]] = {}

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
        saved = self._saved(lambda: self._find(path, self.root if start is None else start))
        return self.file.find(path, start) if saved is None else saved

    def kind(self, offset: int) -> str:
        """What an object is."""
        row = self._row(offset)
        return self.file.kind(offset) if row is None else KINDS[self._index.kind[row]]

    def links(self, offset: int) -> list[tuple[Any, ...]]:
        """The links of a group, by name."""
        row = self._row(offset, "group")
        saved = None
        if row is not None:
            saved = self._saved(lambda: self._links(*self._index.link_range(row)))
        return self.file.links(offset) if saved is None else saved

    def link(self, offset: int, name: bytes) -> tuple[Any, ...] | None:
        """The link of this name in a group."""
        row = self._row(offset, "group")
        link = None if row is None else self._link(row, name)
        if row is not None and link is None:
            return None
        saved = None if link is None else self._saved(lambda: self._links(link, link + 1))
        links = self.file.links(offset) if saved is None else saved
        return next((link for link in links if link[0] == name), None)

    def attributes(self, offset: int) -> list[Attribute]:
        """The attributes of an object."""
        row = self._row(offset)
        number = NO_VALUE if row is None else int(self._index.attributes[row])
        saved = None
        if number != NO_VALUE:
            saved = self._saved(lambda: load_attributes(self._index.value(number)))
        return self.file.attributes(offset) if saved is None else saved

    def datatype(self, offset: int) -> bytes:
        """The element type of a dataset or a committed datatype."""
        row = self._row(offset)
        saved = None if row is None else self._saved(lambda: self._datatype(row))
        return self.file.datatype(offset) if saved is None else saved

    def dataset(self, offset: int) -> _core.StoredDataset:
        """What a dataset is."""
        row = self._row(offset, "dataset")
        saved = None if row is None else self._saved(lambda: self._dataset(row))
        return self.file.dataset(offset) if saved is None else saved

    def chunks(self, offset: int) -> Records:
        """The stored chunks of a dataset."""
        row = self._row(offset, "dataset")
        saved = None if row is None else self._saved(lambda: self._chunks(row))
        return self.file.chunks(offset) if saved is None else saved

    def listed(self, offset: int) -> tuple[tuple[str, ...], I64] | None:
        """The names of a group's links and the targets of hard ones; other links have -1."""
        row = self._row(offset, "group")
        return None if row is None else self._listed(*self._index.link_range(row))

    def survey(self, offsets: U64, with_scales: bool, names: Sequence[bytes]) -> _core.Survey:
        """What many objects are. The file itself gives their attributes."""
        rows = self._index.rows(offsets)
        saved, left = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        of_index: _core.Survey | None = None
        if not names:
            of_index = self._saved(lambda: survey.load(self._index, rows[saved], with_scales))
        if of_index is None:
            return self.file.survey(offsets, with_scales, names)
        if not len(left):
            return of_index
        of_file = self.file.survey(offsets[left], with_scales, names)
        return _core.Survey.joined([(of_index, [0], saved), (of_file, [0], left)])

    def _saved(self, question: Callable[[], Any]) -> Any:
        """The answer, or None for the file to answer."""
        if not self._is_left:
            try:
                return question()
            except (DamagedIndexError, OSError) as error:
                self._is_left = True
                _warn(self._place, error)
        return None

    def _row(self, offset: int, kind: str | None = None) -> int | None:
        if self._is_left:
            return None
        row = self._index.row(offset)
        is_other = row is not None and kind not in (None, KINDS[self._index.kind[row]])
        return None if is_other else row

    def _find(self, path: bytes, at: int) -> tuple[Any, ...]:
        names, at, soft_links = _names(path), self.root if path[:1] == b"/" else at, 0
        while names:
            row = self._row(at)
            if row is None:
                return self.file.find(b"/".join(reversed(names)), at)
            if KINDS[self._index.kind[row]] != "group":
                return ("not_a_group", at)
            link = self._link(row, names[-1])
            if link is None:
                return ("missing", at)
            del names[-1]
            match self._target(link):
                case ("hard", target):
                    at = target
                case ("soft", target):
                    soft_links += 1
                    if soft_links > MAX_SOFT_LINKS:
                        return ("too_many_links",)
                    names += _names(target)
                    at = self.root if target[:1] == b"/" else at
                case ("external", file, target):
                    return ("external", file, b"/".join([target, *reversed(names)]))
                case other:
                    return other
        return ("object", at)

    def _link(self, row: int, name: bytes) -> int | None:
        """The number of a link of a group."""
        if row in self._by_name:
            return self._by_name[row].get(name)
        first, end = self._index.link_range(row)
        self._searches[row] += 1
        if self._searches[row] > MAX_SEARCHES:
            names = self._index.link_names(first, end)
            self._by_name[row] = dict(zip(names, range(first, end), strict=True))
            return self._by_name[row].get(name)
        link = bisect_right(range(first, end), name, key=self._index.link_name) + first - 1
        return link if link >= first and self._index.link_name(link) == name else None

    def _target(self, link: int) -> tuple[Any, ...]:
        kind, target = int(self._index.link_kind[link]), int(self._index.link_target[link])
        if kind in (HARD, USER_DEFINED):
            return LINK_KINDS[kind], target
        parts = self._index.value(target)
        try:
            texts = [to_bytes(part) for part in parts]
        except RAISED as error:
            raise DamagedIndexError(f"the target of link {link} is no path") from error
        if len(texts) != kind:
            raise DamagedIndexError(f"the target of link {link} has {len(texts)} parts")
        return LINK_KINDS[kind], *texts

    def _links(self, first: int, end: int) -> list[tuple[Any, ...]]:
        names, kinds = self._index.link_names(first, end), self._index.link_kind[first:end]
        orders = self._index.link_order[first:end]
        numbers = orders.astype(object)
        numbers[orders == NO_NUMBER] = None
        words = np.array(LINK_KINDS, object)[kinds].tolist()
        targets = self._index.link_target[first:end].tolist()
        links = list(zip(names, numbers.tolist(), words, targets, strict=True))
        for place in np.flatnonzero((kinds != HARD) & (kinds != USER_DEFINED)).tolist():
            links[place] = (*links[place][:2], *self._target(first + place))
        return links

    def _listed(self, first: int, end: int) -> tuple[tuple[str, ...], I64]:
        stored = self._index.stored_names(first, end)
        names = self._texts.get(stored)
        if names is None:
            if len(self._texts) >= MAX_LOADED:
                self._texts.clear()
            texts = stored.decode("utf-8", "surrogateescape").split("\0")
            names = self._texts[stored] = tuple(texts[:-1])
        return names, self._hard_targets[first:end]

    @cached_property
    def _hard_targets(self) -> I64:
        index = self._index
        return np.where(index.link_kind == HARD, index.link_target.astype(np.int64), -1)

    def _datatype(self, row: int) -> Any:
        number, kind = int(self._index.storage[row]), KINDS[self._index.kind[row]]
        if number == NO_VALUE:
            return None
        if kind == "dataset":
            return self._load(load_storage, number)["datatype"]
        try:
            return to_bytes(self._index.value(number))
        except RAISED as error:
            raise DamagedIndexError("a datatype is not one") from error

    def _load(self, load: Callable[[Any], dict[str, Any]], number: int) -> dict[str, Any]:
        known = self._loaded.get((load, number))
        if known is None:
            if len(self._loaded) >= MAX_LOADED:
                self._loaded.clear()
            known = self._loaded[load, number] = load(self._index.value(number))
        return known

    def _dataset(self, row: int) -> _core.StoredDataset:
        index = self._index
        space, storage = int(index.space[row]), int(index.storage[row])
        if NO_VALUE in (space, storage):
            raise DamagedIndexError("a dataset has no shape or type")
        dataset = {**self._load(load_space, space), **self._load(load_storage, storage)}
        first = int(index.first[row])
        if len(dataset.get("chunk_dims", dataset["dims"])) != len(dataset["dims"]):
            raise DamagedIndexError("the dims of a dataset and of its chunks differ in number")
        match dataset["layout"]:
            case "contiguous":
                dataset["byte_offset"] = None if first == NO_NUMBER else first
            case "compact":
                dataset["elements"] = index.elements(row)
            case "virtual":
                dataset["mappings"] = (first, int(index.second[row]))
        try:
            return _core.StoredDataset(**dataset)
        except RAISED as error:
            raise DamagedIndexError(f"a dataset contradicts itself: {error}") from error

    def _chunks(self, row: int) -> Any:
        dataset = self._dataset(row)
        if dataset.chunk_dims is None:
            return None  # the file says so
        table = self._index.chunks(row)
        grid_index = table["grid_index"]
        n_chunks = math.prod(grid_of(dataset.dims, dataset.chunk_dims))
        in_order = len(grid_index) < 2 or bool(np.all(grid_index[1:] > grid_index[:-1]))
        if len(grid_index) and not (in_order and int(grid_index[-1]) < n_chunks):
            raise DamagedIndexError("the chunks of a dataset are not those of its grid")
        return table


def _names(path: bytes) -> list[bytes]:
    """The names of a path, the first one last."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


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
