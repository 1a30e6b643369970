"""One run of the analysis of columns, by ranks of MPI or by plain processes.

Law
---
1. It is run as a program, beside its neighbours: standard library, NumPy, pandas, h5py, the
   library, and mpi4py. Its argument is a file of JSON; under ``mpiexec`` each process is a rank,
   without it the program forks them.
2. Each rank writes its log in the published format and what it found; the first one the sums.
3. Importing is over when the clock starts, and all ranks start together.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

if __package__:
    from _benchmark.loops import columns_recipes
    from _benchmark.loops.hdf5_direct_loop import answers, processes
else:  # run as a program
    import columns_recipes  # type: ignore[import-not-found,no-redef]
    from hdf5_direct_loop import answers, processes  # type: ignore[import-not-found,no-redef]

DONE = "done"


class Ranks(Protocol):
    """What is used of a communicator of mpi4py."""

    rank: int
    size: int

    def allgather(self, value: Any, /) -> list[Any]: ...

    def reduce(self, value: Any, /) -> Any: ...


class Piped:
    """Ranks without MPI: each is a process that the program holds a pipe to."""

    def __init__(self, pipe: Connection, rank: int, size: int) -> None:
        self._pipe, self.rank, self.size = pipe, rank, size

    def allgather(self, value: Any) -> list[Any]:
        """What all ranks have given."""
        self._pipe.send(value)
        found: list[Any] = self._pipe.recv()
        return found

    def reduce(self, value: Any) -> Any:
        """The sum, in rank 0."""
        found = self.allgather(value)
        return sum(found) if self.rank == 0 else None


class Log:
    """A rank's log, in the published format."""

    def __init__(self) -> None:
        self._lines = ["kind id name event timestamp"]

    def main(self, event: str, part: int = 0) -> None:
        """An event of the analysis; `part` counts blocks where reading and computing alternate."""
        self._lines.append(f"main {part} NA {event} {time.time():.6f}")

    def dataset(self, number: int, name: str, event: str) -> None:
        """The start or end of reading a column."""
        self._lines.append(f"dset {number} {name} {event} {time.time():.6f}")

    def save(self, filename: str) -> None:
        """Write it."""
        with open(filename, "w") as out:
            out.write("\n".join(self._lines) + "\n")


def be_rank(ranks: Ranks, request: dict[str, Any]) -> None:
    """Analyse a rank's part, and write what it found."""
    recipe = columns_recipes.RECIPES[request["recipe"]]
    columns_recipes.ready(recipe)
    log, found = Log(), columns_recipes.Found(request["checks"])
    ranks.allgather(None)
    log.main("start")
    energy, weight, pot = recipe.selected(ranks, request, log, found)
    log.main("afterGo")
    log.main("beforehist")
    counts = columns_recipes.histogram(energy, weight, request)
    log.main("afterhist")
    sums = ranks.reduce(np.append(counts, pot))
    log.main("afterreduce")
    log.save(os.path.join(request["folder"], f"cand_sel_{ranks.rank}.log"))
    told = {"bytes": found.read_bytes, "events": found.events, "columns": found.columns}
    told["sums"] = None if sums is None else sums.tolist()
    with open(os.path.join(request["folder"], f"found_{ranks.rank}.json"), "w") as out:
        json.dump(told, out)


def serve_rank(pipe: Connection, request: dict[str, Any], rank: int) -> None:
    """Be a rank without MPI."""
    try:
        be_rank(Piped(pipe, rank, request["n_procs"]), request)
        pipe.send(DONE)
    except Exception as error:  # noqa: BLE001  everything is the program's to report
        pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def without_mpi(request: dict[str, Any]) -> None:
    """Fork ranks, and pass on what they give each other."""
    columns_recipes.ready(columns_recipes.RECIPES[request["recipe"]])
    # `processes` takes the first word of all; the next ones are for the ranks.
    with processes(_ready, request) as pipes:
        for pipe in pipes:
            pipe.send(None)
        found = answers(pipes)
        while not isinstance(found[0], str):
            for pipe in pipes:
                pipe.send(found)
            found = answers(pipes)


def _ready(pipe: Connection, request: dict[str, Any], rank: int) -> None:
    pipe.send(None)
    pipe.recv()
    serve_rank(pipe, request, rank)


def main() -> None:
    """Read the request, and be all ranks or one."""
    with open(sys.argv[1]) as file:
        request = json.load(file)
    if not request["mpi"]:
        without_mpi(request)
        return
    from mpi4py import MPI

    try:
        be_rank(MPI.COMM_WORLD, request)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(Exception):
            MPI.COMM_WORLD.Abort(1)
        raise


if __name__ == "__main__":
    main()
