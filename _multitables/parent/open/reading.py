"""The elements of one dataset, read into arrays: by the core in this process, or by a library.

Law
---
1. The stored bytes of a result are read once, straight into it. Where they are not yet what h5py
   gives (strings and sequences of any length, references), they are decoded after.
2. A column is read by itself: no other bytes of its elements are delivered.
3. What the core cannot read is asked of the library: the same selection.
4. A failure has the address that a `Reader`'s has.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables._core import Datatype
from _multitables.elements.values import decode
from _multitables.errors import MissingFieldError, UnsupportedDatasetError, note
from _multitables.index.chunk_index import ChunkIndex, changed
from _multitables.index.datasets.described import plain_table
from _multitables.index.datasets.source import Source
from _multitables.index.opened.open_files import Place
from _multitables.index.types.element_type import FieldType, flat, stored_type
from _multitables.index.types.numpy_type import Unsupported, numpy_dtype
from _multitables.parent.open.kept import kept
from _multitables.parent.open.results import new_array
from _multitables.plan.dataset_table import DatasetTable, lookup_table
from _multitables.select.h5py_grammar import Names
from _multitables.wire.plan_bytes import made_table

if TYPE_CHECKING:
    from _multitables.parent.open.library import Library
    from _multitables.select.hyperslab import Hyperslab
    from _multitables.select.selection import DatasetInfo, Step

Array = npt.NDArray[Any]


class Shared(Protocol):
    """What is asked of an open file that a dataset was taken from."""

    @property
    def source(self) -> Source:
        """Indexes datasets."""

    @property
    def reader(self) -> _core.LocalReader:
        """Threads and decoded chunks, shared by all datasets of the file."""

    @property
    def library(self) -> Library:
        """Reads what the core does not."""


@dataclass(slots=True, eq=False, repr=False)
class Part:
    """A dataset, or one column of it."""

    #: As it is delivered, of one element, and the axes that elements add to the dataset's.
    dtype: np.dtype[Any]
    inner: tuple[int, ...]
    #: Why a library reads it, or "".
    reason: str
    core: _core.LocalDataset | None


class ElementKind(Protocol):
    """The element type of a dataset."""

    @property
    def readable(self) -> tuple[Datatype, np.dtype[Any]]:
        """The core's description and the dtype, without fields whose type NumPy lacks."""

    def part(self, field: str | None) -> FieldType:
        """Return what one field is, or all of it."""


class Contents:
    """Reads the elements of one dataset; may be used by any number of threads.

    Parameters
    ----------
    shared : Shared
        The open file.
    place : Place
        Where the dataset is.
    stored : StoredDataset
        How it is stored.
    kind : ElementKind
        What its elements are.

    Raises
    ------
    FileOpenError, CorruptFileError
        Its structure is damaged, or the file is truncated.
    """

    def __init__(
        self,
        shared: Shared,
        place: Place,
        stored: _core.StoredDataset,
        kind: ElementKind,
    ) -> None:
        self._reader, self._source, self._place = shared.reader, shared.source, place
        self._said, self._dims, self._type = stored, stored.dims, kind
        dims = self._dims
        self._datatype, self._dtype = kind.readable
        self._stored: ChunkIndex | None = None
        delivered = _delivered(kind, None)
        base = flat(self._dtype).base
        self._is_direct = delivered is not None and delivered.element.dtype.base == base
        whole = self._made("")
        self._parts = {"": whole}
        self._reason = whole.reason
        self._like = whole.dtype, dims + whole.inner
        #: Reads boxes. None: elements are decoded after it, or a library reads them.
        self.boxes: _core.LocalDataset | None = None
        if self._is_direct and dims and 0 not in dims + whole.inner:
            self.boxes = whole.core

    def room(self, shape: tuple[int, ...], out: Array | None = None) -> Array:
        """Return an array for elements of the dataset: `out`, if it is one."""
        return new_array(shape + self._parts[""].inner, self._like[0], out)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its elements lie in other files."""
        return self._said.layout == "virtual" or bool(self._said.external_files)

    @kept
    def _info(self) -> DatasetInfo:
        return self._described(*self._like)

    def _described(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> DatasetInfo:
        from _multitables.select.selection import DatasetInfo

        return DatasetInfo(
            filename=self._place.file.filename,
            path=self._place.path,
            kind="array",
            shape=shape,
            dtype=dtype,
            n_dims=len(self._dims),
            is_numpys=True,
        )

    # ---- reading

    def read(
        self,
        shared: Shared,
        steps: tuple[Step, ...],
        names: Names = None,
        out: Array | None = None,
    ) -> Array:
        """Read a selection.

        Parameters
        ----------
        shared : Shared
            Has the library, if one is needed.
        steps : tuple
            NumPy's indexes, one after another, of the dataset's own axes.
        names : str or tuple of str, optional
            A field, or several as a packed compound.
        out : ndarray, optional
            Receives the result, if it has its shape and dtype; whether it did, ``is`` tells.

        Raises
        ------
        MissingFieldError
            No such field.
        IndexError, ValueError, TypeError
            As NumPy.
        SubprocessException, FileOpenError
            What is stored cannot be had, as of a `Reader`.
        """
        if not self._reason:
            try:
                return self._natively(steps, names, out)
            except _core.ReadFailed as failure:
                from _multitables.parent.readers import error_report

                record = error_report.Record.of(failure.args)
                if record.kind != "filter_unknown":
                    raise self.error(failure) from None
                self._reason = record.text or "a filter that the core does not know"
                note("%r is read by a library: %s", self._place.path, self._reason)
                self.boxes = None
        return self._by_library(shared.library, steps, names)

    def _natively(self, steps: tuple[Step, ...], names: Names, out: Array | None) -> Array:
        if not self._is_direct:
            return self._decoded(steps, names)
        if isinstance(names, tuple):
            return self._taken(steps, out, *self._packed(names))
        return self._taken(steps if names is None else (*steps, names), out)

    def _taken(
        self,
        steps: tuple[Step, ...],
        out: Array | None = None,
        runs: tuple[tuple[int, int], ...] = (),
        dtype: np.dtype[Any] | None = None,
    ) -> Array:
        """Read elements, or these runs of their bytes as elements of this dtype."""
        slab, rest = self._planned(self._info, steps)
        if runs and dtype is not None:
            n_bytes = sum(length for _, length in runs)
            slab = replace(slab, runs=runs, element_bytes=n_bytes, dtype=dtype)
        out = new_array(slab.shape, slab.dtype, None if rest else out)
        part = self._part(slab.field)
        if out.nbytes and part.core is not None:
            from _multitables.wire.request_bytes import encode_hyperslab

            part.core.read(encode_hyperslab(slab), out)
        for step in rest:
            out = out[step]
        return out

    def _planned(
        self, info: DatasetInfo, steps: tuple[Step, ...]
    ) -> tuple[Hyperslab, tuple[Step, ...]]:
        """Part steps into what the core does at once, and what is left for NumPy."""
        from _multitables.select.lazy_view import Range
        from _multitables.select.normalize import slab_of

        try:
            slab = slab_of(info, steps)
        except KeyError as error:
            raise self._no_field(*error.args) from None
        if slab is None:  # which it never is of all of a dataset
            slab, rest = self._planned(info, steps[:-1])
            return slab, (*rest, steps[-1])
        if not info.n_dims:  # to the core, a scalar is one row
            slab = replace(slab, axes=(Range(0, 1, 1),))
        return slab, ()

    def error(self, failure: _core.ReadFailed) -> Exception:
        """Return what a `Reader` would raise for a failure of the core."""
        from _multitables.parent.readers import error_report
        from _multitables.parent.readers.place import place_of_request

        part, record = self._parts[""], error_report.Record.of(failure.args)
        chunk = None
        if part.core is not None and record.chunk is not None:
            chunk = part.core.chunk(record.chunk)
        place = place_of_request(_table(self._index("")).of_chunk(record.chunk), chunk)
        return error_report.task_error(place, record)

    # ---- fields

    def _packed(self, names: tuple[str, ...]) -> tuple[tuple[tuple[int, int], ...], np.dtype[Any]]:
        """Return where fields lie in one element, and the packed dtype of all of them."""
        fields: Any = self._dtype.fields or {}
        for name in names:
            if name not in fields:
                raise self._no_field(name, list(fields))
        runs = tuple((fields[name][1], fields[name][0].itemsize) for name in names)
        return runs, np.dtype([(name, fields[name][0]) for name in names])

    def _no_field(self, name: str, known: list[str]) -> MissingFieldError:
        info = self._info
        return MissingFieldError(
            f"no field {name!r} in {info.path!r} of {info.filename!r} "
            f"(expected {', '.join(map(repr, known)) or 'none'})",
            path=info.path,
            filename=info.filename,
        )

    # ---- what has to be decoded

    def _decoded(self, steps: tuple[Step, ...], names: Names) -> Array:
        file, datatype = self._place.file, self._datatype
        if names is None:
            return decode(self._taken(steps), datatype, file)
        members = {name: (at, kind) for name, at, kind in datatype.fields}
        inner = ""  # a path inside the field
        if isinstance(names, str) and names not in members:
            names, _, inner = names.partition("/")
        listed = (names,) if isinstance(names, str) else names
        packed = self._packed(listed)[1]
        found = [members[name] for name in listed]
        runs = tuple((at, kind.size) for at, kind in found)
        starts = [0, *itertools.accumulate(length for _, length in runs)]
        stored = self._taken(steps, None, runs, np.dtype(f"V{starts[-1]}"))
        if isinstance(names, str):
            array = decode(stored, found[0][1], file)
            for name in filter(None, inner.split("/")):
                array = array[name]
            return array
        kinds = [kind for _, kind in found]
        every = Datatype.compound(starts[-1], list(zip(names, starts, kinds, strict=False)))
        return _with_fields(decode(stored, every, file), packed)

    # ---- what a library reads

    def _by_library(self, library: Library, steps: tuple[Step, ...], names: Names) -> Array:
        from _multitables.select.selection import as_key

        steps = tuple(map(as_key, steps))
        dtype, index = flat(self._dtype), self._index("")
        info = self._described(dtype.base, self._dims + dtype.shape)
        part = index.kind.part
        part = FieldType(replace(part.element, dtype=dtype), part.offset)
        index = replace(_direct(index, part), dims=self._dims)
        if self._dtype.hasobject:
            return self._objects(library, index, steps)
        if isinstance(names, str):
            steps = (*steps, names)
        slab, rest = self._planned(info, steps)
        n_bytes = math.prod(slab.shape) * slab.dtype.itemsize
        n_asked = len(steps) - len(rest)
        array = library.read(index, steps[:n_asked], n_bytes, self._reason)
        for step in rest:
            array = array[step]
        if isinstance(names, tuple):
            return _with_fields(array, self._packed(names)[1])
        return array

    def _objects(self, library: Library, index: ChunkIndex, steps: tuple[Step, ...]) -> Array:
        """Read strings, or sequences of numbers, of any length."""
        kind, atom = self._datatype.kind, np.dtype(np.uint8)
        if kind == "sequence":
            atom = numpy_dtype(self._datatype.base)
        if kind not in ("variable_string", "sequence") or atom.hasobject:
            raise UnsupportedDatasetError(
                f"{index.path!r} in {index.filename!r} has references, or strings or sequences "
                f"inside of others, and the core cannot read it: {self._reason}",
                good="Other datasets are not affected",
                advice="Read it with h5py",
                path=index.path,
                filename=index.filename,
            )
        slab, rest = self._planned(self._described(atom, index.shape), steps)
        found = library.objects(index, steps[: len(steps) - len(rest)], atom, self._reason)
        made = np.empty(len(found), self._dtype)
        for number, one in enumerate(found):
            made[number] = one.copy() if kind == "sequence" else one.tobytes()
        array: Array = made.reshape(slab.shape)
        for step in rest:
            array = array[step]
        return array

    # ---- parts

    def _part(self, field: str) -> Part:
        part = self._parts.get(field)
        if part is None:  # two threads may make it: a lock could be held for ever after a fork
            part = self._parts.setdefault(field, self._made(field))
        return part

    def _made(self, field: str) -> Part:
        """Make what reads a field, from the file's own words where it is stored plainly."""
        delivered = _delivered(self._type, field or None) if self._is_direct else None
        if delivered is None:
            delivered = stored_type(self._datatype.size)
        element = delivered.element.dtype
        dtype, inner = element.base, delivered.leading_dims + element.shape
        core = plain_table(self._place.file, self._said, delivered)
        if core is not None:
            return Part(dtype, inner, "", self._reader.dataset(core))
        table = _table(self._index(field))
        (dataset,) = table.datasets
        read = None if dataset.reason else self._reader.dataset(made_table(table))
        return Part(dtype, inner, dataset.reason, read)

    def _index(self, field: str) -> ChunkIndex:
        """Return the index of a field: a library, an error or data that is not plain needs it."""
        if self._stored is None:
            self._stored = self._source.index_at(self._place, as_stored=True)
        delivered = _delivered(self._type, field or None) if self._is_direct else None
        return self._stored if delivered is None else _direct(self._stored, delivered)


def _table(index: ChunkIndex) -> DatasetTable:
    return lookup_table(index, direct=False, native_filters=_core.native_filters())


def _with_fields(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the fields that a packed dtype has."""
    made = np.empty(array.shape, dtype)
    for name in dtype.names or ():
        made[name] = array[name]
    return made


def _delivered(kind: ElementKind, field: str | None) -> FieldType | None:
    """Return the part of elements to deliver, if the core makes the values that h5py gives."""
    try:
        part = kind.part(field)
    except Unsupported:
        return None
    return part if part.element.direct else None


def _direct(index: ChunkIndex, part: FieldType) -> ChunkIndex:
    """Return the index of elements, or of a field, as h5py gives them."""
    return changed(index, kind=changed(index.kind, part=part))
