"""Throughput over the number of processes, ours and as published, and what follows from it.

Law
---
1. Pure: rows in, values and sentences out. A sentence says nothing that its numbers do not.
2. Medians are compared. A fall counts when it is more than 5 %; whether it is larger than the
   spread of the repeats is said with it.
3. Rates are in MB/s of 10^6 bytes; what was published in another unit says so where it is quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from _benchmark.harness.results import Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report.tables import Table

TOLERANCE = 0.05
OURS = "multitables"
NO_COMPRESSION = "none"
ACCESSES = {"queue": "direct queue"}  # what an access is called where its name is not enough
OTHER_ACCESSES = {"generator": "the generator reaches", "batches": "batches reach"}

Name = TypeVar("Name")


@dataclass(frozen=True)
class Curve:
    """What one reader reaches with each number of processes.

    Attributes
    ----------
    release : str
        Who reads, and how: ``multitables, direct``.
    device : str
    complib, complevel, access
        ``none`` and 0 without compression.
    rates : mapping
        Number of processes -> MB/s, rising.
    printed_mb : int
        Bytes of the MB in which it was printed where it comes from.
    """

    release: str
    device: str
    complib: str
    complevel: int
    access: str
    rates: Mapping[int, Summary]
    printed_mb: int = 10**6

    @property
    def best(self) -> tuple[int, Summary]:
        """The fewest processes with the highest median, and that."""
        return max(self.rates.items(), key=lambda one: (one[1].median, -one[0]))

    @property
    def codec(self) -> str:
        """``no compression``, ``zlib 3``."""
        return f"{self.complib} {self.complevel}" if self.complevel else "no compression"

    @property
    def release_name(self) -> str:
        """Short, for tables: ``direct``, ``2.0.1, hdf5-direct``, ``2.x, published``."""
        return self.release.removeprefix(OURS).lstrip(", ")

    @property
    def access_name(self) -> str:
        """``direct queue``, ``generator``."""
        return ACCESSES.get(self.access, self.access)

    def said(self, rate: float) -> str:
        """A rate, and how it was printed where that is another number."""
        text = f"{rate:.0f}"
        if self.printed_mb == 10**6:
            return text
        return f"{text} (printed: {rate * 1e6 / self.printed_mb:.0f})"


@dataclass(frozen=True)
class Fall:
    """More processes that reach less than fewer do."""

    curve: Curve
    before: int
    after: int

    @property
    def share(self) -> float:
        """The part that is lost, 0 to 1."""
        rates = self.curve.rates
        return 1 - rates[self.after].median / rates[self.before].median

    @property
    def within_spread(self) -> bool:
        """Whether the repeats of both overlap."""
        rates = self.curve.rates
        return rates[self.after].high >= rates[self.before].low

    def __str__(self) -> str:
        high, low = (self.curve.rates[n].median for n in (self.before, self.after))
        text = (
            f"{self.curve.access_name}, {self.curve.codec}: "
            f"{self.curve.said(high)} MB/s with {counted(self.before)}, {self.curve.said(low)} "
            f"with {self.after}, {self.share:.0%} less"
        )
        return f"{text}, which is within the spread of the repeats" if self.within_spread else text


def counted(n_procs: int) -> str:
    """``1 process``, ``2 processes``."""
    return "1 process" if n_procs == 1 else f"{n_procs} processes"


def falls(curve: Curve) -> list[Fall]:
    """Every number of processes more than 5 % below what fewer reach; the deepest first."""
    found = []
    best = min(curve.rates)
    for n_procs in sorted(curve.rates):
        if curve.rates[n_procs].median < (1 - TOLERANCE) * curve.rates[best].median:
            found.append(Fall(curve, best, n_procs))
        if curve.rates[n_procs].median > curve.rates[best].median:
            best = n_procs
    return sorted(found, key=lambda fall: -fall.share)


def is_level(curve: Curve) -> bool:
    """Whether every number of processes is within 5 % of the best."""
    least = min(rate.median for rate in curve.rates.values())
    return least >= (1 - TOLERANCE) * curve.best[1].median


def enough(curve: Curve) -> int:
    """The fewest processes within 5 % of the best."""
    least = (1 - TOLERANCE) * curve.best[1].median
    return min(n for n, rate in curve.rates.items() if rate.median >= least)


# ---- from rows


def of_rows(rows: Sequence[Row]) -> list[Curve]:
    """The curves of a sweep's rows: noise, read by this library or another release of it."""
    taken = [
        row for row in rows if row["data"] == "noise" and row["contender"].split(" ")[0] == OURS
    ]
    names = _device_names(taken)
    values: dict[tuple[str, str, str, int, str], dict[int, list[float]]] = {}
    for row in taken:
        level = int(row["complevel"])
        key = (
            f"{row['contender']}, {row['driver']}",
            names[row["place"], row["limit_mb_per_s"]],
            row["complib"] if level else NO_COMPRESSION,
            level,
            row["access"],
        )
        of_key = values.setdefault(key, {})
        of_key.setdefault(int(row["n_procs"]), []).append(float(row["mb_per_s"]))
    return [
        Curve(*key, {n: summary(found) for n, found in sorted(by.items())})
        for key, by in values.items()
    ]


def _device_names(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(place, limit) -> what it is called; the place is a part of it where that is needed."""
    places: dict[tuple[str, str], str] = {}
    for row in rows:
        limit = row["limit_mb_per_s"]
        name = row["device_kind"] + (f" limited to {float(limit):g} MB/s" if limit else "")
        places.setdefault((row["place"], limit), name)
    names = list(places.values())
    return {
        key: f"{name} at {key[0]}" if names.count(name) > 1 else name
        for key, name in places.items()
    }


def of_published(rows: Sequence[Row]) -> list[Curve]:
    """The curves of published tables."""
    values: dict[tuple[str, str, str, int, str], dict[int, float]] = {}
    for row in rows:
        level = int(row["complevel"])
        key = (
            f"{row['software']}, published",
            row["device"],
            row["complib"],
            level,
            row["access"],
        )
        values.setdefault(key, {})[int(row["n_procs"])] = float(row["mb_per_s"])
    return [
        Curve(*key, {n: summary([rate]) for n, rate in sorted(by.items())}, printed_mb=2**20)
        for key, by in values.items()
    ]


# ---- what follows, in sentences


def conclusions(ours: Sequence[Curve], published: Sequence[Curve]) -> Iterator[str]:
    """What follows for this release, for others measured beside it, and for published tables."""
    for whose, curves in (("Measured here", _of_this_release(ours)), ("Published", published)):
        yield from _processes(whose, curves)
        yield from _compression(whose, curves)
        yield from _accesses(whose, curves)
    for release, theirs in _groups(ours, lambda one: one.release):
        if not _of_this_release(theirs):
            yield from _processes(f"Measured here with {release}", theirs)
    yield from _other_releases(ours)


def _processes(whose: str, curves: Sequence[Curve]) -> Iterator[str]:
    """Where more processes hurt, and where they never do."""
    never: list[str] = []
    for device, own in _groups(_compared(curves), lambda one: one.device):
        hurt = [fall for curve in own for fall in falls(curve)[:1]]
        if not hurt:
            level = all(is_level(curve) for curve in own)
            never.append(f"{device} (every number of them is within 5 %)" if level else device)
            continue
        plain = next((fall for fall in hurt if fall.curve is _plain(own)), None)
        worst = max(hurt, key=lambda fall: (not fall.within_spread, fall.share))
        places = [f"{plain}"] if plain else []
        places += [f"the deepest fall is {worst}"] if worst is not plain else []
        yield (
            f"{whose}, more processes hurt on {device}, in {len(hurt)} of {len(own)} series: "
            f"{'; '.join(places)}."
        )
    if never:
        yield (
            f"{whose}, more processes never hurt on {', '.join(never)}: no number of them is more "
            "than 5 % below what fewer reach."
        )


def _compression(whose: str, curves: Sequence[Curve]) -> Iterator[str]:
    costs = [cost for _, own in _releases(curves) for cost in decoding_costs(own)]
    if costs:
        yield (
            f"{whose}, the highest levels of compression reach "
            f"{_between([cost.with_fewest for cost in costs], '.2f')} of the rate without "
            "compression with the fewest processes, and "
            f"{_between([cost.at_best for cost in costs], '.2f')} where each has its best number."
        )


def _accesses(whose: str, curves: Sequence[Curve]) -> Iterator[str]:
    for access, reach in OTHER_ACCESSES.items():
        shares = [
            share for _, own in _releases(curves) for share in shares_of_queue(own, access).values()
        ]
        if shares:
            yield (
                f"{whose}, {reach} {_between(shares, '.2f')} of the direct queue, each at its best."
            )


def _other_releases(curves: Sequence[Curve]) -> Iterator[str]:
    """How many times as fast as another release that was measured on the same device."""
    for device, here in _groups(curves, lambda one: one.device):
        ours = {_kind(one): one for one in reversed(_of_this_release(here))}
        for release, theirs in _groups(here, lambda one: one.release):
            if _of_this_release(theirs):
                continue
            ratios = [
                ours[_kind(one)].best[1].median / one.best[1].median
                for one in theirs
                if _kind(one) in ours
            ]
            if ratios:
                yield (
                    f"Measured here on {device}, this release is {_between(ratios, '.1f')} times "
                    f"as fast as {release}, each at its best number of processes."
                )


# ---- what follows, in tables


def _compared(curves: Sequence[Curve]) -> list[Curve]:
    """Those that were measured with several numbers of processes; of one nothing follows."""
    return [one for one in curves if len(one.rates) > 1]


def process_table(curves: Sequence[Curve]) -> Table:
    """What more processes bring each release on each device."""
    rows = []
    for (device, _), own in _releases(_compared(curves)):
        curve, first = _plain(own), min(_plain(own).rates)
        (many, best), start = curve.best, curve.rates[first].median
        hurt = [fall for one in own for fall in falls(one)[:1]]
        rows.append(
            [
                device,
                curve.release_name,
                f"{start:.0f} with {first}",
                f"{best.median:.0f} with {many}",
                f"{best.median / start:.1f}x",
                str(enough(curve)),
                f"{max(fall.share for fall in hurt):.0%}" if hurt else "none",
                f"{len(hurt)} of {len(own)}",
            ]
        )
    header = [
        *("device", "release", "fewest", "best", "gain", "within 5 % from", "deepest fall"),
        "series that fall",
    ]
    return Table(
        "Processes: MB/s of the direct queue without compression, and falls of all series",
        header,
        rows,
        left=("release",),
    )


def cost_table(curves: Sequence[Curve]) -> Table:
    """What decoding and the other ways to take the rows cost each release on each device."""
    rows = []
    for (device, _), own in _releases(curves):
        costs = {cost.codec: cost for cost in decoding_costs(own)}
        others = [shares_of_queue(own, access) for access in OTHER_ACCESSES]
        for codec in dict.fromkeys(one.codec for one in own if one.access == "queue"):
            cost = costs.get(codec)
            cells = [f"{cost.with_fewest:.2f}", f"{cost.at_best:.2f}"] if cost else ["", ""]
            cells += [f"{shares[codec]:.2f}" if codec in shares else "" for shares in others]
            if any(cells):
                rows.append([device, own[0].release_name, codec, *cells])
    header = [
        *("device", "release", "codec", "of no compression, fewest", "at best"),
        *(f"{access} of queue" for access in OTHER_ACCESSES),
    ]
    return Table("What decoding costs, and the access", header, rows, left=("release", "codec"))


@dataclass(frozen=True)
class Cost:
    """The rate of the highest level of a codec, as shares of that without compression."""

    codec: str
    with_fewest: float
    at_best: float


def decoding_costs(curves: Sequence[Curve]) -> list[Cost]:
    """Of the direct queue of one release on one device."""
    queue = [one for one in curves if one.access == "queue"]
    found = []
    for complib, levels in _groups(queue, lambda one: one.complib):
        plain = [
            one for one in queue if one.complevel == 0 and one.complib in (NO_COMPRESSION, complib)
        ]
        highest = max(levels, key=lambda one: one.complevel)
        first = min(highest.rates)
        if highest.complevel and plain and first in plain[0].rates:
            found.append(
                Cost(
                    highest.codec,
                    highest.rates[first].median / plain[0].rates[first].median,
                    highest.best[1].median / plain[0].best[1].median,
                )
            )
    return found


def shares_of_queue(curves: Sequence[Curve], access: str) -> dict[str, float]:
    """Codec -> what `access` reaches of the direct queue, of one release on one device."""
    queue = {_kind(one)[:2]: one for one in curves if one.access == "queue"}
    return {
        one.codec: one.best[1].median / queue[_kind(one)[:2]].best[1].median
        for one in curves
        if one.access == access and _kind(one)[:2] in queue
    }


def _plain(curves: Sequence[Curve]) -> Curve:
    """The direct queue without compression, or what is nearest to it."""
    return min(curves, key=lambda one: (one.access != "queue", one.complevel))


def _releases(curves: Sequence[Curve]) -> Iterator[tuple[tuple[str, str], list[Curve]]]:
    return _groups(curves, lambda one: (one.device, one.release))


def _groups(
    curves: Iterable[Curve], name: Callable[[Curve], Name]
) -> Iterator[tuple[Name, list[Curve]]]:
    """Curves by what they have in common, in their order."""
    found: dict[Name, list[Curve]] = {}
    for one in curves:
        found.setdefault(name(one), []).append(one)
    yield from found.items()


def _of_this_release(curves: Iterable[Curve]) -> list[Curve]:
    return [one for one in curves if one.release.split(",")[0] == OURS]


def _kind(curve: Curve) -> tuple[str, int, str]:
    return curve.complib, curve.complevel, curve.access


def _between(values: Sequence[float], form: str) -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"
