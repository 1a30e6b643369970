"""What the study of versions shows: for each test sizes, writing, opening, reading, and the plots.

Law
---
1. Pure: its input is the rows, the JSON file's content and the published figures.
2. What was published stands beside what was measured, and only where the file is the same.
3. A ratio is of medians.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from _benchmark.contenders.version_contenders import OURS, READERS, TOGETHER, WHICH
from _benchmark.harness.results import Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.loops.version_write_loop import PLAIN, VERSIONED
from _benchmark.report.published import figures
from _benchmark.report.tables import Chart, Series, Table, View, figure, file_stem, spread
from _benchmark.studies.cases import without_numbers
from _benchmark.studies.versions.cases import KEYS, MORE

MIB = 2**20
R = f"{VERSIONED}, r"
COLUMNS = {"study", *KEYS, *MORE, "contender", "cache", "round", "value", "unit"}
FILE = ("transactions", "exponent", "compression")
NONE = "-"
RATIO = "latest_ratio"
PUBLISHED = f"{VERSIONED}, published"
SPREAD = "median (minimum-maximum)"


def views(kept: Kept) -> list[View]:
    """A view for each test as it was written, and one of what has no numbers."""
    facts = {
        name: text for row in kept.rows[:1] for name, text in row.items() if name not in COLUMNS
    }
    found = without_numbers(kept)
    for test, way in dict.fromkeys((row["test"], row["way"]) for row in kept.rows):
        one = OfTest(
            test, way, [row for row in kept.rows if (row["test"], row["way"]) == (test, way)]
        )
        tables = [one.sizes(), one.writing(), *one.reading(), one.latest()]
        found.append(
            View(
                f"{test}, {way}",
                facts,
                [table for table in tables if table.rows],
                [chart for chart in one.charts() if _is_measured(chart)],
            )
        )
    return found


@dataclass(frozen=True)
class OfTest:
    """What was measured of one test."""

    test: str
    way: str
    rows: Sequence[Row]

    def files(self) -> list[tuple[str, ...]]:
        """Versions, exponent and compression of each file, the smallest first."""
        found = dict.fromkeys(tuple(row[name] for name in FILE) for row in self.rows)
        return sorted(
            found, key=lambda file: (int(file[1]), file[2] != "none", file[2], int(file[0]))
        )

    @functools.cached_property
    def _rounds(self) -> dict[tuple[str, ...], list[Row]]:
        found: dict[tuple[str, ...], list[Row]] = {}
        for row in self.rows:
            key = (*(row[name] for name in FILE), row["contender"], row["which"])
            found.setdefault(key, []).append(row)
        return found

    def found(
        self, file: Sequence[str], contender: str, column: str = "value", which: str = ""
    ) -> Summary | None:
        """The rounds of one figure."""
        rows = self._rounds.get((*file, contender, which), ())
        values = [float(row[column]) for row in rows if row[column]]
        return summary(values) if values else None

    def published(self, file: Sequence[str], contender: str, quantity: str) -> float | None:
        """The study's figure of the same file."""
        if self.way != "as published":
            return None
        wanted = (self.test, *file, contender, quantity)
        for row in figures(__file__):
            if tuple(row[name] for name in ("test", *FILE, "contender", "quantity")) == wanted:
                return float(row["value"])
        return None

    def sizes(self) -> Table:
        """The files, and what as many copies would take."""
        rows = []
        for file in self.files():
            here = [self.found(file, one, "file_bytes") for one in (VERSIONED, PLAIN)]
            there = [self.published(file, one, "file_bytes") for one in (VERSIONED, PLAIN)]
            if here[0] is None or here[1] is None:
                continue
            copies = int(file[0]) * here[1].median
            cells = (here[0].median, there[0], here[1].median, there[1], copies)
            ratio = figure(copies / here[0].median)
            rows.append([_label(file), *(_cell(one, 1 / MIB) for one in cells), ratio])
        header = ["versioned", "published", "unversioned", "published", "as copies"]
        title = "Size of the files, MB of 2^20 bytes"
        return Table(title, ["transactions, chunks", *header, "copies / versioned"], rows)

    def writing(self) -> Table:
        """How long the files took to write."""
        rows = []
        for file in self.files():
            cells = []
            totals = [self.found(file, writer) for writer in (VERSIONED, PLAIN)]
            for writer, total in zip((VERSIONED, PLAIN), totals, strict=True):
                each = self.found(file, writer, "transaction_seconds")
                cells += [_spread(total), _cell(self.published(file, writer, "write_seconds"))]
                cells.append(_spread(each, 1e3))
            if any(totals):
                rows.append([_label(file), *cells])
        header = [
            word
            for writer in (VERSIONED, PLAIN)
            for word in (f"{writer}, s", "published, s", "a transaction, ms")
        ]
        return Table(f"Written; {SPREAD}", ["transactions, chunks", *header], rows)

    def reading(self) -> Iterator[Table]:
        """How long opening took, and opening with reading."""
        for title, column, names in (
            (
                "`val` opened (the published study timed this as reading), ms",
                "open_seconds",
                READERS,
            ),
            ("`val` opened and read, ms", "value", READERS | TOGETHER),
        ):
            rows = []
            for file in self.files():
                for which in WHICH:
                    every = {one: self.found(file, one, column, which) for one in names}
                    if any(every.values()):
                        ours = [one for name, one in every.items() if name.startswith(OURS) and one]
                        ratio = _ratio(
                            every[R], min(ours, key=lambda one: one.median, default=None)
                        )
                        cells = (_spread(one, 1e3) for one in every.values())
                        rows.append([f"{_label(file)}: {which}", *cells, ratio])
            yield Table(
                f"{title}; {SPREAD}",
                ["transactions, chunks: which", *names, f"{R} / fastest of ours"],
                rows,
            )

    def latest(self) -> Table:
        """The latest version beside the unversioned dataset."""
        rows = []
        for file in self.files():
            for what, column in (("opened", "open_seconds"), ("opened and read", "value")):
                plain = self.found(file, PLAIN, column, "latest")
                cells = [_ratio(self.found(file, one, column, "latest"), plain) for one in READERS]
                if plain:
                    rows.append([f"{_label(file)}: {what}", *cells])
        ends = [row["value"] for row in figures(__file__) if row["quantity"].startswith(RATIO)]
        title = "The latest version, times as long as h5py with the unversioned file"
        title = f"{title} (published, opened: {' to '.join(ends)})"
        return Table(title, ["transactions, chunks", *READERS], rows)

    def charts(self) -> Iterator[Chart]:
        """Over the number of transactions, of the first chunk size and compression."""
        _transactions, exponent, compression = self.files()[0]
        stored = f"{self.test}, {self.way}, chunks of 2^{exponent}, compression {compression}"
        both, every = (VERSIONED, PLAIN), [*READERS, *TOGETHER]
        size, seconds = "file_bytes", "write_seconds"
        sizes = [*(self.line(one, size, "", 1 / MIB) for one in both), self.copies()]
        for what, unit, lines in (
            ("File size", "MB of 2^20 bytes", [*sizes, self.published_line(size, 1 / MIB)]),
            ("Written", "s", [*map(self.line, both), self.published_line(seconds)]),
            ("All opened", "s", [self.line(one, "open_seconds", "all") for one in every]),
            ("All read", "s", [self.line(one, "value", "all") for one in every]),
        ):
            name = file_stem("versions", self.test, self.way, what)
            yield Chart(name, f"{what}: {stored}", "transactions", unit, lines)

    def _line(self, label: str, of: Callable[[Sequence[str]], Summary | None]) -> Series:
        """What `of` says of the files of the first chunk size and compression."""
        first = self.files()[0]
        every = [(file, of(file)) for file in self.files() if file[1:] == first[1:]]
        return Series(label, [(float(file[0]), found) for file, found in every if found])

    def line(
        self, contender: str, column: str = "value", which: str = "", factor: float = 1.0
    ) -> Series:
        """The figures of a contender."""
        return self._line(
            contender, lambda file: _times(self.found(file, contender, column, which), factor)
        )

    def copies(self) -> Series:
        """What as many copies of the unversioned file would take."""
        return self._line(
            "as copies",
            lambda file: _times(self.found(file, PLAIN, "file_bytes"), float(file[0]) / MIB),
        )

    def published_line(self, quantity: str, factor: float = 1.0) -> Series:
        """What the study says."""

        def of(file: Sequence[str]) -> Summary | None:
            value = self.published(file, VERSIONED, quantity)
            return None if value is None else summary([value * factor])

        return self._line(PUBLISHED, of)


def _is_measured(chart: Chart) -> bool:
    return any(line.points for line in chart.series if line.label != PUBLISHED)


def _label(file: Sequence[str]) -> str:
    versions, exponent, compression = file
    packed = "" if compression == "none" else f", {compression}"
    return f"{versions}, 2^{exponent}{packed}"


def _times(found: Summary | None, factor: float) -> Summary | None:
    if found is None:
        return None
    return Summary(found.median * factor, found.low * factor, found.high * factor, found.repeats)


def _cell(value: float | None, factor: float = 1.0) -> str:
    return NONE if value is None else figure(value * factor)


def _spread(found: Summary | None, factor: float = 1.0) -> str:
    scaled = _times(found, factor)
    return NONE if scaled is None else spread(scaled)


def _ratio(one: Summary | None, other: Summary | None) -> str:
    return NONE if one is None or other is None else figure(one.median / other.median)
