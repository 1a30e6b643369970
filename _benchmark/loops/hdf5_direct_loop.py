"""The loops over libhdf5's direct VFD, as a child under the interpreter that has it.

Law
---
1. Every opening of a file is direct: also the old release's look at the first block, which would
   leave a part of the file in the page cache.
2. The old release runs `stream_loop` as everywhere. Bare PyTables reads in processes that are
   forked before PyTables is imported, each its own whole chunks; the clock starts when all are
   told to read and stops when all have done so.
3. A process that bare PyTables reads in refuses a file whose descriptor has no O_DIRECT.
4. It is run as a program, beside its neighbour: standard library, NumPy, PyTables, and it.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

if __package__:
    from _benchmark.loops import stream_loop
else:  # run as a program
    import stream_loop  # type: ignore[import-not-found,no-redef]

DRIVER = "H5FD_DIRECT"
#: What a process does: its pipe, the request, the number of its part.
Serve = Callable[[Connection, dict[str, Any], int], None]


def shares(rows: int, chunk_rows: int, parts: int) -> list[tuple[int, int]]:
    """``[start, stop)`` of each part: all rows, whole chunks each, as even as those allow."""
    chunks = -(-rows // chunk_rows)
    ends = [min(rows, chunks * part // parts * chunk_rows) for part in range(parts + 1)]
    return list(itertools.pairwise(ends))


def make_direct() -> None:
    """Have PyTables open every file through the direct VFD."""
    import tables

    tables.parameters.DRIVER = DRIVER
    # PyTables reads blosc2 datasets beside libhdf5, and so beside its driver, unless told not to
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


def read_share(pipe: Connection, request: dict[str, Any], part: int) -> None:
    """Be one of the processes: say how many rows it reads, then read them at every word.

    The answer to ``"hashes"`` is the hash of each row, to ``"bytes"`` how many were read.
    """
    make_direct()
    import tables

    with tables.open_file(request["filename"]) as file:
        need_direct(request["filename"])
        array = file.get_node(request["path"])
        chunk_rows = array.chunkshape[0] if array.chunkshape else 1
        start, stop = shares(array.nrows, chunk_rows, request["n_procs"])[part]
        row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int))
        slab_rows = max(1, request["slab_bytes"] // (row_bytes * chunk_rows)) * chunk_rows
        room = np.full((slab_rows, *array.shape[1:]), 0, array.dtype)  # touched, so reused
        pipe.send(stop - start)
        with contextlib.suppress(EOFError):
            while True:
                word = pipe.recv()
                digest, read_bytes = stream_loop.Digest(), 0
                for slab in slabs(array, start, stop, slab_rows, room):
                    read_bytes += slab.nbytes
                    if word == "hashes":
                        digest.see(slab)
                pipe.send(digest.hashes() if word == "hashes" else read_bytes)


def serve_share(pipe: Connection, request: dict[str, Any], part: int) -> None:
    """`read_share`, with what it raises sent to who asked."""
    try:
        read_share(pipe, request, part)
    except Exception as error:  # noqa: BLE001  everything is the parent's to report
        pipe.send(RuntimeError(f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"))


@contextlib.contextmanager
def processes(serve: Serve, request: dict[str, Any]) -> Iterator[list[Connection]]:
    """A pipe to each process that serves a part of a request, when all are ready."""
    context = multiprocessing.get_context("fork")
    pipes, running = [], []
    try:
        for part in range(request["n_procs"]):
            mine, its = context.Pipe()
            one = context.Process(target=serve, args=(its, request, part), daemon=True)
            one.start()
            its.close()
            pipes.append(mine)
            running.append(one)
        answers(pipes)
        yield pipes
    finally:
        for pipe in pipes:
            pipe.close()
        for one in running:
            one.kill()
            one.join()


def answers(pipes: list[Connection]) -> list[Any]:
    """What each process has to say; an error of any is raised here."""
    found = []
    for number, pipe in enumerate(pipes):
        try:
            found.append(pipe.recv())
        except EOFError:
            raise RuntimeError(f"process {number} of {len(pipes)} died") from None
        if isinstance(found[-1], Exception):
            raise found[-1]
    return found


def ask_all(pipes: list[Connection], word: str) -> list[Any]:
    """Tell all, then hear all."""
    for pipe in pipes:
        pipe.send(word)
    return answers(pipes)


def check(request: dict[str, Any]) -> dict[str, Any]:
    """The digest of the shares, one behind the other."""
    with processes(serve_share, request) as pipes:
        found: dict[str, Any] = stream_loop.summed_up(np.concatenate(ask_all(pipes, "hashes")))
    return found


def timed(request: dict[str, Any]) -> tuple[float, int]:
    """Seconds and decoded bytes of a pass; opening the file is not part of it."""
    with processes(serve_share, request) as pipes:
        start = time.perf_counter()
        read_bytes = sum(ask_all(pipes, "bytes"))
        return time.perf_counter() - start, read_bytes


BARE = {"check": check, "time": timed}


def answer(library: Any, request: dict[str, Any]) -> Any:
    """Do what one request asks, of the old release or of bare PyTables."""
    if request["access"] == "slabs":
        return BARE[request["verb"]](request)
    make_direct()
    return stream_loop.answer(library, request)


if __name__ == "__main__":
    stream_loop.serve(answer)
