"""`open` with h5py's options, and with what h5py opens beside names: file objects and open files.

1. h5py is the oracle: what it takes to read is taken, and gives the same elements.
2. A file object's bytes are there as long as what was opened, and no longer.
"""

from __future__ import annotations

import copy
import fcntl
import gc
import gzip
import inspect
import io
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables

import multitables
from multitables import OptionsError, UnknownOptionError

ROWS = np.arange(100.0).reshape(20, 5)
READING: list[dict[str, Any]] = [
    {"mode": "r"},
    {"libver": "latest"},
    {"libver": ("v108", "v110")},
    {"swmr": True},
    {"locking": True},
    {"locking": False},
    {"locking": "best-effort"},
    {"driver": "sec2"},
    {"driver": "stdio"},
    {"driver": "core", "backing_store": False, "block_size": 1 << 16},
    {"rdcc_nbytes": 1 << 24, "rdcc_nslots": 10007, "rdcc_w0": 0.25},
    {"track_order": True, "track_times": False, "fs_persist": False, "fs_threshold": 1},
    {"alignment_threshold": 1, "alignment_interval": 1, "meta_block_size": 2048},
    {"page_buf_size": None, "min_meta_keep": 0, "min_raw_keep": 0, "fs_page_size": None},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(4, 5), compression="gzip")
        file["text"] = ["a", "bb", ""]
    return path


@pytest.mark.parametrize("options", READING, ids=str)
def test_what_h5py_takes_to_read(path: Path, options: dict[str, Any]) -> None:
    with h5py.File(path, **options) as theirs, multitables.open(path, **options) as ours:
        assert np.array_equal(ours["x"][3:9], theirs["x"][3:9])


def test_every_option_of_h5py_is_known(path: Path) -> None:
    known = dict(inspect.signature(h5py.File).parameters)
    for name in ("name", "mode", "driver", "swmr", "locking", "kwds"):
        del known[name]
    with multitables.open(path, **{name: one.default for name, one in known.items()}) as file:
        assert file["x"].shape == ROWS.shape


def test_driver_and_mode_by_position(path: Path) -> None:
    with multitables.File(path, "r", "core") as file:
        assert type(file) is multitables.open is multitables.File
        assert np.array_equal(file["x"], ROWS)


def test_a_subclass_is_opened_as_its_class(path: Path) -> None:
    class Mine(multitables.File):
        pass

    with Mine(path) as file:
        assert type(file) is Mine
        assert np.array_equal(file["x"], ROWS)


@pytest.mark.parametrize("mode", ["r+", "w", "w-", "x", "a"])
def test_modes_that_write(path: Path, mode: str) -> None:
    with pytest.raises(multitables.ReadOnlyError, match="Write with h5py"):
        multitables.open(path, mode)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mode": "rb"}, "mode must be one of 'r', "),
        ({"driver": "family"}, "driver must be one of None, 'sec2', "),
        ({"driver": "fileobj"}, "does not go with a name"),
        ({"locking": "maybe"}, "locking must be one of None, True, "),
        ({"rdcc_nbytes": -1}, "rdcc_nbytes is out of range"),
        ({"rdcc_nbytes": "many"}, "rdcc_nbytes must be a whole number"),
    ],
)
def test_values_that_options_cannot_have(path: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(OptionsError, match=what):
        multitables.open(path, **options)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rdcc_nbyte": 5}, "no option 'rdcc_nbyte'. Did you mean 'rdcc_nbytes'"),
        ({"n_thread": 5}, "no option 'n_thread'. Did you mean 'n_threads'"),
        ({"backing_store": True}, "no option 'backing_store'"),  # of the driver core alone
        ({"zzzzzz": 5}, "no option 'zzzzzz'. Leave it out"),
    ],
)
def test_names_of_no_option(path: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UnknownOptionError, match=what):
        multitables.open(path, **options)
    with pytest.raises(TypeError):
        h5py.File(path, **options)


def test_a_cache_as_large_as_that_of_h5py(path: Path) -> None:
    def bytes_of(**options: Any) -> int:
        with multitables.open(path, **options) as file:
            return file._handle.options.cache_bytes

    least = bytes_of()
    assert bytes_of(rdcc_nbytes=1 << 40) == 1 << 40
    assert bytes_of(rdcc_nbytes=1 << 20) == least  # h5py's is for each dataset
    assert bytes_of(rdcc_nbytes=1 << 40, cache_bytes=5) == 5


@pytest.mark.parametrize(
    ("said", "locking", "takes"),
    [
        ("", None, True),
        ("", True, True),
        ("", False, False),
        ("TRUE", False, True),
        ("FALSE", True, False),
        ("BEST_EFFORT", False, True),
    ],
)
def test_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch, said: str, locking: Any, takes: bool
) -> None:
    monkeypatch.setenv("HDF5_USE_FILE_LOCKING", said)
    for _ in range(2):  # the second one finds what the first one has kept
        with multitables.open(path, locking=locking) as ours, path.open("r+b") as writer:
            assert np.array_equal(ours["x"][:2], ROWS[:2])
            try:
                fcntl.flock(writer, fcntl.LOCK_EX | fcntl.LOCK_NB)
                was_locked = False
            except BlockingIOError:
                was_locked = True
        assert was_locked is takes


def test_credentials_of_the_driver_ros3(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def of(options: Any) -> Any:
        seen.append(dict(options or {}))
        raise OptionsError("seen")

    monkeypatch.setattr("_multitables.parent.open.file.StorageOptions.of", of)
    login = {"aws_region": b"eu-west-1", "secret_id": b"id", "secret_key": b"key"}
    with pytest.raises(OptionsError, match="seen"):
        multitables.open("s3://bucket/x.h5", "r", "ros3", **login)
    assert seen == [{"region": "eu-west-1", "access_key_id": "id", "secret_access_key": "key"}]


# ---- file objects -------------------------------------------------------------------------


def _temporary(make: Callable[[], Any]) -> Callable[[Path], Any]:
    def filled(path: Path) -> Any:
        file = make()
        file.write(path.read_bytes())
        return file

    return filled


def _zipped(path: Path) -> Any:
    with gzip.open(path.with_suffix(".gz"), "wb") as file:
        file.write(path.read_bytes())
    return gzip.open(path.with_suffix(".gz"))


def _in_memory_of_fsspec(path: Path) -> Any:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/rows.h5", path.read_bytes())
    return store.open("/rows.h5")


FILE_OBJECTS: dict[str, Callable[[Path], Any]] = {
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "a file": lambda path: path.open("rb"),
    "a file without a buffer": lambda path: path.open("rb", buffering=0),
    "a temporary file": _temporary(tempfile.TemporaryFile),
    "a temporary file with a name": _temporary(tempfile.NamedTemporaryFile),
    "one that is spooled": _temporary(tempfile.SpooledTemporaryFile),
    "gzip": _zipped,
    "memory of fsspec": _in_memory_of_fsspec,
    "a local file of fsspec": lambda path: pytest.importorskip("fsspec").open(str(path)).open(),
}


@pytest.mark.parametrize("case", FILE_OBJECTS)
def test_file_objects(path: Path, case: str) -> None:
    given = FILE_OBJECTS[case](path)
    given.seek(7)
    with h5py.File(given) as theirs, multitables.open(given, driver="fileobj") as ours:
        assert np.array_equal(ours["x"], theirs["x"])
        assert ours["text"].asstr()[:].tolist() == ["a", "bb", ""]
    assert multitables.read(given, "x", 3).tolist() == ROWS[3].tolist()
    given.close()


def test_where_a_file_object_stands_stays(path: Path) -> None:
    given = io.BytesIO(path.read_bytes())
    given.seek(7)
    multitables.open(given).close()
    assert given.tell() == 7


@pytest.mark.parametrize("n_procs", [0, 1])
def test_streams_of_a_file_object_outlive_it(path: Path, n_procs: int) -> None:
    file = multitables.open(io.BytesIO(path.read_bytes()))
    batches = file["x"].batches(8, n_procs=n_procs, epochs=2)
    file.close()
    del file
    gc.collect()
    with batches, tempfile.TemporaryFile(), tempfile.TemporaryFile():  # takes its numbers
        found = np.concatenate([batch.copy() for batch in batches])
    assert np.array_equal(found, np.concatenate([ROWS, ROWS]))


def test_copies_of_a_file_object(path: Path) -> None:
    with multitables.open(io.BytesIO(path.read_bytes())) as file:
        for twin in (copy.copy(file["x"]), pickle.loads(pickle.dumps(file["x"]))):
            assert np.array_equal(twin, ROWS)


def test_the_memory_of_a_file_object_goes_with_it(path: Path) -> None:
    def held() -> int:
        gc.collect()
        names = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
        return sum("memfd:multitables-message" in name for name in names)

    before = held()
    with multitables.open(io.BytesIO(path.read_bytes())) as file:
        assert file["x"].shape == ROWS.shape
        assert held() > before
    del file
    assert held() == before


def _closed(path: Path) -> Any:
    file = h5py.File(path)
    file.close()
    return file


def _closed_object(path: Path) -> Any:
    file = io.BytesIO(path.read_bytes())
    file.close()
    return file


@pytest.mark.parametrize(
    ("make", "kind", "what"),
    [
        (lambda path: io.StringIO("x"), OptionsError, "one of texts"),
        (lambda path: path.open(), multitables.FileOpenError, r"cannot be read: Unicode"),
        (_closed_object, multitables.FileOpenError, "cannot be read: ValueError"),
        (lambda path: io.BytesIO(b"text"), multitables.FileOpenError, "not an HDF5 file"),
        (lambda path: io.BytesIO(), multitables.FileOpenError, "not an HDF5 file"),
        (_closed, OptionsError, "the mode 'closed'"),
    ],
)
def test_objects_that_are_no_files(
    path: Path, make: Callable[[Path], Any], kind: type[Exception], what: str
) -> None:
    given = make(path)
    with pytest.raises(kind, match=what):
        multitables.open(given)
    given.close()


def test_more_than_there_is_memory_for(path: Path) -> None:
    class Endless(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            return 1 << 60

    with pytest.raises(multitables.SharedMemoryError, match=f"expected {1 << 60}, got"):
        multitables.open(Endless())


def test_files_that_are_open(path: Path) -> None:
    data = path.read_bytes()
    with h5py.File(path) as one, tables.open_file(str(path)) as two:
        for given in (one, two):
            with multitables.open(given) as ours:
                assert ours.filename == str(path)
                assert np.array_equal(ours["x"], ROWS)
    for opened in (h5py.File(io.BytesIO(data)), multitables.open(io.BytesIO(data))):
        with opened, multitables.open(opened) as ours:
            assert np.array_equal(ours["x"], ROWS)
    refusal = pytest.raises(OptionsError, match=r"reading only, got a File with the mode 'r\+'")
    with h5py.File(path, "r+") as writer, refusal:
        multitables.open(writer)
