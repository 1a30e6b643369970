"""The table's virtual datasets.

Law: as in `datasets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
from datasets import Dataset, columns, table
from elements import FAST, smooth, values

COMPRESSIONS = {"none": {}, "gzip": {"compression": 1, "shuffle": True}, "lz4": hdf5plugin.LZ4()}


@table(*COMPRESSIONS)
def virtual_chunks(path: Path, variant: str) -> Iterator[Dataset]:
    """Mappings that fit the chunks of their sources."""
    how, beside = COMPRESSIONS[variant], path.with_name
    for number in range(4):
        with h5py.File(beside(f"part{number}.h5"), "w") as part:
            rows = smooth((20, 8)) + number
            part.create_dataset("x", data=rows, chunks=(5, 3), fillvalue=-3, **how)
            part.create_dataset("image", data=rows[:7], chunks=(4, 8), **how)
            nested = values(FAST["nested"], (40,))
            part.create_dataset("nested", data=nested, chunks=(8,), **how)
            never = part.create_dataset("never", (20, 8), "<i4", chunks=(5, 4), **how)
            never[5:10] = number
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((93, 8), "<i4")
        for number in range(5):  # the last one is missing
            end = min(93, number * 20 + 20)
            source = h5py.VirtualSource(f"part{number}.h5", "x", (20, 8))
            layout[number * 20 : end] = source[: end - number * 20]
        file.create_virtual_dataset("files", layout, fillvalue=-3)
        layout = h5py.VirtualLayout((5, 7, 8), "<i4")
        for number in range(4):
            layout[number] = h5py.VirtualSource(f"part{number}.h5", "image", (7, 8))
        file.create_virtual_dataset("images", layout)
        layout = h5py.VirtualLayout((70,), FAST["nested"])
        for number in (0, 2):
            source = h5py.VirtualSource(f"part{number}.h5", "nested", (40,), FAST["nested"])
            layout[number * 20 : number * 20 + 24] = source[16:]
        file.create_virtual_dataset("nested", layout)
        layout = h5py.VirtualLayout((30, 8), "<i4")
        layout[:20] = h5py.VirtualSource("part1.h5", "never", (20, 8))
        file.create_virtual_dataset("never", layout)
        rows = np.arange(500)
        raw = file.create_dataset("raw", data=rows + 1000, chunks=(20,), maxshape=(None,), **how)
        layout = h5py.VirtualLayout((451,), raw.dtype)
        for at, chunk in enumerate(np.random.default_rng(7).permutation(25)[:23]):
            end = min(451, at * 20 + 20)
            piece = h5py.VirtualSource(".", "raw", (500,), raw.dtype)
            if at % 5 != 3:
                layout[at * 20 : end] = piece[chunk * 20 : chunk * 20 + end - at * 20]
        file.create_virtual_dataset("version", layout, fillvalue=7)
        layout = h5py.VirtualLayout((400,), raw.dtype)
        layout[:100] = h5py.VirtualSource(file["version"])[40:140]
        layout[60:400] = h5py.VirtualSource(file["version"])[100:440]
        file.create_virtual_dataset("on virtual", layout, fillvalue=7)
    for name in ("files", "images", "never", "version", "on virtual"):
        yield Dataset(f"/{name}")
    yield from columns(Dataset("/nested"), FAST["nested"])
