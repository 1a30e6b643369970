"""The peers of the sweep: their data, the zarr copy, and what each says when it cannot run.

Law
---
1. A library that is not installed is skipped here; `.ci/run adapters` has all of them.
2. A stand-in for hidefix, found before it, plays the library that is missing, lies, or refuses.
3. Nothing is timed. What a peer needs lies below the directory that it was given, and nowhere else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables

from _multitables.benchmark.contenders import peers, streams
from _multitables.benchmark.contenders.peers import LIBRARIES, Peer
from _multitables.benchmark.contract import NotMeasuredError, Source, differs
from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.workloads import EVENT, Workload
from _multitables.benchmark.data.zarr_copy import ZarrCopy

#: 300 rows: the last chunk is not full.
FILTERS: dict[str, dict[str, Any]] = {
    "no filter": {"complevel": 0},
    "blosc": {"complib": "blosc", "complevel": 3},
    "blosc:zstd, no shuffle": {"complib": "blosc:zstd", "complevel": 1, "shuffle": False},
    "zlib with shuffle": {"complib": "zlib", "complevel": 3},
    "zlib": {"complib": "zlib", "complevel": 3, "shuffle": False},
}
#: Recipe -> what must be importable for it; the first plays the library that is missing.
NAMES = {
    "hidefix": ("hidefix",),
    "pyfive": ("pyfive",),
    "xarray-h5netcdf": ("h5netcdf", "xarray"),
    "xarray-netcdf4": ("netCDF4", "xarray"),
    "xarray-hidefix": ("hidefix", "xarray", "netCDF4"),
    "zarr": ("zarr",),
    "zarrs": ("zarrs", "zarr"),
    "tensorstore": ("tensorstore",),
    "DataLoader": ("torch",),
}
#: Recipe -> what it says of blosc, where it does not know it.
NO_BLOSC = {
    "hidefix": "/data: Unsupported filter",
    "pyfive": "Filter with id: 32001 import not supported",
    "xarray-hidefix": "/data: Unsupported filter",
}


def written(directory: Path, **options: Any) -> tuple[Workload, Source]:
    """A small file of waves."""
    defaults = {"rows": 300, "columns": 64, "dtype": "float32", "values": "waves", "chunk_rows": 64}
    workload = Workload("peers", **{**defaults, **options})
    filename = str(directory / "data.h5")
    workloads.write(workload, filename)
    return workload, Source(filename, workloads.PATH, workload.rows, workload.row_bytes)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The directory that peers are given."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    return directory


def everybody(data: tuple[Workload, Source], scratch: Path, *processes: int) -> dict[str, Peer]:
    workload, source = data
    found = peers.peers(source, workload, processes, str(scratch))
    return {one.contender.name: one for one in found}


def check(peer: Peer, source: Source) -> None:
    """Its data are right, and its passes count all of them."""
    found = peer.contender.check()
    assert found is not None
    assert differs(found, streams.oracle(source)) == ""
    assert peer.contender.measure().more["decoded_bytes"] == source.decoded_bytes
    assert all(os.path.isfile(name) for name in peer.files)


# ---- the libraries themselves


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("name", ["PyTables read(out=)", "h5py read_direct"])
def test_libraries_of_this_process(name: str, filters: str, tmp_path: Path, scratch: Path) -> None:
    data = written(tmp_path, **FILTERS[filters])
    check(everybody(data, scratch, 1)[name], data[1])


@pytest.mark.parametrize("filters", ["no filter", "blosc", "zlib with shuffle"])
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.recipe)
def test_libraries_of_their_own_process(
    library: peers.Library, filters: str, tmp_path: Path, scratch: Path
) -> None:
    for name in NAMES[library.recipe]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: {library.install}")
    data = written(tmp_path, **FILTERS[filters])
    n = 1 if library.access == "slabs" else 2
    peer = everybody(data, scratch, 2)[f"{library.label} x{n}"]
    if library.recipe in NO_BLOSC and filters == "blosc":
        with pytest.raises(NotMeasuredError, match=f"cannot read this: {NO_BLOSC[library.recipe]}"):
            peer.contender.check()
        return
    check(peer, data[1])
    shutil.rmtree(scratch)
    assert [path.name for path in tmp_path.iterdir()] == ["data.h5"]


# ---- a stand-in for one of them

STAND_IN = """
import h5py


class Index:
    def __init__(self, filename):
        self.filename = filename

    def dataset(self, name, group):
        return Dataset(h5py.File(self.filename)[f"{group or ''}/{name}"])


class Dataset:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, key):
        found = self.rows[key]
        FAULT
        return found
"""


def stand_in(directory: Path, module: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that children find before the library of that name."""
    place = directory / "modules"
    place.mkdir()
    (place / f"{module}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(place))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.recipe)
def test_a_library_that_is_missing(
    library: peers.Library, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = NAMES[library.recipe][0]
    stand_in(tmp_path, name, f"raise ModuleNotFoundError('no {name}')", monkeypatch)
    peer = everybody(written(tmp_path), scratch, 1)[f"{library.label} x1"]
    for ask in (peer.contender.check, peer.contender.measure):
        with pytest.raises(NotMeasuredError, match=f"no {name}.*: pip install ") as raised:
            ask()
        assert str(raised.value).endswith(library.install)


def test_the_loop_reads_all_rows(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "hidefix", STAND_IN.replace("FAULT", ""), monkeypatch)
    monkeypatch.setattr(peers, "SLAB_BYTES", 1)  # so that a slab is the chunks of one thread
    data = written(tmp_path, rows=1100)
    check(everybody(data, scratch, 1)["hidefix x1"], data[1])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("found.view('u1').flat[7] ^= 1", "data differs"),
        ("found[:] = 0", "data differs"),
        ("found = found[1:]", "299 rows instead of 300"),
        ("found = found[::-1]", "wrong order"),
    ],
)
def test_a_peer_that_lies_is_found(
    fault: str, said: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "hidefix", STAND_IN.replace("FAULT", fault), monkeypatch)
    data = written(tmp_path)
    found = everybody(data, scratch, 1)["hidefix x1"].contender.check()
    assert found is not None
    assert said in differs(found, streams.oracle(data[1]))


def test_a_refusal_is_told_in_one_line(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def Index(filename):\n    raise RuntimeError('/data: no\\n\\nStack backtrace:\\n')\n"
    stand_in(tmp_path, "hidefix", text, monkeypatch)
    peer = everybody(written(tmp_path), scratch, 1)["hidefix x1"]
    with pytest.raises(NotMeasuredError, match=r"^hidefix cannot read this: /data: no \([^\n]*\)$"):
        peer.contender.check()


@pytest.mark.parametrize(
    ("name", "module"), [("DataLoader over h5py", "torch"), ("xarray, h5netcdf", "h5netcdf")]
)
def test_who_reads_with_h5py_and_lacks_the_filter(
    name: str, module: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in {module, "torch" if module == "torch" else "xarray"}:
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    stand_in(tmp_path, "hdf5plugin", "raise ModuleNotFoundError('no hdf5plugin')", monkeypatch)
    monkeypatch.setenv("HDF5_PLUGIN_PATH", str(tmp_path))
    peer = everybody(written(tmp_path, complib="blosc", complevel=1), scratch, 1)[f"{name} x1"]
    with pytest.raises(NotMeasuredError, match="no filter 32001: pip install hdf5plugin"):
        peer.contender.check()


# ---- h5py over another HDF5, by an interpreter of its own


def of_version(directory: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter whose h5py says that it is over that HDF5, and reads as this one's."""
    python = directory / "python"
    says = f'case "$*" in *hdf5_version*) echo {version}; exit;; esac'
    python.write_text(f'#!/bin/sh\n{says}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv(peers.NEWEST_PYTHON, str(python))


@pytest.mark.parametrize("filters", FILTERS)
def test_h5py_over_another_hdf5(
    filters: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_version(tmp_path, "9.8.7", monkeypatch)
    data = written(tmp_path, **FILTERS[filters])
    check(everybody(data, scratch, 1, 2)["h5py, HDF5 9.8.7 x1"], data[1])


@pytest.mark.parametrize("named", ["", "/no/such/python", sys.executable])
def test_an_interpreter_that_is_not_there(
    named: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(peers.NEWEST_PYTHON, named)
    if named == sys.executable:  # an interpreter whose h5py does not work
        of_version(tmp_path, "9.8.7; exit 1", monkeypatch)
    peer = everybody(written(tmp_path), scratch, 1)[f"h5py, HDF5 {peers.NEWEST} x1"]
    for ask in (peer.contender.check, peer.contender.measure):
        with pytest.raises(NotMeasuredError, match=r"tools/hdf5_build newest PREFIX.*then set"):
            ask()


def test_what_is_awaited_is_listed_with_its_reason(tmp_path: Path, scratch: Path) -> None:
    peer = everybody(written(tmp_path), scratch, 1, 3)["h5py, HDF5 2.3 with threads"]
    for ask in (peer.contender.check, peer.contender.measure):
        with pytest.raises(NotMeasuredError, match=f"No registry .*those of HDF5 {peers.NEWEST}"):
            ask()


# ---- the list


def test_who_is_listed(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(peers.NEWEST_PYTHON, raising=False)
    workload, source = written(tmp_path)
    found = peers.peers(source, workload, (1, 3), str(scratch))
    assert [(one.label, one.access, one.n_procs) for one in found] == [
        ("PyTables read(out=)", "slabs", 1),
        ("h5py read_direct", "slabs", 1),
        (f"h5py, HDF5 {peers.NEWEST}", "slabs", 1),
        *(("hidefix", "threads", n) for n in (1, 3)),
        *(("pyfive", "threads", n) for n in (1, 3)),
        ("xarray, h5netcdf", "slabs", 1),
        ("xarray, netCDF4", "slabs", 1),
        *(("xarray, hidefix", "threads", n) for n in (1, 3)),
        *(("zarr-python", "threads", n) for n in (1, 3)),
        *(("zarr-python, zarrs", "threads", n) for n in (1, 3)),
        *(("TensorStore", "threads", n) for n in (1, 3)),
        *(("DataLoader over h5py", "workers", n) for n in (1, 3)),
        ("h5py, HDF5 2.3 with threads", "threads", 1),
    ]
    assert len({one.contender.name for one in found}) == len(found)
    by_files = {one.label: one.files for one in found}
    of_zarr = {"zarr-python", "zarr-python, zarrs", "TensorStore"}
    assert len({by_files[label] for label in of_zarr}) == 1
    others = {files for label, files in by_files.items() if label not in of_zarr}
    assert others == {(source.filename,)}


# ---- the zarr copy


def rows_of(copy: str) -> Any:
    """The rows of a zarr array, decoded by HDF5's filters."""
    described = json.loads(Path(copy, ".zarray").read_text())
    filters = tables.Filters(complevel=1, complib="blosc") if described["compressor"] else None
    shape, chunks = described["shape"], described["chunks"]
    with tables.open_file("rows", "w", driver="H5FD_CORE", driver_core_backing_store=0) as file:
        atom = tables.Atom.from_dtype(np.dtype(described["dtype"]))
        array = file.create_carray("/", "rows", atom, shape, chunkshape=chunks, filters=filters)
        for place in np.ndindex(*-(-np.array(shape) // chunks)):
            stored = Path(copy, ".".join(map(str, place))).read_bytes()
            array.write_chunk(tuple(np.multiply(place, chunks)), stored)
        return array[:]


@pytest.mark.parametrize("dtype", ["float32", "float64", ">i2"])
@pytest.mark.parametrize("filters", FILTERS)
def test_the_copy_has_the_same_chunks(
    filters: str, dtype: str, tmp_path: Path, scratch: Path
) -> None:
    workload, source = written(tmp_path, dtype=dtype, **FILTERS[filters])
    copy = ZarrCopy(source.filename, workload, str(scratch))
    assert copy.make() == copy.path
    with tables.open_file(source.filename) as file:
        node = file.get_node(source.path)
        described = json.loads(Path(copy.path, ".zarray").read_text())
        assert tuple(described["chunks"]) == node.chunkshape == (copy.chunk_rows, 64)
        assert tuple(described["shape"]) == node.shape
        assert np.dtype(described["dtype"]) == node.dtype
        assert np.array_equal(rows_of(copy.path), node[:])
    on_disk = sorted(str(path) for path in Path(copy.path).iterdir())
    assert on_disk == sorted(copy.files)
    assert len(on_disk) == 1 + 5


@pytest.mark.parametrize("complib", ["blosc", "blosc:lz4", "zlib"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_chunks_that_cannot_be_compressed(
    shuffle: bool, complib: str, tmp_path: Path, scratch: Path
) -> None:
    rows = np.random.default_rng(0).integers(0, 2**62, (300, 100))
    rows[64:128] = 7
    filename = str(tmp_path / "noise.h5")
    filters = tables.Filters(complevel=3, complib=complib, shuffle=shuffle)
    with tables.open_file(filename, "w") as file:
        node = file.create_carray("/", "data", obj=rows, chunkshape=(64, 32), filters=filters)
        masks = {node.chunk_info((start, 0)).filter_mask for start in range(0, 300, 64)}
    if complib != "zlib":  # HDF5 keeps what zlib makes larger
        assert masks == {0, 1}
    copy = ZarrCopy(filename, Workload("x", 300, 100), str(scratch))
    assert np.array_equal(rows_of(copy.make()), rows)
    assert len(copy.files) == 1 + 5 * 4


def test_the_copy_is_written_when_it_is_needed_and_once(tmp_path: Path, scratch: Path) -> None:
    workload, source = written(tmp_path)
    copy = ZarrCopy(source.filename, workload, str(scratch))
    assert os.listdir(copy.path) == []
    copy.make()
    os.unlink(copy.files[1])
    copy.make()
    assert not os.path.exists(copy.files[1])


Usage = namedtuple("Usage", "total used free")  # noqa: PYI024  what shutil gives


def test_no_copy_is_begun_that_does_not_fit(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = everybody(written(tmp_path), scratch, 1)["TensorStore x1"]
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage(2**40, 2**40, 1000))
    with pytest.raises(NotMeasuredError, match="Nothing was written"):
        peer.contender.check()
    assert [name for name in peer.files if os.path.exists(name)] == []


@pytest.mark.parametrize("name", ["zarr-python x1", "TensorStore x1"])
def test_what_zarr_has_no_codec_for(name: str, tmp_path: Path, scratch: Path) -> None:
    peer = everybody(written(tmp_path, complib="blosc2", complevel=1), scratch, 1)[name]
    with pytest.raises(NotMeasuredError, match=r"no codec for 'blosc2:.*choose zlib or blosc"):
        peer.contender.check()


def test_records_have_no_copy(tmp_path: Path, scratch: Path) -> None:
    data = written(tmp_path, rows=50, columns=1, dtype=EVENT, values="events", chunk_rows=16)
    with pytest.raises(NotMeasuredError, match="records"):
        everybody(data, scratch, 1)["zarr-python x1"].contender.check()
