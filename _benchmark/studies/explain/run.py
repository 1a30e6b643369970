"""How a dataset is explained: what is measured, in which state of the page cache, in which order.

Law
---
1. The user's file is only read. Of a large dataset, what reads warm is measured on a sample of its
   first chunks as they are stored, in a temporary file.
2. Every stream is checked against h5py or PyTables before it is timed; then all take turns, round
   by round, first those around the page cache, then those through it.
3. It keeps rows and reasons; `views` says what they mean.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from _benchmark.analysis import advice
from _benchmark.contenders import bounds, streams
from _benchmark.contract import (
    Contender,
    Digest,
    Measurement,
    NotMeasuredError,
    Sample,
    Source,
    differs,
)
from _benchmark.data import dataset_storage
from _benchmark.data.dataset_storage import Stored
from _benchmark.harness.child import face
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile
from _benchmark.harness.runner import Entry, Runner, told
from _benchmark.loops import stream_loop
from _benchmark.machine import environment, io_mode, page_cache
from _benchmark.studies.explain.numbers import DIRECT, NEITHER, WARM
from _benchmark.studies.explain.views import views

IN_FLIGHT = 8  # requests that keep a device busy
SPARED_TIMES = 3  # starting the processes of a limit may take this many times the measuring


@dataclass(frozen=True)
class Scale:
    """How much is measured; ``sample_bytes`` are decoded."""

    seconds: float
    rounds: int
    processes: tuple[int, ...]
    cores: int
    sample_bytes: int
    copy_bytes: int


@dataclass(frozen=True)
class DatasetStream:
    """A stream of the dataset, of which the first rows are checked."""

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


@dataclass
class Explanation:
    """One run; filled as it goes, so that an interrupted run can be shown.

    `shared` are the columns that all rows have; `default_rows` is the library's own block size,
    `shuffles` how often epochs in each order decode each chunk.
    """

    stored: Stored
    default_rows: int
    shuffles: Mapping[str, float]
    scratch: str
    scale: Scale
    results: ResultFile
    shared: Mapping[str, str]
    warm: Stored | None = None  # the dataset or its sample, of a size that the page cache can hold
    left_out: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def more(self) -> dict[str, Any]:
        """What is kept beside the rows."""
        return {
            "dataset": dataclasses.asdict(self.stored) | {"filename": self.shared["file"]},
            "sampled": self.warm is not None and self.warm != self.stored,
            "default_rows": self.default_rows,
            "shuffles": dict(self.shuffles),
            "cores": self.scale.cores,
            "cache_bytes": environment.cache_bytes(),
            "left_out": self.left_out,
            "faults": self.faults,
        }

    def text(self) -> str:
        """What was finished."""
        return "\n\n".join(view.text() for view in views(self.results.kept(**self.more)))

    def measure(self) -> None:
        """Check and measure everything that an earlier run has not."""
        self._find_modes()
        entries, rounds = [*self._limits(), *self._streams()], range(self.scale.rounds)
        with Progress(len(entries) * len(rounds), "steps") as bar:
            runner = Runner(self.results, "round", self._columns, self._failed, bar)
            todo = [one for one in entries if runner.missing(one, rounds)]
            our_streams = [one for one in todo if one.key["quantity"] == "stream"]
            if our_streams:
                bar.stage("read with h5py")
                oracle = Oracle(source_of(self.stored), self._checked_rows())
                runner.verified(our_streams, oracle.differs)
            # each round drops and fills the page cache only once, which takes long
            direct = [one for one in todo if one.key["way"] == DIRECT]
            others = [one for one in todo if one not in direct]
            for number in rounds:
                for group in (direct, others):
                    runner.measure([one for one in group if self._may_run(one)], [number])

    # ---- what is measured

    def _find_modes(self) -> None:
        """Whether there is a device to be read from, and what is read warm."""
        stored, size_bytes = self.stored, self.scale.sample_bytes
        if environment.in_memory(stored.filename):
            kind = environment.mount_of(stored.filename).kind
            self.left_out[DIRECT] = f"{kind} keeps its files in memory: there is no device"
        elif stored.elsewhere:
            self.left_out[DIRECT] = "its bytes lie in other files"
        elif not stored.stored_bytes:
            self.left_out[DIRECT] = "nothing is stored: every row is the fill value"
        else:
            refusal = page_cache.direct_refusal(stored.filename)
            if refusal:
                self.left_out[DIRECT] = refusal
        if stored.elsewhere:
            self.left_out[WARM] = "its bytes lie in other files"
        elif max(stored.decoded_bytes, os.path.getsize(stored.filename)) <= size_bytes:
            self.warm = stored
        else:
            try:
                self.warm = self._sample(size_bytes)
            except (NotMeasuredError, dataset_storage.NoDatasetError) as error:
                self.left_out[WARM] = str(error)

    def _sample(self, size_bytes: int) -> Stored:
        free_bytes = shutil.disk_usage(self.scratch).free
        if free_bytes < 2 * size_bytes:
            raise NotMeasuredError(
                f"a sample wants {2 * size_bytes / 1e9:.1f} GB for temporary files, and there are "
                f"{free_bytes / 1e9:.1f}: set TMPDIR to a larger place"
            )
        return dataset_storage.sample(
            self.stored, os.path.join(self.scratch, "sample.h5"), size_bytes
        )

    def _entry(
        self,
        mode: str,
        quantity: str,
        n_procs: int,
        contender: Contender,
        block_size: int | None = None,
    ) -> Entry:
        """Its key has the column ``way``: the mode, by the name that it has in stored results."""
        key = {"way": mode, "quantity": quantity, "n_procs": n_procs, "block_size": block_size}
        files: dict[str, tuple[str, ...]] = {DIRECT: (self.stored.filename,)}
        if self.warm is not None:
            files[WARM] = (self.warm.filename,)
        how = io_mode.IoMode(io_mode.DIRECT, drop_before=True) if mode == DIRECT else io_mode.WARM
        return Entry(contender.name, contender, {**self.shared, **key}, files.get(mode, ()), how)

    def _limits(self) -> Iterator[Entry]:
        """Everything but the streams."""

        def limit(mode: str, quantity: str, n: int, measure: Callable[..., Sample]) -> Entry:
            name = named(quantity, n, None, mode)
            return self._entry(mode, quantity, n, Measurement(name, partial(measure, n)))

        on = sorted({1, self.scale.cores})
        if DIRECT not in self.left_out:
            for n in (1, IN_FLIGHT):
                yield limit(DIRECT, "device", n, self._device)
        if self.warm is not None:
            for n in on:
                yield limit(WARM, "page cache", n, partial(self._page_cache, self.warm))
            for n in on:
                yield limit(WARM, "fetch and decode", n, partial(self._decode, self.warm))
        for n in on:
            yield limit(NEITHER, "memory copy", n, self._copy)
        yield limit(NEITHER, "hand-over", 1, self._hand_over)

    def _streams(self) -> Iterator[Entry]:
        """The streams of each number of processes, and of the block size that may be better."""
        advised = advice.block_rows(shape_of(self.stored))
        rows, seconds = self._checked_rows(), self.scale.seconds
        for mode, (dataset, options) in self._modes().items():
            cases: list[tuple[int, int | None]] = [(n, None) for n in self.scale.processes]
            if advised != self.default_rows:
                cases.append(
                    (max(n for n in self.scale.processes if n <= self.scale.cores), advised)
                )
            for n, block_size in cases:
                name = named("stream", n, block_size, mode)
                one = DatasetStream(name, dataset, options, n, block_size, rows, seconds)
                yield self._entry(mode, "stream", n, one, block_size)

    def _modes(self) -> dict[str, tuple[Stored, dict[str, Any]]]:
        """What a stream reads, and with which options, by its mode."""
        found: dict[str, tuple[Stored, dict[str, Any]]] = {}
        if DIRECT not in self.left_out:
            found[DIRECT] = self.stored, {"DRIVER": "H5FD_DIRECT"}
        if self.warm is not None:
            found[WARM] = self.warm, {}
        elif DIRECT not in found:
            found[WARM] = self.stored, {}
        return found

    def _checked_rows(self) -> int:
        return min(dataset.rows for dataset, _ in self._modes().values())

    def _device(self, n: int) -> Sample:
        one = self.stored
        return self._decoded(
            *bounds.device(one.filename, one.offset, one.stored_bytes, n, self.scale.seconds)
        )

    def _page_cache(self, warm: Stored, n: int) -> Sample:
        return self._decoded(*bounds.page_cache(warm.filename, n, self.scale.seconds))

    def _decoded(self, seconds: float, stored_bytes: int) -> Sample:
        """What stored bytes are when they are decoded."""
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

    # ---- what becomes of it

    def _may_run(self, one: Entry) -> bool:
        return one.name not in self.faults and one.key["quantity"] not in self.left_out

    def _failed(self, one: Entry, error: Exception) -> None:
        if isinstance(error, NotMeasuredError):
            self.left_out[one.key["quantity"]] = str(error)
        else:
            self.faults[one.name] = told(error)

    def _columns(self, one: Entry, sample: Sample) -> dict[str, Any]:
        stored = round(sample.value / self.stored.ratio, 1) if one.key["way"] else None
        return {**sample.more, "mb_per_s": round(sample.value, 1), "stored_mb_per_s": stored}


def named(quantity: str, n_procs: int, block_size: int | None, mode: str) -> str:
    """``stream x2, block_size=7, direct``."""
    block = f", block_size={block_size}" if block_size else ""
    return f"{quantity} x{n_procs}{block}" + (f", {mode}" if mode else "")


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
    """What h5py reads of the first rows, or PyTables, which has types of its own."""

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
        """What is wrong with rows that came; empty when nothing is."""
        faults = [differs(found, right) for right in self._right]
        if "" not in faults and self._readers:
            self._read_next()
            faults = [differs(found, right) for right in self._right]
        return "" if "" in faults else faults[0]
