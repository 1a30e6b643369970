"""The headline: what it takes from rows, and that the README's copy is what stored rows say.

Law
---
1. Rows are chosen here and written by what writes those of true runs, but for the README's own.
"""

from __future__ import annotations

import importlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
import stored_runs

from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.results import ResultFile
from _multitables.benchmark.report import headline, publish
from _multitables.benchmark.report.tables import View, figure
from _multitables.benchmark.studies import STUDIES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STORED = [
    *(RESULTS / name for name in ("peers_warm", "peers", "random", "batches")),
    *sorted((RESULTS / "studies").iterdir()),
]

RATES: stored_runs.Rates = {
    ("queue", "none", 0): {1: (900, 1000, 1100), 2: (1800, 2000, 2200)},
    ("queue", "zlib", 3): {2: (600, 600, 600)},
    ("generator", "zlib", 3): {2: (900, 900, 900)},
}
SLABS: stored_runs.Rates = {
    ("slabs", "none", 0): {1: (800, 1000, 900)},
    ("slabs", "zlib", 3): {1: (300, 300, 300)},
}
BATCHES = tuple(
    ("loader", "zlib 3, chunks of 64 KiB", contender, "MB/s", (rate,))
    for contender, rate in (
        ("multitables shuffle=True", 800),  # mixed over a window, as no DataLoader does
        ("multitables TorchDataset", 900),
        ("multitables shuffle='full'", 500),
        ("DataLoader x2: h5py, a file for each worker", 40),
        ("DataLoader x2: h5py, sorted fancy indexing", 50),
        ("DataLoader x2: .npy mapped, rows", 700),
    )
)


def view_of(directory: Path) -> View | None:
    found = publish.sections(STUDIES, str(directory))
    return found[0].views[0] if found[0].kept.name == "headline" else None


def compared(directory: Path) -> View:
    stored_runs.keep_sweep(
        directory, {"multitables": RATES, "h5py read_direct": SLABS}, driver="buffered"
    )
    stored_runs.keep_targets(directory, BATCHES, (), study="batches")
    view = view_of(directory)
    assert view is not None
    return view


def test_each_side_is_at_its_best(tmp_path: Path) -> None:
    (table,) = compared(tmp_path).tables
    assert table.header == ["MB/s", "multitables", "h5py", "DataLoader"]
    assert table.rows == [
        ["stream, no compression", "2000", "900 (2.2x)", "-"],
        ["stream, zlib 3", "900", "300 (3.0x)", "-"],
        ["full shuffle, zlib 3", "500", "-", "50.0 (10x)"],
    ]


def test_the_plot_has_the_fastest_of_the_others(tmp_path: Path) -> None:
    ((series,),) = [chart.series for chart in compared(tmp_path).charts]
    points = dict(series.points)
    assert list(points) == [
        "stream, no compression / h5py",
        "stream, zlib 3 / h5py",
        "full shuffle, zlib 3 / DataLoader",
    ]
    plain = points["stream, no compression / h5py"]
    assert (plain.low, plain.median, plain.high) == (1.8, 2000 / 900, 2.75)


def test_where_nothing_is_compared_there_is_none(tmp_path: Path) -> None:
    stored_runs.keep_sweep(tmp_path, {"multitables": RATES}, driver="buffered")
    assert view_of(tmp_path) is None
    stored_runs.keep_sweep(tmp_path, {"multitables": RATES, "h5py": SLABS}, driver="direct")
    assert view_of(tmp_path) is None


def test_machines_are_named(tmp_path: Path) -> None:
    measured_on = compared(tmp_path).facts["measured on"]
    assert measured_on == (
        "Some 8-core CPU (x86_64), 8 of 8 cores, 64.0 GiB of memory, Python 3.11.7"
    )


def test_cold_streams_stand_beside_warm_ones(tmp_path: Path) -> None:
    for name, factor in (("warm", 1.0), ("cold", 0.25)):
        rates = {key: {2: (factor * 1000,)} for key in RATES}
        slabs = {key: {1: (300.0,)} for key in SLABS}
        stored_runs.keep_sweep(
            tmp_path / name, {"multitables": rates, "h5py read_direct": slabs}, "buffered", name
        )
    (view,) = publish.sections(STUDIES, *(str(tmp_path / one) for one in ("warm", "cold")))[0].views
    assert view.tables[0].rows == [
        ["stream, no compression", "1000", "300 (3.3x)"],
        ["stream, no compression, cold", "250", "300 (0.83x)"],
        ["stream, zlib 3", "1000", "300 (3.3x)"],
        ["stream, zlib 3, cold", "250", "300 (0.83x)"],
    ]
    (sentence,) = view.sentences
    assert sentence == (
        "Not faster than others here: stream, no compression, cold (0.83x h5py); "
        "stream, zlib 3, cold (0.83x h5py)."
    )


def test_settings_have_their_range_and_not_their_best(tmp_path: Path) -> None:
    rates = {"run-1": (50.0, 100.0), "run-2": (300.0, 100.0), "run-3": (200.0, 80.0)}
    with ResultFile(
        str(tmp_path),
        "iotest",
        ("study", headline.SETTING, "contender", "value"),
        stored_runs.FACTS,
    ) as file:
        for setting, (ours, theirs) in rates.items():
            for contender, value in (("multitables x1", ours), ("h5py x1", theirs)):
                file.add(configuration=setting, contender=contender, value=value)
    kept = results.read(str(tmp_path), "iotest")
    assert kept is not None
    ((view,),) = [one.views for one in headline.sections([kept])]
    assert view.tables[0].rows == [["I/O test, range", "50.0-300", "80.0-100 (0.50-3.0x)"]]
    ((_, ratio),) = view.charts[0].series[0].points
    assert (ratio.low, ratio.median, ratio.high) == (0.5, 2.5, 3.0)
    assert view.sentences == [
        "Not faster than others here: I/O test, range (0.50x h5py at worst; in 1 of 3 settings)."
    ]


# ---- the README's copy


def stored() -> View:
    every = [results.read(str(place), name) for place in STORED for name in STUDIES]
    (section,) = headline.sections([one for one in every if one])
    return section.views[0]


def test_the_readme_has_what_the_stored_rows_say() -> None:
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    assert headline.in_readme(text, stored()) == text, f"run: {headline.COMMAND}"
    names = [row[0] for row in stored().tables[0].rows]
    assert 8 <= len(names) <= len(headline.WORKLOADS)
    assert [f"{name}, cold" in names for name in names[:6:2]] == [True] * 3


def test_the_readme_is_whole_where_it_is_shown_without_this_folder() -> None:
    core = pytest.importorskip("docutils.core", reason="docutils comes with the extra docs")
    nodes = importlib.import_module("docutils.nodes")
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    page = core.publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2})
    pictures = [one["uri"] for one in page.findall(nodes.image)]
    assert f"{headline.PICTURES}/headline.svg" in pictures
    for uri in pictures:
        assert uri.startswith("https://")
    (table,) = page.findall(nodes.table)
    assert not list(table.findall(nodes.bullet_list))
    assert "-" in {one.astext() for one in table.findall(nodes.entry)}
    for uri in (one["refuri"] for one in page.findall(nodes.reference) if "refuri" in one):
        assert "://" in uri


def test_the_first_lines_say_what_is_true() -> None:
    """Badges and links are of files and facts that are there, and the number is the table's."""
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    head = text[: text.index(".. headline")]
    (zlib,) = [row for row in stored().tables[0].rows if row[0] == "stream, zlib 3"]
    (times,) = re.findall(r"come ([0-9.]+) times as fast as through h5py", head)
    assert f"({times}x)" in zlib[2]
    assert "on Linux" in head
    assert "pip install multitables" in head
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in ("Documentation", "Changelog", "Issues"):
        assert f"`{name} <{project['urls'][name]}>`_" in head
    for workflow in re.findall(r"actions/workflows/([^/\s]+)", head):
        assert (ROOT / ".github" / "workflows" / workflow).is_file()
    assert project["license"] == "MIT" in head
    pythons = sorted(
        int(one.rpartition(".")[2]) for one in project["classifiers"] if ":: 3." in one
    )
    assert f"python-3.{pythons[0]}%20to%203.{pythons[-1]}" in head
    assert project["requires-python"] == f">=3.{pythons[0]}"
    assert pythons == list(range(pythons[0], pythons[-1] + 1))


def test_the_plot_beside_the_readme_has_the_same_numbers() -> None:
    svg = (ROOT / "docs" / "headline.svg").read_text(encoding="utf-8")
    said = {
        "".join(one.itertext()) for one in ET.fromstring(svg).iter() if one.tag.endswith("text")
    }
    (chart,) = stored().charts
    for word, ratio in chart.series[0].points:
        assert {word, figure(ratio.median)} <= said


def test_the_command_replaces_table_and_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra plots")
    (tmp_path / "docs").mkdir()
    compared(tmp_path / "rows")
    readme = tmp_path / "README.rst"
    readme.write_text("before\n\n.. headline\n\nold\n\n.. end of the headline\n\nbehind\n")
    headline.main(str(readme), str(tmp_path / "rows"))
    text = readme.read_text()
    assert text.startswith("before\n\n.. headline\n\n=====")
    assert text.endswith("\n.. end of the headline\n\nbehind\n")
    assert "\nold\n" not in text
    assert "zlib 3 / DataLoader" in (tmp_path / "docs" / "headline.svg").read_text()
    readme.write_text("no place")
    with pytest.raises(ValueError, match="0 places"):
        headline.main(str(readme), str(tmp_path / "rows"))


# ---- the pages of devices

BENCHMARK_PAGES = sorted((ROOT / "docs" / "benchmark").glob("*.rst"))
#: What fits beside each other on a page that is 800 pixels wide, in letters.
PAGE_LETTERS = 105
COLUMN_LETTERS = 2  # between two columns


@pytest.mark.parametrize("page", BENCHMARK_PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_its_conclusion(page: Path) -> None:
    """Text stands between the title and the first rows, and the index links the page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert set(lines[0]) == {"="}
    assert lines[4][:1].isalpha()
    assert any(line.startswith(".. ") for line in lines[6:])
    index = (ROOT / "docs" / "benchmark.rst").read_text(encoding="utf-8")
    assert f"\n   benchmark/{page.stem}\n" in index


@pytest.mark.parametrize("page", BENCHMARK_PAGES, ids=lambda page: page.stem)
def test_no_table_is_wider_than_its_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for directory in re.findall(r"^\.\. stored-results:: (\S+)$", text, re.MULTILINE):
        tables = [
            table
            for section in publish.sections(STUDIES, str(RESULTS / directory))
            for view in section.views
            for table in view.tables
        ]
        assert tables
        for table in tables:
            columns = zip(table.header, *table.rows, strict=True)
            assert sum(_letters(column) for column in columns) <= PAGE_LETTERS, table.title


def _letters(column: Sequence[str]) -> int:
    """The width of a column: words of headers are broken, and a spread is below its median."""
    title, *cells = column
    words = [*title.split(), *(part for cell in cells for part in cell.split(" ("))]
    return min(max(map(len, words)), 36) + COLUMN_LETTERS
