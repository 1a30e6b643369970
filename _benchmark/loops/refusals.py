"""What a library answers that is not there, or cannot do what it is asked: a reason, no failure.

Law
---
1. It runs beside any loop: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CannotReadError(RuntimeError):
    """The library cannot read or tell this; the message says why."""


class AbsentError(RuntimeError):
    """This release of the library does not have what is measured."""


class WrongError(RuntimeError):
    """The library's answer is not what the file holds."""


#: How libraries refuse what they do not know; `CannotReadError` is a RuntimeError, too.
REFUSALS: dict[str, tuple[type[Exception], ...]] = {
    "hidefix": (RuntimeError,),
    "pyfive": (AssertionError, NotImplementedError, RuntimeError),
}


def answered(recipe: str, ask: Callable[[], Any]) -> dict[str, Any]:
    """``{"found": ...}``; or ``missing``, ``absent``, ``unable`` or ``wrong`` with the reason."""
    try:
        return {"found": ask()}
    except ImportError as error:
        return {"missing": str(error)}
    except AbsentError as error:
        return {"absent": str(error)}
    except WrongError as error:
        return {"wrong": str(error)}
    except REFUSALS.get(recipe, (CannotReadError,)) as error:
        first_line = str(error).partition("\n")[0]  # a backtrace may stand behind it
        return {"unable": first_line or f"{type(error).__name__} without a message"}
