"""The device sweep: complevel x processes on the device that holds the file.

Law
---
1. The options and what they mean are those of the 2.x benchmark; so are the values,
   float32 normal noise in rows of 1024, so that tables published then can be laid beside these.
2. Each level's file is written, every cell is checked against PyTables, and only then is any cell
   of that level timed. A cell whose data is wrong has no number, and the exit status is 1.
3. The file is removed, however the run ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from _benchmark import contenders, environment, measure, report, workloads
from _benchmark.arguments import complib, positive
from _benchmark.contenders import Contender, Source, Stream
from _benchmark.measure import Pass, summary, turns
from _benchmark.progress import Progress
from _benchmark.results import ResultFile
from _benchmark.stream_loop import ACCESSES, AHEAD_BYTES

SUMMARY = "complevel x processes on the device that holds --file (the default)"
COMPLEVELS = (0, 3, 9)
LEAST_RINGS = 8  # a pass shorter than this times what is read ahead
TITLES = {"queue": "Direct queue", "generator": "Generator"}
COLUMNS = (
    *("study", "complib", "complevel", "access", "n_procs", "driver", "cache", "cycle"),
    *("rows", "row_bytes", "stored_bytes", "seconds", "decoded_bytes", "mb_per_s"),
)
SMOKE = {"size": 2**23 / 2**30, "cycles": 1, "max_procs": 2}

MakeContender = Callable[..., Contender]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of 2.x, and where results go."""
    add = parser.add_argument
    add(
        "--size",
        type=positive(float),
        default=1,
        metavar="GB",
        help="size of the decoded data, GB of 2**30 bytes (default 1)",
    )
    add(
        "--cycles",
        type=positive(int),
        default=2,
        metavar="N",
        help="number of timed passes over the file (default 2)",
    )
    add(
        "--max_procs",
        type=positive(int),
        default=6,
        metavar="N",
        help="measure 1 to N processes (default 6)",
    )
    add(
        "--complib",
        type=complib,
        default="blosc",
        metavar="NAME",
        help="PyTables' compression library, like zlib or blosc:lz4 (default blosc)",
    )
    add(
        "--file",
        metavar="NAME",
        help="benchmark file to create, and to remove at the end (default: a temporary file); "
        "its place decides which device is measured",
    )
    add(
        "--H5FD_DIRECT_OFF",
        action="store_true",
        help="read through the page cache; without this it is bypassed with O_DIRECT, which works "
        "with any build of HDF5",
    )
    add(
        "--output",
        default="results",
        metavar="DIR",
        help="directory for the results: CSV, JSON and text (default: results)",
    )
    add(
        "--smoke",
        action="store_true",
        help="a run of seconds that checks the data, whatever size, cycles and max_procs are; its "
        "numbers mean little",
    )


@dataclass(frozen=True)
class Driver:
    """How the file is read, and what has to be done about the page cache before a pass."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    drop_before: bool = False
    note: str = ""


def choose_driver(filename: str, direct_off: bool) -> Driver:
    """The driver for the file system of `filename`, with a note where it is not the one meant."""
    in_memory = environment.in_memory(filename)
    memory_note = (
        f"{environment.mount_of(filename).kind} keeps its files in memory: no device is measured. "
        "Choose a place on a disk with --file."
        if in_memory
        else ""
    )
    if direct_off:
        return Driver("buffered", note=memory_note)
    refusal = measure.direct_refusal(filename)
    if refusal:
        return Driver(
            "buffered",
            drop_before=not in_memory,
            note=f"{refusal}. {memory_note or 'The page cache is dropped before each pass.'}",
        )
    return Driver("direct", {"DRIVER": "H5FD_DIRECT"}, drop_before=not in_memory, note=memory_note)


@dataclass
class Cell:
    """One number of the table: what came of one (complevel, access, processes)."""

    passes: list[Pass] = field(default_factory=list)
    fault: str = ""

    def __str__(self) -> str:
        if self.fault:
            return "FAILED"
        return str(summary([one.rate for one in self.passes])) if self.passes else "-"


@dataclass
class Sweep:
    """Everything one run found; filled as it goes, so that an interrupted run can be shown."""

    levels: tuple[int, ...]
    max_procs: int
    cells: dict[tuple[int, str, int], Cell] = field(default_factory=dict)
    caches: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def table(self, access: str) -> str:
        """The aligned table of one access."""
        processes = range(1, self.max_procs + 1)
        rows = [
            [str(level), *(str(self.cells.get((level, access, n), Cell())) for n in processes)]
            for level in self.levels
        ]
        return report.aligned(["complevel / processes", *map(str, processes)], rows)

    def text(self) -> str:
        """All tables, and what failed."""
        parts = [report.UNIT_LINE]
        parts.append(f"page cache: {', '.join(sorted(self.caches)) or 'nothing was timed'}")
        parts += [f"note: {note}" for note in self.notes]
        parts += [f"\n{TITLES[access]}\n{self.table(access)}" for access in ACCESSES]
        faults = [
            f"complevel {level}, {access}, {n} processes: {cell.fault}"
            for (level, access, n), cell in self.cells.items()
            if cell.fault
        ]
        return "\n".join([*parts, *(["\nFAILED", *faults] if faults else [])])

    @property
    def failed(self) -> bool:
        """Whether any cell has no number because something was wrong."""
        return any(cell.fault for cell in self.cells.values())


def run(arguments: argparse.Namespace, make_contender: MakeContender = Stream) -> int:
    """Measure, print, keep; returns the exit status.

    `make_contender` takes ``(source, access, n_procs, options)``; tests put a liar there.
    """
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    face = contenders.library()
    sweep = Sweep(COMPLEVELS, int(arguments.max_procs))
    with _place(arguments.file) as filename:
        facts = environment.facts(os.path.dirname(filename), face)
        plan = [_workload(arguments, level) for level in COMPLEVELS]
        workloads.check_disk(os.path.dirname(filename), plan[0].needed_bytes)
        facts["run"] = (
            f"{workloads.as_size(plan[0].decoded_bytes)} of float32 noise a file, "
            f"{arguments.complib}, {arguments.cycles} timed passes"
        )
        least_bytes = LEAST_RINGS * AHEAD_BYTES * sweep.max_procs
        if plan[0].decoded_bytes < least_bytes:
            sweep.notes.append(
                f"MB/s mean little for a file this small, of which readers hold much in advance. "
                f"Take at least {workloads.as_size(least_bytes)}."
            )
        print(report.heading(facts), flush=True)
        passes = 2 + 2 * int(arguments.max_procs) * (1 + int(arguments.cycles))
        interrupted = False
        with ResultFile(arguments.output, "sweep", COLUMNS, facts) as results:
            total_bytes = passes * plan[0].decoded_bytes * len(plan)
            try:
                with Progress(total_bytes) as progress:
                    for workload in plan:
                        _level(
                            workload, filename, arguments, sweep, results, progress, make_contender
                        )
            except KeyboardInterrupt:
                interrupted = True
            text = sweep.text()
            results.save_json(interrupted=interrupted)
            results.save_text(f"{report.heading(facts)}\n\n{text}")
    print(f"\n{text}")
    print(f"\n{'interrupted; what was finished' if interrupted else 'results'}: {results.filename}")
    return 1 if sweep.failed else 130 if interrupted else 0


def _workload(arguments: argparse.Namespace, level: int) -> workloads.Workload:
    return workloads.Workload(
        name="sweep",
        rows=workloads.rows_of_size(arguments.size * 2**30, 1024, "float32"),
        dtype="float32",
        values="normal",
        complib=arguments.complib,
        complevel=level,
    )


@contextlib.contextmanager
def _place(name: str | None) -> Iterator[str]:
    """The benchmark file's name; nothing is left there afterwards."""
    if name is None:
        with workloads.scratch_directory(tempfile.gettempdir()) as directory:
            yield os.path.join(directory, "bench.h5")
        return
    filename = os.path.abspath(name)
    if os.path.lexists(filename):
        raise FileExistsError(
            f"{name!r} exists, and the benchmark would write over it and remove it. "
            "Give --file a new name."
        )
    try:
        yield filename
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(filename)


def _level(
    workload: workloads.Workload,
    filename: str,
    arguments: argparse.Namespace,
    sweep: Sweep,
    results: ResultFile,
    progress: Progress,
    make_contender: MakeContender,
) -> None:
    """Write one level's file, check every cell, then time them in turns."""
    level = workload.complevel
    progress.stage(f"complevel {level}: write")
    workloads.write(workload, filename, progress.tick)
    driver = choose_driver(filename, arguments.H5FD_DIRECT_OFF)
    if driver.note and driver.note not in sweep.notes:
        sweep.notes.append(driver.note)
        progress.note(f"note: {driver.note}")
    source = Source(filename, workloads.PATH, workload.rows, workload.row_bytes)
    progress.stage(f"complevel {level}: PyTables")
    expected = contenders.oracle(source, progress.tick)

    honest: dict[str, tuple[Contender, str, int]] = {}
    for access in ACCESSES:
        for n_procs in range(1, sweep.max_procs + 1):
            contender = make_contender(source, access, n_procs, driver.options)
            cell = sweep.cells[level, access, n_procs] = Cell()
            progress.stage(f"complevel {level}: check {contender.name}")
            try:
                found = contender.check(progress.tick)
                cell.fault = contenders.differs(found, expected, contender.in_order)
            except Exception as error:  # noqa: BLE001  whatever is raised belongs in the table
                cell.fault = f"{type(error).__name__}: {error}"
            if cell.fault:
                progress.note(f"FAILED complevel {level}, {contender.name}: {cell.fault}")
            else:
                honest[contender.name] = contender, access, n_procs

    shared = {
        "study": "sweep",
        "complib": workload.complib if level else "none",
        "complevel": level,
        "driver": driver.name,
        "rows": workload.rows,
        "row_bytes": workload.row_bytes,
        "stored_bytes": os.path.getsize(filename),
    }
    for cycle, name in turns(list(honest), int(arguments.cycles)):
        contender, access, n_procs = honest[name]
        cell = sweep.cells[level, access, n_procs]
        if cell.fault:
            continue
        progress.stage(f"complevel {level}: time {name}")
        if driver.drop_before:
            measure.drop_page_cache(filename)
        before = measure.cache_state(filename)
        try:
            (one,) = contender.passes(1, progress.tick)
        except Exception as error:  # noqa: BLE001
            cell.fault = f"{type(error).__name__}: {error}"
            continue
        cache = cache_of(driver, filename, before)
        sweep.caches.add(cache)
        cell.passes.append(one)
        results.add(
            **shared,
            access=access,
            n_procs=n_procs,
            cache=cache,
            cycle=cycle,
            seconds=one.seconds,
            decoded_bytes=one.decoded_bytes,
            mb_per_s=round(one.rate, 1),
        )


def cache_of(driver: Driver, filename: str, before: str) -> str:
    """The cache state a pass ran in; a direct pass that filled the page cache was not direct."""
    if environment.in_memory(filename):
        return "in memory, no device"
    if driver.name != "direct":
        return before
    after = measure.resident_fraction(filename)
    return "bypassed" if after <= 0.1 else f"not bypassed: {after:.0%} of the file went through it"
