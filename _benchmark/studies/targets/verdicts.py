"""From the figures of a study of targets to its verdicts: ratios, spreads, met or missed.

Law
---
1. Pure: figures are given, and never measured.
2. A ratio is the median of the rounds' own ratios, so both its sides saw the same moment.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from _benchmark.harness.rounds import Summary, summary

COLUMNS = ("study", "part", "dataset", "contender", "cache", "round", "value", "unit")
LABEL = "multitables"
OLD_LABEL = "2.0.1"

Values = Sequence[float]


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


def ratio_target(
    what: str, ours: Values | None, theirs: Values | None, least: float, note: str
) -> Target:
    """Judge ours / theirs, round by round."""
    found = ratios(ours, theirs) if ours and theirs else None
    return _target(what, found, f">= {least:g}x", ".2f", "x", lambda one: one >= least, note)


def limit_target(
    what: str, values: Values | None, most: float, unit: str, note: str = ""
) -> Target:
    """Judge the median of values that must stay below a limit."""
    found, wanted = summary(values) if values else None, f"< {most:g} {unit}"
    return _target(what, found, wanted, ".3g", f" {unit}", lambda one: one < most, note)


def floor_target(
    what: str, values: Values | None, least: float, unit: str, note: str = ""
) -> Target:
    """Judge the median of values that must reach a floor."""
    found, wanted = summary(values) if values else None, f">= {least:g} {unit}"
    return _target(what, found, wanted, ".0f", f" {unit}", lambda one: one >= least, note)


def _target(
    what: str,
    found: Summary | None,
    wanted: str,
    form: str,
    unit: str,
    meets: Callable[[float], bool],
    note: str,
) -> Target:
    if found is None:
        return Target(what, "-", wanted, None, note)
    # of a ratio each figure has its x, of others the unit stands once
    text = with_spread(found, form, unit) if unit == "x" else with_spread(found, form) + unit
    return Target(what, text, wanted, meets(found.median), note)


def ratios(ours: Values, theirs: Values) -> Summary:
    """Each round's ratio, summed up."""
    return summary([one / other for one, other in zip(ours, theirs, strict=False)])


def with_spread(found: Summary, form: str, unit: str = "") -> str:
    """The median, and the spread where there is one."""
    median = f"{found.median:{form}}{unit}"
    return median if found.repeats == 1 else f"{median} ({found.low:{form}}-{found.high:{form}})"


def as_ratio(ours: Values | None, theirs: Values | None) -> str:
    """``6.10x (5.80-6.30)``; empty for one side alone, or beside itself."""
    if not ours or not theirs or ours == theirs:
        return ""
    return with_spread(ratios(ours, theirs), ".2f", "x")


def best(rates: Mapping[str, Values], start: str = "") -> str | None:
    """The fastest contender whose name begins with `start`, by median."""
    names = [name for name in rates if name.startswith(start)]
    return max(names, key=lambda name: statistics.median(rates[name]), default=None)
