"""Structures that libhdf5 writes, and h5py has no call for: right data, or an error that says why.

1. Calls of libhdf5 2.0 wrote the small files ``tests/support/*.h5.xz``: `H5Pset_mdc_image_config`
   (h5py itself fails with images of extensible arrays), `H5Pset_deflate` for a group with 20 links,
   and `H5Rcreate_object` and others for references. What h5py reads of them counts.
2. Other files are h5py's, with a few bytes of others.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import handle_oracle
import numpy as np
import pytest
from oracle import h5py_read, same, streamed

import multitables
from multitables import Streamer

STORED = Path(__file__).parents[1] / "support"
UNKNOWN = multitables.UnsupportedDatasetError


@pytest.fixture
def stored(h5: Path) -> Callable[[str], Path]:
    def written(name: str) -> Path:
        h5.write_bytes(lzma.decompress((STORED / f"{name}.h5.xz").read_bytes()))
        return h5

    return written


# ---- a metadata cache image


def test_a_cache_image(stored: Callable[[str], Path]) -> None:
    image = stored("cache_image")
    handle_oracle.check(image)
    for name in ("/g/contiguous", "/fixed array", "/btree 2"):
        got, told = streamed(image, name, n_procs=1)
        same(got, h5py_read(image, name))
        assert told["library"] == {}


def test_a_damaged_cache_image(stored: Callable[[str], Path]) -> None:
    image = stored("cache_image")
    data = bytearray(image.read_bytes())
    data[data.index(b"MDCI") + 100] ^= 1
    image.write_bytes(data)
    with pytest.raises(multitables.CorruptFileError, match="the checksum"):
        multitables.open(image)


# ---- links in a heap with filters


def test_compressed_links(stored: Callable[[str], Path]) -> None:
    """A library finds the way to a dataset; of all else there is an error that says why."""
    path = stored("filtered_links")
    same(np.array(list(Streamer(path).get_generator("/g/x7", 1))), np.arange(7))
    same(multitables.read(path, "/g/x7"), np.arange(7))
    with multitables.open(path) as file:
        same(file["g/x7"][...], np.arange(7))
        same(file["y"][...], np.arange(3))
        group: Any = file["g"]
        for ask in (
            lambda: list(group), lambda: "x7" in group, group.values,
            lambda: group.get("x7", getlink=True), lambda: file.visit(lambda _: None),
            lambda: dict(file["g/x7"].attrs), lambda: list(file.walk("g/*")),
            lambda: Streamer(path).get_collection("/g/*"),
        ):  # fmt: skip
            with pytest.raises(UNKNOWN, match="does not know"):
                list(ask())
        with pytest.raises(multitables.MissingDatasetError):
            file["g/x"][...]


# ---- links of types that programs define


@pytest.fixture
def defined(h5: Path) -> Path:
    with h5py.File(h5, "w", libver="earliest") as file:
        file["x"] = np.arange(5)
        file["own"] = h5py.ExternalLink("other.h5", "/path")
        file["soft"] = h5py.SoftLink("/own")
    data = bytearray(h5.read_bytes())
    at = data.index(b"own") - 2  # behind them the length of the name
    assert data[at] == 64
    data[at] = 200
    h5.write_bytes(data)
    return h5


def test_links_of_a_program(defined: Path) -> None:
    with multitables.open(defined) as file, h5py.File(defined) as theirs:
        assert list(file) == list(theirs)
        assert ("own" in file, file.get("own")) == ("own" in theirs, theirs.get("own"))
        assert file.get("own", getlink=True) == multitables.UserLink(200)
        assert file.get("own", getlink=True, getclass=True) is multitables.UserLink
        links: dict[str, Any] = {}
        file.visititems_links(links.__setitem__)
        assert repr(links["own"]) == "<UserLink of type 200>"
        assert [found.name for found in file.walk("*")] == ["/x"]
        for name in ("own", "own/below", "soft"):
            for ask in (
                lambda name=name: file[name],
                lambda name=name: multitables.read(defined, name),
                lambda name=name: Streamer(defined).get_queue(name),
            ):
                with pytest.raises(multitables.MissingDatasetError, match="a link of type 200"):
                    ask()


# ---- superblocks, and what belongs to them


@pytest.mark.parametrize("version", [0, 1])
def test_a_list_of_free_space_that_is_cut_short(h5: Path, version: int) -> None:
    """Its message says that free space is kept, and does not say where."""
    with h5py.File(h5, "w", libver="earliest", fs_strategy="fsm", fs_threshold=2) as file:
        file["x"] = np.arange(5)
    data = bytearray(h5.read_bytes())
    at = data.index(bytes.fromhex("1700200014000000 01000002")) + 8
    data[at : at + 3] = bytes([1, 0, 1] if version else [0, 1, 2])
    h5.write_bytes(data)
    with pytest.raises(OSError, match="ran off end of input buffer"):
        h5py.File(h5)
    with pytest.raises(multitables.CorruptFileError, match="more bytes"):
        multitables.open(h5)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(("had", "has"), [(512, 0), (1024, 512), (512, 1024), (0, 512)])
def test_user_blocks_that_others_change(h5: Path, libver: str, had: int, has: int) -> None:
    with h5py.File(h5, "w", libver=libver, userblock_size=had) as file:
        file["x"] = np.arange(500)
        file.create_dataset("y", data=np.arange(500), chunks=(70,), compression="gzip")
        file["text"] = ["a", "bb"]
    h5.write_bytes(b"#" * has + h5.read_bytes()[had:])
    handle_oracle.check(h5)
    same(streamed(h5, "/y", n_procs=1)[0], np.arange(500))
    with multitables.open(h5) as ours:
        assert ours.userblock_size == has
    os.truncate(h5, h5.stat().st_size - 1)
    with pytest.raises(OSError, match="truncated"), h5py.File(h5):
        pass
    with pytest.raises(multitables.FileOpenError, match="truncated"):
        multitables.open(h5)


# ---- references in the format of HDF5 1.12


def test_new_references(stored: Callable[[str], Path]) -> None:
    path = stored("new_references")
    with multitables.open(path) as ours, h5py.File(path) as theirs:
        for mine, other in zip(ours["x"].dims, theirs["x"].dims, strict=True):
            assert mine.keys() == other.keys()
            assert [one.name for one in mine.values()] == [one.name for one in other.values()]
            assert (mine.label, len(mine)) == (other.label, len(other))
        names = [ours[one].name for one in ours["refs"][...]]
        assert names == ["/scales/a", "/scales/b", "/x"]
        two = ours["x"].attrs["two"][0]
        assert [ours[one] for one in two] == [ours["scales/a"], ours["scales/b"]]
        with pytest.raises(multitables.UnsupportedDatasetError, match="something else than an"):
            ours["others"][...]
    with Streamer(path).get_collection("x*", scales=True) as items:
        (item,) = items
        found = [{name: list(scale) for name, scale in axis.items()} for axis in item.scales["x"]]
        assert found == [{"aaa": [0, 1, 2]}, {"bbb": [0, 1, 2, 3]}]
