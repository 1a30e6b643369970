"""The parts of training batches: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`, that yields its cases; wanted figures stand in the constants.
2. It measures nothing: the frame takes the turns, and every contender checks its rows in each
   measurement.
3. A peer that does not read HDF5 gives context: no target counts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from _multitables.benchmark.analysis.mixing import mixing
from _multitables.benchmark.contenders import batch_check
from _multitables.benchmark.contenders.batch_contenders import (
    BATCH_ROWS,
    WORKERS,
    BatchContender,
    Task,
)
from _multitables.benchmark.contract import Measurement, Sample, Source
from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.datasets import FILTERS, LZ4, Dataset
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.harness.child import face, module_directory
from _multitables.benchmark.studies.frame import LABEL, Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting

ROW_BYTES = 1024
MIN_WINDOW = 0.8
MIN_FULL = 5.0
MIN_LOADER = 10.0
MAX_CHUNK_ROWS_FULL = 64  # the target of a full shuffle is of such chunks

LATER_EPOCHS = 3  # of the streams, behind the first
WINDOWS = (1024, 4096, 16384, 65536, 262144)
SEEDS = range(5)
MEMORY_PARTS = (16, 4)  # of a full shuffle: memory for a 16th and a 4th of the data

#: Further columns of the rows -> their heads.
MORE = {
    "epochs": "epochs timed",
    "first_epoch": "first epoch, MB/s",
    "read_amplification": "times each chunk is decoded",
    "place_correlation": "place",
    "neighbour_correlation": "neighbour",
    "largest_share": "largest share",
}


def _dataset(title: str, **stored: Any) -> Dataset:
    """Rows of 256 float32 in an EArray, with PyTables' shuffle; the first value is a number."""
    return Dataset(title, stored, values="numbered")


DATASETS = {
    f"{name}-{rows}k": _dataset(f"{title}, chunks of {rows} KiB", chunk_rows=rows, **filters)
    for name, (title, filters) in FILTERS.items()
    for rows in (512, 64)
}
#: What h5py chooses for such rows by itself: a single row is then in 64 chunks of 125 KB.
DATASETS["lz4-narrow"] = _dataset(
    "blosc:lz4 5, chunks of 7813 rows of 4 columns", chunk_rows=7813, chunk_columns=4, **LZ4
)


def window(setting: Setting) -> Iterator[Case]:
    """Rows mixed over a window, beside the same rows in the order of the file."""
    for name in setting.datasets:

        def prepare(_stack: ExitStack, name: str = name) -> Prepared:
            task = _task(setting, name)
            ours = partial(_ours, task, later=LATER_EPOCHS)
            in_order = [ours("queue", "queue"), ours("shuffle=None", shuffle=None)]
            chunks = ours("shuffle='chunks'", shuffle="chunks")
            shuffled = ours("shuffle='window'", shuffle="window")
            wanted = [Wanted(shuffled.name, (one.name,), MIN_WINDOW) for one in in_order]
            return _prepared(task, [*in_order, chunks, shuffled], wanted)

        yield Case({"part": "window", "dataset": DATASETS[name].title}, prepare)


def full(setting: Setting) -> Iterator[Case]:
    """A uniform permutation, beside h5py and DataLoader reading the same batches, sorted."""
    for name in setting.datasets:
        if DATASETS[name].stored["chunk_rows"] > MAX_CHUNK_ROWS_FULL:
            continue

        def prepare(_stack: ExitStack, name: str = name) -> Prepared:
            task = _task(setting, name)
            ours = [_ours(task, "shuffle='full'", shuffle="full")]
            for part in MEMORY_PARTS:
                limit_bytes = task.source.decoded_bytes // part
                label = f"shuffle='full', {workloads.as_size(limit_bytes)}"
                ours.append(_ours(task, label, shuffle="full", memory_limit_bytes=limit_bytes))
            peers = [
                _peer(task, "h5py, sorted fancy indexing", "h5py sorted batches", shuffle="full"),
                _peer(task, "h5py, a row at a time, sorted", "h5py sorted rows", shuffle="full"),
            ]
            return _prepared(task, [*ours, *peers], _beside(ours[:1], peers, MIN_FULL))

        yield Case({"part": "full", "dataset": DATASETS[name].title}, prepare)


def loader(setting: Setting) -> Iterator[Case]:
    """Both shuffles, beside shuffling DataLoaders over h5py, and over an array without HDF5."""
    for name in setting.datasets:
        stored = DATASETS[name].stored
        if "complib" not in stored or "chunk_columns" in stored:
            continue

        def prepare(_stack: ExitStack, name: str = name) -> Prepared:
            task = _task(setting, name, with_array=True)
            ours = [
                _ours(task, "shuffle=True", shuffle=True),
                _ours(task, "shuffle='full'", shuffle="full"),  # the order of a DataLoader
                _ours(task, "TorchDataset", "torch dataset", shuffle=True),
            ]
            peers = [
                _peer(task, "h5py, a file for each worker", "h5py"),
                _peer(task, "h5py, sorted fancy indexing", "h5py fancy"),
                _peer(task, "h5py, opened for each row", "h5py reopened"),
            ]
            context = [
                _peer(task, "h5py, StatefulDataLoader", "stateful", needs=("torch", "torchdata")),
                _peer(task, ".npy mapped, rows", "npy"),
                _peer(task, ".npy mapped, fancy indexing", "npy fancy"),
                _peer(task, ".npy mapped, NumPy alone", "npy numpy", needs=(), loads=""),
                _peer(task, ".npy mapped, Grain", "npy grain", needs=("grain",), loads=""),
            ]
            wanted = _beside(ours, peers, MIN_LOADER)
            return _prepared(task, [*ours, *peers, *context], wanted)

        yield Case({"part": "loader", "dataset": DATASETS[name].title}, prepare)


def mixing_of_orders(setting: Setting) -> Iterator[Case]:
    """How well each shuffle mixes: a round for each seed, in which nothing is timed."""
    whole = (name for name in setting.datasets if "chunk_columns" not in DATASETS[name].stored)
    for chunk_rows, name in {DATASETS[one].stored["chunk_rows"]: one for one in whole}.items():
        for seed in SEEDS:

            def prepare(
                _stack: ExitStack, name: str = name, chunk_rows: int = chunk_rows, seed: int = seed
            ) -> Prepared:
                source = setting.source(_workload(setting, name))
                shuffles: dict[str, dict[str, Any]] = {
                    "None": {"shuffle": None},
                    "chunks": {"shuffle": "chunks"},
                    "window, default": {"shuffle": "window"},
                    **{
                        f"window, {rows}": {"shuffle": "window", "window_rows": rows}
                        for rows in WINDOWS
                        if rows <= source.rows
                    },
                    "full": {"shuffle": "full"},
                }
                of_shuffle = partial(_mixing, source, chunk_rows, seed)
                return Prepared(
                    [
                        Measurement(label, partial(of_shuffle, options))
                        for label, options in shuffles.items()
                    ]
                )

            key = {"part": "mixing", "dataset": f"chunks of {chunk_rows} rows"}
            yield Case(key, prepare, "chunks of a batch", rounds=range(seed, seed + 1))


def _mixing(source: Source, chunk_rows: int, seed: int, options: dict[str, Any]) -> Sample:
    streamer = face().Streamer(source.filename)
    with streamer.get_batches(source.path, BATCH_ROWS, seed=seed, **options) as batches:
        figures = asdict(mixing(batches.order(0), chunk_rows, BATCH_ROWS))
    return Sample(figures.pop("chunks_in_batch"), figures)


# ---- what the timed parts share


def _workload(setting: Setting, name: str) -> Workload:
    return DATASETS[name].workload(f"batches_{name}", setting.size_bytes)


def _task(setting: Setting, name: str, with_array: bool = False) -> Task:
    workload = _workload(setting, name)
    array_filename = ""
    if with_array:  # the same rows for all chunk shapes
        array = DATASETS["none-512k"].workload("batches", setting.size_bytes)
        array_filename = setting.prepared(array, workloads.array_in_directory)
    oracle = batch_check.oracle(workload)
    return Task(setting.source(workload), oracle, array_filename, seconds=setting.seconds)


def _ours(
    task: Task, name: str, recipe: str = "batches", later: int = 0, **options: Any
) -> BatchContender:
    needs = ("h5py", "torch") if recipe == "torch dataset" else ("h5py",)
    who = task, f"{LABEL} {name}", recipe, module_directory(), options
    return BatchContender(*who, whole=True, later=later, needs=needs)


def _peer(
    task: Task,
    name: str,
    recipe: str,
    needs: tuple[str, ...] = ("torch", "h5py"),
    loads: str = f"DataLoader x{WORKERS}: ",
    **options: Any,
) -> BatchContender:
    return BatchContender(task, f"{loads}{name}", recipe, module_directory(), options, needs=needs)


def _prepared(
    task: Task, everybody: Sequence[BatchContender], wanted: Sequence[Wanted]
) -> Prepared:
    files = [one for one in (task.source.filename, task.array_filename) if one]
    return Prepared(everybody, files=files, wanted=wanted)


def _beside(
    ours: Sequence[BatchContender], peers: Sequence[BatchContender], least: float
) -> list[Wanted]:
    """Each of ours beside the fastest of the peers."""
    names = tuple(one.name for one in peers)
    return [Wanted(one.name, names, least) for one in ours]


PARTS: dict[str, Part] = {
    "window": window,
    "full": full,
    "loader": loader,
    "mixing": mixing_of_orders,
}
