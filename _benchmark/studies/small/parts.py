"""The cases of small data: reader, data and peer, and the target of each.

Law
---
1. A part yields its cases, and `measure` is the same for all. Targets stand in the tables below,
   as multiples of the peer's speed, or as milliseconds at most.
2. It measures only through `TargetRun`, which checks the data and takes the turns.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from _benchmark.contenders import shots_contenders, small_contenders
from _benchmark.contenders.shots_contenders import Reading
from _benchmark.contenders.small_contenders import (
    ALL_BATCHES,
    COLLECTION,
    FIRST_BATCH,
    FIRST_BLOCK,
    NEW_STREAMER,
    OPEN,
    OURS,
    OVER_HTTP,
    PEER,
    PLAIN,
    QUEUE,
    READER,
    TOGETHER,
    VIRTUAL,
)
from _benchmark.contract import Contender, Digest
from _benchmark.data import shots, special_files, structures
from _benchmark.data.shots import ShotsFile
from _benchmark.data.special_files import VirtualCopy
from _benchmark.data.structures import EqualDatasets
from _benchmark.data.workloads import PATH, Workload, as_size
from _benchmark.harness.runner import against
from _benchmark.loops import stream_loop
from _benchmark.machine import page_cache
from _benchmark.objects.file_server import file_server
from _benchmark.objects.proxy import Proxy
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import limit_target, ratio_target

ROW_BYTES = 1024
LEVELS = {"none": 0, "gzip": 1}
#: Bytes of a dataset -> how many there are in the file.
N_DATASETS = {2**10: 400, 2**14: 400, 2**18: 100, 2**22: 20, 2**26: 3}
_PLAIN = {QUEUE: 1.0, READER: 1.0, COLLECTION: 1.2}
_LITTLE = {OPEN: 2, TOGETHER: 1.0, **_PLAIN}  # a ring holds several of them
#: Filter and bytes -> contender -> times h5py's speed.
WANTED: dict[tuple[str, int], Mapping[str, float]] = {
    ("none", 2**10): _LITTLE,
    ("none", 2**14): _LITTLE,
    ("none", 2**18): {**_LITTLE, OPEN: 1.2},
    ("none", 2**22): {OPEN: 1.2, **_PLAIN},
    ("none", 2**26): {OPEN: 1.2, **_PLAIN},
    ("gzip", 2**10): {OPEN: 2, QUEUE: 1.2, TOGETHER: 1.2},
    ("gzip", 2**14): {OPEN: 2, QUEUE: 1.2, TOGETHER: 1.2},
    ("gzip", 2**18): {QUEUE: 2, TOGETHER: 2},
    ("gzip", 2**22): {QUEUE: 2},
    ("gzip", 2**26): {QUEUE: 2},
}
MIN_OF_SIGNALS = 2.0
MIN_OF_PUBLISHED = 8.0
ROUNDS_OF_PUBLISHED = 3  # each starts Dask and takes ten seconds
MIN_DISCOVERY = 12.0
MAX_IMPORT, MAX_PROCESS = 1.2, 1.1  # times h5py's time
MAX_FIRST_BATCH = 200.0
MIN_FILES = 3.0
MIN_HTTP = 3.0
MAX_FIRST_BLOCK = 120.0
MIN_VIRTUAL = 0.7
FILE_ROWS, FILE_COLUMNS = 100, 16
N_SOURCES = 8
SIGNALS_PROCESSES = 2
FILTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("no filter", {}),
    "lz4": ("blosc:lz4 5", {"complib": "blosc:lz4", "complevel": 5}),
    "zlib": ("zlib 3", {"complib": "zlib", "complevel": 3}),
}


@dataclass(frozen=True)
class Case:
    """A row of the results for each contender; figures are milliseconds.

    Attributes
    ----------
    title : str
    contenders : sequence of Contender
    peer : str
        Whom the others are compared with.
    wanted : mapping
        Contender -> how many times as fast as the peer it is to be.
    most : mapping
        Contender -> milliseconds that it may take.
    files : sequence of str
        What they read.
    right : callable or None
        The digest of what is read; None: what the peer delivers.
    rounds : int or None
        How often each is measured at most; None: as often as the run says.
    """

    title: str
    contenders: Sequence[Contender]
    peer: str = PEER
    wanted: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    files: Sequence[str] = ()
    right: Callable[[], Digest] | None = None
    rounds: int | None = None


Cases = Generator[Case, None, None]


def datasets(run: TargetRun) -> Cases:
    """Datasets of one file, each whole, by every way of reading."""
    sizes = {one: n for one, n in N_DATASETS.items() if one <= run.size_bytes}
    for (filter_name, n_bytes), wanted in WANTED.items():
        if filter_name in run.datasets and n_bytes in sizes:
            n = min(sizes[n_bytes], run.sizes["datasets"])
            name = f"small_{filter_name}_{n_bytes}_{n}"
            made = EqualDatasets(name, n, n_bytes // ROW_BYTES, LEVELS[filter_name])
            filename = run.prepared(made, structures.in_directory)
            everybody = small_contenders.datasets(
                filename, made.paths(), made.decoded_bytes, (*wanted, PEER)
            )
            how = "gzip 1" if made.level else "no filter"
            title = f"{n} of {as_size(n_bytes)}, {how}, ms each"
            yield Case(title, everybody, wanted=wanted, files=[filename])


def fusion(run: TargetRun) -> Cases:
    """A file of shots: its signals one by one, as a collection, and its list of objects."""
    n_shots, n_signals = run.sizes["shots"], run.sizes["signals"]
    made = ShotsFile(f"small_shots_{n_shots}_{n_signals}", n_shots, n_signals, "shot")
    filename = run.prepared(made, shots.in_directory)
    files = [filename]
    for access in shots_contenders.ACCESSES:
        items = shots_contenders.items_of(filename, shots_contenders.wildcard_of(access))
        reading = Reading(
            filename,
            filename,
            items,
            access,
            plan="random",
            n_procs=SIGNALS_PROCESSES,
            buffer_bytes=0,
            as_described=False,
            folder=run.directory,
        )
        yield Case(
            f"{n_shots * n_signals} signals as a collection of {access}, in total",
            small_contenders.collection(reading),
            shots_contenders.PUBLISHED,
            {OURS: MIN_OF_PUBLISHED},
            files=files,
            right=lambda items=items: items.digest,  # type: ignore[misc]
            rounds=ROUNDS_OF_PUBLISHED,
        )
    paths = [path for group in items.groups.values() for path in group]
    n_bytes, n_datasets = _bytes_and_datasets(filename, paths)
    everybody = small_contenders.datasets(filename, paths, n_bytes, (OPEN, PEER))
    title = f"{len(paths)} signals in a loop, ms each"
    yield Case(title, everybody, wanted={OPEN: MIN_OF_SIGNALS}, files=files)
    title = f"discovery of {n_datasets} datasets, with names of attributes"
    everybody = small_contenders.names_of_attributes(filename, n_datasets)
    yield Case(title, everybody, wanted={OPEN: MIN_DISCOVERY}, files=files)


def _bytes_and_datasets(filename: str, paths: Sequence[str]) -> tuple[int, int]:
    """Decoded bytes of some datasets, and how many datasets there are."""
    import h5py

    with h5py.File(filename) as file:
        found: list[str] = []
        file.visititems(lambda name, one: found.append(name) if hasattr(one, "dtype") else None)
        return sum(file[path].nbytes for path in paths), len(found)


def start(run: TargetRun) -> Cases:
    """The import, and a process that reads 1 MB."""
    bytecode = os.path.join(run.directory, "bytecode")
    yield Case(
        "import, NumPy being there",
        small_contenders.imports(bytecode),
        wanted={OURS: 1 / MAX_IMPORT},
        right=dict,  # nothing is read
    )
    made = EqualDatasets("small_one", 1, 976)
    filename = run.prepared(made, structures.in_directory)
    (path,) = made.paths()
    everybody = small_contenders.processes(filename, path, bytecode)
    title = "a fresh process: import, open, read 1 MB"
    yield Case(title, everybody, wanted={OURS: 1 / MAX_PROCESS}, files=[filename])


def files(run: TargetRun) -> Cases:
    """Many files of few rows, as one list."""
    n = run.sizes["files"]
    folder = os.path.join(run.directory, f"small_files_{n}")
    os.makedirs(folder, exist_ok=True)
    many = [
        EqualDatasets(f"{number:05}", 1, FILE_ROWS, columns=FILE_COLUMNS, seed=number)
        for number in range(n)
    ]
    names = [structures.in_directory(one, folder) for one in many]
    (path,), n_bytes = many[0].paths(), sum(one.decoded_bytes for one in many)
    yield Case(
        f"{n} files of {FILE_ROWS} rows as one list",
        small_contenders.files(names, path, n_bytes),
        wanted={ALL_BATCHES: MIN_FILES},
        most={FIRST_BATCH: MAX_FIRST_BATCH},
        files=names,
    )


def http(run: TargetRun) -> Cases:
    """An object of a web server that takes its time for each request."""
    gzip: dict[str, Any] = {"complib": "zlib", "complevel": 1, "chunk_rows": 256}
    workload = Workload("small_http", run.sizes["rows"], 256, "float32", "waves", **gzip)
    filename = run.source(workload).filename
    size_bytes, milliseconds = os.path.getsize(filename), run.sizes["latency_ms"]
    with (
        file_server(run.directory) as endpoint,
        Proxy(endpoint, latency_seconds=milliseconds / 1000) as proxy,
    ):
        url = f"{proxy.endpoint}/{os.path.basename(filename)}"
        yield Case(
            f"{workload.decoded_bytes / 1e6:.3g} MB in {size_bytes / 1e6:.3g} of gzip over HTTP, "
            f"{milliseconds} ms a request",
            small_contenders.over_http(url, PATH, workload.decoded_bytes),
            OVER_HTTP,
            {NEW_STREAMER: MIN_HTTP, OPEN: MIN_HTTP},
            {FIRST_BLOCK: MAX_FIRST_BLOCK},
            right=partial(_rows_of, filename),
        )


def _rows_of(filename: str) -> Digest:
    import h5py

    with h5py.File(filename) as file:
        return stream_loop.digest_of(iter([file[PATH][...]]))


def virtual(run: TargetRun) -> Cases:
    """A virtual dataset of files side by side, beside its rows in one."""
    for how, filters in FILTERS.values():
        rows = max(2048, int(run.size_bytes) // ROW_BYTES)
        name = f"small_{how.partition(' ')[0].replace(':', '_')}"
        workload = Workload(name, rows, 256, "float32", "waves", **filters, chunk_rows=256)
        plain = run.source(workload).filename
        copy = VirtualCopy(f"{name}_tiles_{rows}", workload, plain, "tiles", N_SOURCES)
        made = run.prepared(copy, special_files.in_directory)
        everybody = small_contenders.virtual(made, plain, PATH, run.processes[0])
        yield Case(
            f"{as_size(workload.decoded_bytes)}, {how}, {N_SOURCES} files side by side, of one",
            everybody,
            PLAIN,
            {VIRTUAL: MIN_VIRTUAL},
            files=[made, plain],
            right=partial(_checked, everybody[-1]),
        )


def _checked(one: Contender) -> Digest:
    found = one.check()
    assert found is not None
    return found


def measure(name: str, cases: Callable[[TargetRun], Cases], run: TargetRun) -> None:
    """Measure the cases of a part, and judge each contender of whom something is wanted."""
    with contextlib.closing(cases(run)) as made:
        for case in made:
            _measure(name, case, run)


def _measure(part: str, case: Case, run: TargetRun) -> None:
    for filename in case.files:
        page_cache.fill_page_cache(filename)
    names = [one.name for one in case.contenders]
    (peer,) = (one for one in case.contenders if one.name == case.peer)
    right = against(case.right or partial(_checked, peer))
    rounds = min(case.rounds or run.rounds, run.rounds)
    found = run.rates(
        part, case.title, case.contenders, right, *case.files, unit="ms", rounds=rounds
    )
    run.table(f"{case.title}, page cache warm", names, found, case.peer, ".3g", "ms")

    def reason(*names: str) -> str:
        return next((run.reasons.get(name, "") for name in names if name not in found), "")

    for name, least in case.wanted.items():
        what, sides = f"{case.title}: {name} / {case.peer}", (found.get(case.peer), found.get(name))
        run.judge(ratio_target(what, *sides, round(least, 2), reason(name, case.peer)))
    for name, most in case.most.items():
        what = f"{case.title}: {name}"
        run.judge(limit_target(what, found.get(name), most, "ms", reason(name)))


PARTS: dict[str, Callable[[TargetRun], None]] = {
    cases.__name__: partial(measure, cases.__name__, cases)
    for cases in (datasets, fusion, start, files, http, virtual)
}
DATASETS = tuple(LEVELS)
