"""Tables and plots of the study of versions: for each test files, opening and reading.

Law
---
1. Pure: its input is the rows, the JSON file's content and the published figures.
2. Published figures stand beside measured ones, as a contender, and only where the file is
   the same.
3. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from _multitables.benchmark.contenders.version_contenders import READERS
from _multitables.benchmark.harness.results import Kept, Row
from _multitables.benchmark.loops.version_write_loop import PLAIN, VERSIONED
from _multitables.benchmark.report import published
from _multitables.benchmark.report.figures import VALUE, Column, Figures, ratio
from _multitables.benchmark.report.tables import Chart, Table, View, file_stem
from _multitables.benchmark.studies.frame import LABEL, without_numbers

R, COPIES = f"{VERSIONED}, r", "as copies"
WRITTEN = ("way", "test", "transactions", "exponent", "compression")
FILE = {"file": "transactions, chunks"}
SPREAD = "median (minimum-maximum)"
OPENED, READ = "opened", "opened and read"
#: what is timed -> its column, and what its table says of it
TIMED = {
    OPENED: ("open_seconds", " (the published study timed this as reading)"),
    READ: ("value", ""),
}


def views(kept: Kept) -> list[View]:
    """A view for each test as it was written, and one of what has no numbers."""
    written = {_written(row) for row in kept.rows if row["part"] == "write"}
    more = {"part": "write", "way": "as published", "which": "", "unit": "s"}
    theirs = [
        {**one, **more, "contender": f"{one['contender']}, published"}
        for one in published.rows(__file__, "quantity")
        if _written({**one, **more}) in written
    ]
    rows = sorted([*kept.rows, *theirs], key=_order)
    faults = [_named(one) for one in kept.more.get("faults", ())]
    every = Figures([one for row in rows for one in _shown(row)], faults)
    found = without_numbers(kept)
    for (test, way), _rows in Figures(kept.rows, faults).each("test", "way"):
        one = every.where(test=test, way=way)
        tables = [_files(one.where(part="write")), *_reading(one.where(part="read")), _latest(one)]
        tables = [table for table in tables if table.rows]
        found.append(View(f"{test}, {way}", {}, tables, list(_charts(f"{test}, {way}", one))))
    return found


def _written(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in WRITTEN)


def _order(row: Row) -> tuple[Any, ...]:
    """The smallest files first, and those that are not compressed."""
    packed = row["compression"]
    return int(row["exponent"]), packed != "none", packed, int(row["transactions"])


def _named(row: Row) -> dict[str, Any]:
    packed = "" if row["compression"] == "none" else f", {row['compression']}"
    return {**row, "file": f"{row['transactions']}, 2^{row['exponent']}{packed}"}


def _shown(row: Row) -> Iterator[Row]:
    """A row for each figure of a kept one, in the units of the tables."""
    named = _named(row)
    if row["part"] == "write":
        seconds = row.get("value") or row.get("write_seconds", "")
        each = _times(row.get("transaction_seconds", ""), 1e3)
        size = row.get("file_bytes", "")
        made = {**named, "value": seconds, "ms": each, "mb": _times(size, 2**-20)}
        yield made
        if row["contender"] == PLAIN:
            copies = _times(size, int(row["transactions"]) * 2**-20)
            yield {**made, "contender": COPIES, "value": "", "ms": "", "mb": copies}
        return
    for what, (column, _said) in TIMED.items():
        if row[column]:
            yield {**named, "timed": what, "value": _times(row[column], 1e3), "unit": "ms"}


def _times(text: str, factor: float) -> str:
    return str(float(text) * factor) if text else ""


def _files(every: Figures) -> Table:
    """How large the files are, and how long they took to write; published ones beside them."""

    def copies(line: Figures) -> str:
        if line.first("contender") != VERSIONED:
            return ""
        of_file = every.where(file=line.first("file"), contender=COPIES)
        return ratio(of_file.times_as_good(line, "mb"))

    columns: dict[str, Column] = {
        "MB of 2^20 bytes": partial(Figures.short, column="mb"),
        f"{COPIES} / it": copies,
        "written, s": "value",
        "a transaction, ms": "ms",
    }
    down = {**FILE, "contender": "contender"}
    return every.grid(f"Size of the files, and writing; {SPREAD}", down, columns=columns)


def _reading(every: Figures) -> Iterator[Table]:
    """How long opening took, and opening with reading."""

    def beside(line: Figures) -> str:
        ours = [row for row in line.rows if row["contender"].startswith(LABEL)]
        return ratio(Figures(ours).best().times_as_good(line.where(contender=R)))

    for what, (_column, said) in TIMED.items():
        yield every.where(timed=what).grid(
            f"`val` {what}{said}, ms; {SPREAD}",
            {**FILE, "which": "which"},
            "contender",
            more={f"{R} / fastest of ours": beside},
        )


def _latest(every: Figures) -> Table:
    """The latest version beside the unversioned dataset."""

    def beside(name: str, line: Figures) -> str:
        return ratio(line.beside(PLAIN, name))

    figures = published.figures(__file__)
    ends = [row["value"] for row in figures if row["quantity"].startswith("latest_ratio")]
    title = "The latest version, times as long as h5py with the unversioned file"
    return every.where(which="latest").grid(
        f"{title} (published, opened: {' to '.join(ends)})",
        {**FILE, "timed": "what"},
        columns={name: partial(beside, name) for name in READERS},
    )


def _charts(title: str, every: Figures) -> Iterator[Chart]:
    """Over the number of transactions, of the first chunk size and compression."""
    exponent, compression = every.first("exponent"), every.first("compression")
    case = every.where(exponent=exponent, compression=compression)
    written, read = case.where(part="write"), case.where(part="read", which="all")
    for what, unit, column, of in (
        ("File size", "MB of 2^20 bytes", "mb", written),
        ("Written", "s", VALUE, written),
        ("All opened", "ms", VALUE, read.where(timed=OPENED)),
        ("All read", "ms", VALUE, read.where(timed=READ)),
    ):
        lines = [one.series(who, "transactions", column) for (who,), one in of.each("contender")]
        lines = [line for line in lines if line.points]
        if lines:
            stored = f"{title}, chunks of 2^{exponent}, compression {compression}"
            name = file_stem("versions", title, what)
            yield Chart(name, f"{what}: {stored}", "transactions", unit, lines)
