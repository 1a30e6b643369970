"""The answer for a library that is not there, or cannot do this: a word and the reason.

Law
---
1. A refusal does not fail the loop: each has an error here, and a word in the protocol.
2. It runs beside any loop: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CannotReadError(RuntimeError):
    """The library cannot read or show this; the message says why."""


class AbsentError(RuntimeError):
    """This release of the library does not have what is measured."""


class WrongError(RuntimeError):
    """The library's answer is not what the file holds."""


#: The word of each; `ImportError` is the library's own.
WORDS: dict[str, type[Exception]] = {
    "missing": ImportError,
    "absent": AbsentError,
    "unable": CannotReadError,
    "wrong": WrongError,
}
#: How libraries refuse what they do not know; `CannotReadError` is a RuntimeError, too.
REFUSALS: dict[str, tuple[type[Exception], ...]] = {
    "hidefix": (RuntimeError,),
    "pyfive": (AssertionError, NotImplementedError, RuntimeError),
    "xarray-hidefix": (IndexError, RuntimeError),
    "xarray-netcdf4": (RuntimeError,),
}


def answered(recipe: str, ask: Callable[[], Any]) -> dict[str, Any]:
    """``{"found": ...}``, or one of `WORDS` with the reason."""
    try:
        return {"found": ask()}
    except (*WORDS.values(), *REFUSALS.get(recipe, ())) as error:
        words = (word for word, kind in WORDS.items() if isinstance(error, kind))
        first_line = str(error).partition("\n")[0]  # a backtrace may stand behind it
        return {next(words, "unable"): first_line or f"{type(error).__name__} without a message"}


def found_in(answer: dict[str, Any]) -> Any:
    """The result, or the error that belongs to the word of the answer."""
    for word, kind in WORDS.items():
        if word in answer:
            raise kind(answer[word])
    return answer["found"]
