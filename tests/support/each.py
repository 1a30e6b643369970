"""One test of a law for many files: a test of each would cost more than what it reads.

1. It runs the law for every file, and its failure lists all that break it, with what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Value = TypeVar("Value")


def for_each(values: Iterable[Value]) -> Callable[[Callable[[Value], None]], Callable[[], None]]:
    """Make a test of a function that takes one of these values."""
    every = list(values)

    def decorate(law: Callable[[Value], None]) -> Callable[[], None]:
        def test() -> None:
            assert every
            wrong = []
            for value in every:
                try:
                    law(value)
                except AssertionError as error:
                    wrong.append(f"{value}: {error}")
            assert not wrong, "\n".join(wrong)

        test.__name__, test.__doc__, test.__module__ = law.__name__, law.__doc__, law.__module__
        return test

    return decorate
