"""The loops over libhdf5's direct VFD, as a child under the interpreter that has it.

Law
---
1. Every opening of a file is direct: also the old release's look at the first block, which would
   leave a part of the file in the page cache.
2. The old release runs `stream_loop` as everywhere. Bare PyTables reads in processes that are
   forked before PyTables is imported, each its own whole chunks; the clock starts when all
   begin to read and stops when all are done.
3. A process that bare PyTables reads in refuses a file whose descriptor has no O_DIRECT.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from . import ranks, stream_loop
from .passes import Rows
from .shell import Clock, Loop

DRIVER = "H5FD_DIRECT"


def make_direct() -> None:
    """Have PyTables open every file through the direct VFD."""
    import tables

    tables.parameters.DRIVER = DRIVER
    # PyTables reads blosc2 datasets beside libhdf5, and so beside its driver, unless forbidden to
    os.environ["BLOSC2_FILTER"] = "1"


def need_direct(filename: str) -> None:
    """Raise unless every descriptor of this process on `filename` has O_DIRECT (proc(5))."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/self/fd/{number}", filename):
                with open(f"/proc/self/fdinfo/{number}") as info:
                    fields = dict(line.split(":\t", 1) for line in info if ":\t" in line)
                found.append(bool(int(fields["flags"], 8) & os.O_DIRECT))
    if not found or not all(found):
        raise OSError(f"libhdf5 has {filename!r} open without O_DIRECT")


def slabs(array: Any, start: int, stop: int, slab_rows: int, room: Any) -> Iterator[Any]:
    """The rows ``[start, stop)``, one slab after the other in `room`."""
    for first in range(start, stop, slab_rows):
        last = min(first + slab_rows, stop)
        array.read(first, last, out=room[: last - first])
        yield room[: last - first]


def read_share(asked: dict[str, Any], pipe: Connection, part: int) -> None:
    """Be one of the processes, and read its part of the rows at every word.

    The answer to ``"hashes"`` is the hash of each row, to ``"bytes"`` how many were read.
    """
    make_direct()
    import tables

    with tables.open_file(asked["filename"]) as file:
        need_direct(asked["filename"])
        array = file.get_node(asked["path"])
        chunk_rows = array.chunkshape[0] if array.chunkshape else 1
        start, stop = ranks.shares(array.nrows, chunk_rows, asked["n_procs"])[part]
        row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
        slab_rows = max(1, asked["slab_bytes"] // (row_bytes * chunk_rows)) * chunk_rows
        room = np.full((slab_rows, *array.shape[1:]), 0, array.dtype)  # touched, so reused

        def read(word: str) -> Any:
            rows = Rows(word == "hashes")
            for slab in slabs(array, start, stop, slab_rows, room):
                rows.see(slab)
            return rows.result()

        ranks.serve(pipe, read)


def check(asked: dict[str, Any]) -> dict[str, Any]:
    """The digest of the shares, one behind the other."""
    with ranks.forked(asked["n_procs"], partial(read_share, asked)) as processes:
        return stream_loop.summed_up(np.concatenate(processes.ask("hashes")))


def timed(asked: dict[str, Any]) -> tuple[float, int]:
    """Seconds and decoded bytes of a pass; opening the file is not part of it."""
    with ranks.forked(asked["n_procs"], partial(read_share, asked)) as processes, Clock() as clock:
        read_bytes = sum(processes.ask("bytes"))
    return clock.seconds, read_bytes


def of_either(verb: str, bare: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """A verb of bare PyTables where slabs are read, and else of the old release."""

    def find(library: Any, asked: dict[str, Any]) -> Any:
        if asked["access"] == "slabs":
            return bare(asked)
        make_direct()
        return stream_loop.LOOP.verbs[verb](library, asked)

    return find


LOOP = Loop({"check": of_either("check", check), "time": of_either("time", timed)})
