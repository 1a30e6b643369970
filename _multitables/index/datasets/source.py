"""A dataset of an HDF5 file -> `ChunkIndex`: what its rows are and where its bytes lie.

Law
---
1. Opens files for the whole library, and only the core reads them.
2. Every failure is an exception of errors.py that names the file and the path.

This file must never know readers, rings or options of a stream.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from _multitables import _core
from _multitables._core import Datatype, Mappings, StoredDataset
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex, Ragged, Records, SourceFile, Stored
from _multitables.index.datasets.described import (
    DescribedDataset,
    StoredField,
    field_type_in,
    plain_table,
)
from _multitables.index.files.open_options import (
    OpenOptions,
    check_stored,
    normal_path,
    parse_open_options,
)
from _multitables.index.files.stored_at import at, in_pieces, inside_file
from _multitables.index.opened.open_files import UNKNOWN, UNKNOWN_WAY, OpenFiles, Place
from _multitables.index.types import hdf5_errors, hdf5_metadata
from _multitables.index.types.element_type import (
    FieldType,
    element_type,
    field_type,
    flat,
    stored_type,
)
from _multitables.index.types.hdf5_metadata import Attribute
from _multitables.index.types.kind import Kind
from _multitables.index.types.numpy_type import Unsupported, datatype_of
from _multitables.remote.names import absolute, is_remote

if TYPE_CHECKING:
    from _multitables.index.datasets.heap import Heap
    from _multitables.index.files.external_files import Piece
    from _multitables.index.metadata import Leading

#: Layouts that only a library reads, and why.
REASONS = {"unknown": "its metadata is of a kind that the core does not know"}
#: Indexes of sources that are kept, because all versions of a dataset show the same source.
MAX_SHOWN = 64


def open_source(
    filename: str | os.PathLike[str] | bytes,
    open_options: Mapping[str, object],
    *,
    grows: bool = False,
) -> Source:
    """Open an HDF5 file, with options of ``tables.open_file``, to index its datasets.

    With `grows`, it may be open for writing; see `OpenFiles`.

    Raises
    ------
    OptionsError
        An option that cannot be meant for a stream.
    MissingFileError, FileOpenError
        No such file; not an HDF5 file, truncated, locked by a writer, not allowed.
    """
    return Source(filename, parse_open_options(open_options), grows=grows)


class Source:
    """An open HDF5 file, perhaps one of `files` that are open already; a context manager."""

    def __init__(
        self,
        filename: str | os.PathLike[str] | bytes,
        open_options: OpenOptions,
        files: OpenFiles | None = None,
        *,
        grows: bool = False,
    ) -> None:
        self._options = open_options
        self._base = absolute(os.fsdecode(filename))
        check_stored(self._base, self.is_split, grows)
        self.filename = self._base + (open_options.meta_ext if self.is_split else "")
        self._depth, self._grows = 0, grows
        self._shown: dict[tuple[str, int], tuple[Datatype, ChunkIndex]] = {}
        self.files = files or OpenFiles(self.filename, open_options, grows=grows)

    @property
    def direct(self) -> bool:
        """Whether the readers bypass the page cache."""
        return self._options.direct and not is_remote(self.files.main.filename)

    @property
    def trusted(self) -> bool:
        """Whether libraries and plugins may read it."""
        return self._options.trusted

    @property
    def is_split(self) -> bool:
        """Whether its data lies in another file."""
        return self._options.kind == "split"

    @property
    def open_options(self) -> dict[str, object]:
        """How a library in a reader opens the file; the values are of JSON's types."""
        if self._options.kind == "split":
            return {**self._options.for_library, "filename": self._base}
        return self._options.for_library

    def close(self) -> None:
        """Close the file. May be called again."""
        self.files.close()

    def reopen(self) -> bool:
        """Use a closed source again; False if its file has changed."""
        return self.files.reopen()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def inside(self, group: str) -> Source:
        """Return a source of the same file whose paths begin in a group."""
        root = group + self._options.root
        return Source(self._base, replace(self._options, root=root), self.files)

    def index(self, path: str, field: str | None = None) -> ChunkIndex:
        """Index a dataset below ``root_uep``, or one column; ``"a/b"`` is ``b`` of column ``a``.

        Raises
        ------
        MissingDatasetError, MissingFieldError
            No such path or field.
        UnsupportedDatasetError
            A group, a scalar, a null dataspace, or elements that have no fixed size.
        FileOpenError
            The file's structure is damaged or the file is truncated.
        """
        return self.index_at(self.find(path), field)

    def find(self, path: str) -> Place:
        """Return the object of a path below ``root_uep``; its errors are those of `index`."""
        return self.files.find(self._options.root + normal_path(path))

    def index_at(
        self,
        place: Place,
        field: str | None = None,
        *,
        as_stored: bool = False,
        in_heap: bool = False,
    ) -> ChunkIndex:
        """Index the dataset at a place; see `index`.

        With `as_stored`, elements are bytes as they are stored, and a scalar is one row. With
        `in_heap`, rows of a dataset without a field may have any length: see `heap`.
        """
        found = self.heap(place) if in_heap and field is None else None
        if found is not None:
            return found
        with place.errors_named():
            dataset = self._dataset(place)
            if not as_stored:
                return self._index(dataset, field_type_in(dataset, field), dataset.dims)
            return self._index(
                dataset,
                stored_type(dataset.stored.element_bytes),
                dataset.stored.dims or (1,),
            )

    def stored_field(self, path: str, field: str | None = None) -> StoredField | None:
        """Find a dataset, or a column, that the core may read from its file alone; None: it cannot.

        Its errors are those of `index`.
        """
        place = self.find(path)
        file = place.file
        if self.direct or self.is_split or file.opened_by != file.filename:
            return None
        if file.fingerprint.access is not None or place.offset == UNKNOWN:
            return None
        with place.errors_named():
            dataset = self._dataset(place)
            if dataset.is_ragged:
                return None
            part = field_type_in(dataset, field)
        return StoredField(dataset, part) if part.element.direct else None

    def index_of(self, found: StoredField, chunks: Records) -> ChunkIndex:
        """Return the index of what `stored_field` returned, with its chunks."""
        return self._index(found.dataset, found.part, found.dataset.dims, chunks=chunks)

    def describe(
        self, path: str, field: str | None = None
    ) -> tuple[str, ChunkIndex, _core.Table | None]:
        """Say what a dataset is, and index it, or a column, less members without a fixed size.

        Returns
        -------
        kind : str
            "table" (rows with columns), "array" or "vlarray" (ragged).
        index : ChunkIndex
            Of ragged data it says what the data is, but not where: a library reads it. Its dtype
            is that of an atom, which may be a subarray.
        table : _core.Table or None
            None: the index makes it.
        """
        place = self.find(path)
        with place.errors_named():
            dataset = self._dataset(place)
            if dataset.datatype.kind == "sequence":
                return "vlarray", self._trusted(self._ragged(dataset)), None
            part = field_type_in(dataset, field, mixed=True)
            plain = self._plain(dataset, part)
            index, table = plain or (self._index(dataset, part, dataset.dims), None)
        is_table = index.dtype.names is not None and len(index.shape) == 1
        return "table" if is_table else "array", index, table

    def is_ragged(self, place: Place) -> bool:
        """Whether each row of the dataset at a place has a length of its own."""
        with place.errors_named():
            return place.offset != UNKNOWN and self._dataset(place).is_ragged

    def heap(self, place: Place) -> Heap | None:
        """Index the dataset at a place whose rows have any length; None: they have one size.

        Raises
        ------
        UnsupportedDatasetError
            Rows are of something else than atoms of a fixed size, or of strings.
        """
        with place.errors_named():
            if place.offset == UNKNOWN:
                return None
            dataset = self._dataset(place)
            if not dataset.is_ragged:
                return None
            atoms, element = None, None
            if dataset.datatype.kind != "variable_string":
                atoms = self._ragged(dataset)
                element = element_type(dataset.datatype.base, dataset.pytables)
        from _multitables.index.datasets.heap import heap_of  # few need it

        return heap_of(self.index_at(place, as_stored=True), atoms, element)

    def _ragged(self, dataset: DescribedDataset) -> ChunkIndex:
        file, path, dims = dataset.place.file, dataset.place.path, dataset.dims
        try:
            element = element_type(dataset.datatype.base, dataset.pytables)
            if len(dims) != 1:
                raise Unsupported(f"ragged in {len(dims)} dimensions")
            if hdf5_metadata.is_pseudo_atom(dataset.attributes):
                raise Unsupported("Python objects or strings")
        except Unsupported as error:
            raise UnsupportedDatasetError(
                f"{path!r} in {file.filename!r} is ragged, with elements of another kind: {error} "
                "(expected one dimension of numbers, fixed-length strings or compounds of them)",
                advice="Read it with h5py or PyTables",
                path=path,
                filename=file.filename,
            ) from None
        atom = FieldType(replace(element, dtype=flat(element.dtype)), 0)
        library = "tables" if dataset.pytables else "h5py"
        kind = Kind(atom, dataset.stored.element_bytes, library=library)
        of = SourceFile(file.filename, file.fingerprint)
        return Ragged((of,), path, kind, dims, None, reason="ragged")

    def _plain(
        self, dataset: DescribedDataset, part: FieldType
    ) -> tuple[Stored, _core.Table] | None:
        """Index what lies in its file alone, by the table that the core makes of it."""
        place, stored, kind, table = dataset.place, dataset.stored, _kind(dataset, part), None
        is_direct = part.element.direct and not (self.direct or self.is_split)
        if is_direct and not kind.why_library(_core.native_filters()):
            table = plain_table(place.file, stored, part)
        if table is None:
            return None
        files, dims = (SourceFile(place.file.filename, place.file.fingerprint),), dataset.dims
        extents, inline = stored.chunk_dims, stored.elements
        return Stored(files, place.path, kind, dims, extents, (), table.chunks, inline), table

    def _index(
        self,
        dataset: DescribedDataset,
        part: FieldType,
        dims: tuple[int, ...],
        depth: int = 0,
        chunks: Records | None = None,
    ) -> ChunkIndex:
        file, path, stored = dataset.place.file, dataset.place.path, dataset.stored
        raw = self._raw(file.filename, stored) if stored.external_files else None
        of, reason = SourceFile(file.filename, file.fingerprint), self._reason(part, stored, raw)
        index = Stored((of,), path, _kind(dataset, part), dims, stored.chunk_dims)
        if reason:
            return self._trusted(index.by_library(reason))
        self._trusted(index)
        if 0 in index.shape:
            return index
        if file.opened_by != file.filename:  # references, perhaps to several files
            others = cast("Leading", file.metadata).others(dataset.place.offset)
            index = replace(index, files=(of, *others))
        if stored.layout == "virtual":
            return self._trusted(self._virtual(dataset, index, depth))
        if raw:
            pieces, rows = raw
            if len(pieces) > 1:
                return in_pieces(index, pieces, rows)
            return at(replace(index, files=(of, pieces[0].file)), pieces[0].offset, 1)
        if stored.layout == "compact":
            return at(replace(index, inline=stored.elements), 0)
        if stored.layout == "chunked":
            if chunks is None:
                chunks = file.metadata.chunks(dataset.place.offset)
            return inside_file(replace(index, chunks=chunks, inline=stored.elements))
        if stored.byte_offset is None:
            return index
        source = 0
        if len(index.files) > 1:
            source = file.metadata.chunks(dataset.place.offset)["source"][0]
        return inside_file(at(index, stored.byte_offset, source))

    def _virtual(self, dataset: DescribedDataset, index: Stored, depth: int) -> ChunkIndex:
        """Return the index of a virtual dataset with the chunks of its sources."""
        from _multitables.index.virtual.chunks import as_chunks, as_parts
        from _multitables.index.virtual.sources import for_library, sources_of

        file, datatype = dataset.place.file, dataset.datatype
        kinds: list[Datatype] = []
        if depth == hdf5_errors.VIRTUAL_ON_VIRTUAL:
            raise hdf5_errors.circle(file.filename, dataset.place.path)

        def index_of(place: Place) -> ChunkIndex:
            key = place.file.filename, place.offset
            known = self._shown.get(key)
            if known is None:
                with place.errors_named():
                    source = self._dataset(place)
                    dims = source.stored.dims or (1,)
                    index = self._index(
                        source, stored_type(source.stored.element_bytes), dims, depth + 1
                    )
                known = source.datatype, index
                if place.file is file and place.offset != UNKNOWN and not self._grows:
                    if len(self._shown) == MAX_SHOWN:
                        self._shown = {}
                    self._shown[key] = known
            kinds.append(known[0])
            return known[1]

        mappings = dataset.mappings or _mappings(dataset.place, dataset.stored)
        if mappings.grow:
            why = "a virtual dataset that grows in a way of its own"
            self._options.check_library(file.filename, dataset.place.path, why)
            return index.by_library(why)
        sources = sources_of(self.files, file, mappings, index_of)
        if not any(sources):
            return index
        if any(kind != datatype for kind in kinds):
            why = "a virtual dataset of sources of another type"
            return for_library(index, mappings, sources, why)
        try:
            found = as_chunks(index, mappings, sources)
            if found is None or len(found.files) > 1:  # what elements name may lie in other files
                field_type(datatype, None, dataset.pytables)
            return found or as_parts(index, mappings, sources)
        except (Unsupported, _core.UnfitError) as error:
            why = f"a virtual dataset of {error}" if isinstance(error, Unsupported) else str(error)
            return for_library(index, mappings, sources, why)

    def _grown(self, place: Place, stored: StoredDataset) -> tuple[StoredDataset, Mappings | None]:
        """Return a virtual dataset as long as it is by now, and what it shows then."""
        from _multitables.index.virtual.sources import source_of

        def dims_of(name: tuple[bytes, bytes]) -> tuple[int, ...] | None:
            with source_of(self.files, place.file, name) as source:
                if source is None:
                    return None
                if (depth := self._depth) == hdf5_errors.VIRTUAL_ON_VIRTUAL:
                    raise hdf5_errors.circle(place.file.filename, place.path)
                self._depth += 1
                try:
                    with source.errors_named():
                        return self._dataset(source).stored.dims
                finally:
                    self._depth = depth

        mappings = _mappings(place, stored)
        if not mappings.grow:
            return stored, mappings
        try:
            mappings, dims = mappings.grown(stored.dims, dims_of)
            return stored.with_dims(dims), mappings
        except _core.UnfitError as why:
            self._options.check_library(place.file.filename, place.path, str(why))
            return stored.with_dims(self._by_library(place)[0].dims), None

    def stored(self, place: Place) -> StoredDataset:
        """Return what the core tells of a dataset, or libhdf5 where the core does not know it.

        Raises
        ------
        UnsupportedDatasetError
            A group, or the core does not know it and no library may.
        FileOpenError
            The file's structure is damaged.
        """
        try:
            if place.offset != UNKNOWN:
                stored = place.file.metadata.dataset(place.offset)
                if stored.layout != "virtual":
                    return stored
        except hdf5_errors.FROM_CORE as error:
            if not isinstance(error, _core.Unknown):
                raise hdf5_errors.of_core(place.file.filename, place.path, error) from None
        with place.errors_named():
            return self._dataset(place).stored

    def _dataset(self, place: Place) -> DescribedDataset:
        metadata, filename = place.file.metadata, place.file.filename
        try:
            if place.offset == UNKNOWN:
                raise _core.Unknown(UNKNOWN_WAY, 0)
            kind = metadata.kind(place.offset)
            if kind != "dataset":
                names = None
                if kind == "group":
                    raw_names = [link[0] for link in metadata.links(place.offset)]
                    names = [name.decode("utf-8", "surrogateescape") for name in raw_names]
                raise hdf5_errors.no_dataset(filename, place.path, names)
            stored = metadata.dataset(place.offset)
            attributes = metadata.attributes(place.offset)
            mappings = None
            if stored.layout == "virtual":
                stored, mappings = self._grown(place, stored)
        except _core.Unknown as error:
            self._options.check_library(filename, place.path, error.args[0])
            (stored, attributes), mappings = self._by_library(place), None
        return DescribedDataset(place, stored, datatype_of(stored.datatype), attributes, mappings)

    def _by_library(self, place: Place) -> tuple[StoredDataset, list[Attribute]]:
        from _multitables.index.types import by_library

        options = place.file.fingerprint.for_library(self.open_options)
        return by_library.described(place.file.filename, place.path, options)

    def _trusted(self, index: ChunkIndex) -> ChunkIndex:
        """Return the index, if the core reads the dataset or a library may."""
        if self._options.trusted:
            return index
        if reason := index.reason or index.kind.why_library(_core.native_filters()):
            raise hdf5_errors.unsupported("untrusted", index.filename, index.path, reason)
        return index

    def _raw(self, filename: str, stored: StoredDataset) -> tuple[list[Piece], int] | None:
        from _multitables.index.files.external_files import whole_pieces

        return whole_pieces(filename, stored, self.files.reach, self._options.storage)

    def _reason(self, part: FieldType, stored: StoredDataset, raw: object) -> str:
        """Say why the stored bytes are not the delivered bytes; "" if they are."""
        if not part.element.direct:
            return part.element.reason
        if self._options.kind == "split":
            return "the file is split over two"
        if stored.external_files and not raw:
            return "its bytes lie in external files"
        return REASONS.get(stored.layout, "")


def _kind(dataset: DescribedDataset, part: FieldType) -> Kind:
    stored = dataset.stored
    pipeline = hdf5_metadata.pipeline_of(stored.filters)
    # Where HDF5 writes no fill value, it reads none either: memory stays as it was, here zero.
    fill = b"" if stored.fill_is_never_written else stored.fill_value
    library = part.element.library or hdf5_metadata.library_for(dataset.pytables, pipeline)
    size = stored.element_bytes
    return Kind(part, size, pipeline, fill or bytes(size), library)


def _mappings(place: Place, stored: StoredDataset) -> Mappings:
    assert stored.mappings is not None
    return place.file.metadata.mappings(*stored.mappings)
