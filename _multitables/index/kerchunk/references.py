"""References of Kerchunk as they are read: what each node is, and where its chunks are.

Law
---
1. JSON of version 0 and 1 without generated keys, and the folders of Parquet files that fsspec's
   ``LazyReferenceMapper`` reads. Templates are names alone, as Kerchunk writes them.
2. What is not as specified is a `ReferencesError`, which says where.

This file must never know HDF5.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from _multitables.index.kerchunk.layout import JSON, METADATA, pyarrow

RECORD = re.compile(r"refs\.(0|[1-9][0-9]{0,15})\.parq")
TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class ReferencesError(Exception):
    """What is wrong with references."""


class References:
    """Nodes by their paths, and their chunks."""

    def __init__(
        self,
        metadata: dict[str, Any],
        chunks: Callable[[str], Iterator[tuple[int, Any]]],
    ) -> None:
        self.groups: dict[str, dict[str, Any]] = {"": {}}
        self.arrays: dict[str, dict[str, Any]] = {}
        self.attributes: dict[str, dict[str, Any]] = {}
        #: Of an array, number in the grid and place of each chunk: URL, first byte and size (None:
        #: to the end), or the chunk's bytes themselves.
        self.chunks = chunks
        for key, value in metadata.items():
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


def read(filename: str) -> References:
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
    return _read_json(filename) if filename.endswith(JSON) else _read_parquet(filename)


def grid_of_array(zarray: dict[str, Any]) -> list[int]:
    """Return the number of chunks along each axis."""
    try:
        shape, chunks = zarray["shape"], zarray["chunks"]
        return [-(-int(dim) // int(chunk)) for dim, chunk in zip(shape, chunks, strict=True)]
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ReferencesError(
            f"an array's shape or chunks are missing or wrong: {error!r}"
        ) from error


def _parsed(text: bytes | str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReferencesError(f"{what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ReferencesError(f"{what} is no JSON object")
    return value


def _read_json(filename: str) -> References:
    with open(filename, "rb") as file:
        whole = _parsed(file.read(), "the file")
    if "version" in whole and (whole["version"] != 1 or not isinstance(whole.get("refs"), dict)):
        raise ReferencesError(f"expected version 1 with refs, got {whole['version']!r}")
    if whole.get("gen"):
        raise ReferencesError("keys are generated (gen), which is not supported")
    templates = whole.get("templates") or {}
    refs = whole["refs"] if "version" in whole else whole
    metadata: dict[str, Any] = {}
    by_path: dict[str, list[tuple[str, Any]]] = {}
    for key, value in refs.items():
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

    return References(metadata, chunks)


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
    return value.encode("utf-8", "surrogateescape")


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
    try:
        return TEMPLATE.sub(lambda name: str(templates[name[1]]), url), begin, size
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


def _read_parquet(folder: str) -> References:
    with open(os.path.join(folder, METADATA), "rb") as file:
        whole = _parsed(file.read(), METADATA)
    metadata, record_size = whole.get("metadata"), whole.get("record_size")
    if not isinstance(metadata, dict) or type(record_size) is not int or record_size < 1:
        raise ReferencesError(f"{METADATA} has no metadata, or no record_size")

    def chunks(path: str) -> Iterator[tuple[int, Any]]:
        arrow, parquet = pyarrow()
        n_chunks = math.prod(grid_of_array(metadata[f"{path}/.zarray"]))
        inside = os.path.join(folder, path)
        found = map(RECORD.fullmatch, os.listdir(inside) if os.path.isdir(inside) else ())
        for number in sorted(int(name[1]) for name in found if name):
            name = os.path.join(inside, f"refs.{number}.parq")
            try:
                with open(name, "rb") as file:  # pyarrow would read it by threads that stay
                    source = arrow.BufferReader(file.read())
                table = parquet.ParquetFile(source, pre_buffer=False).read(use_threads=False)
                columns = table.to_pydict()
                yield from _rows(columns, number * record_size, n_chunks)
            except (arrow.ArrowException, TypeError, ValueError) as error:
                raise ReferencesError(f"{name!r} cannot be read: {error}") from error

    return References(metadata, chunks)


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
