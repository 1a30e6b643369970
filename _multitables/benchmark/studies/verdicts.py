"""From figures to verdicts: measured, wanted, met or missed.

Law
---
1. Pure: figures are given, and never measured.
2. Each side is at its best: the fastest of the contenders whose names begin so.
3. A target without a measurement says why, and counts as neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from _multitables.benchmark.harness.rounds import Summary
from _multitables.benchmark.report.figures import VALUE, Figures
from _multitables.benchmark.report.tables import spread

LABEL = "multitables"
#: All other libraries, as rivals.
OTHERS = ("",)


@dataclass(frozen=True)
class Wanted:
    """A target of one case.

    Attributes
    ----------
    ours : str
        The name of a contender, or the start of several names; the best one counts.
    theirs : tuple of str
        Names of rivals, in the same form; `OTHERS`: every library but this. Empty: the figure
        has a limit.
    least : float
        The least ratio to the rivals; without rivals, the least figure.
    most : float
        The most that the figure may be.
    column : str
        Of the results.
    note : str
        What the verdict means.
    """

    ours: str
    theirs: tuple[str, ...] = ()
    least: float = 0.0
    most: float = 0.0
    column: str = VALUE
    note: str = ""


@dataclass(frozen=True)
class Target:
    """One row of the final table. ``met`` has no value where nothing was measured or judged."""

    what: str
    measured: str
    wanted: str
    met: bool | None
    note: str = ""

    @property
    def verdict(self) -> str:
        """``met``, ``MISSED``, ``not measured`` or ``not judged``."""
        if self.met is None:
            return "not measured" if self.measured == "-" else "not judged"
        return "met" if self.met else "MISSED"


def judged(
    title: str, wanted: Wanted, found: Figures, reasons: Mapping[str, str], counts: bool = True
) -> Target:
    """The verdict of the rows of one case.

    `reasons` say why a contender has no number; with `counts` False the data is too little.
    """
    ours = side(found, _without(reasons, wanted.ours), wanted.column)
    column = "" if wanted.column == VALUE else f", {wanted.column}"
    name = ours.first("contender") or wanted.ours
    if wanted.theirs:
        theirs = side(found, _without(reasons, *wanted.theirs), wanted.column)
        rival = theirs.first("contender") or wanted.theirs[0] or "others"
        what, unit = f"{title}: {name} / {rival}{column}", "x"
        value, target = ours.times_as_good(theirs, wanted.column), f">= {wanted.least:.3g}x"
        names = (wanted.ours, *wanted.theirs)
    else:
        what = f"{title}: {name}{column}"
        unit = f" {ours.first('unit')}".rstrip() if wanted.column == VALUE else ""
        value, names = ours.summary(wanted.column), (wanted.ours,)
        target = f"< {wanted.most:g}{unit}" if wanted.most else f">= {wanted.least:.3g}{unit}"
    if value is None:
        why = (why for one, why in reasons.items() if one.startswith(names))
        return Target(what, "-", target, None, next(why, wanted.note))
    met = value.median < wanted.most if wanted.most else value.median >= wanted.least
    return Target(what, _measured(value, unit), target, met if counts else None, wanted.note)


def _without(reasons: Mapping[str, str], *starts: str) -> tuple[str, ...]:
    """Without those who are left out themselves: a longer name does not stand in for them."""
    return tuple(one for one in starts if one not in reasons)


def _measured(value: Summary, unit: str) -> str:
    return spread(value, unit) if unit == "x" else spread(value) + unit


def side(found: Figures, starts: tuple[str, ...], column: str = VALUE) -> Figures:
    """The rows of the best of some contenders; a name that is whole is alone."""
    names = found.distinct("contender")
    chosen = [one for one in names if one in starts] or [
        one
        for one in names
        if any(
            one.startswith(start) and (start.startswith(LABEL) or not one.startswith(LABEL))
            for start in starts
        )
    ]
    return Figures(
        [row for row in found.rows if row["contender"] in chosen],
        [one for one in found.faults if one.get("contender") in chosen],
    ).best(column)
