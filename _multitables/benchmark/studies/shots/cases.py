"""The cases of the study of shots, who measures each, and the files in the published format.

Law
---
1. Cases come in the published order: page buffer, processes, access, layout; files before objects.
2. A page buffer holds the part of the file that it held of the study's, in whole pages of the same
   size: a smaller file in the same buffer would be another question.
3. The files of the published format have the first round's processes, a row each, with the
   published columns and nothing else.
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from _multitables.benchmark.contenders import shots_contenders as people
from _multitables.benchmark.contenders.shots_contenders import Items, Reading
from _multitables.benchmark.contract import NotMeasuredError, Sample
from _multitables.benchmark.data import shots, workloads
from _multitables.benchmark.data.shots import PAGE_BYTES, ShotsFile
from _multitables.benchmark.harness.results import Row
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.objects.server import NoServerError
from _multitables.benchmark.objects.store import Store
from _multitables.benchmark.studies.frame import Case, Prepared

KEYS = ("where", "page_buffer", "layout", "access", "processes")
MORE = (
    *("seconds", "decoded_bytes", "discovery", "start", "open", "read", "imbalance", "readers"),
    *("raw_hits", "meta_hits", "buffer_bytes", "requests", "heads", "n_bytes"),
)
STUDY_SHOTS, STUDY_SIGNALS = 500, 62
#: Of cases whose contenders are left out for the same reason.
LABELS = {"local": "files", "s3": "objects"}
MIN_PAGES = 2  # one of metadata and one of data
_OF_FILE = ("file", "obj-type", "tot-num-obj", "gather-time", "tot-runtime")
_OF_PROCESS = (
    *("read-data-time", "wrkr-num-objs", "mean-obj-time", "num-dsets", "mean-dset-time"),
    *("worker#", "num-workers"),
)
_OF_BUFFER = tuple(
    f"pb-{kind}-{what}" for kind in ("meta", "raw") for what in ("accesses", "hitrate", "evicts")
)
#: The columns of the published files, in their order.
COLUMNS = {
    "local": ("open-file-time", "pb-size", *_OF_PROCESS, *_OF_FILE, *_OF_BUFFER),
    "s3": ("open-file-time", "pb-size", *_OF_BUFFER, *_OF_PROCESS, *_OF_FILE),
}


@dataclass(frozen=True)
class Options:
    """What is varied, and how the published method runs."""

    where: Sequence[str]
    page_buffer: Sequence[int]
    processes: Sequence[int]
    access: Sequence[str]
    layout: Sequence[str]
    plan: str
    as_described: bool
    gather: bool
    latency_ms: float
    n_shots: int
    n_signals: int

    def buffer_bytes(self, page_buffer: int) -> int:
        """A page buffer of the study, as large beside this file."""
        pages = round(page_buffer / PAGE_BYTES * self.n_shots / STUDY_SHOTS)
        return max(MIN_PAGES, pages) * PAGE_BYTES if page_buffer else 0


@dataclass(frozen=True, eq=False)
class ShotsCases:
    """Makes the cases of a run; files and objects are written when they are first needed.

    `directory` is for the data. What `stack` is given lives as long as the run.
    """

    options: Options
    directory: str
    stack: ExitStack
    ros3_python: str

    @functools.cached_property
    def folder(self) -> str:
        """For objects, and Dask's files."""
        return self.stack.enter_context(workloads.scratch_directory(tempfile.gettempdir()))

    @functools.cached_property
    def store(self) -> Store:
        """For objects, with a server of its own."""
        if importlib.util.find_spec("obstore") is None:
            raise NotMeasuredError("obstore is missing: pip install multitables[remote]")
        try:
            made = Store(self.folder, self.options.latency_ms / 1000)
        except NoServerError as error:
            raise NotMeasuredError(str(error)) from error
        return self.stack.enter_context(made)

    def cases(self) -> Iterator[Case]:
        """All of them."""
        own = self.options
        for where in own.where:
            buffers = [one for one in own.page_buffer if one or where != "s3"]
            product = itertools.product(buffers, own.processes, own.access, own.layout)
            for page_buffer, processes, access, layout in product:
                key = (where, page_buffer, layout, access, processes)
                prepare = functools.partial(self._prepare, *key)
                named = dict(zip(KEYS, key, strict=True))
                yield Case(named, prepare, "s", self._names(where), label=LABELS[where])

    def _names(self, where: str) -> list[str]:
        gathered = [people.GATHERED] if self.options.gather and where == "local" else []
        return [people.OURS, people.INDEXED, people.PUBLISHED, *gathered]

    def _prepare(
        self,
        where: str,
        page_buffer: int,
        layout: str,
        access: str,
        processes: int,
        _stack: ExitStack,
    ) -> Prepared:
        own = self.options
        filename = self._file(layout)
        reading = Reading(
            *self._places(where, layout),
            items=self._items(layout, access),
            access=access,
            plan=own.plan,
            n_procs=processes,
            buffer_bytes=own.buffer_bytes(page_buffer),
            as_described=own.as_described,
            folder=self.folder,
            store=self.store if where == "s3" else None,
            ros3_python=self.ros3_python,
        )
        everybody = [people.contender(reading, name) for name in self._names(where)]
        right = reading.items.digest
        return Prepared(everybody, against(lambda: right), [filename] if where == "local" else [])

    @functools.cache  # noqa: B019  as long as the run
    def _file(self, layout: str) -> str:
        own = self.options
        name = f"shots_{own.n_shots}_{own.n_signals}_{layout}"
        made = ShotsFile(name, own.n_shots, own.n_signals, layout)
        return shots.in_directory(made, self.directory)

    @functools.cache  # noqa: B019
    def _items(self, layout: str, access: str) -> Items:
        return people.items_of(self._file(layout), people.wildcard_of(access))

    @functools.cache  # noqa: B019
    def _places(self, where: str, layout: str) -> tuple[str, str]:
        """The file or object; and the same again, which gets a saved index."""
        filename = self._file(layout)
        indexed = f"{filename[:-3]}_indexed.h5"
        if where == "s3":
            names = os.path.basename(filename), os.path.basename(indexed)
            first, second = (self.store.put(filename, name) for name in names)
            return first, second
        if not os.path.exists(indexed):
            os.link(filename, indexed)
        return filename, indexed


@dataclass
class PublishedFiles:
    """Writes ``shots_local.csv`` and ``shots_s3.csv`` as the study did."""

    directory: str
    resume: bool
    _begun: set[str] = field(default_factory=set)

    def keep(self, row: Row, sample: Sample) -> None:
        """Add the processes of a measurement of the published method, of the first round."""
        if row["contender"] == people.PUBLISHED and row["round"] == "0":
            self._write(row["where"], sample.more["records"])

    def _write(self, where: str, records: Sequence[Mapping[str, Any]]) -> None:
        filename = os.path.join(self.directory, f"shots_{where}.csv")
        goes_on = where in self._begun or (self.resume and os.path.exists(filename))
        with open(filename, "a" if goes_on else "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS[where], lineterminator="\n")
            if not goes_on:
                writer.writeheader()
            writer.writerows(records)
        self._begun.add(where)
