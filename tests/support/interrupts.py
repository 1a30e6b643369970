"""Ctrl-C at each point of some code where Python may raise it: as a function begins, and after each
call, before what it returned has a name.

A handler of signals comes between any two of these; a profiler puts the exception there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any


def ctrl_c() -> None:
    raise KeyboardInterrupt


class Points:
    """Lets something happen at one of these points, and counts them."""

    def __init__(self, codes: set[CodeType], at: int, happens: Callable[[], None]) -> None:
        self._codes, self.left, self._happens = codes, at, happens

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        at: FrameType | None = frame
        if event == "return":
            at = frame.f_back
        elif event not in ("call", "c_return"):
            return
        if frame.f_code.co_name == "__del__":  # where Python drops what is raised
            return
        if at is not None and at.f_code in self._codes:
            self.left -= 1
            if self.left == -1:
                self._happens()


def interrupted(
    codes: set[CodeType], act: Callable[[], Any], happens: Callable[[], None] = ctrl_c
) -> Iterator[int]:
    """Do something again and again, each time interrupted at the next point; yield its number."""
    number = 0
    while True:
        points = Points(codes, number, happens)
        sys.setprofile(points)
        try:
            act()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        if points.left >= 0:
            return
        yield number
        number += 1
