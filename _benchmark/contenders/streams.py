"""Who is measured at streams: this library, PyTables, h5py; and fio and the codec limit beside.

Law
---
1. Every contender keeps the contract: it shows what it delivers, and is timed over it.
2. The oracle is what PyTables reads, and the comparison with it is made here only.
3. It owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _benchmark.contract import NotMeasuredError, Pass, Source
from _benchmark.harness.child import Child
from _benchmark.loops import stream_loop
from _benchmark.loops.stream_loop import Tick, no_tick
from _benchmark.machine import environment

SLAB_BYTES = 4 * 2**20  # of the reads of PyTables and h5py: fits the caches, hides the calls


def face() -> Any:
    """The face of the library."""
    try:
        return importlib.import_module("multitables")
    except ImportError as error:
        raise NotMeasuredError(f"multitables cannot be imported ({error}); install it") from error


def oracle(source: Source, tick: Tick = no_tick) -> dict[str, Any]:
    """The digest of what PyTables reads: what every contender must deliver."""
    return stream_loop.digest_of(_tables_slabs(source), tick)


def differs(found: Mapping[str, Any], expected: Mapping[str, Any], in_order: bool) -> str:
    """What is wrong with the data a contender delivered; empty when nothing is."""
    if found["rows"] != expected["rows"]:
        return f"{found['rows']} rows instead of {expected['rows']}"
    if found["any_order"] != expected["any_order"]:
        return f"data differs: {found['any_order']} instead of {expected['any_order']}"
    if in_order and found["in_order"] != expected["in_order"]:
        return "the right rows in the wrong order"
    return ""


@dataclass(frozen=True)
class Stream:
    """multitables in this process; `cold` drops the file's pages when the clock starts.

    `open_streamer` is what makes a ``Streamer``; tests put their own there.
    """

    source: Source
    access: str
    n_procs: int
    options: Mapping[str, Any] = field(default_factory=dict)
    cold: bool = False
    open_streamer: Callable[..., Any] | None = None

    @property
    def in_order(self) -> bool:
        """Batches are shuffled; blocks and rows come in the order of the file."""
        return self.access != "batches"

    @property
    def name(self) -> str:
        """``queue x2``."""
        return f"{self.access} x{self.n_procs}"

    def _streamer(self) -> Any:
        make = self.open_streamer or face().Streamer
        return make(self.source.filename, **self.options)

    def check(self, tick: Tick = no_tick) -> dict[str, Any]:
        """Digest of one whole pass."""
        return stream_loop.digest_of(
            stream_loop.arrays(self._streamer(), self.source.path, self.access, self.n_procs), tick
        )

    def passes(self, cycles: int, tick: Tick = no_tick) -> list[Pass]:
        """Timed passes of one stream."""
        return [
            Pass(*one)
            for one in stream_loop.timed_passes(
                self._streamer(),
                self.source.path,
                self.access,
                self.n_procs,
                cycles,
                self.source.rows,
                self.source.row_bytes,
                tick,
                self.source.filename if self.cold else "",
            )
        ]


@dataclass(frozen=True)
class ChildStream:
    """multitables, this or the old release, in a fresh process for every stream.

    `cold` drops the file's pages when the clock starts.
    """

    source: Source
    label: str
    access: str
    n_procs: int
    python: str = sys.executable
    module_directory: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    in_order: bool = True
    timeout_seconds: float = 300.0
    cold: bool = False

    @property
    def name(self) -> str:
        """``multitables queue x2``."""
        return f"{self.label} {self.access} x{self.n_procs}"

    def _ask(self, verb: str, **more: Any) -> Any:
        with Child(self.python, self.module_directory, self.timeout_seconds) as child:
            return child.ask(
                verb=verb,
                filename=os.path.abspath(self.source.filename),
                path=self.source.path,
                access=self.access,
                n_procs=self.n_procs,
                options=dict(self.options),
                **more,
            )

    def check(self, tick: Tick = no_tick) -> dict[str, Any]:
        """Digest of one whole pass."""
        found: dict[str, Any] = self._ask("check")
        tick(self.source.decoded_bytes)
        return found

    def passes(self, cycles: int, tick: Tick = no_tick) -> list[Pass]:
        """Timed passes of one stream."""
        rows, row_bytes = self.source.rows, self.source.row_bytes
        cold = os.path.abspath(self.source.filename) if self.cold else ""
        found = self._ask("time", cycles=cycles, rows=rows, row_bytes=row_bytes, cold=cold)
        tick(cycles * self.source.decoded_bytes)
        return [Pass(*one) for one in found]


@dataclass(frozen=True)
class SlabRead:
    """A library that reads slabs of rows into one reused array, in this process.

    `slabs` yields an empty slab when the file is open, then all rows.
    """

    source: Source
    name: str
    slabs: Callable[[Source], Iterator[Any]]
    in_order: bool = True

    def check(self, tick: Tick = no_tick) -> dict[str, Any]:
        """Digest of one whole pass."""
        return stream_loop.digest_of(self.slabs(self.source), tick)

    def passes(self, cycles: int, tick: Tick = no_tick) -> list[Pass]:
        """Timed passes; like a stream's, without what opening the file takes."""
        passes = []
        for _ in range(cycles):
            slabs = self.slabs(self.source)
            next(slabs)
            seen_bytes = 0
            start = time.perf_counter()
            for slab in slabs:
                seen_bytes += slab.nbytes
            passes.append(Pass(time.perf_counter() - start, seen_bytes))
            tick(self.source.decoded_bytes)
        return passes


def _slab_rows(source: Source, chunk_rows: int) -> int:
    """Whole chunks that make up about `SLAB_BYTES`."""
    return max(1, SLAB_BYTES // (source.row_bytes * chunk_rows)) * chunk_rows


def _tables_slabs(source: Source) -> Iterator[Any]:
    import tables

    with tables.open_file(source.filename, "r") as file:
        array = file.get_node(source.path)
        slab_rows = _slab_rows(source, array.chunkshape[0] if array.chunkshape else 1)
        room = np.full((slab_rows, *array.shape[1:]), 0, array.dtype)  # touched, so reused
        yield room[:0]
        for start in range(0, array.nrows, slab_rows):
            stop = min(start + slab_rows, array.nrows)
            array.read(start, stop, out=room[: stop - start])
            yield room[: stop - start]


@contextlib.contextmanager
def h5py_dataset(source: Source) -> Iterator[Any]:
    """The open dataset, when h5py has all of its filters."""
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401  (registers filters like blosc)
    with h5py.File(source.filename, "r") as file:
        dataset = file[source.path]
        pipeline = dataset.id.get_create_plist()
        for number in range(pipeline.get_nfilters()):
            filter_id = pipeline.get_filter(number)[0]
            if not h5py.h5z.filter_avail(filter_id):
                raise NotMeasuredError(f"h5py has no filter {filter_id}: pip install hdf5plugin")
        yield dataset


def _h5py_slabs(source: Source) -> Iterator[Any]:
    with h5py_dataset(source) as dataset:
        slab_rows = _slab_rows(source, dataset.chunks[0] if dataset.chunks else 1)
        room = np.full((slab_rows, *dataset.shape[1:]), 0, dataset.dtype)
        yield room[:0]
        for start in range(0, len(dataset), slab_rows):
            stop = min(start + slab_rows, len(dataset))
            dataset.read_direct(room[: stop - start], np.s_[start:stop])
            yield room[: stop - start]


def pytables_read(source: Source) -> SlabRead:
    """PyTables' ``read(out=...)``."""
    return SlabRead(source, "PyTables read(out=)", _tables_slabs)


def h5py_read(source: Source) -> SlabRead:
    """h5py's ``read_direct``."""
    return SlabRead(source, "h5py read_direct", _h5py_slabs)


def codec_limit(source: Source, n_procs: int, direct: bool = False) -> Pass:
    """Bare processes that only fetch and decode their share into a small reused buffer.

    The one place that knows how the library offers this.
    """
    ours = face()
    try:
        seconds = ours.measure_limit(source.filename, source.path, n_procs=n_procs, direct=direct)
    except ours.MultitablesError as error:
        raise NotMeasuredError(str(error)) from error
    return Pass(float(seconds), source.decoded_bytes)


FIO_ENGINES = ("io_uring", "libaio")
FIO_BUFFER_BYTES = 8 * 2**20  # four of 1 MiB, their alignment, and a huge page to spare


def fio_read(filename: str, engine: str, size_bytes: int, huge_pages: bool = False) -> Pass:
    """fio reading the file once: O_DIRECT, 1 MiB, depth 4; its buffers in small or huge pages."""
    program = shutil.which("fio")
    if program is None:
        raise NotMeasuredError("install fio")
    if huge_pages:
        _need_huge_pages()
    command = [program, "--name=read", f"--filename={filename}", "--readonly", "--rw=read"]
    command += ["--bs=1M", "--iodepth=4", "--direct=1", f"--ioengine={engine}"]
    command += [f"--size={size_bytes // 2**20 * 2**20}", "--output-format=json"]
    command += ["--iomem=mmaphuge"] * huge_pages
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise NotMeasuredError(f"fio with {engine} failed: {lines[-1]}")
    read = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]
    return Pass(read["io_bytes"] / read["bw_bytes"], read["io_bytes"])


def _need_huge_pages() -> None:
    """Raise unless fio will find enough; giving some to the machine is its owner's to do."""
    free, size_bytes = environment.huge_pages()
    if not size_bytes:
        raise NotMeasuredError("this kernel has no huge pages to reserve")
    wanted = -(-FIO_BUFFER_BYTES // size_bytes)
    if free < wanted:
        raise NotMeasuredError(
            f"{free} of {wanted} huge pages are free: as root, "
            f"echo {wanted} > /proc/sys/vm/nr_hugepages (and afterwards what was there before)"
        )
