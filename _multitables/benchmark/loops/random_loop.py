"""The loops in which random access is checked and timed, in this process or as a child of its own.

Law
---
1. `deliver` is a contender: it takes keys and yields rows, in the order of the keys. What is
   checked and timed of it is the same for all.
2. The library and its old release run the same text, and each is named only by the module it is
   imported as. Several requests are in flight, and their stages are a pool of the caller's; with
   no stages, the reader's own memory.
3. What the consumer saw while the clock ran is digested after it stopped.
4. It runs under other interpreters and older NumPy too: standard library and NumPy only.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import passes, stream_loop
from .shell import Loop

#: Single rows that are kept for the digest. Keeping all would grow memory while the clock runs.
KEPT_ROWS = 4096
#: The part of the timed seconds that is spent on warming up.
WARM_UP = 1 / 4

Deliver = Callable[[Iterable[Any]], Iterator[Any]]


def keys_of(kind: str, batches: Sequence[Any]) -> list[Any]:
    """What an indexing takes: arrays of row numbers, slices, or numbers."""
    if kind == "coordinates":
        return [np.array(batch, np.int64) for batch in batches]
    return [slice(*batch) for batch in batches] if kind == "slices" else list(batches)


def until(deadline: float, keys: Sequence[Any]) -> Iterator[Any]:
    """The keys again and again, as long as there is time; at least one."""
    clock = time.perf_counter
    for key in itertools.cycle(keys):
        yield key
        if clock() >= deadline:
            return


def sorted_once(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Ask for each row once, in rising order, and put the rows into the order wanted."""

    def rows(key: Any) -> Any:
        wanted, place = np.unique(key, return_inverse=True)
        return read(wanted)[place]

    return rows


def first_words(rows: Any) -> Any:
    """The first 8 bytes of each row, as an array of their own."""
    return rows.view(np.uint8).reshape(len(rows), -1)[:, :8].copy()


def checked(deliver: Deliver, keys: Sequence[Any], kind: str) -> dict[str, Any]:
    """The digest of every row delivered."""
    rows = deliver(keys)
    return stream_loop.digest_of(map(_as_block, rows) if kind == "rows" else rows)


def _as_block(row: Any) -> Any:
    return np.asarray(row)[np.newaxis]


def warm_up(deliver: Deliver, keys: Sequence[Any], seconds: float) -> None:
    """Deliver for a while; from the other end, so that what is timed is not what came last."""
    for rows in deliver(until(time.perf_counter() + seconds, keys[::-1])):
        del rows


def timed(deliver: Deliver, keys: Sequence[Any], kind: str, seconds: float) -> dict[str, Any]:
    """Seconds, how many keys were served, and the digest of what was seen.

    Digested are the first words of the rows of each batch, and the last rows of single ones.
    """
    one_row = kind == "rows"
    see: Callable[[Any], Any] = np.asarray if one_row else first_words
    seen: deque[Any] = deque(maxlen=KEPT_ROWS if one_row else None)
    n_keys = 0
    start = time.perf_counter()
    for rows in deliver(until(start + seconds, keys)):
        seen.append(see(rows))
        n_keys += 1
    took_seconds = time.perf_counter() - start
    found = stream_loop.digest_of(map(_as_block, seen) if one_row else iter(seen))
    return {"seconds": took_seconds, "n_keys": n_keys, "digest": found}


def latencies(take: Callable[[Any], Any], rows: Sequence[int]) -> dict[str, Any]:
    """The seconds of each of single requests, one after the other, when all were made before."""
    for row in rows:
        take(row)
    seconds, seen = [], []
    clock = time.perf_counter
    for row in rows:
        start = clock()
        found = take(row)
        seconds.append(clock() - start)
        seen.append(found)
    return {"seconds": seconds, "digest": stream_loop.digest_of(map(_as_block, seen))}


# ---- a reader of the library, or of its old release


def deliver_by_requests(
    reader: Any,
    dataset: Any,
    stages: Sequence[Any],
    in_flight: int,
    asked: dict[str, Any],
    keys: Iterable[Any],
) -> Iterator[Any]:
    """Rows as views of their stages; single rows as copies."""

    def send(keys: Iterable[Any]) -> Iterator[Any]:
        return passes.ahead((reader.request(dataset[key], *stages) for key in keys), in_flight)

    if asked["kind"] == "rows":
        for request in send(keys):
            yield request.get()
    elif asked["pieces"]:
        yield from _joined(send, asked["pieces"], asked["once_each"], keys)
    else:
        for request in send(keys):
            with request.get_unsafe() as rows:
                yield rows


def _joined(
    send: Callable[[Iterable[Any]], Iterator[Any]],
    pieces: int,
    once_each: bool,
    keys: Iterable[Any],
) -> Iterator[Any]:
    """The rows of coordinates that are asked for in `pieces` lists.

    With `once_each`, no row is asked for twice, and they are put back into the order wanted.
    """
    places: deque[Any] = deque()

    def parts() -> Iterator[Any]:
        for key in keys:
            wanted, place = np.unique(key, return_inverse=True) if once_each else (key, slice(None))
            places.append(place)
            for part in np.array_split(wanted, pieces):
                yield (part.tolist(), slice(None)) if once_each else part.tolist()

    answers = send(parts())
    while found := [request.get() for request in itertools.islice(answers, pieces)]:
        yield np.concatenate(found)[places.popleft()]


# ---- the verbs


@contextlib.contextmanager
def _reading(library: Any, asked: dict[str, Any]) -> Iterator[tuple[Any, Any, list[Any]]]:
    """A reader, its dataset, and its stages."""
    reader = library.Reader(asked["filename"], n_procs=asked["n_procs"])
    try:
        dataset = reader.get_dataset(asked["path"])
        stages = []
        if asked["n_stages"]:
            stages = [dataset.create_stage_pool(asked["stage_rows"], asked["n_stages"])]
        yield reader, dataset, stages
    finally:
        reader.stop()


def check(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The digest of the rows of all keys."""
    keys = keys_of(asked["kind"], asked["batches"])
    with _reading(library, asked) as opened:
        deliver = partial(deliver_by_requests, *opened, asked["in_flight"], asked)
        return checked(deliver, keys, asked["kind"])


def time_keys(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The result of `timed`, and the number of chunks that had to be decoded meanwhile."""
    keys = keys_of(asked["kind"], asked["batches"])
    with _reading(library, asked) as opened:
        deliver = partial(deliver_by_requests, *opened, asked["in_flight"], asked)
        warm_up(deliver, keys, asked["seconds"] * WARM_UP)
        before = _misses(opened[0])
        found = timed(deliver, keys, asked["kind"], asked["seconds"])
        return found | {"cache_misses": _misses(opened[0]) - before}


def time_latency(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The result of `latencies`."""
    with _reading(library, asked) as (reader, dataset, stages):
        keys = keys_of(asked["kind"], asked["batches"])
        return latencies(lambda row: reader.request(dataset[row], *stages).get(), keys)


def _misses(reader: Any) -> int:
    statistics = getattr(reader, "statistics", None)
    return int(statistics()["cache_misses"]) if statistics else 0


LOOP = Loop({"check": check, "time": time_keys, "latency": time_latency})
