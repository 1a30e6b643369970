"""`multitables index`: saved indexes, references and manifests, written.

Law
---
1. `index_file` and `index_files` say how an index is written; this file chooses between them.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterable, Iterator

import multitables
from _multitables.command.names import add_storage, named, title
from _multitables.command.output import Record
from _multitables.parent.titles import printable

MANIFEST = ".mtidx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which files, and where to."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="a file, a URL or a pattern")
    add(
        "--to",
        metavar="NAME",
        help="a manifest of all files (NAME.mtidx), references of one (NAME.json, NAME.parquet), "
        'or "cache" (default: an index beside each file)',
    )
    add(
        "--skip_missing",
        action="store_true",
        help="leave files out of a manifest that are missing or damaged",
    )
    add(
        "--skip_unsupported",
        action="store_true",
        help="leave datasets out of references that Zarr cannot read",
    )
    add_storage(parser)


def records(arguments: argparse.Namespace) -> Iterator[Record]:
    """Write, and yield a record of each file that was written."""
    to, storage = arguments.to, arguments.storage_options
    progress = sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
    if to is not None and to.endswith(MANIFEST):
        written = multitables.index_files(
            list(arguments.files),
            to,
            skip_missing=arguments.skip_missing,
            progress=progress,
            storage_options=storage,
        )
        yield {"written": written}
        return
    names = list(named(arguments.files, storage))
    if len(names) > 1 and to not in (None, "cache"):
        raise multitables.OptionsError(
            f"--to {to} is for one file, got {len(names)}",
            advice=f"Give a name that ends with {MANIFEST}, or index them one by one",
            option="to",
            got=to,
        )
    for name in names:
        written = multitables.index_file(
            name,
            to,
            skip_unsupported=arguments.skip_unsupported,
            progress=progress,
            storage_options=storage,
        )
        yield {"file": title(name), "written": written}


def lines(found: Iterable[Record]) -> Iterator[str]:
    """Yield the name of each file that was written."""
    return (printable(record["written"]) for record in found)
