"""Who is measured at streams: this library, PyTables, h5py; and fio and the codec limit beside.

Law
---
1. Every contender keeps the contract: what it delivers can be checked, and is what is timed.
2. The oracle is what PyTables reads.
3. It owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from _multitables.benchmark.contract import Digest, NotMeasuredError, Sample, Source, promised
from _multitables.benchmark.harness.child import Child, face
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.machine import environment

SLAB_BYTES = 4 * 2**20  # of the reads of PyTables and h5py: fits the caches, hides the calls


def oracle(source: Source) -> Digest:
    """The digest of what PyTables reads: what every contender must deliver."""
    return stream_loop.digest_of(_tables_slabs(source))


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
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``queue x2``."""
        return f"{self.access} x{self.n_procs}"

    def _streamer(self) -> Any:
        make = self.open_streamer or face().Streamer
        return make(self.source.filename, **self.options)

    def check(self) -> Digest:
        """Digest of one whole pass; batches are shuffled, blocks and rows are not."""
        found = stream_loop.digest_of(
            stream_loop.arrays(self._streamer(), self.source.path, self.access, self.n_procs)
        )
        return promised(found, in_order=self.access != "batches")

    def measure(self) -> Sample:
        """MB/s of one pass of a stream."""
        case = self._streamer(), self.source.path, self.access, self.n_procs
        cold = self.source.filename if self.cold else ""
        return Sample.of(
            *stream_loop.timed_pass(*case, self.source.rows, self.source.row_bytes, cold)
        )


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
    needs: tuple[str, ...] = ()
    loop: ModuleType = stream_loop

    @property
    def name(self) -> str:
        """``multitables queue x2``."""
        return f"{self.label} {self.access} x{self.n_procs}"

    def request(self) -> dict[str, Any]:
        """What the child is asked, but for the verb."""
        filename = os.path.abspath(self.source.filename)
        return {
            "filename": filename,
            "path": self.source.path,
            "access": self.access,
            "n_procs": self.n_procs,
            "options": dict(self.options),
            "rows": self.source.rows,
            "row_bytes": self.source.row_bytes,
            "cold": filename if self.cold else "",
        }

    def _ask(self, verb: str) -> Any:
        place = self.python, self.module_directory
        with Child(*place, self.timeout_seconds, self.loop, self.label) as child:
            return child.ask(verb=verb, **self.request())

    def check(self) -> Digest:
        """Digest of one whole pass."""
        return promised(self._ask("check"), self.in_order)

    def measure(self) -> Sample:
        """MB/s of one pass of a stream."""
        return Sample.of(*self._ask("time"))


@dataclass(frozen=True)
class SlabRead:
    """A library that reads slabs of rows into one reused array, in this process.

    `slabs` yields an empty slab when the file is open, then all rows.
    """

    source: Source
    name: str
    slabs: Callable[[Source], Iterator[Any]]
    needs: tuple[str, ...] = ()

    def check(self) -> Digest:
        """Digest of one whole pass."""
        return stream_loop.digest_of(self.slabs(self.source))

    def measure(self) -> Sample:
        """MB/s of one pass; like a stream's, without what opening the file takes."""
        slabs = self.slabs(self.source)
        next(slabs)
        seen_bytes = 0
        start = time.perf_counter()
        for slab in slabs:
            seen_bytes += slab.nbytes
        return Sample.of(time.perf_counter() - start, seen_bytes)


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
    return SlabRead(source, "h5py read_direct", _h5py_slabs, needs=("h5py",))


def codec_limit(source: Source, n_procs: int, direct: bool = False) -> Sample:
    """Bare processes that only fetch and decode their share into a small reused buffer.

    The one place that knows how the library offers this.
    """
    ours = face()
    try:
        seconds = ours.measure_limit(source.filename, source.path, n_procs=n_procs, direct=direct)
    except ours.MultitablesError as error:
        raise NotMeasuredError(str(error)) from error
    return Sample.of(float(seconds), source.decoded_bytes)


FIO_ENGINES = ("io_uring", "libaio")
FIO_BUFFER_BYTES = 8 * 2**20  # four of 1 MiB, their alignment, and a huge page to spare


def fio_read(filename: str, engine: str, size_bytes: int, huge_pages: bool = False) -> Sample:
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
    return Sample.of(read["io_bytes"] / read["bw_bytes"], read["io_bytes"])


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
