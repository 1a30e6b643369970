"""The comparisons of objects, and their targets.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in the constants below.
2. It measures only through `TargetRun`, which checks the rows and takes the turns. Right is what
   NumPy has generated, or what h5py reads of the file before it becomes an object.
"""

from __future__ import annotations

import functools
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _benchmark.contenders import random_keys
from _benchmark.contenders import remote_contenders as people
from _benchmark.contenders.random_keys import BATCH_ROWS
from _benchmark.contenders.remote_contenders import OURS, Counted, Place
from _benchmark.contenders.shots_contenders import items_of
from _benchmark.contract import Differs, Digest, NotMeasuredError
from _benchmark.data import shots, structures
from _benchmark.data.shots import LAYOUTS, PAGE_BYTES, PATTERN, ShotsFile
from _benchmark.data.structures import ManyDatasets
from _benchmark.data.workloads import PATH, Workload
from _benchmark.harness.runner import against
from _benchmark.loops import remote_clock, stream_loop
from _benchmark.objects.store import Store
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import best, limit_target, ratio_target

COLUMNS = 256
MIN_WHOLE = 3.0
MIN_OF_DOWNLOAD = 1 / 1.3  # 1.3 times its time
MIN_BATCHES = 5.0
#: Batches read a file this many times larger, because the blocks of s3fs would hold a small one.
BATCHES_OF = 4
MAX_REQUESTS = 0.1  # a part of HDF5's own; s3fs takes the whole file in a few
MIN_OPENING = 1.0
MAX_OF_BEST = 2.0  # times the fastest of all ways to read the shots
MIN_PUBLISHED = 3.0
#: What the study of shots had: pages of its file, of the larger buffer, and shots.
BUFFER_PAGES, STUDY_SHOTS = 33, 500
COLLECTION, HANDLE = f"{OURS} get_collection", f"{OURS} open, visititems"
INDEXED = f"{COLLECTION}, saved index"
QUEUE, KEPT = f"{OURS} queue", f"{OURS} queue, readers running"
FORMATS = ("earliest", "latest", "paged")


@dataclass(frozen=True)
class Dataset:
    """Rows of 256 float32 with a filter."""

    title: str
    filters: dict[str, Any]

    def workload(self, name: str, size_bytes: float, chunk_rows: int) -> Workload:
        """Its file."""
        rows = max(16, int(size_bytes) // (4 * COLUMNS * BATCH_ROWS)) * BATCH_ROWS
        kind = ("float32", "numbered")
        name = f"remote_{name}_{chunk_rows}"
        return Workload(name, rows, COLUMNS, *kind, **self.filters, chunk_rows=chunk_rows)


DATASETS = {
    "zstd": Dataset("blosc:zstd 5", {"complib": "blosc:zstd", "complevel": 5}),
    "zlib": Dataset("zlib 3", {"complib": "zlib", "complevel": 3}),
}


@dataclass
class Remote:
    """The store of a run, and the interpreter with the ROS3 driver."""

    store: Store
    ros3_python: str
    _put: dict[str, str] = field(default_factory=dict)

    def place(self, run: TargetRun, filename: str, key: str) -> Place:
        """A file as an object."""
        if key not in self._put:
            try:
                self._put[key] = self.store.put(filename, key)
            except ImportError as error:
                raise NotMeasuredError(f"{error}: pip install multitables[remote]") from error
        return Place(self.store, self._put[key], run.processes[0], self.ros3_python)

    def part(self, part: Callable[[TargetRun, Remote], None]) -> Callable[[TargetRun], None]:
        """A part that reads these objects."""
        return lambda run: part(run, self)


def whole(run: TargetRun, remote: Remote) -> None:
    """Whole datasets, and the download of their objects."""
    for name in run.datasets:
        workload = DATASETS[name].workload(name, run.size_bytes, chunk_rows=512)
        source, right = run.source(workload), random_keys.oracle(workload)
        place = remote.place(run, source.filename, f"{workload.name}.h5")
        n_bytes, size_bytes = source.decoded_bytes, _size(source.filename)
        figure, loaded = people.rate(n_bytes), people.download_rate(n_bytes, size_bytes)
        mine = functools.partial(people.ours, place, task="whole", path=PATH)
        everybody = [
            mine(QUEUE, "queue", figure=figure),
            mine(KEPT, "kept queue", figure=figure),
            *people.theirs(place, "whole", figure, path=PATH),
        ]
        loads = [
            _Download(mine(label, "download", figure=loaded, in_ranges=in_ranges).one, place.store)
            for label, in_ranges in ((people.DOWNLOAD, False), (people.RANGES, True))
        ]
        title = f"{DATASETS[name].title}, whole, {size_bytes / 1e6:.4g} MB stored"
        rates = _rates(
            run, "whole", title, [*everybody, *loads], _rows(right, np.arange(workload.rows))
        )
        rival, load = best(rates, "h5py"), best(rates, "obstore")
        for label in (QUEUE, KEPT):
            _judge(run, title, rates, label, rival or "h5py", MIN_WHOLE)
            _judge(run, title, rates, label, load or "obstore", MIN_OF_DOWNLOAD)


def batches(run: TargetRun, remote: Remote) -> None:
    """Batches of 256 rows that lie anywhere."""
    for name in run.datasets:
        workload = DATASETS[name].workload(name, BATCHES_OF * run.size_bytes, chunk_rows=64)
        source, oracle = run.source(workload), random_keys.oracle(workload)
        place = remote.place(run, source.filename, f"{workload.name}.h5")
        draw = random_keys.coordinates(workload.rows, run.sizes["batches"], seed=1)
        asked: dict[str, Any] = {"path": PATH, "batches": draw.batches}
        figure = people.batch_rate(draw, oracle)
        epoch: dict[str, Any] = {"path": PATH, "batch_rows": BATCH_ROWS}
        shuffled = people.epoch_rate(workload.rows, oracle)
        reader, epochs = f"{OURS} Reader", f"{OURS} get_batches, an epoch"
        everybody = [
            people.ours(place, reader, "reader", "batches", figure, **asked),
            *people.theirs(place, "batches", figure, **asked),
        ]
        title = f"{DATASETS[name].title}, {len(draw.batches)} batches of {BATCH_ROWS} random rows"
        one = people.ours(place, epochs, "batches", "batches", shuffled, in_order=False, **epoch)
        drawn, rows = _rows(oracle, draw.rows()), _rows(oracle, np.arange(workload.rows))
        differs = _either(drawn, rows)
        rates = _rates(run, "batches", title, [one, *everybody], differs, "batches/s")
        rival = best(rates, "h5py") or "h5py"
        for label in (reader, epochs):
            _judge(run, title, rates, label, rival, MIN_BATCHES)


def opening(run: TargetRun, remote: Remote) -> None:
    """All datasets of a file: shape, type, and where their chunks are."""
    n = run.sizes["datasets"]
    formats = FORMATS if run.judged else FORMATS[-1:]
    for version, times in ((one, times) for one in formats for times in (1, run.sizes["times"])):
        made = ManyDatasets(f"remote_many_{version}_{n}_{times}", n, version, times)
        filename = run.prepared(made, structures.in_directory)
        plain = remote.place(run, filename, f"{made.name}.h5")
        indexed = remote.place(run, filename, f"{made.name}_indexed.h5")
        figure, pattern = people.seconds(n), "/shots/*/*"
        ours = functools.partial(
            people.ours, task="structure", figure=figure, in_order=False, pattern=pattern
        )
        everybody = [
            ours(plain, COLLECTION, "structure", saved_index=False),
            ours(indexed, INDEXED, "structure", saved_index=True),
            ours(plain, HANDLE, "handle"),
            *people.theirs(_alone(plain), "structure", figure, False, with_chunks=False),
        ]
        title = f"{n} datasets in {_size(filename) / 1e6:.3g} MB, format {version}, all known"
        right = against(functools.partial(_structure, filename))
        times_of = _rates(run, "opening", title, everybody, right, "s")
        _judge_opening(run, title, _requests(run, title, times_of), times_of, times > 1)


def _judge_opening(
    run: TargetRun,
    title: str,
    requests: Mapping[str, Sequence[float]],
    times: Mapping[str, Sequence[float]],
    is_large: bool,
) -> None:
    """Of a large file the requests beside HDF5's own driver; of every one the time and a HEAD."""
    why = run.reasons.get(people.ROS3, "")
    for label in (COLLECTION, HANDLE) if is_large else ():
        both = zip(requests.get(label, ()), requests.get(people.ROS3, ()), strict=False)
        ratio = [one / other for one, other in both]
        what = f"{title}: requests of {label} / {people.ROS3}"
        run.judge(limit_target(what, ratio, MAX_REQUESTS, "x", why))
    run.judge(limit_target(f"{title}: requests of {INDEXED}", requests.get(INDEXED), 2, ""))
    rival = min((one for one in times if "h5py" in one), key=_median(times), default=people.S3FS)
    figures = times.get(rival), times.get(COLLECTION)
    run.judge(ratio_target(f"{title}: {rival} / {COLLECTION}", *figures, MIN_OPENING, why))


def shot_files(run: TargetRun, remote: Remote) -> None:
    """Shots of many signals, by shot and by signal, of both layouts."""
    n_shots, n_signals = run.sizes["shots"], run.sizes["signals"]
    fastest: dict[str, Sequence[float]] = {}
    for layout in LAYOUTS if run.judged else LAYOUTS[-1:]:
        made = ShotsFile(f"remote_{layout}_{n_shots}_{n_signals}", n_shots, n_signals, layout)
        filename = run.prepared(made, shots.in_directory)
        place = remote.place(run, filename, f"{made.name}.h5")
        pages = max(2, round(BUFFER_PAGES * n_shots / STUDY_SHOTS))
        for by, what in enumerate(LAYOUTS):
            found = items_of(filename, by)
            figure = people.seconds(found.counts)
            ours = COLLECTION
            asked: dict[str, Any] = {"pattern": PATTERN, "by": by}
            file = {"page_buf_size": pages * PAGE_BYTES, "rdcc_nbytes": 8 << 20}
            everybody = [
                people.ours(place, ours, "items", "items", figure, False, **asked),
                *people.theirs(place, "items", figure, False, file, items=found.groups)[1:],
            ]
            title = f"layout {layout}/{layout}s, read by {what}, {_size(filename) / 1e6:.4g} MB"
            times = _rates(run, "shots", title, everybody, _constant(found.digest), "s")
            rival = min((one for one in times if one != ours), key=_median(times), default="h5py")
            why = run.reasons.get(ours, "") or run.reasons.get(people.ROS3, "")
            figures = times.get(rival), times.get(ours)
            run.judge(ratio_target(f"{title}: {rival} / {ours}", *figures, MIN_PUBLISHED, why))
            if ours in times:
                fastest[title] = times[ours]
    quickest = min(fastest.values(), key=statistics.median, default=None)
    for title, values in fastest.items():
        ratio = [one / other for one, other in zip(values, quickest or (), strict=False)]
        run.judge(limit_target(f"{title}: {OURS} / best of the four", ratio, MAX_OF_BEST, "x"))


# ---- what is right


def _size(filename: str) -> int:
    return os.path.getsize(filename)


def _rows(oracle: random_keys.Oracle, rows: Any) -> Differs:
    return against(lambda: oracle.rows(rows))


def _either(drawn: Differs, rows: Differs) -> Differs:
    """What differs from a draw or, where no order was promised, from all rows."""
    return lambda found: drawn(found) if "in_order" in found else rows(found)


def _constant(digest: Digest) -> Differs:
    return against(lambda: digest)


def _structure(filename: str) -> dict[str, Any]:
    """The digest of path, shape and type of every dataset, as h5py tells them of the file."""
    import h5py

    found: list[Any] = []

    def visit(name: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset):
            found.append(remote_clock.hashed(f"/{name}", one.shape, one.dtype.str))

    with h5py.File(filename) as file:
        file.visititems(visit)
    return stream_loop.summed_up(np.array(found, np.uint64))


# ---- what the parts share


def _alone(place: Place) -> Place:
    """The same, read by one process."""
    return Place(place.store, place.url, 1, place.ros3_python)


class _Download(Counted):
    """One that delivers bytes and no rows, which are counted when it is timed."""

    def check(self) -> Digest | None:
        """Nothing: see the class."""
        return None


def _median(values: Mapping[str, Sequence[float]]) -> Callable[[str], float]:
    return lambda name: statistics.median(values[name])


def _rates(
    run: TargetRun,
    part: str,
    title: str,
    everybody: Sequence[Counted],
    right: Differs,
    unit: str = "MB/s",
) -> dict[str, list[float]]:
    """Check, measure, and add the table with the requests of each."""
    rates = run.rates(part, title, everybody, right, unit=unit)
    notes = {}
    for name, samples in run.samples.items():
        requests, n_bytes = (
            statistics.median(one.more[key] for one in samples) for key in ("requests", "n_bytes")
        )
        notes[name] = f"{requests:.0f} requests, {n_bytes / 1e6:.3g} MB"
    names = [one.name for one in everybody]
    run.table(f"{title}; {unit}", names, rates, names[0], ".3g", unit, notes)
    return rates


def _requests(run: TargetRun, title: str, times: Mapping[str, Any]) -> dict[str, list[float]]:
    """The requests of each in each round, which are kept beside the times."""
    for name, samples in run.samples.items():
        for number, one in enumerate(samples):
            key = {"part": "opening", "dataset": title, "unit": "requests", "contender": name}
            run.keep(one.more["requests"], **key, round=number)
    return {
        name: [
            float(row["value"])
            for row in run.results.rows
            if (row["dataset"], row["unit"], row["contender"]) == (title, "requests", name)
        ]
        for name in times
    }


def _judge(
    run: TargetRun, title: str, rates: dict[str, list[float]], one: str, rival: str, least: float
) -> None:
    figures = rates.get(one), rates.get(rival)
    reason = run.reasons.get(one, "") or run.reasons.get(rival, "")
    run.judge(ratio_target(f"{title}: {one} / {rival}", *figures, least, reason))


PARTS: dict[str, Callable[[TargetRun, Remote], None]] = {
    "whole": whole,
    "batches": batches,
    "opening": opening,
    "shots": shot_files,
}
