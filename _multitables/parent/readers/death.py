"""How a reader died, and at what.

Law
---
1. A value: what is known of a death. error_report.py composes the exception.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Death:
    """A reader that died for the last time that is allowed, or was not to be replaced."""

    reader: int
    pid: int
    status: int
    deaths: int
    task: int | None
    #: It was inside a library, at the chunk of this number in the grid where that is known.
    in_library: bool = False
    chunk: int | None = None
    #: It was killed since it did not come back for longer than this.
    timeout_seconds: float | None = None
    #: It was killed since somebody had stopped it for longer than this.
    stopped_seconds: float | None = None
    #: Why it could not be given its work.
    refusal: str = ""
    #: Why no reader could be started in its place, if that was tried, and what to do then.
    hindrance: str = ""
    advice: str = ""
