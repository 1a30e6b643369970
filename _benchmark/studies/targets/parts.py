"""The parts of the targets: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in `DATASETS` and the constants below.
2. It measures only through `Bench`, which checks the data and takes the turns.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from _benchmark.contenders import streams
from _benchmark.contenders.streams import FIO_ENGINES
from _benchmark.contract import Contender, Source
from _benchmark.data.workloads import Workload, rows_of_size
from _benchmark.harness.child import Child, ContenderError, child_environment
from _benchmark.harness.rounds import summary
from _benchmark.harness.runner import (
    LABEL,
    OLD_LABEL,
    Bench,
    Target,
    as_ratio,
    best,
    module_directory,
    rate_of,
    ratios,
    warm,
)
from _benchmark.loops import startup_loop, stream_loop
from _benchmark.machine import environment, page_cache, process_memory
from _benchmark.report.tables import UNIT_LINE, aligned

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
PROBE_TIMEOUT_SECONDS = 60.0


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


def stream_part(bench: Bench) -> None:
    """Direct queue and generator beside the old release, PyTables, h5py and the codec limit."""
    for name in bench.datasets:
        dataset = DATASETS[name]
        source = bench.source(dataset.workload(name, bench.size_bytes))
        everybody: list[Contender] = []
        for access in stream_loop.ACCESSES:
            everybody += [bench.stream(source, access, n) for n in bench.processes]
            if bench.old_python is not None:
                everybody += [bench.old_stream(source, access, n) for n in bench.processes]
        everybody += [streams.pytables_read(source), streams.h5py_read(source)]
        passes = {one.name: rate_of(one) for one in bench.verified(source, everybody)}
        for n in bench.processes:
            passes[f"codec limit x{n}"] = _limit(source, n)
        rates = bench.measure(
            "streams",
            dataset.title,
            passes,
            before=functools.partial(warm, source),
        )
        _stream_table(bench, dataset, rates)
        _stream_targets(bench, dataset, rates)


def _limit(source: Source, n_procs: int, direct: bool = False) -> Callable[[], float]:
    return lambda: streams.codec_limit(source, n_procs, direct).rate


def _stream_table(bench: Bench, dataset: Dataset, rates: dict[str, list[float]]) -> None:
    rows = []
    for name, values in rates.items():
        limit = rates.get(f"codec limit x{name.rpartition('x')[2]}")
        ours = name.startswith(LABEL)
        share = as_ratio(ratios(values, limit)) if ours and limit else ""
        rows.append([name, str(summary(values)), share])
    left_out = [[name, "not measured", ""] for name in bench.reasons if name not in rates]
    bench.tables.append(
        f"{dataset.title}, page cache warm; {UNIT_LINE}\n"
        + aligned(["contender", "MB/s", "of the codec limit"], rows + left_out)
    )


def _stream_targets(bench: Bench, dataset: Dataset, rates: dict[str, list[float]]) -> None:
    for access, least in (("queue", dataset.least), ("generator", MIN_GENERATOR)):
        ours = best(rates, f"{LABEL} {access}")
        theirs = best(rates, f"{OLD_LABEL} {access}")
        bench.ratio_target(
            f"{dataset.title}: {access} / {OLD_LABEL}",
            rates.get(ours or ""),
            rates.get(theirs or ""),
            least,
            f"{ours} / {theirs}" if ours and theirs else bench.old_reason or "a side is missing",
        )
    ours = best(rates, f"{LABEL} queue")
    limit = f"codec limit x{(ours or '').rpartition('x')[2]}"
    bench.ratio_target(
        f"{dataset.title}: queue / codec limit",
        rates.get(ours or ""),
        rates.get(limit),
        MIN_OF_LIMIT,
        f"{ours} / {limit}" if limit in rates else bench.reasons.get(limit, "a side is missing"),
    )


def direct(bench: Bench) -> None:
    """Direct I/O without a filter, one process, beside fio on the same file."""
    whats = {name: f"direct I/O, no filter, 1 process / {name}" for name in FIO_BUFFERS}
    wanted = f">= {MIN_OF_FIO:g}x"
    source = bench.source(DATASETS["none"].workload("none", bench.size_bytes))
    refusal = page_cache.direct_refusal(source.filename)
    if environment.in_memory(source.filename):
        refusal = "the file lies in memory; choose a --data_dir on a disk"
    if refusal:
        bench.targets += [Target(what, "-", wanted, None, refusal) for what in whats.values()]
        return
    everybody = [bench.stream(source, "queue", 1, DRIVER="H5FD_DIRECT")]
    passes = {one.name: rate_of(one) for one in bench.verified(source, everybody)}
    size_bytes = os.path.getsize(source.filename)
    for name, huge_pages in FIO_BUFFERS.items():
        for engine in FIO_ENGINES:
            passes[f"{name} {engine}"] = _fio(source, engine, size_bytes, huge_pages)
    passes["codec limit x1, direct"] = _limit(source, 1, direct=True)

    def cold() -> str:
        page_cache.drop_page_cache(source.filename)
        return page_cache.cache_state(source.filename)

    rates = bench.measure("direct", "no filter", passes, before=cold)
    ours = rates.get(best(rates, LABEL) or "")
    rows = []
    for name in passes:
        values = rates.get(name)
        if values is None:
            rows.append([name, "not measured", "", bench.reasons[name]])
            continue
        share = as_ratio(ratios(ours, values)) if ours and values is not ours else ""
        rows.append([name, str(summary(values)), share, ""])
    bench.tables.append(
        f"direct I/O, no filter, page cache cold; {UNIT_LINE}\n"
        + aligned(["contender", "MB/s", f"{LABEL} / it", "note"], rows, left=("note",))
    )
    for name, what in whats.items():
        theirs = best(rates, name)
        reason = next((why for one, why in bench.reasons.items() if one.startswith(name)), "")
        bench.ratio_target(what, ours, rates.get(theirs or ""), MIN_OF_FIO, theirs or reason)


def _fio(source: Source, engine: str, size_bytes: int, huge_pages: bool) -> Callable[[], float]:
    return lambda: streams.fio_read(source.filename, engine, size_bytes, huge_pages).rate


def startup(bench: Bench) -> None:
    """From the import, and from ``Streamer(...)``, to the first block."""
    source = bench.source(DATASETS["blosc"].workload("blosc", bench.size_bytes))
    asked = {"verb": "first_block", "filename": source.filename, "path": source.path}
    cases = {
        "import to first block": ({**asked, "imported": False}, MAX_IMPORT_SECONDS),
        "Streamer to first block": ({**asked, "imported": True}, MAX_STREAMER_SECONDS),
    }

    def seconds(request: dict[str, Any]) -> Callable[[], float]:
        def once() -> float:
            found = _probe(request | {"n_procs": None})
            _check_rows(source, found["digest"])
            return float(found["seconds"])

        return once

    times = bench.measure(
        "startup",
        "blosc",
        {f"{LABEL}: {name}": seconds(request) for name, (request, _) in cases.items()},
        unit="s",
        rounds=max(bench.rounds, 5) if bench.rounds > 1 else 1,
    )
    for name, (_, most) in cases.items():
        full = f"{LABEL}: {name}"
        bench.limit_target(name, times.get(full), most, "s", bench.reasons.get(full, ""))


def latency(bench: Bench) -> None:
    """``get()`` plus release of a block that is ready."""
    workload = Workload("ready", READY_BLOCKS * 4, columns=16, chunk_rows=64)
    source = bench.source(workload)
    expected = streams.oracle(source)
    request = {
        "verb": "ready_block",
        "filename": source.filename,
        "path": source.path,
        "blocks": READY_BLOCKS,
        "block_size": 4,
    }

    def microseconds() -> float:
        found = _probe(request)
        fault = streams.differs(found["digest"], expected, True)
        if fault:
            raise ContenderError(fault)
        # less what reading the clock takes
        return float(1e6 * (statistics.median(found["seconds"]) - found["clock_seconds"]))

    name = f"{LABEL}: get() and release"
    times = bench.measure("latency", "ready blocks", {name: microseconds}, unit="us")
    bench.limit_target(
        "get() and release of a ready block",
        times.get(name),
        MAX_GET_MICROSECONDS,
        "us",
        bench.reasons.get(name, f"median of {READY_BLOCKS} blocks a round"),
    )


def small_chunks(bench: Bench) -> None:
    """8 KiB chunks with deflate, beside h5py."""
    rows = rows_of_size(bench.size_bytes / 4, 1024, "float64")
    for name, case in SMALL_CHUNKS.items():
        workload = Workload(
            f"small_chunks_{name.replace(' ', '_')}", rows, complib="zlib", chunk_rows=1, **case
        )
        source = bench.source(workload)
        everybody: list[Contender] = [bench.stream(source, "queue", n) for n in bench.processes]
        everybody.append(streams.h5py_read(source))
        passes = {one.name: rate_of(one) for one in bench.verified(source, everybody)}
        passes |= {f"codec limit x{n}": _limit(source, n) for n in bench.processes}
        title = f"8 KiB chunks, deflate {workload.complevel}, {name}"
        rates = bench.measure("small chunks", title, passes, before=functools.partial(warm, source))
        rows_of_table = [[name, str(summary(found))] for name, found in rates.items()]
        bench.tables.append(
            f"{title}, page cache warm; {UNIT_LINE}\n"
            + aligned(["contender", "MB/s"], rows_of_table)
        )
        ours, theirs = best(rates, LABEL), best(rates, "h5py")
        bench.ratio_target(
            f"{title} / h5py",
            rates.get(ours or ""),
            rates.get(theirs or ""),
            MIN_SMALL_CHUNKS,
            f"{ours} / {theirs}",
        )


def memory(bench: Bench) -> None:
    """Peak memory of the parent and each reader, beyond the ring they share."""
    n_procs = max(bench.processes)
    for name in bench.datasets:
        dataset = DATASETS[name]
        source = bench.source(dataset.workload(name, bench.size_bytes))
        verified = bench.verified(source, [bench.stream(source, "queue", n_procs)])
        found: dict[str, float] = {}
        for _ in verified:
            with (
                Child(sys.executable, module_directory(), PROBE_TIMEOUT_SECONDS) as child,
                process_memory.peak_memory(child.process) as peaks,
            ):
                child.ask(
                    verb="time",
                    filename=source.filename,
                    path=source.path,
                    access="queue",
                    n_procs=n_procs,
                    options={},
                    cycles=2,
                    rows=source.rows,
                    row_bytes=source.row_bytes,
                )
            parent = peaks.pop(child.process)
            found["parent"] = parent.own_bytes / 2**20
            if peaks:
                found["largest reader"] = max(one.own_bytes for one in peaks.values()) / 2**20
        for role in ("parent", "largest reader"):
            value = found.get(role)
            if value is not None:
                bench.keep(
                    part="memory",
                    dataset=dataset.title,
                    contender=role,
                    cache="warm",
                    round=0,
                    value=value,
                    unit="MiB",
                )
            bench.limit_target(
                f"{dataset.title}: memory of the {role} beyond the ring",
                None if value is None else [value],
                MAX_OWN_MIB,
                "MiB",
                "anonymous and file-backed, shared libraries counted in full",
            )


def _probe(request: dict[str, Any]) -> dict[str, Any]:
    """Run `startup_loop` in a fresh interpreter."""
    try:
        done = subprocess.run(
            [sys.executable, startup_loop.__file__, json.dumps(request)],
            capture_output=True,
            text=True,
            check=False,
            env=child_environment(module_directory()),
            timeout=PROBE_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ContenderError(f"no answer within {PROBE_TIMEOUT_SECONDS:.0f} s; killed") from error
    if done.returncode:
        raise ContenderError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _check_rows(source: Source, found: dict[str, Any]) -> None:
    """Raise unless `found` is the digest of the dataset's first rows."""
    import tables

    with tables.open_file(source.filename, "r") as file:
        first = file.get_node(source.path)[: found["rows"]]
    fault = streams.differs(found, stream_loop.digest_of(iter([first])), True)
    if fault:
        raise ContenderError(fault)


PARTS: dict[str, Callable[[Bench], None]] = {
    "streams": stream_part,
    "direct": direct,
    "startup": startup,
    "latency": latency,
    "small-chunks": small_chunks,
    "memory": memory,
}
