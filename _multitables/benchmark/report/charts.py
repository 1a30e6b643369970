"""Draws charts as SVG.

Law
---
1. A chart is a value of `tables`. It is drawn as it is: no number is changed or left out.
2. Every median has its minimum and maximum beside it. Every axis of values holds 0; that of ratios,
   which is logarithmic, holds 1.
3. The same chart gives the same bytes, as long as matplotlib is the same.
4. Nobody has to tell colours apart to read it: markers, lines and words differ too.
5. matplotlib is imported here and nowhere else, when something is drawn, and its global state
   (pyplot, rcParams) stays as it was.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from _multitables.benchmark.report.tables import Chart, Series, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours for all kinds of sight (https://jfly.uni-koeln.de/color/), without yellow
#: and black, which are invisible on a light or a dark page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("solid", (0, (5, 2)), (0, (1.2, 1.5)), (0, (5, 1.5, 1, 1.5)))
INK, FAINT, GRID, PAPER, PALE = "#24292f", "#59636e", "#d8dee4", "#ffffff", "#a8b3bf"
FONTS = "font-family: system-ui, 'DejaVu Sans', sans-serif"
WIDTH = 8.0  # inches; SVG has 72 points to the inch
TITLE_LETTERS, WORD_LETTERS = 76, 40  # of a line of the title, and of a word beside a bar
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # words stay words: searchable, and in the font of the page
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": GRID,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "text.parse_math": False,
    "figure.constrained_layout.w_pad": 0.12,
    "figure.constrained_layout.h_pad": 0.12,
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(chart: Chart) -> str:
    """The SVG of one chart.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    import matplotlib as mpl

    with mpl.rc_context({**STYLE, "svg.hashsalt": chart.name}):
        drawn = {"lines": _lines, "boxes": _boxes}.get(chart.kind, _bars)(chart)
        svg = io.BytesIO()
        # who made it and when would change the file with every release and every day
        told = {"Title": chart.title, "Date": None, "Creator": None}
        drawn.savefig(svg, format="svg", metadata=told)
    text = re.sub(r"font-family: [^;\"]*", FONTS, svg.getvalue().decode())
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _figure(chart: Chart, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(WIDTH, height), layout="constrained", facecolor=PAPER)
    axes = drawn.add_subplot()
    axes.set_facecolor("none")
    # over the whole drawing: over the axes it would begin behind the words of bars, and be cut
    title = textwrap.fill(chart.title, TITLE_LETTERS)
    drawn.suptitle(title, x=0.015, ha="left", fontsize=11.5, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0, pad=6)
    axes.set_axisbelow(True)
    return drawn, axes


def _errors(points: Sequence[tuple[Any, Any]]) -> list[list[float]]:
    """How far minimum and maximum lie from each median, as matplotlib wants them."""
    return [
        [found.median - found.low for _, found in points],
        [found.high - found.median for _, found in points],
    ]


def _lines(chart: Chart) -> Figure:
    """Values over numbers."""
    drawn, axes = _figure(chart, 4.2)
    numbers = sorted({float(x) for one in chart.series for x, _ in one.points})
    for number, one in enumerate(chart.series):
        if not one.points:
            continue
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(
            [float(x) + _aside(number, chart.series, numbers) for x, _ in one.points],
            [found.median for _, found in one.points],
            yerr=_errors(one.points),
            label=one.label,
            color=colour,
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            linewidth=1.7,
            marker=MARKERS[number % len(MARKERS)],
            markersize=5.5,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            elinewidth=1.0,
            capsize=2.5,
            capthick=1.0,
        )
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_xticks(numbers, [f"{number:g}" for number in numbers])
    axes.set_ylim(_least(chart) * 1.06, _most(chart) * 1.06)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.spines["left"].set_visible(False)
    _legend(drawn, axes)
    return drawn


def _aside(number: int, series: Sequence[Series], numbers: Sequence[float]) -> float:
    """A step to the side, so that the bars of different lines do not hide each other."""
    if len(series) < 2 or len(numbers) < 2:
        return 0.0
    least_gap = min(after - before for before, after in itertools.pairwise(numbers))
    room = min(0.16 * least_gap, 0.008 * len(series) * (numbers[-1] - numbers[0]))
    return room * (number / (len(series) - 1) - 0.5)


def _bars(chart: Chart) -> Figure:
    """Values over words: horizontal bars, so the words can be long, in their order from the top."""
    from matplotlib.ticker import LogLocator

    words = list(dict.fromkeys(str(x) for one in chart.series for x, _ in one.points))
    groups = len(chart.series)
    drawn, axes = _figure(chart, 1.2 + 0.34 * len(words) * max(1.0, 0.62 * groups))
    thickness = 0.66 / max(1, groups)
    base = 1.0 if chart.kind == "ratios" else 0.0
    for number, one in enumerate(chart.series):
        places = [
            words.index(str(x)) + (number - (groups - 1) / 2) * thickness for x, _ in one.points
        ]
        axes.barh(
            places,
            [found.median - base for _, found in one.points],
            left=base,
            height=thickness * 0.92,
            xerr=_errors(one.points),
            label=one.label,
            color=[_bar_colour(chart, number, str(x)) for x, _ in one.points],
            error_kw={"ecolor": INK, "elinewidth": 1.0, "capsize": 2.5, "capthick": 1.0},
        )
        for place, (_, found) in zip(places, one.points, strict=True):
            axes.annotate(
                figure(found.median),
                (max(found.high, found.median), place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                color=INK,
                fontsize=9,
            )
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_yticks(range(len(words)), [textwrap.fill(word, WORD_LETTERS) for word in words])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(words) - 0.4, -0.6)
    if chart.kind == "ratios":
        axes.set_xscale("log", subs=[])  # its minor ticks would have words of another form
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlim(min([1.0, *(0.9 * low for low in _lows(chart))]), max(1.0, _most(chart)) * 2)
    else:
        axes.set_xlim(_least(chart) * 1.12, _most(chart) * 1.12)
    axes.set_xlabel(chart.y_label)
    axes.spines["bottom"].set_visible(False)
    if groups > 1:
        _legend(drawn, axes)
    return drawn


def _boxes(chart: Chart) -> Figure:
    """Quartiles over words; whiskers reach minimum and maximum."""
    words = list(dict.fromkeys(str(x) for one in chart.series for x, _ in one.points))
    drawn, axes = _figure(chart, 4.2)
    width = 0.7 / max(1, len(chart.series))
    for number, one in enumerate(chart.series):
        own = [word for word in words if any(str(x) == word for x, _ in one.points)]
        values = [[found.median for x, found in one.points if str(x) == word] for word in own]
        aside = (number - (len(chart.series) - 1) / 2) * width
        axes.boxplot(
            values,
            positions=[words.index(word) + aside for word in own],
            widths=width * 0.85,
            whis=(0, 100),
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": COLOURS[number % len(COLOURS)], "edgecolor": INK},
            medianprops={"color": INK},
        )
        axes.plot(
            [], marker="s", linestyle="", color=COLOURS[number % len(COLOURS)], label=one.label
        )
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_xticks(range(len(words)), words)
    axes.set_ylim(_least(chart) * 1.06, _most(chart) * 1.06)
    axes.set_ylabel(chart.y_label)
    axes.spines["left"].set_visible(False)
    _legend(drawn, axes)
    return drawn


def _bar_colour(chart: Chart, number: int, word: str) -> str:
    pale = chart.strong and not word.startswith(chart.strong)
    return PALE if pale else COLOURS[number % len(COLOURS)]


def _least(chart: Chart) -> float:
    """The smallest value that is not above 0."""
    return min([0.0, *_lows(chart)])


def _lows(chart: Chart) -> list[float]:
    return [found.low for one in chart.series for _, found in one.points]


def _most(chart: Chart) -> float:
    """The largest value; 1 where there is none above 0."""
    values = [found.high for one in chart.series for _, found in one.points]
    return max((value for value in values if value > 0), default=1.0)


def _legend(drawn: Figure, axes: Axes) -> None:
    """Beside the plot, in the order of the series, which is the same in all plots of a view."""
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(
        handles,
        labels,
        loc="outside right upper",
        frameon=False,
        fontsize=9,
        handlelength=2.6,
        labelspacing=0.7,
    )
