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
from dataclasses import dataclass
from typing import Any

from _benchmark.contenders.version_contenders import (
    WRITERS,
    VersionsFile,
    expected,
    readers,
    readers_of,
    writers,
)
from _benchmark.contract import Measurement, NotMeasuredError, Sample, differs
from _benchmark.harness.results import Row
from _benchmark.loops.version_steps import TESTS
from _benchmark.loops.version_write_loop import PLAIN, VERSIONED
from _benchmark.studies.cases import Case, Prepared

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
        if "write" in parts:
            made = functools.partial(Prepared, writers(file), lambda _found: "")
            yield Case({"part": "write", **key, "which": ""}, WRITERS, made)
        for one in which if "read" in parts else ():
            prepare = functools.partial(_prepared, file, one, n_procs)
            yield Case({"part": "read", **key, "which": one}, list(readers_of(one)), prepare)


def _prepared(file: VersionsFile, which: str, n_procs: int) -> Prepared:
    try:
        files = [file.ready(writer) for writer in (VERSIONED, PLAIN)]
    except NotMeasuredError as error:
        missing = [_missing(name, str(error)) for name in readers_of(which)]
        return Prepared(missing, lambda _found: "")
    return Prepared(
        readers(file, which, n_procs),
        lambda found: differs(found, expected(file.spec)[which]),
        files,
    )


def _missing(name: str, reason: str) -> Measurement:
    def measure() -> Sample:
        raise NotMeasuredError(reason)

    return Measurement(name, measure)


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
