"""Damage small files of every layout in every place, and read them: hours in which nothing breaks.

Law
---
1. Each file is cut short at every byte, and each of its bytes is flipped, or every STEP-th one.
   `damaged_files` in tests/support says what is right then; what is wrong is listed.
2. With ``calls``, COUNT variants of each file are drawn, and every public call is tried on them
   (`public_walk` in tests/support); so are references, saved indexes and states (`public_values`).

Usage: ``PYTHONPATH=tests/support python tools/damage.py [STEP [LAYOUT ...]]``, or
``... tools/damage.py calls COUNT [FILE OR KIND ...]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from damaged_files import LAYOUTS, wrong  # type: ignore[import-not-found]  # of the tests
from public_values import KINDS, value_leaks  # type: ignore[import-not-found]
from public_walk import FILES, leaks  # type: ignore[import-not-found]


def main(step: int, layouts: list[str]) -> int:
    """Damage the layouts, print what is wrong, and return how much that is."""
    count = 0
    for layout in layouts:
        with tempfile.TemporaryDirectory() as folder:
            found = list(wrong(layout, Path(folder), lambda n: list(range(0, n, step))))
        print(f"{layout}: {len(found)} wrong", *found, sep="\n  ", flush=True)
        count += len(found)
    return count


def calls(n_variants: int, names: list[str]) -> int:
    """Try every public call on variants of files, print what is wrong, and return how much."""
    count = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            numbers = range(n_variants)
            if name in KINDS:
                found = list(value_leaks(name, Path(folder), numbers))
            else:
                found = list(leaks(name, Path(folder), numbers, readers=True))
        print(f"{name}: {len(found)} wrong", *found, sep="\n  ", flush=True)
        count += len(found)
    return count


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["calls"]:
        sys.exit(bool(calls(int(arguments[1]), arguments[2:] or [*FILES, *KINDS])))
    chosen = arguments[1:] or list(LAYOUTS)
    sys.exit(bool(main(int(arguments[0]) if arguments else 1, chosen)))
