"""Paths that are there and lead to nothing: a missing dataset, or damage, and which file has it.

1. What a link names and is not there is a `MissingDatasetError` that says what it names.
2. An object whose header is damaged is there: a `FileOpenError`, through whatever links.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from test_bad_input import ENTRIES, refused

import multitables


@pytest.fixture(params=list(ENTRIES))
def entry(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return ENTRIES[request.param]


@pytest.fixture
def linked(h5: Path) -> Path:
    other = h5.with_name("other.h5")
    with h5py.File(other, "w") as file:
        file["y"] = np.arange(5)
    with h5py.File(h5, "w") as file:
        file["group/x"] = np.arange(5)
        file["soft"] = h5py.SoftLink("/group/x")
        file["group/relative"] = h5py.SoftLink("x")
        file["twice"] = h5py.SoftLink("/soft")
        file["dangling"] = h5py.SoftLink("/no/where")
        file["far"] = h5py.SoftLink("/dangling")
        file["round"] = h5py.SoftLink("/round")
        file["outside"] = h5py.ExternalLink("other.h5", "/y")
        file["lost_file"] = h5py.ExternalLink("lost.h5", "/y")
        file["lost_object"] = h5py.ExternalLink("other.h5", "/z")
    return h5


def test_links_to_nothing(linked: Path, entry: Callable[..., Any]) -> None:
    missing = multitables.MissingDatasetError
    refused(missing, entry, linked, "/dangling", "'/dangling'", "'/no/where'")
    refused(missing, entry, linked, "/far", "'/far'", "'/no/where'")
    refused(missing, entry, linked, "/round", "'/round'")
    refused(missing, entry, linked, "/lost_file", "'/lost_file'", "'/y' in 'lost.h5'")
    refused(missing, entry, linked, "/lost_object", "'/z' in", "other.h5'")
    refused(missing, entry, linked, "/dangling/x", "'/dangling/x'", "'/no/where'")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_damaged_object_header(linked: Path, entry: Callable[..., Any], libver: str) -> None:
    with h5py.File(linked, "a", libver=libver) as file:
        del file["group/x"]
        file["group/x"] = np.arange(5)
    _damage(linked, "/group/x")
    for name in ("/group/x", "/soft", "/group/relative", "/twice"):
        refused(multitables.FileOpenError, entry, linked, name, "damaged")


def test_a_damaged_object_header_of_another_file(linked: Path, entry: Callable[..., Any]) -> None:
    _damage(linked.with_name("other.h5"), "/y")
    with pytest.raises(multitables.FileOpenError, match=r"other\.h5' is damaged: for '/y'"):
        entry(multitables.Streamer(linked), "/outside")
    os.truncate(linked.with_name("other.h5"), 900)
    with pytest.raises(multitables.FileOpenError, match=r"other\.h5' is truncated"):
        entry(multitables.Streamer(linked), "/outside")


def test_a_damaged_group_on_the_way(linked: Path, entry: Callable[..., Any]) -> None:
    _damage(linked, "/group")
    refused(multitables.FileOpenError, entry, linked, "/group/x", "'/group/x'", "damaged")


def _damage(path: Path, name: str) -> None:
    """Give an object's header a version that there is not."""
    with h5py.File(path) as file:
        at = h5py.h5o.get_info(file[name].id).addr
    data = bytearray(path.read_bytes())
    at += 4 if data[at : at + 4] == b"OHDR" else 0
    data[at] ^= 0x5A
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["parts-m.h5", "renamed.h5"])
def test_one_part_of_a_split_file(tmp_path: Path, entry: Callable[..., Any], name: str) -> None:
    with h5py.File(tmp_path / "parts", "w", driver="split") as file:
        file["x"] = np.arange(5)
    os.rename(tmp_path / "parts-m.h5", tmp_path / name)
    error = refused(
        multitables.FileOpenError, entry, tmp_path / name, "/x",
        "split, multi or subfiling driver", "DRIVER='H5FD_SPLIT'", "h5repack",
    )  # fmt: skip
    assert "damaged" not in str(error)
