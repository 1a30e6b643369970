"""Files whose datasets are one array of references, as VirtualiZarr and Kerchunk combine them.

Law
---
1. References of all files are joined by hand; h5py wrote the data.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
from elements import smooth
from kerchunk_files import refs_of
from pyarrow import parquet

ROWS, CHUNK_ROWS, N_FILES = 8, 2, 3
RECORD_SIZE = 5
NAMES = ("rows", "plain")


def fill_files(folder: Path) -> list[Path]:
    """Write files whose datasets continue each other along the first axis."""
    paths = [folder / f"part{number}.h5" for number in range(N_FILES)]
    data = smooth((N_FILES * ROWS, 6), "<f4")
    for number, path in enumerate(paths):
        part = data[number * ROWS : (number + 1) * ROWS]
        with h5py.File(path, "w") as file:
            file.create_dataset("rows", data=part, chunks=(CHUNK_ROWS, 4), compression="gzip")
            file.create_dataset("plain", data=part, chunks=(CHUNK_ROWS, 6))
            file["scalar"] = number
    return paths


def expected(paths: list[Path], name: str) -> Any:
    """What h5py reads of all files, one behind the other."""
    parts = []
    for path in paths:
        with h5py.File(path) as file:
            parts.append(file[name][...])
    return np.concatenate(parts)


def combined(paths: list[Path], url: Callable[[Path], str], inline_every: int = 0) -> Any:
    """References of the arrays of all files, with some chunks inline."""
    refs: dict[str, Any] = {".zgroup": json.dumps({"zarr_format": 2})}
    for number, path in enumerate(paths):
        stored = path.read_bytes()
        for key, value in refs_of(path).items():
            name, _, place = key.partition("/")
            if name not in NAMES:
                continue
            if place.startswith(".z"):
                told = json.loads(value)
                if place == ".zarray":
                    told["shape"][0] = N_FILES * ROWS
                refs[key] = json.dumps(told)
                continue
            row, column = map(int, place.split("."))
            row += number * (ROWS // CHUNK_ROWS)
            refs[f"{name}/{row}.{column}"] = [url(path), *value[1:]]
            if inline_every and (row + column) % inline_every == 0:
                chunk = stored[value[1] : value[1] + value[2]]
                refs[f"{name}/{row}.{column}"] = f"base64:{base64.b64encode(chunk).decode()}"
        path.with_suffix(".json").unlink()
    # A scalar of the last file, as what does not continue may come from any of them.
    for key, value in refs_of(paths[-1]).items():
        if key.startswith("scalar/"):
            refs[key] = [url(paths[-1]), *value[1:]] if isinstance(value, list) else value
    paths[-1].with_suffix(".json").unlink()
    return refs


def whole_files(folder: Path) -> tuple[list[Path], Any, Any]:
    """Raw files of one chunk each, references to them without ranges, and their data."""
    data = smooth((N_FILES, 5), "<i2")
    paths = [folder / f"raw{number}" for number in range(N_FILES)]
    zarray = {
        "zarr_format": 2, "shape": [N_FILES, 5], "chunks": [1, 5], "dtype": "<i2", "order": "C",
        "fill_value": 0, "filters": None, "compressor": {"id": "zlib", "level": 1},
    }  # fmt: skip
    refs: dict[str, Any] = {"raw/.zarray": json.dumps(zarray)}
    for number, path in enumerate(paths):
        path.write_bytes(zlib.compress(data[number].tobytes()))
        refs[f"raw/{number}.0"] = [path.name]
    return paths, refs, data


def write_json(refs: Any, to: Path) -> Path:
    to.write_text(json.dumps({"version": 1, "refs": refs}))
    return to


def write_parquet(refs: Any, folder: Path) -> Path:
    """Lay references out as fsspec does, in files of `RECORD_SIZE` chunks that are filled up."""
    metadata = {key: json.loads(value) for key, value in refs.items() if "/.z" in f"/{key}"}
    folder.mkdir()
    told = {"metadata": metadata, "record_size": RECORD_SIZE}
    (folder / ".zmetadata").write_text(json.dumps(told))
    rows: dict[Path, list[dict[str, Any]]] = {}
    for key, value in refs.items():
        if key in metadata:
            continue
        name, _, place = key.partition("/")
        zarray = metadata[f"{name}/.zarray"]
        grid = [-(-s // c) for s, c in zip(zarray["shape"], zarray["chunks"], strict=True)]
        at = tuple(map(int, place.split("."))) if grid else ()
        number = int(np.ravel_multi_index(at, grid)) if grid else 0
        record = folder / name / f"refs.{number // RECORD_SIZE}.parq"
        empty = {"path": None, "offset": 0, "size": 0, "raw": None}
        table = rows.setdefault(record, [empty] * RECORD_SIZE)
        if isinstance(value, list):
            row = dict(zip(("path", "offset", "size"), value, strict=True))
        else:
            row = {"raw": base64.b64decode(value.removeprefix("base64:"))}
        table[number % RECORD_SIZE] = {**empty, **row}
    types = {"path": pa.string(), "offset": pa.int64(), "size": pa.int64(), "raw": pa.binary()}
    for record, table in rows.items():
        record.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(table, pa.schema(types)), record)
    return folder
