"""The same test by MPI's ranks, which share one file: a child that starts them, and one rank.

Law
---
1. The benchmark's child starts ``mpiexec`` with this loop as the program of each rank, which is
   given one request, under the interpreter that has a parallel h5py.
2. A rank writes and reads its own blocks by `iotest_loop`; the first prints what all have found.
3. Where h5py has no MPI, the answer is the reason.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import subprocess
import sys
import time
from typing import Any

from . import iotest_loop, refusals
from .shell import Loop

MARK = "iotest found "
#: There may be fewer cores than ranks: for Open MPI 4 and 5; others allow it.
MORE_THAN_CORES = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def be_rank(asked: dict[str, Any]) -> None:
    """Write and read as one rank."""
    start = time.perf_counter()
    comm = importlib.import_module("mpi4py.MPI").COMM_WORLD
    n_ranks = asked["process_rows"] * asked["process_columns"]
    found: dict[str, Any]
    if not importlib.import_module("h5py").get_config().mpi:
        found = {"absent": f"the h5py of {sys.executable} was built without MPI"}
    elif comm.size != n_ranks:
        what = f"{comm.size} of {n_ranks} ranks see each other"
        found = {"absent": f"{what}: mpiexec and the MPI of mpi4py do not belong together"}
    else:
        found = refusals.answered("", lambda: shared(asked, comm, start))
    everyone = comm.gather(found)
    if comm.rank == 0:
        bad = [one for one in everyone if "found" not in one]
        print(MARK + json.dumps((bad or everyone)[0]), flush=True)


def shared(asked: dict[str, Any], comm: Any, start: float) -> dict[str, Any]:
    """What all ranks have found, in each of them."""
    hdf5 = iotest_loop.Hdf5(asked, comm)
    comm.Barrier()
    wrote = comm.allgather(hdf5.write([comm.rank]))
    comm.Barrier()
    error: Exception | None = None
    read = {"phase": 0.0, "read": 0.0, "n": 0}
    try:
        whole = (asked["steps"], asked["arrays"])
        read = hdf5.read(comm.rank, asked["word"] == "check", *whole)
    except refusals.WrongError as wrong:
        error = wrong  # after the others, which wait for this rank
    reads = comm.allgather(read)
    if error:
        raise error
    write: dict[str, Any] = {
        name: [one[name] for one in wrote] for name in ("phase", "opened", "created")
    }
    write |= {"each": [one["each"][0] for one in wrote], "fsize": iotest_loop.file_bytes(asked)}
    wall = time.perf_counter() - start
    return {"write": write, "read": iotest_loop.together(reads), "wall": wall}


def start(asked: dict[str, Any]) -> Any:
    """Start the ranks; returns what the first has printed."""
    n_ranks = asked["process_rows"] * asked["process_columns"]
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    command = [*shlex.split(asked["mpiexec"]), "-n", str(n_ranks), asked["mpi_python"]]
    shell = [os.path.dirname(os.path.abspath(__file__)), "iotest_mpi_loop"]
    request = json.dumps({**asked, "verb": "rank", "word": asked["verb"]})
    done = subprocess.run(
        # mpi4py ends all ranks when one of them fails
        [*command, "-m", "mpi4py", *shell, request],
        env={**MORE_THAN_CORES, **own},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return refusals.found_in(json.loads(line.removeprefix(MARK)))
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip(" -\n*")]
    raise RuntimeError(f"mpiexec ended with {done.returncode}: {'; '.join(lines[:6])[:600]}")


LOOP = Loop({"check": start, "time": start, "rank": be_rank}, library="")
