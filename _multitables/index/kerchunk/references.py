"""References of Kerchunk as they are read: what each node is, and where its chunks are.

Law
---
1. JSON of version 0 and 1 without generated keys, and the folders of Parquet files that fsspec's
   ``LazyReferenceMapper`` reads. Templates are names alone, as Kerchunk writes them.
2. They are files of this machine, or objects of a store, and are read whole; Parquet files are read
   when their array is asked for.
3. A departure from the specification is a `ReferencesError`, which says where.
4. What is made of references grows with their bytes: names, templates and tables have bounds, which
   are compared before anything is made.

This file must never know HDF5.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from _multitables.index.chunk_index import Fingerprint
from _multitables.index.files.stored_objects import concurrently
from _multitables.index.kerchunk.layout import METADATA, first_read, pyarrow
from _multitables.index.kerchunk.store import Store
from _multitables.remote.names import folder_of, is_remote, joined, kind_of

RECORD = re.compile(r"refs\.(0|[1-9][0-9]{0,15})\.parq")
#: Of references over HTTP, where nothing tells which files of an array there are.
MAX_RECORDS = 10_000
#: Parquet files of a store that are in memory together.
RECORDS_AT_A_TIME = 64
#: Of one Parquet file, and its bytes when they are decompressed.
MAX_RECORD_SIZE, MAX_RECORD_BYTES = 1 << 20, 256 << 20
#: Letters of a key and of a name whose templates are filled in, and parts of a key.
MAX_NAME, MAX_PARTS = 8192, 256
#: Chunks of an array, as the core counts them.
MAX_CHUNKS = 1 << 63
TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class ReferencesError(Exception):
    """What is wrong with references."""


class References:
    """Nodes by their paths, and their chunks."""

    def __init__(
        self,
        metadata: dict[str, Any],
        chunks: Callable[[str], Iterator[tuple[int, Any]]],
        fingerprint: Fingerprint,
    ) -> None:
        self.groups: dict[str, dict[str, Any]] = {"": {}}
        self.arrays: dict[str, dict[str, Any]] = {}
        self.attributes: dict[str, dict[str, Any]] = {}
        #: Of an array, number in the grid and place of each chunk: URL, first byte and size (None:
        #: to the end), or the chunk's bytes themselves.
        self.chunks = chunks
        #: Of the file that was read first.
        self.fingerprint = fingerprint
        for key, value in metadata.items():
            _check_key(key)
            path, _, mark = key.rpartition("/")
            kinds = {".zgroup": self.groups, ".zarray": self.arrays, ".zattrs": self.attributes}
            if mark in kinds:
                if not isinstance(value, dict):
                    raise ReferencesError(f"{key!r} is no JSON object")
                kinds[mark][path] = value
        for array in self.arrays:  # groups that nobody wrote down
            names = array.split("/")
            for depth in range(1, len(names)):
                self.groups.setdefault("/".join(names[:depth]), {})


def read(filename: str, store: Store) -> References:
    """Read references.

    Raises
    ------
    ReferencesError
        They are not as specified.
    OSError
        They cannot be read.
    MissingLibraryError
        They are Parquet, and pyarrow is not installed.
    """
    name = first_read(filename)
    fingerprint, told = store.read(name)
    if name == filename:
        return References(*_read_json(_parsed(told, "the file")), fingerprint)
    return References(*_read_parquet(filename, _parsed(told, METADATA), store), fingerprint)


def grid_of_array(zarray: dict[str, Any]) -> list[int]:
    """Return the number of chunks along each axis."""
    shape, chunks = zarray.get("shape"), zarray.get("chunks")
    try:
        pairs = list(zip(shape, chunks, strict=True))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not all(type(dim) is int and type(n) is int and dim >= 0 and n > 0 for dim, n in pairs):
        raise ReferencesError(f"an array has the shape {shape!r:.80} and the chunks {chunks!r:.80}")
    grid = [-(-dim // chunk) for dim, chunk in pairs]
    if math.prod(grid) > MAX_CHUNKS:
        raise ReferencesError("an array has more than 2^63 chunks")
    return grid


def _check_key(key: str) -> None:
    if len(key) > MAX_NAME or key.count("/") >= MAX_PARTS:
        raise ReferencesError(
            f"a key has {len(key)} letters and {key.count('/') + 1} parts, more than {MAX_NAME} or "
            f"{MAX_PARTS}: {key[:80]!r}..."
        )


def _parsed(text: bytes | str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReferencesError(f"{what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ReferencesError(f"{what} is no JSON object")
    return value


Chunks = Callable[[str], Iterator[tuple[int, Any]]]


def _read_json(whole: dict[str, Any]) -> tuple[dict[str, Any], Chunks]:
    if "version" in whole and (whole["version"] != 1 or not isinstance(whole.get("refs"), dict)):
        raise ReferencesError(f"expected version 1 with refs, got {whole['version']!r}")
    if whole.get("gen"):
        raise ReferencesError("keys are generated (gen), which is not supported")
    templates = whole.get("templates") or {}
    if not isinstance(templates, dict) or not all(isinstance(of, str) for of in templates.values()):
        raise ReferencesError("templates are no texts by their names")
    refs = whole["refs"] if "version" in whole else whole
    metadata: dict[str, Any] = {}
    by_path: dict[str, list[tuple[str, Any]]] = {}
    for key, value in refs.items():
        _check_key(key)
        path, _, last = key.rpartition("/")
        if last.startswith(".z"):
            metadata[key] = value if isinstance(value, dict) else _parsed(_bytes(value, key), key)
        else:
            by_path.setdefault(path, []).append((last, value))

    for path in [path for path in by_path if f"{path}/.zarray" not in metadata]:
        _move_up(path, by_path, metadata)

    def chunks(path: str) -> Iterator[tuple[int, Any]]:
        grid = grid_of_array(metadata[f"{path}/.zarray"])
        for last, value in by_path.get(path, ()):
            yield _number(last, grid, path), _reference(value, templates, path)

    return metadata, chunks


def _move_up(path: str, by_path: dict[str, list[tuple[str, Any]]], metadata: Any) -> None:
    """Give chunks to the array that they are of, where slashes separate the parts of their keys."""
    array, behind = path, ""
    while array and f"{array}/.zarray" not in metadata:
        array, _, part = array.rpartition("/")
        behind = f"{part}.{behind}"
    chunks = [(behind + last, value) for last, value in by_path.pop(path)]
    by_path.setdefault(array, []).extend(chunks)


def _bytes(value: Any, key: str) -> bytes:
    if not isinstance(value, str):
        raise ReferencesError(f"{key!r} is neither text nor a range")
    if value.startswith("base64:"):
        try:
            return base64.b64decode(value[7:])
        except ValueError as error:
            raise ReferencesError(f"{key!r} is no base64") from error
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ReferencesError(f"{key!r} is no text: {error}") from error


def _reference(value: Any, templates: dict[str, Any], path: str) -> Any:
    if not isinstance(value, list):
        return _bytes(value, path)
    match value:
        case [str(url)]:
            begin, size = 0, None
        case [str(url), int(begin), int(size)] if begin >= 0 and size >= 0:
            pass
        case _:
            raise ReferencesError(f"a chunk of {path!r} is no range: {value!r:.80}")
    if "{{" not in url:
        return url, begin, size
    try:
        filled = len(url) + sum(len(templates[name]) for name in TEMPLATE.findall(url))
        if filled > MAX_NAME:
            raise ReferencesError(f"a name has {filled} letters with its templates: {url!r:.80}")
        return TEMPLATE.sub(lambda name: templates[name[1]], url), begin, size
    except KeyError as error:
        raise ReferencesError(f"there is no template {error}") from error


def _number(last: str, grid: list[int], path: str) -> int:
    """Return the number of a chunk in the grid by the last part of its key."""
    try:
        place = [int(part) for part in last.split(".")] if grid else []
    except ValueError:
        place = [-1]
    if len(place) != len(grid) or not all(0 <= at < n for at, n in zip(place, grid, strict=True)):
        raise ReferencesError(f"{path!r} has a chunk {last!r}, which its grid {grid} has not")
    number = 0
    for at, n in zip(place, grid, strict=True):
        number = number * n + at
    return number


def _read_parquet(folder: str, told: dict[str, Any], store: Store) -> tuple[dict[str, Any], Chunks]:
    metadata, record_size = told.get("metadata"), told.get("record_size")
    if not isinstance(metadata, dict) or type(record_size) is not int:
        raise ReferencesError(f"{METADATA} has no metadata, or no record_size")
    if not 1 <= record_size <= MAX_RECORD_SIZE:
        raise ReferencesError(
            f"{METADATA} has another record_size than 1 to {MAX_RECORD_SIZE}: {record_size}"
        )

    def chunks(path: str) -> Iterator[tuple[int, Any]]:
        arrow, parquet = pyarrow()
        n_chunks = math.prod(grid_of_array(metadata[f"{path}/.zarray"]))
        inside = joined(folder, path)
        numbers = _records(inside, -(-n_chunks // record_size), store)
        for number, name, data in _contents(inside, numbers, store):
            try:
                source = arrow.BufferReader(data)  # pyarrow reads files by threads that stay
                file = parquet.ParquetFile(source, pre_buffer=False)
                _check_record(file.metadata, record_size, name)
                table = file.read(use_threads=False)
                yield from _rows(table.to_pydict(), number * record_size, n_chunks)
            except (arrow.ArrowException, TypeError, ValueError) as error:
                raise ReferencesError(f"{name!r} cannot be read: {error}") from error

    return metadata, chunks


def _check_record(of: Any, record_size: int, name: str) -> None:
    n_bytes = sum(of.row_group(number).total_byte_size for number in range(of.num_row_groups))
    if of.num_rows > record_size or n_bytes > MAX_RECORD_BYTES:
        raise ReferencesError(
            f"{name!r} has {of.num_rows} rows of {n_bytes} bytes (expected at most {record_size} "
            f"rows and {MAX_RECORD_BYTES} bytes)"
        )


def _records(inside: str, most: int, store: Store) -> Iterable[int]:
    """Return the numbers of an array's Parquet files; over HTTP, of all that may exist."""
    if is_remote(inside) and kind_of(inside) == "http":
        if most > MAX_RECORDS:
            raise ReferencesError(f"{inside!r} may have {most} files, more than are asked for")
        return range(most)
    if is_remote(inside):
        objects = store.listed(f"{inside}/")
        names = [name.rpartition("/")[2] for name in objects if folder_of(name) == inside]
    else:
        names = os.listdir(inside) if os.path.isdir(inside) else []
    return sorted(int(found[1]) for found in map(RECORD.fullmatch, names) if found)


def _contents(
    inside: str, numbers: Iterable[int], store: Store
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the number, name and bytes of Parquet files; a store is asked for several at a time."""
    named = [(number, joined(inside, f"refs.{number}.parq")) for number in numbers]
    if not is_remote(inside):
        for number, name in named:
            yield number, name, store.read(name)[1]
        return
    # The first one alone: often a caller only wants the target of the references.
    for begin, end in itertools.pairwise([0, *range(1, len(named), RECORDS_AT_A_TIME), len(named)]):
        some = named[begin:end]
        found = concurrently(store.read_if_there, [name for _, name in some])
        for (number, name), data in zip(some, found, strict=True):
            if data is not None:
                yield number, name, data


def _rows(columns: dict[str, list[Any]], first: int, n_chunks: int) -> Iterator[tuple[int, Any]]:
    """Yield the chunks of a table, whose columns may be left out where they are empty."""
    count = max(map(len, columns.values()), default=0)
    names = ("path", "offset", "size", "raw")
    rows = zip(*(columns.get(name) or [None] * count for name in names), strict=True)
    for number, (url, begin, size, raw) in enumerate(rows, first):
        if number >= n_chunks:  # the last file may be filled up
            return
        if raw is not None and raw == raw:  # not NaN, as pandas writes it
            yield number, raw if isinstance(raw, bytes) else str(raw).encode()
        elif url is not None and url == url:
            whole_file = not begin and not size
            yield number, (str(url), int(begin or 0), None if whole_file else int(size))
