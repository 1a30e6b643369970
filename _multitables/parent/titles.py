"""The title of a stream, for a `repr`; and words that notebooks and the command have in common.

Law
---
1. One line of what is known already: nothing is opened, asked of a reader or waited for.
2. Never fails, whatever it is of; long lists are cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

SHOWN = 3


def title(filename: object, datasets: Iterable[tuple[str, tuple[int, ...] | None]]) -> str:
    """Return ``'/images' (1000, 64), '/labels' (1000,) in 'run7.h5'``, shapes if they are known."""
    parts = [f"{path!r}" + (f" {shape}" if shape is not None else "") for path, shape in datasets]
    if len(parts) > SHOWN:
        parts[SHOWN:] = [f"{len(parts) - SHOWN} others"]
    return f"{', '.join(parts)} in {file_title(filename)}"


def file_title(filename: object) -> str:
    """Return a file's name between quotes, or how many files there are, the first and the last."""
    if isinstance(filename, list):
        return f"{len(filename)} files {file_title(filename[0])} ... {file_title(filename[-1])}"
    known = isinstance(filename, (str, bytes, os.PathLike))
    return repr(os.fsdecode(filename) if known else filename)  # type: ignore[arg-type]


def count(number: int, noun: str) -> str:
    """Return ``1 block`` or ``2 blocks``, and ``2 batches``."""
    plural = "es" if noun.endswith("h") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def printable(text: object) -> str:
    """Return a text in one line; what a terminal would obey is escaped."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text)
    )


def size(n_bytes: float) -> str:
    """Return a number of bytes with its unit: ``16.4 MB``."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            break
        n_bytes /= 1000
    return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.3g} {unit}"
