"""The study of structure and handle: the files, the loops, who refuses, and the verdicts.

Law
---
1. What each library tells is compared with h5py's; one that lies must be caught.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from runs import left_behind, measured, rows_of, study_run

import multitables
import multitables_benchmark
from _multitables import _core
from _multitables.benchmark.contenders import index_contenders, random_keys, startup
from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contenders.random_contenders import Task
from _multitables.benchmark.contract import NotMeasuredError, Sample, Source, WrongDataError
from _multitables.benchmark.data import structures, workloads
from _multitables.benchmark.data.structures import CHUNK_INDEXES, VERSIONS, ManyChunks, ManyDatasets
from _multitables.benchmark.harness.child import Child, found_in
from _multitables.benchmark.loops import handle_loop, index_loop, random_loop, refusals, small_loop
from _multitables.benchmark.loops.index_loop import LIBRARIES, Library
from _multitables.benchmark.studies.index import handle, parts
from _multitables.benchmark.studies.setting import Setting

N_DATASETS = 230  # three groups
N_CHUNKS = 144
HAS_PYFIVE = importlib.util.find_spec("pyfive") is not None
PEERS = ["core", pytest.param("pyfive", marks=pytest.mark.skipif(not HAS_PYFIVE, reason="pyfive"))]


def many(directory: Path, version: str = "earliest", n: int = N_DATASETS) -> str:
    return structures.in_directory(ManyDatasets(f"many_{version}", n, version), str(directory))


def one_of_many_chunks(directory: Path, index: str) -> str:
    return structures.in_directory(ManyChunks(f"chunks_{index}", N_CHUNKS, index), str(directory))


# ---- the files


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_small_datasets(version: str, tmp_path: Path) -> None:
    structure = ManyDatasets("many", N_DATASETS, version)
    filename = structures.in_directory(structure, str(tmp_path))
    found: dict[str, Any] = {}
    with h5py.File(filename) as file:
        is_dataset = h5py.Dataset
        file.visititems(lambda name, one: found.update({f"/{name}": isinstance(one, is_dataset)}))
        assert [name for name in found if found[name]] == structure.paths()
        for number, path in enumerate(structure.paths()[:8]):
            dataset = file[path]
            shape, dtype, chunk_rows, level = structures.KINDS[number % 4]
            assert (dataset.shape, dataset.dtype.str) == (shape, dtype)
            assert (dataset.chunks or (0,))[0] == chunk_rows
            assert (dataset.compression_opts or 0) == level
            assert dataset[0:2].ravel()[:2].tolist() == [number, number + 1]
            assert set(dataset.attrs) == {"units", "kind", "gain", "axes"}
            assert dataset.attrs["units"] == f"V{number % 7}"
    assert structures.in_directory(structure, str(tmp_path)) == filename
    with pytest.raises(FileExistsError, match="holds something else"):
        structures.in_directory(replace(structure, n_datasets=1), str(tmp_path))


@pytest.mark.parametrize("index", CHUNK_INDEXES)
def test_a_file_of_many_chunks(index: str, tmp_path: Path) -> None:
    metadata = _core.MetadataFile(one_of_many_chunks(tmp_path, index))
    _, offset = metadata.find(structures.PATH.encode())
    assert len(metadata.chunks(offset)) == N_CHUNKS
    sizes = set(metadata.chunks(offset)["stored_size"].tolist())
    assert min(sizes) < 32 < max(sizes)


# ---- what is told


def told(recipe: str, filename: str, task: str = "objects", **more: Any) -> Any:
    asked = {"recipe": recipe, "filename": filename, "task": task, "verb": "check", **more}
    return index_loop.LOOP.answer(None, asked)["found"]


@pytest.mark.parametrize("with_chunks", [False, True])
@pytest.mark.parametrize("recipe", PEERS)
def test_all_tell_the_same_datasets(recipe: str, with_chunks: bool, tmp_path: Path) -> None:
    filename = many(tmp_path)
    found = told(recipe, filename, with_chunks=with_chunks)
    assert found["rows"] == N_DATASETS
    assert found == told("h5py", filename, with_chunks=with_chunks)
    timed = told(recipe, filename, with_chunks=with_chunks, verb="time")
    n_chunks = sum(-(-kind[0][0] // kind[2]) for kind in structures.KINDS if kind[2])
    assert timed["n"] == N_DATASETS
    assert timed["n_chunks"] == with_chunks * (N_DATASETS // 4 * n_chunks + 3)


def test_later_versions_of_the_format(tmp_path: Path) -> None:
    filename = many(tmp_path, "v110")
    found = [told(recipe, filename, with_chunks=True)["any_order"] for recipe in ("h5py", "core")]
    assert found[0] == found[1]


def test_names_of_attributes_without_their_values(tmp_path: Path) -> None:
    filename = many(tmp_path, n=8)
    found = told("open, names", filename, with_chunks=False)
    assert found == told("h5py, names", filename, with_chunks=False)
    assert found["in_order"] != told("h5py", filename, with_chunks=False)["in_order"]
    with h5py.File(filename, "r+") as file:
        file[structures.path_of(3)].attrs["another"] = 1
    assert found != told("open, names", filename, with_chunks=False)


@pytest.mark.parametrize("index", CHUNK_INDEXES)
def test_all_tell_the_same_chunks(index: str, tmp_path: Path) -> None:
    filename = one_of_many_chunks(tmp_path, index)
    asked = {"task": "chunks", "path": structures.PATH, "shape": [48, 48]}
    right = told("h5py", filename, **asked)
    assert right["rows"] == N_CHUNKS
    assert told("core", filename, **asked) == right
    assert told("core", filename, **asked, verb="time")["n"] == N_CHUNKS
    if HAS_PYFIVE:
        found = index_loop.LOOP.answer(
            None, {"recipe": "pyfive", "filename": filename, "verb": "check", **asked}
        )
        assert found.get("found", right) == right
        assert ("found" in found) == (index == "btree-v1")


Lie = Callable[[str, Any, Any, dict[str, Any], Any], tuple[Any, ...] | None]
LIES: dict[str, Lie] = {
    "name": lambda path, *rest: (f"{path}x", *rest),
    "shape": lambda path, shape, *rest: (path, (*shape, 1), *rest),
    "type": lambda path, shape, _kind, *rest: (path, shape, np.dtype("<u8"), *rest),
    "attribute": lambda *four: (*four[:3], {**four[3], "gain": np.float64(-1)}, four[4]),
    "text": lambda *four: (*four[:3], {**four[3], "units": "A"}, four[4]),
    "no attribute": lambda *four: (*four[:3], {}, four[4]),
    "chunk": lambda *four: (*four[:4], four[4] and [_moved(four[4][0]), *four[4][1:]]),
    "no chunks": lambda *four: (*four[:4], None),
    "left out": lambda *_four: None,
}


def _moved(info: Any) -> Any:
    return info._replace(byte_offset=info.byte_offset + 1)


def lying(lie: Lie) -> Library:
    """h5py's answers, but for the first dataset that has chunks."""
    verified = LIBRARIES["h5py"]

    def objects(filename: str, with_chunks: bool, see: Any) -> None:
        def pass_on(path: str, *rest: Any) -> None:
            answer = lie(path, *rest) if path == structures.path_of(0) else (path, *rest)
            if answer is not None:
                see(*answer)

        verified.objects(filename, with_chunks, pass_on)

    return replace(verified, objects=objects)


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_about_a_dataset_is_found(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filename = many(tmp_path, n=8)
    monkeypatch.setitem(LIBRARIES, "truth", lying(lambda *answer: answer))
    monkeypatch.setitem(LIBRARIES, "lie", lying(LIES[lie]))
    right = told("h5py", filename, with_chunks=True)
    assert told("truth", filename, with_chunks=True) == right
    assert told("lie", filename, with_chunks=True) != right


def test_who_tells_too_few_has_no_number(tmp_path: Path) -> None:
    one = index_contenders.telling("x.h5", "objects", 5, with_chunks=False)[1]
    assert isinstance(one, Asked)
    assert one.figure({"n": 5, "seconds": 0.5}) == Sample(10, {"n": 5, "seconds": 0.5})
    with pytest.raises(WrongDataError, match="4 instead of 5"):
        one.figure({"n": 4, "seconds": 0.5})


# ---- small datasets


@pytest.mark.parametrize("recipe", ["reader", "reader ahead", "streamer", "pyfive"])
def test_all_read_the_same_small_datasets(recipe: str, tmp_path: Path) -> None:
    if recipe == "pyfive":
        pytest.importorskip("pyfive")
    asked = {"filename": many(tmp_path, n=8), "paths": [structures.path_of(n) for n in range(8)]}

    def found(recipe: str, verb: str) -> Any:
        return small_loop.LOOP.answer(multitables, asked | {"recipe": recipe, "verb": verb})[
            "found"
        ]

    assert found(recipe, "check") == found("h5py", "check")
    timed = found(recipe, "time")
    assert (timed["n"], timed["n_bytes"]) == (8, 2 * (1200 + 2048 + 512 + 200))


# ---- the handle


class FakeFile(h5py.File):  # type: ignore[misc]
    """`multitables.open` of a file, as far as the loops ask it: h5py, and rows in any order."""

    def __init__(self, filename: str, cache_bytes: int | None = None) -> None:
        super().__init__(filename, "r")

    def __getitem__(self, path: Any) -> Any:
        return FakeDataset(super().__getitem__(path).id)


class FakeDataset(h5py.Dataset):  # type: ignore[misc]
    def __getitem__(self, key: Any, new_dtype: Any = None) -> Any:
        return super().__getitem__(...)[key] if isinstance(key, np.ndarray) else self._plain(key)

    def _plain(self, key: Any) -> Any:
        return super().__getitem__(key)


FAKE = SimpleNamespace(open=FakeFile, index_file=lambda _filename, progress: None)


def task_of(directory: Path, kind: str, n: int = 8) -> Task:
    workload = handle.DATASETS["zlib"].workload("zlib", 600 * handle.ROW_BYTES)
    filename = workloads.in_directory(workload, str(directory))
    source = Source(filename, workloads.PATH, workload.rows, workload.row_bytes)
    draw = {
        "slices": random_keys.slices,
        "coordinates": random_keys.coordinates,
        "rows": random_keys.single_rows,
    }[kind](600, n, 7)
    return Task(source, workload.is_table, draw, random_keys.oracle(workload), 0.001)


def asked_of(contender: Any, verb: str, library: Any = FAKE) -> Any:
    """What the loop answers of a contender, in this process."""
    more = contender.checked if verb == "check" else {}
    found = handle_loop.LOOP.answer(library, {**contender.request, **more, "verb": verb})
    return found_in(found, contender.name, "")


@pytest.mark.parametrize("recipe", ["open", "h5py", "pyfive"])
@pytest.mark.parametrize("kind", ["slices", "coordinates", "rows"])
def test_rows_of_an_open_file(kind: str, recipe: str, tmp_path: Path) -> None:
    if recipe == "pyfive":
        pytest.importorskip("pyfive")
    task = task_of(tmp_path, kind)
    for n_users in (1, 3):
        everybody: list[Any] = index_contenders.keyed(task, n_users)
        (one,) = (one for one in everybody if one.request["recipe"] == recipe)
        assert asked_of(one, "check") == task.right()
        timed = asked_of(one, "time")
        assert len(timed) == n_users
        assert one.figure(timed).value > 0
        timed[-1]["digest"] = timed[-1]["digest"] | {"in_order": "another", "any_order": "another"}
        with pytest.raises(WrongDataError):
            one.figure(timed)


def test_single_rows_one_after_the_other(tmp_path: Path) -> None:
    task = task_of(tmp_path, "rows", 120)
    everybody: list[Any] = index_contenders.latencies(task)
    found = everybody[0].figure(asked_of(everybody[0], "time"))
    assert 0 < found.value <= found.more["p99_microseconds"]


def test_whole_datasets(tmp_path: Path) -> None:
    task = task_of(tmp_path, "slices")
    everybody: list[Any] = index_contenders.whole(task)
    names = ["multitables.open, [...]", "multitables.open, read_direct"]
    assert [one.name for one in everybody][:2] == names
    for one in everybody[:4]:
        assert asked_of(one, "check") == task.oracle.rows(np.arange(600))
        assert one.figure(asked_of(one, "time")).more["decoded_bytes"] == 600 * 1024


def test_the_first_read_of_a_file(tmp_path: Path) -> None:
    filename, path = many(tmp_path, n=8), structures.path_of(5)
    everybody: list[Any] = index_contenders.first_reads(filename, filename, path)
    found = [one for one in everybody if isinstance(one, Asked) and "open" in one.name]
    assert [one.request["saved_index"] for one in found] == [False, True]
    with h5py.File(filename) as file:
        rows = file[path][...]
    for one in found:
        assert asked_of(one, "check")["rows"] == len(rows)
        assert one.figure(asked_of(one, "time")).value > 0


def test_a_release_without_open_says_so(tmp_path: Path) -> None:
    everybody: list[Any] = index_contenders.whole(task_of(tmp_path, "slices"))
    with pytest.raises(NotMeasuredError, match=r"^this release has no multitables\.open$"):
        asked_of(everybody[0], "check", SimpleNamespace())


def test_a_thread_that_fails_is_told(tmp_path: Path) -> None:
    def fail(_key: Any) -> Any:
        raise OSError("no")

    dataset = SimpleNamespace(__getitem__=fail)
    asked = {"recipe": "open", "kind": "rows", "batches": [1], "seconds": 0.0, "n_users": 2}
    with pytest.raises(OSError, match="no"):
        handle_loop.time_keys(dataset, asked)


# ---- who refuses


@pytest.mark.parametrize(
    ("recipe", "error", "kind"),
    [
        ("x", ImportError("no x"), "missing"),
        ("x", refusals.AbsentError("no open"), "absent"),
        ("x", refusals.CannotReadError("no"), "unable"),
        ("x", refusals.WrongError("no"), "wrong"),
        ("pyfive", AssertionError(), "unable"),
        ("hidefix", RuntimeError("no\nbacktrace"), "unable"),
        ("open", RuntimeError("a fault of this library"), None),
    ],
)
def test_refusals_are_answers(recipe: str, error: Exception, kind: str | None) -> None:
    def ask() -> None:
        raise error

    if kind is None:
        with pytest.raises(type(error)):
            refusals.answered(recipe, ask)
        return
    answer = refusals.answered(recipe, ask)
    assert list(answer) == [kind]
    assert "\n" not in answer[kind]
    with pytest.raises(WrongDataError if kind == "wrong" else NotMeasuredError):
        found_in(answer, "label", "pip install it")


# ---- the study


def targets() -> dict[str, dict[str, Any]]:
    with open("results/multitables_index.json") as file:
        found = json.load(file)
    assert found["faults"] == []
    assert {target["met"] for target in found["targets"]} == {None}  # too little data to judge
    return {target["what"]: target for target in found["targets"]}


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """This library and h5py only: every other is two processes more for each measurement."""
    for table, ours in (("TELLERS", "core"), ("READERS", "Reader"), ("HANDLES", "open")):
        everybody = getattr(index_contenders, table).items()
        few = {name: one for name, one in everybody if name.endswith(("h5py", ours))}
        monkeypatch.setattr(index_contenders, table, few)


@pytest.mark.usefixtures("_few")
def test_smoke_of_the_structure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["index", "--smoke", "--dataset", "earliest", "--dataset", "btree-v2"]
    for part in ("discovery", "chunks", "small"):
        words += ["--part", part]
    assert multitables_benchmark.main([*words, "--data_dir", "data"]) == 0
    out = capsys.readouterr().out
    assert "200 datasets, 400 chunks, 4000 rows of 1 KiB" in out
    some, few = "200 small datasets, format of h5py's default", "400 chunks, v2 B-tree"
    read = "200 of the small datasets, format of h5py's default, opened and read"
    assert {what: target["wanted"] for what, target in targets().items()} == {
        f"discovery, {some}: multitables core / h5py": ">= 8x",
        f"discovery, {some}, all chunks: multitables core / h5py": ">= 8x",
        f"chunks, {few}: multitables core / h5py": ">= 3x",
        f"chunks, {few}: multitables core": ">= 3.33e+06 chunks/s",
        f"small, {read}: multitables Reader": ">= 3.33e+03 datasets/s",
        f"small, {read}: multitables Streamer / h5py": ">= 1x",
    }
    rows = rows_of("index")
    assert {row["part"] for row in rows} == {"discovery", "chunks", "small"}
    assert {row["unit"] for row in rows} == {"datasets/s", "chunks/s"}
    assert {"h5py", "multitables core", "multitables Reader"} <= {row["contender"] for row in rows}
    assert left_behind(tmp_path) == ["data"]


@pytest.mark.usefixtures("_few")
def test_smoke_of_the_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_one_row = [one for one in handle.COMPARISONS if "one row" in title_of(one)]
    monkeypatch.setattr(handle, "COMPARISONS", (handle.COMPARISONS[0], *of_one_row))
    words = ["index", "--smoke", "--dataset", "zlib", "--part", "handle"]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert "zlib 3, whole" in out
    assert "99th percentile, us" in out
    found = {what: target["wanted"] for what, target in targets().items()}
    (queue,) = (what for what in found if what.startswith("whole"))
    assert queue.endswith(" / multitables queue x2")
    assert found == {
        queue: ">= 0.85x",
        "one row, zlib 3, one row of a cached chunk: multitables.open": "< 10 us",
        "first read, open a file of 200 datasets and read one: multitables.open, saved index": (
            "< 50 ms"
        ),
    }
    kept = rows_of("index")
    assert {row["part"] for row in kept} == {"whole", "one row", "first read"}
    assert {row["part"] for row in kept if row["p99_microseconds"]} == {"one row"}
    assert left_behind(tmp_path) == []
    monkeypatch.setattr(Child, "ask", None)  # what is kept needs no child
    assert multitables_benchmark.main([*words, "--resume"]) == 0
    assert rows_of("index") == kept


def title_of(comparison: handle.Comparison) -> str:
    return comparison(Setting("", 1), "zlib").title


def test_what_is_compared_of_each_dataset() -> None:
    setting = Setting("", 1, datasets=("earliest", "none", "zlib"), sizes={"datasets": 9})
    cases = list(handle.handle_part(setting))
    parts_of_one = ["whole", "slices", "rows", "one row", "threads"]
    assert [case.key["part"] for case in cases] == [*parts_of_one * 2, "first read"]
    assert [case.unit for case in cases[:5]] == ["MB/s", "MB/s", "MB/s", "us", "rows/s"]
    assert list(handle.handle_part(Setting("", 1, datasets=("earliest",)))) == []


@pytest.mark.parametrize("before", [None, "another python"])
def test_the_start_beside_another_release(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(_request: Any, python: str | None) -> dict[str, Any]:
        return {"seconds": 0.2 if python is None else 0.3}

    monkeypatch.setattr(startup, "probe", probe)
    run = measured(study_run(tmp_path, *parts.start(Setting(str(tmp_path), 1), before)))
    assert run.targets[0].what == "start, import: multitables / before"
    assert len(run.targets) == 3
    assert {target.measured for target in run.targets} == ({"1.5x"} if before else {"-"})
    assert {target.met for target in run.targets} == ({True} if before else {None})
    assert before or {target.note for target in run.targets} == {
        "name an interpreter with --before"
    }


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    assert (parts.MIN_DISCOVERY, parts.MIN_CHUNKS, parts.MAX_CHUNKS_SECONDS) == (8, 3, 0.3)
    assert (parts.MAX_SMALL_MILLISECONDS, parts.MIN_SMALL_STREAM) == (0.3, 1)
    assert (handle.MIN_OF_QUEUE, handle.MIN_SLICES, handle.MIN_ROWS) == (0.85, 3, 5)
    assert (handle.MAX_MICROSECONDS, handle.MIN_THREADS) == (10, 1.8)
    assert (handle.BATCH_ROWS, handle.N_USERS, handle.MAX_INDEXED_MILLISECONDS) == (256, 4, 50)


def test_sorted_once_restores_the_order() -> None:
    rows = np.arange(10)
    key = np.array([7, 2, 7, 0])
    assert random_loop.sorted_once(lambda wanted: rows[wanted])(key).tolist() == [7, 2, 7, 0]
