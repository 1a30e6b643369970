"""Describes many objects of several files at once, in columns.

Law
---
1. One call of the core describes all objects of a file. An object's number is its row.
2. A dataset is `ALONE` if its storage is special (virtual, external) or the core does not read it:
   it is indexed separately.
3. Nothing is checked of chunks here: readers check each before they fetch it.

This file must never know patterns, items or streams.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.index import chunk_index, hdf5_metadata
from _multitables.index.chunk_index import NO_CHUNKS, U64, ChunkIndex, Records, SourceFile
from _multitables.index.element_type import ElementType, FieldType, field_type
from _multitables.index.hdf5_metadata import FilterSpec
from _multitables.index.kind import Kind as StoredKind
from _multitables.index.numpy_type import Unsupported, datatype_of
from _multitables.index.open_files import OpenFile
from _multitables.index.runs import I64, Places, Run, distinct
from _multitables.index.saved.metadata import SavedMetadata
from _multitables.index.whole_object import WholeObject

ALONE, NO_DATASET = _core.SURVEY_ALONE, _core.SURVEY_NO_DATASET


@dataclass(frozen=True)
class Kind:
    """What some datasets have in common."""

    #: "compact", "contiguous" or "chunked".
    layout: str
    element: ElementType
    element_bytes: int
    pipeline: tuple[FilterSpec, ...]
    #: One element.
    fill_value: bytes
    library: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of one element as the user sees it; its dims are further dims of the dataset."""
        return self.element.dtype


#: What each object has.
OF_OBJECTS = ("file", "kind", "rank", "offset", "dims_at", "n_chunks", "chunks_at")
#: The attribute that names a dimension scale.
SCALE_NAME = "NAME"
#: A file and the offsets of objects -> their paths; "" if a path is not known.
Paths = Callable[[OpenFile, I64], list[str]]
#: Name and value of an attribute as they are stored: datatype, dims (None: null), elements.
Stored = tuple[bytes, "tuple[int, ...] | None", bytes]


@dataclass(frozen=True)
class Survey:
    """What objects are, by their numbers."""

    places: Places
    files: tuple[OpenFile, ...]
    kinds: tuple[Kind, ...]
    #: Of each object: its file, its kind (or `ALONE`, or `NO_DATASET`), its dims and chunks, and
    #: where these begin in the columns below.
    file: I64
    kind: I64
    rank: I64
    #: Where its header is in the file.
    offset: I64 = field(repr=False)
    dims_at: I64
    n_chunks: I64
    chunks_at: I64
    #: Where datasets have no chunks, their extents are 0.
    dims: U64 = field(repr=False)
    chunk_dims: U64 = field(repr=False)
    chunks: Records = field(repr=False)
    #: Of each file: the elements of its compact datasets, in which their offsets count.
    inline: tuple[bytes, ...] = field(repr=False)
    #: Dimension scales: rows of object, axis and the object that is the scale, by object; and where
    #: those of each object begin.
    scales: I64 = field(repr=False)
    scales_at: I64 = field(repr=False)
    #: Object -> the attributes that were asked for.
    attributes: dict[int, dict[str, Stored]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def dims_of(self, number: int) -> tuple[int, ...]:
        """Return the dims of a dataset; () of a scalar."""
        at = int(self.dims_at[number])
        return tuple(self.dims[at : at + int(self.rank[number])].tolist())

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of all datasets, as the user sees them."""
        dims, ends = self.dims.tolist(), (self.dims_at + self.rank).tolist()
        inner = [kind.dtype.shape for kind in self.kinds]
        begins, kinds = self.dims_at.tolist(), self.kind.tolist()
        return [
            (*dims[begin:end], *inner[kind]) if kind < NO_DATASET else ()
            for begin, end, kind in zip(begins, ends, kinds, strict=True)
        ]

    def index(self, number: int) -> ChunkIndex:
        """Return the index of a dataset that is not alone, for errors that name it."""
        place, kind = self.places[number], self.kinds[int(self.kind[number])]
        dims, at = self.dims_of(number), int(self.dims_at[number])
        chunk_dims = tuple(self.chunk_dims[at : at + len(dims)].tolist())
        first = int(self.chunks_at[number])
        chunks = self.chunks[first : first + int(self.n_chunks[number])]
        inline = self.inline[int(self.file[number])] if kind.layout == "compact" else b""
        stored = (kind.element_bytes, kind.pipeline, kind.fill_value, kind.library)
        of = StoredKind(FieldType(kind.element, 0), *stored)
        return chunk_index.Stored(
            SourceFile(place.file.filename, place.file.fingerprint),
            place.path,
            of,
            dims or (1,),
            (chunk_dims or (1,)) if kind.layout == "chunked" else None,
            chunks=chunks,
            inline=inline,
        )


def survey(
    runs: Sequence[Run],
    native_filters: Container[int],
    *,
    is_split: bool = False,
    scale_paths: Paths | None = None,
    attributes: Sequence[str] = (),
) -> Survey:
    """Describe objects.

    Parameters
    ----------
    native_filters : container of int
        The filters that readers decode. A dataset with another one is `ALONE`.
    is_split : bool
        Data lies in another file, so that all datasets are `ALONE`.
    scale_paths : callable, optional
        Describe the dimension scales, too, as the objects after those of `runs`. It tells their
        paths where they are known.
    attributes : sequence of str
        Names of attributes to return.
    """
    columns = _Columns(native_filters, is_split)
    columns.tell(runs, scale_paths is not None, attributes)
    if scale_paths is not None:
        with_path, without = columns.new_scales(scale_paths)
        columns.tell(with_path, False, [])
        columns.tell(without, False, [SCALE_NAME])
    return columns.joined()


def _told(
    file: OpenFile, offsets: U64, with_scales: bool, names: list[bytes]
) -> Iterator[tuple[I64, dict[str, Any] | None]]:
    """Yield the objects by their numbers with their survey, which is None if the core cannot read.

    Attributes are told by the file only.
    """
    metadata: Any = file.metadata
    rows = np.arange(len(offsets))
    if isinstance(metadata, SavedMetadata):
        saved = None if names else metadata.survey(offsets, with_scales)
        if saved is not None:
            yield np.flatnonzero(saved[0]), saved[1]
            rows = np.flatnonzero(~saved[0])
        if not len(rows):
            return
        metadata = metadata.file
    if isinstance(metadata, WholeObject):
        metadata = metadata.file
    if not isinstance(metadata, _core.MetadataFile):
        yield rows, None
    elif len(rows):
        yield rows, _core.survey(metadata, offsets[rows].tolist(), with_scales, names)


class _Columns:
    """Columns of objects, while they are put together."""

    def __init__(self, native_filters: Container[int], is_split: bool) -> None:
        self._native, self._is_split = native_filters, is_split
        #: Of each file: object, axis and offset of the scale's header.
        self._scales: list[list[I64]] = []
        self._attributes: dict[int, dict[str, Stored]] = {}
        self._runs: list[Run] = []
        self._files: dict[OpenFile, int] = {}
        self._kinds: list[Kind] = []
        self._long: dict[str, list[Any]] = {name: [np.zeros(0, np.int64)] for name in OF_OBJECTS}
        self._long |= {"dims": [], "chunk_dims": [], "chunks": []}
        self._inline: list[bytearray] = []
        self._n_objects = self._n_dims = self._n_chunks = 0

    def tell(self, runs: Sequence[Run], with_scales: bool, names: Sequence[str]) -> None:
        """Add objects."""
        for run in runs:
            if run.file not in self._files:
                self._files[run.file] = len(self._files)
                self._inline.append(bytearray())
                self._scales.append([])
        of_run = [self._files[run.file] for run in runs]
        n_objects = np.array([len(run.names) for run in runs], np.int64)
        file = np.repeat(np.array(of_run, np.int64), n_objects)
        offsets = np.concatenate([np.zeros(0, np.int64), *(run.offsets for run in runs)])
        columns = {name: np.zeros(len(file), np.int64) for name in OF_OBJECTS}
        columns["file"], columns["kind"][:] = file, ALONE
        columns["offset"] = np.maximum(offsets, 0)
        stored_names = [name.encode("utf-8", "surrogateescape") for name in names]
        for one, number in self._files.items():
            objects = np.flatnonzero(file == number)
            stored = columns["offset"][objects].astype(np.uint64)
            for rows, told in _told(one, stored, with_scales, stored_names) if len(objects) else ():
                if told is None:
                    kinds = [one.metadata.kind(at) for at in stored[rows].tolist()]
                    is_other = np.array([kind != "dataset" for kind in kinds], bool)
                    columns["kind"][objects[rows[is_other]]] = NO_DATASET
                else:
                    self._add(columns, number, objects[rows], told)
                    self._add_values(number, self._n_objects + objects[rows], told, names)
        self._runs += runs
        self._n_objects += len(file)
        for name, column in columns.items():
            self._long[name].append(column)

    def _add(self, columns: dict[str, I64], file: int, rows: I64, told: dict[str, Any]) -> None:
        """Add the numbers that were told of the objects of a file."""
        of_kind = np.array([*(self._known(one) for one in told["kinds"]), ALONE], np.int64)
        kind = told["kind"].astype(np.int64)
        is_one = kind < NO_DATASET
        columns["kind"][rows] = np.where(is_one, of_kind[np.where(is_one, kind, -1)], kind)
        rank, n_chunks = told["rank"].astype(np.int64), told["n_chunks"].astype(np.int64)
        columns["rank"][rows], columns["n_chunks"][rows] = rank, n_chunks
        columns["dims_at"][rows] = self._n_dims + np.cumsum(rank) - rank
        columns["chunks_at"][rows] = begins = self._n_chunks + np.cumsum(n_chunks) - n_chunks
        inline, chunks = self._inline[file], told["chunks"]
        if len(inline) and told["inline"]:  # the file has elements already
            layouts = [one["layout"] == "compact" for one in told["kinds"]]
            compact = np.array([*layouts, False])[np.where(is_one, kind, -1)] & (n_chunks > 0)
            chunks["byte_offset"][begins[compact] - self._n_chunks] += np.uint64(len(inline))
        inline += told["inline"]
        for name in ("dims", "chunk_dims", "chunks"):
            self._long[name].append(told[name])
        self._n_dims += len(told["dims"])
        self._n_chunks += len(chunks)

    def _add_values(
        self, file: int, numbers: I64, told: dict[str, Any], names: Sequence[str]
    ) -> None:
        """Add the scales and attributes of the objects of a file."""
        scales = told["scales"].reshape(-1, 3).astype(np.int64)
        scales[:, 0] = numbers[scales[:, 0]]
        self._scales[file].append(scales)
        for row, name, datatype, dims, elements in told["attributes"]:
            found = self._attributes.setdefault(int(numbers[row]), {})
            found[names[name]] = datatype, dims, elements

    def new_scales(self, paths: Paths) -> tuple[list[Run], list[Run]]:
        """Return the scales that are new: first the ones with a path, then the ones without."""
        file, offset = (np.concatenate(self._long[name]) for name in ("file", "offset"))
        runs: tuple[list[Run], list[Run]] = [], []
        for one, number in self._files.items():
            scales = [part[:, 2] for part in self._scales[number]]
            wanted = distinct(np.concatenate([np.zeros(0, np.int64), *scales]))
            known = distinct(offset[file == number])
            new = wanted[np.searchsorted(known, wanted, "right") == np.searchsorted(known, wanted)]
            names = paths(one, new)
            for of, is_wanted in zip(runs, (bool, operator.not_), strict=True):
                at = [number for number, name in enumerate(names) if is_wanted(name)]
                of.append(Run(one, "", [names[number] for number in at], new[at]))
        return runs

    def _joined_scales(self) -> tuple[I64, I64]:
        """Return the scales by the number of the object, and where those of each begin."""
        file, offset = (np.concatenate(self._long[name]) for name in ("file", "offset"))
        parts = [np.zeros((0, 3), np.int64)]
        for number, of_file in enumerate(self._scales):
            scales = np.concatenate([parts[0], *of_file])
            numbers = np.flatnonzero(file == number)
            in_order = numbers[np.argsort(offset[numbers], kind="stable")]
            at = np.searchsorted(offset[in_order], scales[:, 2])
            scales[:, 2] = in_order[at] if len(scales) else scales[:, 2]
            parts.append(scales)
        joined = np.concatenate(parts)
        joined = joined[np.argsort(joined[:, 0], kind="stable")]
        return joined, np.searchsorted(joined[:, 0], np.arange(len(file) + 1))

    def joined(self) -> Survey:
        """Return all that was told."""
        nothing, long = np.zeros(0, np.uint64), self._long
        scales, scales_at = self._joined_scales()
        return Survey(
            places=Places(self._runs),
            files=tuple(self._files),
            kinds=tuple(self._kinds),
            **{name: np.concatenate(long[name]) for name in OF_OBJECTS},
            dims=np.concatenate([nothing, *long["dims"]]),
            chunk_dims=np.concatenate([nothing, *long["chunk_dims"]]),
            chunks=np.concatenate([NO_CHUNKS, *long["chunks"]]),
            inline=tuple(map(bytes, self._inline)),
            scales=scales,
            scales_at=scales_at,
            attributes=self._attributes,
        )

    def _known(self, told: dict[str, Any]) -> int:
        """Return the number of a kind, or that its datasets are alone."""
        kind = _kind(told)
        if (
            kind is None
            or self._is_split
            or any(spec.id not in self._native for spec in kind.pipeline)
        ):
            return ALONE
        self._kinds.append(kind)
        return len(self._kinds) - 1


def _kind(told: dict[str, Any]) -> Kind | None:
    pytables = told["class"].rstrip(b"\0") in hdf5_metadata.PYTABLES_CLASSES
    try:
        element = field_type(datatype_of(told["datatype"]), None, pytables).element
    except Unsupported:
        return None
    if not element.direct or element.converted_bytes or not told["element_bytes"]:
        return None
    pipeline = hdf5_metadata.pipeline_of(told["filters"])
    return Kind(
        layout=told["layout"],
        element=element,
        element_bytes=told["element_bytes"],
        pipeline=pipeline,
        fill_value=told["fill_value"] or bytes(told["element_bytes"]),
        library=element.library or hdf5_metadata.library_for(pytables, pipeline),
    )
