"""What is compared of each kind of file, and what is wanted.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in the constants below.
2. It measures only through `TargetRun`, which checks the rows and takes the turns. What h5py reads
   is right; of a version, what it reads of the plain file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from _benchmark.contenders.asked import Asked
from _benchmark.contenders.file_contenders import OURS, ours, theirs
from _benchmark.contenders.file_contenders import sparse as contenders_of_sparse
from _benchmark.contract import Digest
from _benchmark.data import special_files
from _benchmark.data.special_files import (
    LATEST,
    SHAPES,
    RaggedFile,
    SparseFile,
    VersionedCopy,
    VirtualCopy,
)
from _benchmark.data.workloads import PATH, Workload
from _benchmark.harness.runner import against
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import ratio_target

COLUMNS = 256
N_SOURCES = 8
PLAIN = f"{OURS}, stored plainly"
ORACLE = "h5py"
MIN_OF_PLAIN = 0.8
MIN_OF_H5PY = 5.0
MIN_OF_UNVERSIONED = 0.9
MIN_RAGGED = 0.8
BATCH_ROWS = 256
#: As others take a hundred times as long, their file is smaller.
OF_SPARSE = 64
RAGGED_ROW_BYTES = 4 * special_files.MEAN_LENGTH


@dataclass(frozen=True)
class Dataset:
    """Rows of 256 float32 in chunks of 256 rows, with a filter."""

    title: str
    filters: dict[str, Any]

    def workload(self, name: str, size_bytes: float) -> Workload:
        """The plain file."""
        rows = max(2048, int(size_bytes) // (4 * COLUMNS))
        kind = ("float32", "waves")
        return Workload(f"files_{name}", rows, COLUMNS, *kind, **self.filters, chunk_rows=256)


DATASETS = {
    "none": Dataset("no filter", {}),
    "lz4": Dataset("blosc:lz4 5", {"complib": "blosc:lz4", "complevel": 5}),
    "zlib": Dataset("zlib 3", {"complib": "zlib", "complevel": 3}),
}


def virtual(run: TargetRun) -> None:
    """Virtual datasets of several files, whose rows fit the chunks or do not."""
    for name, shape in ((name, shape) for name in run.datasets for shape in SHAPES):
        title, workload, plain = _plain(run, name)
        copy = VirtualCopy(
            f"{workload.name}_{workload.rows}_{shape.replace(' ', '_')}",
            workload,
            plain,
            shape,
            N_SOURCES,
        )
        made, n = run.prepared(copy, special_files.in_directory), run.processes[0]
        everybody = [
            ours(", virtual", made, PATH, n),
            ours(", stored plainly", plain, PATH, n),
            theirs("h5py", ORACLE, made, [PATH]),
        ]
        # Tiles leave a column out, so the plain file is another: it is only timed.
        right = everybody[2] if shape == "tiles" else None
        title = f"{title}, {N_SOURCES} files, {shape}"
        rates = _rates(run, "virtual", title, everybody, made, plain, right=right)
        if rates:
            _judge(run, title, rates, everybody[0], PLAIN, MIN_OF_PLAIN)
            if name != "none":
                _judge(run, title, rates, everybody[0], ORACLE, MIN_OF_H5PY)


def versions(run: TargetRun) -> None:
    """The latest of several versions, and all of them, each shared chunk decoded once."""
    for name in run.datasets:
        title, workload, plain = _plain(run, name)
        for count in sorted({1, run.sizes["versions"]}):
            copy = VersionedCopy(
                f"{workload.name}_{workload.rows}_{count}_versions", workload, plain, count
            )
            made, n = run.prepared(copy, special_files.in_directory), run.processes[0]
            everybody = [
                ours(", latest version", made, PATH, n, version=-1),
                ours(", stored plainly", plain, PATH, n),
                theirs("h5py", ORACLE, made, [f"{LATEST}/r{count - 1}{PATH}"]),
            ]
            what = f"{title}, the latest of {count} version{'s' * (count > 1)}"
            rates = _rates(run, "versions", what, everybody, made, plain)
            _judge(run, what, rates, everybody[0], PLAIN, MIN_OF_UNVERSIONED)
        some = [f"r{count - 1 - number}" for number in range(min(count, 5))]
        paths = [f"{LATEST}/{one}{PATH}" for one in some]
        everybody = [
            ours(", together", made, PATH, n, version=some),
            theirs("h5py", ORACLE, made, paths),
        ]
        what = f"{title}, {len(some)} versions"
        _rates(run, "versions", what, [_any_order(one) for one in everybody], made)


def ragged(run: TargetRun) -> None:
    """Rows of any length, in order and shuffled, beside their values as one flat dataset."""
    n_rows, n = max(2000, int(run.size_bytes) // RAGGED_ROW_BYTES // 4), run.processes[0]
    for level in (0, 4):
        made = RaggedFile(f"files_ragged_{level}_{n_rows}", n_rows, level)
        filename = run.prepared(made, special_files.in_directory)
        title = f"gzip {level}" if level else "no filter"
        pair = {"values": "/values", "offsets": "/offsets"}
        flat = ours(", flat values", filename, "/values", n)
        shuffled: dict[str, Any] = {"shuffle": "window", "batch_size": BATCH_ROWS}
        numbers = [
            flat,
            ours(", pairs", filename, pair, n),
            _any_order(ours(", pairs, shuffled", filename, pair, n, **shuffled)),
            ours(", sequences", filename, "/sequences", n),
            ours(", VLArray", filename, "/vlarray", n),
            theirs("h5py", ORACLE, filename, ["/sequences"]),
            theirs("tables", "PyTables", filename, ["/vlarray"]),
        ]
        rates = _rates(run, "ragged", f"{title}, {n_rows} rows of numbers", numbers, filename)
        _judge(run, f"{title}, rows of numbers", rates, numbers[1], flat.name, MIN_RAGGED)
        texts = [
            ours(", texts", filename, "/texts", n),
            theirs("h5py", ORACLE, filename, ["/texts"]),
        ]
        _rates(run, "ragged", f"{title}, {n_rows} texts", texts, filename)


def sparse(run: TargetRun) -> None:
    """Batches of a sparse matrix as AnnData stores it, beside those who train on these."""
    n_rows = max(2000, int(run.size_bytes) // RAGGED_ROW_BYTES // OF_SPARSE)
    for level in (0, 4):
        made = SparseFile(f"files_sparse_{level}_{n_rows}", n_rows, level)
        filename = run.prepared(made, special_files.in_directory)
        title = f"{f'gzip {level}' if level else 'no filter'}, {n_rows} sparse rows"
        _rates(run, "sparse", title, contenders_of_sparse(filename, run.processes[0]), filename)


def selected(run: TargetRun) -> None:
    """Rows with a step, and some of the columns."""
    for name in run.datasets:
        title, workload, plain = _plain(run, name)
        n = run.processes[0]
        cuts: dict[str, dict[str, Any]] = {
            "every fourth row": {"rows": (0, workload.rows, 4)},
            "the middle half of the rows": {"rows": (workload.rows // 4, 3 * workload.rows // 4)},
            "32 of the columns": {"inner": [(64, 96)]},
        }
        for what, options in cuts.items():
            everybody = [
                ours(", selected", plain, PATH, n, **options),
                theirs("h5py", ORACLE, plain, [PATH], options),
            ]
            _rates(run, "selected", f"{title}, {what}", everybody, plain)


# ---- what the parts share


def _plain(run: TargetRun, name: str) -> tuple[str, Workload, str]:
    """The title of a dataset, its workload, and the plain file."""
    workload = DATASETS[name].workload(name, run.size_bytes)
    return DATASETS[name].title, workload, run.source(workload).filename


def _any_order(one: Asked) -> Asked:
    return Asked(**{**vars(one), "in_order": False})


def _rates(
    run: TargetRun,
    part: str,
    title: str,
    everybody: Sequence[Asked],
    *files: str,
    right: Asked | None = None,
) -> dict[str, list[float]]:
    """Check, measure, and add the table; the oracle is h5py, or else what is named."""
    (oracle,) = [one for one in everybody if one.name == ORACLE]

    @functools.cache
    def wanted() -> Digest:
        found = (right or oracle).ask("check")
        assert isinstance(found, dict)
        return found

    differs = against(wanted)
    checked: list[Any] = list(everybody)
    if right is not None:  # the plain file holds what the others do not show
        checked = [one if one.name != PLAIN else _Unchecked(one) for one in everybody]
    rates = run.rates(part, title, checked, differs, *files)
    names = [one.name for one in everybody]
    run.table(f"{title}, page cache warm; MB/s", names, rates, names[0], ".4g")
    return rates


class _Unchecked:
    """A contender that reads other rows than the rest, and is checked where it reads the same."""

    needs: Sequence[str] = ()

    def __init__(self, one: Asked) -> None:
        self.name, self.measure = one.name, one.measure

    def check(self) -> Digest | None:
        """Nothing: see the class."""
        return None


def _judge(
    run: TargetRun,
    title: str,
    rates: dict[str, list[float]],
    one: Asked,
    rival: str,
    least: float,
) -> None:
    figures = rates.get(one.name), rates.get(rival)
    reason = run.reasons.get(one.name, "") or run.reasons.get(rival, "")
    run.judge(ratio_target(f"{title}: {one.name} / {rival}", *figures, least, reason))


PARTS: dict[str, Callable[[TargetRun], None]] = {
    "virtual": virtual,
    "versions": versions,
    "ragged": ragged,
    "sparse": sparse,
    "selected": selected,
}
