"""The report, made again from rows that were kept: tables, plots, Parquet, HTML, the docs' page.

Law
---
1. It measures nothing and changes no kept row.
2. What cannot be made is said, and the exit status is 2.
"""

from __future__ import annotations

import argparse
import os

from _benchmark.harness.results import Kept
from _benchmark.report import docs_page, publish
from _benchmark.report.tables import View

SUMMARY = "tables, plots and the HTML report made again from kept results; nothing is measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the results are, and which page is wanted."""
    parser.add_argument(
        "directory", metavar="DIR", help="where a run kept its results (its --output)"
    )
    parser.add_argument(
        "--docs",
        metavar="FILE",
        help="write this page of the documentation instead: DIR then has a directory for each run, "
        "and `published`, the tables of earlier releases",
    )


def views(_kept: Kept) -> list[View]:
    """It keeps no rows of its own."""
    return []


def run(arguments: argparse.Namespace) -> int:
    """Make everything anew; returns the exit status."""
    if not os.path.isdir(arguments.directory):
        raise NotADirectoryError(f"{arguments.directory!r} is no directory. Name a run's --output.")
    if arguments.docs:
        return _docs(arguments.directory, arguments.docs)
    made = publish.publication(arguments.directory)
    if not made.written and not made.failed:
        raise FileNotFoundError(
            f"{arguments.directory!r} has no results: no file multitables_STUDY.csv with rows. "
            "Nothing was written. Name a run's --output."
        )
    return 2 if made.failed else 0


def _docs(directory: str, filename: str) -> int:
    """The plots of each run beside its rows, and the page that shows them."""
    failed = False
    for name in docs_page.run_names(directory):
        failed |= bool(publish.plots(os.path.join(directory, name)).failed)
    missing = docs_page.write(directory, filename)
    print(f"written: {filename}")
    if missing:
        print(
            f"{len(missing)} plots that it names are not there, {missing[0]} the first. "
            f"To draw them: {publish.INSTALL}"
        )
    return 2 if failed or missing else 0
