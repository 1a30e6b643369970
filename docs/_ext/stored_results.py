"""Directives that show the rows of `docs/results`: tables and plots are made when docs are built.

Law
---
1. Everything comes from stored rows through the benchmark's own report; nothing is typed again.
2. A directory without rows fails the build.

`headline DIRECTORY ...` shows this library beside others; `stored-results DIRECTORY` shows the
tables and plots of a run; `published-results FILE` shows the tables of earlier releases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from _multitables.benchmark.harness import results
from _multitables.benchmark.report import charts, html, publish
from _multitables.benchmark.report.tables import Section, Table, View
from _multitables.benchmark.studies import STUDIES


def shown(section: Section) -> Iterator[str]:
    """The HTML of a section: what it was measured on, and its views without their sentences."""
    views = [view for view in section.views if view.tables]
    for view in views:
        if len(views) > 1:
            yield f"<h4>{escape(view.heading)}</h4>"
        drawings = {chart.name: charts.draw(chart) for chart in view.charts}
        yield from html.body(dataclasses.replace(view, sentences=()), drawings)
    notes = " ".join(section.kept.more.get("notes", ()))
    yield from html.facts({**section.facts, **({"note": notes} if notes else {})})


def published(filename: str) -> View:
    """A table for each device and codec: level and access down, processes across."""
    cells: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = {}
    for row in results.read_rows(filename):
        lines = cells.setdefault((row["device"], row["complib"]), {})
        line = lines.setdefault((row["access"], row["complevel"]), {})
        line[row["n_procs"]] = f"{float(row['mb_per_s']):.0f}"
    tables = []
    for (device, complib), lines in cells.items():
        processes = list(dict.fromkeys(n for line in lines.values() for n in line))
        rows = [
            [f"{access}, complevel {level}", *(line.get(n, "") for n in processes)]
            for (access, level), line in lines.items()
        ]
        tables.append(Table(f"{device}, {complib}; MB/s", ["processes", *processes], rows))
    return View("", {}, tables)


class StoredResults(SphinxDirective):
    """Stored rows, as the HTML report shows them."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make the tables, and draw the plots."""
        places = [Path(self.env.srcdir, "results", one) for one in self.arguments[0].split()]
        for place in places:
            for file in [place] if place.is_file() else sorted(place.glob("*.csv")):
                self.env.note_dependency(str(file))
        if self.name == "published-results":
            lines = list(html.body(published(str(places[0])), {}))
        else:
            lines = [
                line
                for section in publish.sections(STUDIES, *map(str, places))
                if (section.kept.name == "headline") == (self.name == "headline")
                for line in shown(section)
            ]
        if not lines:
            raise self.error(f"{self.arguments[0]} has no results")
        text = "\n".join(['<div class="results">', *lines, "</div>"])
        return [nodes.raw("", text, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    for name in ("headline", "stored-results", "published-results"):
        app.add_directive(name, StoredResults)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
