"""Write the page of the scoreboard from kept runs: failures, promises, studies, files of others.

Law
---
1. Every number comes from a kept run: tests that passed (``docs/results/tests``), rows of studies,
   counts of `corpus.py`. What has not run has no number, and the page says so.
2. Every test that the page names is collected: one that is missing is an error, and no page is
   written. Of a file that needs a library which is not here, the names are looked for in its text.
3. The failures of loaders are the rows of ``docs/failures.csv``, each with its thread; the promises
   are those of ``docs/explanation/failure_model.rst``, with their tests. ``docs/corpora.csv`` says
   where the corpora of ``docs/results/corpus`` come from, and ``docs/published_readers.csv`` what
   other readers publish of their own passes, each with its address.
4. ``--check`` writes nothing, and ends with 1 where the page is not what would be written.

Usage: ``PYTHONPATH=tests/support python tools/scoreboard.py [--check | --run [TEST ...] |
--tool COMMAND]``. ``--run`` runs the tests (all that the page names, or some of them) and keeps how
many cases passed; ``--tool`` runs a script that tries faults for long, and keeps its last line.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from score_of_studies import STUDY_LINES, Score, score

from _multitables.benchmark.machine.environment import sources_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "scoreboard.rst"
FAILURES = DOCS / "failures.csv"
PROMISES = DOCS / "explanation" / "failure_model.rst"
TESTS = DOCS / "results" / "tests" / "tests.csv"
LONG_RUNS = DOCS / "results" / "tests" / "long_runs.csv"
CORPORA = DOCS / "results" / "corpus"
KNOWN_CORPORA = DOCS / "corpora.csv"
PUBLISHED = DOCS / "published_readers.csv"
COLUMNS = ("test", "passed", "skipped", "sources", "date")
LONG_COLUMNS = ("command", "says", "sources", "date")
#: A test that a page names, or a file of tests.
TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
#: A row of a table of promises: its first cell, and the cell of its tests.
ROW = re.compile(r"^   \* - (.+?)\n     - (.+?)(?=^   \* - |^\S|\Z)", re.MULTILINE | re.DOTALL)
#: A heading of a page.
HEADING = re.compile(r"^(\w.*)\n=+\n", re.MULTILINE)
#: Of a corpus: what each has.
SIZES = ("files", "datasets")
#: How a dataset was read that equals what h5py or PyTables reads, and how it was refused.
EQUAL, REFUSED = ("native", "trusted", "library"), "refused"

Kept = dict[str, dict[str, str]]


class ScoreboardError(Exception):
    """The page cannot be written."""


# ---- tests: named, collected, run


def tests_in(text: str) -> list[str]:
    """The tests and files of tests that a text names, each once."""
    found = [file + (f"::{name}" if name else "") for file, name in TEST.findall(text)]
    return list(dict.fromkeys(found))


@dataclass
class Failure:
    """A failure of loaders that is known in public."""

    failure: str
    thread: str
    tests: list[str]


def failures() -> list[Failure]:
    """The rows of the file of failures."""
    with FAILURES.open(encoding="utf-8", newline="") as file:
        return [
            Failure(row["failure"], row["thread"], tests_in(row["tests"]))
            for row in csv.DictReader(file)
        ]


def promises() -> dict[str, list[tuple[str, list[str]]]]:
    """Each section of the failure model: its promises with their tests."""
    found = {}
    _, *parts = HEADING.split(PROMISES.read_text(encoding="utf-8"))
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        rows = [(" ".join(one.split()), tests_in(tests)) for one, tests in ROW.findall(body)]
        if rows := [row for row in rows if row[0] != "Promise"]:
            found[title] = rows
    if not found:
        raise ScoreboardError(f"{PROMISES} has no table of promises")
    return found


def named() -> list[str]:
    """Every test that the page names."""
    every = [test for one in failures() for test in one.tests]
    every += [test for rows in promises().values() for _, tests in rows for test in tests]
    return list(dict.fromkeys(every))


@dataclass(eq=False)  # plugins are hashed
class Tally:
    """A plugin of pytest: what is collected, and how each test ends."""

    collected: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    ends: dict[str, Counter[str]] = field(default_factory=dict)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note files that need a library which is not here."""
        if report.skipped:
            self.left_out.add(report.nodeid)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note the function of a case."""
        self.collected.add(item.nodeid.partition("[")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count how a case ends: in its call, or before it."""
        if report.when == "call" or report.outcome != "passed":
            ends = self.ends.setdefault(report.nodeid.partition("[")[0], Counter())
            ends[report.outcome] += 1


def pytest_with(tally: Tally, *arguments: str) -> int:
    """Run pytest from the root, in this process."""
    options = ["-q", "-n0", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    os.chdir(ROOT)
    return int(pytest.main([*options, *arguments], plugins=[tally]))


def missing(tests: Sequence[str]) -> list[str]:
    """Those of `tests` that do not exist."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    gone = [file for file in files if not (ROOT / file).is_file()]
    tally = Tally()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = pytest_with(tally, "--collect-only", *(one for one in files if one not in gone))
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ScoreboardError(f"the tests cannot be collected:\n{said.getvalue()}")
    return [test for test in tests if not is_there(test, tally)]


def is_there(test: str, tally: Tally) -> bool:
    """Whether a test, or any of a file, was collected, or stands in a file that was left out."""
    file, _, name = test.partition("::")
    if file in tally.left_out:
        text = (ROOT / file).read_text(encoding="utf-8")
        return not name or f"\ndef {name}(" in text
    return any(one == test or one.startswith(f"{test}::") for one in tally.collected)


def kept(path: Path) -> Kept:
    """The rows of a file of kept runs, by their first column."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {next(iter(row.values())): row for row in csv.DictReader(file)}


def keep(path: Path, columns: Sequence[str], rows: Kept) -> None:
    """Write kept runs, in the order of their names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for _, row in sorted(rows.items()))


def today() -> dict[str, str]:
    """The sources of a kept run, and its day."""
    return {"sources": sources_of(str(ROOT)), "date": date.today().isoformat()}


def run(tests: Sequence[str]) -> int:
    """Run tests, and keep how many cases of each passed; one that failed is not kept."""
    tally = Tally()
    status = pytest_with(tally, *tests)
    rows, said = kept(TESTS), today()
    for test, ends in tally.ends.items():
        if ends["passed"] and not ends["failed"]:
            counts = {one: str(ends[one]) for one in ("passed", "skipped")}
            rows[test] = {"test": test, **counts, **said}
        elif ends["failed"]:
            rows.pop(test, None)
    keep(TESTS, COLUMNS, rows)
    return status


def run_tool(command: str) -> int:
    """Run a script that tries faults for long, and keep its last line; a failure is not kept."""
    done = subprocess.run(
        [sys.executable, "-P", *shlex.split(command)],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(done.stdout)
    if done.returncode == 0:
        rows = kept(LONG_RUNS)
        rows[command] = {"command": command, "says": done.stdout.split("\n")[-2], **today()}
        keep(LONG_RUNS, LONG_COLUMNS, rows)
    return done.returncode


# ---- the page


def table(header: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[str]]) -> str:
    """A ``list-table``; lines of a cell are its paragraphs."""
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        f"   :widths: {' '.join(map(str, widths))}",
        "",
    ]
    for row in [header, *rows]:
        for position, cell in enumerate(row):
            first, *rest = cell.splitlines() or [""]
            lines.append(f"   {'*' if position == 0 else ' '} - {first}".rstrip())
            lines += [f"       {line}".rstrip() for line in rest]
    return "\n".join([*lines, ""])


def text(of: str) -> str:
    """A paragraph."""
    return textwrap.fill(inspect.cleandoc(of), 108, break_on_hyphens=False) + "\n"


def heading(title: str, under: str = "=") -> str:
    """A heading."""
    return f"{title}\n{under * len(title)}\n"


def shown(tests: Sequence[str], rows: Kept) -> str:
    """Tests for a cell: each with its file, whose folder is below tests/, and what passed."""
    cells = []
    for test in tests:
        file, _, name = test.removeprefix("tests/").partition("::")
        cells.append(f"``{name}`` (``{file}``)" if name else f"``{file}``")
    return ",\n".join(cells) + f":\n{passed(tests, rows)}"


def passed(tests: Sequence[str], rows: Kept) -> str:
    """How many cases of `tests` passed in kept runs, and which have not run."""
    counts = [
        [int(row["passed"]) for name, row in rows.items() if f"{name}::".startswith(f"{test}::")]
        for test in tests
    ]
    without = [f"``{test}``" for test, own in zip(tests, counts, strict=True) if not own]
    total = sum(map(sum, counts))
    said = [f"**{total} passed**"] * (total > 0)
    return ", ".join([*said, *(f"not run: {test}" for test in without)])


def of_failures(rows: Kept) -> Iterator[str]:
    """The section of what loaders fail at."""
    yield heading("Known failures of loaders")
    yield text("""
        Each failure has the public thread where it is reported or explained, and our tests of the
        same situation, with the number of their cases that passed. The threads are of other
        projects; some are closed, because the failure was mended or explained there.
    """)
    cells = []
    for one in failures():
        owner, repository, _, number = one.thread.rsplit("/", 4)[1:]
        link = f"`{owner}/{repository} {number} <{one.thread}>`__"
        cells.append([f"{one.failure}:\n{link}", shown(one.tests, rows)])
    yield table(["failure", "our tests, and their cases"], [42, 58], cells)


def of_promises(rows: Kept) -> Iterator[str]:
    """The section of promises."""
    yield heading("Promises")
    yield text("""
        The promises of the :doc:`failure model <explanation/failure_model>`, which names tests of
        the core in Rust, too. A case is a test with one set of parameters, most often one fault
        with one form of reading; some try hundreds of faults each, such as damage at every byte
        of a file.
    """)
    for section, own in promises().items():
        yield heading(section, "-")
        cells = [[promise, shown(tests, rows)] for promise, tests in own]
        yield table(["promise", "tests, and their cases"], [45, 55], cells)
    if longer := kept(LONG_RUNS):
        yield heading("Longer runs", "-")
        yield "Scripts that try more than tests do, and the last line of each:\n"
        cells = [[f"``{one['command']}``", one["says"], one["date"]] for one in longer.values()]
        yield table(["script", "says", "on"], [45, 40, 15], cells)


def of_studies() -> Iterator[str]:
    """The section of studies: a line of each, and what is slower here."""
    yield heading("Studies in one line")
    yield text("""
        For each study: its published figures, its method measured here, and this library, both at
        their best: the lowest and the highest median of all settings. The last column is the
        number of settings in which this library is slower. Published figures are of other
        machines, and of files of another size.
    """)
    scores: list[Score] = [score(one, DOCS / "results") for one in STUDY_LINES]
    header = ["study", "published", "its method here", "multitables", "times as fast", "slower in"]
    yield table(header, [22, 22, 16, 16, 12, 12], [one.cells() for one in scores])
    if cells := [list(loss) for one in scores for loss in one.losses()]:
        yield heading("Settings in which this library is slower", "-")
        header = ["study", "setting", "its method", "multitables", "times"]
        yield table(header, [20, 44, 14, 14, 8], cells)
    machines = dict.fromkeys(machine for one in scores for machine in one.machines)
    yield f"Measured on {'; '.join(machines)}.\n"


def of_corpora() -> Iterator[str]:
    """The section of files of others."""
    yield heading("Files of others")
    yield text("""
        Every dataset of files that other projects test their readers with, through each entry
        point, beside h5py and PyTables: how many are equal / refused by name / different. A
        refusal is an error that says why; :doc:`reference/coverage` has the kinds. A file that
        h5py does not open has to be refused, too, and so has a dataset that it fails to read: some
        of these files are damaged on purpose, and h5py itself crashes on a few of them.
    """)
    runs = {path.stem: json.loads(path.read_text()) for path in sorted(CORPORA.glob("*.json"))}
    entries = list(next(iter(runs.values()))["counts"])
    cells = [[corpus(run), *map(triple, run["counts"].values())] for name, run in runs.items()]
    yield table(["files", *entries], [25, 15, 15, 15, 15, 15], cells)
    for run in runs.values():
        totals = [f"{what}: {n}" for what, n in run["totals"].items() if what not in SIZES]
        if totals:
            yield text(f"In {run['corpus']}, {'; '.join(sorted(totals))}.")
        reasons: dict[str, list[str]] = {}
        for entry, counts in run["counts"].items():
            for why in sorted(counts.keys() - {*EQUAL, REFUSED}):
                reasons.setdefault(why, []).append(f"{counts[why]} by ``{entry}``")
        for why, numbers in reasons.items():
            yield text(f"Different in {run['corpus']}, {', '.join(numbers)}: {why}.")
    yield heading("Other readers' own counts", "-")
    yield text("""
        Other readers publish counts for some of these corpora, and each counts a file by a rule of
        its own, which stands in the third column. Here a file counts where its structure, types and
        values are all compared with h5py's, and the numbers are those of ``open``: equal / refused
        by name / different. A part of a split file does not count, since HDF5 does not open it by
        itself.
    """)
    yield table(
        ["reader", "its files", "counted where", "passed", "here"],
        [20, 18, 24, 16, 22],
        [published(row, runs[row["corpus"]]) for row in kept(PUBLISHED).values()],
    )
    yield heading("The files", "-")
    yield "Where each corpus comes from, by the names of packages:\n"
    cells = [
        [row["files"], f"``{row['command']}``", runs[name]["date"] if name in runs else "not run"]
        for name, row in kept(KNOWN_CORPORA).items()
    ]
    yield table(["files", "command", "run on"], [25, 60, 15], cells)
    yield text("""
        With ``PYTHONPATH=tests/support``, ``python tools/corpus.py --json
        docs/results/corpus/NAME.json --title TITLE FOLDER`` compares them, and keeps the counts.
    """)


def corpus(run: dict[str, Any]) -> str:
    """The files that were read, for a cell."""
    totals = run["totals"]
    return f"{run['corpus']}:\n{totals['files']} files, {totals['datasets']} datasets"


def published(row: dict[str, str], run: dict[str, Any]) -> list[str]:
    """A reader's published count of passes, and our counts of the same files."""
    totals = run["totals"]
    unread = sum(totals.get(f"files that h5py {why}", 0) for why in ("does not read", "crashes on"))
    ours = (
        f"{totals['files'] - unread} of {totals['files']} files:\n{triple(run['counts']['open'])}"
    )
    link = f"`{row['reader']} <{row['address']}>`__"
    return [link, row["files"], row["counts"], row["passed"], ours]


def triple(counts: dict[str, int]) -> str:
    """Equal / refused / different."""
    equal, refused = sum(counts.get(how, 0) for how in EQUAL), counts.get(REFUSED, 0)
    return f"{equal} / {refused} / {sum(counts.values()) - equal - refused}"


def page() -> str:
    """The whole page."""
    if gone := missing(named()):
        raise ScoreboardError(f"no such test: {', '.join(gone)}")
    rows = kept(TESTS)
    days = sorted({row["date"] for row in rows.values()})
    ran = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "not yet"
    parts = [
        ".. Written by tools/scoreboard.py from kept runs; a test compares the two.\n",
        f"==========\n{heading('Scoreboard')}",
        text(f"""
        Everything here can be checked: failures that are known of loaders, promises, studies, and
        files of others, each with the tests or the rows behind it. ``tools/scoreboard.py`` writes
        this page from runs that are kept in ``docs/results``; the tests ran {ran}.
        """),
        *of_failures(rows),
        *of_promises(rows),
        *of_studies(),
        *of_corpora(),
    ]
    return "\n".join(parts)


def main() -> int:
    """Do what the arguments say; return the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--check", action="store_true", help="only compare the page; 1 if it is stale"
    )
    action.add_argument(
        "--run", nargs="*", metavar="TEST", help="run tests, and keep their numbers"
    )
    action.add_argument(
        "--tool", metavar="COMMAND", help="run a script of tools, and keep its last line"
    )
    given = parser.parse_args()
    if given.run is not None:
        return run(given.run or named())
    if given.tool:
        return run_tool(given.tool)
    try:
        written = page()
    except ScoreboardError as error:
        print(error, file=sys.stderr)
        return 1
    if not given.check:
        PAGE.write_text(written, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != written:
        print(f"{PAGE} is stale: run tools/scoreboard.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
