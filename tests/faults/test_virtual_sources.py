"""What goes wrong with the sources of virtual datasets.

Law: an error names the file that is at fault; what is missing is the fill value, as with h5py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from oracle import fast, h5py_read, same

import multitables

N_FILES, ROWS = 40, 16


@pytest.fixture(params=["chunks", "boxes"])
def parts(request: pytest.FixtureRequest, h5: Path) -> list[Path]:
    """Files that `/x` of `h5` shows, more than a reader has open."""
    found, shown = [], ROWS if request.param == "chunks" else ROWS - 3
    layout = h5py.VirtualLayout((N_FILES * shown, 3), "<i4")
    for number in range(N_FILES):
        found.append(h5.with_name(f"part{number}.h5"))
        with h5py.File(found[-1], "w") as file:
            rows = np.arange(ROWS * 3).reshape(ROWS, 3) + number * 1000
            options: dict[str, Any] = {"chunks": (8, 3), "compression": "gzip", "fletcher32": True}
            file.create_dataset("x", data=rows.astype("<i4"), **options)
        source = h5py.VirtualSource(found[-1].name, "x", (ROWS, 3))
        layout[number * shown : (number + 1) * shown] = source[:shown]
    with h5py.File(h5, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-5)
    return found


def by_queue(path: Path) -> Iterator[Any]:
    with multitables.Streamer(path).get_queue("/x", n_procs=1, cyclic=True) as queue:
        yield
        for guard in queue:
            with guard:
                pass


def by_reader(path: Path) -> Iterator[Any]:
    with multitables.Reader(path, n_procs=1) as reader:
        x = reader.get_dataset("/x")
        yield
        reader.request(x[:]).get()


def by_open(path: Path) -> Iterator[Any]:
    with multitables.open(path) as file:
        x = file["x"]
        x[0]
        yield
        x[:]


WAYS: list[Callable[[Path], Iterator[Any]]] = [by_queue, by_reader, by_open]


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_chunk_names_its_file(h5: Path, parts: list[Path], way: Any) -> None:
    damaged = parts[33]
    with h5py.File(damaged, "r") as file:
        at = file["x"].id.get_chunk_info(0).byte_offset
    with open(damaged, "r+b") as file:
        file.seek(at + 4)
        file.write(b"damage")
    with pytest.raises(multitables.CorruptChunkError) as caught:
        list(way(h5))
    assert caught.value.filename == str(damaged)
    assert repr(str(damaged)) in str(caught.value)
    assert f"file bytes {at}:" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_changes_is_named(h5: Path, parts: list[Path], way: Any) -> None:
    changed = parts[37]
    steps = way(h5)
    next(steps)
    os.utime(changed, ns=(1, 1))
    with pytest.raises(multitables.FileChangedError) as caught:
        list(steps)
    assert caught.value.filename == str(changed)


def test_a_file_that_is_no_hdf5_file_is_named(h5: Path, parts: list[Path]) -> None:
    parts[5].write_bytes(b"something else")
    with pytest.raises(multitables.FileOpenError) as caught:
        multitables.Streamer(h5).get_queue("/x")
    assert caught.value.filename == str(parts[5])


def test_missing_sources_are_the_fill_value(h5: Path, parts: list[Path]) -> None:
    for number in (0, 7, 39):
        parts[number].unlink()
    with h5py.File(parts[11], "r+") as file:
        del file["x"]
    fast(h5, "/x")
    for part in parts:
        part.unlink(missing_ok=True)
    fast(h5, "/x")
    same(h5py_read(h5, "/x"), np.full_like(h5py_read(h5, "/x"), -5))


def test_virtual_datasets_that_show_each_other(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for name, other in (("x", "y"), ("y", "x")):
            layout = h5py.VirtualLayout((4,), "<i4")
            layout[...] = h5py.VirtualSource(".", other, (4,))
            file.create_virtual_dataset(name, layout)
    with pytest.raises(multitables.FileOpenError, match="without an end"):
        multitables.Streamer(h5).get_queue("/x")


#: Where the file may be -> where HDF5 looks before.
PLACES = ["prefix", "second prefix", "beside", "here"]


def test_sources_are_found_where_hdf5_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / name for name in PLACES}
    for number, folder in enumerate(folders.values()):
        folder.mkdir()
        with h5py.File(folder / "source.h5", "w") as file:
            file.create_dataset("x", data=np.full((4,), number), chunks=(2,))
    path, absolute = folders["beside"] / "data.h5", tmp_path / "nowhere" / "source.h5"
    with h5py.File(path, "w") as file:
        for name, source in (("x", "source.h5"), ("absolute", str(absolute))):
            layout = h5py.VirtualLayout((4,), "<i8")
            layout[...] = h5py.VirtualSource(source, "x", (4,))
            file.create_virtual_dataset(name, layout, fillvalue=-1)
    prefixes = os.pathsep.join(str(folders[name]) for name in PLACES[:2])
    monkeypatch.setenv("HDF5_VDS_PREFIX", prefixes)
    monkeypatch.chdir(folders["here"])
    for folder in folders.values():
        for name in ("/x", "/absolute"):
            fast(path, name)  # libhdf5 reads the variable at each opening
        (folder / "source.h5").unlink()
    fast(path, "/x")
