"""A small file with objects of each kind, and its saved index."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

import multitables


def small(path: Path) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        data = np.arange(100, dtype="<i4")
        file.create_dataset("g/chunks", data=data, chunks=(7,), maxshape=(None,), shuffle=True)
        file["g/contiguous"], file["scalar"] = data, 3
        file["soft"], file["external"] = h5py.SoftLink("/g"), h5py.ExternalLink("b.h5", "/x")
        file["type"] = np.dtype(">f8")
        file.attrs["text"], file["g"].attrs["numbers"] = "abc", np.arange(4)


def saved(path: Path) -> Path:
    """Write the index of a file beside it."""
    return Path(multitables.index_file(path, progress=False))
