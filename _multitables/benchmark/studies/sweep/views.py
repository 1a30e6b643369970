"""Tables and plots of the sweep, for each device and limit.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. First stand the peers, each beside this library; then, for each access, I/O mode and library,
   the table of 2.x, complevel down and processes across.
3. The cell of a contender that failed says so; it is never empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from _multitables.benchmark.harness.results import PLACE_FACTS, Kept
from _multitables.benchmark.machine import io_mode
from _multitables.benchmark.report.figures import Column, Figures, ratio
from _multitables.benchmark.report.tables import Chart, Series, Table, View, file_stem
from _multitables.benchmark.studies import beside
from _multitables.benchmark.studies.frame import LABEL, without_numbers

TITLES = {
    "queue": "Direct queue",
    "generator": "Generator",
    "batches": "Batches, mixed over a window",
    "slabs": "Slabs",
}
UNIT = "MB/s of decoded data"
STORED = "MB/s of storage"
WHO = {"contender": "contender", "access": "access", "driver": "I/O"}


def views(kept: Kept) -> list[View]:
    """Everything that `kept` has to show."""
    found = without_numbers(kept)
    if kept.more.get("notes"):
        found.append(View("Notes", {}, sentences=kept.more["notes"]))
    figures = Figures(kept.rows, kept.more.get("faults", ()))
    for number, ((place, limit), here) in enumerate(figures.each("place", "limit_mb_per_s")):
        facts = {name: here.first(name) for name in PLACE_FACTS if here.first(name)}
        caches = dict.fromkeys(f"{row['driver']}: {row['cache']}" for row in here.rows)
        facts["page cache"] = "; ".join(caches) or "nothing was timed"
        kind = facts.get("device_kind", "device")
        heading = f"{kind} at {place}" + (f", limited to {float(limit):g} MB/s" if limit else "")
        compared = kept.more.get(beside.NAME, ())
        tables = beside.tables(compared, place=place) if not limit else []
        charts = []
        for table, chart in _of_place(f"sweep_{number}", here):
            tables.append(table)
            charts += [chart] if chart else []
        found.append(View(heading, facts, tables, charts))
    return found


def _of_place(start: str, here: Figures) -> Iterator[tuple[Table, Chart | None]]:
    for (data,), of_data in here.each("data"):
        for (complib, level), of_level in of_data.each("complib", "complevel"):
            yield from _peers(start, of_level, data, complib, level)
        complibs = [one for one in of_data.distinct("complib") if one != "none"]
        for complib in complibs or ["none"]:
            swept = of_data.where(complib=("none", complib))
            for who, lines in swept.each(*WHO):
                if _is_swept(lines):
                    yield from _levels(start, swept, lines, (*who, data, complib))


def _is_swept(lines: Figures) -> bool:
    """Whether it is this library or the published method; the others are peers."""
    return lines.first("contender") == LABEL or lines.first("driver") == io_mode.HDF5_DIRECT


def _best(line: Figures) -> Figures:
    """With the number of processes that has the highest median."""
    return line.best(by=("n_procs",))


def _levels(
    start: str, swept: Figures, lines: Figures, names: tuple[str, ...]
) -> Iterator[tuple[Table, Chart | None]]:
    """The table of 2.x; for other data than noise another, of storage."""
    contender, access, driver, data, complib = names
    title = TITLES.get(access, access)
    # the published method has one I/O mode, which its name says
    who = f"{title}, driver {driver}" if contender == LABEL else f"{contender}: {title}"
    what = f"{who}, {'no compression' if complib == 'none' else complib}"
    what += "" if data == "noise" else f", {data}"
    queue = swept.where(contender=contender, access="queue", driver=driver)
    more: dict[str, Column] = {}
    if access != "queue" and queue.rows:
        more["best / best of the queue"] = lambda one: ratio(
            _best(one).times_as_good(_best(queue.where(complevel=one.first("complevel"))))
        )
    elif len(lines.distinct("n_procs")) > 1:
        more["best / 1"] = lambda one: ratio(_best(one).times_as_good(one.where(n_procs="1")))
    down = {"complevel": "complevel / processes"}
    series = [
        one.series("no compression" if level == "0" else f"complevel {level}", "n_procs")
        for (level,), one in lines.each("complevel")
    ]
    rated = [one for one in series if one.points]
    table = lines.grid(f"{what}: {UNIT}", down, "n_procs", more=more)
    yield table, Chart(file_stem(start, *names), what, "processes", UNIT, rated)
    if data != "noise":
        yield lines.grid(f"{what}: {STORED}", down, "n_procs", column="stored_mb_per_s"), None


def _peers(
    start: str, of_level: Figures, data: str, complib: str, level: str
) -> Iterator[tuple[Table, Chart]]:
    """The table and the plot of a level that peers read."""
    read = of_level.where(driver=(io_mode.DIRECT, io_mode.BUFFERED))
    if {who for (who, *_), _line in read.each(*WHO)} <= {LABEL}:
        return
    what = f"{complib} {level}" if level != "0" else "no compression"
    ours = _best(read.where(contender=LABEL, access="queue", driver="buffered"))
    beside_it: dict[str, Column] = {
        "direct queue / it, best of each": lambda line: ratio(ours.times_as_good(_best(line)))
    }
    title = f"Peers, {what}, {data}, through the page cache but where it says direct: {UNIT}"
    bars = sorted(
        (
            (f"{', '.join(who)} x{best.first('n_procs')}", found)
            for who, line in read.each(*WHO)
            for best in [_best(line)]
            if (found := best.summary())
        ),
        key=lambda pair: pair[1].median,
    )
    chart = Chart(
        file_stem(start, "peers", data, complib, level),
        f"Peers at their best number of processes, {what}, {data}",
        "",
        UNIT,
        [Series("best", bars)],
        kind="bars",
        strong=f"{LABEL}, ",
    )
    yield read.grid(title, WHO, "n_procs", more=beside_it), chart
