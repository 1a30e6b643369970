"""What a study shows: its tables, its files beside the rows; and all of it made again.

Law
---
1. Everything is made from kept rows, the same from the same rows; the rows stay as they are.
2. Nothing that goes wrong here makes a finished run fail.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stored_runs
from html_reader import SVG, Reader
from runs import case_of

import multitables_benchmark
from _multitables.benchmark.contract import Measurement, Sample
from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.rounds import summary
from _multitables.benchmark.report import charts, html, parquet, publish
from _multitables.benchmark.report.tables import View, figure
from _multitables.benchmark.studies import STUDIES
from _multitables.benchmark.studies.frame import Case
from _multitables.benchmark.studies.setting import Setting
from _multitables.benchmark.studies.targets import parts as target_parts
from _multitables.benchmark.studies.views import views


def kept(directory: Path, name: str) -> results.Kept:
    found = results.read(str(directory), name)
    assert found is not None
    return found


def views_of_targets(directory: Path, **options: Any) -> list[View]:
    stored_runs.keep_targets(directory, **options)
    return views(kept(directory, "targets"))


def everything_below(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


# ---- the views of a study of targets


def test_each_dataset_of_a_part_has_a_table_with_median_spread_unit_and_repeats(
    tmp_path: Path,
) -> None:
    views = {view.heading: view for view in views_of_targets(tmp_path)}
    assert list(views) == ["Verdicts", "Streams", "Latency"]
    zlib, plain = views["Streams"].tables
    assert zlib.title.startswith("zlib 3, page cache warm; MB/s = 10^6 bytes")
    assert zlib.header == ["contender", "MB/s", "multitables queue x2 / it", "repeats"]
    assert zlib.rows == [
        ["multitables queue x2", "1100 (1000-1200)", "", "3"],
        ["h5py <read_direct>", "425 (400-450)", "2.59x (2.5-2.67)", "3"],
    ]
    assert plain.rows == [["multitables queue x2", "14000", "1"]]
    assert views["Latency"].tables[0].rows == [["multitables: get()", "0.6 (0.5-0.7)", "3"]]
    assert views["Streams"].facts == stored_runs.FACTS


def test_what_can_be_compared_is_plotted_with_its_spread(tmp_path: Path) -> None:
    drawn = [chart for view in views_of_targets(tmp_path) for chart in view.charts]
    (chart,) = drawn  # a bar alone compares nothing
    assert (chart.name, chart.kind, chart.y_label) == ("targets_streams_zlib_3", "bars", "MB/s")
    assert dict(chart.series[0].points)["h5py <read_direct>"] == summary([400, 450, 425])


def test_what_failed_and_what_was_left_out_stands_first(tmp_path: Path) -> None:
    faults = [{"part": "streams", "contender": "x", "fault": "wrong rows"}]
    left_out = {"h5py": {"pip install h5py": ["streams, zlib 3"]}}
    (first, *_) = views_of_targets(tmp_path, targets=(), faults=faults, left_out=left_out)
    assert first.sentences == [
        "FAILED, so it has no number: streams, contender x: wrong rows.",
        "Not measured: h5py (streams, zlib 3): pip install h5py",
    ]


def test_rows_without_their_json_file_can_still_be_shown(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path)
    (tmp_path / "multitables_targets.json").unlink()
    assert [view.heading for view in views(kept(tmp_path, "targets"))] == ["Streams", "Latency"]
    assert publish.publish(str(tmp_path), STUDIES, say=lambda _line: None).failed == []


# ---- tables as text


@pytest.mark.parametrize(
    ("value", "text"),
    [(14043.4, "14043"), (99.96, "100.0"), (20.55, "20.6"), (0.04761, "0.0476"), (-3.0, "-3")],
)
def test_figures_of_any_size(value: float, text: str) -> None:
    assert figure(value) == text


# ---- what is written beside the rows


def test_everything_is_written_beside_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_runs.keep_targets(tmp_path)
    stored_runs.keep_sweep(tmp_path, {"multitables": stored_runs.RISING})
    before = everything_below(tmp_path)
    monkeypatch.setattr(charts, "can_draw", lambda: True)
    monkeypatch.setattr(charts, "draw", lambda _chart: SVG)
    monkeypatch.setattr(parquet, "can_write", lambda: True)
    monkeypatch.setattr(parquet, "file_of", lambda rows, _words: str(len(rows)).encode())
    lines: list[str] = []
    written = publish.publish(str(tmp_path), STUDIES, say=lines.append).written
    after = everything_below(tmp_path)
    assert {name: after[name] for name in before} == before
    assert sorted(written) == sorted(str(tmp_path / name) for name in after.keys() - before.keys())
    assert after["targets_streams_zlib_3.svg"] == SVG.encode()
    assert after["multitables_targets.parquet"] == b"10"
    text = after["multitables_targets_tables.txt"].decode()
    assert text.startswith("machine      Some 8-core CPU")
    assert re.search(r"\nmultitables queue x2 +1100 \(1000-1200\) +3\n", text)
    assert text.count("Some 8-core CPU") == 1
    assert after["multitables_report.html"].count(b"<svg ") >= 3
    assert lines == [f"report: {tmp_path / 'multitables_report.html'}"]

    publish.publish(str(tmp_path), STUDIES, say=lines.append)
    assert everything_below(tmp_path) == after


def test_what_is_not_installed_is_said_in_one_line(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path)
    lines: list[str] = []
    written = publish.publish(str(tmp_path), STUDIES, say=lines.append).written
    assert any(name.endswith(".html") for name in written)
    assert not any(name.endswith((".svg", ".parquet")) for name in written)
    assert lines[0] == (
        "left out: plots (matplotlib is missing); Parquet (pyarrow is missing). To have them: "
        "pip install multitables[bench]"
    )


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_arguments: Any) -> Any:
        raise error

    return fail


def test_a_plot_that_fails_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_runs.keep_targets(tmp_path)
    monkeypatch.setattr(charts, "can_draw", lambda: True)
    monkeypatch.setattr(charts, "draw", failing(RuntimeError("no fonts")))
    lines: list[str] = []
    made = publish.publish(str(tmp_path), STUDIES, say=lines.append)
    assert made.failed == ["the plot targets_streams_zlib_3"]
    assert lines[0] == ("the plot targets_streams_zlib_3 could not be made: RuntimeError: no fonts")
    assert str(tmp_path / "multitables_report.html") in made.written


@pytest.mark.parametrize("error", [RuntimeError("rows from elsewhere"), KeyboardInterrupt()])
def test_neither_an_error_nor_ctrl_c_comes_out(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_runs.keep_targets(tmp_path)
    before = everything_below(tmp_path)
    monkeypatch.setattr(STUDIES["targets"], "views", failing(error))
    lines: list[str] = []
    assert publish.publish(str(tmp_path), STUDIES, say=lines.append).written == []
    assert len(lines) == 1
    assert everything_below(tmp_path) == before


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_runs.keep_targets(tmp_path)
    publish.publish(str(tmp_path), STUDIES, say=lambda _line: None)
    before = everything_below(tmp_path)
    monkeypatch.setattr("os.replace", failing(OSError(28, "No space left on device")))
    made = publish.publish(str(tmp_path), STUDIES, say=lambda _line: None)
    assert "the HTML report" in made.failed
    assert everything_below(tmp_path) == before


def test_a_run_ends_with_its_report_and_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["targets", "--smoke", "--dataset", "none", "--processes", "1", "--part", "latency"]
    assert multitables_benchmark.main(words) == 0
    assert "report: results/multitables_report.html" in capsys.readouterr().out
    assert "get() and release" in Path("results/multitables_report.html").read_text()
    monkeypatch.setattr(html, "document", failing(RuntimeError("broken")))
    assert multitables_benchmark.main(words) == 0
    assert "the HTML report could not be made: RuntimeError: broken" in capsys.readouterr().out


def test_an_interrupted_run_has_its_report_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> Sample:
        raise KeyboardInterrupt

    def latency(_setting: Setting) -> list[Case]:
        return [
            case_of(Measurement("x", lambda: Sample(0.5))),
            case_of(Measurement("y", interrupted)),
        ]

    monkeypatch.setitem(target_parts.PARTS, "latency", latency)
    assert multitables_benchmark.main(["targets", "--smoke", "--part", "latency"]) == 130
    text = Path("results/multitables_report.html").read_text()
    assert "This run was interrupted." in text
    assert "0.5" in text


# ---- made again


def test_the_report_is_made_again_from_the_rows_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_runs.keep_targets(tmp_path / "run")
    publish.publish(str(tmp_path / "run"), STUDIES, say=lambda _line: None)
    first = everything_below(tmp_path / "run")
    for name in first:
        if name not in ("multitables_targets.csv", "multitables_targets.json"):
            (tmp_path / "run" / name).unlink()
    assert multitables_benchmark.main(["report", "run"]) == 0
    assert everything_below(tmp_path / "run") == first
    assert "report: run/multitables_report.html" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_directory_without_results_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert multitables_benchmark.main(["report", name]) == 2
    assert f"'{name}' has no file multitables_STUDY.csv with rows" in capsys.readouterr().out
    assert [*tmp_path.iterdir(), *(tmp_path / "empty").iterdir()] == [tmp_path / "empty"]


def test_what_could_not_be_made_again_is_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_runs.keep_targets(tmp_path)
    monkeypatch.setattr(html, "document", failing(RuntimeError("broken")))
    assert multitables_benchmark.main(["report", "."]) == 2
    assert "broken" in capsys.readouterr().out


# ---- Parquet


def test_columns_are_numbers_where_all_that_stands_in_them_is() -> None:
    rows = [
        {"n": "1", "rate": "1.5", "limit": "", "who": "a", "python": "3", "mixed": "1"},
        {"n": "2", "rate": "2", "limit": "", "who": "", "python": "3", "mixed": "x"},
    ]
    assert parquet.typed(rows, words=["python"]) == {
        "n": [1, 2],
        "rate": [1.5, 2.0],
        "limit": [None, None],
        "who": ["a", None],
        "python": ["3", "3"],
        "mixed": ["1", "x"],
    }


def test_a_parquet_file_has_the_rows_with_types(tmp_path: Path) -> None:
    read = pytest.importorskip("pyarrow.parquet", reason="pyarrow comes with the extra bench")
    stored_runs.keep_sweep(tmp_path, {"multitables": stored_runs.RISING})
    found = kept(tmp_path, "sweep")
    content = parquet.file_of(found.rows, found.more["facts"])
    table = read.ParquetFile(io.BytesIO(content), pre_buffer=False).read(use_threads=False)
    assert table.column_names == list(found.rows[0])
    assert table["value"].to_pylist() == [float(row["value"]) for row in found.rows]
    assert table["n_procs"].to_pylist() == [int(row["n_procs"]) for row in found.rows]
    assert set(table["memory"].to_pylist()) == {"64.0 GiB"}
    assert set(table["limit_mb_per_s"].to_pylist()) == {None}
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert (types["limit_mb_per_s"], types["n_procs"]) == ("double", "int64")
    assert types["python"] == "string"


# ---- plots, for real


@pytest.mark.usefixtures("drawn")
def test_plots_are_drawn_and_the_same_again(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path)
    made = publish.publish(str(tmp_path), STUDIES, say=lambda _line: None)
    assert made.failed == []
    assert "multitables queue x2" in (tmp_path / "targets_streams_zlib_3.svg").read_text()
    found = Reader((tmp_path / publish.REPORT).read_text())
    assert len(found.ids) == len(set(found.ids))
    assert "multitables queue x2" in found.said

    before = everything_below(tmp_path)
    publish.publish(str(tmp_path), STUDIES, say=lambda _line: None)
    assert everything_below(tmp_path) == before
