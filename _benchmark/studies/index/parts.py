"""The structure of files: all datasets, all chunks, small datasets, and the start.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in the constants below.
2. It measures only through `TargetRun`, which checks what was told and takes the turns.
3. A part has datasets of its own in `DATASETS`; those that a run leaves out are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from _benchmark.contenders import index_contenders, startup
from _benchmark.contenders.index_contenders import ORACLE
from _benchmark.contract import Contender, Measurement, Sample
from _benchmark.data import structures
from _benchmark.data.structures import ManyChunks, ManyDatasets
from _benchmark.data.workloads import Workload
from _benchmark.studies.index import handle
from _benchmark.studies.index.handle import handle_part
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import LABEL, best, limit_target, ratio_target

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


def many_datasets(run: TargetRun, version: str, name: str = "many") -> tuple[ManyDatasets, str]:
    """A file of small datasets, written if need be."""
    n = run.sizes["datasets"]
    structure = ManyDatasets(f"index_{name}_{version}_{n}", n, version)
    return structure, run.prepared(structure, structures.in_directory)


def discovery(run: TargetRun) -> None:
    """All datasets: names, shapes, types and attributes, without and with the chunks of each."""
    for version in filter(MANY.__contains__, run.datasets):
        structure, filename = many_datasets(run, version)
        for with_chunks in (False, True):
            title = f"{structure.n_datasets} {MANY[version]}" + ", all chunks" * with_chunks
            tell = partial(index_contenders.telling, filename, "objects", structure.n_datasets)
            everybody = tell(with_chunks=with_chunks)
            rates = _rates(run, "discovery", title, everybody, filename, "datasets/s")
            for name in (one.name for one in everybody if one.name.startswith(LABEL)):
                figures, note = (rates.get(name), rates.get(ORACLE)), run.reasons.get(name, "")
                run.judge(ratio_target(f"{title}: {name} / h5py", *figures, MIN_DISCOVERY, note))


def chunks(run: TargetRun) -> None:
    """All chunks of one dataset."""
    for index in filter(CHUNKS.__contains__, run.datasets):
        n = run.sizes["chunks"]
        structure = ManyChunks(f"index_chunks_{index}_{n}", n, index)
        filename = run.prepared(structure, structures.in_directory)
        n, shape = structure.side**2, (4 * structure.side,) * 2
        everybody = index_contenders.telling(
            filename, "chunks", n, path=structures.PATH, shape=shape
        )
        title = f"{n} chunks, {CHUNKS[index]}"
        rates = _rates(run, "chunks", title, everybody, filename, "chunks/s")
        ours = best(rates, LABEL) or f"{LABEL} core"
        values, reason = rates.get(ours), run.reasons.get(ours, "")
        what = f"{title}: {ours} / h5py chunk_iter"
        run.judge(ratio_target(what, values, rates.get(ORACLE), MIN_CHUNKS, reason))
        seconds = values and [1e6 / one for one in values]
        what = f"{title}: {ours}, for 10^6"
        run.judge(limit_target(what, seconds, MAX_CHUNKS_SECONDS, "s", reason))


def small(run: TargetRun) -> None:
    """Small datasets, opened, indexed and read whole, one after the other, of one open file."""
    for version in filter(MANY.__contains__, run.datasets):
        structure, filename = many_datasets(run, version)
        step = structure.n_datasets // run.sizes["read"] | 1  # odd, so that all kinds are read
        paths = structure.paths()[::step]
        title = f"{len(paths)} of the {MANY[version]}, opened and read"
        everybody = index_contenders.reading_small(filename, paths)
        rates = _rates(run, "small", title, everybody, filename, "datasets/s")
        for name in (one.name for one in everybody if one.name.startswith(LABEL)):
            values, reason = rates.get(name), run.reasons.get(name, "")
            milliseconds = values and [1000 / one for one in values]
            what = f"{title}: {name}, for each"
            run.judge(limit_target(what, milliseconds, MAX_SMALL_MILLISECONDS, "ms", reason))
        streamer = f"{LABEL} Streamer"
        figures = rates.get(streamer), rates.get(ORACLE)
        what = f"{title}: {streamer} / h5py loop"
        run.judge(ratio_target(what, *figures, MIN_SMALL_STREAM, run.reasons.get(streamer, "")))


def start(run: TargetRun, before: str | None = None) -> None:
    """The import, and from it and from ``Streamer(...)`` to the first block."""
    source = run.source(Workload("index_start", 8192, columns=128, complevel=5))
    asked = {"filename": source.filename, "path": source.path, "n_procs": None}
    cases: dict[str, dict[str, Any]] = {
        "import": {"verb": "import"},
        "import to first block": {"verb": "first_block", "imported": False},
        "Streamer to first block": {"verb": "first_block", "imported": True},
    }

    def milliseconds(case: str, python: str | None) -> Sample:
        found = startup.probe({**asked, **cases[case]}, python)
        if "digest" in found:
            startup.check_rows(source, found["digest"])
        return Sample(1000 * float(found["seconds"]))

    for case in cases:
        everybody: list[Contender] = [Measurement(LABEL, partial(milliseconds, case, None))]
        if before is not None:
            everybody.append(Measurement("before", partial(milliseconds, case, before)))
        rounds = max(run.rounds, 5) if run.rounds > 1 else 1
        times = run.rates(
            "start", case, everybody, lambda _: "", source.filename, unit="ms", rounds=rounds
        )
        names = [one.name for one in everybody]
        run.table(f"{case}, ms", names, times, LABEL, ".1f", "ms")
        note = run.reasons.get("before", "" if before else "name an interpreter with --before")
        what = f"{case}: before / {LABEL}"
        run.judge(ratio_target(what, times.get("before"), times.get(LABEL), MIN_OF_BEFORE, note))


def _rates(
    run: TargetRun,
    part: str,
    title: str,
    everybody: Sequence[Contender],
    filename: str,
    unit: str,
) -> dict[str, list[float]]:
    """Check, measure, and add the table."""
    differs = index_contenders.oracle_of(everybody)
    rounds = min(run.rounds, MANY_ROUNDS)
    rates = run.rates(part, title, everybody, differs, filename, unit=unit, rounds=rounds)
    ours = best(rates, LABEL)
    names = [one.name for one in everybody]
    run.table(f"{title}, page cache warm; {unit}", names, rates, ours, ".4g", unit)
    return rates


PARTS: dict[str, Callable[[TargetRun], None]] = {
    "discovery": discovery,
    "chunks": chunks,
    "small": small,
    "start": start,
    "handle": handle_part,
}
