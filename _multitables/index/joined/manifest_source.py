"""The files of a manifest as one: each dataset has the rows of all of them, in their order.

Law
---
1. Datasets that are stored alike in all files are joined at once, as columns. Where a file differs,
   each is indexed by itself, as of a list: the same data, the same errors.
2. Indexing opens no file, except for what is not saved of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial

from _multitables import _core
from _multitables._core import DamagedIndexError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import Source
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.joined.chunks import joined
from _multitables.index.joined.columns import UnfitError, joined_columns
from _multitables.index.joined.manifest import Manifest
from _multitables.index.joined.source import Indexed, JoinedSource, MissingFiles, Wanted
from _multitables.index.opened.open_files import OpenFiles, Place
from _multitables.index.types.plugins import READERS_FILTERS


class ManifestSource(JoinedSource):
    """The first file of a manifest, with the rows of all."""

    #: The filters of those who read.
    filters: Container[int] = READERS_FILTERS

    def __init__(
        self, manifest: Manifest, open_options: OpenOptions, skip_missing: bool = False
    ) -> None:
        self._manifest = manifest
        super().__init__(manifest.files.filenames, open_options, skip_missing)

    def _opened(self, number: int, options: OpenOptions) -> OpenFiles:
        name = self._filenames[number]
        return OpenFiles(name, options, main=self._manifest.open_file(number))

    def reopen(self) -> bool:
        """Use it again; False if the manifest was written anew."""
        return self._manifest.is_current

    def _at_once(self, wanted: tuple[Wanted, ...]) -> Indexed | None:
        try:
            indexes = [self._alike(one) for one in wanted]
        except DamagedIndexError as error:
            raise self._manifest.damaged(error) from None
        found = [index for index in indexes if index is not None]
        return Indexed(found, (), MissingFiles()) if len(found) == len(indexes) else None

    def _alike(self, wanted: Wanted) -> ChunkIndex | None:
        """Join the datasets of a name; None: they are joined one by one."""
        named, field, in_heap = wanted
        if in_heap or not isinstance(named, str):
            return None
        place = self.find(named)
        return self._joined(place, lambda one: one.index_at(one.find(named), field))

    def _joined(self, place: Place, index_in: Callable[[Source], ChunkIndex]) -> ChunkIndex | None:
        """Join the datasets of all files that are where this place is in the first."""
        if place.file is not self.files.main:
            return None
        index, files = self._manifest.index, self._manifest.files
        rows = index.alike(place.path.encode("utf-8", "surrogateescape"))
        if rows is None:
            return None
        try:
            stored = index.survey_alike([rows], with_scales=False)
            return joined_columns(stored, files, partial(self._answer, ask=index_in), self.filters)
        except UnfitError as error:
            raise DamagedIndexError(str(error)) from None


class ManifestRows(ManifestSource):
    """The same as one file: its datasets have the rows of all, all else is the first file's."""

    filters = frozenset(_core.native_filters())

    def _opened(self, number: int, options: OpenOptions) -> OpenFiles:
        name, by = self._filenames[number], "" if number else self._manifest.filename
        return OpenFiles(name, options, main=self._manifest.open_file(number, by))

    def stored(self, place: Place) -> _core.StoredDataset:
        """Return what a dataset is, with the rows of all files, in no chunks of its own.

        Raises
        ------
        UnsupportedDatasetError, MissingDatasetError
            A file has no such rows.
        """
        stored = super().stored(place)
        if not self._has_rows(place, stored):
            return stored
        dims = self.index(place.path).dims
        return _core.StoredDataset(
            dims=dims,
            max_dims=dims,
            datatype=stored.datatype,
            element_bytes=stored.element_bytes,
            layout="contiguous",
            filters=stored.filters,
            fill_value=stored.fill_value,
            fill_is_never_written=stored.fill_is_never_written,
            external_files=stored.external_files,
        )

    def index_at(
        self,
        place: Place,
        field: str | None = None,
        *,
        as_stored: bool = False,
        in_heap: bool = False,
    ) -> ChunkIndex:
        """Index a dataset; as it is stored, with the rows of all files."""
        if not (as_stored and self._has_rows(place, super().stored(place))):
            return super().index_at(place, field, as_stored=as_stored, in_heap=in_heap)

        def stored_in(one: Source) -> ChunkIndex:
            return Source.index_at(one, one.find(place.path), as_stored=True)

        try:
            found = self._joined(place, stored_in)
        except DamagedIndexError as error:
            raise self._manifest.damaged(error) from None
        if found is not None:
            return found
        return joined(list(self._answers(stored_in, MissingFiles())), self.filters)

    def _has_rows(self, place: Place, stored: _core.StoredDataset) -> bool:
        return place.file is self.files.main and bool(stored.dims) and not stored.is_null


def open_manifest(filename: str, options: OpenOptions) -> ManifestRows:
    """Open a manifest as one file."""
    return ManifestRows(Manifest(filename, options), options)


def source_of(manifest: Manifest, number: int, options: OpenOptions) -> Source:
    """Return one file of a manifest, by itself."""
    options = replace(options, before=None)
    main = manifest.open_file(number)
    return Source(main.filename, options, OpenFiles(main.filename, options, main=main))
