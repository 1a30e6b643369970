"""Writes what kept rows have to show beside them: tables, plots, Parquet, the HTML report.

Law
---
1. Everything here is made from what is kept in the directory, and can be made again from it.
2. It ends no run badly: what cannot be made is said in a line, and the rest is made.
3. A file is there whole or not at all.
4. A library that is missing costs the files it is for, and one line that says what to install.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from _benchmark.harness import results
from _benchmark.report import charts, html, parquet
from _benchmark.report.charts import Drawing
from _benchmark.report.html import Section
from _benchmark.report.tables import file_stem, heading

REPORT = "multitables_report.html"
INSTALL = "pip install multitables[bench]"
MAX_LETTERS = 120  # of a file's name

#: (name below the directory, what is in it)
File = tuple[str, bytes]
Say = Callable[[str], None]


def sections(directory: str, names: Collection[str] | None = None) -> list[Section]:
    """What the studies `names` (default: all) have to show of what they kept in `directory`."""
    from _benchmark.studies import STUDIES  # they publish, and so import this module

    found = []
    for name in STUDIES if names is None else names:
        kept = results.read(directory, name)
        if kept is not None and kept.rows:
            found.append(Section(STUDIES[name].SUMMARY, kept, STUDIES[name].views(kept)))
    return found


def publish(directory: str, names: Collection[str] | None = None, say: Say = print) -> list[str]:
    """Write everything, and say where; never raises because of what it could not make.

    Parameters
    ----------
    directory : str
        Where studies kept their rows.
    names : collection of str, optional
        Studies whose own files are written (default: all that are there). The HTML report has all.
    say : callable
        Takes a line for people.

    Returns
    -------
    list of str
        The files that were written.
    """
    return publication(directory, names, say).written


@dataclasses.dataclass
class Publication:
    """What became of it."""

    directory: str
    say: Say
    written: list[str] = dataclasses.field(default_factory=list)
    failed: list[str] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """An error inside ends only what is inside."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  a finished run is worth more than its plots
            self.failed.append(what)
            self.say(f"{what} could not be made: {type(error).__name__}: {error}")

    def add(self, what: str, files: Iterable[File]) -> None:
        """Write files as they are made."""
        with self.attempt(what):
            for name, content in files:
                self.written.append(_write(os.path.join(self.directory, name), content))


def publication(
    directory: str, names: Collection[str] | None = None, say: Say = print
) -> Publication:
    """`publish`, with what failed."""
    made = Publication(directory, say)
    try:
        with made.attempt("the report"):  # views are made from files, which may hold anything
            _publish(made, names)
    except KeyboardInterrupt:
        made.failed.append("what was left")
        say(
            f"interrupted; the rows are kept: `multitables_benchmark.py report {directory}` goes on"
        )
    return made


def plots(directory: str, say: Say = print) -> Publication:
    """Only the plots, as SVG: what a page of the documentation shows of a run."""
    made = Publication(directory, say)
    for section in sections(directory):
        drawings = _drawings(made, section)
        for name, drawing in drawings.items():
            made.add(f"the plot {name}", [(f"{name}.svg", drawing.svg.encode())])
    return made


def _publish(made: Publication, names: Collection[str] | None) -> None:
    everything = sections(made.directory)
    drawings: dict[str, Drawing] = {}
    for section in everything:
        own = _drawings(made, section)
        drawings |= own
        if names is None or section.kept.name in names:
            for what, files in FORMS.items():
                made.add(f"{what} of {section.kept.name}", files(section, own))
    if everything:
        svg = {name: drawing.svg for name, drawing in drawings.items()}
        made.add("the HTML report", _report(everything, svg))
        _tell(made)


def _drawings(made: Publication, section: Section) -> dict[str, Drawing]:
    """The plots of a study by their names; without those that cannot be drawn."""
    found: dict[str, Drawing] = {}
    if charts.can_draw():
        for chart in (chart for view in section.views for chart in view.charts):
            with made.attempt(f"the plot {chart.name}"):
                if chart.name in found:
                    raise ValueError("two plots have this name")
                found[chart.name] = charts.draw(chart)
    return found


def _tell(made: Publication) -> None:
    needs = {
        "plots (matplotlib is missing)": charts.can_draw(),
        "Parquet (pyarrow is missing)": parquet.can_write(),
    }
    missing = [what for what, is_there in needs.items() if not is_there]
    if missing:
        made.say(f"left out: {'; '.join(missing)}. To have them: {INSTALL}")
    made.say(f"report: {os.path.join(made.directory, REPORT)}")


# ---- the forms of what one study has to show


def _plot_files(_section: Section, drawings: Mapping[str, Drawing]) -> Iterator[File]:
    for name, drawing in drawings.items():
        yield f"{name}.svg", drawing.svg.encode()
        yield f"{name}.png", drawing.png


def _rst_file(section: Section, _drawings: Mapping[str, Drawing]) -> Iterator[File]:
    """All tables as ``csv-table``, each view's under a rubric."""
    parts = []
    for view in section.views:
        parts += [f".. rubric:: {view.heading}\n", *(table.rst() for table in view.tables)]
    yield f"multitables_{section.kept.name}.rst", "\n".join(parts).encode()


def _text_file(section: Section, _drawings: Mapping[str, Drawing]) -> Iterator[File]:
    """All tables as aligned text, with what they were measured on."""
    shared = html.run_facts(section.kept)
    views = [dataclasses.replace(one, facts=html.own_facts(one, shared)) for one in section.views]
    parts = [*([heading(shared)] if shared else []), *(view.text() for view in views)]
    yield f"multitables_{section.kept.name}_tables.txt", ("\n\n".join(parts) + "\n").encode()


def _table_files(section: Section, _drawings: Mapping[str, Drawing]) -> Iterator[File]:
    """Each table as a CSV file, in a directory of their own."""
    taken: set[str] = set()
    for view in section.views:
        for table in view.tables:
            stem = file_stem(view.heading, table.title.partition("; ")[0])[:MAX_LETTERS]
            name = next(name for name in _numbered(stem) if name not in taken)
            taken.add(name)
            yield f"multitables_{section.kept.name}_tables/{name}.csv", table.csv().encode()


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{number}" for number in itertools.count(2))


def _parquet_file(section: Section, _drawings: Mapping[str, Drawing]) -> Iterator[File]:
    if parquet.can_write():
        words = section.kept.more.get("facts", {})
        content = parquet.file_of(section.kept.rows, words)
        yield f"multitables_{section.kept.name}.parquet", content


def _report(everything: Sequence[Section], drawings: Mapping[str, str]) -> Iterator[File]:
    yield REPORT, html.html(everything, drawings).encode()


FORMS: dict[str, Callable[[Section, Mapping[str, Drawing]], Iterator[File]]] = {
    "plots": _plot_files,
    "tables as text": _text_file,
    "tables as reStructuredText": _rst_file,
    "tables as CSV": _table_files,
    "Parquet": _parquet_file,
}


def _write(filename: str, content: bytes) -> str:
    """Write a file, whole or not at all; returns its name."""
    os.makedirs(os.path.dirname(filename), exist_ok=True)
    part = f"{filename}.part{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, filename)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return filename
