"""A context manager that is closed at its end.

Law
---
1. Its subclasses say how they close; a second call does nothing.
"""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T", bound="Closes")


class Closes:
    """Base of servers and proxies."""

    def close(self) -> None:
        """End it."""
        raise NotImplementedError

    def __enter__(self: _T) -> _T:  # noqa: PYI019 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
