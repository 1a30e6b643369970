"""The files that the documentation's examples read.

Law
---
1. Every document starts in a fresh, empty directory with these files and leaves nothing behind.
2. The files are small and their contents follow from their names, so that examples can print.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tables
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
import format_files
import versioned

_places: list[tuple[str, str]] = []


def write_run7(filename: str) -> None:
    """1000 images of 8 x 8 float32, compressed in chunks of 64; their labels; a table."""
    rows = 1000
    with h5py.File(filename, "w") as file:
        images = np.arange(rows * 64, dtype="f4").reshape(rows, 8, 8)
        file.create_dataset("images", data=images, chunks=(64, 8, 8), compression="gzip")
        file.create_dataset("labels", data=np.arange(rows) % 10, chunks=(500,))
    with tables.open_file(filename, "a") as file:
        rows_of_table = np.zeros(rows, dtype=[("time", "f8"), ("energy", "f4", (3,))])
        rows_of_table["time"] = np.arange(rows) / 10
        file.create_table("/", "events", rows_of_table, filters=tables.Filters(5, "blosc:lz4"))


def write_damaged(filename: str) -> None:
    """The same images with a checksum, and four wrong bytes in the chunk of rows 192 to 255."""
    with h5py.File(filename, "w") as file:
        images = np.arange(1000 * 64, dtype="f4").reshape(1000, 8, 8)
        dataset = file.create_dataset("images", data=images, chunks=(64, 8, 8), fletcher32=True)
        byte_offset = dataset.id.get_chunk_info_by_coord((192, 0, 0)).byte_offset
    with open(filename, "r+b") as raw:
        raw.seek(byte_offset + 100)
        raw.write(b"oops")


def write_photographs(filename: str) -> None:
    """100 JPEGs of 32 x 48 pixels, as sequences of bytes, and their labels."""
    y, x = np.mgrid[:32, :48]
    with h5py.File(filename, "w") as file:
        made = file.create_dataset("photographs", (100,), h5py.vlen_dtype(np.uint8))
        for number in range(100):
            pixels = np.stack([x * 4, y * 6, (x + y + number) % 256], axis=-1).astype(np.uint8)
            stored = io.BytesIO()
            Image.fromarray(pixels).save(stored, "JPEG")
            made[number] = np.frombuffer(stored.getvalue(), np.uint8)
        file["labels"] = np.arange(100) % 10


def write_prices(filename: str) -> None:
    """Three versions of 1000 prices: as they came, with one mended, and with 24 more."""
    prices = 100 + np.arange(1000) % 17 / 4
    mended = np.where(np.arange(1000) == 300, 104.5, prices)
    with h5py.File(filename, "w") as file:
        writer = versioned.Writer(file, chunks={"prices": (256,)}, compression="gzip")
        writer.commit("monday", {"prices": prices})
        writer.commit("tuesday", {"prices": mended})
        writer.commit("wednesday", {"prices": np.append(mended, np.arange(24) + 90.0)})


#: What projects of several fields keep: file -> path -> shape and dtype, or values.
FIELDS: dict[str, dict[str, Any]] = {
    "episodes.h5": {
        "pixels": ((200, 16, 16, 3), "u1"),
        "action": ((200, 2), "f4"),
        "ep_len": np.array([80, 120]),
    },
    **{
        f"flow_{number}.h5": {
            "t0_fields/density": ((3, 20, 16, 16), "f4"),
            "t1_fields/velocity": ((3, 20, 16, 16, 2), "f4"),
        }
        for number in range(2)
    },
    **{
        f"strain_{number}.h5": {f"{name}/strain": ((8192,), "f8") for name in ("H1", "L1")}
        for number in range(2)
    },
    "brain.h5": {"raw": ((48, 64, 64), "u2"), "label": ((48, 64, 64), "u1")},
    "demos.h5": {
        f"data/demo_{number}/{path}": ((rows, *shape), dtype)
        for number, rows in enumerate((30, 50))
        for path, shape, dtype in (
            ("obs/agentview_image", (16, 16, 3), "u1"),
            ("actions", (7,), "f8"),
        )
    },
    "molecules.h5": {
        f"{name}/{path}": values
        for name, n_atoms in (("water", 3), ("methane", 5))
        for path, values in (
            ("atomic_numbers", np.arange(n_atoms) % 8 + 1),
            ("geometry/positions", ((50, n_atoms, 3), "f4")),
            ("geometry/dft/gradients", ((50, n_atoms, 3), "f4")),
        )
    },
}


def write_fields(filename: str) -> None:
    """One of `FIELDS`; of a shape the values count up, compressed."""
    with h5py.File(filename, "w") as file:
        for path, said in FIELDS[filename].items():
            if isinstance(said, np.ndarray):
                file[path] = said
                continue
            shape, dtype = said
            values = np.arange(np.prod(shape), dtype="i8").reshape(shape).astype(dtype)
            file.create_dataset(path, data=values, compression="gzip", compression_opts=1)


def enter() -> None:
    """Make the directory and go there."""
    before = os.getcwd()
    place = tempfile.mkdtemp(prefix="multitables-docs-")
    _places.append((before, place))
    os.chdir(place)
    write_run7("run7.h5")
    write_damaged("damaged.h5")
    write_photographs("photographs.h5")
    write_prices("prices.h5")
    for name, write in format_files.FILES.items():
        write(name)
    for name in FIELDS:
        write_fields(name)


def leave() -> None:
    """Go back, and remove the directory."""
    before, place = _places.pop()
    os.chdir(before)
    shutil.rmtree(place)
