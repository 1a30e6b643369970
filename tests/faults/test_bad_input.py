"""Bad input: each a clear error in the parent, at the call, with nothing left running.

1. Every item of the list is tried through each entry point that can meet it.
2. A message names the file and the path, what was expected and what was there, and what to do.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from elements import smooth, values
from processes import children, environment

import multitables

ENTRIES: dict[str, Callable[..., Any]] = {
    "queue": lambda s, path, **o: s.get_queue(path, **{"n_procs": 2, **o}),
    "generator": lambda s, path, **o: s.get_generator(path, **{"n_procs": 2, **o}),
    "remainder": lambda s, path, **o: s.get_remainder(path, **{"block_size": 7, **o}),
    "list": lambda s, path, **o: s.get_queue([path], **{"n_procs": 2, **o}),
    "reader": lambda s, path, **o: _dataset(s.filename, path, **o),
}


def _dataset(filename: Any, path: str, **options: Any) -> None:
    with multitables.Reader(filename, n_procs=1, **options) as reader:
        reader.get_dataset(path)


@pytest.fixture(params=list(ENTRIES))
def entry(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return ENTRIES[request.param]


def refused(
    kind: type[BaseException],
    entry: Callable[..., Any],
    filename: Any,
    path: str,
    *parts: str,
    **options: Any,
) -> Any:
    """The call raises `kind`; its message holds `parts`, the file's name and an advice."""
    streamer = multitables.Streamer(filename)
    with pytest.raises(kind) as caught:
        entry(streamer, path, **options)
    error = caught.value
    assert isinstance(error, multitables.MultitablesError)
    text = str(error)
    for part in (*parts, os.path.basename(os.fsdecode(filename))):
        assert part in text
    assert text.endswith((".", "?"))
    assert error.happened
    assert error.happened[:40] in text
    assert error.advice
    assert children() == {}
    return error


@pytest.fixture
def plain(h5: Path) -> Path:
    """A good file with a few things that are no streams."""
    compound = np.dtype([("name", "S3"), ("time", "<f8"), ("size", "<i4")])
    with h5py.File(h5, "w") as file:
        file.create_dataset("group/images", data=smooth((30, 4)), chunks=(7, 4))
        file.create_dataset("group/labels", data=np.arange(30))
        file.create_dataset("table", data=values(compound, (30,)))
        file["scalar"] = 5.0
        file.create_dataset("ragged", (), h5py.vlen_dtype("<i4"))
        file["null"] = h5py.Empty("<f4")
        file["kind"] = np.dtype("<i4")
    return h5


def test_no_such_file(tmp_path: Path, entry: Callable[..., Any]) -> None:
    error = refused(multitables.MissingFileError, entry, tmp_path / "none.h5", "/x", "no such file")
    assert isinstance(error, FileNotFoundError)
    assert error.filename == str(tmp_path / "none.h5")
    refused(FileNotFoundError, entry, tmp_path / "no" / "none.h5", "/x", "no folder")


def test_a_folder(tmp_path: Path, entry: Callable[..., Any]) -> None:
    error = refused(multitables.FileOpenError, entry, tmp_path, "/x", "folder", "expected")
    assert isinstance(error, OSError)


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"just text, no HDF5\n" * 100, b"\x89HDF", b"\x89HDF\r\n\x1a\n", bytes(5000)],
    ids=["empty", "byte", "text", "half", "signature", "zeros"],
)
def test_not_an_hdf5_file(tmp_path: Path, entry: Callable[..., Any], content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    error = refused(multitables.FileOpenError, entry, path, "/x")
    assert isinstance(error, OSError)


def test_pipes_sockets_and_devices(tmp_path: Path, entry: Callable[..., Any]) -> None:
    """None of them may block the call."""
    os.mkfifo(tmp_path / "pipe")
    refused(multitables.FileOpenError, entry, tmp_path / "pipe", "/x")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
    refused(multitables.FileOpenError, entry, tmp_path / "socket", "/x")
    refused(multitables.FileOpenError, entry, "/dev/null", "/x")


def test_a_file_without_permission(plain: Path, entry: Callable[..., Any]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    plain.chmod(0)
    refused(multitables.FileOpenError, entry, plain, "/x", "EACCES")


@pytest.mark.parametrize("keep", [100, 800, 1500, 2500])
def test_a_truncated_file(plain: Path, entry: Callable[..., Any], keep: int) -> None:
    data = plain.read_bytes()
    assert len(data) > 2600
    plain.write_bytes(data[:keep])
    refused(multitables.FileOpenError, entry, plain, "/group/images", "truncated")


def test_no_such_path(plain: Path, entry: Callable[..., Any]) -> None:
    error = refused(
        multitables.MissingDatasetError, entry, plain, "/group/image",
        "'/group/image'", "'images'", "'labels'", "Did you mean '/group/images'?",
    )  # fmt: skip
    assert isinstance(error, KeyError)
    assert not str(error).startswith("'")  # KeyError would show a repr
    refused(KeyError, entry, plain, "/nothing/like/it", "'group'", "'table'")
    refused(KeyError, entry, plain, "/table/time", "'/table' is a dataset", "field=")


def test_a_group_instead_of_a_dataset(plain: Path, entry: Callable[..., Any]) -> None:
    error = refused(
        multitables.UnsupportedDatasetError, entry, plain, "/group",
        "'/group'", "a group", "'images'", "'labels'",
    )  # fmt: skip
    assert isinstance(error, ValueError)
    refused(multitables.UnsupportedDatasetError, entry, plain, "/", "a group", "'table'")
    refused(multitables.UnsupportedDatasetError, entry, plain, "", "a group", "'table'")
    refused(multitables.UnsupportedDatasetError, entry, plain, "/kind", "named type")


def test_a_scalar_dataset(plain: Path, entry: Callable[..., Any]) -> None:
    refused(multitables.UnsupportedDatasetError, entry, plain, "/scalar", "'/scalar'", "scalar")
    refused(multitables.UnsupportedDatasetError, entry, plain, "/ragged", "'/ragged'")


def test_a_null_dataspace(plain: Path, entry: Callable[..., Any]) -> None:
    refused(multitables.UnsupportedDatasetError, entry, plain, "/null", "'/null'", "null dataspace")


def test_no_such_field(plain: Path) -> None:
    for entry in (ENTRIES["queue"], ENTRIES["generator"], ENTRIES["remainder"]):
        error = refused(
            multitables.MissingFieldError, entry, plain, "/table",
            "'tme'", "'name'", "'time'", "'size'", "Did you mean 'time'", field="tme",
        )  # fmt: skip
        assert isinstance(error, KeyError)
        assert error.fields == ["name", "time", "size"]
        refused(KeyError, entry, plain, "/group/images", "no fields", field="x")
        refused(KeyError, entry, plain, "/table", "'deep'", field="time/deep")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"block_size": 0}, "expected at least 1, got 0"),
        ({"block_size": -3}, "expected at least 1, got -3"),
        ({"block_size": 2.5}, "got 2.5"),
        ({"block_size": "10"}, "got '10'"),
        ({"block_size": True}, "got True"),
        ({"n_procs": -1}, "expected at least 0, got -1"),
        ({"n_procs": 1.0}, "got 1.0"),
        ({"n_procs": 100_000}, "expected at most"),
        ({"read_ahead": 0}, "expected at least 1, got 0"),
        ({"read_ahead": -2}, "expected at least 1, got -2"),
        ({"read_ahead": "all"}, "got 'all'"),
    ],
    ids=str,
)
def test_options_that_cannot_work(plain: Path, options: dict[str, Any], part: str) -> None:
    (name,) = options
    for entry in ("queue", "generator", "remainder"):
        if entry == "remainder" and name != "block_size":
            continue
        with pytest.raises(multitables.OptionsError, match=name) as caught:
            ENTRIES[entry](multitables.Streamer(plain), "/group/images", **options)
        assert isinstance(caught.value, ValueError)
        assert part in str(caught.value)
        assert caught.value.option == name
        assert caught.value.got == options[name]
        assert caught.value.advice
        assert children() == {}


def test_options_are_checked_before_the_file_is_opened() -> None:
    with pytest.raises(multitables.OptionsError):
        multitables.Streamer("/no/such/file.h5").get_queue("/x", n_procs=-1)


@pytest.mark.parametrize("size", [10**12, 2**40, 2**62, 2**64, 10**30])
@pytest.mark.parametrize("cyclic", [False, True])
def test_blocks_larger_than_memory(plain: Path, size: int, cyclic: bool) -> None:
    entry = ENTRIES["queue"]
    error = refused_plainly(entry, plain, block_size=size, cyclic=cyclic, remainder=True)
    assert "memory" in error
    assert "block_size" in error


@pytest.mark.parametrize("size", [10**12, 2**62, 2**64])
def test_rings_larger_than_memory(plain: Path, size: int) -> None:
    error = refused_plainly(ENTRIES["queue"], plain, read_ahead=size, cyclic=True)
    assert "memory" in error
    assert "read_ahead" in error


def refused_plainly(entry: Callable[..., Any], path: Path, **options: Any) -> str:
    with pytest.raises(multitables.OptionsError) as caught:
        entry(multitables.Streamer(path), "/group/images", **options)
    assert isinstance(caught.value, ValueError)
    assert children() == {}
    return str(caught.value)


def test_a_file_open_for_writing_in_this_process(h5: Path, entry: Callable[..., Any]) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((30, 4))
        refused(multitables.FileOpenError, entry, h5, "/x", "open for writing", "Close")
    with tables.open_file(str(h5), "a"):
        refused(multitables.FileOpenError, entry, h5, "/x", "open for writing")


@pytest.mark.parametrize("writer", ["h5py", "tables"])
def test_a_file_open_for_writing_elsewhere(h5: Path, writer: str) -> None:
    opening = {
        "h5py": "import h5py, sys; file = h5py.File(sys.argv[1], 'a')",
        "tables": "import tables, sys; file = tables.open_file(sys.argv[1], 'a')",
    }[writer]
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((30, 4))
    source = f"{opening}\nprint('open', flush=True)\nsys.stdin.read()\nfile.close()"
    before = children()
    with subprocess.Popen(
        [sys.executable, "-c", source, str(h5)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "open\n"
        for entry in ENTRIES.values():
            with pytest.raises(multitables.FileOpenError, match="open for writing") as caught:
                entry(multitables.Streamer(h5), "/x")
            assert h5.name in str(caught.value)
            assert set(children()) - set(before) == {process.pid}
        process.stdin.close()
    with multitables.Streamer(h5).get_queue("/x", block_size=30, n_procs=1) as stream:
        with stream.get() as block:
            np.testing.assert_array_equal(block, smooth((30, 4)))
        del block


def test_datasets_of_unequal_length(plain: Path) -> None:
    for path in (["/group/images", "/short"], {"a": "/short", "b": "/table"}):
        with h5py.File(plain, "a") as file:
            if "short" not in file:
                file["short"] = np.arange(29)
        streamer = multitables.Streamer(plain)
        for call in (
            lambda: streamer.get_queue(path, n_procs=1),  # noqa: B023
            lambda: streamer.get_generator(path, n_procs=1),  # noqa: B023
            lambda: streamer.get_remainder(path, 7),  # noqa: B023
        ):
            with pytest.raises(multitables.UnsupportedDatasetError, match="29") as caught:
                call()
            assert "30" in str(caught.value)
            assert "'/short'" in str(caught.value)
            assert children() == {}


def test_one_bad_path_of_several(plain: Path) -> None:
    with pytest.raises(multitables.MissingDatasetError, match="/nothing"):
        multitables.Streamer(plain).get_queue(["/group/images", "/nothing"])
    assert children() == {}


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "a"},
        {"mode": "w"},
        {"driver": "H5FD_NOTHING"},
        {"DRIVER": "H5FD_CORE", "DRIVER_CORE_IMAGE": b"bytes"},
        {"root_uep": 5},
    ],
    ids=str,
)
def test_open_options_that_cannot_be_meant(plain: Path, options: dict[str, Any]) -> None:
    before = plain.read_bytes()
    with pytest.raises(multitables.OptionsError):
        multitables.Streamer(plain, **options).get_queue("/group/images")
    assert plain.read_bytes() == before
    assert children() == {}


def test_random_bytes_in_a_file_never_hang_or_crash(h5: Path) -> None:
    """Damaged anywhere in its structure: an error of ours, or data; no other exception."""
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((200, 5)), chunks=(30, 5), compression="gzip")
    good = h5.read_bytes()
    rng = np.random.default_rng(5)
    outcomes = {"error": 0, "data": 0}
    for _ in range(60):
        damaged = bytearray(good)
        at = int(rng.integers(len(good)))
        damaged[at : at + 8] = rng.bytes(8)
        h5.write_bytes(damaged[: len(good)])
        try:
            with multitables.Streamer(h5).get_queue("/x", n_procs=1, remainder=True) as stream:
                for guard in stream:
                    with guard:
                        pass
            outcomes["data"] += 1
        except multitables.MultitablesError:
            outcomes["error"] += 1
        assert children() == {}
    assert min(outcomes.values()) > 0
