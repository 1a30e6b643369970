"""Files in the layout of the package versioned-hdf5, written with h5py.

Law
---
1. Each dataset has ``raw_data``, where each distinct chunk has the rows of a whole one. A version
   is a virtual dataset, which maps its chunks there. Chunks of nothing but fill values are not
   stored.
2. tools/versioned_files.py checks that the package reads such a file as one of its own.
"""

from __future__ import annotations

import itertools
import lzma
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import h5py
import numpy as np

BEGIN = datetime(2024, 3, 1, tzinfo=timezone.utc)
DAY = timedelta(days=1)
FIRST = "__first_version__"


def stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S.%f%z")


class Writer:
    """Writes versions to a file that is open.

    `layout` is its data version. All datasets have chunks of 4 in each direction, unless `chunks`
    says otherwise, and are created with `options`.
    """

    def __init__(
        self,
        file: h5py.File,
        *,
        layout: int | None = 4,
        chunks: Mapping[str, tuple[int, ...]] | None = None,
        **options: Any,
    ) -> None:
        self.file, self._chunks, self._options = file, chunks or {}, options
        self.group = file.create_group("_version_data/versions")
        self.group.create_group(FIRST).attrs["timestamp"] = stamp(BEGIN)
        self.group.attrs["current_version"] = FIRST
        if layout is not None:
            self.group.attrs["data_version"] = layout
        #: Path of a dataset -> bytes of a chunk -> its number in raw_data.
        self._stored: dict[str, dict[bytes, int]] = {}

    def commit(
        self,
        name: str,
        datasets: Mapping[str, np.ndarray] | None = None,
        *,
        parent: str | None = None,
        time: datetime | None = None,
        committed: bool = True,
        current: bool = True,
    ) -> None:
        """Write a version: by default a day after the last one, made from the current one."""
        version = self.group.create_group(name)
        version.attrs["prev_version"] = parent or self.group.attrs["current_version"]
        version.attrs["committed"] = committed
        version.attrs["timestamp"] = stamp(time or BEGIN + len(self.group) * DAY)
        for path, data in (datasets or {}).items():
            self._write(version, path, data, self._chunks.get(path, (4,) * data.ndim))
        if current:
            self.group.attrs["current_version"] = name

    def _write(
        self, version: h5py.Group, path: str, data: np.ndarray, chunks: tuple[int, ...]
    ) -> None:
        at = f"/_version_data/{path}/raw_data"
        if at not in self.file:
            shape, most = (0, *chunks[1:]), (None, *chunks[1:])
            self.file.create_dataset(
                at, shape, data.dtype, maxshape=most, chunks=chunks, **self._options
            ).attrs["chunks"] = chunks
        raw, stored = self.file[at], self._stored.setdefault(path, {})
        corners = itertools.product(
            *(range(0, dim, chunk) for dim, chunk in zip(data.shape, chunks, strict=True))
        )
        boxes, new = [], []
        for first in corners:
            chunk = data[tuple(map(slice, first, np.add(first, chunks)))]
            if np.all(chunk == raw.fillvalue):
                continue
            key = chunk.tobytes() + repr(chunk.shape).encode()
            if key not in stored:
                stored[key] = len(stored)
                new.append((stored[key] * chunks[0], chunk))
            boxes.append((first, stored[key] * chunks[0], chunk.shape))
        raw.resize(len(stored) * chunks[0], axis=0)
        for row, chunk in new:
            raw[(slice(row, row + len(chunk)), *map(slice, chunk.shape[1:]))] = chunk
        self._map(version, path, data, raw, boxes)

    def _map(
        self, version: h5py.Group, path: str, data: np.ndarray, raw: h5py.Dataset, boxes: list[Any]
    ) -> None:
        """Write a virtual dataset of boxes: their first elements, rows in raw_data, shapes."""
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_fill_value(np.asarray(raw.fillvalue, data.dtype))
        linked = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        linked.set_create_intermediate_group(True)
        virtual, source = map(h5py.h5s.create_simple, (data.shape, raw.shape))
        one, inner = (1,) * data.ndim, (0,) * (data.ndim - 1)
        for first, row, shape in boxes:
            virtual.select_hyperslab(first, one, block=shape)
            source.select_hyperslab((row, *inner), one, block=shape)
            created.set_virtual(virtual, b".", raw.name.encode(), source)
        space = h5py.h5s.create_simple(data.shape)
        h5py.h5d.create(
            version.id, path.encode(), h5py.h5t.py_create(data.dtype), space, created, linked
        )
        version[path].attrs["raw_data"] = raw.name
        version[path].attrs["chunks"] = raw.chunks


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 1 << 40, shape)


def write_example(filename: Path) -> None:
    """Five versions, r0 to r4, of which r3 is a branch of r1, and r5, which was not committed."""
    line, grid = numbers(30), numbers(11, 7)
    with h5py.File(filename, "w") as file:
        writer = Writer(file, compression="gzip")
        for number in range(6):
            line[number * 3] += 1
            grid[number, number] += 1
            grid[8:, :4] = 0
            line = np.append(line, numbers(3, seed=number))
            writer.commit(
                f"r{number}",
                {"line": line, "sub/grid": grid},
                parent="r1" if number == 3 else None,
                committed=number < 5,
                current=number not in (3, 5),
            )


def unpack_kept(filename: Path) -> None:
    """Write the file of mixed kinds that the package wrote, with tools/versioned_files.py."""
    filename.write_bytes(lzma.decompress(Path(__file__).with_name("versioned.h5.xz").read_bytes()))
