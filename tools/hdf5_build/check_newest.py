"""Have h5py read a file over the newest HDF5, with the filters of the benchmark's files.

Law
---
1. It runs under the private interpreter. The last line printed holds the versions.
2. The HDF5 that reads is the one that was built, and it finds the right values.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

FILTERS = {"none": {}, "zlib": {"compression": 3}, "blosc": dict(hdf5plugin.Blosc())}
PACKAGES = ("h5py", "hdf5plugin")


def check(filename: Path) -> None:
    """Write a file, compare what is read of it, and say which versions did."""
    values = np.random.default_rng(5).normal(size=(3000, 64))
    with h5py.File(filename, "w") as file:
        for name, filters in FILTERS.items():
            file.create_dataset(name, data=values, chunks=(256, 64), **filters)
    with h5py.File(filename, "r") as file:
        for name in FILTERS:
            assert np.array_equal(file[name][...], values), name
    loaded = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/libhdf5.so" in line
    }
    home = Path(sys.prefix).parent / "hdf5"
    assert loaded, "no libhdf5 is loaded"
    assert all(home in Path(one).parents for one in loaded), f"{loaded} (expected below {home})"
    found = {"HDF5": h5py.version.hdf5_version}
    print(json.dumps(found | {name: importlib.metadata.version(name) for name in PACKAGES}))


if __name__ == "__main__":
    check(Path(sys.argv[1]) / "check.h5")
