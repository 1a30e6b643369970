"""Bytes changed anywhere in a file that is surveyed: no panic, whatever the bytes are.

Law
---
1. An object that cannot be read is alone, or is no dataset; the others are got as before.
2. What is got has the columns' lengths, so that a table can be made of it.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import shot_files

import multitables
from _multitables import _core
from multitables import Streamer

CASES = 600
NAMED = (_core.Corrupt, _core.Unknown, OSError)


def write(path: Path, libver: str) -> list[int]:
    """Write a file of each kind of storage with scales; the offsets of all its objects."""
    shot_files.write(path, shots=(1, 2), libver=libver)
    offsets = []
    with h5py.File(path) as file:
        file.visititems(lambda _, found: offsets.append(h5py.h5o.get_info(found.id).addr))
    return offsets


def surveyed(file: _core.MetadataFile, offsets: list[int]) -> _core.Survey:
    return file.survey(np.array(offsets, np.uint64), True, [b"units", b"shot"])


def check(got: _core.Survey, n_objects: int) -> None:
    kind, rank, n_chunks = got.kind, got.ranks, got.n_chunks
    assert len(kind) == len(rank) == len(n_chunks) == n_objects
    assert np.all((kind < len(got.kinds)) | (kind >= _core.SURVEY_NO_DATASET))
    assert len(got.dims) == len(got.chunk_dims) == rank.sum()
    assert len(got.chunks) == n_chunks.sum()
    assert np.all(got.scales[:, 0] < n_objects)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damage_anywhere(h5: Path, libver: str) -> None:
    offsets = write(h5, libver)
    good = h5.read_bytes()
    rng = np.random.default_rng(len(good))
    got = surveyed(_core.MetadataFile(str(h5)), offsets)
    check(got, len(offsets))
    headers = np.array(offsets)
    n_changed = 0
    for case in range(CASES):
        anywhere, near = int(rng.integers(len(good))), int(rng.choice(headers) + rng.integers(400))
        at = near if case % 2 else anywhere
        size = int(rng.choice([1, 2, 4, 8]))
        by = bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF])]) * size
        h5.write_bytes((good[:at] + by + good[at + size :])[: len(good)])
        try:
            file = _core.MetadataFile(str(h5))
        except NAMED:
            continue
        found = surveyed(file, offsets)
        check(found, len(offsets))
        n_changed += not np.array_equal(found.kind, got.kind)
        if case % 20 == 0:
            try:
                items = Streamer(h5).get_collection(shot_files.PATTERN)
                assert items._unit.opened.table.core.encoded
            except multitables.MultitablesError as error:
                assert "\n" not in str(error)  # noqa: PT017
    assert n_changed > CASES // 10


def test_offsets_of_nothing(h5: Path) -> None:
    write(h5, "latest")
    places = [0, 1, 8, 2**32, 2**63, 2**64 - 1]
    got = surveyed(_core.MetadataFile(str(h5)), places)
    assert got.kind.tolist() == [_core.SURVEY_ALONE] * len(places)
