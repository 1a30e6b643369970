"""One rank of a node that shares readers, as a program that tests start several times.

Law
---
1. Its argument is JSON: what to stream, and what to do meanwhile. It prints a line of JSON for each
   arrival, and a last one with its reports and how often it opened and planned.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import multitables
from _multitables import options
from _multitables.parent.batches import row_unit
from _multitables.parent.node import shared_readers
from _multitables.parent.node.host_link import HostLink


def say(**told: object) -> None:
    print(json.dumps(told), flush=True)


def be_impatient(seconds: float) -> None:
    """Shorten the deadline, once the host is reached: starting one may take longer."""
    connected = HostLink._connected

    def reached(link: HostLink) -> socket.socket:
        made = connected(link)
        options.STALL_SECONDS = seconds
        return made

    HostLink._connected = reached  # type: ignore[method-assign]


def count(done: Counter[str], name: str, killed: str | None) -> None:
    """Count the calls of a function of batches; die in it, as one rank of all, with this file."""
    real = getattr(row_unit, name)

    def counting(*values: Any, **named: Any) -> Any:
        done[name] += 1
        if killed is not None:
            with contextlib.suppress(FileExistsError):
                Path(killed).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*values, **named)

    setattr(row_unit, name, counting)


def main() -> None:
    done = Counter[str]()
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    if "stall" in wanted:
        be_impatient(wanted["stall"])
    if wanted.get("stop_planning"):
        shared_readers.made_ring = lambda *_, **__: os.kill(os.getpid(), signal.SIGSTOP)
    for name in ("data_in", "plan_batches"):
        count(done, name, wanted.get("die", {}).get(name))
    streamer = multitables.Streamer(wanted["filename"])
    given = {"share": "node", **wanted["options"]}
    make: Any = getattr(streamer, f"get_{wanted['kind']}")
    with make(**given) as stream:
        if wanted.get("states"):
            stream.load_state_dict(wanted["states"])
        expected = None
        if wanted["kind"] == "batches" and not wanted.get("states"):
            expected = [stream.order(epoch).tolist() for epoch in range(given.get("epochs", 1))]
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
    say(state=state, order=expected, told=told, done=done)


if __name__ == "__main__":
    try:
        main()
    except multitables.MultitablesError as error:
        say(error=type(error).__name__, text=str(error))
