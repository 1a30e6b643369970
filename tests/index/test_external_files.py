"""External raw files are found where HDF5 finds them, and read by the core if all bytes are there.

1. The oracle is h5py in a process of its own, as HDF5 reads its environment once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from oracle import streamed

import multitables

ORACLE = """
import h5py, json, sys
found = {}
with h5py.File(sys.argv[1]) as file:
    for name in file:
        try:
            found[name] = file[name][...].tolist()
        except OSError:
            found[name] = None
print(json.dumps(found))
"""


def write(folder: Path) -> None:
    """A file, and raw files in several folders that say in which they lie."""
    for number, name in enumerate((".", "sub", "cwd", "link")):
        (folder / name).mkdir(exist_ok=True)
        np.arange(number, number + 6, dtype="i4").tofile(folder / name / "raw")
    np.full(1, 9, "i4").tofile(folder / "cwd" / "short")
    parts = {
        "whole": [("raw", 4, 16)],
        "without end": [("raw", 0, h5py.h5f.UNLIMITED)],
        "below": [("sub/raw", 0, 16)],
        "absolute": [(str(folder / "sub" / "raw"), 8, 16)],
        "short": [("short", 0, 16)],
        "missing": [("missing", 0, 16)],
        "several": [("raw", 0, 8), ("short", 0, 8)],
    }
    with h5py.File(folder / "data.h5", "w") as file:
        for name, external in parts.items():
            file.create_dataset(name, (4,), "i4", external=external)
    (folder / "link" / "data.h5").symlink_to(folder / "data.h5")


@pytest.mark.parametrize("name", ["../data.h5", "../link/data.h5"])
@pytest.mark.parametrize("prefix", ["", ".", "${ORIGIN}", "${ORIGIN}/sub", "../sub"])
def test_found_as_hdf5_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, name: str
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HDF5_EXTFILE_PREFIX", prefix)
    told = subprocess.run(
        [sys.executable, "-c", ORACLE, name], capture_output=True, check=True, timeout=60
    )
    for path, want in json.loads(told.stdout).items():
        if want is None:
            with pytest.raises(OSError, match="no such file: "):
                streamed(Path(name), path, n_procs=1)
            continue
        got, statistics = streamed(Path(name), path, n_procs=1)
        assert got is not None
        assert got.tolist() == want, path
        assert bool(statistics["library"]) == (path in ("short", "several"))
        with multitables.open(name) as file:
            assert file[path][1:].tolist() == want[1:]


def test_a_raw_file_that_is_cut_between_two_streams(h5: Path) -> None:
    raw = h5.with_name("raw")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (4000,), "<i8", external=[(str(raw), 0, 32000)])[...] = 1
    got, told = streamed(h5, "/x")
    assert got is not None
    assert (got == 1).all()
    assert told["library"] == {}
    os.truncate(raw, 31000)
    got, told = streamed(h5, "/x")  # HDF5 has zeros behind the end
    assert got is not None
    assert np.flatnonzero(got != 1).tolist() == list(range(4000 - 125, 4000))
    assert (got[-125:] == 0).all()
    assert "external" in told["library"]["/x"]
