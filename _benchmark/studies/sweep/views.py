"""What the sweep shows: tables, plots and what follows, from the rows it kept.

Law
---
1. Pure: rows in, values out. Every number is a median of rows, and sentences follow from numbers.
2. Each place and limit has a view: the tables of 2.x, complevel down and processes across, then the
   peers, each beside this library.
3. The cell of a contender that failed says so; it is never empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _benchmark.harness.results import PLACE_FACTS, Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report.tables import Chart, Series, Table, View
from _benchmark.studies.sweep.plan import KEY, OURS, key_of

TITLES = {
    "queue": "Direct queue",
    "generator": "Generator",
    "batches": "Batches, mixed over a window",
    "slabs": "Slabs",
}
HURTS = 0.95  # of what fewer processes reach: below this, more of them cost throughput
UNIT = "MB/s of decoded data"
STORED = "MB/s of storage"
COLUMN_OF = {UNIT: "mb_per_s", STORED: "stored_mb_per_s"}


@dataclass(frozen=True)
class Cells:
    """Numbers and faults of one view, found by what they are of."""

    passes: Mapping[tuple[str, ...], Sequence[Row]]
    faults: Mapping[tuple[str, ...], str]

    def summary(self, key: tuple[str, ...], column: str = "mb_per_s") -> Summary | None:
        """Median and spread of a cell; None when there is no number."""
        rows = [] if key in self.faults else self.passes.get(key, [])
        return summary([float(row[column]) for row in rows]) if rows else None

    def text(self, key: tuple[str, ...], column: str = "mb_per_s") -> str:
        """A cell of a table."""
        if key in self.faults:
            return "FAILED"
        found = self.summary(key, column)
        return str(found) if found else "-"


@dataclass(frozen=True)
class Line:
    """The cells of one reader that differ in the number of processes only."""

    key: Mapping[str, str]  # KEY without n_procs

    def at(self, n_procs: str) -> tuple[str, ...]:
        """The key of one cell."""
        return key_of({**self.key, "n_procs": n_procs})


def views(kept: Kept) -> list[View]:
    """Everything that `kept` has to show."""
    faults: Sequence[Mapping[str, Any]] = kept.more.get("faults", [])
    groups = _distinct((row["place"], row["limit_mb_per_s"]) for row in kept.rows)
    groups += [(one["place"], "") for one in faults]
    found = []
    for number, (place, limit) in enumerate(_distinct(groups)):
        rows = [r for r in kept.rows if (r["place"], r["limit_mb_per_s"]) == (place, limit)]
        here = [
            {name: str(one.get(name, limit)) for name in (*KEY, "fault")}  # at any limit
            for one in faults
            if one["place"] == place
        ]
        found.append(_view(number, place, limit, rows, here, kept.more))
    return found


def _view(
    number: int,
    place: str,
    limit: str,
    rows: Sequence[Row],
    faults: Sequence[Mapping[str, str]],
    more: Mapping[str, Any],
) -> View:
    passes: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        passes.setdefault(key_of(row), []).append(row)
    cells = Cells(passes, {key_of(one): one["fault"] for one in faults})
    everything = [*rows, *faults]
    facts = {name: rows[0][name] for name in PLACE_FACTS if name in rows[0]} if rows else {}
    caches = _distinct(f"{row['driver']}: {row['cache']}" for row in rows)
    facts["page cache"] = "; ".join(caches) or "nothing was timed"
    kind = facts.get("device_kind", "device")
    heading = f"{kind} at {place}" + (f", limited to {float(limit):g} MB/s" if limit else "")

    tables: list[Table] = []
    charts: list[Chart] = []
    sentences: list[str] = []
    of_peers: list[str] = []
    for data in _distinct(one["data"] for one in everything):
        of_data = [one for one in everything if one["data"] == data]
        complibs = _distinct(one["complib"] for one in of_data)
        compared = of_data  # with the peers: what is not compressed once, not with every library
        for complib in [one for one in complibs if one != "none"] or complibs:
            beside = [one for one in of_data if one["complib"] in (complib, "none")]
            swept = [one for one in beside if _is_swept(one)]
            for who in _distinct((o["contender"], o["access"], o["driver"]) for o in swept):
                lines = _lines(swept, who)
                names = (*who, data, complib)
                tables += _level_tables(cells, lines, names)
                charts.append(_level_chart(f"sweep_{number}", cells, lines, names))
                sentences += _process_sentences(cells, lines, names)
            beside = [one for one in compared if one["complib"] in (complib, "none")]
            for table, chart, said in _peers(f"sweep_{number}", cells, beside, data, complib):
                tables.append(table)
                charts.append(chart)
                of_peers.append(said)
            compared = [one for one in compared if one["complib"] != "none"]
    sentences += _access_sentences(cells, everything)
    sentences += filter(None, of_peers)
    sentences += [f"FAILED {' '.join(filter(None, key))}: {t}" for key, t in cells.faults.items()]
    for who, reasons in more.get("left_out", {}).items():
        sentences += [
            f"Not measured: {who} with {', '.join(datasets)}: {why}"
            for why, datasets in reasons.items()
        ]
    sentences += [f"Note: {note}" for note in more.get("notes", [])]
    return View(heading, facts, tables, charts, sentences)


def _is_swept(one: Mapping[str, str]) -> bool:
    """Whether it is this library or the published method; the others are peers."""
    return one["contender"] == OURS or one["driver"] == "hdf5-direct"


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _lines(swept: Sequence[Mapping[str, str]], who: tuple[str, str, str]) -> dict[str, Line]:
    """The lines of a table, by complevel."""
    found = {}
    for one in sorted(swept, key=lambda one: int(one["complevel"])):
        if (one["contender"], one["access"], one["driver"]) == who:
            found[one["complevel"]] = Line({name: one[name] for name in KEY if name != "n_procs"})
    return found


def _processes(lines: Iterable[Line], cells: Cells) -> list[str]:
    keys = [key for line in lines for key in (*cells.passes, *cells.faults) if _on(key, line)]
    at = KEY.index("n_procs")
    return sorted({key[at] for key in keys}, key=int)


def _on(key: tuple[str, ...], line: Line) -> bool:
    return key == line.at(key[KEY.index("n_procs")])


def _name(names: Sequence[str]) -> str:
    """``Direct queue, driver direct, zlib``, and the data where it is no noise."""
    contender, access, driver, data, complib = names
    title = TITLES.get(access, access)
    # the published method has one I/O mode, which its name says
    who = f"{title}, driver {driver}" if contender == OURS else f"{contender}: {title}"
    what = f"{who}, {'no compression' if complib == 'none' else complib}"
    return what if data == "noise" else f"{what}, {data}"


def _level_tables(cells: Cells, lines: Mapping[str, Line], names: Sequence[str]) -> list[Table]:
    processes = _processes(lines.values(), cells)
    units = (UNIT,) if names[3] == "noise" else (UNIT, STORED)
    return [
        Table(
            f"{_name(names)}: {unit}",
            ["complevel / processes", *processes],
            [
                [level, *(cells.text(line.at(n), COLUMN_OF[unit]) for n in processes)]
                for level, line in lines.items()
            ],
        )
        for unit in units
    ]


def _points(cells: Cells, line: Line) -> list[tuple[float | str, Summary]]:
    found = [(n, cells.summary(line.at(n))) for n in _processes([line], cells)]
    return [(float(n), one) for n, one in found if one is not None]


def _slug(*words: str) -> str:
    text = "_".join(words).lower()
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def _level_chart(
    start: str, cells: Cells, lines: Mapping[str, Line], names: Sequence[str]
) -> Chart:
    series = [
        Series("no compression" if level == "0" else f"complevel {level}", _points(cells, line))
        for level, line in lines.items()
    ]
    return Chart(
        _slug(start, *names), _name(names), "processes", UNIT, [one for one in series if one.points]
    )


# ---- the peers


def _readers_of(one: Mapping[str, str]) -> tuple[str, str, str]:
    return one["contender"], one["access"], one["driver"]


def _best(cells: Cells, line: Line) -> tuple[str, Summary] | None:
    """The number of processes with the highest median, and that."""
    found = [(n, cells.summary(line.at(n))) for n in _processes([line], cells)]
    have = [(n, one) for n, one in found if one is not None]
    return max(have, key=lambda pair: pair[1].median, default=None)


def _is_ours_or_peer(one: Mapping[str, str]) -> bool:
    return one["contender"] == OURS or not _is_swept(one)


def _levels_with_peers(
    beside: Sequence[Mapping[str, str]],
) -> Iterable[tuple[str, list[Line]]]:
    """For each level that peers read: this library's lines, by any driver, and theirs."""
    for level in sorted({one["complevel"] for one in beside}, key=int):
        rows = [one for one in beside if one["complevel"] == level and _is_ours_or_peer(one)]
        if any(one["contender"] != OURS for one in rows):
            yield (
                level,
                [
                    Line({name: row[name] for name in KEY if name != "n_procs"})
                    for row in {_readers_of(one): one for one in rows}.values()
                ],
            )


def _peers(
    start: str, cells: Cells, beside: Sequence[Mapping[str, str]], data: str, complib: str
) -> Iterator[tuple[Table, Chart, str]]:
    """The table, the plot and the sentence of each level that peers read."""
    for level, lines in _levels_with_peers(beside):
        what = f"{complib} {level}" if level != "0" else "no compression"
        processes = _processes(lines, cells)
        best = [(line, _best(cells, line)) for line in lines]
        reached = [(found[1].median, line) for line, found in best if found]
        ours = max((rate for rate, line in reached if _is_queue(line)), default=None)
        rows, bars = [], list[tuple[str, Summary]]()
        for line, found in best:
            texts = [cells.text(line.at(n)) for n in processes]
            ratio = f"{ours / found[1].median:.1f}x" if ours and found else ""
            who = _reader_name(line)
            rows.append([who, *(text if text != "-" else "" for text in texts), ratio])
            if found:
                bars.append((f"{who} x{found[0]}", found[1]))
        bars.sort(key=lambda pair: pair[1].median)
        table = Table(
            f"Peers, {what}, {data}, through the page cache but where it says direct: {UNIT}",
            ["contender / processes or threads", *processes, "direct queue / it, best of each"],
            rows,
        )
        chart = Chart(
            _slug(start, "peers", data, complib, level),
            f"Peers at their best number of processes, {what}, {data}",
            "",
            UNIT,
            [Series("best", bars)],
            kind="bars",
            strong=f"{OURS}, ",
        )
        theirs = [(rate, line.key["contender"]) for rate, line in reached]
        rate, who = max((one for one in theirs if one[1] != OURS), default=(0.0, ""))
        said = (
            f"{what}, {data}, through the page cache: the direct queue delivers {ours / rate:.1f} "
            f"times as much as the best peer, {who}."
            if ours and rate
            else ""
        )
        yield table, chart, said


def _reader_name(line: Line) -> str:
    name = f"{line.key['contender']}, {line.key['access']}"
    return name if line.key["driver"] == "buffered" else f"{name}, {line.key['driver']}"


def _is_queue(line: Line) -> bool:
    """The direct queue as peers read: through the page cache."""
    return _readers_of(line.key) == (OURS, "queue", "buffered")


# ---- what follows


def _process_sentences(cells: Cells, lines: Mapping[str, Line], names: Sequence[str]) -> list[str]:
    """What more processes bring, and whether they ever cost."""
    found = []
    hurt = []
    for level, line in lines.items():
        best = _best(cells, line)
        one = cells.summary(line.at("1"))
        if best is None or one is None or len(_points(cells, line)) < 2:
            continue  # of one number of processes nothing follows
        gain = best[1].median / one.median
        found.append(f"complevel {level}: {best[1].median:.0f} MB/s with {best[0]} ({gain:.1f}x)")
        high, high_at = one.median, "1"
        for n in _processes([line], cells)[1:]:
            here = cells.summary(line.at(n))
            if here is None:
                continue
            if here.median < HURTS * high:
                share = 1 - here.median / high
                hurt.append(f"{n} at complevel {level} ({share:.0%} below {high_at})")
            if here.median > high:
                high, high_at = here.median, n
    if not found:
        return []
    said = f"{_name(names)}: best number of processes, and its gain over one: {'; '.join(found)}."
    cost = (
        f"More processes cost throughput: {', '.join(hurt)}."
        if hurt
        else "No number of processes is more than 5 % below what fewer reach."
    )
    return [f"{said} {cost}"]


def _access_sentences(cells: Cells, everything: Sequence[Mapping[str, str]]) -> list[str]:
    """What the generator and batches reach of the queue, at the best of each."""
    best: dict[str, dict[tuple[str, ...], float]] = {}
    for one in everything:
        if one["contender"] != OURS:
            continue
        line = Line({name: one[name] for name in KEY if name != "n_procs"})
        found = _best(cells, line)
        if found:
            rest = tuple(one[n] for n in ("data", "complib", "complevel", "driver"))
            best.setdefault(one["access"], {})[rest] = found[1].median
    sentences = []
    for access, rates in best.items():
        shares = [rates[key] / best["queue"][key] for key in rates if key in best.get("queue", {})]
        if access != "queue" and shares:
            low, high = min(shares), max(shares)
            sentences.append(
                f"{TITLES[access]}: {_span(low, high)} of the direct queue, each at its best."
            )
    return sentences


def _span(low: float, high: float) -> str:
    texts = _distinct([f"{low:.2f}", f"{high:.2f}"])
    return " to ".join(texts)
