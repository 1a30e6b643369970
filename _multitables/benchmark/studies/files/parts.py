"""What is compared of each kind of file, and what is wanted.

Law
---
1. One function a part, in `PARTS`, that yields its cases; wanted figures stand in the constants.
2. It measures nothing: the frame checks the rows and takes the turns. What h5py reads is right; of
   a version, what it reads of the plain file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from _multitables.benchmark.contenders.file_contenders import OURS, ours, theirs
from _multitables.benchmark.contenders.file_contenders import sparse as contenders_of_sparse
from _multitables.benchmark.contract import Measurement
from _multitables.benchmark.data import special_files
from _multitables.benchmark.data.datasets import of_each_filter
from _multitables.benchmark.data.special_files import (
    LATEST,
    SHAPES,
    RaggedFile,
    SparseFile,
    VersionedCopy,
    VirtualCopy,
)
from _multitables.benchmark.data.workloads import PATH, Workload
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.studies.frame import Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting, case

N_SOURCES = 8
PLAIN = f"{OURS}, stored plainly"
ORACLE = "h5py"
MIN_OF_PLAIN = 0.8
MIN_OF_H5PY = 5.0
MIN_OF_UNVERSIONED = 0.9
MIN_RAGGED = 0.8
BATCH_ROWS = 256
TOGETHER = 5
#: As others take a hundred times as long, their file is smaller.
OF_SPARSE = 64
RAGGED_ROW_BYTES = 4 * special_files.MEAN_LENGTH
#: Levels of gzip.
LEVELS = {0: "no filter", 4: "gzip 4"}

DATASETS = of_each_filter(chunk_rows=256, least_rows=2048)


def _plain(setting: Setting, name: str) -> tuple[Workload, str]:
    """The workload of a dataset, and the plain file."""
    workload = DATASETS[name].workload(f"files_{name}", setting.size_bytes)
    return workload, setting.source(workload).filename


def virtual(setting: Setting) -> Iterator[Case]:
    """Virtual datasets of several files, whose rows fit the chunks or do not."""
    for name, shape in ((name, shape) for name in setting.datasets for shape in SHAPES):
        title = f"{DATASETS[name].title}, {N_SOURCES} files, {shape}"
        yield case("virtual", title, _virtual, setting, name, shape)


def _virtual(setting: Setting, name: str, shape: str) -> Prepared:
    workload, plain = _plain(setting, name)
    stem = f"{workload.name}_{workload.rows}_{shape.replace(' ', '_')}"
    copy = VirtualCopy(stem, workload, plain, shape, N_SOURCES)
    made, n = setting.prepared(copy, special_files.in_directory), setting.processes[0]
    shown, stored = ours(", virtual", made, PATH, n), ours(", stored plainly", plain, PATH, n)
    # tiles leave a column out, so the plain file is another: it is only timed
    plainly = Measurement(PLAIN, stored.measure) if shape == "tiles" else stored
    h5py = theirs("h5py", ORACLE, made, [PATH])
    wanted = [Wanted(shown.name, (PLAIN,), MIN_OF_PLAIN)]
    wanted += [Wanted(shown.name, (ORACLE,), MIN_OF_H5PY)] if name != "none" else []
    return Prepared([shown, plainly, h5py], against(h5py.check), [made, plain], wanted=wanted)


def versions(setting: Setting) -> Iterator[Case]:
    """The latest of several versions, and several, each shared chunk decoded once."""
    most = setting.sizes["versions"]
    for name in setting.datasets:
        title = DATASETS[name].title
        for count in sorted({1, most}):
            what = f"{title}, the latest of {count} version{'s' * (count > 1)}"
            yield case("versions", what, _latest, setting, name, count)
        what = f"{title}, {min(most, TOGETHER)} versions"
        yield case("versions", what, _together, setting, name, most)


def _versioned(setting: Setting, name: str, count: int) -> tuple[str, str]:
    """The plain file, and the one of versions."""
    workload, plain = _plain(setting, name)
    stem = f"{workload.name}_{workload.rows}_{count}_versions"
    copy = VersionedCopy(stem, workload, plain, count)
    return plain, setting.prepared(copy, special_files.in_directory)


def _latest(setting: Setting, name: str, count: int) -> Prepared:
    (plain, made), n = _versioned(setting, name, count), setting.processes[0]
    latest = ours(", latest version", made, PATH, n, version=-1)
    stored = ours(", stored plainly", plain, PATH, n)
    h5py = theirs("h5py", ORACLE, made, [f"{LATEST}/r{count - 1}{PATH}"])
    wanted = [Wanted(latest.name, (PLAIN,), MIN_OF_UNVERSIONED)]
    return Prepared([latest, stored, h5py], against(h5py.check), [made, plain], wanted=wanted)


def _together(setting: Setting, name: str, count: int) -> Prepared:
    _, made = _versioned(setting, name, count)
    some = [f"r{count - 1 - number}" for number in range(min(count, TOGETHER))]
    mine = ours(", together", made, PATH, setting.processes[0], version=some)
    h5py = theirs("h5py", ORACLE, made, [f"{LATEST}/{one}{PATH}" for one in some])
    everybody = [dataclasses.replace(one, in_order=False) for one in (mine, h5py)]
    return Prepared(everybody, against(h5py.check), [made])


def ragged(setting: Setting) -> Iterator[Case]:
    """Rows of any length, in order and shuffled, beside their values as one flat dataset."""
    n_rows = max(2000, int(setting.size_bytes) // RAGGED_ROW_BYTES // 4)
    for level, title in LEVELS.items():
        made = RaggedFile(f"files_ragged_{level}_{n_rows}", n_rows, level)
        yield case("ragged", f"{title}, {n_rows} rows of numbers", _numbers, setting, made)
        yield case("ragged", f"{title}, {n_rows} texts", _texts, setting, made)


def _numbers(setting: Setting, made: RaggedFile) -> Prepared:
    filename, n = setting.prepared(made, special_files.in_directory), setting.processes[0]
    pair = {"values": "/values", "offsets": "/offsets"}
    flat, pairs = ours(", flat values", filename, "/values", n), ours(", pairs", filename, pair, n)
    shuffled: dict[str, Any] = {"shuffle": "window", "batch_size": BATCH_ROWS}
    h5py = theirs("h5py", ORACLE, filename, ["/sequences"])
    everybody = [
        flat,
        pairs,
        ours(", pairs, shuffled", filename, pair, n, **shuffled),
        ours(", sequences", filename, "/sequences", n),
        ours(", VLArray", filename, "/vlarray", n),
        h5py,
        theirs("tables", "PyTables", filename, ["/vlarray"]),
    ]
    wanted = [Wanted(pairs.name, (flat.name,), MIN_RAGGED)]
    return Prepared(everybody, against(h5py.check), [filename], wanted=wanted)


def _texts(setting: Setting, made: RaggedFile) -> Prepared:
    filename = setting.prepared(made, special_files.in_directory)
    mine = ours(", texts", filename, "/texts", setting.processes[0])
    h5py = theirs("h5py", ORACLE, filename, ["/texts"])
    return Prepared([mine, h5py], against(h5py.check), [filename])


def sparse(setting: Setting) -> Iterator[Case]:
    """Batches of a sparse matrix as AnnData stores it, beside those who train on these."""
    n_rows = max(2000, int(setting.size_bytes) // RAGGED_ROW_BYTES // OF_SPARSE)
    for level, title in LEVELS.items():
        made = SparseFile(f"files_sparse_{level}_{n_rows}", n_rows, level)
        yield case("sparse", f"{title}, {n_rows} sparse rows", _sparse, setting, made)


def _sparse(setting: Setting, made: SparseFile) -> Prepared:
    filename = setting.prepared(made, special_files.in_directory)
    everybody = contenders_of_sparse(filename, setting.processes[0])
    return Prepared(everybody, against(everybody[-1].check), [filename])


def selected(setting: Setting) -> Iterator[Case]:
    """Rows with a step, and some of the columns."""
    for name in setting.datasets:
        rows = DATASETS[name].workload("", setting.size_bytes).rows
        cuts: dict[str, dict[str, Any]] = {
            "every fourth row": {"rows": (0, rows, 4)},
            "the middle half of the rows": {"rows": (rows // 4, 3 * rows // 4)},
            "32 of the columns": {"inner": [(64, 96)]},
        }
        for what, options in cuts.items():
            title = f"{DATASETS[name].title}, {what}"
            yield case("selected", title, _selected, setting, name, options)


def _selected(setting: Setting, name: str, options: dict[str, Any]) -> Prepared:
    _, plain = _plain(setting, name)
    mine = ours(", selected", plain, PATH, setting.processes[0], **options)
    h5py = theirs("h5py", ORACLE, plain, [PATH], options)
    return Prepared([mine, h5py], against(h5py.check), [plain])


PARTS: dict[str, Part] = {
    one.__name__: one for one in (virtual, versions, ragged, sparse, selected)
}
