"""How far a file may reach: links, virtual sources, raw files and references to other files.

Law
---
1. h5py is the oracle of ``links="anywhere"``. Less is the same data, or the named error.
2. What is out of reach is a file whose elements are 9, so that a read of it cannot be missed.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import LinkRefusedError, MissingDatasetError, MissingFileError, OptionsError

INSIDE, OUTSIDE = np.full(4, 3, "i4"), np.full(4, 9, "i4")
#: What leads to another file: makes "/x" of a file of this name, in `path`, or references to it.
KINDS: dict[str, Callable[[Path, str], Path]] = {}
#: Where the other file is -> its name, as it counts from the folder of the first one; whether it
#: is in this folder. The raw files of HDF5 count from the working directory.
PLACES = {
    "beside": ("near.{}", True),
    "below": ("sub/near.{}", True),
    "up and back": ("sub/../near.{}", True),
    "absolute": ("{folder}/near.{}", True),
    "above": ("../far.{}", False),
    "elsewhere": ("{folder}/../far.{}", False),
    "by a link of the folder": ("leaves/far.{}", False),
    "by a link of the file": ("leaves.{}", False),
    "round about": ("leaves/home/near.{}", True),
}


def kind(make: Callable[[Path, str], Path]) -> Callable[[Path, str], Path]:
    KINDS[make.__name__] = make
    return make


@kind
def link(folder: Path, name: str) -> Path:
    path = folder / "first.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink(name.format("h5"), "/x")
    return path


@kind
def virtual(folder: Path, name: str) -> Path:
    path = folder / "first.h5"
    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource(name.format("h5"), "x", (4,))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-1)
    return path


@kind
def raw(folder: Path, name: str) -> Path:
    path = folder / "first.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (4,), "i4", external=[(name.format("raw"), 0, 16)])
    return path


@kind
def references(folder: Path, name: str) -> Path:
    path = folder / "first.json"
    zarray = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "compressor": None}
    zarray |= {"filters": None, "fill_value": 0, "order": "C"}
    refs = {"x/.zarray": json.dumps(zarray), "x/0": [f"{{{{u}}}}{name.format('raw')}", 0, 16]}
    path.write_text(json.dumps({"version": 1, "templates": {"u": ""}, "refs": refs}))
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files in it, below it and, out of it, others; it is the working directory."""
    folder = tmp_path / "home"
    (folder / "sub").mkdir(parents=True)
    for path, data in (("near", INSIDE), ("sub/near", INSIDE), ("../far", OUTSIDE)):
        with h5py.File(folder / f"{path}.h5", "w") as file:
            file["x"] = data
        data.tofile(folder / f"{path}.raw")
    (folder / "leaves").symlink_to(tmp_path)
    for suffix in ("h5", "raw"):
        (folder / f"leaves.{suffix}").symlink_to(tmp_path / f"far.{suffix}")
    monkeypatch.chdir(folder)
    return folder


def by_handle(path: Path, **options: Any) -> Any:
    return multitables.read(path, "x", **options)


def by_stream(path: Path, **options: Any) -> Any:
    with multitables.Streamer(path, **options).get_queue("x", n_procs=1, remainder=True) as blocks:
        return np.concatenate([guard.__enter__().copy() for guard in blocks])


def by_request(path: Path, **options: Any) -> Any:
    with multitables.Reader(path, n_procs=1, **options) as reader:
        return reader.request(reader.get_dataset("x")[:]).get()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_file_in_reach_is_read_and_no_other(
    make: Callable[[Path, str], Path], place: str, folder: Path
) -> None:
    name, is_inside = PLACES[place]
    path = make(folder, name.replace("{folder}", str(folder)))
    data = INSIDE if is_inside else OUTSIDE
    np.testing.assert_array_equal(by_handle(path), data)
    for options in ({"links": "folder"}, {"trusted": False}):
        if is_inside:
            np.testing.assert_array_equal(by_handle(path, **options), data)
            continue
        with pytest.raises(LinkRefusedError, match=r"not opened: it is not in the folder"):
            by_handle(path, **options)
    with pytest.raises(LinkRefusedError, match="links='none'"):
        by_handle(path, links="none")


@pytest.mark.parametrize("read", [by_stream, by_request])
def test_each_way_of_reading(read: Callable[..., Any], folder: Path) -> None:
    for make in KINDS.values():
        path = make(folder, "../far.{}")
        np.testing.assert_array_equal(read(path, trusted=False, links="anywhere"), OUTSIDE)
        for options in ({"trusted": False}, {"links": "folder"}, {"links": "none"}):
            with pytest.raises(LinkRefusedError):
                read(path, **options)


@pytest.mark.parametrize("links", ["anywhere", "folder"])
def test_what_is_missing_stays_missing(links: str, folder: Path) -> None:
    with multitables.open(virtual(folder, "none.{}"), links=links) as file:
        assert file["x"][:].tolist() == [-1] * 4
    path = link(folder, "../none.{}")
    with pytest.raises(MissingDatasetError, match="leads nowhere"):
        multitables.read(path, "x", links=links)
    with pytest.raises(MissingFileError):
        multitables.open(references(folder, "../none.{}"), links=links)


@pytest.mark.parametrize("make", [link, virtual, raw], ids=["link", "virtual", "raw"])
@pytest.mark.parametrize("links", ["anywhere", None])
def test_no_name_in_a_file_is_a_url(
    make: Callable[[Path, str], Path], links: str | None, folder: Path
) -> None:
    """To HDF5 it is the name of a file, which may even be there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.{{}}"
        path = make(folder, url)
        with multitables.open(path, links=links, storage_options={"max_retries": 0}) as file:
            if make is virtual:
                assert file["x"][:].tolist() == [-1] * 4
            else:
                with pytest.raises((MissingDatasetError, multitables.SubprocessException, OSError)):
                    file["x"][:]
        with pytest.raises(BlockingIOError):
            server.accept()
    there = folder / url.format("h5" if make is not raw else "raw").replace("//", "/")
    there.parent.mkdir(parents=True)
    os.link(folder / f"near{there.suffix}", there)
    with multitables.open(path, links=links) as file:
        np.testing.assert_array_equal(file["x"][:], INSIDE)


@pytest.mark.parametrize("url", ["file://{folder}/../far.raw", "local://{folder}/../far.raw"])
def test_references_by_url(url: str, folder: Path) -> None:
    path = references(folder, url.replace("{folder}", str(folder)))
    with pytest.raises(LinkRefusedError, match=r"far\.raw"):
        multitables.open(path, trusted=False)
    with multitables.open(path) as file:
        np.testing.assert_array_equal(file["x"][:], OUTSIDE)


def test_references_that_are_not_trusted_ask_no_store(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a"
        with pytest.raises(LinkRefusedError):
            multitables.open(references(folder, url), trusted=False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "url",
    [
        "data:;base64,AAAA",
        "data:text/plain,abcd",
        "ftp://host/x",
        "near\0",
        "near\ud800",
        "file:///near%00",
        "file://[near/x",
        "http://a\\@b/x",
    ],
)
def test_references_to_what_is_no_file(url: str, folder: Path) -> None:
    for links in ("anywhere", "folder"):
        with pytest.raises(multitables.FileOpenError, match="no object of a known store"):
            multitables.open(references(folder, url), links=links)


def test_bytes_in_references_are_in_reach(folder: Path) -> None:
    path = references(folder, "near.{}")
    whole = json.loads(path.read_text())
    whole["refs"]["x/0"] = "base64:AwAAAAMAAAADAAAAAwAAAA=="
    path.write_text(json.dumps(whole))
    with multitables.open(path, links="none") as file:
        np.testing.assert_array_equal(file["x"][:], INSIDE)


def test_a_name_that_is_moved_while_it_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged again when the file is open."""
    from _multitables.index.files.reach import Reach

    path, moved = link(folder, "moved.{}"), folder / "moved.h5"
    os.link(folder / "near.h5", moved)
    check = Reach.check

    def then_move(reach: Reach, name: str) -> None:
        check(reach, name)
        moved.unlink()
        moved.symlink_to(folder / "../far.h5")

    monkeypatch.setattr(Reach, "check", then_move)
    with pytest.raises(LinkRefusedError, match=r"moved\.h5"):
        by_handle(path, trusted=False)


def test_a_file_that_is_opened_by_a_symbolic_link(folder: Path, tmp_path: Path) -> None:
    """Both are its folders: the one of the link, and the one of the file."""
    path = link(folder, "near.{}")
    named = tmp_path / "named.h5"
    named.symlink_to(path)
    with multitables.open(named, links="folder") as file:
        np.testing.assert_array_equal(file["x"][:], INSIDE)


def test_what_only_a_library_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows any link, so it is not asked where some are ruled out."""
    from _multitables.index.files.open_options import OpenOptions

    path, reason = str(folder / "near.h5"), "of a kind that is not known"
    OpenOptions(links="anywhere").check_library(path, "/x", reason)
    with pytest.raises(multitables.UnsupportedDatasetError, match="follows links to any file"):
        OpenOptions(links="folder").check_library(path, "/x", reason)
    with pytest.raises(multitables.UnsupportedDatasetError, match="trusted=False"):
        OpenOptions(links="anywhere", trusted=False).check_library(path, "/x", reason)


def test_a_wrong_value(folder: Path) -> None:
    path = str(folder / "near.h5")
    for make in (multitables.open, multitables.Streamer, multitables.Reader):
        with pytest.raises(OptionsError, match="links is unknown"):
            make(path, links="far")
    with pytest.raises(OptionsError, match="links is unknown"):
        multitables.read(path, "x", links=True)  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="links is unknown"):
        multitables.versions(path, links="far")
