"""Charts as they are drawn: what stands in the SVG, and that it is the same every time.

Law
---
1. It looks at what a reader gets, the SVG's words and shapes, and at no object of matplotlib.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from _multitables.benchmark.harness.rounds import Summary, summary
from _multitables.benchmark.report.tables import Chart, Series

pytest.importorskip("matplotlib", reason="matplotlib comes with the extra plots")

from _multitables.benchmark.report import charts

FLAT = Summary(100.0, 100.0, 100.0, 1)
SPREAD = Summary(100.0, 60.0, 130.0, 3)


def lines(found: Summary = SPREAD, number: int = 2) -> Chart:
    series = [
        Series(f"line {i}", [(1.0, found), (2.0, found), (6.0, found)]) for i in range(number)
    ]
    return Chart("some_lines", "A & B, $x$", "processes", "MB/s", series)


def bars(found: Summary = SPREAD, groups: int = 1) -> Chart:
    points = [("multitables queue", found), ("h5py <x>", summary([40.0]))]
    series = [Series(f"group {i}", points) for i in range(groups)]
    return Chart("some_bars", "Bars", "contender", "MB/s", series, "bars", "multitables")


def words(svg: str) -> list[str]:
    """The texts of a drawing, which must be whole XML."""
    return [
        "".join(one.itertext()) for one in ET.fromstring(svg).iter() if one.tag.endswith("text")
    ]


@pytest.mark.parametrize("chart", [lines(), bars(), bars(groups=2), lines(number=8)])
def test_a_chart_is_the_same_bytes_every_time(chart: Chart) -> None:
    first = charts.draw(chart)
    assert charts.draw(chart) == first
    assert "dc:date" not in first
    assert "atplotlib v" not in first


def test_words_stay_words() -> None:
    said = words(charts.draw(lines()))
    for word in ("A & B, $x$", "processes", "MB/s", "line 0", "line 1", "1", "2", "6", "0"):
        assert word in said
    said = words(charts.draw(bars()))
    for word in ("Bars", "multitables queue", "h5py <x>", "100", "40.0", "MB/s", "0"):
        assert word in said


@pytest.mark.parametrize("make", [lines, bars])
def test_minimum_and_maximum_are_drawn(make: object) -> None:
    assert callable(make)
    spread, flat, other = (
        charts.draw(make(found)) for found in (SPREAD, FLAT, Summary(100.0, 80.0, 130.0, 3))
    )
    assert len({spread, flat, other}) == 3


def test_lines_differ_without_colour() -> None:
    svg = charts.draw(lines(number=7))
    markers = set(re.findall(r'<use xlink:href="#(m[0-9a-f]+)"', svg))
    assert len(markers) >= 7
    assert "stroke-dasharray" in charts.draw(lines(number=7))


def test_what_stands_out_has_another_colour() -> None:
    svg = charts.draw(bars())
    assert svg.count(f"fill: {charts.PALE}") == 1
    assert svg.count(f"fill: {charts.COLOURS[0].lower()}") == 1


@pytest.mark.parametrize(
    "chart",
    [
        Chart("empty", "t", "x", "y", []),
        Chart("no_points", "t", "x", "y", [Series("a", [])]),
        Chart("no_bars", "t", "x", "y", [Series("a", [])], "bars"),
        Chart("no_ratios", "t", "x", "y", [Series("a", [])], "ratios"),
        Chart(
            "slower", "t", "x", "y", [Series("a", [("w", Summary(0.5, 0.4, 20.0, 3))])], "ratios"
        ),
        Chart("zero", "t", "x", "y", [Series("a", [(1.0, Summary(0.0, 0.0, 0.0, 1))])]),
        Chart("below", "t", "x", "y", [Series("a", [("w", Summary(-1.0, -2.0, 0.0, 3))])], "bars"),
    ],
    ids=lambda chart: chart.name,
)
def test_odd_charts_can_be_drawn(chart: Chart) -> None:
    assert "t" in words(charts.draw(chart))


def test_the_users_settings_are_neither_used_nor_changed() -> None:
    import matplotlib as mpl

    before = charts.draw(lines())
    with mpl.rc_context({"axes.facecolor": "red", "lines.linewidth": 9.0, "font.size": 30.0}):
        mine = dict(mpl.rcParams)
        assert charts.draw(lines()) == before
        assert dict(mpl.rcParams) == mine


# ---- what readers see


@pytest.mark.parametrize("span", [(0.9, 1.3), (1.0, 4.0), (0.4, 14.0), (0.9, 180.0)])
def test_ratios_have_plain_ticks_at_any_span(span: tuple[float, float]) -> None:
    low, high = span
    points = [("slow", Summary(low, low, low, 1)), ("fast", Summary(high, high, high, 1))]
    said = words(charts.draw(Chart("r", "t", "x", "times", [Series("a", points)], "ratios")))
    assert not any("mathdefault" in word or "$" in word for word in said)
    assert len({"0.5", "1", "2", "5", "10", "100"} & set(said)) >= 2


def test_long_titles_and_words_are_broken_into_lines() -> None:
    title = "Peers at their best number of processes, " + "with a long name of data, " * 4
    word = "multitables, batches mixed over a window, direct queue, x2, blosc:lz4 5"
    chart = Chart("long", title, "x", "y", [Series("a", [(word, FLAT)])], "bars")
    svg = charts.draw(chart)
    said = words(svg)
    assert all(len(one) <= charts.TITLE_LETTERS for one in said)
    assert " ".join(one for one in said if one in title) == title.strip()
    assert " ".join(one for one in said if one in word and not one.isdigit()) == word
    # the title begins at the left edge, and each line of it ends inside of the drawing
    width = float(re.search(r'viewBox="0 0 ([0-9.]+) ', svg)[1])  # type: ignore[index]
    for one in ET.fromstring(svg).iter():
        if one.tag.endswith("text") and "".join(one.itertext()) in title:
            place = " ".join(one.attrib.values())
            left = float(re.search(r"translate\(([0-9.]+)", place)[1])  # type: ignore[index]
            assert left < 0.05 * width


def test_legends_have_the_order_of_the_series() -> None:
    rising = [
        Series(f"level {n}", [(1.0, FLAT), (2.0, Summary(n + 1.0, n + 1.0, n + 1.0, 1))])
        for n in (0, 3, 9)
    ]
    for series in (rising, rising[::-1]):
        said = words(charts.draw(Chart("legend", "t", "x", "y", series)))
        assert [one for one in said if one.startswith("level")] == [one.label for one in series]
