"""The headline: what it takes from rows, and that the README's copy is what stored rows say.

Law
---
1. Rows are chosen here and written by what writes those of true runs, but for the README's own.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import stored_runs

from _benchmark.harness import results
from _benchmark.report import headline, publish
from _benchmark.report.tables import View, figure
from _benchmark.studies import STUDIES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STORED = [RESULTS / "headline", *sorted((RESULTS / "studies").iterdir())]

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
        ("multitables shuffle=True", 500),
        ("multitables TorchDataset", 400),
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
        ["shuffled batches, zlib 3", "500", "-", "50.0 (10x)"],
    ]


def test_the_plot_has_the_fastest_of_the_others(tmp_path: Path) -> None:
    ((series,),) = [chart.series for chart in compared(tmp_path).charts]
    points = dict(series.points)
    assert list(points) == [
        "stream, no compression / h5py",
        "stream, zlib 3 / h5py",
        "shuffled batches, zlib 3 / DataLoader",
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
        "Some 8-core CPU (x86_64), 8 of 8 cores, 64.0 GiB of memory, Python 3.11.7, page cache warm"
    )


# ---- the README's copy


def stored() -> View:
    every = [results.read(str(place), name) for place in STORED for name in STUDIES]
    (section,) = headline.sections([one for one in every if one])
    return section.views[0]


def test_the_readme_has_what_the_stored_rows_say() -> None:
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    assert headline.in_readme(text, stored()) == text, f"run: {headline.COMMAND}"
    assert 3 <= len(stored().tables[0].rows) <= 12


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
    assert "old" not in text
    assert "zlib 3 / DataLoader" in (tmp_path / "docs" / "headline.svg").read_text()
    readme.write_text("no place")
    with pytest.raises(ValueError, match="0 places"):
        headline.main(str(readme), str(tmp_path / "rows"))
