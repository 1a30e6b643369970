"""The result of each study that is run again: its method and this library, over all settings.

Law
---
1. Pure: kept rows and published figures in, cells out. A number is a median of kept rows.
2. Each side is at its best in each setting: the fastest of its forms. The study's own method is
   compared, also where another library would be faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.results import Row
from _multitables.benchmark.report import published
from _multitables.benchmark.report.headline import SAME
from _multitables.benchmark.report.tables import figure
from _multitables.benchmark.studies.columns import study as columns
from _multitables.benchmark.studies.iotest import study as iotest
from _multitables.benchmark.studies.shots import study as shots
from _multitables.benchmark.studies.versions import study as versions


@dataclass(frozen=True)
class StudyLine:
    """A study: where its rows are, who is compared, and what it published.

    Attributes
    ----------
    name, folders
        Of the study, and of its runs below the results.
    method, ours
        The contenders of its method and of this library.
    key
        The columns in which its settings differ.
    keep
        The values of rows that count.
    """

    title: str
    name: str
    folders: Sequence[str]
    method: str
    key: Sequence[str]
    unit: str
    published: Callable[[], str]
    ours: str = r"multitables(?! 2\.)"
    keep: Mapping[str, str] = field(default_factory=dict)


def rates() -> str:
    """Figures that the I/O test publishes."""
    own = [row for row in published.figures(iotest.__file__) if row["by"] == "published sample"]
    (rate,) = [row for row in own if row["figure"] == "read_rate"]
    return f"{rate['value']} {rate['unit']} (its sample, one rank)"


def runtimes() -> str:
    """Figures that the study of shots publishes."""
    rows = [row for row in published.figures(shots.__file__) if row["quantity"] == "tot-runtime"]
    values = [float(row["value"]) for row in rows]
    return f"{figure(min(values))} to {figure(max(values))} s (500 shots)"


def ratios() -> str:
    """Figures that the study of versions publishes of reading."""
    said = {row["quantity"]: row["value"] for row in published.figures(versions.__file__)}
    least, most = said["latest_ratio_least"], said["latest_ratio_most"]
    return f"opening the latest version takes {least} to {most} times as long as without versions"


def words() -> str:
    """The study of columns publishes no figures."""
    return published.figures(columns.__file__)[0]["what"]


def releases() -> str:
    """Figures that the 2.x releases published of their streams."""
    root = Path(__file__).parents[1] / "docs" / "results" / "published" / "multitables_2.csv"
    values = [float(row["mb_per_s"]) for row in results.read_rows(str(root))]
    return f"{figure(min(values))} to {figure(max(values))} MB/s (its devices)"


STUDY_LINES = (
    StudyLine(
        "Streams of the 2.x releases", "sweep", ["peers_warm"], r"multitables 2\.0\.1",
        ["complib", "complevel", "cache"], "MB/s", releases, ours="multitables$",
        keep={"driver": "buffered", "data": "noise", "limit_mb_per_s": ""},
    ),
    StudyLine(
        ":doc:`The I/O test <studies/iotest>`", "iotest",
        ["studies/iotest", "studies/iotest_combinations"], "h5py",
        ["configuration", "dataset_rank", "slowest_dimension", "layout", "mpi_io"], "MB/s", rates,
    ),
    StudyLine(
        ":doc:`Fusion shots <studies/shots>`", "shots", ["studies/shots"], "published method",
        ["where", "page_buffer", "layout", "access", "processes"], "s", runtimes,
    ),
    StudyLine(
        ":doc:`Particle columns <studies/columns>`", "columns", ["studies/columns"], "published",
        ["storage", "ranks"], "s", words,
    ),
    StudyLine(
        ":doc:`Versions of a file <studies/versions>`, read", "versions", ["studies/versions"],
        "versioned-hdf5", ["test", "way", "transactions", "exponent", "compression", "which"], "s",
        ratios, keep={"part": "read"},
    ),
    StudyLine(
        ":doc:`Loaders of projects <studies/loaders>`", "loaders", ["studies/loaders"], "h5py",
        ["part", "dataset"], "samples/s", lambda: "no figures; the loaders are written anew",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Score:
    """A study, and for each setting the best of its method and of this library."""

    line: StudyLine
    settings: Mapping[tuple[str, ...], tuple[float, float]]
    machines: Sequence[str]

    def times(self, setting: tuple[str, ...]) -> float:
        """How many times as fast this library is."""
        theirs, ours = self.settings[setting]
        return theirs / ours if self.line.unit == "s" else ours / theirs

    def cells(self) -> list[str]:
        """Its line of the table."""
        theirs, ours = zip(*self.settings.values(), strict=True)
        times = [self.times(one) for one in self.settings]
        slower = sum(one < 1 for one in times)
        sides = [f"{span(side)} {self.line.unit}" for side in (theirs, ours)]
        return [
            self.line.title, self.line.published(), *sides, span(times),
            f"{slower} of {len(times)}",
        ]  # fmt: skip

    def losses(self) -> Iterator[list[str]]:
        """Lines of the settings in which this library is slower."""
        for setting, values in self.settings.items():
            if self.times(setting) < 1:
                of = ", ".join(filter(None, setting))
                sides = [f"{figure(one)} {self.line.unit}" for one in values]
                yield [self.line.title, of, *sides, figure(self.times(setting))]


def span(values: Sequence[float]) -> str:
    """The lowest and the highest."""
    return " to ".join(dict.fromkeys([figure(min(values)), figure(max(values))]))


def score(line: StudyLine, kept: Path) -> Score:
    """The score of a study whose rows are below `kept`."""
    rows = [
        row
        for folder in line.folders
        for row in results.read_rows(str(kept / folder / f"multitables_{line.name}.csv"))
        if line.keep.items() <= row.items()
    ]
    settings: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        settings.setdefault(tuple(row[name] for name in line.key), []).append(row)
    found = {}
    for setting, own in settings.items():
        sides = [best(own, pattern, line.unit) for pattern in (line.method, line.ours)]
        if sides[0] is not None and sides[1] is not None:
            found[setting] = (sides[0], sides[1])
    machines = [f"{row['machine']}, {row['cores']} cores, Python {row['python']}" for row in rows]
    return Score(line, found, list(dict.fromkeys(machines)))


def best(rows: Sequence[Row], pattern: str, unit: str) -> float | None:
    """The median of the fastest contender of a pattern."""
    values: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if re.match(pattern, row["contender"]):
            key = tuple(row.get(name, "") for name in SAME)
            values.setdefault(key, []).append(float(row["value"]))
    medians = [median(one) for one in values.values()]
    if not medians:
        return None
    return min(medians) if unit == "s" else max(medians)
