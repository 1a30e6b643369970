"""Nodes of Zarr -> references of Kerchunk: one JSON file, or a folder of Parquet files.

Law
---
1. JSON: version 1 of Kerchunk's specification. Parquet: as fsspec's ``LazyReferenceMapper`` does, a
   file for each `RECORD_SIZE` chunks of an array, in the order of its grid.
2. Ranges are of the file by its absolute name.
3. Written whole or not at all: under a name of its own, then renamed.

This file must never know HDF5.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from _multitables.errors import FileOpenError
from _multitables.index.kerchunk.layout import METADATA, pyarrow
from _multitables.index.written.zarr_nodes import Node

RECORD_SIZE = 10_000
ZGROUP = {"zarr_format": 2}


def metadata_of(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a node that say what it is, and their values."""
    prefix = f"{node.path}/" if node.path else ""
    if node.zarray is None:
        yield f"{prefix}.zgroup", ZGROUP
    else:
        yield f"{prefix}.zarray", node.zarray
    yield f"{prefix}.zattrs", node.zattrs


def write_json(url: str, nodes: Iterable[Node], out: BinaryIO) -> None:
    """Write references to a file."""
    out.write(b'{"version":1,"refs":{')
    comma = b""
    for node in nodes:
        for key, value in (*metadata_of(node), *_chunks(url, node)):
            told = json.dumps(value) if isinstance(value, dict) else value
            out.write(comma + f"{json.dumps(key)}:{json.dumps(told)}".encode())
            comma = b",\n"
    out.write(b"}}")


def _chunks(url: str, node: Node) -> Iterator[tuple[str, Any]]:
    if node.inline:
        encoded = f"base64:{base64.b64encode(node.inline).decode()}"
        yield f"{node.path}/{'.'.join('0' * len(node.grid)) or '0'}", encoded
    places = np.unravel_index(node.chunks["grid_index"].astype(np.int64), node.grid or (1,))
    each = zip(*(axis.tolist() for axis in places), strict=True)
    for place, (_, offset, size, *_) in zip(each, node.chunks.tolist(), strict=True):
        yield f"{node.path}/{'.'.join(map(str, place))}", [url, offset, size]


@contextlib.contextmanager
def replaced_folder(name: str) -> Iterator[str]:
    """Make a new folder, which takes the place of older references when the context ends."""
    part = f"{name}.{os.urandom(4).hex()}.tmp"
    if os.path.exists(name) and not os.path.exists(os.path.join(name, METADATA)):
        raise FileOpenError(
            f"{name!r} exists and holds no references of Kerchunk",
            advice="Give another name, or delete it",
            filename=name,
        )
    try:
        os.mkdir(part)
        yield part
        if os.path.exists(name):
            shutil.rmtree(name)
        os.rename(part, name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_parquet(url: str, nodes: Iterable[Node], folder: str) -> None:
    """Write references to a folder.

    Raises
    ------
    MissingLibraryError
        pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    schema = arrow.schema(
        [
            ("path", arrow.string()),
            ("offset", arrow.int64()),
            ("size", arrow.int64()),
            ("raw", arrow.binary()),
        ]
    )
    metadata: dict[str, Any] = {}
    for node in nodes:
        metadata |= metadata_of(node)
        for number, columns in _records(url, node):
            os.makedirs(os.path.join(folder, node.path), exist_ok=True)
            name = os.path.join(folder, node.path, f"refs.{number}.parq")
            parquet.write_table(arrow.table(columns, schema), name, compression="zstd")
    with open(os.path.join(folder, METADATA), "w", encoding="utf-8") as file:
        json.dump({"metadata": metadata, "record_size": RECORD_SIZE}, file)


def _records(url: str, node: Node) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the columns of each file of an array in which there are chunks."""
    n_chunks = math.prod(node.grid)
    if node.inline:
        yield 0, {"path": [None], "offset": [0], "size": [0], "raw": [node.inline]}
    files = node.chunks["grid_index"] // np.uint64(RECORD_SIZE)
    for number in np.unique(files).tolist():
        begin, end = np.searchsorted(files, [number, number + 1])
        count = min(RECORD_SIZE, n_chunks - number * RECORD_SIZE)
        chunks = node.chunks[begin:end]
        rows = (chunks["grid_index"] - np.uint64(number * RECORD_SIZE)).astype(np.int64)
        offset, size = np.zeros((2, count), np.int64)
        offset[rows], size[rows] = chunks["byte_offset"], chunks["stored_size"]
        path = np.full(count, None, object)
        path[rows] = url
        yield number, {"path": path, "offset": offset, "size": size, "raw": [None] * count}
