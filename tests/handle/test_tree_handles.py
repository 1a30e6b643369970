"""Handles of one file: what they share, what closing ends, and how they reach other processes.

Law
---
1. Nothing that was closed answers, and nothing else is closed with it.
2. A pickled object is the same object of the same file, or an error that says what changed.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables


@pytest.fixture
def path(h5: Path) -> Path:
    with h5py.File(h5.with_name("other.h5"), "w") as other:
        other["g/x"] = np.arange(4)
    with h5py.File(h5, "w") as file:
        for number in range(30):
            file.create_dataset(f"g{number % 3}/x{number}", data=np.arange(number))
            file[f"g{number % 3}/x{number}"].attrs["number"] = number
        file["type"] = np.dtype("<i4")
        file["external"] = h5py.ExternalLink("other.h5", "/g")
        file.attrs["reference"] = file["g1/x1"].ref
        file.attrs["text"] = ["a", "b"]
    return h5


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "item": lambda file: file["g1"], "get": lambda file: file.get("g1", getlink=True),
    "names": list, "length": len, "attributes": lambda file: file.attrs, "values": lambda file:
    list(file.values()), "visit": lambda file: file.visit(print), "walk": lambda file:
    list(file.walk("*")), "links": lambda file: file.visit_links(print), "filename": lambda file:
    file.filename, "user block": lambda file: file.userblock_size, "parent": lambda file:
    file.parent, "file": lambda file: file.file, "reversed": lambda file: list(reversed(file)),
    "reference": lambda file: file[multitables.Reference(96)],
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("used", [False, True], ids=["at once", "after use"])
def test_a_closed_file(path: Path, name: str, used: bool) -> None:
    file = multitables.open(path)
    if used:
        QUESTIONS[name](file)
    file.close()
    with pytest.raises(multitables.ClosedError, match="is closed") as caught:
        QUESTIONS[name](file)
    assert isinstance(caught.value, ValueError)  # as h5py raises


def test_what_is_left_of_a_closed_file(path: Path) -> None:
    with multitables.open(path) as file:
        objects = [file["g1"], file["type"], file["external"], file["g1/x1"], file["external"].file]
        attributes = file["g1/x1"].attrs
        assert all(objects)
        assert attributes["number"] == 1
    assert not any(objects)
    assert not file
    shown = ["<Closed HDF5 group>", "<Closed HDF5 named type>", "<Closed HDF5 group>"]
    assert [repr(one) for one in objects[:3]] == shown
    assert repr(file) == "<Closed HDF5 file>"
    assert objects[0] == objects[0]
    assert len({*objects, *objects}) == 5
    assert "g1" not in file  # as h5py says
    for ask in (lambda: objects[0]["x1"], lambda: objects[1].dtype, lambda: objects[2]["x"]):
        with pytest.raises(ValueError, match="is closed"):
            ask()
    file.close()


def test_closing_ends_one_handle(path: Path) -> None:
    one, other = multitables.open(path), multitables.open(path)
    assert one == other
    group = other["g1"]
    one.close()
    assert list(group) == sorted(group)
    assert group["x1"].attrs["number"] == 1
    other.close()


def test_closing_gives_the_descriptors_back(path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with multitables.open(path) as file:
        kept = [file["g1/x1"], file["external/x"], file.attrs]
        assert set(os.listdir("/proc/self/fd")) != before
    assert set(os.listdir("/proc/self/fd")) == before
    with h5py.File(path, "r+") as writable:  # no lock is left either
        writable["new"] = 1
    assert kept


def test_handles_share_what_reads(path: Path) -> None:
    files = [
        multitables.open(path),
        multitables.open(str(path)),
        multitables.open(path, n_threads=1),
    ]
    shared = [file._handle.shared for file in files]
    assert shared[0] is shared[1]
    assert shared[0].reader is shared[1].reader
    assert shared[0] is not shared[2]
    path.with_name("copy.h5").write_bytes(path.read_bytes())
    os.replace(path.with_name("copy.h5"), path)  # another file of this name
    files.append(multitables.open(path))
    assert files[3]._handle.shared is not shared[0]
    assert files[3] != files[0]
    for file in files:
        file.close()


def test_pickles(path: Path) -> None:
    with multitables.open(path) as file:
        found = [
            file,
            file["g1"],
            file["type"],
            file["external"],
            file["g1/x1"],
            file["external/x"],
        ]
        again = pickle.loads(pickle.dumps([*found, file[file.attrs["reference"]]]))
        assert again[:6] == found
        assert [one.name for one in again] == [*(one.name for one in found), "/g1/x1"]
        assert [type(one) for one in again[:6]] == [type(one) for one in found]
        assert again[1].file == again[0]
        again[0].close()
        assert not again[1]
        assert file["g1"]
        assert os.path.basename(again[3].file.filename) == "other.h5"
        again[3].file.close()
        again[5].file.close()
        assert again[0].attrs is not None if again[0] else True
    value = pickle.loads(pickle.dumps(multitables.Empty("f4")))
    assert value == multitables.Empty("f4")
    for link in (multitables.SoftLink("/a"), multitables.ExternalLink("f", "/a")):
        assert copy.deepcopy(link) == pickle.loads(pickle.dumps(link)) == link


def test_a_pickle_of_a_file_that_changed(path: Path) -> None:
    with multitables.open(path) as file:
        stored = [pickle.dumps(one) for one in (file, file["g1"])]
    with h5py.File(path, "r+") as writable:
        writable["new"] = np.arange(1000)
    for one in stored:
        with pytest.raises(multitables.FileChangedError, match="when it was pickled"):
            pickle.loads(one)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(stored[0])


def test_a_pickle_of_what_is_closed(path: Path) -> None:
    """It says where the object is, so that it opens anew where it is loaded."""
    with multitables.open(path) as file:
        group = file["g1"]
    again = pickle.loads(pickle.dumps(group))
    assert "x1" in again
    again.file.close()


def works(file: Any, path: Path) -> bool:
    """Whether all of a file can be asked of a handle, and of one that is opened now."""
    names: list[str] = []
    file.visit(names.append)
    with multitables.open(path) as other:
        ok = len(names) == 34 and other["g2"] == file["g2"]
    ok = ok and file["g1/x1"].attrs["number"] == 1
    file.close()
    return ok and not file


def forked(question: Callable[[], bool]) -> bool:
    """Ask in a forked child."""
    child = os.fork()
    if child == 0:  # no test may go on here
        code = 1
        try:
            signal.alarm(30)
            code = 0 if question() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_after_a_fork(path: Path) -> None:
    with multitables.open(path) as file:
        group = file["g1"]
        assert forked(lambda: "x1" in group and works(file, path))
        assert list(group)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that it has threads
def test_forks_while_threads_read(path: Path) -> None:
    """Which may hold locks of the core at that moment."""
    ends = threading.Event()

    def read(file: Any) -> None:
        while not ends.is_set():
            file.visititems(lambda name, one: dict(one.attrs).get("nothing"))

    with multitables.open(path) as file:
        threads = [threading.Thread(target=read, args=(file,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            assert all(forked(lambda: works(file, path)) for _ in range(20))
        finally:
            ends.set()
            for thread in threads:
                thread.join()


def test_threads(path: Path) -> None:
    """Listing, visiting and reading attributes at once, while others open and close."""
    failures: list[BaseException] = []

    def read(file: Any) -> None:
        try:
            for _ in range(10):
                found = [one.attrs.get("number") for one in file.walk("**")]
                assert sorted(n for n in found if n is not None) == list(range(30))
                assert file["external/x"].shape == (4,)
                with multitables.open(path) as other:
                    assert other["g1"] == file["g1"]
        except BaseException as error:
            failures.append(error)

    with multitables.open(path) as file:
        threads = [threading.Thread(target=read, args=(file,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_closing_while_others_read(path: Path) -> None:
    """They get answers or `ClosedError`."""
    outcomes: list[Any] = []

    def read(file: Any, started: threading.Event) -> None:
        try:
            while True:
                file.visititems(lambda name, one: dict(one.attrs).get("nothing"))
                started.set()
        except BaseException as error:
            outcomes.append(error)

    for _ in range(5):
        file, started = multitables.open(path), threading.Event()
        thread = threading.Thread(target=read, args=(file, started))
        thread.start()
        started.wait()
        file.close()
        thread.join()
    assert {type(one) for one in outcomes} == {multitables.ClosedError}
    gc.collect()


def shown(found: Any) -> Any:
    """What is compared of an object."""
    return found.tolist() if isinstance(found, np.ndarray) else getattr(found, "name", found)


#: What may be taken from a file, and how it is used when nothing else of the file is kept.
TAKEN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "attribute": (lambda file: file.attrs, lambda attrs: attrs["text"]),
    "attributes": (lambda file: file.attrs, lambda attrs: [*attrs, len(attrs), "text" in attrs]),
    "items of attributes": (lambda file: file["g1/x1"].attrs.items(), list),
    "values of attributes": (lambda file: file["g1/x1"].attrs.values(), list),
    "names of attributes": (lambda file: iter(file.attrs), list),
    "dataset": (lambda file: file["g1/x4"], lambda dataset: dataset[:]),
    "type of a dataset": (lambda file: file["g1/x4"], lambda dataset: dataset.dtype.str),
    "rows": (lambda file: iter(file["g1/x4"]), list),
    "view": (lambda file: file["g1/x4"].astype("f8"), lambda view: view[1:]),
    "axes": (lambda file: file["g1/x4"].dims, lambda dims: [one.label for one in dims]),
    "axis": (lambda file: file["g1/x4"].dims[0], lambda axis: list(axis.keys())),
    "chunks": (lambda file: file["g0/chunked"].iter_chunks(), list),
    "group": (lambda file: file["g1"], list),
    "group in a group": (lambda file: file["g1"]["/g2"], lambda group: group["x2"][()]),
    "names": (lambda file: file["g1"].keys(), list),
    "values": (lambda file: file["g1"].values(), lambda values: [one.name for one in values]),
    "items": (lambda file: file["g1"].items(), lambda items: [one.name for _, one in items]),
    "iterator of values": (lambda file: iter(file["g1"].values()), lambda one: next(one).name),
    "named type": (lambda file: file["type"], lambda kind: kind.dtype.str),
    "file of an object": (lambda file: file["g1/x1"].file, list),
    "parent": (lambda file: file["g1/x1"].parent, list),
    "other file": (lambda file: file["external"], lambda group: group["x"][()]),
    "attributes of another file": (lambda file: file["external"].attrs, list),
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("opened", [multitables.open, h5py.File], ids=["ours", "h5py"])
def test_what_was_taken_keeps_its_file_open(path: Path, name: str, opened: Any) -> None:
    """Nothing else refers to the file, which is closed with the last of what was taken."""
    with h5py.File(path, "r+") as file:
        file.create_dataset("g0/chunked", data=np.arange(10), chunks=(3,))
    take, use = TAKEN[name]
    with h5py.File(path) as kept:
        want = use(take(kept))
    gc.collect()
    gc.disable()
    try:
        before = set(os.listdir("/proc/self/fd"))
        taken = take(opened(path))
        got = use(taken)
        assert repr(shown(got)) == repr(shown(want))
        del taken, got
        if opened is h5py.File:  # whose objects are in circles
            gc.collect()
        assert set(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def test_attributes_are_those_of_one_handle(path: Path) -> None:
    with multitables.open(path) as other, multitables.open(path) as file:
        attributes = file["g1/x1"].attrs
        assert attributes["number"] == 1
        file.close()
        with pytest.raises(multitables.ClosedError):
            attributes["number"]
        assert repr(attributes) == "<Attributes of closed HDF5 object>"
        assert other["g1/x1"].attrs["number"] == 1
