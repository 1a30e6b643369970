"""The loops in which training batches are checked and timed, as a child of its own.

Law
---
1. A recipe yields batches; what is checked, kept and timed of them is the same for all.
2. While the clock runs the consumer looks at the first and the last 8 bytes of each row, so each
   row's number is among what it saw. They are compared when the clock has stopped, by the parent.
3. What was seen goes into a file that the parent names; it judges nothing itself.
4. The shell imports the modules of a recipe before the clock starts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from . import stream_loop
from .batch_recipes import RECIPES
from .shell import Loop

SEEN_VALUES = 2  # of float32, at each end of a row
#: Batches after which a DataLoader runs evenly: more than its workers prepare in advance.
WARM_UP_BATCHES = 8
#: Batches that are timed at least: two workers that take a second for each deliver them in pairs.
MIN_BATCHES = 8


def sample(batch: Any) -> Any:
    """The values at both ends of each row, as an array of their own."""
    seen = np.empty((len(batch), 2 * SEEN_VALUES), batch.dtype)
    seen[:, :SEEN_VALUES] = batch[:, :SEEN_VALUES]
    seen[:, SEEN_VALUES:] = batch[:, -SEEN_VALUES:]
    return seen


def _keep(filename: str, delivery: Any, seen: list[Any], **more: Any) -> None:
    """Write what was seen, and what the recipe says of the order."""
    order = delivery.order()
    empty = np.empty((0, 2 * SEEN_VALUES), np.float32)
    kept: dict[str, Any] = {"seen": np.concatenate([empty, *seen]), **more}
    if order is not None:
        kept["order"] = np.asarray(order)
    np.savez(filename, **kept)


def check(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Keep the hashes of the rows of the first `most_batches` batches, or of all when it is 0."""
    digest, seen, ended = stream_loop.Digest(), list[Any](), True
    most, statistics = asked["most_batches"], dict[str, Any]()
    with RECIPES[asked["recipe"]](library, asked) as delivery:
        for batch in delivery.batches:
            if most and len(seen) == most:
                ended = False
                break
            seen.append(sample(batch))
            digest.see(batch)
            statistics = statistics or delivery.statistics()  # there are none at the end
        _keep(asked["seen"], delivery, seen, hashes=digest.hashes())
    return {"ended": ended, "statistics": statistics}


def epochs(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """When each epoch ended, in seconds from before the recipe was opened."""
    seen, ends, n_rows = list[Any](), list[float](), 0
    clock = time.perf_counter
    start = clock()
    with RECIPES[asked["recipe"]](library, asked) as delivery:
        due = asked["rows"]
        for batch in delivery.batches:
            seen.append(sample(batch))
            n_rows += len(batch)
            if n_rows >= due:
                ends.append(clock() - start)
                due += asked["rows"]
        _keep(asked["seen"], delivery, seen)
    return {"ended": True, "ends": ends}


def part(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Rows and seconds of a part of an epoch, when as much as ever is prepared in advance."""
    seen, n_batches, ended = list[Any](), 0, True
    clock = time.perf_counter
    start = 0.0
    with RECIPES[asked["recipe"]](library, asked) as delivery:
        for batch in delivery.batches:
            seen.append(sample(batch))
            n_batches += 1
            if n_batches == WARM_UP_BATCHES:
                start = clock()
            enough = n_batches >= WARM_UP_BATCHES + MIN_BATCHES
            if enough and clock() - start >= asked["seconds"]:
                ended = False
                break
        seconds = clock() - start
        _keep(asked["seen"], delivery, seen)
    if n_batches <= WARM_UP_BATCHES:
        raise ValueError(f"an epoch of {n_batches} batches is too short to be timed")
    return {
        "ended": ended,
        "seconds": seconds,
        "rows": sum(map(len, seen[WARM_UP_BATCHES:])),
        "warm_up_rows": sum(map(len, seen[:WARM_UP_BATCHES])),
    }


LOOP = Loop({"check": check, "epochs": epochs, "part": part})
