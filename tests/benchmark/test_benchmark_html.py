"""The HTML report: one file that has everything and needs no other.

Law
---
1. It is read as a browser reads it, and compared with the views.
"""

from __future__ import annotations

from pathlib import Path

import stored_runs
from html_reader import SVG, Reader

from _multitables.benchmark.report import html, publish
from _multitables.benchmark.report.tables import Table, View
from _multitables.benchmark.studies import STUDIES


def page_of(directory: Path, drawings: dict[str, str]) -> str:
    return html.document(publish.sections(STUDIES, str(directory)), drawings)


def test_the_page_is_whole_and_needs_no_other(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path)
    stored_runs.keep_sweep(tmp_path, {"multitables": stored_runs.RISING})
    names = [
        chart.name
        for section in publish.sections(STUDIES, str(tmp_path))
        for view in section.views
        for chart in view.charts
    ]
    assert len(names) >= 3
    text = page_of(tmp_path, dict.fromkeys(names, SVG))
    found = Reader(text)
    assert len(found.ids) == len(set(found.ids))
    assert {link for link in found.links if not link.startswith("#")} == set()
    assert {link[1:] for link in found.links} <= set(found.ids)
    for outside in ("<script", "@import", "url(http", "<link", "<iframe"):
        assert outside not in text
    assert text.count("<svg ") == len(names)
    assert "url(#a)" not in text
    assert "who</metadata>" not in text


def test_the_page_has_every_table_fact_and_sentence(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path)
    text = page_of(tmp_path, {})
    found = Reader(text)
    said = "\n".join(found.said)
    for view in publish.sections(STUDIES, str(tmp_path))[0].views:
        assert view.heading in said
        for table in view.tables:
            for row in [table.header, *table.rows]:
                assert list(row) in found.rows
        for sentence in view.sentences:
            assert sentence in said
    for value in stored_runs.FACTS.values():
        assert found.said.count(value) == 1  # once for all views
    assert "h5py &lt;read_direct&gt;" in text
    assert '<td class="left bad">MISSED</td>' in text


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path, interrupted=True)
    assert "This run was interrupted." in page_of(tmp_path, {})


def test_results_come_before_the_machine(tmp_path: Path) -> None:
    stored_runs.keep_targets(tmp_path)
    text = page_of(tmp_path, {})
    last_row = text.rindex("</table>")
    for value in stored_runs.FACTS.values():
        assert text.index(f"<dd>{value}</dd>") > last_row


def test_six_columns_of_spreads_fit_on_screen_and_paper() -> None:
    """A spread stands below its median, so a column is as wide as one of them."""
    row = ["complevel 9", *["2425 (2301-2533)"] * 6]
    view = View("v", {}, [Table("t", ["level", *"123456"], [row])])
    text = "".join(html.body(view, {}))
    assert text.count("2425 <small>(2301-2533)</small>") == 6
    assert "td small { display: block;" in html.CSS
    on_paper = html.CSS[html.CSS.index("@media print") :]
    assert ".table { overflow: visible; }" in on_paper
    assert "max-height: 85vh" not in html.CSS
