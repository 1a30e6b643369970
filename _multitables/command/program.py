"""The command `multitables`: its sub-commands, and how it ends.

Law
---
1. Parsing, dispatch and ends only. Each sub-command yields records, and text is made of these.
2. A refusal of the library is a sentence on standard error, and the status 1; a traceback is a
   fault of this library. A reader of the output may stop at any line.
3. `explain` is the benchmark program's, with its options and its statuses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import multitables
from _multitables.command import bench, indexing, listing, one_dataset
from _multitables.command.output import Record, json_line
from _multitables.parent.titles import printable

EXPLAIN = "explain"
INTERRUPTED = 130


class Subcommand(NamedTuple):
    """Its purpose and options, the records that it finds, and their lines of text."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    records: Callable[[argparse.Namespace], Iterator[Record]]
    lines: Callable[[Iterable[Record]], Iterator[str]]


SUBCOMMANDS = {
    "tree": Subcommand(
        "what is in files: groups and datasets, how they are stored and who reads them",
        listing.add_arguments, listing.records, listing.tree_lines,
    ),
    "ls": Subcommand(
        "the same with whole paths, a line for each object",
        listing.add_arguments, listing.records, listing.ls_lines,
    ),
    "info": Subcommand(
        "one object: storage, attributes, and what would let it be read faster",
        one_dataset.add_arguments, one_dataset.info_records, one_dataset.info_lines,
    ),
    "head": Subcommand(
        "the first rows of a dataset",
        one_dataset.add_head_arguments, one_dataset.head_records, one_dataset.head_lines,
    ),
    "index": Subcommand(
        "save the index of files, by which they open faster, or a manifest of many",
        indexing.add_arguments, indexing.records, indexing.lines,
    ),
    "bench": Subcommand(
        "how fast a dataset is read here, beside h5py, in a few seconds",
        bench.add_arguments, bench.records, bench.lines,
    ),
}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands."""
    made = argparse.ArgumentParser(
        prog="multitables", description="HDF5 files, seen from a shell; they are only read."
    )
    made.add_argument(
        "--version", action="version", version=f"multitables {multitables.__version__}"
    )
    each = made.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for name, one in SUBCOMMANDS.items():
        added = each.add_parser(name, help=one.summary, description=f"Show {one.summary}.")
        one.add_arguments(added)
        added.add_argument("--json", action="store_true", help="print JSON, an object a line")
    each.add_parser(
        EXPLAIN, help="what bounds the stream of a dataset, measured: multitables-benchmark explain"
    )
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run a sub-command; returns the exit status."""
    given = list(sys.argv[1:] if words is None else words)
    try:
        with contextlib.suppress(AttributeError):  # another program's output
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if given[:1] == [EXPLAIN]:
            return _explain(given)
        with warnings.catch_warnings():
            warnings.showwarning = _warned
            status = _run(parser().parse_args(given))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at its end, into a pipe without a reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except (multitables.MultitablesError, OSError) as error:
        return _failed(error)
    return status


def _run(arguments: argparse.Namespace) -> int:
    one, failed = SUBCOMMANDS[arguments.subcommand], []

    def seen() -> Iterator[Record]:
        for record in one.records(arguments):
            if "error" in record:
                failed.append(record)
                if "path" not in record:
                    sys.stdout.flush()
                    _failed(record["error"])
            yield record

    lines = map(json_line, seen()) if arguments.json else one.lines(seen())
    for line in lines:
        print(line)
    return 1 if failed else 0


def _explain(words: Sequence[str]) -> int:
    try:
        import multitables_benchmark
    except ImportError as error:
        raise multitables.MissingLibraryError(
            f"explain needs the benchmark program, which cannot be imported: {error}",
            advice="Install it with pip install 'multitables[bench]'",
        ) from None
    return multitables_benchmark.main(words)


def _failed(error: object) -> int:
    print(f"multitables: {printable(error)}", file=sys.stderr)
    return 1


def _warned(message: Warning | str, *_: Any, **__: Any) -> None:
    _failed(f"warning: {message}")
