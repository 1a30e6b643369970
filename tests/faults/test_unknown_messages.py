"""Messages in object headers that no release of HDF5 has: passed over, or what forbids that.

1. A flag of such a message says that a reader that does not know it must not open the object.
   What h5py opens opens here; what it refuses is an error that says so, whichever way leads there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables

FORBIDS = 0x80
#: Flags that forbid to write the object only, that ask for a mark, that others have, and none.
OTHERS = 0x08, 0x10, 0x01, 0
DATA = np.arange(12)

READ: dict[str, Callable[[Path, str], Any]] = {
    "open": lambda path, name: multitables.open(path)[f"{name}/x"][...],
    "read": lambda path, name: multitables.read(path, f"{name}/x"),
    "queue": lambda path, name: list(multitables.Streamer(path).get_generator(f"{name}/x", 1)),
    "attributes": lambda path, name: dict(multitables.open(path)[name].attrs),
    "repr": lambda path, name: repr(multitables.open(path)[name]),
    "names": lambda path, name: list(multitables.open(path)[name]),
}


def _written(path: Path, kind: int, flags: int) -> None:
    """A group with a message of this kind, made of an attribute."""
    with h5py.File(path, "w", libver="earliest") as file:
        group = file.create_group("g")
        group["x"] = DATA
        group.attrs["an attribute"] = 5
    stored = bytearray(path.read_bytes())
    at = stored.index(b"an attribute") - 16  # behind the heads of the message and of the attribute
    assert stored[at : at + 2] == bytes([12, 0])
    struct.pack_into("<HHB", stored, at, kind, stored[at + 2] | stored[at + 3] << 8, flags)
    path.write_bytes(stored)


@pytest.mark.parametrize("kind", [9, 25, 200, 0xFFFF])
@pytest.mark.parametrize("way", READ)
def test_what_a_message_forbids(h5: Path, kind: int, way: str) -> None:
    _written(h5, kind, FORBIDS)
    with pytest.raises((OSError, KeyError)), h5py.File(h5) as file:
        file["g"]
    with pytest.raises(
        multitables.UnsupportedDatasetError, match=rf"type {kind} at .* forbids to ignore"
    ):
        READ[way](h5, "/g")


@pytest.mark.parametrize(("kind", "flags"), [(25, flags) for flags in OTHERS] + [(18, FORBIDS)])
def test_what_a_message_does_not_forbid(h5: Path, kind: int, flags: int) -> None:
    _written(h5, kind, flags)
    with h5py.File(h5) as theirs, multitables.open(h5) as ours:
        assert list(ours["g"]) == list(theirs["g"]) == ["x"]
        np.testing.assert_array_equal(ours["g/x"][...], theirs["g/x"][...])
