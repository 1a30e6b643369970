"""Kept rows by their columns: medians, ratios, and the one grid that every study's tables are.

Law
---
1. Pure: rows in, values out. A cell is a median of rows; one that failed says so, one that nothing
   was measured for is ``-``.
2. A ratio is the median of the rounds' own ratios, so both its sides saw the same moment.
3. It knows no study, and no contender by name.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from _multitables.benchmark.harness.results import Row
from _multitables.benchmark.harness.rounds import Summary, summary
from _multitables.benchmark.report.tables import Series, Table, figure, spread

#: Units of costs: less is better.
COSTS = frozenset(("s", "ms", "us", "MiB", "requests"))
FAILED, NOTHING = "FAILED", "-"
VALUE = "value"

#: One column of a grid: a column of the rows, or a text that is made of a line's rows.
Column = str | Callable[["Figures"], str]


@dataclass(frozen=True)
class Figures:
    """Some kept rows.

    Attributes
    ----------
    rows : sequence of Row
        What was published may be among them, as rows of a contender of its own.
    faults : sequence of mapping
        The columns of what failed, as texts; it has no number.
    """

    rows: Sequence[Row]
    faults: Sequence[Mapping[str, Any]] = ()

    def where(self, **key: Any) -> Figures:
        """The rows that have these values; a tuple has several.

        Faults that do not name a column are of each value.
        """
        several = {name: v if isinstance(v, tuple) else (v,) for name, v in key.items()}
        wanted = {n: ["" if v is None else str(v) for v in own] for n, own in several.items()}
        return Figures(
            [row for row in self.rows if all(row.get(n) in own for n, own in wanted.items())],
            [
                one
                for one in self.faults
                if all(n not in one or str(one[n]) in own for n, own in wanted.items())
            ],
        )

    def each(self, *names: str) -> Iterator[tuple[tuple[str, ...], Figures]]:
        """The values of some columns, in the order in which they came, each with its rows."""
        places: dict[tuple[str, ...], tuple[list[Row], list[Mapping[str, Any]]]] = {}
        for row in self.rows:
            places.setdefault(tuple(row.get(n, "") for n in names), ([], []))[0].append(row)
        for one in self.faults:
            if all(name in one for name in names):
                places.setdefault(tuple(str(one[n]) for n in names), ([], []))[1].append(one)
        for values, (rows, faults) in places.items():
            yield values, Figures(rows, faults)

    def distinct(self, name: str) -> list[str]:
        """The values of a column, each once, in their order."""
        return [value for (value,), _rows in self.each(name)]

    def first(self, name: str) -> str:
        """The value of a column that all rows share, or all faults; "" where it has neither."""
        every = [*self.rows, *self.faults]
        return str(every[0].get(name, "")) if every else ""

    @cached_property
    def units(self) -> list[str]:
        """The units of the values."""
        return [one for one in self.distinct("unit") if one]

    def values(self, column: str = VALUE) -> dict[str, float]:
        """The figures of one contender, by round; those that a row lacks are left out."""
        return {row["round"]: float(row[column]) for row in self.rows if row.get(column)}

    def summary(self, column: str = VALUE) -> Summary | None:
        """Median and spread; None where nothing was measured."""
        found = [] if self.faults else [float(r[column]) for r in self.rows if r.get(column)]
        return summary(found) if found else None

    def median(self, column: str = VALUE) -> float | None:
        """The median alone."""
        found = self.summary(column)
        return found.median if found else None

    def text(self, column: str = VALUE, factor: float = 1.0) -> str:
        """The cell of a table."""
        if self.faults:
            return FAILED
        found = scaled(self.summary(column), factor)
        return spread(found) if found else NOTHING

    def short(self, column: str = VALUE, factor: float = 1.0) -> str:
        """The cell of a table, without the spread."""
        if self.faults:
            return FAILED
        found = self.median(column)
        return NOTHING if found is None else short([found * factor])

    def best(self, column: str = VALUE, by: Sequence[str] = ("contender",)) -> Figures:
        """The rows of the one with the best median; empty without any number."""
        every = [(found, one) for _key, one in self.each(*by) if (found := one.median(column))]
        choose = min if self._is_cost(column) else max
        return choose(every, key=lambda pair: pair[0])[1] if every else Figures([])

    def _is_cost(self, column: str) -> bool:
        unit = self.units[0] if column == VALUE and self.units else column
        return unit in COSTS or unit.endswith("seconds")

    def times_as_good(self, other: Figures, column: str = VALUE) -> Summary | None:
        """How many times as fast as `other` this is, or how many times less it takes."""
        ours, theirs = self.values(column), other.values(column)
        over, under = (theirs, ours) if self._is_cost(column) else (ours, theirs)
        found = [over[one] / under[one] for one in over if under.get(one)]
        return summary(found) if found else None

    def beside(self, ours: str, theirs: str) -> Summary | None:
        """How many times as good one contender is as another."""
        return self.where(contender=ours).times_as_good(self.where(contender=theirs))

    # ---- what is shown

    def grid(
        self,
        title: str,
        down: Mapping[str, str],
        across: str | None = None,
        columns: Mapping[str, Column] | None = None,
        more: Mapping[str, Column] | None = None,
        column: str = VALUE,
    ) -> Table:
        """A table: a line for each combination of some columns, a cell for each value of another.

        Parameters
        ----------
        title : str
        down : mapping
            Column of the rows -> its head; together they name a line.
        across : str or None
            The column whose values are the heads of cells, each with the median of its rows.
        columns : mapping or None
            Head -> what stands there, in place of `across`.
        more : mapping or None
            Head -> what stands behind the cells.
        column : str
            Of the figures of `across`.
        """
        heads = sorted_as_numbers(self.distinct(across)) if across else []
        behind = {**(columns or {}), **(more or {})}
        lines = []
        for words, line in self.each(*down):
            cells = [line.where(**{across: head}).text(column) for head in heads] if across else []
            cells += [line.text(c) if isinstance(c, str) else c(line) for c in behind.values()]
            lines.append([*words, *cells])
        return Table(title, [*down.values(), *heads, *behind], lines, [*down.values()][1:])

    def series(self, label: str, x: str, column: str = VALUE, factor: float = 1.0) -> Series:
        """One line of a plot: the medians over the numbers of a column."""
        points = [
            (float(one), found)
            for one in sorted_as_numbers(self.distinct(x))
            if (found := scaled(self.where(**{x: one}).summary(column), factor))
        ]
        return Series(label, points)


def sorted_as_numbers(words: Iterable[str]) -> list[str]:
    """Numbers by size, and words, where one is among them, as they came."""
    found = list(words)
    return sorted(found, key=float) if all(map(_is_number, found)) else found


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()


def scaled(found: Summary | None, factor: float) -> Summary | None:
    """In another unit."""
    if found is None or factor == 1.0:
        return found
    return Summary(found.median * factor, found.low * factor, found.high * factor, found.repeats)


def ratio(found: Summary | None) -> str:
    """``6.10x (5.80-6.30)``; ``-`` where a side is missing."""
    return spread(found, "x") if found else NOTHING


def short(values: Sequence[float]) -> str:
    """The median of some numbers; a whole one without decimals."""
    middle = statistics.median(values)
    return f"{middle:.0f}" if middle.is_integer() else figure(middle)
