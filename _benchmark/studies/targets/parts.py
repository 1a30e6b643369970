"""The parts of the targets: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in `DATASETS` and the constants below.
2. It measures only through `TargetRun`, which checks the data and takes the turns.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from _benchmark.contenders import startup, streams
from _benchmark.contenders.streams import FIO_ENGINES, ChildStream
from _benchmark.contract import (
    Contender,
    Differs,
    Measurement,
    Sample,
    Source,
    WrongDataError,
)
from _benchmark.data.workloads import Workload, rows_of_size
from _benchmark.harness.child import Child, module_directory
from _benchmark.harness.rounds import summary
from _benchmark.harness.runner import against
from _benchmark.loops import stream_loop
from _benchmark.machine import environment, page_cache, process_memory
from _benchmark.machine.io_mode import COLD
from _benchmark.report.tables import UNIT_LINE, aligned
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import (
    LABEL,
    OLD_LABEL,
    as_ratio,
    best,
    limit_target,
    ratio_target,
)

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


@dataclass(frozen=True)
class Dataset:
    """A dataset of the streams, and how many times the old release is wanted."""

    title: str
    filters: dict[str, Any]
    least: float

    def workload(self, name: str, size_bytes: float) -> Workload:
        """Its file: float64 noise, 1024 columns, PyTables' default chunks."""
        rows = rows_of_size(size_bytes, 1024, "float64")
        return Workload(f"noise_{name}", rows, **self.filters)


DATASETS = {
    "none": Dataset("no filter", {}, 6),
    "blosc": Dataset("blosc (blosclz 5)", {"complib": "blosc", "complevel": 5}, 3),
    "lz4": Dataset("blosc:lz4 5", {"complib": "blosc:lz4", "complevel": 5}, 3.3),
    "zlib": Dataset("zlib 3 with shuffle", {"complib": "zlib", "complevel": 3}, 4),
}

# how well deflate does depends on the data; noise with shuffle is what the streams read
SMALL_CHUNKS: dict[str, dict[str, Any]] = {
    "noise": {"complevel": 4, "shuffle": False},
    "noise with shuffle": {"complevel": 3, "shuffle": True},
    "small whole numbers": {"complevel": 4, "shuffle": False, "values": "counts"},
}


def _right(source: Source) -> Differs:
    """What PyTables reads is right."""
    return against(partial(streams.oracle, source))


def _ours(source: Source, access: str, n_procs: int, **options: str) -> ChildStream:
    """This multitables, in a fresh process."""
    place = sys.executable, module_directory()
    return ChildStream(source, LABEL, access, n_procs, *place, options)


def _limit(source: Source, n_procs: int, direct: bool = False) -> Measurement:
    name = f"codec limit x{n_procs}" + ", direct" * direct
    return Measurement(name, partial(streams.codec_limit, source, n_procs, direct))


def stream_part(run: TargetRun) -> None:
    """Direct queue and generator beside the old release, PyTables, h5py and the codec limit."""
    for name in run.datasets:
        dataset = DATASETS[name]
        source = run.source(dataset.workload(name, run.size_bytes))
        everybody: list[Contender] = []
        for access in stream_loop.ACCESSES:
            everybody += [_ours(source, access, n) for n in run.processes]
            if run.old_python is not None:  # it promises no order
                old = partial(ChildStream, source, OLD_LABEL, access, in_order=False)
                everybody += [old(n, python=run.old_python) for n in run.processes]
        everybody += [streams.pytables_read(source), streams.h5py_read(source)]
        everybody += [_limit(source, n) for n in run.processes]
        rates = run.rates("streams", dataset.title, everybody, _right(source), source.filename)
        _stream_table(run, dataset, rates)
        _stream_targets(run, dataset, rates)


def _stream_table(run: TargetRun, dataset: Dataset, rates: dict[str, list[float]]) -> None:
    rows = []
    for name, values in rates.items():
        limit = rates.get(f"codec limit x{name.rpartition('x')[2]}")
        share = as_ratio(values, limit) if name.startswith(LABEL) else ""
        rows.append([name, str(summary(values)), share])
    left_out = [[name, "not measured", ""] for name in run.reasons if name not in rates]
    run.tables.append(
        f"{dataset.title}, page cache warm; {UNIT_LINE}\n"
        + aligned(["contender", "MB/s", "of the codec limit"], rows + left_out)
    )


def _stream_targets(run: TargetRun, dataset: Dataset, rates: dict[str, list[float]]) -> None:
    for access, least in (("queue", dataset.least), ("generator", MIN_GENERATOR)):
        ours = best(rates, f"{LABEL} {access}")
        theirs = best(rates, f"{OLD_LABEL} {access}")
        missing = run.old_reason or "a side is missing"
        run.judge(
            ratio_target(
                f"{dataset.title}: {access} / {OLD_LABEL}",
                rates.get(ours or ""),
                rates.get(theirs or ""),
                least,
                f"{ours} / {theirs}" if ours and theirs else missing,
            )
        )
    ours = best(rates, f"{LABEL} queue")
    limit = f"codec limit x{(ours or '').rpartition('x')[2]}"
    run.judge(
        ratio_target(
            f"{dataset.title}: queue / codec limit",
            rates.get(ours or ""),
            rates.get(limit),
            MIN_OF_LIMIT,
            f"{ours} / {limit}" if limit in rates else run.reasons.get(limit, "a side is missing"),
        )
    )


def direct(run: TargetRun) -> None:
    """Direct I/O without a filter, one process, beside fio on the same file."""
    whats = {name: f"direct I/O, no filter, 1 process / {name}" for name in FIO_BUFFERS}
    source = run.source(DATASETS["none"].workload("none", run.size_bytes))
    refusal = page_cache.direct_refusal(source.filename)
    if environment.in_memory(source.filename):
        refusal = "the file lies in memory; choose a --data_dir on a disk"
    if refusal:
        for what in whats.values():
            run.judge(ratio_target(what, None, None, MIN_OF_FIO, refusal))
        return
    size_bytes = os.path.getsize(source.filename)
    everybody: list[Contender] = [_ours(source, "queue", 1, DRIVER="H5FD_DIRECT")]
    for name, huge in FIO_BUFFERS.items():
        for engine in FIO_ENGINES:
            once = partial(streams.fio_read, source.filename, engine, size_bytes, huge)
            everybody.append(Measurement(f"{name} {engine}", once))
    everybody.append(_limit(source, 1, direct=True))
    rates = run.rates("direct", "no filter", everybody, _right(source), source.filename, mode=COLD)
    ours = best(rates, LABEL)
    names = [one.name for one in everybody]
    run.table(f"direct I/O, no filter, page cache cold; {UNIT_LINE}", names, rates, ours)
    for name, what in whats.items():
        theirs = best(rates, name)
        reason = next((why for one, why in run.reasons.items() if one.startswith(name)), "")
        figures = rates.get(ours or ""), rates.get(theirs or "")
        run.judge(ratio_target(what, *figures, MIN_OF_FIO, theirs or reason))


def start_up(run: TargetRun) -> None:
    """From the import, and from ``Streamer(...)``, to the first block."""
    source = run.source(DATASETS["blosc"].workload("blosc", run.size_bytes))
    asked = {"verb": "first_block", "filename": source.filename, "path": source.path}
    cases = {
        "import to first block": (False, MAX_IMPORT_SECONDS),
        "Streamer to first block": (True, MAX_STREAMER_SECONDS),
    }

    def seconds(imported: bool) -> Sample:
        found = startup.probe({**asked, "imported": imported, "n_procs": None})
        startup.check_rows(source, found["digest"])
        return Sample(float(found["seconds"]))

    times = run.rates(
        "startup",
        "blosc",
        [
            Measurement(f"{LABEL}: {name}", partial(seconds, case[0]))
            for name, case in cases.items()
        ],
        _right(source),
        source.filename,
        unit="s",
        rounds=max(run.rounds, 5) if run.rounds > 1 else 1,
    )
    for name, (_, most) in cases.items():
        full = f"{LABEL}: {name}"
        run.judge(limit_target(name, times.get(full), most, "s", run.reasons.get(full, "")))


def latency(run: TargetRun) -> None:
    """``get()`` plus release of a block that is ready."""
    source = run.source(Workload("ready", READY_BLOCKS * 4, columns=16, chunk_rows=64))
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

    name = f"{LABEL}: get() and release"
    one = Measurement(name, microseconds)
    times = run.rates("latency", "ready blocks", [one], right, source.filename, unit="us")
    note = run.reasons.get(name, f"median of {READY_BLOCKS} blocks a round")
    what = "get() and release of a ready block"
    run.judge(limit_target(what, times.get(name), MAX_GET_MICROSECONDS, "us", note))


def small_chunks(run: TargetRun) -> None:
    """8 KiB chunks with deflate, beside h5py."""
    rows = rows_of_size(run.size_bytes / 4, 1024, "float64")
    for name, case in SMALL_CHUNKS.items():
        workload = Workload(
            f"small_chunks_{name.replace(' ', '_')}", rows, complib="zlib", chunk_rows=1, **case
        )
        source = run.source(workload)
        everybody: list[Contender] = [_ours(source, "queue", n) for n in run.processes]
        everybody += [streams.h5py_read(source), *(_limit(source, n) for n in run.processes)]
        title = f"8 KiB chunks, deflate {workload.complevel}, {name}"
        rates = run.rates("small chunks", title, everybody, _right(source), source.filename)
        ours, theirs = best(rates, LABEL), best(rates, "h5py")
        run.table(
            f"{title}, page cache warm; {UNIT_LINE}", [o.name for o in everybody], rates, ours
        )
        figures = rates.get(ours or ""), rates.get(theirs or "")
        run.judge(ratio_target(f"{title} / h5py", *figures, MIN_SMALL_CHUNKS, f"{ours} / {theirs}"))


def memory(run: TargetRun) -> None:
    """Peak memory of the parent and each reader, beyond the ring they share."""
    for name in run.datasets:
        dataset = DATASETS[name]
        source = run.source(dataset.workload(name, run.size_bytes))
        stream = _ours(source, "queue", max(run.processes))
        check, peaks = functools.cache(stream.check), functools.cache(partial(_peaks, stream))
        roles = ("parent", "largest reader")
        found = run.rates(
            "memory",
            dataset.title,
            [Measurement(f"{LABEL}: {one}", partial(_peak_of, peaks, one), check) for one in roles],
            _right(source),
            source.filename,
            unit="MiB",
            rounds=1,
        )
        for role in roles:
            run.judge(
                limit_target(
                    f"{dataset.title}: memory of the {role} beyond the ring",
                    found.get(f"{LABEL}: {role}"),
                    MAX_OWN_MIB,
                    "MiB",
                    "anonymous and file-backed, shared libraries counted in full",
                )
            )


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


PARTS: dict[str, Callable[[TargetRun], None]] = {
    "streams": stream_part,
    "direct": direct,
    "startup": start_up,
    "latency": latency,
    "small-chunks": small_chunks,
    "memory": memory,
}
