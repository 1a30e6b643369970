"""What a contender is, for those who measure and those who are measured: values and one protocol.

Law
---
1. `check` delivers rows as `measure` does, and returns their digest. It returns None where the
   contender compares its rows itself in each measurement, or delivers no rows.
2. A contender that cannot run here raises `NotMeasuredError` saying what is missing; it never
   stands in for another.
3. It names no contender, and measures nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: Rows seen, and hashes of them: ``any_order`` and, where an order is promised, ``in_order``.
Digest = Mapping[str, Any]
#: What is wrong with a digest; empty when nothing is.
Differs = Callable[[Digest], str]

#: What to do when a module is not there.
INSTALL = {
    "torch": "pip install multitables[torch]",
    "torchdata": "pip install torchdata",
    "grain": "pip install grain",
    "h5py": "pip install h5py hdf5plugin",
    "pandas": "pip install multitables[studies]",
}


class NotMeasuredError(RuntimeError):
    """A contender cannot run here; the message says what to do."""


class ContenderError(RuntimeError):
    """A contender failed while it ran."""


class WrongDataError(ContenderError):
    """A contender delivered other data than it was asked for."""


@dataclass(frozen=True)
class Source:
    """The dataset that all contenders of one table read."""

    filename: str
    path: str
    rows: int
    row_bytes: int

    @property
    def decoded_bytes(self) -> int:
        """Decoded bytes of one pass."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Sample:
    """One measurement: the figure, in its contender's unit, and what else is kept of it."""

    value: float
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, seconds: float, decoded_bytes: int, **more: Any) -> Sample:
        """MB/s of decoded data, MB = 10**6 bytes."""
        rate = decoded_bytes / 1e6 / seconds
        return cls(rate, {"seconds": seconds, "decoded_bytes": decoded_bytes, **more})


class Contender(Protocol):
    """What every study asks of each contender; ``needs`` are modules."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Sequence[str]: ...

    def check(self) -> Digest | None: ...

    def measure(self) -> Sample: ...


@dataclass(frozen=True)
class Measurement:
    """A contender that is one function: a limit, which delivers no rows, or a test of its own."""

    name: str
    measure: Callable[[], Sample]
    check: Callable[[], Digest | None] = lambda: None
    needs: Sequence[str] = ()


def require(modules: Sequence[str]) -> None:
    """Raise `NotMeasuredError` unless all of them are installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise NotMeasuredError(INSTALL[module])


def promised(found: Digest, in_order: bool) -> Digest:
    """The digest, without the order where none is promised."""
    return found if in_order else {name: found[name] for name in found if name != "in_order"}


def differs(found: Digest, expected: Digest) -> str:
    """What is wrong with the rows that a contender delivered; empty when nothing is."""
    if found["rows"] != expected["rows"]:
        return f"{found['rows']} rows instead of {expected['rows']}"
    if found["any_order"] != expected["any_order"]:
        return f"data differs: {found['any_order']} instead of {expected['any_order']}"
    order = expected.get("in_order")
    if found.get("in_order", order) != order:
        return "the right rows in the wrong order"
    return ""
