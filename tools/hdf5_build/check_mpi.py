"""Be one rank of two: write and read one file with the driver "mpio", and compare the values.

Law
---
1. It runs under the private interpreter with `-m mpi4py`, so that a rank that fails ends the other.
2. Every rank reads what the other one wrote. The last line printed holds the versions.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
from mpi4py import MPI

ROWS, COLUMNS = 3000, 64
# a dataset that has filters is written together only
FILTERS = {"none": {}, "zlib": {"compression": 3}, "blosc": dict(hdf5plugin.Blosc())}
PACKAGES = {"Open MPI": "openmpi"} | {name: name for name in ("mpi4py", "h5py", "hdf5plugin")}


def check(filename: Path) -> None:
    """Write together and alone, then read both ways; everything is compared."""
    world = MPI.COMM_WORLD
    assert world.size == 2, f"{world.size} ranks (expected 2)"
    values = np.random.default_rng(5).normal(size=(ROWS, COLUMNS))
    half = ROWS // 2
    mine = slice(world.rank * half, (world.rank + 1) * half)
    with h5py.File(filename, "w", driver="mpio", comm=world) as file:
        for name, filters in FILTERS.items():
            node = file.create_dataset(name, values.shape, "f8", chunks=(256, COLUMNS), **filters)
            with node.collective:
                node[mine] = values[mine]
        node = file.create_dataset("alone", values.shape, "f8")
        for row in range(mine.start, mine.stop, 100 * (world.rank + 1)):  # of one more than of zero
            stop = min(row + 100 * (world.rank + 1), mine.stop)
            node[row:stop] = values[row:stop]
    with h5py.File(filename, "r", driver="mpio", comm=world) as file:
        assert file.driver == "mpio", f"the driver is {file.driver}"
        for name in (*FILTERS, "alone"):
            node = file[name]
            with node.collective:
                assert np.array_equal(node[...], values), f"{name}, collective"
            for _ in range(world.rank + 1):  # not as often here as there
                assert np.array_equal(node[...], values), f"{name}, independent"
    if world.rank == 0:
        found = {"HDF5": h5py.version.hdf5_version}
        found |= {name: importlib.metadata.version(package) for name, package in PACKAGES.items()}
        print(json.dumps(found))


if __name__ == "__main__":
    check(Path(sys.argv[1]) / "check.h5")
