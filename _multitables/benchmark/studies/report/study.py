"""The report, made again from kept rows: tables, plots, Parquet, HTML.

Law
---
1. It measures nothing and changes no kept row. The entry publishes after every study, so also after
   this one.
"""

from __future__ import annotations

import argparse

from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.report.tables import View

SUMMARY = "tables, plots and the HTML report made again from kept results; nothing is measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the results are."""
    parser.add_argument("output", metavar="DIR", help="where a run kept its results (its --output)")


def views(_kept: Kept) -> list[View]:
    """It keeps no rows of its own."""
    return []


def run(_arguments: argparse.Namespace) -> int:
    """Nothing is left to do before the results are published."""
    return 0
