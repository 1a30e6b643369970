"""A dataset of an HDF5 file -> `ChunkIndex`: what its rows are and where its bytes lie.

Law
---
1. Opens files for the whole library; h5py is imported when the first one is opened, not before.
2. h5py tells names, types and who wrote a dataset; where its bytes lie is read by the core.
3. Every failure is an exception of errors.py that names the file and the path.

This file must never know readers, rings or options of a stream.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.errors import FileOpenError, MultitablesError, UnsupportedDatasetError
from _multitables.filter_names import PYTABLES
from _multitables.index import hdf5_errors, hdf5_metadata
from _multitables.index.chunk_index import ChunkIndex, Fingerprint
from _multitables.index.element_type import (
    FieldType,
    Unsupported,
    element_type,
    field_type,
    flat,
)
from _multitables.index.hdf5_metadata import FilterSpec
from _multitables.index.open_options import OpenOptions, normal_path, parse_open_options

#: The filter mask of a chunk that no filter was applied to; a pipeline has 32 filters at most.
ALL_FILTERS = 2**32 - 1


def open_source(
    filename: str | os.PathLike[str] | bytes, open_options: Mapping[str, object]
) -> Source:
    """Open an HDF5 file, with options of ``tables.open_file``, to index its datasets.

    Raises
    ------
    OptionsError
        An option that cannot be meant for a stream.
    MissingFileError, FileOpenError
        No such file; not an HDF5 file, truncated, locked by a writer, not allowed.
    """
    return Source(filename, parse_open_options(open_options))


class Source:
    """An open HDF5 file; a context manager."""

    def __init__(self, filename: str | os.PathLike[str] | bytes, open_options: OpenOptions) -> None:
        self._options = open_options
        self._base = os.path.abspath(os.fsdecode(filename))
        self.filename = self._base
        driver: dict[str, str | bytes] = {}
        if open_options.kind == "split":
            meta_ext, raw_ext = open_options.meta_ext, open_options.raw_ext
            driver = {"driver": "split", "meta_ext": meta_ext.encode(), "raw_ext": raw_ext.encode()}
            self.filename = self._base + meta_ext
        self._fingerprint = _fingerprint(self.filename)  # before anything is read
        self._files: dict[str, _core.MetadataFile] = {}
        import h5py

        try:
            self._file = h5py.File(self._base, "r", **driver)
        except hdf5_errors.RAISED as error:
            raise hdf5_errors.cannot_open(self.filename, error) from error
        if self._file.id.get_intent() & h5py.h5f.ACC_RDWR:
            self._file.close()
            raise hdf5_errors.written_here(self.filename)

    @property
    def direct(self) -> bool:
        """Whether the readers bypass the page cache."""
        return self._options.direct

    @property
    def open_options(self) -> dict[str, object]:
        """How a library in a reader opens the file; the values are of JSON's types."""
        if self._options.kind == "split":
            return {**self._options.for_library, "filename": self._base}
        return self._options.for_library

    def close(self) -> None:
        """Close the file. May be called again."""
        self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        with self._dataset(path) as (dataset, name):
            return self._index(dataset, name, field)

    def describe(self, path: str) -> tuple[str, ChunkIndex]:
        """Index one dataset, which may be ragged, and tell what it is.

        Returns
        -------
        kind : str
            "table" (rows with columns), "array" or "vlarray" (ragged).
        index : ChunkIndex
            Of ragged data it says what the data is, but not where: a library reads it. Its dtype
            is that of an atom, which may be a subarray.
        """
        with self._dataset(path) as (dataset, name):
            ragged = hdf5_metadata.ragged_type(dataset)
            if ragged is not None:
                return "vlarray", self._ragged(dataset, name, ragged)
            index = self._index(dataset, name, None)
        is_table = index.dtype.names is not None and len(index.shape) == 1
        return "table" if is_table else "array", index

    @contextlib.contextmanager
    def _dataset(self, path: str) -> Iterator[tuple[Any, str]]:
        """Open a dataset; what HDF5 raises while it is asked becomes an error that names it."""
        name = self._options.root + normal_path(path)
        try:
            yield self._open_dataset(name), name
        except MultitablesError:
            raise
        except _core.Corrupt as error:
            raise hdf5_errors.corrupt(self.filename, name, error) from None
        except _core.Unknown as error:
            raise hdf5_errors.unknown(self.filename, name, error) from None
        except hdf5_errors.RAISED as error:
            raise hdf5_errors.damaged(self.filename, name, error) from error

    def _ragged(self, dataset: Any, name: str, atom: Any) -> ChunkIndex:
        filename, fingerprint, path = self._home(dataset, name)
        dims, pytables = _dims(dataset, filename, name), hdf5_metadata.is_pytables(dataset)
        try:
            element = element_type(atom, pytables)
            if len(dims) != 1:
                raise Unsupported(f"ragged in {len(dims)} dimensions")
            if hdf5_metadata.is_pseudo_atom(dataset):
                raise Unsupported("Python objects or strings")
        except Unsupported as error:
            raise UnsupportedDatasetError(
                f"{name!r} in {filename!r} is ragged, with elements of another kind: {error} "
                "(expected one dimension of numbers, fixed-length strings or compounds of them)",
                advice="Read it with h5py or PyTables",
                path=name,
                filename=filename,
            ) from None
        return ChunkIndex(
            filename=filename,
            path=path,
            fingerprint=fingerprint,
            dtype=flat(element.dtype),
            shape=dims,
            dims=dims,
            chunk_dims=None,
            element_bytes=dataset.get_type().get_size(),
            field_offset=0,
            field_bytes=element.size_bytes,
            layout="library",
            library="tables" if pytables else "h5py",
            reason="ragged",
        )

    def _open_dataset(self, name: str) -> Any:
        import h5py

        try:
            found = h5py.h5o.open(self._file.id, name.encode("utf-8", "surrogateescape"))
        except hdf5_errors.RAISED as error:
            raise hdf5_errors.no_such_path(self._file, self.filename, name, error) from error
        if not isinstance(found, h5py.h5d.DatasetID):
            raise hdf5_errors.no_dataset(found, self.filename, name)
        return found

    def _index(self, dataset: Any, name: str, field: str | None) -> ChunkIndex:
        filename, fingerprint, path = self._home(dataset, name)
        pytables = hdf5_metadata.is_pytables(dataset)
        part = self._field_type(dataset, filename, name, field, pytables)
        _dims(dataset, filename, name)
        metadata = self._metadata(filename)
        offset = _offset(metadata, filename, path)
        stored = metadata.dataset(offset)
        dims, pipeline = stored["dims"], hdf5_metadata.pipeline_of(stored["filters"])
        element = part.element.dtype  # to the user, a subarray's dims are dims of the dataset
        index = ChunkIndex(
            filename=filename,
            path=path,
            fingerprint=fingerprint,
            dtype=element.base,
            shape=dims + part.leading_dims + element.shape,
            dims=dims,
            chunk_dims=stored.get("chunk_dims"),
            element_bytes=dataset.get_type().get_size(),
            field_offset=part.offset,
            field_bytes=part.element.size_bytes,
            layout="library",
            pipeline=pipeline,
            string_fixes=part.element.fixes,
            library=part.element.library or _library_for(pytables, pipeline),
            reason=self._reason(part, stored),
        )
        if index.reason or 0 in index.shape:
            return _replaced(index, layout=index.layout if index.reason else "contiguous")
        # Where HDF5 writes no fill value, it reads none either: memory stays as it was, here zero.
        fill = b"" if stored["fill_is_never_written"] else stored["fill_value"]
        if stored["layout"] == "compact":
            return _at(replace(index, inline=stored["elements"]), 0)
        if stored["layout"] == "chunked":
            return _inside_file(_chunked(index, metadata.chunks(offset), fill))
        if stored["byte_offset"] is None:
            return _replaced(index, layout="contiguous", fill_value=fill)
        return _inside_file(_at(index, stored["byte_offset"]))

    def _metadata(self, filename: str) -> _core.MetadataFile:
        if filename not in self._files:
            self._files[filename] = _core.MetadataFile(filename)
        return self._files[filename]

    def _home(self, dataset: Any, name: str) -> tuple[str, Fingerprint, str]:
        """Return the file of a dataset, which an external link may name, and its path there."""
        import h5py

        home = h5py.h5i.get_file_id(dataset)
        if home == self._file.id or self._options.kind == "split":
            return self.filename, self._fingerprint, name
        filename = os.path.abspath(os.fsdecode(h5py.h5f.get_name(home)))
        if filename == self._base:
            return self.filename, self._fingerprint, name
        inside = h5py.h5i.get_name(dataset)
        path = inside.decode("utf-8", "surrogateescape") if inside else name
        return filename, _fingerprint(filename), path

    def _field_type(
        self, dataset: Any, filename: str, name: str, field: str | None, pytables: bool
    ) -> FieldType:
        try:
            return field_type(dataset.get_type(), field, pytables)
        except Unsupported as error:
            raise UnsupportedDatasetError(
                f"{name!r} in {filename!r} has elements without a fixed size: {error} "
                "(expected numbers, fixed-length strings or compounds of them)",
                advice="Stream the other fields by name, or read it with h5py or PyTables",
                path=name,
                filename=filename,
            ) from None
        except KeyError as error:
            raise hdf5_errors.no_such_field(filename, name, *error.args) from None

    def _reason(self, part: FieldType, stored: dict[str, Any]) -> str:
        """Say why the stored bytes are not the delivered bytes; "" if they are."""
        if not part.element.direct:
            return part.element.reason
        if self._options.kind == "split":
            return "the file is split over two"
        if stored["external_files"]:
            return "its bytes lie in external files"
        return "a virtual dataset" if stored["layout"] == "virtual" else ""


def _offset(metadata: _core.MetadataFile, filename: str, path: str) -> int:
    kind, *where = metadata.find(path.encode("utf-8", "surrogateescape"))
    if kind == "object":
        return int(where[0])
    raise FileOpenError(
        f"{path!r} in {filename!r} cannot be indexed: HDF5 finds it, but its links say {kind!r}",
        advice="Its structure may be damaged: copy the file again from its source",
        filename=filename,
        path=path,
    )


def _at(index: ChunkIndex, offset: int) -> ChunkIndex:
    # More bytes may be stored than the dataset has, never fewer.
    size = math.prod(index.dims) * index.element_bytes
    return _replaced(
        index,
        layout="contiguous",
        grid_index=np.zeros(1, np.uint64),
        byte_offset=np.array([offset], np.uint64),
        stored_size=np.array([size], np.uint64),
        filter_mask=np.zeros(1, np.uint32),
    )


def _chunked(index: ChunkIndex, table: tuple[Any, ...], fill_value: bytes | None) -> ChunkIndex:
    grid_index, byte_offset, stored_size, filter_mask = table
    return _replaced(
        index,
        layout="chunked",
        grid_index=grid_index,
        byte_offset=byte_offset,
        stored_size=stored_size,
        filter_mask=filter_mask,
        fill_value=fill_value,
    )


def _dims(dataset: Any, filename: str, name: str) -> tuple[int, ...]:
    from h5py import h5s

    kind = dataset.get_space().get_simple_extent_type()
    if kind == h5s.SIMPLE:
        return tuple(dataset.shape)
    what = "is a scalar" if kind == h5s.SCALAR else "has a null dataspace (h5py.Empty): no shape"
    raise UnsupportedDatasetError(
        f"{name!r} in {filename!r} {what} (expected at least one dimension)",
        advice=f"Read it with h5py: h5py.File({filename!r})[{name!r}][()]",
        path=name,
        filename=filename,
    )


def _replaced(index: ChunkIndex, **changes: Any) -> ChunkIndex:
    fill = changes.get("fill_value") or bytes(index.element_bytes)
    return replace(index, **{**changes, "fill_value": fill})


def _fingerprint(filename: str) -> Fingerprint:
    try:
        stat = os.stat(filename)
    except OSError as error:
        raise hdf5_errors.cannot_open(filename, error) from None
    if not os.path.isfile(filename):
        raise hdf5_errors.no_file(filename)
    return Fingerprint(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _library_for(pytables: bool, pipeline: tuple[FilterSpec, ...]) -> str:
    own = any(spec.id in PYTABLES for spec in pipeline)
    return "tables" if pytables and own else "h5py"


def _inside_file(index: ChunkIndex) -> ChunkIndex:
    ends = index.byte_offset + index.stored_size
    size = index.fingerprint.size_bytes
    bad = np.flatnonzero((ends > size) | (ends < index.byte_offset))
    if len(bad):
        end = int(ends[bad].max())
        raise FileOpenError(
            f"{index.filename!r} is truncated: {index.path!r} needs its bytes up to {end} "
            f"(expected at least {end} bytes, got {size})",
            advice="Copy the file again from its source or from a backup",
            filename=index.filename,
            path=index.path,
            expected=end,
            got=size,
        )
    return index
