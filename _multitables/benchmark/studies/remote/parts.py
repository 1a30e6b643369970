"""The comparisons of objects, and their targets.

Law
---
1. One function a part, in `PARTS`, that yields its cases; wanted figures stand in the constants.
2. It measures nothing: the frame checks the rows and takes the turns. Right is what NumPy has
   generated, or what h5py reads of the file before it becomes an object.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from _multitables.benchmark.contenders import random_keys
from _multitables.benchmark.contenders import remote_contenders as people
from _multitables.benchmark.contenders.random_keys import BATCH_ROWS
from _multitables.benchmark.contenders.remote_contenders import OURS, Counted, Place
from _multitables.benchmark.contenders.shots_contenders import items_of
from _multitables.benchmark.contract import (
    Contender,
    Differs,
    Digest,
    Measurement,
    NotMeasuredError,
    WrongDataError,
)
from _multitables.benchmark.data import shots, structures
from _multitables.benchmark.data.datasets import ZLIB, Dataset
from _multitables.benchmark.data.shots import LAYOUTS, PAGE_BYTES, PATTERN, ShotsFile
from _multitables.benchmark.data.structures import ManyDatasets
from _multitables.benchmark.data.workloads import PATH, Workload
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import remote_clock, stream_loop
from _multitables.benchmark.objects.store import Store
from _multitables.benchmark.studies.frame import Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting, case

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
#: Columns of the results, and their heads.
MORE = {"requests": "requests", "n_bytes": "bytes"}

_ROWS: dict[str, Any] = {"values": "numbered", "least_rows": 16 * BATCH_ROWS, "step": BATCH_ROWS}
DATASETS = {
    "zstd": Dataset("blosc:zstd 5", {"complib": "blosc:zstd", "complevel": 5}, **_ROWS),
    "zlib": Dataset("zlib 3", ZLIB, **_ROWS),
}


@dataclass
class Remote:
    """The store of a run, and the interpreter with the ROS3 driver."""

    store: Store
    ros3_python: str
    _put: dict[str, str] = field(default_factory=dict)

    def place(self, setting: Setting, filename: str, key: str) -> Place:
        """A file as an object."""
        if key not in self._put:
            try:
                self._put[key] = self.store.put(filename, key)
            except ImportError as error:
                raise NotMeasuredError(f"{error}: pip install multitables[remote]") from error
        return Place(self.store, self._put[key], setting.processes[0], self.ros3_python)

    def part(self, part: Callable[[Setting, Remote], Iterator[Case]]) -> Part:
        """A part that reads these objects."""
        return lambda setting: part(setting, self)


def workload(name: str, size_bytes: float, chunk_rows: int) -> Workload:
    """The file of a dataset."""
    found = DATASETS[name].workload(f"remote_{name}_{chunk_rows}", size_bytes)
    return replace(found, chunk_rows=chunk_rows)


def whole(setting: Setting, remote: Remote) -> Iterator[Case]:
    """Whole datasets, and the download of their objects."""
    for name in setting.datasets:
        yield case("whole", DATASETS[name].title, _whole, setting, remote, name)


def _whole(setting: Setting, remote: Remote, name: str) -> Prepared:
    made = workload(name, setting.size_bytes, chunk_rows=512)
    filename = setting.source(made).filename
    place = remote.place(setting, filename, f"{made.name}.h5")
    figure = people.rate(made.decoded_bytes)
    loaded = people.download_rate(made.decoded_bytes, os.path.getsize(filename))
    mine = functools.partial(people.ours, place, task="whole", path=PATH)
    loads = [
        mine(label, "download", figure=loaded, in_ranges=in_ranges)
        for label, in_ranges in ((people.DOWNLOAD, False), (people.RANGES, True))
    ]
    everybody: list[Contender] = [
        mine(QUEUE, "queue", figure=figure),
        mine(KEPT, "kept queue", figure=figure),
        *people.theirs(place, "whole", figure, path=PATH),
        # it delivers bytes and no rows; they are counted when it is timed
        *(Measurement(one.name, one.measure) for one in loads),
    ]
    right = _rows(random_keys.oracle(made), np.arange(made.rows))
    wanted = [
        Wanted(label, (side,), least)
        for label in (QUEUE, KEPT)
        for side, least in (("h5py", MIN_WHOLE), ("obstore", MIN_OF_DOWNLOAD))
    ]
    return Prepared(everybody, right, wanted=wanted)


def batches(setting: Setting, remote: Remote) -> Iterator[Case]:
    """Batches of 256 rows that lie anywhere."""
    n = setting.sizes["batches"]
    for name in setting.datasets:
        title = f"{DATASETS[name].title}, {n} batches of {BATCH_ROWS} random rows"
        yield case("batches", title, _batches, setting, remote, name, unit="batches/s")


def _batches(setting: Setting, remote: Remote, name: str) -> Prepared:
    made = workload(name, BATCHES_OF * setting.size_bytes, chunk_rows=64)
    place = remote.place(setting, setting.source(made).filename, f"{made.name}.h5")
    oracle = random_keys.oracle(made)
    draw = random_keys.coordinates(made.rows, setting.sizes["batches"], seed=1)
    asked: dict[str, Any] = {"path": PATH, "batches": draw.batches}
    figure, shuffled = people.batch_rate(draw, oracle), people.epoch_rate(made.rows, oracle)
    epoch: dict[str, Any] = {"path": PATH, "batch_rows": BATCH_ROWS, "in_order": False}
    reader, epochs = f"{OURS} Reader", f"{OURS} get_batches, an epoch"
    everybody: list[Contender] = [
        _compared(
            people.ours(place, epochs, "batches", "batches", shuffled, **epoch),
            _rows(oracle, np.arange(made.rows)),
        ),
        people.ours(place, reader, "reader", "batches", figure, **asked),
        *people.theirs(place, "batches", figure, **asked),
    ]
    wanted = [Wanted(one, ("h5py",), MIN_BATCHES) for one in (reader, epochs)]
    return Prepared(everybody, _rows(oracle, draw.rows()), wanted=wanted)


def opening(setting: Setting, remote: Remote) -> Iterator[Case]:
    """All datasets of a file: shape, type, and where their chunks are."""
    n, every = setting.sizes["datasets"], (1, setting.sizes["times"])
    for version in FORMATS[-1:] if setting.smoke else FORMATS:
        for times in every[-1:] if setting.smoke else every:
            made = ManyDatasets(f"remote_many_{version}_{n}_{times}", n, version, times)
            size = f" {times} times as large" if times > 1 else ""
            title = f"{n} datasets{size}, format {version}, all known"
            # one round of a large file, since HDF5's own driver takes minutes to list it
            rounds = 1 if times > 1 else None
            yield case("opening", title, _opening, setting, remote, made, unit="s", rounds=rounds)


def _opening(setting: Setting, remote: Remote, made: ManyDatasets) -> Prepared:
    filename = setting.prepared(made, structures.in_directory)
    plain = remote.place(setting, filename, f"{made.name}.h5")
    indexed = remote.place(setting, filename, f"{made.name}_indexed.h5")
    figure, pattern = people.seconds(made.n_datasets), "/shots/*/*"
    ours = functools.partial(
        people.ours, task="structure", figure=figure, in_order=False, pattern=pattern
    )
    alone = replace(plain, n_procs=1)
    everybody = [
        ours(plain, COLLECTION, "structure", saved_index=False),
        ours(indexed, INDEXED, "structure", saved_index=True),
        ours(plain, HANDLE, "handle"),
        *people.theirs(alone, "structure", figure, False, with_chunks=False),
    ]
    wanted = [
        Wanted(INDEXED, most=2, column="requests"),
        Wanted(COLLECTION, ("h5py",), MIN_OPENING),
    ]
    if made.times > 1:  # of a large file the requests beside HDF5's own driver, too
        wanted += [
            Wanted(label, (people.ROS3,), 1 / MAX_REQUESTS, column="requests")
            for label in (COLLECTION, HANDLE)
        ]
    return Prepared(everybody, against(lambda: _structure(filename)), wanted=wanted)


def shot_files(setting: Setting, remote: Remote) -> Iterator[Case]:
    """Shots of many signals, by shot and by signal, of both layouts."""
    title = f"{setting.sizes['shots']} shots of {setting.sizes['signals']} signals"
    yield case("shots", title, _shots, setting, remote, unit="s")


def _shots(setting: Setting, remote: Remote) -> Prepared:
    n_shots, n_signals = setting.sizes["shots"], setting.sizes["signals"]
    pages = max(2, round(BUFFER_PAGES * n_shots / STUDY_SHOTS))
    file = {"page_buf_size": pages * PAGE_BYTES, "rdcc_nbytes": 8 << 20}
    everybody: list[Measurement] = []
    wanted: list[Wanted] = []
    for layout in LAYOUTS[-1:] if setting.smoke else LAYOUTS:
        made = ShotsFile(f"remote_{layout}_{n_shots}_{n_signals}", n_shots, n_signals, layout)
        filename = setting.prepared(made, shots.in_directory)
        place = remote.place(setting, filename, f"{made.name}.h5")
        for by, what in enumerate(LAYOUTS):
            way, found = f", layout {layout}/{layout}s, by {what}", items_of(filename, by)
            right, figure = _constant(found.digest), people.seconds(found.counts)
            asked: dict[str, Any] = {"pattern": PATTERN, "by": by}
            mine = people.ours(place, COLLECTION, "items", "items", figure, False, **asked)
            theirs = people.theirs(place, "items", figure, False, file, items=found.groups)[1:]
            everybody += [_compared(one, right, way) for one in (mine, *theirs)]
            rivals = tuple(one + way for one in (people.TUNED, people.ROS3))
            wanted += [
                Wanted(COLLECTION + way, rivals, MIN_PUBLISHED),
                Wanted(COLLECTION + way, (COLLECTION,), 1 / MAX_OF_BEST),  # the best of all ways
            ]
    return Prepared(everybody, wanted=wanted)


# ---- what is right


def _compared(one: Counted, right: Differs, way: str = "") -> Measurement:
    """One that delivers other rows than those beside it, which only `right` knows."""

    def check() -> None:
        digest = one.check()
        fault = right(digest) if digest is not None else "it has no digest"
        if fault:
            raise WrongDataError(fault)

    return Measurement(one.name + way, one.measure, check)


def _rows(oracle: random_keys.Oracle, rows: Any) -> Differs:
    return against(lambda: oracle.rows(rows))


def _constant(digest: Digest) -> Differs:
    return against(lambda: digest)


def _structure(filename: str) -> dict[str, Any]:
    """The digest of path, shape and type of every dataset, as h5py reads them from the file."""
    import h5py

    found: list[Any] = []

    def visit(name: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset):
            found.append(remote_clock.hashed(f"/{name}", one.shape, one.dtype.str))

    with h5py.File(filename) as file:
        file.visititems(visit)
    return stream_loop.summed_up(np.array(found, np.uint64))


PARTS: Mapping[str, Callable[[Setting, Remote], Iterator[Case]]] = {
    "whole": whole,
    "batches": batches,
    "opening": opening,
    "shots": shot_files,
}
