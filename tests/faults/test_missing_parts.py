"""Datasets that need what is not there: a filter that is not installed, a file of raw data.

1. Streams and requests name it, in one sentence without a back trace, and say where to get it.
2. What was caught before is still caught: `SubprocessException` and `OSError`.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import tables
from elements import smooth
from h5py import h5d, h5p, h5s, h5t
from oracle import streamed

import multitables

pytestmark = pytest.mark.usefixtures("few_filters")


def _requested(path: Path) -> Any:
    with multitables.Reader(path, n_procs=1) as reader:
        return reader.request(reader.get_dataset("/x")[:]).get()


ASKED: dict[str, Callable[[Path], Any]] = {
    "stream": lambda path: streamed(path, "/x", n_procs=1),
    "request": _requested,
}


@pytest.fixture(params=list(ASKED))
def ask(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    return ASKED[request.param]


@pytest.fixture
def _without_hdf5plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers find one that cannot be imported."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "hdf5plugin.py").write_text("raise ImportError")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "hidden"), *sys.path])
    monkeypatch.setenv("HDF5_PLUGIN_PATH", str(tmp_path))  # where hdf5plugin here has set it


def lacks_filter(path: Path, ask: Callable[[Path], Any], number: int, *parts: str) -> None:
    with pytest.raises(multitables.MissingFilterError) as caught:
        ask(path)
    error = caught.value
    assert isinstance(error, multitables.SubprocessException)
    assert isinstance(error, multitables.UnsupportedDatasetError)
    assert isinstance(error, OSError)
    for part in (f"filter {number}", "'/x'", repr(str(path)), *parts):
        assert part in str(error)
    assert "\n" not in str(error)
    assert (error.filter_id, error.path) == (number, "/x")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.usefixtures("_without_hdf5plugin")
def test_a_plugin_that_is_not_installed(h5: Path, ask: Callable[[Path], Any]) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 5), "<f4"), chunks=(8, 5), **hdf5plugin.Zfp())
    lacks_filter(h5, ask, 32013, "ZFP", "pip install hdf5plugin")


def test_a_library_that_is_not_installed(
    h5: Path, ask: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 5), "<f4"), chunks=(8, 5), **hdf5plugin.Zfp())
    (tmp_path / "hidden").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'h5py'\", name='h5py')"
    (tmp_path / "hidden" / "h5py.py").write_text(missing)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "hidden"), *sys.path])
    with pytest.raises(multitables.MissingLibraryError) as caught:
        ask(h5)
    assert isinstance(caught.value, ImportError)
    assert "h5py is not installed, which is needed to read '/x'" in str(caught.value)
    assert "pip install 'multitables[h5py]'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("_without_hdf5plugin")
def test_a_virtual_dataset_of_one(h5: Path, ask: Callable[[Path], Any]) -> None:
    with h5py.File(h5.with_name("source.h5"), "w") as file:
        file.create_dataset("y", data=smooth((40, 5), "<f4"), chunks=(8, 5), **hdf5plugin.Zfp())
    layout = h5py.VirtualLayout((40, 5), "<f4")
    layout[...] = h5py.VirtualSource("source.h5", "y", (40, 5))
    with h5py.File(h5, "w") as file:
        file.create_virtual_dataset("x", layout)
    lacks_filter(h5, ask, 32013, "pip install hdf5plugin")


@pytest.mark.parametrize(
    ("number", "parts"),
    [
        (499, ["no name", "HDF5_PLUGIN_PATH"]),
        (305, ["lzo", "pip install tables"]),
        (401, ["MaxWell", "HDF5_PLUGIN_PATH"]),
        (32020, ["VBZ", "HDF5_PLUGIN_PATH"]),
    ],
)
def test_a_filter_that_h5py_cannot_have(
    h5: Path, ask: Callable[[Path], Any], number: int, parts: list[str]
) -> None:
    _stored_with(h5, number)
    lacks_filter(h5, ask, number, *parts)


def test_a_filter_of_pytables_that_is_not_built_in(h5: Path, ask: Callable[[Path], Any]) -> None:
    if tables.which_lib_version("lzo") is not None:
        pytest.skip("this PyTables has lzo")
    _stored_with(h5, 305)
    with h5py.File(h5, "a") as file:
        file["x"].attrs["CLASS"] = np.bytes_("CARRAY")
        file["x"].attrs["VERSION"] = np.bytes_("1.1")
    lacks_filter(h5, ask, 305, "lzo", "PyTables", "pip install tables")


def _stored_with(path: Path, number: int) -> None:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((10,))
    plist.set_filter(number, 1, (1, 2))  # optional, so that it can be made
    with h5py.File(path, "w") as file:
        made = h5d.create(file.id, b"x", h5t.STD_I32LE, h5s.create_simple((30,)), plist)
        for at in (0, 10, 20):
            made.write_direct_chunk((at,), b"1234", filter_mask=0)


def test_an_exception_of_pytables_has_no_back_trace(h5: Path, ask: Callable[[Path], Any]) -> None:
    if tables.which_lib_version("bzip2") is None:
        pytest.skip("this PyTables has no bzip2")
    with tables.open_file(str(h5), "w") as file:
        chosen = tables.Filters(5, "bzip2", shuffle=False)
        file.create_carray("/", "x", obj=smooth((1000,)), filters=chosen)
    with h5py.File(h5, "a") as file:
        file["x"].id.write_direct_chunk((0,), b"no bzip2")
    with pytest.raises(multitables.SubprocessException, match="the tables library") as caught:
        ask(h5)
    assert isinstance(caught.value, tables.HDF5ExtError)
    assert "\n" not in str(caught.value)
    assert "back trace" not in str(caught.value)


def test_a_file_of_raw_data_that_is_lost(h5: Path, ask: Callable[[Path], Any]) -> None:
    parts = [(str(h5.with_name(name)), 0, 40) for name in ("one.raw", "two.raw")]
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.arange(20, dtype="<i4"), external=parts)
    os.remove(h5.with_name("two.raw"))
    with pytest.raises(multitables.MissingFileError, match=r"two\.raw'.* of '/x' in ") as caught:
        ask(h5)
    assert isinstance(caught.value, multitables.SubprocessException)
    assert isinstance(caught.value, FileNotFoundError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with multitables.Reader(h5, n_procs=1) as reader:  # the other file is there
        dataset = reader.get_dataset("/x")
        with pytest.raises(multitables.MissingFileError):
            reader.request(dataset[2:19]).get()
        rows = reader.request(dataset[2:9]).get()
    np.testing.assert_array_equal(rows, np.arange(2, 9))


def test_where_files_of_raw_data_are_looked_for(
    h5: Path, ask: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}")
    h5.with_name("one.raw").write_bytes(bytes(80))
    with h5py.File(h5, "w") as file:
        external = [("one.raw", 0, 40), ("two.raw", 0, 40)]
        file.create_dataset("x", (20,), "<i4", external=external)
    with pytest.raises(multitables.MissingFileError, match=r"'two\.raw'"):
        ask(h5)
