"""`multitables info` and `head`: one dataset, what it is and how it begins.

Law
---
1. `info` reads no elements but a sample of what is stored without a filter, which is compressed to
   see whether that would save much.
2. `head` reads the first rows, and nothing else.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import multitables
from _multitables import sizes
from _multitables.command.advice import Storage, advice
from _multitables.command.names import add_storage, title
from _multitables.command.output import Record, columns, of_decoded, plain
from _multitables.parent.open.facts import chunk_bytes, facts, read_by
from _multitables.parent.titles import printable, size

#: Filters that make nothing smaller: shuffle and fletcher32.
PREPARE = {2, 3}
SAMPLE_BYTES = 1 << 20
#: Of larger rows not one is read for a sample.
LARGEST_ROW_BYTES = 64 << 20
#: Letters of the value of an attribute in text.
SHOWN = 100
#: Elements of a row in text.
ELEMENTS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which object of which file."""
    parser.add_argument("file", metavar="FILE", help="a file or a URL")
    parser.add_argument("path", metavar="PATH", help="the path of the object in the file")
    add_storage(parser)


def add_head_arguments(parser: argparse.ArgumentParser) -> None:
    """The same, and how many rows."""
    add_arguments(parser)
    parser.add_argument(
        "-n", "--rows", type=int, default=10, metavar="N", help="how many rows (default 10)"
    )


# ---- info


def info_records(arguments: argparse.Namespace) -> Iterator[Record]:
    """Yield the record of one object."""
    with multitables.open(arguments.file, storage_options=arguments.storage_options) as file:
        found = file[arguments.path]
        record: Record = {"file": title(arguments.file), "path": printable(found.name)}
        if isinstance(found, multitables.Dataset):
            record |= {"kind": "dataset", **facts(found)}
            if "error" not in record:
                record |= _stored(found, record["decoded_bytes"] is not None)
        elif isinstance(found, multitables.Group):
            record |= {"kind": "group", "members": len(found)}
        else:
            record |= {"kind": "type", "dtype": str(found.dtype)}
        record["attributes"] = dict(_attributes(found))
        yield record


def _stored(found: multitables.Dataset, is_sized: bool) -> Record:
    """Return how a dataset is stored, and advice where its bytes lie in the file itself."""
    reader, why = read_by(found)
    is_here = is_sized and not (found.is_virtual or found.external) and reader != "indexing"
    return {
        "maxshape": found.maxshape,
        "chunk_bytes": chunk_bytes(found) if is_sized else None,
        "stored_chunks": found.id.get_num_chunks() if found.chunks else None,
        "read_by": reader,
        "why_library": why,
        "advice": list(advice(_storage(found))) if is_here else [],
    }


def _storage(found: multitables.Dataset) -> Storage:
    itself, stored = found.dtype, found.id.get_storage_size()
    shape: tuple[int, ...] = found.shape
    n_bytes = max(1, math.prod(shape[1:]) * itself.itemsize)
    rows = found.chunks[0] if found.chunks else max(1, sizes.UNCHUNKED_BLOCK_BYTES // n_bytes)
    is_compressed = not set(found.filter_ids) <= PREPARE
    is_tried = stored and not is_compressed and n_bytes <= LARGEST_ROW_BYTES
    sample = _compressed(found, n_bytes) if is_tried else None
    chunks = found.chunks
    return Storage(found.name, shape, chunks, itself.itemsize, is_compressed, stored, rows, sample)


def _compressed(found: multitables.Dataset, row_bytes: int) -> float:
    """Return what zlib makes of the first rows after a shuffle, as a part of their bytes."""
    rows = np.ascontiguousarray(found[: max(1, SAMPLE_BYTES // row_bytes)])
    data = rows.reshape(-1)[: SAMPLE_BYTES // rows.dtype.itemsize + 1].view(np.uint8)
    shuffled = data.reshape(-1, rows.dtype.itemsize).T.tobytes()
    return len(zlib.compress(shuffled, 1)) / max(1, len(shuffled))


def _attributes(found: Any) -> Iterator[tuple[str, Any]]:
    for name in found.attrs:
        try:
            yield str(name), plain(found.attrs[name])
        except multitables.MultitablesError as error:
            yield str(name), f"({error.happened})"


def info_lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield a line of each fact, then the attributes and the advice."""
    for record in found:
        yield f"{record['path']} in {printable(record['file'])}: {record['kind']}"
        yield from columns(["", *row] for row in _facts(record))
        if record["attributes"]:
            yield "attributes"
            named = record["attributes"].items()
            yield from columns(
                ["", printable(name), printable(value)[:SHOWN]] for name, value in named
            )
        if record.get("advice"):
            yield "advice"
            yield from (f"  {sentence}" for sentence in record["advice"])


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    for name in ("error", "members", "dtype", "shape", "maxshape"):
        if record.get(name) is not None:
            yield name, printable(record[name])
    if "shape" not in record or "error" in record:
        return
    stored, decoded = record["stored_bytes"], record["decoded_bytes"]
    if record["chunks"]:
        each = record["chunk_bytes"]
        yield "chunks", str(record["chunks"]) + (f", {size(each)} each" if each else "")
        yield "stored", f"{of_decoded(stored, decoded)} in {record['stored_chunks']} chunks"
    else:
        yield "stored", f"{of_decoded(stored, decoded)}, without chunks"
    yield "filters", printable(", ".join(record["filters"]) or "none")
    why = record["why_library"]
    yield "read by", printable(record["read_by"] + (f": {why}" if why else ""))


# ---- head


def head_records(arguments: argparse.Namespace) -> Iterator[Record]:
    """Yield the first rows, or the value of a dataset without any."""
    with multitables.open(arguments.file, storage_options=arguments.storage_options) as file:
        found = file[arguments.path]
        if not isinstance(found, multitables.Dataset):
            raise multitables.UnsupportedDatasetError(
                f"{found.name!r} in {file.filename!r} has no rows: {found!r} is no dataset",
                advice=f"List what is there with multitables tree {file.filename}",
                path=str(found.name),
                filename=file.filename,
            )
        if not found.shape:
            value = found[()]
            yield {"row": None, "value": None if isinstance(value, multitables.Empty) else value}
            return
        for number, value in enumerate(found[: max(0, arguments.rows)]):
            yield {"row": number, "value": value}


def head_lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield a line of each row, of compounds below the names of their fields."""
    return columns(_head_rows(found))


def _head_rows(found: Iterable[Record]) -> Iterator[list[str]]:
    for record in found:
        value, number = record["value"], record["row"]
        names = getattr(getattr(value, "dtype", None), "names", None)
        if names and not number:
            yield ["", *map(printable, names)]
        cells = [value[name] for name in names] if names else [value]
        yield ["" if number is None else str(number), *map(_short, cells)]


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=ELEMENTS, edgeitems=2, max_line_width=1 << 20)
        return printable(" ".join(text.split()))
    return printable(plain(value) if isinstance(value, (bytes, np.generic)) else value)
