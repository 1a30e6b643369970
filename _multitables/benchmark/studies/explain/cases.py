"""How a dataset is explained: what is measured, and in which state of the page cache.

Law
---
1. The user's file is only read. Of a large dataset, what reads warm is measured on a sample of its
   first chunks as they are stored, in a temporary file.
2. A case is a way to read: around the page cache, through it when warm, and neither. In each its
   limits and its streams take turns. Every stream is checked against h5py or PyTables.
3. It measures; `views` says what the figures mean.
"""

from __future__ import annotations

import functools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from _multitables.benchmark.analysis import advice
from _multitables.benchmark.contenders import bounds, streams
from _multitables.benchmark.contract import (
    Contender,
    Digest,
    Measurement,
    NotMeasuredError,
    Sample,
    Source,
    differs,
)
from _multitables.benchmark.data import dataset_storage
from _multitables.benchmark.data.dataset_storage import Stored
from _multitables.benchmark.harness.child import face
from _multitables.benchmark.harness.runner import Entry
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.machine import environment, io_mode, page_cache
from _multitables.benchmark.studies.explain.numbers import DIRECT, NEITHER, STREAM, WARM
from _multitables.benchmark.studies.frame import Case, Prepared

IN_FLIGHT = 8  # requests that keep a device busy
SPARED_TIMES = 3  # starting the processes of a limit may take this many times the measuring
MODES = {DIRECT: io_mode.IoMode(io_mode.DIRECT, drop_before=True), WARM: io_mode.WARM}
LABELS = {
    DIRECT: "the device, and streams from it",
    WARM: "what reads from the page cache",
    NEITHER: "memory",
}


@dataclass(frozen=True)
class Scale:
    """How much is measured; ``sample_bytes`` are decoded."""

    seconds: float
    processes: tuple[int, ...]
    cores: int
    sample_bytes: int
    copy_bytes: int


@dataclass(frozen=True)
class DatasetStream:
    """A stream of the dataset; its first rows are checked."""

    name: str
    dataset: Stored
    options: Mapping[str, Any]
    n_procs: int
    block_size: int | None
    checked_rows: int
    seconds: float
    needs: tuple[str, ...] = ()

    def check(self) -> Digest:
        """Digest of the first rows."""
        case = self.dataset, self.n_procs, self.block_size, self.options
        return stream_loop.digest_of(first_rows(*case, self.checked_rows))

    def measure(self) -> Sample:
        """MB/s, and where the readers' time went."""
        case = self.n_procs, self.block_size, dict(self.options), self.seconds
        return bounds.stream(source_of(self.dataset), *case)


@dataclass(frozen=True)
class Explained:
    """A dataset, and how it can be read.

    Attributes
    ----------
    stored : Stored
    default_rows : int
        The library's own block size.
    scratch : str
        A directory for temporary files.
    scale : Scale
    """

    stored: Stored
    default_rows: int
    scratch: str
    scale: Scale

    @functools.cached_property
    def direct(self) -> Stored | str:
        """The dataset, or why it is not read from a device."""
        stored = self.stored
        if environment.in_memory(stored.filename):
            kind = environment.mount_of(stored.filename).kind
            return f"{kind} keeps its files in memory: there is no device"
        if stored.elsewhere:
            return "its bytes lie in other files"
        if not stored.stored_bytes:
            return "nothing is stored: every row is the fill value"
        return page_cache.direct_refusal(stored.filename) or stored

    @functools.cached_property
    def warm(self) -> Stored | str:
        """The dataset or its sample, which the page cache can hold, or why neither exists."""
        stored, size_bytes = self.stored, self.scale.sample_bytes
        if stored.elsewhere:
            return "its bytes lie in other files"
        if max(stored.decoded_bytes, os.path.getsize(stored.filename)) <= size_bytes:
            return stored
        free_bytes = shutil.disk_usage(self.scratch).free
        if free_bytes < 2 * size_bytes:
            return (
                f"a sample wants {2 * size_bytes / 1e9:.1f} GB for temporary files, and there are "
                f"{free_bytes / 1e9:.1f}: set TMPDIR to a larger place"
            )
        sample = os.path.join(self.scratch, "sample.h5")
        try:
            return dataset_storage.sample(stored, sample, size_bytes)
        except (NotMeasuredError, dataset_storage.NoDatasetError) as error:
            return str(error)

    def cases(self, key: Mapping[str, str]) -> Iterator[Case]:
        """Each way to read; `key` are the columns that all rows share."""
        for way, dataset in ((DIRECT, self.direct), (WARM, self.warm)):
            if isinstance(dataset, str):
                yield Case({**key, "way": way}, partial(_refuse, dataset), label=LABELS[way])
            else:
                files = (dataset.filename,)
                entries = [*self._limits(way, dataset), *self._streams(way, dataset, files)]
                yield self._case(key, way, entries)
        if isinstance(self.direct, str) and isinstance(self.warm, str):  # in any state of the cache
            yield self._case(key, WARM, self._streams(WARM, self.stored, ()))
        yield self._case(key, NEITHER, [*self._limits(NEITHER, self.stored)])

    def _case(self, key: Mapping[str, str], way: str, entries: Sequence[Entry]) -> Case:
        oracle = functools.cache(partial(Oracle, source_of(self.stored), self._checked_rows))
        made = Prepared(entries, lambda found: oracle().differs(found))
        names = [one.key for one in entries]
        return Case({**key, "way": way}, lambda _stack: made, names=names, label=LABELS[way])

    def _entry(
        self,
        way: str,
        who: str,
        one: Contender,
        files: Sequence[str],
        n_procs: int,
        block_size: int | None = None,
    ) -> Entry:
        """The samples of those who read the file say what is stored, too."""

        def measure() -> Sample:
            sample = one.measure()
            stored = {"stored_mb_per_s": round(sample.value / self.stored.ratio, 1)} if way else {}
            return Sample(round(sample.value, 1), {**sample.more, **stored})

        key = {"contender": who, "n_procs": n_procs, "block_size": block_size or ""}
        contender = Measurement(one.name, measure, one.check, one.needs)
        return Entry(one.name, contender, key, files, MODES.get(way, io_mode.WARM))

    def _limits(self, way: str, dataset: Stored) -> Iterator[Entry]:
        """Everything but the streams."""
        on = sorted({1, self.scale.cores})
        limits: dict[str, list[tuple[str, Sequence[int], Callable[[int], Sample]]]] = {
            DIRECT: [("device", (1, IN_FLIGHT), self._device)],
            WARM: [
                ("page cache", on, partial(self._page_cache, dataset)),
                ("fetch and decode", on, partial(self._decode, dataset)),
            ],
            NEITHER: [("memory copy", on, self._copy), ("hand-over", (1,), self._hand_over)],
        }
        files = (dataset.filename,) if way else ()
        for who, numbers, measure in limits[way]:
            for n in numbers:
                one = Measurement(f"{who} x{n}", partial(measure, n))
                yield self._entry(way, who, one, files, n)

    def _streams(self, way: str, dataset: Stored, files: Sequence[str]) -> list[Entry]:
        """Those of each number of processes, and of the block size that may be better."""
        sizes: list[tuple[int, int | None]] = [(n, None) for n in self.scale.processes]
        advised = advice.block_rows(shape_of(self.stored))
        if advised != self.default_rows:
            most = max(n for n in self.scale.processes if n <= self.scale.cores)
            sizes.append((most, advised))
        options = {"DRIVER": "H5FD_DIRECT"} if way == DIRECT else {}
        rows, seconds = self._checked_rows, self.scale.seconds
        found = []
        for n, size in sizes:
            name = f"stream x{n}" + (f", block_size={size}" if size else "")
            one = DatasetStream(name, dataset, options, n, size, rows, seconds)
            found.append(self._entry(way, STREAM, one, files, n, size))
        return found

    @property
    def _checked_rows(self) -> int:
        """The rows that all streams have."""
        every = self.direct, self.warm, self.stored
        return min(one.rows for one in every if not isinstance(one, str))

    def _device(self, n: int) -> Sample:
        one = self.stored
        return self._decoded(
            *bounds.device(one.filename, one.offset, one.stored_bytes, n, self.scale.seconds)
        )

    def _page_cache(self, warm: Stored, n: int) -> Sample:
        return self._decoded(*bounds.page_cache(warm.filename, n, self.scale.seconds))

    def _decoded(self, seconds: float, stored_bytes: int) -> Sample:
        """The decoded bytes that some stored bytes come to."""
        return Sample.of(seconds, int(stored_bytes * self.stored.ratio))

    def _decode(self, warm: Stored, n: int) -> Sample:
        source, seconds, passes = source_of(warm), 0.0, 0
        deadline = time.monotonic() + SPARED_TIMES * self.scale.seconds
        while passes == 0 or (seconds < self.scale.seconds and time.monotonic() < deadline):
            seconds += streams.codec_limit(source, n).more["seconds"]
            passes += 1
        return Sample.of(seconds, passes * warm.decoded_bytes)

    def _copy(self, n: int) -> Sample:
        return Sample.of(*bounds.memory_copy(n, self.scale.seconds, self.scale.copy_bytes))

    def _hand_over(self, _n: int) -> Sample:
        block_bytes = self.default_rows * self.stored.row_bytes
        return Sample.of(bounds.hand_over(self.scratch), block_bytes)


def _refuse(why: str, _stack: ExitStack) -> Prepared:
    raise NotMeasuredError(why)


def source_of(stored: Stored) -> Source:
    """The dataset as contenders want it."""
    return Source(stored.filename, stored.path, stored.rows, stored.row_bytes)


def shape_of(stored: Stored) -> advice.Shape:
    """The dataset as advice wants it."""
    chunk_rows = stored.chunks[0] if stored.chunks else 1
    return advice.Shape(stored.rows, stored.row_bytes, chunk_rows, stored.chunk_bytes)


def first_rows(
    dataset: Stored, n_procs: int, block_size: int | None, options: Mapping[str, Any], rows: int
) -> Iterator[Any]:
    """The first rows of a stream, as its consumer sees them."""
    streamer = face().Streamer(dataset.filename, **options)
    with streamer.get_queue(
        dataset.path, n_procs=n_procs, block_size=block_size, remainder=True
    ) as queue:
        yield from _cut(_lent(queue), rows)


def _lent(queue: Any) -> Iterator[Any]:
    for guard in queue:
        with guard as block:
            yield block


def _cut(blocks: Iterator[Any], rows: int) -> Iterator[Any]:
    """The first `rows` of all blocks."""
    left = rows
    for block in blocks:
        yield block[:left]
        left -= len(block)
        if left <= 0:
            return


class Oracle:
    """The first rows as h5py reads them, or PyTables, which has types of its own."""

    def __init__(self, source: Source, rows: int) -> None:
        self._source = source
        self._rows = rows
        self._readers = [streams.h5py_read(source), streams.pytables_read(source)]
        self._right: list[Digest] = []
        self._reasons: list[str] = []
        self._read_next()

    def _read_next(self) -> None:
        """Read with the first library that can."""
        found = None
        while found is None and self._readers:
            reader = self._readers.pop(0)
            try:
                slabs = reader.slabs(self._source)
                found = stream_loop.digest_of(_cut(slabs, self._rows))
            except Exception as error:  # noqa: BLE001  each has its own errors for what it cannot
                self._reasons.append(f"{reader.name}: {error}")
        if found is not None:
            self._right.append(found)
        elif not self._right:
            raise NotMeasuredError(
                "neither h5py nor PyTables can read this dataset, so that no stream of it can be "
                f"checked: {'; '.join(self._reasons)}"
            )

    def differs(self, found: Mapping[str, Any]) -> str:
        """The fault of rows that came; empty for right ones."""
        faults = [differs(found, right) for right in self._right]
        if "" not in faults and self._readers:
            self._read_next()
            faults = [differs(found, right) for right in self._right]
        return "" if "" in faults else faults[0]
