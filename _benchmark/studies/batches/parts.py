"""The parts of training batches: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in the constants below.
2. It measures only through `TargetRun`, and every contender checks its rows in each measurement.
3. A peer that does not read HDF5 gives context: no target counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from _benchmark.analysis.mixing import Mixing, mixing
from _benchmark.contenders import batch_check
from _benchmark.contenders.batch_contenders import BATCH_ROWS, WORKERS, BatchContender, Task
from _benchmark.contract import Digest
from _benchmark.data.workloads import Workload, as_size
from _benchmark.harness.child import face, module_directory
from _benchmark.harness.rounds import summary
from _benchmark.report.tables import UNIT_LINE, aligned
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import LABEL, best, ratio_target, with_spread

ROW_BYTES = 1024
MIN_WINDOW = 0.8
MIN_FULL = 5.0
MIN_LOADER = 10.0
MAX_CHUNK_ROWS_FULL = 64  # the target of a full shuffle is of such chunks

LATER_EPOCHS = 3  # of the streams, behind the first
WINDOWS = (1024, 4096, 16384, 65536, 262144)
SEEDS = range(5)
MEMORY_PARTS = (16, 4)  # of a full shuffle: memory for a 16th and a 4th of the data


@dataclass(frozen=True)
class Dataset:
    """10^6 rows of 256 float32 in an EArray: a filter, with PyTables' shuffle, and chunks."""

    title: str
    chunk_rows: int
    filters: dict[str, Any]
    chunk_columns: int | None = None

    def workload(self, name: str, size_bytes: float) -> Workload:
        """Its file."""
        return Workload(
            f"batches_{name}",
            int(size_bytes) // ROW_BYTES,
            ROW_BYTES // 4,
            "float32",
            "numbered",
            chunk_rows=self.chunk_rows,
            chunk_columns=self.chunk_columns,
            **self.filters,
        )


_FILTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("no filter", {}),
    "lz4": ("blosc:lz4 5", {"complib": "blosc:lz4", "complevel": 5}),
    "zlib": ("zlib 3", {"complib": "zlib", "complevel": 3}),
}
DATASETS = {
    f"{name}-{chunk_rows}k": Dataset(f"{title}, chunks of {chunk_rows} KiB", chunk_rows, filters)
    for name, (title, filters) in _FILTERS.items()
    for chunk_rows in (512, 64)
}
#: What h5py chooses for such rows by itself: a single row is then in 64 chunks of 125 KB.
DATASETS["lz4-narrow"] = Dataset(
    "blosc:lz4 5, chunks of 7813 rows of 4 columns", 7813, _FILTERS["lz4"][1], 4
)


def window(run: TargetRun) -> None:
    """Rows mixed over a window, beside the same rows in the order of the file."""
    for name in run.datasets:
        dataset, task = DATASETS[name], _task(run, name)
        ours = partial(_ours, task, later=LATER_EPOCHS)
        everybody = [
            ours("queue", "queue"),
            ours("shuffle=None", shuffle=None),
            ours("shuffle='chunks'", shuffle="chunks"),
            ours("shuffle='window'", shuffle="window"),
        ]
        rates = _rates(run, "window", dataset.title, task, everybody)
        shuffled = everybody[-1].name
        first = {
            one: with_spread(summary([each.more["first"] for each in found]), ".0f")
            for one, found in run.samples.items()
        }
        run.table(
            f"{dataset.title}, batches of {BATCH_ROWS} rows, {LATER_EPOCHS} epochs behind the "
            f"first of a pass, page cache warm; note: MB/s of the first epoch; {UNIT_LINE}",
            [one.name for one in everybody],
            rates,
            shuffled,
            notes=first,
        )
        for one in everybody[:2]:
            what = f"{dataset.title}: window / {one.name.partition(' ')[2]}"
            figures = rates.get(shuffled), rates.get(one.name)
            run.judge(ratio_target(what, *figures, MIN_WINDOW, run.reasons.get(one.name, "")))


def full(run: TargetRun) -> None:
    """A uniform permutation, beside h5py and DataLoader reading the same batches, sorted."""
    for name in run.datasets:
        dataset = DATASETS[name]
        if dataset.chunk_rows > MAX_CHUNK_ROWS_FULL:
            continue
        task = _task(run, name)
        everybody = [_ours(task, "shuffle='full'", shuffle="full")]
        for part in MEMORY_PARTS:
            limit_bytes = task.source.decoded_bytes // part
            label = f"shuffle='full', {as_size(limit_bytes)}"
            everybody.append(_ours(task, label, shuffle="full", memory_limit_bytes=limit_bytes))
        peers = [
            _peer(task, "h5py, sorted fancy indexing", "h5py sorted batches", shuffle="full"),
            _peer(task, "h5py, a row at a time, sorted", "h5py sorted rows", shuffle="full"),
        ]
        title = f"{dataset.title}, batches of {BATCH_ROWS} rows, uniformly shuffled"
        rates = _measured(run, "full", dataset.title, title, task, [*everybody, *peers])
        _target(run, f"{dataset.title}: full", rates, everybody[0], peers, MIN_FULL)


def loader(run: TargetRun) -> None:
    """`shuffle=True`, beside shuffling DataLoaders over h5py, and over an array without HDF5."""
    for name in run.datasets:
        dataset = DATASETS[name]
        if not dataset.filters or dataset.chunk_columns:
            continue
        task = _task(run, name, with_array=True)
        ours = [_ours(task, "shuffle=True", shuffle=True)]
        ours.append(_ours(task, "TorchDataset", "torch dataset", shuffle=True))
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
        title = f"{dataset.title}, batches of {BATCH_ROWS} shuffled rows"
        everybody = [*ours, *peers, *context]
        rates = _measured(run, "loader", dataset.title, title, task, everybody)
        for one in ours:
            what = f"{dataset.title}: {one.name.partition(' ')[2]}"
            _target(run, what, rates, one, peers, MIN_LOADER)


def mixing_of_orders(run: TargetRun) -> None:
    """How well each shuffle mixes; nothing is timed."""
    seen: set[int] = set()
    rows = []
    for name in run.datasets:
        dataset = DATASETS[name]
        if dataset.chunk_rows in seen or dataset.chunk_columns:
            continue
        seen.add(dataset.chunk_rows)
        source = run.source(dataset.workload(name, run.size_bytes))
        windows = (None, *(one for one in WINDOWS if one <= source.rows))
        cases: list[dict[str, Any]] = [{"shuffle": None}, {"shuffle": "chunks"}]
        cases += [{"shuffle": "window", "window_rows": one} for one in windows]
        cases += [{"shuffle": "full"}]
        streamer = face().Streamer(source.filename)
        for case in cases:
            label = _label(case)
            found = []
            for seed in SEEDS:
                with streamer.get_batches(source.path, BATCH_ROWS, seed=seed, **case) as batches:
                    order = batches.order(0)
                try:
                    found.append(mixing(order, dataset.chunk_rows, BATCH_ROWS))
                except ValueError as error:
                    run.faults.append(f"{dataset.title}, {label}, seed {seed}: {error}")
                    continue
                for figure, value in asdict(found[-1]).items():
                    run.keep(
                        part="mixing",
                        dataset=f"chunks of {dataset.chunk_rows} rows",
                        contender=label,
                        round=seed,
                        value=value,
                        unit=figure,
                    )
            if found:
                rows.append([str(dataset.chunk_rows), label, *_mixing_cells(found)])
    header = ["rows of a chunk", "shuffle", "place", "neighbour", "chunks of a batch", "largest"]
    run.tables.append(
        f"mixing of {run.size_bytes / ROW_BYTES:.0f} rows, batches of {BATCH_ROWS}; mean "
        f"(minimum-maximum) of {len(SEEDS)} seeds.\nplace: Spearman's rank correlation of the "
        "places in file and stream; neighbour: correlation of the\nplaces in the file of "
        "neighbours in the stream; largest: share of a batch that comes from one chunk\n"
        + aligned(header, rows, left=("shuffle",))
    )


def _label(case: Mapping[str, Any]) -> str:
    if case["shuffle"] != "window":
        return str(case["shuffle"])
    return f"window, {case['window_rows'] or 'default'}"


def _mixing_cells(found: Sequence[Mixing]) -> list[str]:
    forms = {
        "place_correlation": "+.3f",
        "neighbour_correlation": "+.3f",
        "chunks_in_batch": ".1f",
        "largest_share": ".3f",
    }
    cells = []
    for figure, form in forms.items():
        values = [getattr(one, figure) for one in found]
        mean, low, high = sum(values) / len(values), min(values), max(values)
        cells.append(f"{mean:{form}} ({low:{form}} to {high:{form}})")
    return cells


# ---- what the timed parts share


def _task(run: TargetRun, name: str, with_array: bool = False) -> Task:
    workload = DATASETS[name].workload(name, run.size_bytes)
    array_filename = ""
    if with_array:  # the same rows, whatever the chunks
        array_filename = run.array_filename(DATASETS["none-512k"].workload("", run.size_bytes))
    oracle = batch_check.oracle(workload)
    return Task(run.source(workload), oracle, array_filename, seconds=run.seconds)


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


def _rates(
    run: TargetRun, part: str, dataset: str, task: Task, everybody: Sequence[BatchContender]
) -> dict[str, list[float]]:
    def differs(_found: Digest) -> str:
        return ""  # their order is their own, so they compare the rows themselves

    files = filter(None, (task.source.filename, task.array_filename))
    return run.rates(part, dataset, everybody, differs, *files)


def _measured(
    run: TargetRun,
    part: str,
    dataset: str,
    title: str,
    task: Task,
    everybody: Sequence[BatchContender],
) -> dict[str, list[float]]:
    """Check, measure, and add the table."""
    rates = _rates(run, part, dataset, task, everybody)
    run.table(
        f"{title}, {WORKERS} processes, page cache warm; note: measured on; {UNIT_LINE}",
        [one.name for one in everybody],
        rates,
        everybody[0].name,
        ".4g",
        notes={one.name: _note(one) for one in everybody},
    )
    return rates


def _note(one: BatchContender) -> str:
    """What the figure stands on."""
    if one.found.part_of_epoch is not None:
        percent = 100 * one.found.part_of_epoch
        form = ".0f" if percent >= 10 else ".2g"
        return f"{percent:{form}} % of an epoch, without the start"
    note = "a whole epoch, with the start"
    if one.found.read_amplification is not None:
        note += f"; each chunk decoded {one.found.read_amplification:.3g} times"
    return note


def _target(
    run: TargetRun,
    what: str,
    rates: Mapping[str, Sequence[float]],
    ours: BatchContender,
    peers: Sequence[BatchContender],
    least: float,
) -> None:
    """Judge `ours` against the fastest of `peers`."""
    names = [one.name for one in peers]
    theirs = best({name: rates[name] for name in names if name in rates})
    missing = next((run.reasons[one] for one in (ours.name, *names) if one in run.reasons), "")
    figures = rates.get(ours.name), rates.get(theirs or "")
    run.judge(
        ratio_target(f"{what} / best DataLoader over h5py", *figures, least, theirs or missing)
    )


PARTS: dict[str, Callable[[TargetRun], None]] = {
    "window": window,
    "full": full,
    "loader": loader,
    "mixing": mixing_of_orders,
}
