"""One run of the analysis of columns, by ranks of MPI or by plain processes.

Law
---
1. Its request names a file of JSON, the request for all ranks. Under ``mpiexec`` each process is a
   rank, without it the program forks them.
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

from . import columns_recipes
from .ranks import forked
from .shell import Loop

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
    facts = {"bytes": found.read_bytes, "events": found.events, "columns": found.columns}
    facts["sums"] = None if sums is None else sums.tolist()
    with open(os.path.join(request["folder"], f"found_{ranks.rank}.json"), "w") as out:
        json.dump(facts, out)


def without_mpi(request: dict[str, Any]) -> None:
    """Fork ranks, and pass on what they give each other."""
    columns_recipes.ready(columns_recipes.RECIPES[request["recipe"]])
    n = request["n_procs"]

    def be(pipe: Connection, rank: int) -> None:
        be_rank(Piped(pipe, rank, n), request)
        pipe.send(DONE)

    with forked(n, be) as ranks:
        given = ranks.said
        while not isinstance(given[0], str):
            given = ranks.ask(given)


def with_mpi(request: dict[str, Any]) -> None:
    """Be one of MPI's ranks; one that fails ends all."""
    from mpi4py import MPI

    try:
        be_rank(MPI.COMM_WORLD, request)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(Exception):
            MPI.COMM_WORLD.Abort(1)
        raise


def run(where: dict[str, Any]) -> None:
    """Read the request from its file, and be all ranks or one."""
    with open(where["filename"]) as file:
        request = json.load(file)
    (with_mpi if request["mpi"] else without_mpi)(request)


LOOP = Loop({"run": run}, library="")
