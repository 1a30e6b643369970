"""The loops in which libraries say the structure of a file, and are timed.

Law
---
1. A library tells each dataset once, as its documentation advises: path, shape, type, attributes
   and, where they are asked for, all chunks. What is checked and timed of it is the same for all.
2. The clock starts before the file is opened and stops behind the last dataset; what a library says
   is made comparable without a clock, in `check` only.
3. A library that is not there, or cannot read this, is an answer and no failure.
4. This library's reader of metadata is measured below the face, too (`core`), since the face gives
   away no chunks. No other file of the benchmark imports the inside.
"""

from __future__ import annotations

import hashlib
import importlib
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import stream_loop
from .refusals import AbsentError, CannotReadError, WrongError
from .shell import Loop

#: Of an element of variable length: how long, address of a global heap, number there.
VARIABLE = struct.Struct("<IQI")
#: Path, shape, type, attributes and chunks, as the library gives them; chunks may be None.
See = Callable[[str, Any, Any, dict[Any, Any], Any], None]


def no_call(*_asked: Any) -> Any:
    """What a library has no call for."""
    raise CannotReadError("it has no call that tells this")


@dataclass(frozen=True)
class Library:
    """How one library tells the structure of a file.

    Attributes
    ----------
    objects : callable
        Of a filename, whether chunks are wanted, and a `See`.
    chunks : callable
        Of a filename and a path, the chunks of one dataset.
    count : callable
        How many these are.
    plain_type, plain_attribute : callable
        To NumPy's.
    plain_chunks : callable
        Of chunks and the dataset's shape, to an array of ints: place, byte offset, size, mask.
    proof : callable or None
        Of a filename and a path, in place of chunks that the library does not give away.
    """

    objects: Callable[[str, bool, See], None] = no_call
    chunks: Callable[[str, str], Any] = no_call
    count: Callable[[Any], int] = len
    plain_type: Callable[[Any], str] = lambda kind: np.dtype(kind).str
    plain_attribute: Callable[[Any], Any] = lambda value: value
    plain_chunks: Callable[[Any, Any], Any] = no_call
    proof: Callable[[str, str], None] | None = None


# ---- h5py, and those that have its face


def _by_visititems(
    library: Any, chunks_of: Callable[[Any], Any], attributes_of: Callable[[Any], Any] = dict
) -> Callable[..., None]:
    def objects(filename: str, with_chunks: bool, see: See) -> None:
        with library().File(filename, "r") as file:

            def visit(name: str, found: Any) -> None:
                if hasattr(found, "dtype"):
                    chunked = with_chunks and found.chunks is not None
                    chunks = chunks_of(found) if chunked else None
                    attributes = attributes_of(found.attrs)
                    see(f"/{name}", found.shape, found.dtype, attributes, chunks)

            file.visititems(visit)

    return objects


def _names(attributes: Any) -> dict[str, str]:
    return dict.fromkeys(attributes, "")


def _of_h5py(dataset: Any) -> list[Any]:
    found: list[Any] = []
    dataset.id.chunk_iter(found.append)
    return found


def _of_pyfive(dataset: Any) -> list[Any]:
    return [dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks())]


def _chunks_by(library: Any, chunks_of: Callable[[Any], Any]) -> Callable[[str, str], Any]:
    def chunks(filename: str, path: str) -> Any:
        with library().File(filename, "r") as file:
            return chunks_of(file[path])

    return chunks


def _plain_infos(infos: Any, _shape: Any) -> Any:
    """Of a list of ``StoreInfo``."""
    return np.array([(*i.chunk_offset, i.byte_offset, i.size, i.filter_mask) for i in infos])


def _h5py() -> Any:
    return importlib.import_module("h5py")


def _pyfive() -> Any:
    return importlib.import_module("pyfive")


# ---- this library


class _Core:
    """The reader of metadata in the core; its answers are bytes and numbers."""

    def __init__(self, filename: str) -> None:
        self._core = importlib.import_module("_multitables._core")
        self._metadata = self._core.MetadataFile(filename)

    def objects(self, with_chunks: bool, see: See) -> None:
        """Tell all datasets."""
        self._below(self._metadata.root, "", with_chunks, see)

    def _below(self, group: int, prefix: str, with_chunks: bool, see: See) -> None:
        for name, _, kind, *where in self._metadata.links(group):
            path = f"{prefix}/{name.decode()}"
            if kind != "hard":
                continue
            if self._metadata.kind(where[0]) == "group":
                self._below(where[0], path, with_chunks, see)
                continue
            stored = self._metadata.dataset(where[0])
            chunked = with_chunks and stored.layout == "chunked"
            chunks = self._table(where[0], stored) if chunked else None
            element = self._core.datatype(stored.datatype)
            see(path, stored.dims, element, dict(self._attributes(where[0])), chunks)

    def _attributes(self, offset: int) -> Iterator[tuple[str, Any]]:
        for name, _, body, dims, elements in self._metadata.attributes(offset):
            kind, value = self._core.datatype(body), elements
            if kind.kind == "variable_string":
                _, heap, index = VARIABLE.unpack(elements)
                value = self._metadata.global_object(heap, index)
            yield name.decode(), (kind, dims, value)

    def chunks(self, path: str) -> Any:
        """The chunks of one dataset."""
        _, offset = self._metadata.find(path.encode())
        return self._table(offset, self._metadata.dataset(offset))

    def _table(self, offset: int, stored: Any) -> Any:
        return stored.chunk_dims, self._metadata.chunks(offset)


def _plain_core_type(kind: Any) -> str:
    letter = {"float": "f", "string": "S"}.get(kind.kind, "i" if kind.signed else "u")
    return np.dtype(f"{kind.order or '|'}{letter}{kind.size}").str


def _plain_core_attribute(value: Any) -> Any:
    kind, dims, elements = value
    if kind.kind == "variable_string":
        return elements.decode()
    return np.frombuffer(elements, _plain_core_type(kind)).reshape(dims)


def _plain_core_chunks(found: Any, shape: Any) -> Any:
    chunk_dims, chunks = found
    others = [chunks[name] for name in ("byte_offset", "stored_size", "filter_mask")]
    grid = [-(-size // chunk) for size, chunk in zip(shape, chunk_dims, strict=True)]
    places = np.unravel_index(chunks["grid_index"].astype(np.int64), grid)
    offsets = [place * chunk for place, chunk in zip(places, chunk_dims, strict=True)]
    return np.stack([column.astype(np.int64) for column in (*offsets, *others)], axis=1)


class _Face:
    """`multitables.open`, whose file has h5py's face."""

    def File(self, filename: str, _mode: str) -> Any:  # noqa: N802  h5py's name
        return opened(importlib.import_module("multitables"), filename)


def opened(library: Any, filename: str, **options: Any) -> Any:
    """``open`` of the library, where this release has it."""
    if not hasattr(library, "open"):
        raise AbsentError("this release has no multitables.open")
    return library.open(filename, **options)


# ---- hidefix, which keeps what it knows of chunks to itself


def _hidefix(filename: str, path: str) -> Any:
    library = importlib.import_module("hidefix")
    group, _, name = path.rpartition("/")
    return library.Index(filename).dataset(name, group or None)


def _hidefix_proof(filename: str, path: str) -> None:
    """What it reads by its index must be what h5py reads."""
    found = _hidefix(filename, path)[(slice(None),)]
    with _h5py().File(filename, "r") as file:
        if not np.array_equal(found, file[path][...]):
            raise WrongError("the data that its index leads to are not those of the file")


LIBRARIES = {
    "h5py": Library(
        _by_visititems(_h5py, _of_h5py), _chunks_by(_h5py, _of_h5py), plain_chunks=_plain_infos
    ),
    "pyfive": Library(
        _by_visititems(_pyfive, _of_pyfive),
        _chunks_by(_pyfive, _of_pyfive),
        plain_chunks=_plain_infos,
    ),
    "core": Library(
        lambda filename, with_chunks, see: _Core(filename).objects(with_chunks, see),
        lambda filename, path: _Core(filename).chunks(path),
        lambda found: len(found[1]),
        _plain_core_type,
        _plain_core_attribute,
        _plain_core_chunks,
    ),
    "open": Library(_by_visititems(_Face, no_call)),
    "h5py, names": Library(_by_visititems(_h5py, no_call, _names)),
    "open, names": Library(_by_visititems(_Face, no_call, _names)),
    "hidefix": Library(chunks=_hidefix, count=lambda _dataset: 0, proof=_hidefix_proof),
}


# ---- what is checked and timed


def _plain_value(value: Any) -> tuple[Any, ...]:
    """An attribute's value, whatever it came as: text is bytes."""
    if isinstance(value, str):
        value = value.encode()
    value = np.asarray(value)
    if value.dtype.kind in "SU":
        return "text", value.shape, bytes(value.astype("S").item()) if value.ndim == 0 else value
    return value.dtype.str, value.shape, value.tobytes()


def _hash(*parts: bytes) -> Any:
    return np.frombuffer(hashlib.sha256(b"".join(parts)).digest(), np.uint64)[0]


def _chunk_hash(library: Library, chunks: Any, shape: Any) -> Any:
    table = np.asarray(library.plain_chunks(chunks, shape), np.int64)
    return _hash(table[np.lexsort(table.T[::-1])].tobytes())


def check_objects(asked: dict[str, Any]) -> dict[str, Any]:
    """A digest of one hash for each dataset."""
    library, hashes = LIBRARIES[asked["recipe"]], list[Any]()

    def see(path: str, shape: Any, kind: Any, attributes: dict[Any, Any], chunks: Any) -> None:
        values = {name: library.plain_attribute(value) for name, value in attributes.items()}
        plain = sorted((name, _plain_value(value)) for name, value in values.items())
        shape = tuple(map(int, shape))
        text = repr((path, shape, library.plain_type(kind), plain)).encode()
        table = b"" if chunks is None else _chunk_hash(library, chunks, shape).tobytes()
        hashes.append(_hash(text, table))

    library.objects(asked["filename"], asked["with_chunks"], see)
    return stream_loop.summed_up(np.array(hashes, np.uint64))


def time_objects(asked: dict[str, Any]) -> dict[str, Any]:
    """Seconds, and how many datasets and chunks there were."""
    library, counts = LIBRARIES[asked["recipe"]], [0, 0]

    def see(_path: str, _shape: Any, _kind: Any, _attributes: Any, chunks: Any) -> None:
        counts[0] += 1
        counts[1] += 0 if chunks is None else library.count(chunks)

    start = time.perf_counter()
    library.objects(asked["filename"], asked["with_chunks"], see)
    return {"seconds": time.perf_counter() - start, "n": counts[0], "n_chunks": counts[1]}


def check_chunks(asked: dict[str, Any]) -> dict[str, Any] | None:
    """A digest of the chunks; None where the data that they lead to were compared."""
    library = LIBRARIES[asked["recipe"]]
    if library.proof is not None:
        library.proof(asked["filename"], asked["path"])
        return None
    found = library.chunks(asked["filename"], asked["path"])
    hashes = np.array([_chunk_hash(library, found, asked["shape"])])
    return stream_loop.summed_up(hashes) | {"rows": library.count(found)}


def time_chunks(asked: dict[str, Any]) -> dict[str, Any]:
    """Seconds, and how many chunks there were."""
    library = LIBRARIES[asked["recipe"]]
    start = time.perf_counter()
    found = library.chunks(asked["filename"], asked["path"])
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "n": library.count(found) or None}


LOOP = Loop(
    {
        "check objects": check_objects,
        "time objects": time_objects,
        "check chunks": check_chunks,
        "time chunks": time_chunks,
    },
    library="",  # a recipe imports its own
)
