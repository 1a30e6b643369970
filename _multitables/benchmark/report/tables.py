"""What is shown, as values: tables, charts and sentences; and tables as text.

Law
---
1. What a study shows is a `View`, made from the rows that it kept and from nothing else, so it can
   be shown again years later.
2. It formats; it computes nothing but widths.
3. It writes no file and draws nothing: `charts` draws, `html` makes HTML, `publish` writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.harness.rounds import Summary

UNIT_LINE = "MB/s = 10^6 bytes of decoded data per second; median (minimum-maximum)"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> str:
    """A text table; the first column and those named in `left` are left-aligned."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def one(line: Sequence[str]) -> str:
        cells = zip(header, line, widths, strict=True)
        return "  ".join(
            cell.ljust(width) if name in (header[0], *left) else cell.rjust(width)
            for name, cell, width in cells
        ).rstrip()

    return "\n".join(
        [one(lines[0]), "  ".join("-" * width for width in widths)]
        + [one(line) for line in lines[1:]]
    )


def figure(value: float) -> str:
    """A number of any size, with at least three digits: ``14043``, ``20.5``, ``0.0476``."""
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def spread(found: Summary, unit: str = "") -> str:
    """The median, and behind it minimum and maximum where there is more than one value."""
    median = f"{figure(found.median)}{unit}"
    if found.repeats == 1:
        return median
    to = " to " if found.low < 0 else "-"
    return f"{median} ({figure(found.low)}{to}{figure(found.high)})"


def file_stem(*words: str) -> str:
    """Words as the name of a file: ``blosc:lz4 5`` is ``blosc_lz4_5``."""
    return re.sub(r"[^a-z0-9]+", "_", " ".join(words).lower()).strip("_")


def heading(facts: Mapping[str, str]) -> str:
    """The facts, one a line."""
    width = max(map(len, facts), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in facts.items())


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    title : str
        With the unit, where all cells have the same.
    header, rows : sequences of str
        The first column names the row.
    left : sequence of str
        Columns of words, which are left-aligned.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()

    def text(self) -> str:
        """Aligned, under its title."""
        return f"{self.title}\n{aligned(self.header, self.rows, self.left)}"

    def simple(self) -> str:
        """The cells as a simple table of reStructuredText, which is as easy to read as text."""
        # a line of its own is a list there
        cells = [[r"\-" if cell == "-" else cell for cell in row] for row in self.rows]
        header, line, *rows = aligned(self.header, cells, self.left).splitlines()
        rule = line.replace("-", "=")
        return "\n".join([rule, header, rule, *rows, rule])


@dataclass(frozen=True)
class Series:
    """One line, or one group of bars: a summary for each x."""

    label: str
    points: Sequence[tuple[float | str, Summary]]


@dataclass(frozen=True)
class Chart:
    """One plot, with minimum and maximum around each median.

    Attributes
    ----------
    name : str
        Of its file, without the ending: letters, digits and ``_``.
    kind : str
        ``lines`` over numbers; ``bars`` over words, or ``ratios``, which are bars that begin at 1;
        ``boxes`` over words, each of all the medians that a series has there.
    strong : str
        How the words begin whose bars stand out; empty for all.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: str = "lines"
    strong: str = ""


@dataclass(frozen=True)
class View:
    """What one part of a study has to show: of one device, say.

    Attributes
    ----------
    heading : str
        Unlike any other of the study.
    facts : mapping
        What its numbers were measured on.
    sentences : sequence of str
        What follows from the numbers.
    """

    heading: str
    facts: Mapping[str, str]
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    sentences: Sequence[str] = ()

    def text(self) -> str:
        """Everything but the plots."""
        head = f"{self.heading}\n{'=' * len(self.heading)}\n{heading(self.facts)}".rstrip()
        return "\n\n".join([head, *(table.text() for table in self.tables), *self.sentences])


@dataclass(frozen=True)
class Section:
    """One study of a directory of results: what it kept, and what that shows.

    Attributes
    ----------
    facts : mapping
        What all rows of the run were measured on.
    views : sequence of View
        Their facts are those that differ from the section's.
    """

    summary: str
    kept: Kept
    facts: Mapping[str, str]
    views: Sequence[View]

    @classmethod
    def of(cls, summary: str, kept: Kept, views: Sequence[View]) -> Section:
        """The section of `views`, whose shared facts are said once."""
        values = {
            name: {row.get(name, "") for row in kept.rows} for name in kept.more.get("facts", {})
        }
        shared = {name: found.pop() for name, found in values.items() if len(found) == 1}
        own = [
            replace(
                view,
                facts={name: text for name, text in view.facts.items() if shared.get(name) != text},
            )
            for view in views
        ]
        return cls(summary, kept, shared, own)

    @property
    def title(self) -> str:
        """For people."""
        return self.kept.name[:1].upper() + self.kept.name[1:]
