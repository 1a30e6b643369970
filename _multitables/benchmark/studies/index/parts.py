"""The structure of files: all datasets, all chunks, small datasets, and the start.

Law
---
1. One function a part, in `PARTS`, that yields its cases; wanted figures stand in the constants.
2. It measures nothing: the frame checks what each reports and takes the turns.
3. A part has datasets of its own in `DATASETS`; those that a run leaves out are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from _multitables.benchmark.contenders import index_contenders, startup
from _multitables.benchmark.contenders.index_contenders import ORACLE
from _multitables.benchmark.contract import Contender, Measurement, Sample, Source
from _multitables.benchmark.data import structures
from _multitables.benchmark.data.structures import ManyChunks, ManyDatasets
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.studies.frame import LABEL, Case, Prepared, Wanted
from _multitables.benchmark.studies.index import handle
from _multitables.benchmark.studies.setting import Part, Setting

MIN_DISCOVERY = 8.0
MIN_CHUNKS = 3.0
MAX_CHUNKS_SECONDS = 0.3  # of 10^6 chunks
MAX_SMALL_MILLISECONDS = 0.3
MIN_SMALL_STREAM = 1.0
MIN_OF_BEFORE = 0.95  # of an unchanged start, that much is noise
MANY_ROUNDS = 3  # at most, where h5py takes a minute

#: name -> the title of a structure.
MANY = {
    "earliest": "small datasets, format of h5py's default",
    "v110": "small datasets, format of HDF5 1.10",
}
CHUNKS = {
    "btree-v1": "v1 B-tree",
    "fixed-array": "fixed array",
    "extensible-array": "extensible array",
    "btree-v2": "v2 B-tree",
}
DATASETS = (*MANY, *CHUNKS, *handle.DATASETS)

STARTS: dict[str, dict[str, Any]] = {
    "import": {"verb": "import"},
    "import to first block": {"verb": "first_block", "imported": False},
    "Streamer to first block": {"verb": "first_block", "imported": True},
}


def _ours(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(LABEL)]


def _case(
    setting: Setting,
    key: Mapping[str, str],
    unit: str,
    made: Any,
    everybody: Callable[[str], Sequence[Contender]],
    wanted: Sequence[Wanted],
) -> Case:
    """Those who read the file of a structure; what h5py delivers is right."""

    def prepare(_stack: ExitStack) -> Prepared:
        filename = setting.prepared(made, structures.in_directory)
        found = everybody(filename)
        return Prepared(found, index_contenders.oracle_of(found), [filename], wanted=wanted)

    return Case(key, prepare, unit, rounds=min(setting.rounds, MANY_ROUNDS))


def _many_datasets(setting: Setting) -> Iterator[tuple[str, ManyDatasets]]:
    n = setting.sizes["datasets"]
    for version in filter(MANY.__contains__, setting.datasets):
        yield MANY[version], ManyDatasets(f"index_many_{version}_{n}", n, version)


def discovery(setting: Setting) -> Iterator[Case]:
    """All datasets: names, shapes, types and attributes, without and with the chunks of each."""
    wanted = [Wanted(one, (ORACLE,), MIN_DISCOVERY) for one in _ours(index_contenders.TELLERS)]
    for title, made in _many_datasets(setting):
        telling = partial(index_contenders.telling, task="objects", n=made.n_datasets)
        for with_chunks in (False, True):
            dataset = f"{made.n_datasets} {title}" + ", all chunks" * with_chunks
            key = {"part": "discovery", "dataset": dataset}
            everybody = partial(telling, with_chunks=with_chunks)
            yield _case(setting, key, "datasets/s", made, everybody, wanted)


def chunks(setting: Setting) -> Iterator[Case]:
    """All chunks of one dataset."""
    size = setting.sizes["chunks"]
    note = f"{MAX_CHUNKS_SECONDS:g} s for 10^6"
    wanted = [
        Wanted(LABEL, (ORACLE,), MIN_CHUNKS),
        Wanted(LABEL, least=1e6 / MAX_CHUNKS_SECONDS, note=note),
    ]
    for index in filter(CHUNKS.__contains__, setting.datasets):
        made = ManyChunks(f"index_chunks_{index}_{size}", size, index)
        n, shape = made.side**2, (4 * made.side,) * 2
        key = {"part": "chunks", "dataset": f"{n} chunks, {CHUNKS[index]}"}
        place: dict[str, Any] = {"path": structures.PATH, "shape": shape}
        everybody = partial(index_contenders.telling, task="chunks", n=n, **place)
        yield _case(setting, key, "chunks/s", made, everybody, wanted)


def small(setting: Setting) -> Iterator[Case]:
    """Small datasets, opened, indexed and read whole, one after the other, of one open file."""
    least, note = 1000 / MAX_SMALL_MILLISECONDS, f"{MAX_SMALL_MILLISECONDS:g} ms for each"
    ours = _ours(index_contenders.READERS)
    wanted = [Wanted(one, least=least, note=note) for one in ours]
    wanted.append(Wanted(f"{LABEL} Streamer", (ORACLE,), MIN_SMALL_STREAM))
    for title, made in _many_datasets(setting):
        step = made.n_datasets // setting.sizes["read"] | 1  # odd, so that all kinds are read
        paths = made.paths()[::step]
        key = {"part": "small", "dataset": f"{len(paths)} of the {title}, opened and read"}
        everybody = partial(index_contenders.reading_small, paths=paths)
        yield _case(setting, key, "datasets/s", made, everybody, wanted)


def start(setting: Setting, before: str | None = None) -> Iterator[Case]:
    """The import, and from it and from ``Streamer(...)`` to the first block."""
    pythons = {LABEL: None} | ({"before": before} if before else {})
    note = "" if before else "name an interpreter with --before"
    wanted = [Wanted(LABEL, ("before",), MIN_OF_BEFORE, note=note)]
    for case, request in STARTS.items():

        def prepare(_stack: ExitStack, request: dict[str, Any] = request) -> Prepared:
            source = setting.source(Workload("index_start", 8192, columns=128, complevel=5))
            everybody = [
                Measurement(name, partial(_milliseconds, source, request, python))
                for name, python in pythons.items()
            ]
            return Prepared(everybody, files=[source.filename], wanted=wanted)

        rounds = max(setting.rounds, 5) if setting.rounds > 1 else 1
        yield Case({"part": "start", "dataset": case}, prepare, "ms", rounds=rounds)


def _milliseconds(source: Source, request: dict[str, Any], python: str | None) -> Sample:
    place = {"filename": source.filename, "path": source.path, "n_procs": None}
    found = startup.probe({**place, **request}, python)
    if "digest" in found:
        startup.check_rows(source, found["digest"])
    return Sample(1000 * float(found["seconds"]))


PARTS: dict[str, Part] = {
    "discovery": discovery,
    "chunks": chunks,
    "small": small,
    "start": start,
    "handle": handle.handle_part,
}
