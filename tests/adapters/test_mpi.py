"""Ranks of MPI, started by mpiexec: their union is complete, and no row comes twice.

Law
---
1. Each rank prints what it got as one line of JSON; the test puts them together.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
import table_files
from processes import environment

import multitables
from _multitables.parent.ranks import ranks

BESIDE = sysconfig.get_path("scripts")
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([BESIDE, os.environ.get("PATH", "")]))
needs_mpi = pytest.mark.skipif(
    not importlib.util.find_spec("mpi4py") or MPIEXEC is None, reason="mpi4py or mpiexec is missing"
)

BATCHES = """
import json, sys, multitables
from mpi4py import MPI
streamer = multitables.Streamer(sys.argv[1])
def made():
    return streamer.get_batches("/labels", 16, shuffle="window", seed=5, n_procs=1, rank="mpi",
                                window_rows=200, epochs=2)
found = []
with made() as batches:
    rows = iter(batches)
    for _ in range(3):
        found += next(rows).tolist()
    state = batches.state_dict()
    rows.close()
with made() as batches:
    batches.load_state_dict(state)
    for batch in batches:
        found += batch.tolist()
for rank in range(MPI.COMM_WORLD.size):
    MPI.COMM_WORLD.barrier()
    if rank == MPI.COMM_WORLD.rank:
        print(json.dumps(found), flush=True)
"""

#: Begin, print what a loop that is left and one that goes on deliver, in turn.
IN_TURN = """
found = []
with made() as stream:
    items = iter(stream)
    for _ in range(2):
        found += told(next(items))
    state = MPI.COMM_WORLD.allgather(stream.state_dict())
    del items
with made() as stream:
    stream.load_state_dict(state)
    for item in stream:
        found += told(item)
for rank in range(MPI.COMM_WORLD.size):
    MPI.COMM_WORLD.barrier()
    if rank == MPI.COMM_WORLD.rank:
        print(json.dumps(found), flush=True)
"""
COLLECTION = (
    """
import json, sys, multitables
from mpi4py import MPI
def made():
    streamer = multitables.Streamer(sys.argv[1])
    return streamer.get_collection("/shots/*/signals/*", by=1, n_procs=1, rank="mpi", epochs=2)
def told(item):
    return [[item.key, name, len(array)] for name, array in item.items()]
"""
    + IN_TURN
)
COLUMNS = (
    """
import json, sys, multitables
from mpi4py import MPI
def made():
    tables = {"rec.slc": ["nhit"], "rec.vtx": ["nhit"]}
    options = {"index": "evt.seq", "n_procs": 1, "rank": "mpi", "entries_per_block": 30}
    return multitables.Streamer(sys.argv[1]).get_columns(tables, **options)
def told(block):
    found = []
    for table, rows in block.items():
        events = rows.index_of_rows()["evt.seq"].tolist()
        found += [[table, *row] for row in zip(events, rows["nhit"].tolist())]
    return found
"""
    + IN_TURN
)


def by_ranks(n_ranks: int, source: str, *arguments: object) -> list[Any]:
    """What each rank prints, in no order."""
    assert MPIEXEC is not None
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    done = subprocess.run(
        [MPIEXEC, "--oversubscribe", "-n", str(n_ranks), sys.executable, "-c", source]
        + [str(argument) for argument in arguments],
        env={**environment(), **allowed},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@needs_mpi
@pytest.mark.hang(120)
@pytest.mark.parametrize("n_ranks", [2, 4])
@pytest.mark.parametrize("share", [None, "node"])
def test_batches(numbered: Path, n_ranks: int, share: str | None) -> None:
    source = BATCHES.replace('rank="mpi"', f'rank="mpi", share={share!r}')
    found = by_ranks(n_ranks, source, numbered)
    assert len(found) == n_ranks
    with multitables.Streamer(numbered).get_batches("/labels", 16, n_procs=1) as batches:
        rows = np.concatenate([batch.copy() for batch in batches])
    together = np.sort(np.concatenate(found))
    np.testing.assert_array_equal(together, np.sort(np.concatenate([rows, rows])))


@needs_mpi
@pytest.mark.hang(120)
@pytest.mark.parametrize("n_ranks", [2, 4])
@pytest.mark.parametrize("share", [None, "node"])
def test_collections(tmp_path: Path, n_ranks: int, share: str | None) -> None:
    kinds = {name: shot_files.KINDS[name] for name in ("plain", "gzip", "table", "image")}
    kinds |= {f"more{n}": shot_files.KINDS["one_chunk"] for n in range(5)}
    path = shot_files.write(tmp_path / "shots.h5", kinds=kinds, libver="earliest")
    source = COLLECTION.replace('rank="mpi"', f'rank="mpi", share={share!r}')
    found = by_ranks(n_ranks, source, path)
    assert len(found) == n_ranks
    with h5py.File(path) as file:
        expected = [
            [name, shot, len(data)]
            for shot, group in file["shots"].items()
            for name, data in group["signals"].items()
        ]
    assert sorted(one for rank in found for one in rank) == sorted(expected * 2)


@needs_mpi
@pytest.mark.hang(120)
@pytest.mark.parametrize("n_ranks", [2, 4])
@pytest.mark.parametrize("share", [None, "node"])
def test_columns(tmp_path: Path, n_ranks: int, share: str | None) -> None:
    path = table_files.write(tmp_path / "tables.h5")
    source = COLUMNS.replace('"rank": "mpi"', f'"rank": "mpi", "share": {share!r}')
    found = by_ranks(n_ranks, source, path)
    assert len(found) == n_ranks
    expected = []
    for table in ("rec.slc", "rec.vtx"):
        columns = table_files.columns_of(path, table)
        rows = zip(columns["evt.seq"].tolist(), columns["nhit"].tolist(), strict=True)
        expected += [[table, *row] for row in rows]
    assert sorted(one for rank in found for one in rank) == sorted(expected)


def test_numbers_are_taken_as_they_are() -> None:
    assert ranks(3, 8) == (3, 8)
    with pytest.raises(multitables.OptionsError, match="expected a number or 'mpi', got 'slurm'"):
        ranks("slurm", 1)  # type: ignore[arg-type]


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(multitables.MissingLibraryError, match="rank='mpi' needs mpi4py"):
        ranks("mpi", 1)


@needs_mpi
def test_another_number_of_ranks(numbered: Path) -> None:
    source = (
        "import json, sys, multitables\n"
        "try:\n"
        "    multitables.Streamer(sys.argv[1]).get_batches('/x', 1, rank='mpi', world_size=7)\n"
        "except multitables.OptionsError as error:\n"
        "    print(json.dumps([error.option, error.expected, error.got]))\n"
    )
    assert by_ranks(1, source, numbered) == [["world_size", 1, 7]]
