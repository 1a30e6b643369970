"""Which files of versions are measured, by whom, and the JSON files of the published study.

Law
---
1. A case is a file that is written, or some versions of it that are opened and read. Files are
   written by the first case that needs them.
2. Without versioned-hdf5 there are no files, and every contender is left out with that reason.
3. The JSON files have the published names and members. They grow with each file that was written,
   and those of a run that is resumed keep what they have.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from _multitables.benchmark.contenders.version_contenders import (
    WRITERS,
    VersionsFile,
    expected,
    readers,
    readers_of,
    writers,
)
from _multitables.benchmark.contract import Sample, differs
from _multitables.benchmark.harness.results import Row
from _multitables.benchmark.loops.version_steps import TESTS
from _multitables.benchmark.loops.version_write_loop import PLAIN, VERSIONED
from _multitables.benchmark.studies.frame import Case, Prepared

KEYS = ("part", "test", "way", "transactions", "exponent", "compression", "which")
MORE = ("open_seconds", "seconds", "decoded_bytes", "transaction_seconds", "file_bytes")
PARTS = ("write", "read")
DESCRIBED, TWIN = "as_described_", "_no_versions"
UNITS = ("B", "KB", "MB", "GB")


def cases(
    files: Sequence[VersionsFile], parts: Sequence[str], which: Sequence[str], n_procs: int
) -> Iterator[Case]:
    """The cases of each file: how it is written, and how its versions are read."""
    for file in files:
        key = {
            "test": file.spec.test,
            "way": file.way,
            "transactions": file.spec.n,
            "exponent": file.exponent,
            "compression": file.compression,
        }
        todo: list[tuple[str, str, functools.partial[Prepared], Sequence[str]]] = []
        if "write" in parts:
            todo.append(("write", "", functools.partial(_to_write, file), WRITERS))
        for one in which if "read" in parts else ():
            prepare = functools.partial(_to_read, file, one, n_procs)
            todo.append(("read", one, prepare, list(readers_of(one))))
        for part, one, prepare, names in todo:
            label = f"{part}, {file.spec.test}, {file.way}"
            yield Case({"part": part, **key, "which": one}, prepare, "s", names, label=label)


def _to_write(file: VersionsFile, _stack: ExitStack) -> Prepared:
    return Prepared(writers(file))


def _to_read(file: VersionsFile, which: str, n_procs: int, _stack: ExitStack) -> Prepared:
    files = [file.ready(writer) for writer in (VERSIONED, PLAIN)]
    return Prepared(
        readers(file, which, n_procs),
        lambda found: differs(found, expected(file.spec)[which]),
        files,
    )


@dataclass(frozen=True)
class PublishedFiles:
    """The JSON files of the published study, in the directory of the results."""

    directory: str

    def begin(self, resume: bool) -> None:
        """Remove those of an earlier run, unless it is resumed."""
        every = itertools.product(("", DESCRIBED), TESTS, ("", TWIN))
        for way, test, twin in () if resume else every:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.directory, f"{way}test_{test}{twin}.json"))

    def keep(self, row: Row, sample: Sample) -> None:
        """Add a file that was written; the last time counts."""
        if row["part"] != "write":
            return
        size = sample.more["file_bytes"]
        one = {
            "num_transactions": int(row["transactions"]),
            "filename": f"./{sample.more['name']}.h5",
            "size": size,
            "size_label": size_label(size),
            "t_write": sample.more["t_write"],
            "chunk_size": 2 ** int(row["exponent"]),
            "compression": None if row["compression"] == "none" else row["compression"],
        }
        way = DESCRIBED if row["way"] == "as described" else ""
        twin = TWIN if row["contender"] == PLAIN else ""
        filename = os.path.join(self.directory, f"{way}test_{row['test']}{twin}.json")
        found = [other for other in _read(filename) if other["filename"] != one["filename"]]
        part = f"{filename}.part{os.getpid()}"
        with open(part, "w") as file:
            json.dump([*found, one], file)
        os.replace(part, filename)


def _read(filename: str) -> list[dict[str, Any]]:
    if not os.path.exists(filename):
        return []
    with open(filename) as file:
        found: list[dict[str, Any]] = json.load(file)
    return found


def size_label(size: float) -> str:
    """Bytes as the study writes them: ``441.93 MB``, where each unit is 1024 of the one before."""
    power = 0
    while size >= 1024 and power < len(UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.2f} {UNITS[power]}"
