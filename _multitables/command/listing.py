"""`multitables tree` and `ls`: the objects of files, each in a line.

Law
---
1. A line comes when its object was met. Links are shown, and only hard ones followed, each object
   once.
2. A file or an object that cannot be read is a line, too; the others follow.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from typing import Any

import multitables
from _multitables.command.names import add_storage, named, title
from _multitables.command.output import Record, columns, of_decoded, shortened
from _multitables.parent.open.facts import facts, read_by
from _multitables.parent.open.links import ExternalLink, HardLink, SoftLink
from _multitables.parent.titles import printable, size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which files, and how deep."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, a URL or a pattern")
    parser.add_argument("--depth", type=int, metavar="N", help="show N levels only (default: all)")
    add_storage(parser)


def records(arguments: argparse.Namespace) -> Iterator[Record]:
    """Yield a record of each file and of each object in it."""
    for name in named(arguments.files, arguments.storage_options):
        try:
            with multitables.open(name, storage_options=arguments.storage_options) as file:
                n_bytes = os.path.getsize(name) if os.path.exists(name) else None
                record: Record = {"file": title(name), "path": "/", "kind": "file"}
                yield record | {"stored_bytes": n_bytes}
                yield from _below(file, title(name), arguments.depth)
        except multitables.MultitablesError as error:
            yield {"file": title(name), "error": str(error)}


def _below(file: multitables.File, name: str, depth: int | None) -> Iterator[Record]:
    seen: dict[Any, str] = {file: "/"}
    levels: list[Iterator[tuple[str, multitables.Group]]] = [_members(file)]
    while levels:
        for path, group in levels[-1]:
            record: Record = {"file": name, "path": printable(path)}
            found, known = None, None
            try:
                link = group.get(path.rpartition("/")[2], getlink=True)
                if isinstance(link, HardLink):
                    found = group[path.rpartition("/")[2]]
                    known = seen.setdefault(found, path)
                    is_new = known == path
                    record |= _described(found) if is_new else {"kind": "link", "to": known}
                else:
                    record |= {"kind": "link", "to": _target(link)}
            except (multitables.MultitablesError, TypeError) as error:
                record |= {"kind": "unknown", "error": getattr(error, "happened", str(error))}
            yield record
            is_new = known == path and len(levels) != depth
            if is_new and isinstance(found, multitables.Group):
                levels.append(_members(found, path))
                break
        else:
            levels.pop()


def _members(group: multitables.Group, path: str = "") -> Iterator[tuple[str, multitables.Group]]:
    return ((f"{path}/{_text(name)}", group) for name in group)


def _text(name: str | bytes) -> str:
    return os.fsdecode(name) if isinstance(name, bytes) else name


def _described(found: Any) -> Record:
    if isinstance(found, multitables.Group):
        return {"kind": "group", "members": len(found)}
    if not isinstance(found, multitables.Dataset):
        return {"kind": "type", "dtype": str(found.dtype)}
    reader, why = read_by(found)
    return {"kind": "dataset", **facts(found), "read_by": reader, "why_library": why}


def _target(link: Any) -> str:
    if isinstance(link, SoftLink):
        return printable(_text(link.path))
    if isinstance(link, ExternalLink):
        return printable(f"{_text(link.path)} in {link.filename}")
    return printable(link)


# ---- as text


def tree_lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield a line of each object, below its group."""
    return columns(_rows(found, is_tree=True))


def ls_lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield a line of each object with its whole path."""
    return columns(_rows(found, is_tree=False))


def _rows(found: Iterable[Record], is_tree: bool) -> Iterator[list[str]]:
    for record in found:
        if "path" not in record:
            continue  # a file that cannot be read: standard error says why
        path = record["path"]
        if record["kind"] == "file":
            n_bytes = record["stored_bytes"]
            title = printable(record["file"])
            yield [title if n_bytes is None else f"{title}  {size(n_bytes)}"]
            continue
        name = "  " * path.count("/") + path.rpartition("/")[2] if is_tree else path
        yield [name + "/" * (record["kind"] == "group"), *_cells(record)]


def _cells(record: Record) -> list[str]:
    if record["kind"] == "link":
        return [f"-> {record['to']}"]
    if "shape" not in record or "error" in record:
        return [printable(record.get("error") or record.get("dtype") or "")]
    stored, decoded = record["stored_bytes"], record["decoded_bytes"]
    reader = record["read_by"]
    if reader == "library":
        reader += f": {record['why_library']}"
    return [
        shortened(record["dtype"]),
        str(record["shape"] if record["shape"] is not None else "empty"),
        f"chunks {record['chunks']}" if record["chunks"] else "-",
        printable(", ".join(record["filters"]) or "-"),
        of_decoded(stored, decoded),
        printable(reader),
    ]
