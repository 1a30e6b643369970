"""How results are shown, as values: tables, charts and sentences, and tables as text.

Law
---
1. What a study shows is a `View`, made from the rows it kept and from nothing else, so that it can
   be shown again years later.
2. It formats; it computes nothing but widths.
3. It writes no file and draws nothing: `charts` draws, `html` makes HTML, `publish` writes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from _benchmark.harness.rounds import Summary

UNIT_LINE = "MB/s = 10^6 bytes of decoded data per second; median (minimum-maximum)"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> str:
    """A text table; the first column and those named in `left` stand left, the others right."""
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
    """A number of any size, with three digits or more: ``14043``, ``20.5``, ``0.0476``."""
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def spread(found: Summary, unit: str = "") -> str:
    """The median, and behind it minimum and maximum where there is more than one value."""
    median = f"{figure(found.median)}{unit}"
    if found.repeats == 1:
        return median
    return f"{median} ({figure(found.low)}-{figure(found.high)})"


def file_stem(*words: str) -> str:
    """Words as the name of a file: ``blosc:lz4 5`` is ``blosc_lz4_5``."""
    return re.sub(r"[^a-z0-9]+", "_", " ".join(words).lower()).strip("_")


def escaped(text: str) -> str:
    """Text for reStructuredText that nothing in is taken for markup, wherever it stands."""
    text = re.sub(r"([\\*`|])", r"\\\1", text)
    text = re.sub(r"_(?!\w)", r"\_", text)  # a reference ends so
    # at its beginning: bullets, field and option lists, enumerators, quotes, headlines
    return re.sub(r"^(?=[^\w\s\\]|\w+[.)](\s|$)|\(\w+\))", r"\\", text)


def heading(facts: Mapping[str, str]) -> str:
    """The facts, one a line."""
    width = max(len(name) for name in facts)
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
        Columns of words, which stand left.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()

    def text(self) -> str:
        """Aligned, under its title."""
        return f"{self.title}\n{aligned(self.header, self.rows, self.left)}"

    def csv(self) -> str:
        """Comma-separated, with the header."""
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([self.header, *self.rows])
        return lines.getvalue()

    def rst(self, *options: str) -> str:
        """A ``csv-table`` of reStructuredText, with more options of the directive."""
        rows = [self.header, *self.rows]
        return directive(self.title, rows, ":header-rows: 1", ":stub-columns: 1", *options)


def directive(title: str, rows: Sequence[Sequence[str]], *options: str) -> str:
    """A ``csv-table`` of these rows, none of whose words is markup."""
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [escaped(cell) for cell in row] for row in rows
    )
    head = "\n   ".join([f".. csv-table:: {escaped(title)}".rstrip(), *options])
    return f"{head}\n\n{_indented(lines.getvalue())}"


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.splitlines())


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
        ``lines`` over numbers, or ``bars`` over words.
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
        width = max((len(name) for name in self.facts), default=0)
        facts = [f"{name.ljust(width)}  {value}" for name, value in self.facts.items()]
        parts = ["\n".join([self.heading, "=" * len(self.heading), *facts])]
        parts += [table.text() for table in self.tables]
        return "\n\n".join([*parts, *self.sentences])
