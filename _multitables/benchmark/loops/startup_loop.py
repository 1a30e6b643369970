"""One measurement in a fresh interpreter: start-up, a read, or the latency of a ready block.

Law
---
1. A process answers one request, its argument.
2. Before the clock of ``import`` starts, nothing but the standard library is imported, and NumPy
   where the import is to count without it. ``read`` has no clock: its caller times the process.
3. The data is digested after the clock stopped; the caller compares it with the oracle's.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from .shell import Loop


def importing(request: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the import of a library."""
    for name in request.get("before", ()):
        importlib.import_module(name)
    start = time.perf_counter()
    importlib.import_module(request.get("library", "multitables"))
    return {"seconds": time.perf_counter() - start}


def read(request: dict[str, Any]) -> dict[str, Any]:
    """All rows of a dataset through an open file, digested where they are to be checked."""
    library = importlib.import_module(request["library"])
    opened = library.File if request["library"] == "h5py" else library.open
    with opened(request["filename"]) as file:
        rows = file[request["path"]][...]
    return {"digest": _digest([rows])} if request["checks"] else {}


def first_block(request: dict[str, Any]) -> dict[str, Any]:
    """Seconds from the import, or from ``Streamer(...)`` with all imported, to the first block."""
    if request["imported"]:
        import h5py  # noqa: F401  (what the library imports when it opens a file)

        import multitables
    start = time.perf_counter()
    import multitables

    queue = multitables.Streamer(request["filename"]).get_queue(
        request["path"], n_procs=request["n_procs"]
    )
    with queue.get() as block:
        seconds = time.perf_counter() - start
        found = _digest([block])
    queue.close()
    return {"seconds": seconds, "digest": found}


def ready_block(request: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each ``get()`` plus release when every block of the stream is ready before."""
    import multitables

    blocks = request["blocks"]
    streamer = multitables.Streamer(request["filename"])
    options = {"n_procs": 1, "block_size": request["block_size"], "read_ahead": blocks + 2}
    with streamer.get_queue(request["path"], **options) as queue:
        found = _digest([_copy(guard) for guard in queue])
    seconds = []
    with streamer.get_queue(request["path"], **options) as queue:
        deadline = time.monotonic() + 10
        while queue.qsize() < blocks:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{queue.qsize()} of {blocks} blocks were ready after 10 s")
            time.sleep(0.01)
        get, clock = queue.get, time.perf_counter
        for _ in range(blocks):
            start = clock()
            with get():
                pass
            seconds.append(clock() - start)
        # what the clock itself takes
        start = clock()
        for _ in range(1000):
            clock()
        clock_seconds = (clock() - start) / 1000
    return {"seconds": seconds, "clock_seconds": clock_seconds, "digest": found}


def _copy(guard: Any) -> Any:
    with guard as block:
        return block.copy()


def _digest(blocks: list[Any]) -> dict[str, Any]:
    from . import stream_loop

    return stream_loop.digest_of(iter(blocks))


LOOP = Loop(
    {
        "import": importing,
        "read": read,
        "first_block": first_block,
        "ready_block": ready_block,
    },
    library="",
)
