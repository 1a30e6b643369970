"""Files that have parts of the same dataset, and what h5py reads of all of them.

Law
---
1. The oracle is h5py's arrays of the files, concatenated. Each row says which one it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from cut_chunks import cut_edges
from hypothesis import strategies as st

import multitables

COLUMNS = 5
#: How a file may store its rows.
STORED: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (8, 3)},
    "gzip": {"chunks": (8, 3), "compression": "gzip", "fletcher32": True},
    "cut": {"chunks": (8, 3), "compression": "gzip", "fletcher32": True},
    "long": {"chunks": (50, COLUMNS), "compression": "lzf"},
    "blosc": {"chunks": (7, 5), **hdf5plugin.Blosc()},
    "contiguous": {},
    "compact": {},
}


@dataclass(frozen=True)
class Part:
    """One file: its rows, and how they are stored."""

    rows: int
    stored: str = "gzip"


def parts(stored: Sequence[str] = tuple(STORED)) -> st.SearchStrategy[list[Part]]:
    """Some files, of which any may be without rows."""
    rows = st.integers(0, 40) | st.sampled_from([0, 8, 16, 24, 50])
    part = st.builds(Part, rows, st.sampled_from(stored))
    alike = st.tuples(st.lists(rows, min_size=2, max_size=6), st.sampled_from(stored))
    return st.lists(part, min_size=2, max_size=6) | alike.map(
        lambda drawn: [Part(rows, drawn[1]) for rows in drawn[0]]
    )


def write(folder: Path, wanted: Sequence[Part]) -> list[str]:
    """``f0.h5`` and so on with ``/x``, and ``/y`` of which each row is its number, negative."""
    names, begin = [], 0
    for number, part in enumerate(wanted):
        name = folder / f"f{number}.h5"
        rows = np.arange(begin * COLUMNS, (begin + part.rows) * COLUMNS, dtype="<i4")
        with h5py.File(name, "w") as file:
            _dataset(file, rows.reshape(part.rows, COLUMNS), part.stored)
            file["y"] = -np.arange(begin, begin + part.rows)
        names.append(str(name))
        begin += part.rows
    return names


#: How parts may be laid out: one in each file, of a list or a manifest, all in one file, or several
#: in each.
LAYOUTS = ("files", "manifest", "datasets", "both")


def laid_out(
    folder: Path, wanted: Sequence[Part], layout: str
) -> tuple[list[str] | str, Any, Any, np.ndarray, np.ndarray]:
    """Write parts; return the files, what names `x` and `y` of all, and the rows of both."""
    names = write(folder, wanted)
    x, y = read(names), read(names, "/y")
    if layout == "files":
        return names, "/x", "/y", x, y
    if layout == "manifest":
        return manifest(folder, names), "/x", "/y", x, y
    each = len(names) if layout == "datasets" else 2
    files = []
    for first in range(0, len(names), each):
        files.append(str(folder / f"joined{first}.h5"))
        with h5py.File(files[-1], "w") as file:
            file.create_group("p8/other")
            # Numbers of which the order of letters is another one.
            for number, name in enumerate(names[first : first + each], start=8):
                with h5py.File(name) as source:
                    source.copy("/x", file.require_group(f"p{number}"))
                    source.copy("/y", file[f"p{number}"])
    x_path = multitables.Joined("/p*/x")
    y_path = multitables.Joined("/p*/y")
    if layout == "datasets":
        y_path = multitables.Joined([f"/p{number}/y" for number in range(8, 8 + len(names))])
    return files if len(files) > 1 else files[0], x_path, y_path, x, y


def manifest(folder: Path, names: Sequence[str]) -> str:
    """Index files by a manifest, and return its name."""
    return multitables.index_files(list(names), to=folder / "all.mtidx", progress=False)


def _dataset(file: h5py.File, rows: np.ndarray, stored: str) -> None:
    options = STORED[stored]
    if stored != "compact":
        if "chunks" in options:
            options = {**options, "maxshape": (None, COLUMNS)}
        made = file.create_dataset("x", data=rows, **options)
        if stored == "cut":
            cut_edges(made, compression="gzip", fletcher32=True)
        return
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(rows.shape)
    made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, plist)
    if rows.size:
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, rows)


def read(names: Sequence[str], path: str = "/x") -> np.ndarray:
    """All rows, as h5py reads them."""
    found = []
    for name in names:
        with h5py.File(name) as file:
            found.append(file[path][()])
    return np.concatenate(found)


def damage(name: str, path: str, chunk: tuple[int, ...]) -> int:
    """Hurt a stored chunk; return where it lies."""
    with h5py.File(name) as file:
        at = int(file[path].id.get_chunk_info_by_coord(chunk).byte_offset)
    with open(name, "r+b") as raw:
        raw.seek(at + 4)
        raw.write(b"\x5a\xa5\x5a\xa5")
    return at
