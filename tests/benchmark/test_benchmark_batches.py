"""The study of training batches: the data, the check, the loops, the contenders and the verdicts.

Law
---
1. A faulty library takes the place of a contender and must be caught, before the clock and under
   it.
2. Nothing here is timed, and no figure is compared with another.
3. The contenders of torch and of Grain run where these are installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from fake_batches import BATCH_ROWS, N_ROWS, FakeLibrary, Lie
from faulty_libraries import LIES
from runs import case_of, interrupting, left_behind, measured, rows_of, study_run

import multitables_benchmark
from _multitables.benchmark import contract
from _multitables.benchmark.analysis.mixing import mixing
from _multitables.benchmark.contenders import batch_check, batch_contenders
from _multitables.benchmark.contenders.batch_contenders import BatchContender, Task
from _multitables.benchmark.contract import NotMeasuredError, Source, WrongDataError, require
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.child import module_directory
from _multitables.benchmark.loops import batch_loop, batch_recipes
from _multitables.benchmark.loops.batch_recipes import Delivery
from _multitables.benchmark.studies.batches import parts as batch_parts
from _multitables.benchmark.studies.setting import Setting

SIZE_BYTES = N_ROWS * batch_parts.ROW_BYTES
SEED = 3


def task_of(directory: Path, dataset: str = "lz4-64k") -> Task:
    """A small file, and its rows in an .npy file."""
    workload = batch_parts.DATASETS[dataset].workload(dataset, SIZE_BYTES)
    filename = workloads.in_directory(workload, str(directory))
    source = Source(filename, workloads.PATH, workload.rows, workload.row_bytes)
    array_filename = workloads.array_in_directory(workload, str(directory))
    return Task(source, batch_check.oracle(workload), array_filename, SEED, seconds=0.0001)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return task_of(tmp_path)


# ---- the data


@pytest.mark.parametrize("dataset", batch_parts.DATASETS)
def test_the_datasets_are_those_of_the_issue(dataset: str, tmp_path: Path) -> None:
    task = task_of(tmp_path, dataset)
    with tables.open_file(task.source.filename) as file:
        node = file.get_node(task.source.path)
        assert (node.shape, node.dtype) == ((N_ROWS, 256), np.float32)
        name, _, chunk = dataset.partition("-")
        narrow = chunk == "narrow"
        assert node.chunkshape == ((7813, 4) if narrow else (int(chunk[:-1]), 256))
        level = {"none": (None, 0), "lz4": ("blosc:lz4", 5), "zlib": ("zlib", 3)}[name]
        assert (node.filters.complib, node.filters.complevel) == level
        rows = node[:]
        if level[1]:
            assert 0.1 < node.size_on_disk / node.size_in_memory < 0.95
    assert np.array_equal(rows[:, 0], np.arange(N_ROWS))
    assert np.array_equal(np.load(task.array_filename), rows)
    full = batch_parts.DATASETS[dataset].workload(dataset, 1024e6)
    assert (full.rows, full.row_bytes) == (10**6, 1024)


def test_rows_that_float32_cannot_number_are_refused() -> None:
    shape = (2, 256)
    random = np.random.default_rng(0)
    number = workloads.VALUES["numbered"]
    last = number(random, shape, workloads.MAX_NUMBERED_ROWS - 2)[:, 0].tolist()
    assert last == [workloads.MAX_NUMBERED_ROWS - 2, workloads.MAX_NUMBERED_ROWS - 1]
    with pytest.raises(ValueError, match="cannot number"):
        number(random, shape, workloads.MAX_NUMBERED_ROWS - 1)


@pytest.mark.parametrize("spoil", ["other rows", "no array", "fewer rows"])
def test_an_array_of_another_is_neither_used_nor_replaced(spoil: str, tmp_path: Path) -> None:
    workload = batch_parts.DATASETS["none-64k"].workload("x", SIZE_BYTES)
    filename = Path(workloads.array_in_directory(workload, str(tmp_path)))
    rows = np.load(filename)
    if spoil == "no array":
        filename.write_text("mine")
    else:
        np.save(filename, rows[::-1] if spoil == "other rows" else rows[:-1])
    before = filename.read_bytes()
    with pytest.raises(FileExistsError, match="holds something else"):
        workloads.array_in_directory(workload, str(tmp_path))
    assert filename.read_bytes() == before


# ---- the loops and the check


def keep(task: Task, verb: str, library: Any, recipe: str = "batches", **more: Any) -> Any:
    """What a child would answer and keep."""
    asked = {
        "recipe": recipe,
        "filename": task.source.filename,
        "path": task.source.path,
        "array_filename": task.array_filename,
        "rows": N_ROWS,
        "batch_rows": BATCH_ROWS,
        "epochs": 1,
        "seed": SEED,
        "workers": 2,
        "options": {"shuffle": True},
        "most_batches": 0,
        "seconds": 60.0,
        "seen": "seen.npz",
        "imports": [],
        **more,
    }
    found = batch_loop.LOOP.verbs[verb](library, asked)
    with np.load("seen.npz") as kept:
        return found, dict(kept)


def checked(task: Task, verb: str, library: Any, epochs: int = 1, **more: Any) -> Any:
    found, kept = keep(task, verb, library, epochs=epochs, **more)
    batch_check.check(task.oracle, kept, epochs, found["ended"])
    return found


@pytest.mark.parametrize("recipe", ["batches", "queue"])
@pytest.mark.parametrize("verb", batch_loop.LOOP.verbs)
def test_what_is_right_passes(verb: str, recipe: str, task: Task) -> None:
    found = checked(task, verb, FakeLibrary(), recipe=recipe)
    assert found["ended"]
    if verb == "part":
        assert found["rows"] + found["warm_up_rows"] == N_ROWS
        assert found["warm_up_rows"] == batch_loop.WARM_UP_BATCHES * BATCH_ROWS
        found = checked(task, verb, FakeLibrary(), recipe=recipe, seconds=0.0)
        least = batch_loop.MIN_BATCHES * BATCH_ROWS
        assert (found["ended"], found["rows"]) == (False, least)
    if verb == "check":
        amplification = {"read_amplification": 1.5} if recipe == "batches" else {}
        assert found["statistics"] == amplification
        found = checked(task, verb, FakeLibrary(), recipe=recipe, most_batches=3)
        assert not found["ended"]
    if verb == "epochs":
        found = checked(task, verb, FakeLibrary(), recipe=recipe, epochs=3)
        assert len(found["ends"]) == 3
        assert sorted(found["ends"]) == found["ends"]


def test_an_epoch_that_ends_while_it_warms_up_has_no_figure(task: Task) -> None:
    with pytest.raises(ValueError, match="an epoch of 2 batches is too short"):
        keep(task, "part", FakeLibrary(), batch_rows=N_ROWS // 2)


def last_batch_again(batch: Any, at: int) -> Any:
    """The second batch brings rows of the first once more."""
    last_batch_again.first = batch if at == 0 else last_batch_again.first  # type: ignore[attr-defined]
    return last_batch_again.first if at == 1 else batch  # type: ignore[attr-defined]


def numbers_of_nobody(batch: Any, at: int) -> Any:
    batch[:1, 0] = np.nan if at == 1 else batch[:1, 0] + N_ROWS
    return batch


MORE_LIES: dict[str, Lie] = {
    "a batch twice": last_batch_again,
    "numbers of nobody": numbers_of_nobody,
}


@pytest.mark.parametrize("name", [*LIES, *MORE_LIES])
@pytest.mark.parametrize("verb", batch_loop.LOOP.verbs)
@pytest.mark.parametrize("recipe", ["batches", "queue", "in any order"])
def test_every_lie_is_found(
    recipe: str, verb: str, name: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = (LIES | MORE_LIES)[name]

    @contextlib.contextmanager
    def in_any_order(library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
        with batch_recipes.batches(library, asked) as found:
            yield Delivery(found.batches)

    monkeypatch.setitem(batch_recipes.RECIPES, "in any order", in_any_order)
    if (recipe, name) == ("in any order", "rows swapped"):
        # these are right, and it promised no order
        checked(task, verb, FakeLibrary(lie), recipe=recipe)
        return
    with pytest.raises(WrongDataError):
        checked(task, verb, FakeLibrary(lie), recipe=recipe)


def test_a_value_in_the_middle_of_a_row_is_checked_before_the_clock(task: Task) -> None:
    def lie(batch: Any, at: int) -> Any:
        batch[3, 99] += at == 2
        return batch

    with pytest.raises(WrongDataError, match=r"place 515 has row \d+ with other values"):
        checked(task, "check", FakeLibrary(lie))
    checked(task, "check", FakeLibrary(lie), most_batches=2)


@pytest.mark.parametrize(
    ("lied", "said"),
    [
        (lambda order: order[::-1], "instead of row"),
        (lambda order: order[:-1], "the order that it tells has 4099 rows"),
        (lambda order: np.where(order == 3, 4, order), "row 4 twice"),
        (lambda order: order + 1, "a row number that does not exist"),
    ],
)
def test_an_order_that_is_none(lied: Any, said: str, task: Task) -> None:
    with pytest.raises(WrongDataError, match=said):
        checked(task, "check", FakeLibrary(lied_order=lied))


@pytest.mark.parametrize("epochs", [1, 2])
def test_an_epoch_cut_short_or_too_long_is_found(epochs: int, task: Task) -> None:
    found, kept = keep(task, "epochs", FakeLibrary(), epochs=epochs)
    for asked in {1, 2} - {epochs}:
        with pytest.raises(WrongDataError):
            batch_check.check(task.oracle, kept, asked, found["ended"])


# ---- contenders


MODULE = """
import sys; sys.path.append({directory!r})
from fake_batches import FakeLibrary, truth
from faulty_libraries import LIES
Streamer = FakeLibrary(LIES.get({lie!r}, truth)).Streamer
"""


def fake_module(directory: Path, lie: str = "") -> str:
    """A directory with a stand-in for the library, that lies in a child."""
    text = MODULE.format(directory=str(Path(__file__).parent), lie=lie)
    (directory / "multitables.py").write_text(text)
    return str(directory)


def test_a_contender_is_checked_and_timed_in_a_process_of_its_own(
    task: Task, tmp_path: Path
) -> None:
    make = functools.partial(BatchContender, task, "x", "batches", fake_module(tmp_path))
    whole, peer = make({"shuffle": "full"}, whole=True), make({"shuffle": "full"})
    later = dataclasses.replace(whole, later=2)
    for one in (whole, peer, later):
        one.check()
        assert one.measure().value > 0
    assert whole.measure().more == {"epochs": 1, "read_amplification": 1.5}
    assert 0 < peer.measure().more["epochs"] < 1
    found = later.measure().more
    assert (found["epochs"], found["read_amplification"]) == (2, 1.5)
    assert found["first_epoch"] > 0
    fake_module(tmp_path, "one bit")
    for one in (whole, peer, later):
        for ask in (one.check, one.measure):
            with pytest.raises(WrongDataError):
                ask()


def test_who_is_faulty_has_no_number_and_is_a_fault(task: Task, tmp_path: Path) -> None:
    faulty = BatchContender(task, "faulty", "batches", fake_module(tmp_path, "a row twice"))
    verified = BatchContender(task, "verified", "npy numpy", str(tmp_path))
    unchecked = contract.Measurement("unchecked", faulty.measure)
    run = measured(study_run(tmp_path, case_of(faulty, verified, unchecked), more=["epochs"]))
    assert [fault["contender"] for fault in run.faults] == ["faulty", "unchecked"]
    (row,) = rows_of("targets")
    assert row["contender"] == "verified"
    assert 0 < float(row["epochs"]) < 1


def test_what_is_not_installed_is_left_out_with_advice(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(contract.INSTALL, "no_such_module", "pip install it")
    peer = BatchContender(task, "peer", "h5py", None, needs=("h5py", "no_such_module"))
    with pytest.raises(NotMeasuredError, match="pip install it"):
        require(peer.needs)
    run = measured(study_run(tmp_path, case_of(peer)))
    assert (run.faults, rows_of("targets")) == ([], [])
    assert run.left_out == {"peer": {"pip install it": ["part, data"]}}


PEERS = {
    **dict.fromkeys(["h5py", "h5py reopened", "h5py fancy"], ("torch",)),
    **dict.fromkeys(["h5py sorted batches", "h5py sorted rows"], ("torch",)),
    "stateful": ("torch", "torchdata"),
    **dict.fromkeys(["npy", "npy fancy"], ("torch",)),
    "npy numpy": (),
    "npy grain": ("grain",),
}


@pytest.mark.parametrize("recipe", PEERS)
def test_every_peer_delivers(recipe: str, task: Task, tmp_path: Path) -> None:
    for module in PEERS[recipe]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(contract.INSTALL[module])
    peer = BatchContender(
        task, recipe, recipe, fake_module(tmp_path), {"shuffle": "full"}, needs=PEERS[recipe]
    )
    before = set(os.listdir("/dev/shm"))
    peer.check()
    peer = dataclasses.replace(peer, task=dataclasses.replace(task, seconds=60.0))
    assert peer.measure().value > 0  # to the end of the epoch, which must be whole
    if recipe == "npy grain":  # others leave none
        assert set(os.listdir("/dev/shm")) <= before


def test_every_recipe_is_tested() -> None:
    assert set(PEERS) | {"batches", "queue", "torch dataset"} == set(batch_recipes.RECIPES)


def test_sorted_batches_are_those_of_the_library(task: Task) -> None:
    options = {"seed": SEED, "shuffle": "full"}
    asked = {"filename": task.source.filename, "path": task.source.path, "seed": SEED}
    asked |= {"batch_rows": BATCH_ROWS, "options": {"shuffle": "full"}}
    found = batch_recipes.sorted_batches(FakeLibrary(), asked)
    streamer = FakeLibrary().Streamer(task.source.filename)
    batches = streamer.get_batches(task.source.path, BATCH_ROWS, **options)
    wanted = [np.sort(batch[:, 0]) for batch in batches]
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


# ---- mixing


def test_the_figures_of_known_orders() -> None:
    order = np.arange(1024)
    found = mixing(order, 64, 256)
    assert found.place_correlation == pytest.approx(1)
    assert found.neighbour_correlation == pytest.approx(1)
    assert (found.chunks_in_batch, found.largest_share) == (4, 0.25)
    assert mixing(order[::-1], 64, 256).place_correlation == pytest.approx(-1)
    # each batch has 16 rows of each of the 16 chunks
    strided = order.reshape(16, 64).T.ravel()
    found = mixing(strided, 64, 256)
    assert (found.chunks_in_batch, found.largest_share) == (16, 1 / 16)
    uniform = mixing(np.random.default_rng(0).permutation(100_000), 64, 256)
    assert abs(uniform.place_correlation) < 0.02
    assert abs(uniform.neighbour_correlation) < 0.02
    assert uniform.chunks_in_batch > 230
    with pytest.raises(ValueError, match="exactly once"):
        mixing(np.zeros(1024, int), 64, 256)


# ---- the study


@pytest.fixture
def library_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers other than NumPy are not there, so that a run takes seconds."""
    real = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return None if name in ("torch", "torchdata", "grain") else real(name)

    monkeypatch.setattr("importlib.util.find_spec", find_spec)


@pytest.mark.usefixtures("library_without_torch")
def test_smoke_of_training_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["batches", "--smoke", "--dataset", "lz4-64k", "--data_dir", "data"]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert "4100 rows of 1 KiB a dataset" in out
    assert "pip install multitables[torch]" in out
    assert "old release" not in out
    with open("results/multitables_batches.json") as file:
        found = json.load(file)
    assert found["faults"] == []
    ours = "blosc:lz4 5, chunks of 64 KiB: multitables"
    by_h5py = "DataLoader x2: h5py"
    assert [target["what"] for target in found["targets"]] == [
        f"window, {ours} shuffle='window' / multitables queue",
        f"window, {ours} shuffle='window' / multitables shuffle=None",
        f"full, {ours} shuffle='full' / {by_h5py}, sorted fancy indexing",
        f"loader, {ours} shuffle=True / {by_h5py}, a file for each worker",
        f"loader, {ours} shuffle='full' / {by_h5py}, a file for each worker",
        f"loader, {ours} TorchDataset / {by_h5py}, a file for each worker",
    ]
    assert {target["met"] for target in found["targets"]} == {None}  # too little data to judge
    assert [target["wanted"] for target in found["targets"]] == [">= 0.8x"] * 2 + [
        ">= 5x",
        *[">= 10x"] * 3,
    ]
    rows = rows_of("batches")
    assert {row["part"] for row in rows} == set(batch_parts.PARTS)
    for part in ("window", "full", "loader"):
        assert {row["cache"] for row in rows if row["part"] == part} == {"warm"}
    assert "multitables shuffle='window'" in {row["contender"] for row in rows}
    assert all(float(row["first_epoch"]) > 0 for row in rows if row["part"] == "window")
    mixed = [row for row in rows if row["part"] == "mixing"]
    assert {row["round"] for row in mixed} == {str(seed) for seed in batch_parts.SEEDS}
    in_order = {row["neighbour_correlation"][:6] for row in mixed if row["contender"] == "None"}
    assert in_order <= {"1.0", "0.9999"}
    full = [row["neighbour_correlation"] for row in mixed if row["contender"] == "full"]
    assert len(set(full)) == len(full) == 5  # each seed has an order of its own
    assert all(abs(float(one)) < 0.1 for one in full)
    assert left_behind(tmp_path) == ["data"]


def test_an_order_that_mixes_wrong_rows_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lying = FakeLibrary(lied_order=lambda order: order + 1)
    monkeypatch.setattr(batch_parts, "face", lambda: lying)
    setting = Setting(str(tmp_path), 1, SIZE_BYTES, ("lz4-64k",))
    run = measured(study_run(tmp_path, *batch_parts.mixing_of_orders(setting)))
    assert rows_of("targets") == []
    assert {fault["contender"] for fault in run.faults} >= {"None", "window, 1024", "full"}
    assert "exactly once" in run.text()


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_the_batches_of_the_library_are_right(shuffle: str | None, task: Task) -> None:
    options = {"shuffle": shuffle}
    one = BatchContender(task, "ours", "batches", module_directory(), options, whole=True)
    one.check()
    assert one.statistics["read_amplification"] == pytest.approx(1, abs=0.05)
    assert one.measure().value > 0
    assert dataclasses.replace(one, later=2).measure().value > 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("shuffle", [None, True])
def test_the_tensors_of_the_library_are_right(shuffle: bool | None, task: Task) -> None:
    options = {"shuffle": shuffle}
    one = BatchContender(task, "ours", "torch dataset", module_directory(), options, whole=True)
    one.check()
    assert one.measure().value > 0


def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["batches", "--smoke", "--dataset", "lz4-64k", "--part", "mixing", "--part", "full"]
    monkeypatch.setitem(batch_parts.PARTS, "full", interrupting)
    monkeypatch.setattr(batch_parts, "SEEDS", range(2))
    assert multitables_benchmark.main(words) == 130
    assert "interrupted; what was finished" in capsys.readouterr().out
    kept = rows_of("batches")
    assert {row["round"] for row in kept} == {"0", "1"}
    assert left_behind(tmp_path) == []
    monkeypatch.setattr(batch_parts, "SEEDS", range(3))
    assert multitables_benchmark.main([*words[:6], "--resume"]) == 0
    rows = rows_of("batches")
    assert rows[: len(kept)] == kept
    assert {row["round"] for row in rows[len(kept) :]} == {"2"}


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    wanted = (batch_parts.MIN_WINDOW, batch_parts.MIN_FULL, batch_parts.MIN_LOADER)
    assert wanted == (0.8, 5, 10)
    assert batch_parts.MAX_CHUNK_ROWS_FULL == 64
    assert (batch_contenders.BATCH_ROWS, batch_contenders.WORKERS) == (256, 2)
