"""The cases of the sweep: each dataset on each place, with each limit of its device.

Law
---
1. A place has one file: that of the dataset written last, all of whose cases follow. A dataset that
   has all its rows is not written.
2. The values of the noise are those of the 2.x benchmark, float32 from a normal distribution in
   rows of 1024, so that tables published then can be laid beside these.
3. A dataset without compression is one dataset, also where several compression libraries are swept.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from _multitables.benchmark.contenders import streams
from _multitables.benchmark.contract import (
    Contender,
    Measurement,
    NotMeasuredError,
    Sample,
    Source,
)
from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.datasets import Dataset
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.harness.runner import Entry, against
from _multitables.benchmark.machine import throttle
from _multitables.benchmark.studies import beside
from _multitables.benchmark.studies.frame import Case, Prepared
from _multitables.benchmark.studies.sweep.lines import Readers

COLUMNS_A_ROW = 1024

#: data -> values of `workloads.VALUES`, and the dtype
DATA = {
    "noise": ("normal", "float32"),
    "smooth": ("smooth", "float32"),
    "counts": ("poisson", "int32"),
    "categories": ("categories", "uint8"),
}
#: what --data takes: the data it stands for
FIELDS = {"noise": ("noise",), "real": tuple(DATA)}

#: With the contender they name a cell; with a round it is one row of the results.
KEYS = (
    *("place", "data", "complib", "complevel", "access", "driver", "n_procs", "limit_mb_per_s"),
)
MORE = ("rows", "row_bytes", "stored_bytes", "seconds", "decoded_bytes", "stored_mb_per_s")

#: data, compression library and level
Names = tuple[str, str, int]


def datasets(
    fields: Sequence[str], complibs: Sequence[str], complevels: Sequence[int], size_bytes: float
) -> dict[Names, Workload]:
    """Every file, each once."""
    found = {}
    for data in fields:
        values, dtype = DATA[data]
        for complib in complibs:
            for level in complevels:
                stored = {"complib": complib, "complevel": level} if level else {}
                one = Dataset(data, stored, COLUMNS_A_ROW, dtype, values)
                name = data, complib if level else "none", level
                found[name] = one.workload("sweep", size_bytes)
    return found


@dataclass
class Place:
    """A directory on a device.

    Attributes
    ----------
    directory, filename : str
        As it was named, and the file there.
    readers : Readers
    facts : mapping
    copies : ExitStack
        Holds what the peers write of the dataset.
    """

    directory: str
    filename: str
    readers: Readers
    facts: Mapping[str, str]
    copies: ExitStack
    _written: Workload | None = field(default=None, init=False)
    _scratch: str = field(default="", init=False)

    def write(self, workload: Workload) -> str:
        """Its file, unless it was written last; returns a directory for copies of it."""
        if self._written != workload:
            self._written = None
            self.copies.close()
            workloads.write(workload, self.filename)
            near = os.path.dirname(self.filename)
            self._scratch = self.copies.enter_context(workloads.scratch_directory(near))
            self._written = workload
        return self._scratch

    def cases(
        self, name: Names, workload: Workload, limits: Sequence[float | None]
    ) -> Iterator[Case]:
        """A dataset with each limit; it is checked once."""
        source = self.source(workload)
        right = against(functools.partial(streams.oracle, source))
        ours = [_of_source(one, source) for one in self.readers.lines(source)]

        @functools.cache
        def peers() -> list[Entry]:
            found = self.readers.peers(source, workload, self.write(workload))
            return [_of_source(one, source) for one in found]

        for limit in limits:

            def prepare(stack: ExitStack, limit: float | None = limit) -> Prepared:
                self.write(workload)
                if limit is not None:
                    try:
                        stack.enter_context(throttle.limited(source.filename, limit * 1e6))
                    except throttle.CannotLimitError as error:
                        raise NotMeasuredError(str(error)) from error
                return Prepared([*ours, *peers()], right)

            yield Case(
                {**self.key(name), "limit_mb_per_s": "" if limit is None else limit},
                prepare,
                names=[] if self.readers.has_peers else [one.key for one in ours],
                facts=self.facts,
                label=title(name) + (f", {limit:g} MB/s" if limit is not None else ""),
            )

    def beside_h5py(
        self, name: Names, workload: Workload, seconds: float, kept: list[dict[str, Any]]
    ) -> Case:
        """A dataset beside a loop over h5py."""

        def file() -> tuple[str, str]:
            self.write(workload)
            return self.filename, workloads.PATH

        which = {"place": self.directory, "dataset": title(name)}
        return replace(beside.case(self.key(name), which, file, seconds, kept), facts=self.facts)

    def source(self, workload: Workload) -> Source:
        """The dataset of the file."""
        return Source(self.filename, workloads.PATH, workload.rows, workload.row_bytes)

    def key(self, name: Names) -> dict[str, Any]:
        """A dataset's part of a row."""
        data, complib, level = name
        return {"place": self.directory, "data": data, "complib": complib, "complevel": level}


def title(name: Names) -> str:
    """``noise blosc 3``."""
    return " ".join(map(str, name))


def _of_source(entry: Entry, source: Source) -> Entry:
    """Is checked once, and its samples say what is stored."""
    one: Contender = entry.contender

    def measure() -> Sample:
        sample, stored_bytes = one.measure(), os.path.getsize(source.filename)
        more = {
            "rows": source.rows,
            "row_bytes": source.row_bytes,
            "stored_bytes": stored_bytes,
            "stored_mb_per_s": round(sample.value * stored_bytes / source.decoded_bytes, 1),
        }
        return Sample(round(sample.value, 1), {**sample.more, **more})

    checked = Measurement(one.name, measure, functools.cache(one.check), one.needs)
    return replace(entry, contender=checked)
