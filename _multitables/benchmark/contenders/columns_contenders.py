"""Who analyses columns: the published method and this library, by ranks in processes of their own.

Law
---
1. Every run's histogram and POT are compared with what NumPy computes from the generator; the check
   compares every value of every column, too.
2. Ranks that are started are gone afterwards, and so is what their MPI keeps in files.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.benchmark.analysis import rank_logs
from _multitables.benchmark.contract import ContenderError, Digest, Sample, WrongDataError
from _multitables.benchmark.data import particle_columns
from _multitables.benchmark.data.particle_columns import KEY, TABLES, ParticleFile
from _multitables.benchmark.harness.child import child_environment, command, module_directory
from _multitables.benchmark.loops import columns_loop
from _multitables.benchmark.loops.columns_recipes import PNG, summed

BINS = (50, 1.0, 4.0)
TIMEOUT_SECONDS = 900.0
END_SECONDS = 10.0


def found_mpiexec() -> str:
    """The command that starts ranks here, with its options; "" if there is none."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    command = shutil.which("mpiexec", path=path)
    if command is None:
        return ""
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    # Open MPI would pin a rank, and with it the readers of its machine, to one core
    return f"{command} --oversubscribe --bind-to none" if "Open MPI" in said.stdout else command


@dataclass(frozen=True)
class Oracle:
    """What is right for some files, computed by one process from the generator."""

    files: Sequence[ParticleFile]

    @functools.cached_property
    def sums(self) -> list[float]:
        """The histogram, and behind it the POT."""
        total = np.zeros(BINS[0] + 1)
        for one in self.files:
            slices, prongs = (one.rows(table) for table in ("rec.slc", PNG))
            keys, of_prongs = (spills * 1000 + numbers for spills, numbers in (slices, prongs))
            longest = np.full(len(keys), -1.0)
            at = np.searchsorted(keys, of_prongs)
            np.maximum.at(longest, at, one.column(PNG, "length"))
            passed = (longest >= 0) & (longest < 200) & (one.column("rec.slc", "nhit") > 20)
            for name in ("front", "back"):
                passed &= one.column("rec.sel.contain", name) > 3
            passed &= one.column("rec.sel.remid", "pid") > 0.5
            energy = one.column("rec.energy.numu", "trkccE")[passed].astype("f8")
            weight = one.column("rec.weight", "xsec")[passed].astype("f8")
            bins = np.floor((energy - BINS[1]) / (BINS[2] - BINS[1]) * BINS[0])
            for number in range(BINS[0]):
                total[number] += weight[bins == number].sum()
            total[-1] += one.column("spill", "spillpot").sum(dtype="f8")
        found: list[float] = total.tolist()
        return found

    @functools.cached_property
    def columns(self) -> dict[str, int]:
        """A sum for each column that holds every value and its event."""
        return {
            f"{table}/{name}": sum(
                summed(one.column(table, name), one.column(table, KEY)) for one in self.files
            )
            % 2**64
            for table in TABLES
            for name in particle_columns.columns_of(table)
        }

    def differs(self, found: Digest) -> str:
        """What is wrong with what ranks found."""
        expected = {"events": sum(one.n_spills for one in self.files), "sums": self.sums}
        for what, right in expected.items():
            if found[what] != right:
                return f"{what} differ: {found[what]} instead of {right}"
        wrong = [
            path for path, right in self.columns.items() if found["columns"].get(path) != right
        ]
        return f"values of {', '.join(wrong)} differ" if wrong else ""


@dataclass(frozen=True)
class Analysis:
    """A contender.

    Attributes
    ----------
    name : str
    recipe : str
        Of `columns_recipes.RECIPES`.
    filenames : sequence of str
    oracle : Oracle
    n_ranks : int
    mpiexec : str
        "" for plain processes.
    options : mapping
        What else its recipe is asked.
    decoded_bytes : int
    """

    name: str
    recipe: str
    filenames: Sequence[str]
    oracle: Oracle
    n_ranks: int
    mpiexec: str
    options: Mapping[str, Any]
    decoded_bytes: int
    needs: tuple[str, ...] = ()

    def check(self) -> Digest:
        """What all ranks found, together."""
        ranks, _, _ = self._run(checks=True)
        found = dict.fromkeys(self.oracle.columns, 0)
        for rank in ranks:
            for path, value in rank["columns"].items():
                found[path] = (found[path] + value) % 2**64
        events = sum(rank["events"] for rank in ranks)
        return {"events": events, "sums": _sums(ranks), "columns": found}

    def measure(self) -> Sample:
        """The published summary, from the logs; all of it also as data."""
        ranks, logs, wall = self._run(checks=False)
        if _sums(ranks) != self.oracle.sums:
            raise WrongDataError("the histogram or POT of a timed run differs")
        each = [rank_logs.times_of(log) for log in logs.values()]
        slowest = rank_logs.slowest(each)
        more = {
            "read": slowest.read,
            "compute": slowest.compute,
            "total": slowest.total,
            "wall": wall,
            "rank_reads": " ".join(f"{one.read:.4f}" for one in each),
            "rank_bytes": " ".join(str(rank["bytes"]) for rank in ranks),
            "logs": logs,
            "seconds": slowest.total,
            "decoded_bytes": self.decoded_bytes,
        }
        return Sample(slowest.total, more)

    def _run(self, checks: bool) -> tuple[list[Any], dict[str, str], float]:
        """Run all ranks: what each found, their logs, and seconds with starting them."""
        with tempfile.TemporaryDirectory(prefix="columns") as folder:
            request = {
                **self.options,
                "recipe": self.recipe,
                "filenames": list(self.filenames),
                "tables": particle_columns.schema(),
                "index": list(particle_columns.INDEX),
                "bins": BINS,
                "n_procs": self.n_ranks,
                "mpi": bool(self.mpiexec),
                "checks": checks,
                "folder": folder,
            }
            where = {"verb": "run", "filename": os.path.join(folder, "request.json")}
            with open(where["filename"], "w") as out:
                json.dump(request, out)
            starter = [*self.mpiexec.split(), "-n", str(self.n_ranks)] if self.mpiexec else []
            start = time.perf_counter()
            program = command(sys.executable, columns_loop, json.dumps(where))
            _conduct([*starter, *program], folder)
            wall = time.perf_counter() - start
            found, logs = [], {}
            for rank in range(self.n_ranks):
                with open(os.path.join(folder, f"found_{rank}.json")) as told:
                    found.append(json.load(told))
                name = f"cand_sel_{rank}.log"
                with open(os.path.join(folder, name)) as log:
                    logs[name] = log.read()
            return found, logs, wall


def _sums(ranks: Sequence[Any]) -> Any:
    return ranks[0]["sums"]


def _conduct(command: Sequence[str], folder: str) -> None:
    """Run a program that starts others to its end, or end them all.

    Raises
    ------
    ContenderError
        It failed, or took too long.
    """
    environment = {**child_environment(module_directory()), "TMPDIR": folder}
    if os.geteuid() == 0:  # Open MPI asks root for both, and a container has no other user
        environment |= {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    with open(os.path.join(folder, "said"), "w+") as said:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise ContenderError(f"no end within {TIMEOUT_SECONDS:.0f} s; ended") from None
        finally:
            if process.poll() is None:
                process.terminate()  # mpiexec ends its ranks
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status:
            said.seek(0)
            lines = [line.strip() for line in said if "Error" in line]
            raise ContenderError(lines[0] if lines else f"exit status {status}")
