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
        "pieces": [("raw", 4, 4), ("sub/raw", 0, 8), ("raw", 0, h5py.h5f.UNLIMITED)],
        "crooked": [("raw", 1, 6), ("raw", 2, 20)],
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
        assert bool(statistics["library"]) == (path in ("short", "several", "crooked"))
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


@pytest.mark.parametrize(
    "counts", [(10, 20, 30), (7, 1), (3, 3, 3), (64, 0, 4000), (1, 5, 9001)], ids=str
)
def test_pieces_in_several_files(h5: Path, counts: tuple[int, ...]) -> None:
    """Each begins with a row, in files that have more of them, or twice in the same one."""
    dtype = np.dtype([("a", "<i2"), ("b", ">f8", (3,))])
    data = np.zeros((sum(counts), 2), dtype)
    data["a"] = np.arange(data.size).reshape(-1, 2)
    data["b"] = np.arange(data.size * 3).reshape(-1, 2, 3)
    parts, row = [], 0
    for number, count in enumerate(counts):
        raw = h5.with_name(f"raw{number % 2}")
        with raw.open("ab") as file:
            file.write(b"skipped")
            if count:
                parts.append((str(raw), file.tell(), count * data[0].nbytes))
            file.write(data[row : row + count].tobytes())
        row += count
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data.shape, dtype, external=parts)
        np.testing.assert_array_equal(file["x"][:], data)
    for fields, want in ((None, data), ("b", data["b"])):
        with multitables.Streamer(h5).get_queue("/x", field=fields, n_procs=2) as blocks:
            got = np.concatenate([guard.__enter__().copy() for guard in blocks])
            assert blocks.statistics()["library"] == {}
        assert np.array_equal(got, want[: len(got)])
        assert len(want) - len(got) < blocks.block_size
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        rows = reader.request(dataset[2:-1:3]).get()
        np.testing.assert_array_equal(rows, data[2:-1:3])
        assert reader.statistics()["library_requests"] == 0
    with multitables.open(h5) as file:
        np.testing.assert_array_equal(file["x"][:, 1]["a"], data[:, 1]["a"])
