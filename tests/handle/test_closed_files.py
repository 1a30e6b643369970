"""Files that are opened and closed again and again: what is kept in between is never stale.

Law
---
1. The oracle is the same call after `release_memory`: the same values, or the same error.
2. Files of tests are new, so `SETTLED_NS` is 0, and a change waits until it has a time of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from processes import Holdings, wait_until

import multitables
from _multitables.parent.open import closed


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    multitables.release_memory()
    monkeypatch.setattr(closed, "SETTLED_NS", 0)
    yield
    multitables.release_memory()


def write(path: Path, value: int, rows: int = 40) -> None:
    with h5py.File(path, "w") as file:
        data = np.full((rows, 3), value)
        file.create_dataset("group/x", data=data, chunks=(4, 3), compression="gzip")
        file.attrs["value"] = value


def answer(path: Path) -> Any:
    try:
        with multitables.open(path) as file:
            x = file["group/x"]
            return x.shape, x[...].tolist(), x[3].tolist(), list(file), int(file.attrs["value"])
    except multitables.MultitablesError as error:
        return type(error), str(error)


def in_place(path: Path) -> None:
    before = path.stat()
    with h5py.File(path, "r+") as file:
        file["group/x"][...] = np.full((40, 3), 8)
        file.attrs["value"] = 8
    assert path.stat().st_ino == before.st_ino


def same_size_and_time(path: Path) -> None:
    before, data = path.stat(), bytearray(path.read_bytes())
    at = data.index(b"group")
    data[at : at + 5] = b"groux"
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (len(data), before.st_mtime_ns)


def renamed(path: Path) -> None:
    write(path.with_name("other.h5"), 5, 16)
    path.with_name("other.h5").rename(path)


def written(path: Path) -> None:
    path.write_bytes(b"no HDF5 file")


CHANGES: dict[str, Callable[[Path], Any]] = {
    "written in place": in_place,
    "same size and time of change": same_size_and_time,
    "replaced by rename": renamed,
    "written anew": lambda path: write(path, 6, 41),
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 100),
    "no HDF5 file any more": written,
    "removed": Path.unlink,
    "touched": Path.touch,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_between_two_opens(tmp_path: Path, change: str) -> None:
    path, copy = tmp_path / "x.h5", tmp_path / "copy"
    write(path, 7)
    first = answer(path)
    assert closed._kept
    assert answer(path) == first
    state, good = closed.state_of(str(path)), path.read_bytes()
    while True:  # until the clock of the file system has gone on
        CHANGES[change](path)
        if closed.state_of(str(path)) != state:
            break
        copy.write_bytes(good)
        path.write_bytes(copy.read_bytes())
    got = answer(path)
    multitables.release_memory()
    assert got == answer(path)
    assert (got == first) is (change == "touched")


def test_what_is_kept_is_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    write(path, 7)
    with multitables.open(path) as file:
        metadata, x = file._place.file.metadata, file["group/x"]
        first = x[...]
    with pytest.raises(multitables.ClosedError):
        x[...]
    with multitables.open(path) as file:
        assert file._place.file.metadata is metadata
        assert not closed._kept
        assert np.array_equal(file["group/x"][...], first)
        with multitables.open(path) as other:
            assert other == file
    with multitables.open(path, cache_bytes=0) as file:
        assert file._place.file.metadata is not metadata


def test_a_writer_may_open_what_is_kept_and_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    write(path, 7)
    first = answer(path)
    assert closed._kept
    with h5py.File(path, "r+") as file:
        assert answer(path)[0] is multitables.FileOpenError
        file.attrs["more"] = 1
    assert answer(path) == first


def test_a_file_that_has_just_changed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    write(tmp_path / "x.h5", 7)
    answer(tmp_path / "x.h5")
    assert not closed._kept


@pytest.mark.parametrize("kind", ["virtual", "external data", "external link", "no locks"])
def test_what_other_files_may_change_is_not_kept(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.h5"
    write(tmp_path / "other.h5", 7)
    with h5py.File(path, "w") as file:
        if kind == "virtual":
            layout = h5py.VirtualLayout((40, 3), int)
            layout[...] = h5py.VirtualSource("other.h5", "group/x", (40, 3))
            file.create_virtual_dataset("x", layout)
        elif kind == "external link":
            file["x"] = h5py.ExternalLink("other.h5", "/group/x")
        elif kind == "external data":
            file.create_dataset("x", (2,), "i4", external=[(str(tmp_path / "raw"), 0, 8)])
            file["x"][...] = 7
        else:
            file["x"] = [7, 7]
            monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
    with multitables.open(path) as opened:
        assert opened["x"][...].ravel()[0] == 7
        del opened  # which is the last that knows the file
    assert not closed._kept


def test_little_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{number}.h5" for number in range(5)]
    for path in paths:
        write(path, 7)
    monkeypatch.setattr(closed, "FILES", 3)
    before = Holdings.now()
    for path in paths:
        answer(path)
    assert [key[0] for key in closed._kept] == [str(path) for path in paths[2:]]
    assert len(Holdings.now().since(before)["descriptors"]) <= 6
    monkeypatch.setattr(closed, "CACHE_BYTES", 1)
    answer(paths[0])
    assert not closed._kept


def test_it_is_dropped_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed, "SECONDS", 0.05)
    write(tmp_path / "x.h5", 7)
    before = Holdings.now()
    answer(tmp_path / "x.h5")
    wait_until(lambda: not closed._kept, "the file is dropped")
    wait_until(lambda: not Holdings.now().since(before), "nothing is left")


def test_a_fork_opens_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    write(path, 7)
    first = answer(path)
    assert closed._kept
    child = os.fork()
    if not child:
        is_right = not closed._kept and answer(path) == first and len(closed._kept) == 1
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert answer(path) == first


def test_a_file_that_is_open_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path := tmp_path / "x.h5", 3)
    with multitables.open(path) as file:
        monkeypatch.delattr("_multitables.parent.open.handle.OpenFiles")
        with multitables.open(path) as again:
            assert again["group/x"][0].tolist() == [3, 3, 3]
        assert file.attrs["value"] == 3


@pytest.mark.parametrize("change", [same_size_and_time, renamed, written])
def test_a_file_that_changes_while_it_is_open_is_opened_again(
    tmp_path: Path, change: Callable[[Path], Any]
) -> None:
    write(path := tmp_path / "x.h5", 3)
    clock = tmp_path / "clock"

    def has_gone_on() -> bool:
        clock.touch()
        return clock.stat().st_ctime_ns > path.stat().st_ctime_ns

    with multitables.open(path):
        wait_until(has_gone_on, "the clock of the file system")
        change(path)
        found = answer(path)
    multitables.release_memory()
    assert found == answer(path)
    assert found[0] != (40, 3)
