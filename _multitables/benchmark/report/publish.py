"""Writes what kept rows have to show beside them: plots, tables, Parquet, the HTML report.

Law
---
1. Everything is made from what is kept in the directory, and can be made again from it.
2. It never ends a run badly: what cannot be made is said in a line, and the rest is made.
3. A file is written whole or not at all.
4. A missing library costs the files that it is for, and one line that says what to install.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.report import charts, headline, html, parquet
from _multitables.benchmark.report.tables import Section, View, heading

REPORT = "multitables_report.html"
INSTALL = "pip install multitables[bench]"

#: (name below the directory, what is in it)
File = tuple[str, bytes]


class Shows(Protocol):
    """What is asked of a study: a line about it, and what its rows show."""

    SUMMARY: str

    def views(self, kept: Kept, /) -> list[View]: ...


def with_rows(studies: Mapping[str, Shows], *directories: str) -> Iterator[tuple[Shows, Kept]]:
    """The studies that kept rows there, and what they kept."""
    for directory in directories:
        for name, study in studies.items():
            kept = results.read(directory, name)
            if kept and kept.rows:
                yield study, kept


def sections(studies: Mapping[str, Shows], *directories: str) -> list[Section]:
    """What `studies` have to show of what they kept there; first how all compare."""
    found = [
        Section.of(study.SUMMARY, kept, study.views(kept))
        for study, kept in with_rows(studies, *directories)
    ]
    return [*headline.sections([one.kept for one in found]), *found]


@dataclass
class Publication:
    """What was written, and what could not be made; `say` takes a line for people."""

    directory: str
    say: Callable[[str], None] = print
    written: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

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


def publish(
    directory: str, studies: Mapping[str, Shows], say: Callable[[str], None] = print
) -> Publication:
    """Write everything, and say where; it never raises because of what it could not make."""
    made = Publication(directory, say)
    try:
        with made.attempt("the report"):  # views are made from files, which may hold anything
            _publish(made, sections(studies, directory))
    except KeyboardInterrupt:
        made.failed.append("what was left")
        say(
            f"interrupted; the rows are kept: `multitables_benchmark.py report {directory}` goes on"
        )
    return made


def _publish(made: Publication, everything: Sequence[Section]) -> None:
    if not everything:
        raise FileNotFoundError(
            f"{made.directory!r} has no file multitables_STUDY.csv with rows. Nothing was written. "
            "Name the --output of a run."
        )
    drawings: dict[str, str] = {}
    for section in everything:
        own = _drawings(made, section)
        drawings |= own
        for what, files in FORMS.items():
            made.add(f"{what} of {section.kept.name}", files(section, own))
    made.add("the HTML report", _report(everything, drawings))
    needs = {
        "plots (matplotlib is missing)": charts.can_draw(),
        "Parquet (pyarrow is missing)": parquet.can_write(),
    }
    missing = [what for what, is_there in needs.items() if not is_there]
    if missing:
        made.say(f"left out: {'; '.join(missing)}. To have them: {INSTALL}")
    made.say(f"report: {os.path.join(made.directory, REPORT)}")


def _drawings(made: Publication, section: Section) -> dict[str, str]:
    """The plots of a study by their names; without those that cannot be drawn."""
    found: dict[str, str] = {}
    if charts.can_draw():
        for chart in (chart for view in section.views for chart in view.charts):
            with made.attempt(f"the plot {chart.name}"):
                if chart.name in found:
                    raise ValueError("two plots have this name")
                found[chart.name] = charts.draw(chart)
    return found


# ---- the forms of what one study has to show


def _plot_files(_section: Section, drawings: Mapping[str, str]) -> Iterator[File]:
    yield from ((f"{name}.svg", svg.encode()) for name, svg in drawings.items())


def _text_file(section: Section, _drawings: Mapping[str, str]) -> Iterator[File]:
    """All tables as aligned text, with what they were measured on."""
    parts = [heading(section.facts), *(view.text() for view in section.views)]
    text = "\n\n".join(filter(None, parts)) + "\n"
    yield f"multitables_{section.kept.name}_tables.txt", text.encode()


def _parquet_file(section: Section, _drawings: Mapping[str, str]) -> Iterator[File]:
    if parquet.can_write() and section.kept.rows:
        words = section.kept.more.get("facts", {})
        content = parquet.file_of(section.kept.rows, words)
        yield f"multitables_{section.kept.name}.parquet", content


def _report(everything: Sequence[Section], drawings: Mapping[str, str]) -> Iterator[File]:
    yield REPORT, html.document(everything, drawings).encode()


FORMS: dict[str, Callable[[Section, Mapping[str, str]], Iterator[File]]] = {
    "plots": _plot_files,
    "tables as text": _text_file,
    "Parquet": _parquet_file,
}


def _write(filename: str, content: bytes) -> str:
    """Write a file, whole or not at all; returns its name."""
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
