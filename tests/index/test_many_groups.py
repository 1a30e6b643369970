"""Answers of the core about many groups in one call, against its answers about each.

Law
---
1. `find_from` returns for each group what `find` returns; `find` alone leaves the file.
2. Names and targets are those of `links`. Damage in one group is an error that names it.
3. A collection of hundreds of groups follows single paths only where links leave the file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from saved_files import saved

import multitables
from _multitables import _core
from _multitables.index.opened.open_files import OpenFiles, open_file

WRONG = (_core.Corrupt, _core.Unknown, OSError)
PATHS = [
    b"x",
    b"sub/x",
    b"soft/x",
    b"./sub",
    b"out/x",
    b"lost",
    b"x/y",
    b"/g1/sub/x",
    b"again",
    b"",
]
N_MOLECULES = 600  # several threads share them


def write(path: Path, libver: str) -> None:
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["there/x"] = np.arange(3.0)
    with h5py.File(path, "w", libver=libver) as file:
        for number in range(12):
            group = file.create_group(f"g{number}")
            group["sub/x"] = np.arange(number + 1)
            if number % 2:
                group["x"] = float(number)
            group["soft"] = h5py.SoftLink(f"/g{(number + 1) % 12}/sub")
            group["lost"] = h5py.SoftLink("/nothing")
            group["again"] = h5py.SoftLink("again")
            group["out"] = h5py.ExternalLink("other.h5", "/there")
        file.create_group(b"\xff\xfe")


def offsets_of(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        found = [h5py.h5o.get_info(file.id).addr]
        file.visititems(lambda _, one: found.append(h5py.h5o.get_info(one.id).addr))
    return np.array(found, np.uint64)


def led(metadata: Any, offset: int, path: bytes) -> int:
    try:
        kind, *of = metadata.find(path, offset)
    except WRONG:
        return _core.FIND_ELSEWHERE
    if kind == "object":
        return of[0] if of[0] < 2**63 else _core.FIND_ELSEWHERE
    return _core.FIND_ELSEWHERE if kind == "external" else _core.FIND_NOWHERE


def links_of(metadata: Any, offsets: np.ndarray) -> tuple[list[tuple[str, ...]], list[int]]:
    every = [metadata.links(offset) for offset in offsets.tolist()]
    names = [tuple(one[0].decode("utf-8", "surrogateescape") for one in links) for links in every]
    targets = [
        min(one[3], 2**63 - 1) if one[2] == "hard" else -1 for links in every for one in links
    ]
    return names, targets


def check(opened: Callable[[], Any], offsets: np.ndarray) -> None:
    """Compare answers of a file, which is opened anew for each: what was read before is kept."""
    for path in PATHS:
        one = opened()
        expected = [led(one, offset, path) for offset in offsets.tolist()]
        assert opened().find_from(offsets, path).tolist() == expected
    try:
        expected_links = links_of(opened(), offsets)
    except WRONG:
        with pytest.raises(WRONG):
            opened().listed(offsets)
        return
    names, targets = opened().listed(offsets)
    assert (names, targets.tolist()) == expected_links


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("has_index", [False, True])
def test_each_as_by_itself(h5: Path, libver: str, has_index: bool) -> None:
    write(h5, libver)
    offsets = offsets_of(h5)
    if has_index:
        saved(h5)
    metadata = open_file(str(h5)).metadata
    assert isinstance(metadata, _core.MetadataFile) is not has_index
    for some in (offsets, offsets[::-1].copy(), offsets[:0]):
        check(lambda: metadata, some)
    found = metadata.find_from(offsets, b"sub/x")
    assert np.count_nonzero(found >= 0) == 12  # some lead to objects
    assert np.count_nonzero(metadata.find_from(offsets, b"out") == _core.FIND_ELSEWHERE) == 12


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damage_anywhere(h5: Path, libver: str) -> None:
    write(h5, libver)
    offsets, good = offsets_of(h5), h5.read_bytes()
    rng = np.random.default_rng(1)
    n_damaged = 0
    for _ in range(200):
        data = bytearray(good)
        at = int(rng.choice(offsets) + rng.integers(300)) % len(good)
        data[at] = int(rng.integers(256))
        opened = partial(_core.MetadataFile.from_bytes, bytes(data), checks_sums=False)
        check(opened, offsets)
        n_damaged += _core.FIND_ELSEWHERE in opened().find_from(offsets, b"x")
    assert n_damaged


def test_a_damaged_group_is_named(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for number in range(3):
            file[f"g{number}/x"] = np.arange(number)
        at = h5py.h5o.get_info(file["g1"].id).addr
    data = bytearray(h5.read_bytes())
    data[at] = 99  # the version of its header
    h5.write_bytes(data)
    for path in ("*/x", "**/x", "*/x*"):
        with pytest.raises(multitables.CorruptFileError, match="/g1"):
            multitables.Streamer(h5).get_collection(path)


@pytest.fixture
def molecules(h5: Path) -> Path:
    with h5py.File(h5.with_name("other.h5"), "w") as other:
        other["conf/energy"] = np.arange(5.0)
        other["conf/last/forces"] = np.ones((5, 3))
    with h5py.File(h5, "w") as file:
        for number in range(N_MOLECULES):
            group = file.create_group(f"m{number}")
            group["species"] = np.arange(number % 7 + 1)
            if number == 300:
                group["conf"] = h5py.ExternalLink("other.h5", "/conf")
            elif number == 310:
                group["conf"] = h5py.SoftLink("/m0/conf")
            elif number % 10:
                group["conf/energy"] = np.arange(number % 5 + 1) * 0.5
                group["conf/last/forces"] = np.full((number % 5 + 1, 3), number)
            elif number == 0:
                group["conf/energy"] = np.arange(3.0)
                group["conf/last/forces"] = np.zeros((3, 3))
    return h5


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("before", ["*", "**"])
def test_hundreds_of_groups(
    molecules: Path, scales: bool, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[str]()
    look = OpenFiles.look
    monkeypatch.setattr(
        OpenFiles, "look", lambda self, path, start: looked.append(path) or look(self, path, start)
    )
    inside = {"Z": "species", "E": "conf/energy", "F": "conf/last/forces"}
    paths = {name: f"{before}/{path}" for name, path in inside.items()}
    streamer = multitables.Streamer(molecules)
    with h5py.File(molecules) as file:
        with streamer.get_collection(paths, scales=scales, order="key", n_procs=0) as items:
            assert len(looked) < 12  # the root, and what an external link leads to
            expected = [f"m{number}" for number in range(N_MOLECULES)]
            assert items.keys == expected
            for item in items:
                here = {name: path for name, path in inside.items() if path in file[item.key]}
                assert set(item) == set(here)
                for name, path in here.items():
                    np.testing.assert_array_equal(item[name], file[item.key][path][...])
        # Each depth leaves objects out.
        with streamer.get_collection(paths, exclude="m1*/conf/last", n_procs=0) as items:
            assert set(items.names("m1")) == {"Z", "E"}
            assert set(items.names("m2")) == set(inside)
