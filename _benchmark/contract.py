"""What a contender is, for those who measure and those who are measured: values and protocols.

Law
---
1. `check` reads one whole pass by the same access, with an end; `passes` times an endless stream.
2. A contender that cannot run here raises `NotMeasuredError` saying what is missing; it never
   stands in for another.
3. It names no contender, and measures nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from _benchmark.loops.stream_loop import Tick, no_tick


class NotMeasuredError(RuntimeError):
    """A contender cannot run here; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """The dataset all contenders of one table read."""

    filename: str
    path: str
    rows: int
    row_bytes: int

    @property
    def decoded_bytes(self) -> int:
        """Decoded bytes of one pass."""
        return self.rows * self.row_bytes


class Pass(NamedTuple):
    """One timed pass."""

    seconds: float
    decoded_bytes: int

    @property
    def rate(self) -> float:
        """MB/s of decoded data, MB = 10**6 bytes."""
        return self.decoded_bytes / 1e6 / self.seconds


class Checked(Protocol):
    """Who can show what it delivers.

    ``in_order`` says whether the rows must come in the order of the file.
    """

    @property
    def name(self) -> str: ...

    @property
    def in_order(self) -> bool: ...

    def check(self, tick: Tick = no_tick) -> dict[str, Any]: ...


class Contender(Checked, Protocol):
    """What the studies of streams ask of everybody."""

    def passes(self, cycles: int, tick: Tick = no_tick) -> list[Pass]: ...
