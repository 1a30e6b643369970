"""From the event logs of ranks to how long they read, computed, and took in all.

Law
---
1. Pure: the text of a log in, numbers out. A line is ``kind id name event timestamp``.
2. A rank's phase is the sum over its parts, which the id of ``main`` events numbers; of all ranks
   the slowest counts, as in the published summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEADER = "kind id name event timestamp"
#: phase -> the events it lies between.
PHASES = {
    "go": ("aftersetupGo", "beforefillSpectra"),
    "fillSpectra": ("beforefillSpectra", "afterfillSpectra"),
    "total": ("start", "afterreduce"),
}


@dataclass(frozen=True)
class RankTimes:
    """Seconds of one rank."""

    read: float
    compute: float
    total: float


def times_of(log: str) -> RankTimes:
    """What one log says.

    Raises
    ------
    ValueError
        It is not a log, or an event is missing.
    """
    header, *lines = log.splitlines()
    if header != HEADER:
        raise ValueError(f"a log begins with {HEADER!r}, got {header!r}")
    stamps: dict[tuple[str, str], float] = {}
    for line in lines:
        kind, part, _name, event, stamp = line.split()
        if kind == "main":
            stamps[event, part] = float(stamp)
    found = []
    for begin, end in PHASES.values():
        parts = [part for event, part in stamps if event == begin]
        if not parts or any((end, part) not in stamps for part in parts):
            raise ValueError(f"a log lacks the event {begin} or {end}")
        found.append(sum(stamps[end, part] - stamps[begin, part] for part in parts))
    return RankTimes(*found)


def slowest(ranks: Sequence[RankTimes]) -> RankTimes:
    """The published summary: of each phase the maximum over the ranks."""
    return RankTimes(
        max(one.read for one in ranks),
        max(one.compute for one in ranks),
        max(one.total for one in ranks),
    )
