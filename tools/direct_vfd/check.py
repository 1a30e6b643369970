"""Reads a file through libhdf5's direct VFD by all that was built, and prints their versions.

Law
---
1. It runs under the private interpreter, as the last word on the build: ``check.py DIRECTORY``.
2. Direct is what the descriptor's flags say, right is what was written.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import tempfile

import numpy as np
import tables

PATH = "/values"


def need_direct(filename: str) -> None:
    """Raise unless this process has `filename` open with O_DIRECT (proc(5))."""
    flags = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/self/fd/{number}", filename):
                with open(f"/proc/self/fdinfo/{number}") as info:
                    words = info.read().split()
                flags.append(int(words[words.index("flags:") + 1], 8))
    if not flags or not all(one & os.O_DIRECT for one in flags):
        raise SystemExit("the file was not opened with O_DIRECT")


def need_same(found: object, expected: object, who: str) -> None:
    """Raise unless both arrays are the same."""
    if not np.array_equal(found, expected):  # type: ignore[arg-type]
        raise SystemExit(f"{who} read other values than were written")


def main(directory: str) -> None:
    """Write, and read with everybody."""
    versions = {"HDF5": tables.hdf5_version, "PyTables": tables.__version__}
    values = np.random.default_rng(5).normal(size=(3000, 64))
    filters = {"none": None, "zlib": tables.Filters(3, "zlib"), "blosc": tables.Filters(5, "blosc")}
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        filename = os.path.join(scratch, "check.h5")
        with tables.open_file(filename, "w") as file:
            for name, one in filters.items():
                file.create_carray(PATH, name, obj=values, filters=one, createparents=True)
        with tables.open_file(filename, driver="H5FD_DIRECT") as file:
            need_direct(filename)
            for name in filters:
                need_same(file.get_node(PATH, name)[:], values, f"PyTables ({name})")
        if importlib.util.find_spec("h5py"):
            import h5py

            versions["h5py"] = h5py.__version__
            with h5py.File(filename, "r", driver="direct") as file:
                need_direct(filename)
                for name in ("none", "zlib"):
                    need_same(file[PATH][name][:], values, f"h5py ({name})")
        versions["multitables"] = by_old_release(filename, values)
    print(json.dumps(versions))


def by_old_release(filename: str, values: object) -> str:
    """Its version, when it read the right values."""
    import importlib.metadata

    import multitables

    rows = []
    streamer = multitables.Streamer(filename, DRIVER="H5FD_DIRECT")  # closes when it is collected
    queue = streamer.get_queue(f"{PATH}/none", n_procs=1, remainder=True)
    for guard in queue.iter():
        with guard as block:
            rows.append(np.array(block))
    queue.close()
    need_same(np.concatenate(rows), values, "multitables")
    return importlib.metadata.version("multitables")


if __name__ == "__main__":
    status = 0
    try:
        main(sys.argv[1])
    except BaseException as error:  # noqa: BLE001  told to who asked, whatever it is
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the old release leaves threads behind that never end
