"""The metadata of a file from references of Kerchunk, as the core would tell it of an HDF5 file.

Law
---
1. An offset is the number of a node. Chunks are ranges of targets (files or objects), the first of
   which stands for the file; or they are in the references themselves.
2. What HDF5 has no form for, or lies elsewhere, is an error of errors.py: no HDF5 library is asked
   for it, as it might know another dataset by that path.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np

from _multitables import _core
from _multitables.errors import FileOpenError, UnsupportedDatasetError
from _multitables.index.chunk_index import CHUNK, I64, U64, Records, SourceFile
from _multitables.index.files.reach import Reach
from _multitables.index.files.stored_files import changed
from _multitables.index.kerchunk import references
from _multitables.index.kerchunk.datatype_message import (
    TEXT_BYTES,
    VARIABLE_TEXT,
    message,
    text_element,
    texts,
)
from _multitables.index.kerchunk.layout import first_read
from _multitables.index.kerchunk.references import References, ReferencesError
from _multitables.index.kerchunk.store import Store
from _multitables.index.kerchunk.targets import Targets
from _multitables.index.kerchunk.zarr_types import (
    NotRepresentableError,
    fill_from_zarr,
    filters_from_zarr,
    from_zarr,
)
from _multitables.index.metadata import Leading, names_of
from _multitables.index.types.hdf5_metadata import Attribute
from _multitables.remote.options import StorageOptions

#: What Zarr keeps in attributes for itself.
HIDDEN = {"_ARRAY_DIMENSIONS"}
#: Kerchunk puts small chunks into the references. Those of an array travel with its index.
MAX_INLINE_BYTES = 64 << 20
MAX_RANK = 32
#: What values of other types, and such that are too deep, raise.
WRONG = (
    AttributeError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
#: Of which text arrays are made; others that hold texts are JSON.
PLAIN = (str, bool, int, float)


def open_references(
    filename: str, reach: Reach, storage: StorageOptions, directory: str = ""
) -> tuple[SourceFile, Leading]:
    """Return the first file that references are to, and what they say of it.

    Raises
    ------
    FileOpenError, StoreError, LinkRefusedError
        They are not as specified, or to a file that is missing, cannot be read or is out of reach.
    OSError
        They cannot be read.
    """
    store = Store(storage, reach)
    try:
        metadata = ReferencesMetadata(references.read(filename, store), filename, store, directory)
    except ReferencesError as error:
        raise FileOpenError(
            f"{filename!r} holds no references of Kerchunk that can be used: {error}",
            advice="Write them anew",
            filename=filename,
        ) from None
    return metadata.own, metadata


@dataclass(frozen=True, slots=True)
class Table:
    """The stored chunks of an array."""

    #: Their source is 0 of chunks in these bytes, else the number of the target, from 1 on.
    chunks: Records
    inline: bytes
    urls: tuple[str, ...]


class ReferencesMetadata(Leading):
    """As `_core.MetadataFile`. Any thread may use it."""

    root = user_block = 0
    is_swmr = False

    def __init__(self, of: References, filename: str, store: Store, directory: str) -> None:
        self._references, self._filename, self._store = of, filename, store
        #: Of the references.
        self.fingerprint = of.fingerprint
        self._targets = Targets(filename.rstrip("/"), store, directory)
        self._paths = sorted({*of.groups, *of.arrays})
        self._numbers = {path: number for number, path in enumerate(self._paths)}
        self._children: dict[str, list[str]] = {}
        for path in self._paths[1:]:
            self._children.setdefault(path.rpartition("/")[0], []).append(path)
        self._texts: list[bytes] = []
        self._text_numbers: dict[bytes, int] = {}
        #: The last table asked for: callers ask for the same one several times.
        self._last: tuple[str, Table | None] = "", None
        #: The first target: the references themselves, if all bytes are in them.
        self.own = self._own()

    def _own(self) -> SourceFile:
        for path in self._references.arrays:
            # What is wrong with an array is told when it is asked for.
            with contextlib.suppress(ReferencesError):
                for _, place in self._references.chunks(path):
                    if not isinstance(place, bytes):
                        return self._targets.files([place[0]])[0]
        return SourceFile(first_read(self._filename), self.fingerprint)

    @property
    def requests(self) -> tuple[int, int]:
        """Requests of stores, for references and the states of targets, and the bytes of these."""
        return self._store.requests

    def lock(self, filename: str) -> None:
        """Raise an OSError if the references changed; no lock is held."""
        if changed(first_read(self._filename), self.fingerprint):
            raise OSError(f"{self._filename!r} changed")
        self._targets.forget()
        self._last = "", None

    def release(self) -> None:
        """Hold no lock."""

    def close(self) -> None:
        """Hold no file."""

    def find(self, path: bytes, start: int | None = None) -> tuple[Any, ...]:
        """Where a path leads."""
        at = "" if path[:1] == b"/" else self._paths[start or 0]
        for name in path.decode("utf-8", "surrogateescape").split("/"):
            if name in ("", "."):
                continue
            if at in self._references.arrays:
                return ("not_a_group", self._numbers[at])
            inside = f"{at}/{name}" if at else name
            if inside not in self._numbers:
                return ("missing", self._numbers[at])
            at = inside
        return ("object", self._numbers[at])

    def find_from(self, offsets: U64, path: bytes) -> I64:
        """Where a path leads from each of some groups."""
        found = (self.find(path, offset) for offset in offsets.tolist())
        leads = [of[1] if of[0] == "object" else _core.FIND_NOWHERE for of in found]
        return np.array(leads, np.int64)

    def kind(self, offset: int) -> str:
        """What a node is."""
        return "dataset" if self._paths[offset] in self._references.arrays else "group"

    def survey(self, offsets: U64, _scales: bool, _names: Sequence[bytes]) -> _core.Survey:
        """What many nodes are: each array is indexed by itself."""
        nodes = offsets.tolist()
        return _core.Survey.alone(nodes, [self.kind(node) == "dataset" for node in nodes])

    def links(self, offset: int) -> list[tuple[Any, ...]]:
        """What is in a group."""
        return [
            (_stored(path.rpartition("/")[2]), None, "hard", self._numbers[path])
            for path in self._children.get(self._paths[offset], ())
        ]

    def listed(self, offsets: U64) -> tuple[list[tuple[str, ...]], I64]:
        """The names in each of some groups, and their numbers."""
        each = [self._children.get(self._paths[offset], ()) for offset in offsets.tolist()]
        names = [tuple(path.rpartition("/")[2] for path in paths) for paths in each]
        numbers = [self._numbers[path] for paths in each for path in paths]
        return names, np.array(numbers, np.int64)

    def names(self, offset: int) -> list[str | bytes]:
        """The names of a group, in the order in which they are listed."""
        return names_of(self.links(offset))

    def n_links(self, offset: int) -> int:
        """How many links a group has."""
        return len(self.links(offset))

    def link(self, offset: int, name: bytes) -> tuple[Any, ...] | None:
        """The link of this name in a group."""
        return next((link for link in self.links(offset) if link[0] == name), None)

    def attributes(self, offset: int) -> list[Attribute]:
        """The attributes of a node; what has no type of its own is text."""
        path = self._paths[offset]
        told = self._references.attributes.get(path, {})
        try:
            return [
                (_stored(name), number, *self._attribute(value))
                for number, (name, value) in enumerate(told.items())
                if name not in HIDDEN
            ]
        except WRONG as error:
            reason = f"its attributes are no values of HDF5: {error!r:.200}"
            raise self._unsupported(path, reason) from None

    def _attribute(self, value: Any) -> tuple[bytes, tuple[int, ...] | None, bytes]:
        if value is None:
            return message(np.dtype("f4")), None, b""
        texts = np.array(value, object)  # in an array of texts all would be as long as the longest
        parts = texts.ravel().tolist()
        if not any(isinstance(part, str) for part in parts):
            with contextlib.suppress(ValueError, OverflowError):  # ragged; too large a number
                array = np.array(value)
                if array.dtype.kind in "biuf":
                    return message(array.dtype), array.shape, array.tobytes()
        if not parts or not all(isinstance(part, PLAIN) for part in parts):
            texts = np.array(json.dumps(value), object)
        elements = b"".join(self._text(str(part)) for part in texts.ravel().tolist())
        return VARIABLE_TEXT, texts.shape, elements

    def _text(self, text: str) -> bytes:
        """Keep a text; the element of variable length that says where it is."""
        stored = _stored(text)
        number = self._text_numbers.setdefault(stored, len(self._texts))
        if number == len(self._texts):
            self._texts.append(stored)
        return text_element(len(stored), int(bool(stored)), number)

    def global_object(self, heap: int, index: int) -> bytes:
        """A text of an attribute."""
        return self._texts[index]

    def strings(self, descriptors: bytes, each: int) -> list[bytes]:
        """The texts that elements of variable length are."""
        return texts(self.global_object, descriptors, TEXT_BYTES)

    def region(self, heap: int, index: int) -> NoReturn:
        """Zarr has no references, no sequences, and no virtual datasets."""
        raise _core.Unknown("references of Kerchunk have none of it", 0)

    def sequences(self, descriptors: bytes, element_bytes: int, each: int) -> NoReturn:
        """As `region`."""
        self.region(0, 0)

    def mappings(self, heap: int, index: int) -> NoReturn:
        """As `region`."""
        self.region(0, 0)

    def datatype(self, offset: int) -> bytes:
        """The element type of an array."""
        return self.dataset(offset).datatype

    def dataset(self, offset: int) -> _core.StoredDataset:
        """What an array is."""
        path = self._paths[offset]
        try:
            return self._dataset(path, self._references.arrays[path])
        except (NotRepresentableError, ReferencesError) as error:
            raise self._unsupported(path, str(error)) from None
        except WRONG as error:
            raise self._unsupported(path, f"it is incomplete or wrong: {error!r:.200}") from None

    def _unsupported(self, path: str, reason: str) -> UnsupportedDatasetError:
        return UnsupportedDatasetError(
            f"'/{path}' of the references {self._filename!r} cannot be read: {reason}",
            advice="Read it with Zarr and fsspec, or open the file that they are of",
            path=f"/{path}",
            filename=self._filename,
        )

    def _dataset(self, path: str, zarray: Mapping[str, Any]) -> _core.StoredDataset:
        dtype = from_zarr(zarray["dtype"])
        dims, chunk_dims = _dims(zarray["shape"]), _dims(zarray["chunks"])
        if len(chunk_dims) != len(dims) or 0 in chunk_dims:
            raise NotRepresentableError(f"chunks of {chunk_dims} in an array of {dims}")
        if zarray.get("order", "C") != "C" and len(dims) > 1:
            raise NotRepresentableError("elements in the order of Fortran")
        codecs = [*(zarray.get("filters") or ()), zarray.get("compressor")]
        codecs = [codec for codec in codecs if codec is not None]
        chunk_bytes = math.prod(chunk_dims) * dtype.itemsize
        if max(chunk_bytes, math.prod(dims) * dtype.itemsize) >= 2**63:
            raise NotRepresentableError(f"2^63 bytes or more, of the dims {dims}")
        filters = filters_from_zarr(codecs, dtype.itemsize, chunk_bytes)
        fill_value, table = fill_from_zarr(zarray.get("fill_value"), dtype), self._table(path)
        if not dims and codecs:
            raise NotRepresentableError("a scalar that is compressed")
        is_together = not dims and not table.inline and len(table.chunks) > 0
        return _core.StoredDataset(
            dims=dims,
            max_dims=dims,
            datatype=message(dtype),
            element_bytes=dtype.itemsize,
            layout="chunked" if dims else "compact" if table.inline else "contiguous",
            chunk_dims=chunk_dims if dims else None,
            byte_offset=int(table.chunks["byte_offset"][0]) if is_together else None,
            elements=table.inline,
            filters=filters,
            fill_value=fill_value,
        )

    def chunks(self, offset: int) -> Records:
        """The stored chunks of an array, each with its source; see `others`."""
        table = self._table_at(offset)
        numbers = np.array(self._numbered(table)[1], np.uint32)
        chunks = table.chunks.copy()
        chunks["source"] = numbers[chunks["source"]]
        return chunks

    def others(self, offset: int) -> tuple[SourceFile, ...]:
        """The files beside `own` in which chunks of an array lie, from number 1 on.

        Number 0 is `own`, or the bytes in the references if there are any.
        """
        return self._numbered(self._table_at(offset))[0]

    def _numbered(self, table: Table) -> tuple[tuple[SourceFile, ...], list[int]]:
        """Number the files of a table's targets."""
        files = self._targets.files(table.urls)
        numbers: dict[SourceFile | None, int] = {None if table.inline else self.own: 0}
        known = [0, *(numbers.setdefault(file, len(numbers)) for file in files)]
        return tuple(file for file in [*numbers][1:] if file), known

    def _table_at(self, offset: int) -> Table:
        path = self._paths[offset]
        try:
            return self._table(path)
        except (NotRepresentableError, ReferencesError) as error:
            raise self._unsupported(path, str(error)) from None

    def _table(self, path: str) -> Table:
        last, table = self._last
        if table is None or last != path:
            table = self._listed(path)
            self._last = path, table
        return table

    def _listed(self, path: str) -> Table:
        rows: list[tuple[int, int, int, int, bytes]] = []
        numbers: dict[str, int] = {}
        to_end: list[int] = []
        n_inline = 0
        for number, place in self._references.chunks(path):
            if isinstance(place, bytes):
                n_inline += len(place)
                if n_inline > MAX_INLINE_BYTES:
                    raise NotRepresentableError(
                        f"more than {MAX_INLINE_BYTES} bytes of its chunks are in the references "
                        "themselves (write them with inline_threshold=0)"
                    )
                rows.append((number, 0, len(place), 0, place))
                continue
            url, begin, size = place
            source = numbers.setdefault(url, len(numbers) + 1)
            if size is None:
                to_end.append(len(rows))
            rows.append((number, begin, size or 0, source, b""))
        files = self._targets.files(tuple(numbers)) if to_end else []
        for at in to_end:
            number, begin, _, source, _ = rows[at]
            size = max(0, files[source - 1].fingerprint.size_bytes - begin)
            rows[at] = number, begin, size, source, b""
        rows.sort(key=itemgetter(0))
        inline = b"".join(bytes_ for *_, bytes_ in rows if bytes_)
        try:
            chunks = np.array([(*row[:3], 0, row[3]) for row in rows], CHUNK)
        except OverflowError:
            raise ReferencesError(f"a range of {path!r} is not one of a file") from None
        if np.any(chunks["grid_index"][1:] == chunks["grid_index"][:-1]):
            raise ReferencesError(f"{path!r} has a chunk twice")
        here = chunks["source"] == 0
        inside = chunks["stored_size"][here]
        chunks["byte_offset"][here] = np.cumsum(inside) - inside
        return Table(chunks, inline, tuple(numbers))


def _dims(dims: Any) -> tuple[int, ...]:
    if len(dims) > MAX_RANK or not all(type(dim) is int and 0 <= dim < 2**63 for dim in dims):
        raise NotRepresentableError(f"the dims {dims!r:.80}")
    return tuple(dims)


def _stored(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
