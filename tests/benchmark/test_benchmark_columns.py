"""The study of columns: its files, its analysis by ranks, its logs, and what it shows.

Law
---
1. What ranks find is compared with the generator; files with spoilt columns must be found out.
2. Ranks are real processes, with MPI where it is installed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from runs import rows_of

import multitables_benchmark
from _multitables.benchmark.analysis import rank_logs
from _multitables.benchmark.contenders.columns_contenders import (
    BINS,
    Analysis,
    Oracle,
    found_mpiexec,
)
from _multitables.benchmark.contract import ContenderError, WrongDataError
from _multitables.benchmark.data import particle_columns
from _multitables.benchmark.data.particle_columns import KEY
from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.rounds import summary
from _multitables.benchmark.loops.columns_recipes import histogram, rows_of_rank
from _multitables.benchmark.report.charts import draw
from _multitables.benchmark.report.tables import Chart, Series
from _multitables.benchmark.studies.columns.views import views

pytest.importorskip("pandas", reason="the published method makes tables of pandas")
HAS_MPI = bool(importlib.util.find_spec("mpi4py") and found_mpiexec())
OURS = {"share": "node", "readers": 1}
EVENTS = (
    *("start", "afterLoader", "afterVar", "afterSpectrum", "aftersetupGo", "beforefillSpectra"),
    *("afterfillSpectra", "aftercleanup", "afterGo", "beforehist", "afterhist", "afterreduce"),
)


def analysis(
    directory: Path,
    recipe: str,
    ranks: int,
    storage: str = "gzip",
    n_files: int = 1,
    **options: Any,
) -> Analysis:
    files = particle_columns.files(300, n_files, storage)
    names = [particle_columns.in_directory(one, str(directory)) for one in files]
    given = options or (OURS if recipe == "multitables" else {"keys": "all"})
    mpiexec = str(given.pop("mpiexec", ""))
    return Analysis(recipe, recipe, names, Oracle(files), ranks, mpiexec, given, 1)


@pytest.mark.parametrize("storage", particle_columns.STORAGES)
def test_the_file_is_as_published(tmp_path: Path, storage: str) -> None:
    one = particle_columns.files(100, 1, storage)[0]
    with h5py.File(particle_columns.in_directory(one, str(tmp_path))) as file:
        datasets = [file[table][name] for table in file for name in file[table]]
        assert (len(file), len(datasets)) == (15, 123)
        assert {dataset.shape[1:] for dataset in datasets} == {(1,)}
        for table, group in file.items():
            assert len({len(dataset) for dataset in group.values()}) == 1
            keys = group[KEY][:].ravel()
            assert keys.dtype == "i8"
            assert np.all(np.diff(keys) >= 0)
            for name in particle_columns.columns_of(table):
                np.testing.assert_array_equal(group[name][:].ravel(), one.column(table, name))
        assert len(file["rec.mc.nu"][KEY]) == 0
        np.testing.assert_array_equal(file["spill"][KEY][:].ravel(), np.arange(100))
        nhit = file["rec.slc/nhit"]
        expected = {"gzip": ((len(nhit), 1), 6), "contiguous": (None, None)}
        stored = expected.get(storage, ((128, 1), None))
        assert (nhit.chunks, nhit.compression_opts) == stored
        assert file["rec.slc"][KEY].shuffle == (storage == "gzip")


@pytest.mark.parametrize(
    ("recipe", "ranks", "options"),
    [
        ("published", 1, {}),
        ("published", 3, {}),
        ("published", 3, {"keys": "root"}),
        ("published", 3, {"keys": "shared"}),
        ("multitables", 1, {"share": "", "readers": 1}),
        ("multitables", 3, {}),
    ],
)
def test_ranks_find_what_the_generator_has(
    tmp_path: Path, recipe: str, ranks: int, options: dict[str, Any]
) -> None:
    made = analysis(tmp_path, recipe, ranks, n_files=2, **options)
    assert made.oracle.differs(made.check()) == ""
    assert sum(made.oracle.sums[: BINS[0]]) > 0
    logs = made.measure().more["logs"]
    assert list(logs) == [f"cand_sel_{rank}.log" for rank in range(ranks)]
    for log in logs.values():
        lines = [line.split() for line in log.splitlines()]
        assert lines[0] == ["kind", "id", "name", "event", "timestamp"]
        events = [line[3] for line in lines if line[0] == "main"]
        assert tuple(dict.fromkeys(events)) == EVENTS
        stamps = [float(line[4]) for line in lines[1:]]
        assert stamps == sorted(stamps)


@pytest.mark.skipif(not HAS_MPI, reason="mpi4py or mpiexec is missing")
@pytest.mark.parametrize("recipe", ["published", "multitables"])
def test_ranks_of_mpi(tmp_path: Path, recipe: str) -> None:
    options: dict[str, Any] = {
        **(OURS if recipe == "multitables" else {"keys": "root"}),
        "mpiexec": found_mpiexec(),
    }
    made = analysis(tmp_path, recipe, 2, **options)
    assert made.oracle.differs(made.check()) == ""
    assert not list(tmp_path.glob("columns*"))


@pytest.mark.parametrize("recipe", ["published", "multitables"])
def test_wrong_values_are_found(tmp_path: Path, recipe: str) -> None:
    made = analysis(tmp_path, recipe, 2, storage="contiguous")
    with h5py.File(made.filenames[0], "r+") as file:
        file["rec.sel.cvn/ncid"][7, 0] += 1
        file["rec.weight/xsec"][:] *= 2
    fault = made.oracle.differs(made.check())
    assert fault.startswith("sums differ")
    with pytest.raises(WrongDataError, match="histogram or POT"):
        made.measure()
    with h5py.File(made.filenames[0], "r+") as file:
        file["rec.weight/xsec"][:] /= 2
    assert made.oracle.differs(made.check()) == "values of rec.sel.cvn/ncid differ"


def test_a_rank_that_fails_is_an_error(tmp_path: Path) -> None:
    made = analysis(tmp_path, "published", 2)
    os.unlink(made.filenames[0])
    with pytest.raises(ContenderError, match="FileNotFoundError"):
        made.measure()


def test_histograms_are_the_same_without_boost(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boost_histogram", reason="it is what the histogram is compared with")
    edges = np.linspace(*BINS[1:], BINS[0] + 1)
    energy = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 9), [np.nan, 9]])
    weight = np.arange(1.0, len(energy) + 1)
    expected = histogram(energy, weight, {"bins": BINS})
    monkeypatch.setitem(sys.modules, "boost_histogram", None)
    np.testing.assert_array_equal(histogram(energy, weight, {"bins": BINS}), expected)


def test_a_value_on_the_last_edge_is_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boost_histogram", None)
    counts = histogram(np.array(BINS[1:]), np.array([1.0, 2.0]), {"bins": BINS})
    assert counts.tolist() == [1.0] + [0.0] * (BINS[0] - 1)


def test_shares_are_even_and_complete() -> None:
    shares = [rows_of_rank(10, rank, 4) for rank in range(4)]
    assert shares == [(0, 3), (3, 6), (6, 8), (8, 10)]
    with pytest.raises(ValueError, match="5 ranks for 4 spills"):
        rows_of_rank(4, 0, 5)


def test_phases_come_from_logs() -> None:
    stamps = {"start": 0, "aftersetupGo": 1, "beforefillSpectra": 4, "afterfillSpectra": 6}
    lines = [f"main 0 NA {event} {stamp}" for event, stamp in stamps.items()]
    more = ["main 1 NA aftersetupGo 6", "main 1 NA beforefillSpectra 6.5"]
    more += ["main 1 NA afterfillSpectra 7", "main 0 NA afterreduce 9", "dset 4 /a/b endread 9"]
    found = rank_logs.times_of("\n".join([rank_logs.HEADER, *lines, *more]))
    assert (found.read, found.compute, found.total) == (3.5, 2.5, 9)
    with pytest.raises(ValueError, match="lacks the event"):
        rank_logs.times_of("\n".join([rank_logs.HEADER, *lines]))


def test_a_run_its_logs_and_its_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["columns", "--spills", "300", "--ranks", "1,2", "--storage", "gzip", "--rounds", "1"]
    words += ["--no-mpi", "--evtseq", "all,shared", "--data_dir", "data"]
    assert multitables_benchmark.main(words) == 0
    rows = rows_of("columns")
    assert len(rows) == 2 * 3
    folders = {path.name for path in Path("results/columns_logs").iterdir()}
    assert "gzip_2ranks_published_0" in folders
    for row in rows:
        assert float(row["value"]) == float(row["total"]) >= float(row["read"]) > 0
        assert len(row["rank_reads"].split()) == int(row["ranks"])
    kept = results.read("results", "columns")
    assert kept is not None
    shown = views(kept)
    assert [view.heading for view in shown] == ["Columns stored as gzip", "What was published"]
    assert [chart.kind for chart in shown[0].charts].count("boxes") == 1
    assert "published, shared" in capsys.readouterr().out
    assert multitables_benchmark.main([*words, "--resume"]) == 0
    assert rows_of("columns") == rows
    assert {path.name for path in Path("results/columns_logs").iterdir()} == folders
    assert multitables_benchmark.main([*words, "--ranks", "1"]) == 0
    left = {path.name for path in Path("results/columns_logs").iterdir()}
    assert left == {name for name in folders if "_1ranks_" in name}


def test_the_published_method_stands_beside_ours() -> None:
    rows = []
    for number in range(3):
        for who, seconds in (("published", 4.0 + number), ("multitables", 2.0)):
            row = {"storage": "gzip", "ranks": "2", "contender": who, "round": str(number)}
            row |= {"unit": "s", "read": str(seconds), "compute": "1.0", "total": "3.0"}
            row |= {"rank_reads": f"{seconds} 0.5", "rank_bytes": "3000000 1000000"}
            rows.append(row)
    view, _ = views(results.Kept("columns", rows, {}))
    (table,) = view.tables
    assert list(table.rows[0][:4]) == ["2", "published", "5 (4-6)", "1 (1-1)"]
    assert list(table.rows[0][6:8]) == ["2 (1-3)", "2.5x (2-3)"]
    assert list(table.rows[1][-3:]) == ["", "", ""]
    boxes = next(chart for chart in view.charts if chart.kind == "boxes")
    assert [found.median for _, found in boxes.series[1].points] == [2.0, 0.5] * 3
    failed = {"storage": "gzip", "ranks": 2, "contender": "published", "fault": "sums differ"}
    (table,) = views(results.Kept("columns", rows[1::2], {"faults": [failed]}))[1].tables
    assert list(table.rows[1][:3]) == ["2", "published", "FAILED"]


def test_wrong_data_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Oracle, "sums", [0.0] * (BINS[0] + 1))
    words = ["columns", "--spills", "50", "--ranks", "1", "--storage", "gzip", "--rounds", "1"]
    assert multitables_benchmark.main([*words, "--no-mpi"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_more_ranks_than_spills_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert multitables_benchmark.main(["columns", "--spills", "3", "--ranks", "4"]) == 2
    assert "4 ranks cannot share 3 spills" in capsys.readouterr().err
    assert not Path("results").exists()


def test_a_plot_of_boxes() -> None:
    pytest.importorskip("matplotlib")
    points = [("2 ranks", summary([value])) for value in (1.0, 2.0, 3.0)]
    svg = draw(Chart("boxes", "Boxes", "", "s", [Series("ours", points)], "boxes"))
    assert "2 ranks" in svg
    assert "ours" in svg


def test_without_a_row_there_is_no_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_one: Analysis) -> Any:
        raise WrongDataError("sums differ")

    monkeypatch.setattr(Analysis, "check", failing)
    words = ["columns", "--smoke", "--no-mpi", "--storage", "contiguous"]
    assert multitables_benchmark.main(words) == 1
    printed = capsys.readouterr().out
    assert "sums differ" in printed
    assert printed.endswith("no row could be measured: there are no results\n")
    assert not Path("results/multitables_report.html").exists()
