"""Files whose names mean something else by now, or nothing: elsewhere, unlinked, without locks.

Law
---
1. A name keeps the meaning that it had when it was given. h5py is the oracle.
2. What was opened goes on without its name, as in h5py; what was not is missing.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from processes import run_script
from versioned import unpack_kept

import multitables
from multitables import Streamer

#: What only h5py, or only PyTables, reads; what has a global heap; chunks; a few bytes.
PATHS = ("/plain", "/chunked", "/ragged", "/by h5py")


def write(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file["plain"] = np.arange(1000)
        file.create_dataset("chunked", data=np.arange(1000), chunks=(100,), compression="gzip")
        ragged = file.create_dataset("ragged", (30,), h5py.vlen_dtype("<i4"))
        for row in range(30):
            ragged[row] = np.arange(row)
        member = np.zeros(100, [("n", "<i4"), ("odd", "<f4")])
        member["n"] = np.arange(100)
        file.create_dataset("by h5py", data=np.arange(100.0, dtype="f4"), scaleoffset=2)
        file.attrs["title"] = "run 7"
    with tables.open_file(path, "a") as file:
        table = file.create_table("/", "table", obj=member)
        table.flush()
    return path


def plain(block: Any) -> list[Any]:
    """Values that can be compared, of rows of one length or of several."""
    return [np.asarray(row).tolist() for row in block]


def opened(file: Any, path: str) -> list[Any]:
    return plain(file[path][:])


def requested(reader: Any, path: str) -> list[Any]:
    return plain(reader.request(reader.get_dataset(path)[:]).get())


def streamed(streamer: Any, path: str) -> list[Any]:
    return [row for block in streamer.get_batches(path, 64, n_procs=1) for row in plain(block)]


@pytest.fixture
def want(tmp_path: Path) -> dict[str, list[Any]]:
    with h5py.File(write(tmp_path / "data.h5")) as file:
        return {path: plain(file[path][:]) for path in PATHS}


# ---- the working directory ----------------------------------------------------------------


def fill(folder: Path) -> None:
    """A file that is reached through links, through references, and as one of several."""
    (folder / "sub").mkdir()
    for name, first in (("a.h5", 0), ("b.h5", 10), ("sub/other.h5", 20)):
        with h5py.File(folder / name, "w") as file:
            file["x"] = np.arange(first, first + 10)
    with h5py.File(folder / "links.h5", "w") as file:
        file["x"] = h5py.ExternalLink("sub/other.h5", "/x")
        layout = h5py.VirtualLayout((10,), "<i8")
        layout[:] = h5py.VirtualSource("sub/other.h5", "x", (10,))
        file.create_virtual_dataset("virtual", layout)
    text = (folder / "plain.json").write_text
    multitables.index_file(folder / "a.h5", folder / "plain.json", progress=False)
    text((folder / "plain.json").read_text().replace(str(folder / "a.h5"), "a.h5"))
    (folder / "sub" / "refs.json").write_text((folder / "plain.json").read_text())


NAMES: dict[str, tuple[Any, str, range]] = {
    "file": ("a.h5", "x", range(10)),
    "bytes": (b"a.h5", "x", range(10)),
    "path": (Path("a.h5"), "x", range(10)),
    "up and down": ("sub/../a.h5", "x", range(10)),
    "external link": ("links.h5", "x", range(20, 30)),
    "virtual": ("links.h5", "virtual", range(20, 30)),
    "references beside": ("plain.json", "x", range(10)),
    "references from here": ("sub/refs.json", "x", range(10)),
}
SEVERAL: dict[str, Any] = {
    "list": ["a.h5", Path("b.h5")],
    "pattern": "?.h5",
    "generator": (name for name in ("a.h5", b"b.h5")),
}


@pytest.mark.parametrize("case", NAMES)
def test_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "away").mkdir()
    fill(tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    name, path, rows = NAMES[case]
    streamer, file = Streamer(name), multitables.open(name)
    reader = multitables.Reader(name, n_procs=1)
    monkeypatch.chdir(tmp_path / "away")
    with streamer, file, reader:
        assert os.fsdecode(streamer.filename) == os.fsdecode(name) == os.fsdecode(reader.filename)
        for _ in range(2):
            assert streamed(streamer, path) == list(rows)
        assert opened(file, path) == list(rows)
        assert plain(block for block in file[path].batches(1, n_procs=1)) == [[n] for n in rows]
        assert requested(reader, path) == list(rows)


@pytest.mark.parametrize("case", SEVERAL)
def test_several_files_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    streamer = Streamer(SEVERAL[case])
    items = streamer.get_collection("/x", by="file", n_procs=1)
    monkeypatch.chdir("/")
    assert streamed(streamer, "/x") == list(range(20))
    assert sorted(item.key for item in items) == ["a.h5", "b.h5"]
    items.close()


def test_versions_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "versions.h5"
    unpack_kept(path)
    monkeypatch.chdir(tmp_path)
    found = multitables.versions(path.name)
    first, *_, last = found
    monkeypatch.chdir("/")
    assert found.diff("line", first, last) == multitables.versions(path).diff("line", first, last)


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    for call in (multitables.open, multitables.Reader, lambda name: Streamer(name).get_queue("/x")):
        with pytest.raises(multitables.MissingFileError, match=r"no such file: 'a\.h5'"):
            call("a.h5")
    monkeypatch.chdir("/")


# ---- files without a name -----------------------------------------------------------------


def names_of_handles(file: Any, path: str) -> list[Any]:
    return [row for block in file[path].batches(64, n_procs=1) for row in plain(block)]


UNLINKED: dict[str, tuple[Callable[..., Any], Callable[..., list[Any]]]] = {
    "open": (multitables.open, opened),
    "streams of open": (multitables.open, names_of_handles),
    "Reader": (lambda path: multitables.Reader(path, n_procs=1), requested),
    "Streamer": (Streamer, streamed),
}


@pytest.mark.parametrize("used", [False, True], ids=["at once", "after use"])
@pytest.mark.parametrize("entry", UNLINKED)
def test_a_file_that_was_unlinked(
    tmp_path: Path, want: dict[str, list[Any]], entry: str, used: bool
) -> None:
    path = tmp_path / "data.h5"
    start, read = UNLINKED[entry]
    with start(path) as source:
        if used or entry == "Streamer":  # which opens nothing before
            for name in PATHS[:1] if entry == "Streamer" and not used else PATHS:
                assert read(source, name) == want[name]
        path.unlink()
        for name in (*PATHS, *PATHS):
            assert read(source, name) == want[name]
        if entry == "Reader":
            table = source.get_dataset("/table")
            assert source.request(table.where("n > 97")).get()["n"].tolist() == [98, 99]
    for call in (multitables.open, multitables.Reader, lambda name: Streamer(name).get_queue("/x")):
        with pytest.raises(multitables.MissingFileError):
            call(path)


def test_a_streamer_that_keeps_nothing_keeps_its_file(
    tmp_path: Path, want: dict[str, list[Any]]
) -> None:
    path = tmp_path / "data.h5"
    streamer = Streamer(path)
    queue = streamer.get_queue("/plain", n_procs=1, block_size=10)
    path.unlink()
    rows: list[Any] = []
    for guard in queue:
        with guard as block:
            rows += plain(block)
    assert rows == want["/plain"]
    assert streamed(streamer, "/ragged") == want["/ragged"]


def test_files_of_a_list_that_were_unlinked(tmp_path: Path) -> None:
    """A reader opens most of them when their rows come."""
    paths = [tmp_path / f"{number}.h5" for number in range(60)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            file["x"] = np.full((2, 4096), number)
    delivered = []
    stream = Streamer(paths).get_queue("/x", n_procs=1, block_size=1, read_ahead=1)

    def take() -> None:
        for guard in stream:
            with guard as block:
                delivered.append(int(block.min()))
            for path in paths:
                path.unlink(missing_ok=True)

    with stream, pytest.raises(multitables.MissingFileError, match="was removed") as caught:
        take()
    assert delivered == [row // 2 for row in range(len(delivered))]
    # The reader is ahead of what was delivered by as many blocks as it reads at a time.
    assert caught.value.filename in map(str, paths[len(delivered) // 2 :])


def test_what_another_file_has_the_name_of(tmp_path: Path, want: dict[str, list[Any]]) -> None:
    """It is not taken for the first one; a Streamer opens it, as it opens its file each time."""
    path = tmp_path / "data.h5"
    streamer, file = Streamer(path), multitables.open(path)
    assert streamed(streamer, "/plain") == want["/plain"]
    path.unlink()
    with h5py.File(path, "w") as other:
        other["plain"] = [7]
    assert streamed(streamer, "/plain") == [7]
    with pytest.raises(multitables.FileChangedError):
        file["plain"][:]
    file.close()


# ---- file systems without locks -----------------------------------------------------------

SHIM = """
#include <errno.h>
int flock(int descriptor, int operation) {
    errno = descriptor < 0 || operation < 0 ? EBADF : ERRNO;
    return -1;
}
"""

READ = """
import multitables, fcntl
with open(NAME) as file:
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
    except OSError as error:
        print(error.errno)
with multitables.open(NAME) as file:
    print(file["plain"][:5].tolist(), file["by h5py"][:5].tolist())
with multitables.Reader(NAME, n_procs=1) as reader:
    print(reader.request(reader.get_dataset("/by h5py")[5:8]).get().tolist())
    print(reader.request(reader.get_dataset("/table").where("n > 97")).get()["n"].tolist())
print(sum(map(int, multitables.Streamer(NAME).get_generator("/by h5py", n_procs=1))))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("number", [37, 95, 524, 5, 77, 22], ids=errno.errorcode.get)
def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path, library = write(tmp_path / "data.h5"), tmp_path / "no_locks.so"
    (tmp_path / "shim.c").write_text(SHIM.replace("ERRNO", str(number)))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "shim.c"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    done = run_script(READ.replace("NAME", repr(str(path))))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        str(number), "[0, 1, 2, 3, 4] [0.0, 1.0, 2.0, 3.0, 4.0]", "[5.0, 6.0, 7.0]", "[98, 99]",
        "4950",
    ]  # fmt: skip
