"""The study of random access: the draws, the oracle, the loop, the contenders and the verdicts.

Law
---
1. A faulty library takes the place of a contender and must be caught, before the clock and under
   it.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from fake_reader import FakeReader, Lie, truth
from faulty_libraries import LIES
from runs import case_of, interrupting, left_behind, measured, rows_of, study_run

import multitables_benchmark
from _multitables.benchmark.contenders import random_contenders, random_keys
from _multitables.benchmark.contenders.random_contenders import LibraryAccess, ReaderAccess, Task
from _multitables.benchmark.contenders.random_keys import Draw
from _multitables.benchmark.contract import Source, WrongDataError
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import random_loop, stream_loop
from _multitables.benchmark.studies.random import parts as random_parts

N_ROWS = 600
DRAWS: dict[str, Callable[[int, int, int], Draw]] = {
    "coordinates": random_keys.coordinates,
    "slices": random_keys.slices,
    "rows": random_keys.single_rows,
}


def task_of(directory: Path, dataset: str, kind: str) -> Task:
    """A small file, and a draw of ten keys."""
    workload = random_parts.DATASETS[dataset].workload(dataset, N_ROWS * random_parts.ROW_BYTES)
    filename = workloads.in_directory(workload, str(directory))
    source = Source(filename, workloads.PATH, workload.rows, workload.row_bytes)
    draw = DRAWS[kind](N_ROWS, 10, 7)
    return Task(source, workload.is_table, draw, random_keys.oracle(workload), 0.001)


def all_rows(task: Task) -> Any:
    with tables.open_file(task.source.filename) as file:
        return file.get_node(task.source.path)[:]


# ---- the data, the draws and the oracle


@pytest.mark.parametrize("dataset", random_parts.DATASETS)
def test_the_datasets_are_those_of_the_issue(dataset: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, dataset, "slices")
    with tables.open_file(task.source.filename) as file:
        node = file.get_node(task.source.path)
        assert isinstance(node, tables.Table if task.is_table else tables.EArray)
        assert node.shape == ((N_ROWS,) if task.is_table else (N_ROWS, 256))
        assert node.dtype.itemsize * (1 if task.is_table else 256) == 1024
        level = {"lz4": ("blosc:lz4", 5), "zlib": ("zlib", 3)}[dataset.partition("-")[2]]
        assert (node.filters.complib, node.filters.complevel) == level
        assert 0.1 < node.size_on_disk / node.size_in_memory < 0.95  # neither constant nor noise
    full = random_parts.DATASETS[dataset].workload(dataset, 1024e6)
    assert (full.rows, full.row_bytes) == (10**6, 1024)


@pytest.mark.parametrize("kind", DRAWS)
def test_a_draw_is_a_value(kind: str) -> None:
    draw = DRAWS[kind](N_ROWS, 10, 7)
    assert draw == DRAWS[kind](N_ROWS, 10, 7)
    assert draw != DRAWS[kind](N_ROWS, 10, 8)
    assert json.loads(json.dumps(draw.batches)) == draw.batches
    rows = np.arange(N_ROWS)
    delivered = np.concatenate([np.atleast_1d(rows[key]) for key in draw.keys])
    assert np.array_equal(draw.rows(), delivered)
    assert np.array_equal(draw.rows(13), np.concatenate([delivered, draw.rows(3)]))
    assert draw.batch_rows == (1 if kind == "rows" else 256)


@pytest.mark.parametrize("dataset", ["table-lz4", "earray-zlib"])
def test_the_oracle_says_what_the_file_holds(dataset: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, dataset, "coordinates")
    rows = all_rows(task)[task.draw.rows()]
    assert task.oracle.rows(task.draw.rows()) == stream_loop.digest_of(iter([rows]))
    words = stream_loop.digest_of(iter([random_loop.first_words(rows)]))
    assert task.oracle.seen(task.draw, 10) == words


# ---- the loop


def deliver_by(reader: FakeReader, kind: str, **asked: Any) -> random_loop.Deliver:
    asked = {"kind": kind, "pieces": 0, "once_each": False} | asked
    stages = [reader.create_stage_pool(256, 5)]
    return lambda keys: random_loop.deliver_by_requests(reader, reader, stages, 4, asked, keys)


@pytest.mark.parametrize("kind", DRAWS)
def test_requests_are_in_flight_and_rows_in_order(kind: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "earray-lz4", kind)
    reader = FakeReader(all_rows(task))
    found = random_loop.checked(deliver_by(reader, kind), task.draw.keys, kind)
    assert found == task.oracle.rows(task.draw.rows())
    assert (reader.most_pending, reader.pending) == (4, 0)


@pytest.mark.parametrize("once_each", [False, True])
def test_coordinates_in_pieces_are_joined_in_order(once_each: bool) -> None:
    rows = np.arange(3 * N_ROWS).reshape(N_ROWS, 3)
    reader = FakeReader(rows)
    keys = random_keys.coordinates(N_ROWS, 9, 7).keys
    asked = {"pieces": 2, "once_each": once_each}
    found = list(deliver_by(reader, "coordinates", **asked)(iter(keys)))
    assert all(np.array_equal(rows[key], one) for key, one in zip(keys, found, strict=True))
    assert len(reader.requested) == 18
    lists = [key[0] if once_each else key for key in reader.requested]
    assert all(isinstance(one, list) and len(one) <= 128 for one in lists)
    assert any(len(set(one)) < len(one) for one in lists) != once_each


@pytest.mark.parametrize("kind", DRAWS)
def test_what_is_timed_is_digested(kind: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "table-lz4", kind)
    deliver = deliver_by(FakeReader(all_rows(task)), kind)
    random_loop.warm_up(deliver, task.draw.keys, 0.0)
    found = random_loop.timed(deliver, task.draw.keys, kind, 0.01)
    assert found["n_keys"] > 0
    scale = 1 if kind == "rows" else 256 * 1024 / 1e6
    assert task.rate(found).value == found["n_keys"] / found["seconds"] * scale
    with pytest.raises(WrongDataError):
        task.rate(found | {"n_keys": found["n_keys"] + 1})


# ---- faulty libraries


def differs_in(kind: str) -> list[str]:
    """The lies that can be told of a batch, or of a row."""
    return list(LIES) if kind != "rows" else ["one bit", "zeros", "bytes swapped"]


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in DRAWS for name in differs_in(kind)]
)
def test_every_lie_is_found(kind: str, name: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "earray-lz4", kind)
    rows, expected = all_rows(task), task.oracle.rows(task.draw.rows())
    for lie in (truth, LIES[name]):
        reader = FakeReader(rows, lie)
        found = random_loop.checked(deliver_by(reader, kind), task.draw.keys, kind)
        assert (found == expected) == (lie is truth)


def opened(task: Task, lie: Lie) -> Any:
    """A library that lies."""
    rows = all_rows(task)

    @contextlib.contextmanager
    def way(_source: Source) -> Iterator[random_contenders.Read]:
        yield lambda key: lie(rows[key], 0)

    return way


@pytest.mark.parametrize("kind", DRAWS)
def test_who_is_faulty_is_not_measured(kind: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "earray-lz4", kind)
    faulty = LibraryAccess(task, "faulty", opened(task, LIES["one bit"]))
    verified = LibraryAccess(task, "verified", opened(task, truth))
    run = measured(study_run(tmp_path, case_of(faulty, verified, differs=against(task.right))))
    assert [row["contender"] for row in rows_of("targets")] == ["verified"]
    assert [fault["contender"] for fault in run.faults] == ["faulty"]
    assert run.faults[0]["fault"].startswith("data differs")
    assert "part, data, contender faulty: data differs" in run.text()


@pytest.mark.parametrize("kind", DRAWS)
def test_who_is_faulty_under_the_clock_has_no_number(kind: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "earray-lz4", kind)
    faulty = LibraryAccess(task, "faulty", opened(task, LIES["one bit"]))
    run = measured(study_run(tmp_path, case_of(faulty)))
    assert run.faults[0]["fault"].startswith("data differs")
    assert rows_of("targets") == []
    if kind == "rows":
        with pytest.raises(WrongDataError):
            replace(faulty, task=replace(task, seconds=None)).measure()


# ---- the contenders


@pytest.mark.parametrize("dataset", ["table-lz4", "earray-zlib"])
@pytest.mark.parametrize("kind", DRAWS)
def test_h5py_and_pytables_deliver(kind: str, dataset: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, dataset, kind)
    everybody = random_contenders.libraries(task)
    assert {one.name.partition(" ")[0] for one in everybody} == {"h5py", "PyTables"}
    for one in everybody:
        assert one.check() == task.right()
        assert one.measure().value > 0


@pytest.mark.parametrize("dataset", ["table-lz4", "earray-zlib"])
def test_latencies_of_h5py_and_pytables(dataset: str, tmp_path: Path) -> None:
    task = replace(task_of(tmp_path, dataset, "rows"), seconds=None)
    for one in random_contenders.libraries(task):
        found = one.measure()
        assert 0 < found.value <= found.more["p99_microseconds"]


MODULE = """
import sys; sys.path.append({directory!r})
import tables
from fake_reader import FakeReader
from faulty_libraries import LIES
def Reader(filename, n_procs):
    with tables.open_file(filename) as file:
        return FakeReader(file.root.data[:], LIES.get({lie!r}, lambda rows, at: rows))
"""


@pytest.mark.parametrize("kind", DRAWS)
def test_a_reader_is_checked_and_timed_in_a_process_of_its_own(kind: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, "earray-lz4", kind)
    found = ReaderAccess(task, "x", sys.executable, str(tmp_path), 4, 2)
    module, directory = tmp_path / "multitables.py", str(Path(__file__).parent)
    module.write_text(MODULE.format(directory=directory, lie=""))
    for one in (found, replace(found, n_stages=0)):
        assert one.check() == task.right()
        assert one.measure().value > 0
    if kind == "rows":
        latency = replace(found, task=replace(task, seconds=None)).measure()
        assert 0 < latency.value <= latency.more["p99_microseconds"]
    module.write_text(MODULE.format(directory=directory, lie="one bit"))
    assert found.check() != task.right()
    assert (found.name, replace(found, n_stages=0).name) == (
        "x x2, stage pool",
        "x x2, default pool",
    )


# ---- the study


def test_smoke_of_random_access(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["random", "--smoke", "--dataset", "table-lz4", "--data_dir", "data"]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert "name an environment with --old_env DIR" in out
    assert "4000 rows of 1 KiB a dataset" in out
    with open("results/multitables_random.json") as file:
        found = json.load(file)
    assert found["faults"] == []
    whats = [target["what"].partition("Table, blosc:lz4 5: ") for target in found["targets"]]
    assert [part for part, _, _ in whats] == [
        "slices, ",
        "coordinates, ",
        "requests, ",
        "latency, ",
        "latency, ",
    ]
    assert all(what.startswith("multitables x2, ") for _, _, what in whats)
    assert [" / " in what for _, _, what in whats] == [True, True, False, False, False]
    assert [target["wanted"] for target in found["targets"]] == [
        ">= 3x",
        ">= 5x",
        ">= 1e+05 requests/s",
        "< 200 us",
        "< 200",
    ]
    assert {target["met"] for target in found["targets"]} == {None}  # too little data to judge
    rows = rows_of("random")
    assert {row["part"] for row in rows} == set(random_parts.PARTS)
    assert {row["cache"] for row in rows} == {"warm"}
    tails = {row["part"] for row in rows if row["p99_microseconds"]}
    decoded = {row["part"] for row in rows if row["cache_misses"]}
    assert (tails, decoded) == ({"latency"}, {"slices", "coordinates", "requests"})
    ours = {row["contender"] for row in rows if row["contender"].startswith("multitables")}
    assert ours == {"multitables x2, stage pool", "multitables x2, default pool"}
    assert left_behind(tmp_path) == ["data"]


def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(random_parts, "_readers", lambda *_a: [])
    words = [
        "random",
        "--smoke",
        "--dataset",
        "earray-lz4",
        "--part",
        "slices",
        "--part",
        "latency",
    ]
    with monkeypatch.context() as patched:
        patched.setitem(random_parts.PARTS, "latency", interrupting)
        assert multitables_benchmark.main(words) == 130
    assert "interrupted; what was finished" in capsys.readouterr().out
    kept = rows_of("random")
    assert {row["part"] for row in kept} == {"slices"}
    assert left_behind(tmp_path) == []
    assert multitables_benchmark.main([*words, "--resume"]) == 0
    rows = rows_of("random")
    assert rows[: len(kept)] == kept
    assert {row["part"] for row in rows[len(kept) :]} == {"latency"}
    assert "99th percentile" in capsys.readouterr().out


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    assert (random_parts.MIN_SLICES, random_parts.MIN_COORDINATES) == (3, 5)
    assert (random_parts.MIN_REQUESTS, random_parts.MAX_MICROSECONDS) == (100_000, 200)
    assert random_keys.BATCH_ROWS == 256
