"""Results as they are shown and kept: aligned tables, one tidy CSV, JSON and text.

Law
---
1. One row of the CSV is one timed pass, with everything needed to read it alone.
2. Rows are on disk when they are measured: an interrupted run keeps what it finished.
3. It formats; it computes nothing but widths.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

UNIT_LINE = "MB/s = 10^6 bytes of decoded data per second; median (minimum-maximum)"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> str:
    """A text table; the first column and those named in `left` stand left, the others right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def one(line: Sequence[str]) -> str:
        cells = zip(header, line, widths, strict=True)
        return "  ".join(
            cell.ljust(width) if name in (header[0], *left) else cell.rjust(width)
            for name, cell, width in cells
        ).rstrip()

    return "\n".join(
        [one(lines[0]), "  ".join("-" * width for width in widths)]
        + [one(line) for line in lines[1:]]
    )


def heading(facts: Mapping[str, str]) -> str:
    """The facts, one a line."""
    width = max(len(name) for name in facts)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in facts.items())


class ResultFile:
    """A CSV file that grows row by row, and its neighbours; a context manager.

    Parameters
    ----------
    directory : str
        Made when it is not there.
    name : str
        Of the study; the files are ``multitables_<name>.csv``, ``.json`` and ``.txt``.
    columns : sequence of str
        Of the measurements; `facts` follow in every row.
    facts : mapping
        What all rows share.
    """

    def __init__(
        self, directory: str, name: str, columns: Sequence[str], facts: Mapping[str, str]
    ) -> None:
        os.makedirs(directory, exist_ok=True)
        self.filename = os.path.join(directory, f"multitables_{name}.csv")
        self._json = os.path.join(directory, f"multitables_{name}.json")
        self._text = os.path.join(directory, f"multitables_{name}.txt")
        self._facts = dict(facts)
        self._rows: list[dict[str, Any]] = []
        self._file = open(self.filename, "w", newline="")  # noqa: SIM115  closed by __exit__
        self._writer = csv.DictWriter(self._file, [*columns, *self._facts])
        self._writer.writeheader()

    def add(self, **row: Any) -> None:
        """Keep one measurement."""
        self._rows.append(row)
        self._writer.writerow(row | self._facts)
        self._file.flush()

    def save_json(self, **more: Any) -> None:
        """Write the JSON: facts, the rows, and whatever the study adds."""
        with open(self._json, "w") as file:
            json.dump({"facts": self._facts, "rows": self._rows, **more}, file, indent=1)
            file.write("\n")

    def save_text(self, text: str) -> None:
        """Write what was printed."""
        with open(self._text, "w") as file:
            file.write(text + "\n")

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._file.close()
