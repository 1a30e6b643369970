"""Kill trainings at random points, resume them from their last states, and count what came.

Law
---
1. The units are those of tests/support/training.py, which says what is right: every row and sample
   exactly once in each epoch.
2. It ends with status 1 at the first training that lost or repeated something, or did not end.

Usage: ``PYTHONPATH=tests/support python tools/kill_and_resume.py [--kills 1000] [--seed SEED]
[--minutes M] [UNIT ...]``
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from training import UNITS, Training, write  # type: ignore[import-not-found]  # of the tests

#: Kills of a unit before the next one has its turn.
TURN = 10


def main() -> int:
    """Run what the arguments say; return the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*", metavar="UNIT", help=f"of {', '.join(UNITS)}")
    parser.add_argument("--kills", type=int, default=1000, help="of all units together")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    given = parser.parse_args()
    print(f"--seed {given.seed}", flush=True)
    deadline = time.monotonic() + 60 * given.minutes
    kills = dict.fromkeys(given.units or UNITS, 0)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        draw = random.Random(given.seed)
        trainings = {name: Training(Path(folder), name, draw) for name in kills}
        while sum(kills.values()) < given.kills and time.monotonic() < deadline:
            name = min(kills, key=lambda one: kills[one])
            try:
                trainings[name].run(kills[name] + TURN)
            except AssertionError as error:
                print(f"after {kills}: {error}")
                return 1
            kills[name] = trainings[name].kills
    print(f"{sum(kills.values())} kills survived: {kills}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
