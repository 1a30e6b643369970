"""Refuse each system call that the library makes, in each way of reading: ten minutes of one core.

Law
---
1. `refused_calls` in tests/support has the table, and says what is right; what is wrong is listed.

Usage: ``PYTHONPATH=tests/support python tools/sandbox.py [CALL ...]``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import refused_calls  # type: ignore[import-not-found]  # of the tests


def main(calls: list[str]) -> int:
    """Try the calls with each error, print what came of them, and return how much is wrong."""
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        path = refused_calls.file_in(Path(folder))
        rows = [(call, error) for call in calls for error in refused_calls.ERRORS]
        rows += [] if sys.argv[1:] else [(name, "ENOSYS") for name in refused_calls.TOGETHER]
        rows += [] if sys.argv[1:] or os.getuid() else [(refused_calls.HIDDEN, "")]
        for found in refused_calls.outcomes(path, rows):
            count += not found["is_right"]
            print(
                "{kind:8}{call:18}{error:7}{way:7}{seconds:5} s  {said}".format(**found), flush=True
            )
    return count


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:] or list(refused_calls.CALLS))))
