"""One rank of a node that shares readers, as a program that tests start several times.

Law
---
1. Its argument is JSON: what to stream, and what to do meanwhile. It prints a line of JSON for each
   thing that comes, and one at the end with what was told.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import multitables


def say(**told: object) -> None:
    print(json.dumps(told), flush=True)


def main() -> None:
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    streamer = multitables.Streamer(wanted["filename"])
    options = {"share": "node", **wanted["options"]}
    make: Any = getattr(streamer, f"get_{wanted['kind']}")
    with make(**options) as stream:
        if wanted.get("states"):
            stream.load_state_dict(wanted["states"])
        expected = None
        if wanted["kind"] == "batches" and not wanted.get("states"):
            expected = [stream.order(epoch).tolist() for epoch in range(options.get("epochs", 1))]
        told: dict[str, Any] = {}
        part: Any = None
        for _ in range(wanted.get("loops", 1)):
            for number, part in enumerate(stream):
                if wanted["kind"] == "batches":
                    say(rows=part.tolist())
                elif wanted["kind"] == "collection":
                    scales = [array for axes in part.scales.values() for array in axes[0].values()]
                    say(key=part.key, sums=[float(one.sum()) for one in (*part.values(), *scales)])
                else:
                    blocks = {name: group["nhit"].tolist() for name, group in part.items()}
                    say(rows={name: group.rows for name, group in part.items()}, columns=blocks)
                told = stream.statistics()
                time.sleep(wanted.get("pause", 0.0))
                if number + 1 == wanted.get("leave"):
                    break
        state = stream.state_dict()
    if "hold" in wanted:  # the last batch stays as it is, whatever the others do
        before = part.copy()
        time.sleep(wanted["hold"])
        say(held=bool((part == before).all()))
        del part
    say(state=state, order=expected, told=told)


if __name__ == "__main__":
    try:
        main()
    except multitables.MultitablesError as error:
        say(error=type(error).__name__, text=str(error))
