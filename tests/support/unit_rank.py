"""One rank of a node that takes an epoch of each unit, as a program that tests start several times.

Law
---
1. Its argument is JSON. It prints a line of JSON for each unit: its name, the samples of each
   batch, and how many chunks were decoded for them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from unit_cases import UNITS, Case

import multitables


def main(given: dict[str, Any]) -> None:
    rank, world_size = given["rank"], given["world_size"]
    with multitables.Streamer(given["filename"]) as streamer:
        for unit in UNITS:
            if unit.name not in given.get("units", [unit.name]):
                continue
            inner, kind = (
                "inner" in unit.has and given.get("inner", False),
                given.get("kind", "one"),
            )
            case = Case(
                unit, given["order"], kind, False, inner, given["n_procs"], 5, (2, 4), 0, (2, 4),
                False, "node",
            )  # fmt: skip
            with unit.loader(streamer, case, rank, world_size, given["size"]) as loader:
                taken: list[Any] = []
                chunks = [0]
                for batch in loader:
                    taken.append([[one.hex() for one in each] for each in unit.split(batch)])
                    del batch
                    chunks = [one["chunks"] for one in loader.statistics()["readers"]]
                    if given.get("dies") == rank:
                        os.kill(os.getpid(), signal.SIGKILL)
            print(json.dumps([unit.name, taken, sum(chunks)]), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
