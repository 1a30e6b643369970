"""The documentation's page of results: it is what the kept rows say, whatever they are.

Law
---
1. The page in the repository is the one that its results make; no number of it is typed by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import stored_runs

import multitables_benchmark
from _benchmark.report import docs_page, publish

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PUBLISHED = DOCS / "results" / docs_page.PUBLISHED


def made(directory: Path) -> str:
    return docs_page.text_of(str(directory), str(directory.parent))


def some_runs(directory: Path) -> Path:
    stored_runs.keep_sweep(directory / "idle_machine", stored_runs.RISING)
    stored_runs.keep_targets(directory / "idle_machine")
    stored_runs.keep_sweep(
        directory / "simulated_disk", stored_runs.FALLING, device_kind="simulated HDD"
    )
    (directory / "published").mkdir()
    (directory / "published" / "multitables_2.csv").write_bytes(PUBLISHED.read_bytes())
    return directory


# ---- the page in the repository


def test_the_page_is_what_its_results_make() -> None:
    text = docs_page.text_of(str(DOCS / "results"), str(DOCS))
    assert (DOCS / "benchmark.rst").read_text(encoding="utf-8") == text, f"run: {docs_page.COMMAND}"


def test_every_plot_that_the_page_names_is_there() -> None:
    names = docs_page.image_names((DOCS / "benchmark.rst").read_text(encoding="utf-8"))
    assert [name for name in names if not (DOCS / name).is_file()] == []
    runs = docs_page.run_names(str(DOCS / "results"))
    sections = [one for run in runs for one in publish.sections(str(DOCS / "results" / run))]
    charts = [chart for one in sections for view in one.views for chart in view.charts]
    assert len(names) == len(charts)


# ---- any page


def test_a_page_without_runs_has_the_published_tables() -> None:
    text = docs_page.page([], docs_page.read_published(str(DOCS / "results")))
    assert "Published, more processes hurt on SATA III 7200 RPM HDD, in 6 of 6 series" in text
    assert '"NVMe SSD","2.x, published","0","1000","1776"' in text
    assert "Measured here" not in text
    assert docs_page.image_names(text) == []


def test_a_page_without_anything() -> None:
    text = docs_page.page([], [])
    assert "Conclusion" not in text
    assert "published tables\n=" not in text


def test_runs_stand_beside_what_was_published(tmp_path: Path) -> None:
    text = made(some_runs(tmp_path / "results"))
    lines = text.splitlines()
    start = lines.index(".. csv-table:: blosc, direct queue: complevel (down), processes (across)")
    table = lines[start + len(docs_page.OPTIONS) + 5 :]
    assert table[0].startswith('   "Idle machine: NVMe SSD","direct","0","1000","1900","","1950"')
    assert table[1].startswith('   "Idle machine: NVMe SSD","direct","9","400"')
    assert table[2].startswith('   "Simulated disk: simulated HDD","direct","0","98","97"')
    assert table[3].startswith('   "NVMe SSD","2.x, published","0","1000","1776"')
    for part in (
        "more processes hurt on Simulated disk: simulated HDD, in 1 of 1 series",
        "more processes never hurt on Idle machine: NVMe SSD: no number",
        '   "machine","Some 8-core CPU (x86_64)"',
        '   "device","nvme0n1 (A\\* disk\\_)"',
        "Missed: zlib 3 / h5py is 2.6x",
        ".. image:: results/idle_machine/targets_streams_zlib_3.svg",
    ):
        assert part in text


def test_the_conclusion_changes_with_the_rows(tmp_path: Path) -> None:
    runs = some_runs(tmp_path / "results")
    before = made(runs)
    better = {("queue", "none", 0): {1: (97, 98, 99), 2: (97, 98, 99), 6: (96, 97, 98)}}
    stored_runs.keep_sweep(runs / "simulated_disk", better, device_kind="simulated HDD")
    after = made(runs)
    assert "Measured here, more processes hurt on Simulated disk" in before
    assert "Measured here, more processes hurt" not in after
    assert "Simulated disk: simulated HDD (every number of them is within 5 %)" in after
    assert '"98 with 1","98 with 1","1.0x","1","37%","1 of 1"' in before
    assert '"98 with 1","98 with 1","1.0x","1","none","0 of 1"' in after


def test_the_command_writes_the_page_and_its_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = some_runs(tmp_path / "results")
    monkeypatch.setattr("_benchmark.report.charts.can_draw", lambda: True)
    monkeypatch.setattr(
        "_benchmark.report.charts.draw", lambda chart: _Drawing(f"<svg>{chart.name}")
    )
    assert multitables_benchmark.main(["report", "results", "--docs", "page.rst"]) == 0
    text = (tmp_path / "page.rst").read_text()
    assert text == made(runs)
    names = docs_page.image_names(text)
    assert len(names) == 4
    for name in names:
        assert (tmp_path / name).read_text() == f"<svg>{Path(name).stem}"
    assert list(runs.rglob("*.png")) == []
    assert "written: page.rst" in capsys.readouterr().out


def test_plots_that_cannot_be_drawn_are_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some_runs(tmp_path / "results")
    assert multitables_benchmark.main(["report", "results", "--docs", "page.rst"]) == 2
    out = capsys.readouterr().out
    assert "4 plots that it names are not there, results/idle_machine/sweep_0_" in out
    assert "pip install multitables[bench]" in out


class _Drawing:
    def __init__(self, svg: str) -> None:
        self.svg = svg


def test_the_page_is_markup_without_a_fault(tmp_path: Path) -> None:
    docutils = pytest.importorskip("docutils.core", reason="docutils comes with the extra docs")
    text = made(some_runs(tmp_path / "results")).replace(":doc:", "")  # that role is Sphinx'
    settings = {"halt_level": 2, "report_level": 2, "doctitle_xform": False}
    document = docutils.publish_doctree(text, settings_overrides=settings)
    sections = [one for one in document.findall() if one.tagname == "section"]
    titles = [one.children[0].astext() for one in sections]
    assert titles[:3] == ["Benchmark", "Conclusion", "Beside the published tables"]
    assert "Simulated disk" in titles
