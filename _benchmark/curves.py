"""Throughput over the number of processes, ours and as published, and what follows from it.

Law
---
1. Pure: rows in, values and sentences out. A sentence says nothing that its numbers do not.
2. Medians are compared. A fall counts when it is more than 5 %; whether it is larger than the
   spread of the repeats is said with it.
3. Rates are in MB/s of 10^6 bytes; what was published in another unit says so where it is quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from _benchmark.measure import Summary, summary
from _benchmark.results import Row

TOLERANCE = 0.05
OURS = "multitables"
NO_COMPRESSION = "none"
ACCESSES = {"queue": "direct queue"}  # what an access is called where its name is not enough
OTHER_ACCESSES = {"generator": "The generator reaches", "batches": "Batches reach"}


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


# ---- what follows


def conclusions(curves: Sequence[Curve]) -> Iterator[str]:
    """One release on one device: processes, then compression, then the ways to take the rows."""
    yield from _processes(curves)
    yield from _compression(curves)
    yield from _accesses(curves)


def _processes(curves: Sequence[Curve]) -> Iterator[str]:
    plain = [one for one in curves if one.access == "queue" and one.complevel == 0]
    for curve in plain[:1] or list(curves)[:1]:
        name = curve.access_name[:1].upper() + curve.access_name[1:]
        yield f"{name}, {curve.codec}: {_run(curve)}."
    every = [fall for curve in curves for fall in falls(curve)[:1]]
    if not every:
        yield (
            "More processes never hurt: in none of the "
            f"{_series(curves)} is any number of them more than 5 % below what fewer reach."
        )
        return
    worst = max(every, key=lambda fall: (not fall.within_spread, fall.share))
    yield (
        f"More processes hurt in {len(every)} of {_series(curves)} (more than 5 % below what fewer "
        f"reach). The deepest fall: {worst}."
    )


def _run(curve: Curve) -> str:
    """How a curve runs, from its first number of processes on."""
    (many, best), first = curve.best, min(curve.rates)
    if is_level(curve):
        return (
            f"{curve.said(best.median)} MB/s at best, and every number of processes from {first} "
            f"to {max(curve.rates)} is within 5 % of it"
        )
    start = curve.rates[first].median
    parts = [f"{curve.said(start)} MB/s with {counted(first)}"]
    if many != first:
        parts.append(f"at most {curve.said(best.median)} with {many} ({best.median / start:.1f}x)")
    if enough(curve) not in (first, many):
        parts.append(f"{enough(curve)} are within 5 % of that")
    for fall in falls(curve)[:1]:
        low = curve.rates[fall.after].median
        parts.append(f"down to {curve.said(low)} with {fall.after}")
    return ", ".join(parts)


def _series(curves: Sequence[Curve]) -> str:
    return f"{len(curves)} series" if len(curves) != 1 else "1 series"


def _compression(curves: Sequence[Curve]) -> Iterator[str]:
    """What decoding costs: the data do not compress, so there is nothing to be gained."""
    queue = [one for one in curves if one.access == "queue"]
    for curve in queue:
        names = (NO_COMPRESSION, curve.complib)
        plain = [one for one in queue if one.complevel == 0 and one.complib in names]
        highest = max(one.complevel for one in queue if one.complib == curve.complib)
        if not curve.complevel or curve.complevel < highest or not plain:
            continue
        (first, one), (many, best) = next(iter(curve.rates.items())), curve.best
        at_one = one.median / plain[0].rates[first].median if first in plain[0].rates else None
        at_best = best.median / plain[0].best[1].median
        beginning = (
            f"{at_one:.2f} of the rate without compression with {counted(first)}, and "
            if at_one
            else ""
        )
        yield (
            f"{curve.codec} reaches {beginning}{at_best:.2f} of it where each has its best number "
            f"of processes ({best.median:.0f} MB/s with {many})."
        )


def _accesses(curves: Sequence[Curve]) -> Iterator[str]:
    """What the other ways to take the rows reach of the direct queue."""
    queue = {(one.complib, one.complevel): one for one in curves if one.access == "queue"}
    for access, reach in OTHER_ACCESSES.items():
        shares = [
            one.best[1].median / queue[one.complib, one.complevel].best[1].median
            for one in curves
            if one.access == access and (one.complib, one.complevel) in queue
        ]
        if shares:
            yield f"{reach} {_between(shares, '.2f')} of the direct queue, each at its best."


def beside_other_releases(curves: Sequence[Curve]) -> Iterator[str]:
    """How many times as fast as another release that was measured on the same device."""
    for device in dict.fromkeys(one.device for one in curves):
        here = [one for one in curves if one.device == device]
        ours = {_kind(one): one for one in reversed(here) if one.release.split(",")[0] == OURS}
        for release in dict.fromkeys(one.release for one in here):
            ratios = [
                ours[_kind(one)].best[1].median / one.best[1].median
                for one in here
                if one.release == release and release.split(",")[0] != OURS and _kind(one) in ours
            ]
            if ratios:
                yield (
                    f"{device}: {_between(ratios, '.1f')} times as fast as {release}, each at its "
                    "best number of processes."
                )


def overall(ours: Sequence[Curve], published: Sequence[Curve]) -> Iterator[str]:
    """The answer to whether more processes can hurt, now and then."""
    for whose, curves in (("Measured here", _of_this_release(ours)), ("Published", published)):
        devices = list(dict.fromkeys(one.device for one in curves))
        if not devices:
            continue
        deepest: dict[str, Fall] = {}
        for curve in curves:
            for fall in falls(curve)[:1]:
                known = deepest.get(curve.device)
                if known is None or fall.share > known.share:
                    deepest[curve.device] = fall
        rest = [device for device in devices if device not in deepest]
        hurt = [f"{device} (up to {fall.share:.0%})" for device, fall in deepest.items()]
        if hurt:
            yield f"{whose}, more processes reach less than fewer on: {', '.join(hurt)}."
        if rest:
            yield f"{whose}, more processes never cost more than 5 % on: {', '.join(rest)}."


def _between(values: Sequence[float], form: str) -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def _of_this_release(curves: Iterable[Curve]) -> list[Curve]:
    return [one for one in curves if one.release.split(",")[0] == OURS]


def _kind(curve: Curve) -> tuple[str, int, str]:
    return curve.complib, curve.complevel, curve.access
