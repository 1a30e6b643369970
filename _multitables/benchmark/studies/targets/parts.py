"""The parts of the targets: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`, that yields its cases; wanted figures stand in the constants.
2. It measures nothing: the frame checks the data and takes the turns.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from _multitables.benchmark.contenders import startup, streams
from _multitables.benchmark.contenders.streams import FIO_ENGINES, ChildStream
from _multitables.benchmark.contract import (
    Contender,
    Differs,
    Measurement,
    NotMeasuredError,
    Sample,
    Source,
    WrongDataError,
)
from _multitables.benchmark.data.datasets import Dataset
from _multitables.benchmark.data.workloads import Workload, rows_of_size
from _multitables.benchmark.harness.child import Child, module_directory
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.machine import environment, page_cache, process_memory
from _multitables.benchmark.machine.io_mode import COLD
from _multitables.benchmark.studies.frame import LABEL, Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting

MIN_GENERATOR = 2.5
MIN_OF_LIMIT = 0.9
MIN_OF_FIO = 0.95
MAX_IMPORT_SECONDS = 0.3
MAX_STREAMER_SECONDS = 0.15
MAX_GET_MICROSECONDS = 5.0
MIN_SMALL_CHUNKS = 6.0
MAX_OWN_MIB = 50.0

#: Whether fio's buffers lie in huge pages: by its default not, while a reader's do.
FIO_BUFFERS = {"fio": False, "huge-page fio": True}
READY_BLOCKS = 1024
OLD_LABEL = "2.0.1"
LIMIT = "codec limit"


def _noise(title: str, **filters: Any) -> Dataset:
    """float64 noise, 1024 columns, PyTables' default chunks."""
    return Dataset(title, filters, 1024, "float64", "uniform")


DATASETS = {
    "none": _noise("no filter"),
    "blosc": _noise("blosc (blosclz 5)", complib="blosc", complevel=5),
    "lz4": _noise("blosc:lz4 5", complib="blosc:lz4", complevel=5),
    "zlib": _noise("zlib 3 with shuffle", complib="zlib", complevel=3),
}
#: How many times the old release's queue is wanted.
LEAST = {"none": 6.0, "blosc": 3.0, "lz4": 3.3, "zlib": 4.0}

# how well deflate does depends on the data; noise with shuffle is what the streams read
SMALL_CHUNKS: dict[str, dict[str, Any]] = {
    "noise": {"complevel": 4, "shuffle": False},
    "noise with shuffle": {"complevel": 3, "shuffle": True},
    "small whole numbers": {"complevel": 4, "shuffle": False, "values": "counts"},
}


def _workload(name: str, setting: Setting) -> Workload:
    return DATASETS[name].workload(f"noise_{name}", setting.size_bytes)


def _right(source: Source) -> Differs:
    """What PyTables reads is right."""
    return against(partial(streams.oracle, source))


def _ours(source: Source, access: str, n_procs: int, **options: str) -> ChildStream:
    """This multitables, in a fresh process."""
    place = sys.executable, module_directory()
    return ChildStream(source, LABEL, access, n_procs, *place, options)


def _limit(source: Source, n_procs: int, direct: bool = False) -> Measurement:
    name = f"{LIMIT} x{n_procs}" + ", direct" * direct
    return Measurement(name, partial(streams.codec_limit, source, n_procs, direct))


def stream_part(setting: Setting) -> Iterator[Case]:
    """Direct queue and generator beside the old release, PyTables, h5py and the codec limit."""
    for name in setting.datasets:

        def prepare(_stack: ExitStack, name: str = name) -> Prepared:
            source = setting.source(_workload(name, setting))
            everybody: list[Contender] = []
            for access in stream_loop.ACCESSES:
                everybody += [_ours(source, access, n) for n in setting.processes]
                if setting.old_python is not None:  # it promises no order
                    old = partial(ChildStream, source, OLD_LABEL, access, in_order=False)
                    everybody += [old(n, python=setting.old_python) for n in setting.processes]
            everybody += [streams.pytables_read(source), streams.h5py_read(source)]
            everybody += [_limit(source, n) for n in setting.processes]
            wanted = [
                Wanted(
                    f"{LABEL} {access}", (f"{OLD_LABEL} {access}",), least, note=setting.old_reason
                )
                for access, least in (("queue", LEAST[name]), ("generator", MIN_GENERATOR))
            ]
            wanted.append(Wanted(f"{LABEL} queue", (LIMIT,), MIN_OF_LIMIT))
            files = [source.filename]
            return Prepared(everybody, _right(source), files, wanted=wanted)

        yield Case({"part": "streams", "dataset": DATASETS[name].title}, prepare)


def direct(setting: Setting) -> Iterator[Case]:
    """Direct I/O without a filter, one process, beside fio on the same file."""

    def prepare(_stack: ExitStack) -> Prepared:
        source = setting.source(_workload("none", setting))
        refusal = page_cache.direct_refusal(source.filename)
        if environment.in_memory(source.filename):
            refusal = "the file lies in memory; choose a --data_dir on a disk"
        if refusal:
            raise NotMeasuredError(refusal)
        size_bytes = os.path.getsize(source.filename)
        everybody: list[Contender] = [_ours(source, "queue", 1, DRIVER="H5FD_DIRECT")]
        for name, huge in FIO_BUFFERS.items():
            for engine in FIO_ENGINES:
                once = partial(streams.fio_read, source.filename, engine, size_bytes, huge)
                everybody.append(Measurement(f"{name} {engine}", once))
        everybody.append(_limit(source, 1, direct=True))
        wanted = [Wanted(LABEL, (name,), MIN_OF_FIO) for name in FIO_BUFFERS]
        return Prepared(everybody, _right(source), [source.filename], COLD, wanted)

    yield Case({"part": "direct", "dataset": "direct I/O, no filter, 1 process"}, prepare)


def start_up(setting: Setting) -> Iterator[Case]:
    """From the import, and from ``Streamer(...)``, to the first block."""

    def prepare(_stack: ExitStack) -> Prepared:
        source = setting.source(_workload("blosc", setting))
        request = {"verb": "first_block", "filename": source.filename, "path": source.path}

        def seconds(imported: bool) -> Sample:
            found = startup.probe({**request, "imported": imported, "n_procs": None})
            startup.check_rows(source, found["digest"])
            return Sample(float(found["seconds"]))

        everybody = [
            Measurement(f"{LABEL}: import to first block", partial(seconds, False)),
            Measurement(f"{LABEL}: Streamer to first block", partial(seconds, True)),
        ]
        most = MAX_IMPORT_SECONDS, MAX_STREAMER_SECONDS
        wanted = [Wanted(o.name, most=m) for o, m in zip(everybody, most, strict=True)]
        return Prepared(everybody, _right(source), [source.filename], wanted=wanted)

    key = {"part": "startup", "dataset": "blosc"}
    yield Case(key, prepare, "s", rounds=max(setting.rounds, 5) if setting.rounds > 1 else 1)


def latency(setting: Setting) -> Iterator[Case]:
    """``get()`` plus release of a block that is ready."""

    def prepare(_stack: ExitStack) -> Prepared:
        source = setting.source(Workload("ready", READY_BLOCKS * 4, columns=16, chunk_rows=64))
        right = _right(source)
        request = {
            "verb": "ready_block",
            "filename": source.filename,
            "path": source.path,
            "blocks": READY_BLOCKS,
            "block_size": 4,
        }

        def microseconds() -> Sample:
            found = startup.probe(request)
            fault = right(found["digest"])
            if fault:
                raise WrongDataError(fault)
            # less what reading the clock takes
            return Sample(1e6 * (statistics.median(found["seconds"]) - found["clock_seconds"]))

        one = Measurement(f"{LABEL}: get() and release", microseconds)
        note = f"median of {READY_BLOCKS} blocks a round"
        wanted = [Wanted(one.name, most=MAX_GET_MICROSECONDS, note=note)]
        return Prepared([one], right, [source.filename], wanted=wanted)

    yield Case({"part": "latency", "dataset": "ready blocks"}, prepare, "us")


def small_chunks(setting: Setting) -> Iterator[Case]:
    """8 KiB chunks with deflate, beside h5py."""
    rows = rows_of_size(setting.size_bytes / 4, 1024, "float64")
    for name, stored in SMALL_CHUNKS.items():
        file = f"small_chunks_{name.replace(' ', '_')}"
        workload = Workload(file, rows, complib="zlib", chunk_rows=1, **stored)

        def prepare(_stack: ExitStack, workload: Workload = workload) -> Prepared:
            source = setting.source(workload)
            everybody: list[Contender] = [_ours(source, "queue", n) for n in setting.processes]
            everybody.append(streams.h5py_read(source))
            everybody += [_limit(source, n) for n in setting.processes]
            wanted = [Wanted(LABEL, ("h5py",), MIN_SMALL_CHUNKS)]
            return Prepared(everybody, _right(source), [source.filename], wanted=wanted)

        title = f"8 KiB chunks, deflate {workload.complevel}, {name}"
        yield Case({"part": "small chunks", "dataset": title}, prepare)


def memory(setting: Setting) -> Iterator[Case]:
    """Peak memory of the parent and each reader, beyond the ring they share."""
    for name in setting.datasets:

        def prepare(_stack: ExitStack, name: str = name) -> Prepared:
            source = setting.source(_workload(name, setting))
            stream = _ours(source, "queue", max(setting.processes))
            check, peaks = functools.cache(stream.check), functools.cache(partial(_peaks, stream))
            everybody = [
                Measurement(f"{LABEL}: {one}", partial(_peak_of, peaks, one), check)
                for one in ("parent", "largest reader")
            ]
            note = "beyond the ring: anonymous and file-backed, shared libraries counted in full"
            wanted = [Wanted(one.name, most=MAX_OWN_MIB, note=note) for one in everybody]
            return Prepared(everybody, _right(source), [source.filename], wanted=wanted)

        key = {"part": "memory", "dataset": DATASETS[name].title}
        yield Case(key, prepare, "MiB", rounds=1)


def _peak_of(peaks: Callable[[], dict[str, float]], role: str) -> Sample:
    return Sample(peaks()[role])


def _peaks(stream: ChildStream) -> dict[str, float]:
    """The peaks of two passes' processes, in MiB."""
    with (
        Child(sys.executable, module_directory(), startup.PROBE_TIMEOUT_SECONDS) as child,
        process_memory.peak_memory(child.process) as peaks,
    ):
        for _ in range(2):
            child.ask(verb="time", **stream.request())
    parent = peaks.pop(child.process)
    readers = max((one.own_bytes for one in peaks.values()), default=0)
    return {"parent": parent.own_bytes / 2**20, "largest reader": readers / 2**20}


PARTS: dict[str, Part] = {
    "streams": stream_part,
    "direct": direct,
    "startup": start_up,
    "latency": latency,
    "small-chunks": small_chunks,
    "memory": memory,
}
