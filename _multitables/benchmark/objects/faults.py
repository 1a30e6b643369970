"""Delays, limits and faults of a proxy, and what it logs of a request.

Law
---
1. Values only: they go to the proxy's process and come back as JSON.
2. Faults are a table. When several are due to a request, only the first of them happens.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal, get_args

Action = Literal["drop", "hang", "status", "cut", "short", "etag", "whole"]


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault, and the requests that it hits.

    Attributes
    ----------
    action : str
        "drop" : the connection is closed instead of an answer.
        "hang" : no answer, and an open connection.
        "status" : the server is not asked; the answer is an error with the status `value`.
        "cut" : the connection is closed after `value` bytes of the body.
        "short" : a body of `value` bytes at most, and a Content-Length that agrees.
        "etag" : the ETag of the answer is `value`.
        "whole" : the Range of the request is ignored: status 200, and the whole body. Where the
        Range is signed, `value` is a signed URL of the object.
    value : int or str
        See `action`.
    method, path : str
        Regular expressions. A request fits when both are found in it; its path includes the query.
    after, every, times : int
        The requests that fit are numbered from 0. The fault hits number `after` and each `every`-th
        one from there, `times` in all; 0 `times` is no limit.
    """

    action: Action
    value: int | str = 0
    method: str = ""
    path: str = ""
    after: int = 0
    every: int = 1
    times: int = 0

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise ValueError(f"no fault {self.action!r}; there are {', '.join(get_args(Action))}")

    def fits(self, method: str, path: str) -> bool:
        """Whether a request fits, and is counted."""
        return bool(re.search(self.method, method) and re.search(self.path, path))

    def is_due(self, number: int) -> bool:
        """Whether the fault hits the request with this number."""
        turn, rest = divmod(number - self.after, self.every)
        return turn >= 0 and rest == 0 and (turn < self.times or not self.times)


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a proxy behaves.

    Attributes
    ----------
    latency_seconds : float
        The delay before a request is passed on.
    bytes_per_second : float
        The limit of the bodies of answers, over all connections; 0 sets no limit.
    faults : tuple of Fault
        Their order is the order in which they are looked for.
    """

    latency_seconds: float = 0.0
    bytes_per_second: float = 0.0
    faults: tuple[Fault, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same in types of JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Settings:
        """What `as_json` was made of."""
        return cls(**{**found, "faults": tuple(Fault(**one) for one in found["faults"])})


@dataclasses.dataclass(frozen=True)
class Request:
    """A request that a proxy has answered.

    Attributes
    ----------
    method, path, range : str
        As the client sent them; the path has the query with it, no range is "".
    status : int
        What the client was answered; 0 is no answer.
    body_bytes : int
        The bytes of the body that were sent to the client.
    """

    method: str
    path: str
    range: str
    status: int = 0
    body_bytes: int = 0
