"""Have PyTables, h5py and the old release read a file through the direct VFD.

Law
---
1. It runs under the private interpreter. The last line printed holds the versions.
2. Each of them has opened the file with O_DIRECT, and found the right values.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import tables

import multitables

FILTERS = {"none": None, "zlib": tables.Filters(3, "zlib"), "blosc": tables.Filters(5, "blosc")}


def need_direct(filename: str) -> None:
    """Raise unless this process has the file open with O_DIRECT and in no other way (proc(5))."""
    flags = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/self/fd/{number}", filename):
                words = Path(f"/proc/self/fdinfo/{number}").read_text().split()
                flags.append(int(words[words.index("flags:") + 1], 8))
    assert flags, "the file is not open"
    assert all(one & os.O_DIRECT for one in flags), "the file was opened without O_DIRECT"


def check(filename: str) -> None:
    """Write a file, read it in all three ways, and say which versions did."""
    values = np.random.default_rng(5).normal(size=(3000, 64))
    with tables.open_file(filename, "w") as file:
        for name, one in FILTERS.items():
            file.create_carray("/", name, obj=values, filters=one)
    with tables.open_file(filename, driver="H5FD_DIRECT") as file:
        need_direct(filename)
        for name in FILTERS:
            assert np.array_equal(file.get_node(f"/{name}")[:], values), f"PyTables, {name}"
    with h5py.File(filename, "r", driver="direct") as file:
        need_direct(filename)
        for name in ("none", "zlib"):
            assert np.array_equal(file[name][:], values), f"h5py, {name}"
    streamer = multitables.Streamer(filename, DRIVER="H5FD_DIRECT")
    queue, rows = streamer.get_queue("/none", n_procs=1, remainder=True), []
    for guard in queue.iter():
        with guard as block:
            rows.append(np.array(block))
    queue.close()
    assert np.array_equal(np.concatenate(rows), values), "multitables"
    found = {"HDF5": tables.hdf5_version, "PyTables": tables.__version__, "h5py": h5py.__version__}
    print(json.dumps({**found, "multitables": importlib.metadata.version("multitables")}))


if __name__ == "__main__":
    status = 0
    try:
        check(os.path.join(sys.argv[1], "check.h5"))
    except BaseException as error:  # noqa: BLE001  told to the parent, whatever it is
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    os._exit(status)  # the old release leaves threads behind that never end
