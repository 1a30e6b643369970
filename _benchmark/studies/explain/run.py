"""How a dataset is explained: what is measured, in which state of the page cache, in which order.

Law
---
1. The user's file is only read. Of a large dataset, what reads warm is measured on a sample of its
   first chunks as they are stored, in a temporary file.
2. Every stream is checked against h5py or PyTables before it is timed; then all take turns, round
   by round, first those around the page cache, then those through it.
3. It keeps rows and reasons; what they mean is said by `views`, from them alone.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from _benchmark.analysis import advice
from _benchmark.contenders import bounds, streams
from _benchmark.contract import NotMeasuredError, Pass, Source
from _benchmark.data import dataset_storage
from _benchmark.data.dataset_storage import Stored
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import Kept, ResultFile
from _benchmark.harness.rounds import turns
from _benchmark.loops import stream_loop
from _benchmark.machine import environment, io_mode, page_cache

COLUMNS = (
    *("study", "file", "path", "way", "quantity", "n_procs", "block_size", "cache", "round"),
    *("seconds", "decoded_bytes", "mb_per_s", "stored_mb_per_s"),
    *("fetch_seconds", "decode_seconds", "wait_seconds"),
)
# the ways to a file: around the page cache, through it when it is warm, and neither
DIRECT, WARM, NEITHER = "direct", "warm", ""
IN_FLIGHT = 8  # requests that keep a device busy
SPARED_TIMES = 3  # so much longer may starting the processes of a limit take than measuring it

Measured = dict[str, Any]


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
class Measurement:
    """One thing that is measured once a round; `once` tells its seconds and decoded bytes."""

    way: str
    quantity: str
    n_procs: int
    once: Callable[[], Measured]
    block_size: int | None = None

    @property
    def key(self) -> dict[str, Any]:
        """Its columns."""
        names = ("way", "quantity", "n_procs", "block_size")
        return {name: getattr(self, name) for name in names}

    @property
    def name(self) -> str:
        """``stream x2, direct``."""
        block = f", block_size={self.block_size}" if self.block_size else ""
        return f"{self.quantity} x{self.n_procs}{block}" + (f", {self.way}" if self.way else "")


@dataclass
class Explanation:
    """One run; filled as it goes, so that an interrupted run can be shown.

    `shared` are the columns that all rows have; `default_rows` is the library's own block size.
    """

    stored: Stored
    default_rows: int
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
            "cores": self.scale.cores,
            "cache_bytes": environment.cache_bytes(),
            "left_out": self.left_out,
            "faults": self.faults,
        }

    @property
    def kept(self) -> Kept:
        """What there is to show."""
        return Kept(self.results.name, self.results.rows, self.more)

    def run(self) -> None:
        """Check and measure everything that an earlier run has not."""
        self._find_ways()
        everything = [*self._limits(), *self._streams()]
        todo = [one for one in everything if self._missing(one)]
        our_streams = [one for one in todo if one.quantity == "stream"]
        with Progress(
            bool(our_streams) + len(our_streams) + len(todo) * self.scale.rounds, "steps"
        ) as bar:
            verified = self._verified(our_streams, bar) if our_streams else []
            self._measure([one for one in todo if one not in our_streams or one in verified], bar)

    # ---- what is measured

    def _find_ways(self) -> None:
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
            except NotMeasuredError as error:
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

    def _limits(self) -> Iterator[Measurement]:
        """Everything but the streams."""
        on = sorted({1, self.scale.cores})
        if DIRECT not in self.left_out:
            for n in (1, IN_FLIGHT):
                yield Measurement(DIRECT, "device", n, partial(self._device, n))
        if self.warm is not None:
            for n in on:
                yield Measurement(WARM, "page cache", n, partial(self._page_cache, self.warm, n))
            for n in on:
                yield Measurement(WARM, "fetch and decode", n, partial(self._decode, self.warm, n))
        for n in on:
            yield Measurement(NEITHER, "memory copy", n, partial(self._copy, n))
        yield Measurement(NEITHER, "hand-over", 1, self._hand_over)

    def _streams(self) -> Iterator[Measurement]:
        """The streams of each number of processes, and of the block size that may be better."""
        advised = advice.block_rows(shape_of(self.stored))
        for way, (dataset, options) in self._ways().items():
            once = partial(self._stream, dataset, options)
            for n in self.scale.processes:
                yield Measurement(way, "stream", n, partial(once, n, None))
            if advised != self.default_rows:
                n = max(n for n in self.scale.processes if n <= self.scale.cores)
                yield Measurement(way, "stream", n, partial(once, n, advised), advised)

    def _ways(self) -> dict[str, tuple[Stored, dict[str, Any]]]:
        """What a stream reads, and with which options, by the way to it."""
        found: dict[str, tuple[Stored, dict[str, Any]]] = {}
        if DIRECT not in self.left_out:
            found[DIRECT] = self.stored, {"DRIVER": "H5FD_DIRECT"}
        if self.warm is not None:
            found[WARM] = self.warm, {}
        elif DIRECT not in found:
            found[WARM] = self.stored, {}
        return found

    def _device(self, n: int) -> Measured:
        one = self.stored
        return self._decoded(
            bounds.device(one.filename, one.offset, one.stored_bytes, n, self.scale.seconds)
        )

    def _page_cache(self, warm: Stored, n: int) -> Measured:
        return self._decoded(bounds.page_cache(warm.filename, n, self.scale.seconds))

    def _decoded(self, found: Pass) -> Measured:
        """What stored bytes are when they are decoded."""
        decoded_bytes = int(found.decoded_bytes * self.stored.ratio)
        return {"seconds": found.seconds, "decoded_bytes": decoded_bytes}

    def _decode(self, warm: Stored, n: int) -> Measured:
        source, seconds, passes = source_of(warm), 0.0, 0
        deadline = time.monotonic() + SPARED_TIMES * self.scale.seconds
        while passes == 0 or (seconds < self.scale.seconds and time.monotonic() < deadline):
            seconds += streams.codec_limit(source, n).seconds
            passes += 1
        return {"seconds": seconds, "decoded_bytes": passes * warm.decoded_bytes}

    def _copy(self, n: int) -> Measured:
        return bounds.memory_copy(n, self.scale.seconds, self.scale.copy_bytes)._asdict()

    def _hand_over(self) -> Measured:
        block_bytes = self.default_rows * self.stored.row_bytes
        return {"seconds": bounds.hand_over(self.scratch), "decoded_bytes": block_bytes}

    def _stream(
        self, dataset: Stored, options: dict[str, Any], n: int, block_size: int | None
    ) -> Measured:
        source = source_of(dataset)
        found = bounds.stream(source, n, block_size, options, self.scale.seconds)
        return dataclasses.asdict(found)

    # ---- how it goes

    def _missing(self, one: Measurement) -> bool:
        return any(not self._is_kept(one, number) for number in range(self.scale.rounds))

    def _is_kept(self, one: Measurement, number: int) -> bool:
        return bool(self.results.earlier(**self.shared, **one.key, round=number))

    def _verified(
        self, our_streams: Sequence[Measurement], progress: Progress
    ) -> list[Measurement]:
        """Those of `our_streams` that deliver what h5py or PyTables reads."""
        ways = self._ways()
        rows = min(dataset.rows for dataset, _ in ways.values())
        progress.stage("read with h5py")
        oracle = Oracle(source_of(self.stored), rows)
        progress.tick(1)
        found = []
        for one in our_streams:
            progress.stage(f"check {one.name}")
            dataset, options = ways[one.way]
            blocks = first_rows(dataset, one.n_procs, one.block_size, options, rows)
            try:
                fault = oracle.differs(stream_loop.digest_of(blocks))
            except NotMeasuredError:
                raise
            except Exception as error:  # noqa: BLE001  whatever is raised is this library's fault
                fault = f"{type(error).__name__}: {error}"
            progress.tick(1)
            if fault:
                self._fails(one, fault, progress)
            else:
                found.append(one)
        return found

    def _fails(self, one: Measurement, fault: str, progress: Progress) -> None:
        self.faults[one.name] = fault
        progress.note(f"FAILED {one.name}: {fault}")

    def _measure(self, everything: Sequence[Measurement], progress: Progress) -> None:
        """All in turns, round by round; those around the page cache first."""
        by_name = {one.name: one for one in everything}
        direct = [name for name, one in by_name.items() if one.way == DIRECT]
        others = [name for name in by_name if name not in direct]
        groups = [list(turns(names, self.scale.rounds)) for names in (direct, others)]
        for number in range(self.scale.rounds):
            for group in groups:
                ones = [by_name[name] for of, name in group if of == number]
                todo = [one for one in ones if not self._is_kept(one, number)]
                progress.tick(len(ones) - len(todo))
                for one in todo:
                    progress.stage(one.name)
                    self._bring_about(one.way)
                    self._once(one, number, progress)
                    progress.tick(1)

    def _bring_about(self, way: str) -> None:
        """The state of the page cache that this way wants."""
        if way == DIRECT:
            page_cache.drop_page_cache(self.stored.filename)
        elif way == WARM and self.warm and page_cache.cache_state(self.warm.filename) != "warm":
            page_cache.fill_page_cache(self.warm.filename)

    def _once(self, one: Measurement, number: int, progress: Progress) -> None:
        if one.name in self.faults or one.quantity in self.left_out:
            return
        try:
            found = one.once()
        except NotMeasuredError as error:
            self.left_out[one.quantity] = str(error)
            return
        except Exception as error:  # noqa: BLE001  whatever is raised belongs in the table
            self._fails(one, f"{type(error).__name__}: {error}", progress)
            return
        rate = found["decoded_bytes"] / 1e6 / found["seconds"]
        self.results.add(
            **self.shared,
            **one.key,
            **found,
            cache=self._cache(one.way),
            round=number,
            mb_per_s=round(rate, 1),
            stored_mb_per_s=round(rate / self.stored.ratio, 1) if one.way else None,
        )

    def _cache(self, way: str) -> str:
        """What mincore says of the file, after a measurement."""
        if way == DIRECT:
            direct = io_mode.IoMode(io_mode.DIRECT)
            return io_mode.cache_of(direct, [self.stored.filename], before="")
        return page_cache.cache_state(self.warm.filename) if way == WARM and self.warm else ""


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
    streamer = streams.face().Streamer(dataset.filename, **options)
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
        self._right: list[dict[str, Any]] = []
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
        faults = [streams.differs(found, right, True) for right in self._right]
        if "" not in faults and self._readers:
            self._read_next()
            faults = [streams.differs(found, right, True) for right in self._right]
        return "" if "" in faults else faults[0]
