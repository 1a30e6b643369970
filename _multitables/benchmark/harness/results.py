"""What a run keeps: one tidy CSV that grows row by row, and a JSON file of how it was made.

Law
---
1. One row of the CSV is one timed pass, with everything needed to read it alone.
2. Rows are on disk when they are measured: an interrupted run keeps what it finished, and another
   goes on from there when it is asked to resume.
3. Rows of different settings, machines or versions never come together in one file.
4. It stores text; the study knows what a column means.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Row = Mapping[str, str]  # as the CSV holds it

#: Facts that belong to a place, of which one run may have several; the others are the machine's.
PLACE_FACTS = ("device", "device_kind", "rotational", "raid", "scheduler", "filesystem")


class CannotResumeError(OSError):
    """Earlier rows do not belong beside this run's."""


class ResultFile:
    """The files of one study's run; a context manager.

    Parameters
    ----------
    directory : str
        Made when it is not there.
    name : str
        Of the study; the files are ``multitables_<name>.csv``, ``.json`` and ``.txt``.
    columns : sequence of str
        Of the measurements; `facts` follow in every row.
    facts : mapping
        What all rows share, until `describe` says otherwise.
    settings : mapping
        The options that decide what is measured.
    resume : bool
        Keep the rows that are there; `earlier` finds them.

    Raises
    ------
    CannotResumeError
        The rows there were measured with other settings, columns, or on another machine.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        columns: Sequence[str],
        facts: Mapping[str, str],
        settings: Mapping[str, Any] = MappingProxyType({}),
        resume: bool = False,
    ) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.name = name
        self.filename = os.path.join(directory, f"multitables_{name}.csv")
        self._json = os.path.join(directory, f"multitables_{name}.json")
        self._text = os.path.join(directory, f"multitables_{name}.txt")
        self.facts = dict(facts)
        self._settings: dict[str, Any] = json.loads(json.dumps(dict(settings), default=str))
        self._columns = [*columns, *self.facts]
        self.before: dict[str, Any] = {}  # what else the run said that is resumed
        self.rows: list[Row] = self._kept() if resume else []
        self._earlier = len(self.rows)
        # written anew, because a row that was cut short would spoil the next one
        self._file = open(self.filename, "w", newline="")  # noqa: SIM115  closed by __exit__
        self._writer = csv.DictWriter(self._file, self._columns)
        self._writer.writeheader()
        self._writer.writerows(self.rows)
        self._file.flush()
        self.save_json(interrupted=True)  # until the study says that it is done

    def _kept(self) -> list[Row]:
        """The rows of the run before, if they belong beside this one's."""
        if not os.path.exists(self.filename):
            return []
        self._same_settings()
        rows = read_rows(self.filename)
        if rows and list(rows[0]) != self._columns:
            self._refuse("columns", ",".join(rows[0]), ",".join(self._columns))
        for name in self.facts.keys() - PLACE_FACTS:
            for row in rows:
                if row[name] != self.facts[name]:
                    self._refuse(name, row[name], self.facts[name])
        return rows

    def _same_settings(self) -> None:
        try:
            with open(self._json) as file:
                self.before = json.load(file)
        except (OSError, ValueError):
            self._refuse("settings", "no readable JSON file beside the CSV", str(self._settings))
            return
        before: dict[str, Any] = self.before.get("settings", {})
        for name in sorted({*before, *self._settings}):
            if before.get(name) != self._settings.get(name):
                self._refuse(f"--{name}", before.get(name), self._settings.get(name))

    def _refuse(self, what: str, before: Any, now: Any) -> None:
        raise CannotResumeError(
            f"{self.filename!r} cannot be resumed: its {what} differ(s) from this run's "
            f"(there {before}, here {now}). Nothing was changed. Choose another --output, or leave "
            "--resume out to start afresh."
        )

    def describe(self, facts: Mapping[str, str]) -> None:
        """Replace the facts of these names, for the rows from here on."""
        self.facts = {name: facts.get(name, text) for name, text in self.facts.items()}

    def earlier(self, **key: Any) -> list[Row]:
        """The rows of the run that is resumed that have these values."""
        wanted = {name: _text(value) for name, value in key.items()}
        return [
            row
            for row in self.rows[: self._earlier]
            if all(row[name] == value for name, value in wanted.items())
        ]

    def add(self, **row: Any) -> Row:
        """Keep one measurement of this study; returns the row."""
        texts = {name: _text(value) for name, value in (row | self.facts).items()}
        kept = {name: texts.get(name, "") for name in self._columns}
        if "study" in kept:
            kept["study"] = self.name
        self.rows.append(kept)
        self._writer.writerow(kept)
        self._file.flush()
        return kept

    def kept(self, **more: Any) -> Kept:
        """What is there to show; `more` is what the JSON file will say."""
        return Kept(self.name, self.rows, more)

    def save_json(self, **more: Any) -> None:
        """Write the JSON: facts, settings, the rows, and whatever the study adds."""
        found = {"facts": self.facts, "settings": self._settings, "rows": self.rows, **more}
        part = f"{self._json}.part{os.getpid()}"
        with open(part, "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
        os.replace(part, self._json)

    def save_text(self, text: str) -> None:
        """Write what was printed."""
        with open(self._text, "w") as file:
            file.write(text + "\n")

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()


@dataclass(frozen=True)
class Kept:
    """A study's files, read again: its rows, and what else its JSON file says."""

    name: str
    rows: Sequence[Row]
    more: Mapping[str, Any]


def read(directory: str, name: str) -> Kept | None:
    """What the study `name` kept in `directory`; None when that is nothing."""
    filename = os.path.join(directory, f"multitables_{name}.csv")
    if not os.path.exists(filename):
        return None
    more: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError), open(f"{filename[:-4]}.json") as file:
        more = json.load(file)
    more.pop("rows", None)  # the CSV's word counts
    return Kept(name, read_rows(filename), more)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def read_rows(filename: str) -> list[Row]:
    """The rows of a result file; one that was cut short at the end is left out."""
    with open(filename, newline="") as file:
        lines = file.read()
    whole = lines[: lines.rfind("\n") + 1]
    return [row for row in csv.DictReader(whole.splitlines()) if None not in row.values()]
