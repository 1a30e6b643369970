"""The documentation's page of results, made from the runs that are kept in the repository.

Law
---
1. Everything it says of numbers comes from kept rows, ours and published ones; the same rows give
   the same page, with or without matplotlib.
2. It shows plots that lie beside the rows, by name; it draws none.
3. Words from rows are escaped: none of them is markup.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from _benchmark.harness import results
from _benchmark.harness.results import Row
from _benchmark.report import publish, scaling
from _benchmark.report.html import Section, own_facts, run_facts
from _benchmark.report.scaling import Curve
from _benchmark.report.tables import Table, View, directive, escaped

COMMAND = "python multitables_benchmark.py report docs/results --docs docs/benchmark.rst"
PUBLISHED = os.path.join("published", "multitables_2.csv")
TITLES = {"queue": "direct queue"}
OPTIONS = (":class: numbers", ":align: left")

INTRODUCTION = """\
What ``python multitables_benchmark.py`` measured on the machines named below, beside the tables
that the documentation of the 2.x releases has. The numbers of your device are a command away:

.. code-block:: sh

    pip install "multitables[bench]"
    multitables-benchmark --directory /data/on/the/device --output results

It writes ``results/multitables_report.html`` beside the rows. :doc:`reference/benchmark_program`
has the options.

How it is measured:

- MB/s are 10\\ :sup:`6` bytes of decoded data per second. A number is the median of its repeats,
  with minimum and maximum behind it, and as bars in the plots.
- What a contender delivers is compared with the oracle before its time counts.
- Contenders take turns within one run, so a drift of the machine favours none.
- The state of the page cache is what was observed of the file, not what was asked for.
- The values are float32 noise from a normal distribution in rows of 1024, as in the published
  tables. They do not compress, so compression only costs here. Data that compress give a device
  less to read.
"""
LEGEND = """\
In the tables, "fewest" and "best" are MB/s and the number of processes that reach them; "within 5 %
from" is the least number that comes so near to the best. A fall is a number of processes more than
5 % below what fewer reach. Shares are of the direct queue without compression, and of the direct
queue with the same codec.
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """One directory of results."""

    name: str
    sections: Sequence[Section]

    @property
    def title(self) -> str:
        """For people."""
        words = self.name.replace("_", " ")
        return words[:1].upper() + words[1:]

    @property
    def sweep_rows(self) -> Sequence[Row]:
        """The rows of its sweep; none when it has no sweep."""
        return [row for one in self.sections if one.kept.name == "sweep" for row in one.kept.rows]


def run_names(directory: str) -> list[str]:
    """The directories in `directory` that hold the results of a study."""
    return [
        name
        for name in sorted(os.listdir(directory))
        if os.path.isdir(os.path.join(directory, name))
        and publish.sections(os.path.join(directory, name))
    ]


def read_published(directory: str) -> list[Row]:
    """The published tables' rows; none when they are not there."""
    filename = os.path.join(directory, PUBLISHED)
    return results.read_rows(filename) if os.path.exists(filename) else []


def write(directory: str, filename: str) -> list[str]:
    """Write the page of `directory`; returns the plots that it names and that are not there."""
    page_directory = os.path.dirname(os.path.abspath(filename))
    text = text_of(directory, page_directory)
    part = f"{filename}.part{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, filename)
    names = image_names(text)
    return [name for name in names if not os.path.exists(os.path.join(page_directory, name))]


def text_of(directory: str, page_directory: str) -> str:
    """The page of `directory`, for a file in `page_directory`."""
    runs = [
        Run(name, publish.sections(os.path.join(directory, name))) for name in run_names(directory)
    ]
    below = os.path.relpath(directory, page_directory)
    return page(runs, read_published(directory), below)


def page(runs: Sequence[Run], published: Sequence[Row], below: str = "results") -> str:
    """The page; `below` is where the directories of the runs are, seen from it."""
    ours = [curve for run in runs for curve in _curves_of(run, alone=len(runs) == 1)]
    then = scaling.of_published(published)
    parts = [f".. Made by `{COMMAND}`; do not edit.\n", _headline("Benchmark", "=", over=True)]
    parts.append(INTRODUCTION)
    parts += _conclusion(ours, then)
    parts += _beside(ours, then, published)
    for run in runs:
        parts += _run(run, below)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _headline(words: str, line: str, over: bool = False) -> str:
    text = escaped(words)
    rule = line * len(text)
    return f"{rule}\n{text}\n{rule}\n" if over else f"{text}\n{rule}\n"


def _bullets(sentences: Iterable[str]) -> str:
    return "".join(f"- {escaped(one)}\n" for one in sentences)


# ---- what follows


def _curves_of(run: Run, alone: bool) -> list[Curve]:
    """The curves of a run, whose devices name it where there are others."""
    found = scaling.of_rows(run.sweep_rows)
    if alone:
        return found
    return [dataclasses.replace(one, device=f"{run.title}: {one.device}") for one in found]


def _conclusion(ours: Sequence[Curve], then: Sequence[Curve]) -> Iterator[str]:
    every = [*ours, *then]
    if not every:
        return
    yield _headline("Conclusion", "=")
    yield "These sentences and tables are made from the rows, and change with them.\n"
    yield _bullets(scaling.conclusions(ours, then))
    yield LEGEND
    yield scaling.process_table(every).rst(*OPTIONS)
    yield scaling.cost_table(every).rst(*OPTIONS)


# ---- our tables and the published ones


def _beside(
    ours: Sequence[Curve], then: Sequence[Curve], published: Sequence[Row]
) -> Iterator[str]:
    if not then:
        return
    yield _headline("Beside the published tables", "=")
    yield _source(published)
    for complib, access in dict.fromkeys((one.complib, one.access) for one in then):
        names = (complib, scaling.NO_COMPRESSION)
        own = [one for one in ours if one.access == access and one.complib in names]
        theirs = [one for one in then if one.access == access and one.complib == complib]
        title = f"{complib}, {TITLES.get(access, access)}: complevel (down), processes (across)"
        yield _table(title, [*own, *theirs]).rst(*OPTIONS)


def _source(published: Sequence[Row]) -> str:
    one = {name: escaped(value) for name, value in published[0].items()}
    return (
        f"The published tables are those of `the documentation of {one['software']} "
        f"<{published[0]['source']}>`__ ({one['document']}): a {one['machine']}, a file of "
        f"{one['file_gb']} GB read {one['cycles']} times, through {one['driver']}. Their MB are of "
        "2\\ :sup:`20` bytes (``docs/results/published`` has both); here they are converted. No "
        "machine of theirs is one of ours: compare how the rows run, not their heights.\n"
    )


def _table(title: str, same: Sequence[Curve]) -> Table:
    """Medians of curves, one a row."""
    processes = sorted({n for one in same for n in one.rates})
    rows = [
        [
            one.device,
            one.release_name,
            str(one.complevel),
            *(f"{one.rates[n].median:.0f}" if n in one.rates else "" for n in processes),
        ]
        for one in same
    ]
    header = ["device", "release", "level", *map(str, processes)]
    return Table(title, header, rows, left=("release",))


# ---- the runs


def _run(run: Run, below: str) -> Iterator[str]:
    yield _headline(run.title, "=")
    for section in run.sections:
        shared = run_facts(section.kept)
        yield _headline(section.title, "-")
        yield _facts(shared)
        if section.kept.more.get("interrupted"):
            yield "This run was interrupted; what it had finished is here.\n"
        for view in section.views:
            yield from _view(view, shared, f"{below}/{run.name}")


def _view(view: View, shared: Mapping[str, str], where: str) -> Iterator[str]:
    yield _headline(view.heading, "~")
    yield _facts(own_facts(view, shared))
    yield _bullets(view.sentences)
    for chart in view.charts:
        alt = f"{chart.title}: {chart.y_label}"
        yield f".. image:: {where}/{chart.name}.svg\n   :alt: {alt}\n   :width: 100%\n"
    for table in view.tables:
        yield table.rst(*OPTIONS)


def _facts(facts: Mapping[str, str]) -> str:
    rows = [(name.replace("_", " "), text) for name, text in facts.items() if text]
    return directive("", rows, ":stub-columns: 1", ":class: facts", ":align: left") if rows else ""


def image_names(text: str) -> list[str]:
    """The plots that a page shows."""
    start = ".. image:: "
    return [line[len(start) :] for line in text.splitlines() if line.startswith(start)]
