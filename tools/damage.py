"""Damage small files of every layout in every place, and read them: hours in which nothing breaks.

Law
---
1. Each file is cut short at every byte, and each of its bytes is flipped, or every STEP-th one.
   `damaged_files` in tests/support says what is right then; what is wrong is listed.

Usage: ``PYTHONPATH=tests/support python tools/damage.py [STEP [LAYOUT ...]]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from damaged_files import LAYOUTS, wrong  # type: ignore[import-not-found]  # of the tests


def main(step: int, layouts: list[str]) -> int:
    """Damage the layouts, print what is wrong, and return how much that is."""
    count = 0
    for layout in layouts:
        with tempfile.TemporaryDirectory() as folder:
            found = list(wrong(layout, Path(folder), lambda n: list(range(0, n, step))))
        print(f"{layout}: {len(found)} wrong", *found, sep="\n  ", flush=True)
        count += len(found)
    return count


if __name__ == "__main__":
    arguments = sys.argv[1:]
    chosen = arguments[1:] or list(LAYOUTS)
    sys.exit(bool(main(int(arguments[0]) if arguments else 1, chosen)))
