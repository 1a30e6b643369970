"""How a run of any study begins and ends: the machine, what was finished, the report.

Law
---
1. However a run ends, what was finished is printed and kept.
2. The exit status is 1 when a check of the data failed, 130 when the run was interrupted, 2 when no
   row could be measured, else 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, Protocol

from _benchmark.harness.results import ResultFile
from _benchmark.report.tables import heading


class Run(Protocol):
    """One run of a study; it fills itself as it goes, so that an interrupted run can be shown."""

    @property
    def faults(self) -> Sized: ...

    @property
    def more(self) -> Mapping[str, Any]: ...

    def measure(self) -> None: ...

    def text(self) -> str: ...


def conduct(results: ResultFile, facts: Mapping[str, str], run: Run) -> int:
    """Measure, print, keep; returns the exit status."""
    print(heading(facts), flush=True)
    interrupted = False
    try:
        run.measure()
    except KeyboardInterrupt:
        interrupted = True
    results.save_json(interrupted=interrupted, **run.more)
    text = run.text()
    results.save_text(f"{heading(facts)}\n\n{text}")
    print(f"\n{text}")
    if interrupted or results.rows:
        end = "interrupted; what was finished" if interrupted else "results"
        print(f"\n{end}: {results.filename}")
    else:
        print("\nno row could be measured: there are no results")
    if run.faults:
        return 1
    return 130 if interrupted else 0 if results.rows else 2
