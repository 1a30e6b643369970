"""The cases of small data: reader, data and peer, and the target of each.

Law
---
1. One function a part, in `PARTS`, that yields its cases; figures are milliseconds. Targets stand
   in the constants, as multiples of the peer's speed, or as milliseconds at most.
2. It measures nothing: the frame checks the data and takes the turns. Right is what the last
   contender delivers, unless the case says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from _multitables.benchmark.contenders import shots_contenders, small_contenders
from _multitables.benchmark.contenders.shots_contenders import Reading
from _multitables.benchmark.contenders.small_contenders import (
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
from _multitables.benchmark.contract import Contender, Digest
from _multitables.benchmark.data import shots, special_files, structures
from _multitables.benchmark.data.datasets import of_each_filter
from _multitables.benchmark.data.shots import ShotsFile
from _multitables.benchmark.data.special_files import VirtualCopy
from _multitables.benchmark.data.structures import EqualDatasets
from _multitables.benchmark.data.workloads import PATH, Workload, as_size
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.objects.file_server import file_server
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.studies.frame import Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting, case

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

DATASETS = tuple(LEVELS)
SIDE_BY_SIDE = of_each_filter(chunk_rows=256, least_rows=2048)


def _prepared(
    everybody: Sequence[Contender],
    files: Sequence[str],
    wanted: Iterable[Wanted],
    right: Callable[[], Digest] | None = None,
) -> Prepared:
    return Prepared(everybody, against(right or everybody[-1].check), files, wanted=[*wanted])


def _beside(wanted: Mapping[str, float], peer: str = PEER) -> list[Wanted]:
    return [Wanted(name, (peer,), least) for name, least in wanted.items()]


def datasets(setting: Setting) -> Iterator[Case]:
    """Datasets of one file, each whole, by every way of reading."""
    for (filter_name, n_bytes), wanted in WANTED.items():
        if filter_name in setting.datasets and n_bytes <= setting.size_bytes:
            n = min(N_DATASETS[n_bytes], setting.sizes["datasets"])
            name, level = f"small_{filter_name}_{n_bytes}_{n}", LEVELS[filter_name]
            made = EqualDatasets(name, n, n_bytes // ROW_BYTES, level)
            title = f"{n} of {as_size(n_bytes)}, {'gzip 1' if level else 'no filter'}, ms each"
            yield case("datasets", title, _datasets, setting, made, wanted, unit="ms")


def _datasets(setting: Setting, made: EqualDatasets, wanted: Mapping[str, float]) -> Prepared:
    filename = setting.prepared(made, structures.in_directory)
    everybody = small_contenders.datasets(
        filename, made.paths(), made.decoded_bytes, (*wanted, PEER)
    )
    return _prepared(everybody, [filename], _beside(wanted))


def fusion(setting: Setting) -> Iterator[Case]:
    """A file of shots: its signals one by one, as a collection, and its list of objects."""
    n_shots, n_signals = setting.sizes["shots"], setting.sizes["signals"]
    made = ShotsFile(f"small_shots_{n_shots}_{n_signals}", n_shots, n_signals, "shot")
    n, rounds = n_shots * n_signals, min(setting.rounds, ROUNDS_OF_PUBLISHED)
    for access in shots_contenders.ACCESSES:
        title = f"{n} signals as a collection of {access}, in total"
        yield case("fusion", title, _collection, setting, made, access, unit="ms", rounds=rounds)
    yield case("fusion", f"{n} signals in a loop, ms each", _signals, setting, made, unit="ms")
    n_datasets = n + n_shots * len({made.time_base(signal) for signal in range(n_signals)})
    title = f"discovery of {n_datasets} datasets, with names of attributes"
    yield case("fusion", title, _discovery, setting, made, n_datasets, unit="ms")


def _collection(setting: Setting, made: ShotsFile, access: str) -> Prepared:
    filename = setting.prepared(made, shots.in_directory)
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
        folder=setting.directory,
    )
    wanted = _beside({OURS: MIN_OF_PUBLISHED}, shots_contenders.PUBLISHED)
    everybody = small_contenders.collection(reading)
    return _prepared(everybody, [filename], wanted, lambda: items.digest)


def _signals(setting: Setting, made: ShotsFile) -> Prepared:
    import h5py

    filename = setting.prepared(made, shots.in_directory)
    with h5py.File(filename) as file:
        signals = [one for group in file["shots"].values() for one in group["signals"].values()]
        paths, n_bytes = [one.name for one in signals], sum(one.nbytes for one in signals)
    everybody = small_contenders.datasets(filename, paths, n_bytes, (OPEN, PEER))
    return _prepared(everybody, [filename], _beside({OPEN: MIN_OF_SIGNALS}))


def _discovery(setting: Setting, made: ShotsFile, n_datasets: int) -> Prepared:
    filename = setting.prepared(made, shots.in_directory)
    everybody = small_contenders.names_of_attributes(filename, n_datasets)
    return _prepared(everybody, [filename], _beside({OPEN: MIN_DISCOVERY}))


def start(setting: Setting) -> Iterator[Case]:
    """The import, and a process that reads 1 MB."""
    bytecode = os.path.join(setting.directory, "bytecode")
    yield case("start", "import, NumPy being there", _imports, bytecode, unit="ms")
    title = "a fresh process: import, open, read 1 MB"
    yield case("start", title, _processes, setting, bytecode, unit="ms")


def _imports(bytecode: str) -> Prepared:
    return _prepared(small_contenders.imports(bytecode), [], _beside({OURS: 1 / MAX_IMPORT}))


def _processes(setting: Setting, bytecode: str) -> Prepared:
    made = EqualDatasets("small_one", 1, 976)
    filename = setting.prepared(made, structures.in_directory)
    everybody = small_contenders.processes(filename, made.paths()[0], bytecode)
    return _prepared(everybody, [filename], _beside({OURS: 1 / MAX_PROCESS}))


def files(setting: Setting) -> Iterator[Case]:
    """Many files of few rows, as one list."""
    title = f"{setting.sizes['files']} files of {FILE_ROWS} rows as one list"
    yield case("files", title, _files, setting, unit="ms")


def _files(setting: Setting) -> Prepared:
    n = setting.sizes["files"]
    folder = os.path.join(setting.directory, f"small_files_{n}")
    os.makedirs(folder, exist_ok=True)
    many = [
        EqualDatasets(f"{number:05}", 1, FILE_ROWS, columns=FILE_COLUMNS, seed=number)
        for number in range(n)
    ]
    names = [structures.in_directory(one, folder) for one in many]
    n_bytes = sum(one.decoded_bytes for one in many)
    wanted = [*_beside({ALL_BATCHES: MIN_FILES}), Wanted(FIRST_BATCH, most=MAX_FIRST_BATCH)]
    return _prepared(small_contenders.files(names, many[0].paths()[0], n_bytes), names, wanted)


def http(setting: Setting) -> Iterator[Case]:
    """An object of a web server that takes its time for each request."""
    gzip: dict[str, Any] = {"complib": "zlib", "complevel": 1, "chunk_rows": 256}
    workload = Workload("small_http", setting.sizes["rows"], 256, "float32", "waves", **gzip)
    milliseconds = setting.sizes["latency_ms"]

    def prepare(stack: ExitStack) -> Prepared:
        filename = setting.source(workload).filename
        endpoint = stack.enter_context(file_server(setting.directory))
        proxy = stack.enter_context(Proxy(endpoint, latency_seconds=milliseconds / 1000))
        url = f"{proxy.endpoint}/{os.path.basename(filename)}"
        everybody = small_contenders.over_http(url, PATH, workload.decoded_bytes)
        wanted = _beside({NEW_STREAMER: MIN_HTTP, OPEN: MIN_HTTP}, OVER_HTTP)
        wanted.append(Wanted(FIRST_BLOCK, most=MAX_FIRST_BLOCK))
        return _prepared(everybody, [], wanted, partial(_rows_of, filename))

    size = f"{workload.decoded_bytes / 1e6:.3g} MB"
    title = f"{size}, gzip 1, over HTTP, {milliseconds} ms a request"
    yield Case({"part": "http", "dataset": title}, prepare, "ms")


def _rows_of(filename: str) -> Digest:
    import h5py

    with h5py.File(filename) as file:
        return stream_loop.digest_of(iter([file[PATH][...]]))


def virtual(setting: Setting) -> Iterator[Case]:
    """A virtual dataset of files side by side, beside its rows in one."""
    for name, dataset in SIDE_BY_SIDE.items():
        workload = dataset.workload(f"small_{name}", setting.size_bytes)
        size = as_size(workload.decoded_bytes)
        title = f"{size}, {dataset.title}, {N_SOURCES} files side by side, of one"
        yield case("virtual", title, _virtual, setting, workload, unit="ms")


def _virtual(setting: Setting, workload: Workload) -> Prepared:
    plain = setting.source(workload).filename
    stem = f"{workload.name}_tiles_{workload.rows}"
    copy = VirtualCopy(stem, workload, plain, "tiles", N_SOURCES)
    made = setting.prepared(copy, special_files.in_directory)
    everybody = small_contenders.virtual(made, plain, PATH, setting.processes[0])
    return _prepared(everybody, [made, plain], _beside({VIRTUAL: MIN_VIRTUAL}, PLAIN))


PARTS: dict[str, Part] = {
    one.__name__: one for one in (datasets, fusion, start, files, http, virtual)
}
