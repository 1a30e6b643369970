"""Open files that have a saved index, against the same files without one.

Law
---
1. A handle tells the same with the index and without it, also after it was pickled.
2. A closed handle holds no index.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structures
from saved_files import saved, small

import multitables
from _multitables.index.saved.metadata import SavedMetadata


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return dict(structures.written(tmp_path_factory.mktemp("structures")))


def everything(file: Any) -> dict[str, Any]:
    """What a handle tells of a file."""
    told: dict[str, Any] = {"/": (list(file), _attributes(file))}

    def keep(name: str, found: Any) -> None:
        told[name] = (type(found).__name__, _attributes(found))
        if hasattr(found, "dtype") and hasattr(found, "shape"):
            told[name] += (found.shape, found.dtype, found.chunks, found.maxshape)

    file.visititems(keep)
    links = {name: file.get(name, getlink=True) for name in file}
    return {**told, "links": {name: repr(link) for name, link in links.items()}}


def _attributes(found: Any) -> dict[str, str]:
    return {name: repr(value) for name, value in found.attrs.items()}


@pytest.mark.parametrize(
    "name",
    [
        "attributes latest",
        "many_attributes v110",
        "links earliest",
        "committed v110",
        "fill_values latest",
    ],
)
def test_handles(files: dict[str, Path], name: str, tmp_path: Path) -> None:
    """Text of variable length is read from the file, whose index knows where it is."""
    path = tmp_path / "copy.h5"
    path.write_bytes(files[name].read_bytes())
    with multitables.open(path) as file:
        expected = everything(file)
    del file
    multitables.index_file(path, progress=False)
    with multitables.open(path) as file:
        assert isinstance(file._place.file.metadata, SavedMetadata)
        assert everything(file) == expected


def test_a_handle_reads_and_is_pickled(h5: Path) -> None:
    small(h5)
    saved(h5)
    with multitables.open(h5) as file:
        again = pickle.loads(pickle.dumps(file["soft/chunks"]))
        assert file["g/chunks"][3:40:5].tolist() == again[3:40:5].tolist() == list(range(3, 40, 5))
        assert file["scalar"][()] == 3
        assert file["type"].dtype == np.dtype(">f8")


def test_a_closed_handle_holds_no_index(h5: Path) -> None:
    small(h5)
    place = saved(h5)
    with multitables.open(h5) as file:
        kept = file["g/chunks"]
        assert str(place) in _open_files()
    del file
    gc.collect()
    assert str(place) not in _open_files()
    assert not kept


def _open_files() -> set[str]:
    names = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            names.add(os.readlink(f"/proc/self/fd/{name}"))
    return names
