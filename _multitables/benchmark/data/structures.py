"""Files that test structure: many datasets, small or equal, or one dataset of many chunks.

Law
---
1. A structure is a value; the same value gives the same values, names, types and attributes.
2. A file says in an attribute of its root which structure it is, and is reused when that is right.
3. What their chunk tables are, an HDF5 library decides; nothing here knows who reads them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from _multitables.benchmark.data.workloads import Workload, kept, slabs, whole

PATH = "/data"
GROUP = 100  # datasets of a group
SEED = 0
MARK = "structure"
#: Versions of the format: h5py's default; the one in which every later structure may stand; the
#: newest; and the newest with metadata in pages of its own.
VERSIONS: dict[str, dict[str, Any]] = {
    "earliest": {"libver": "earliest"},
    "v110": {"libver": ("v110", "v110")},
    "latest": {"libver": "latest"},
    "paged": {"libver": "latest", "fs_strategy": "page", "fs_page_size": 1 << 20},
}

#: name -> version of the format, and which axes may grow: these choose the index of the chunks.
CHUNK_INDEXES: dict[str, tuple[str, tuple[bool, bool]]] = {
    "btree-v1": ("earliest", (True, True)),
    "fixed-array": ("v110", (False, False)),
    "extensible-array": ("v110", (True, False)),
    "btree-v2": ("v110", (True, True)),
}


@dataclass(frozen=True)
class ManyDatasets:
    """Small datasets of four kinds, each with four attributes, in groups of 100.

    Chunks of some are compressed; one kind has none. `name` says nothing but where they lie.
    Datasets and chunks have `times` as many rows as `KINDS` says.
    """

    name: str
    n_datasets: int
    version: str
    times: int = 1

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return (8192 + 1024 * self.times) * self.n_datasets + 2**22

    def paths(self) -> list[str]:
        """Of the datasets, in the order of writing."""
        return [path_of(number) for number in range(self.n_datasets)]

    def write(self, filename: str) -> None:
        """Write the file; by h5py's low-level calls, which take half the time."""
        import h5py

        with h5py.File(filename, "w", **VERSIONS[self.version]) as file:
            file.attrs[MARK] = repr(self)
            write_one = _small_dataset(self.times)
            for first in range(0, self.n_datasets, GROUP):
                group = file.create_group(path_of(first).rpartition("/")[0])
                for number in range(first, min(first + GROUP, self.n_datasets)):
                    write_one(group.id, number)


@dataclass(frozen=True)
class EqualDatasets:
    """Datasets of the same size in one group: rows of float32 waves, contiguous or deflated.

    Chunks are of at most 256 rows. Datasets have other values, by numbers from `seed` on.
    """

    name: str
    n_datasets: int
    rows: int
    level: int = 0
    columns: int = 256
    seed: int = 0

    @property
    def decoded_bytes(self) -> int:
        """Of all datasets."""
        return 4 * self.n_datasets * self.rows * self.columns

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return 2 * self.decoded_bytes + 2**12 * self.n_datasets + 2**22

    def paths(self) -> list[str]:
        """Of the datasets, in the order of writing and of names."""
        return [f"/signals/{number:04}" for number in range(self.n_datasets)]

    def write(self, filename: str) -> None:
        """Write the file."""
        import h5py

        chunks = (min(self.rows, 256), self.columns)
        gzip = {"compression": "gzip", "compression_opts": self.level, "chunks": chunks}
        with h5py.File(filename, "w") as file:
            file.attrs[MARK] = repr(self)
            for number, path in enumerate(self.paths(), self.seed):
                kind = (self.rows, self.columns, "float32")
                values = Workload(path, *kind, "waves", seed=number)
                rows = np.concatenate([*slabs(values)])
                file.create_dataset(path, data=rows, **(gzip if self.level else {}))


@dataclass(frozen=True)
class ManyChunks:
    """One dataset of very many chunks of 32 bytes, which deflate makes smaller or larger.

    `index` is a name of `CHUNK_INDEXES`; the grid is square.
    """

    name: str
    n_chunks: int
    index: str

    @property
    def side(self) -> int:
        """Chunks along each axis."""
        return math.isqrt(self.n_chunks)

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return 256 * self.n_chunks + 2**22

    def write(self, filename: str) -> None:
        """Write the file, a row of chunks at a time."""
        import h5py

        version, grows = CHUNK_INDEXES[self.index]
        shape = (4 * self.side, 4 * self.side)
        random = np.random.default_rng(SEED)
        with h5py.File(filename, "w", **VERSIONS[version]) as file:
            file.attrs[MARK] = repr(self)
            dataset = file.create_dataset(
                PATH,
                shape,
                "<i2",
                chunks=(4, 4),
                maxshape=[None if one else size for one, size in zip(grows, shape, strict=True)],
                compression="gzip",
                compression_opts=1,
            )
            for start in range(0, shape[0], 4):
                # every second chunk is noise, which deflate cannot shrink
                rows = random.integers(-(2**15), 2**15, (4, self.side, 4), np.int16)
                rows[:, (start // 4) % 2 :: 2] &= 1
                dataset[start : start + 4] = rows.reshape(4, -1)


class Structure(Protocol):
    """What is written to a file of its name."""

    @property
    def name(self) -> str: ...

    @property
    def needed_bytes(self) -> int: ...

    def write(self, filename: str) -> None: ...


def in_directory(structure: Structure, directory: str) -> str:
    """The structure's file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    return kept(structure, os.path.join(directory, f"{structure.name}.h5"), _holds, _write)


def _write(structure: Structure, filename: str) -> None:
    with whole(structure, filename) as part:
        structure.write(part)
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _holds(structure: Structure, filename: str) -> bool:
    import h5py

    try:
        with h5py.File(filename, "r") as file:
            return bool(file.attrs.get(MARK) == repr(structure))
    except OSError:
        return False


def path_of(number: int) -> str:
    """Where a small dataset lies."""
    return f"/shots/{number // GROUP:05}/signal{number % GROUP:02}"


#: Rows, columns, type, rows of a chunk (0: contiguous) and level of deflate, 0 for no filter.
KINDS = (
    ((300,), "<f4", 100, 3),
    ((128, 2), "<f8", 0, 0),
    ((256,), "<i2", 64, 0),
    ((50,), ">i4", 50, 1),
)


def _small_dataset(times: int) -> Callable[[Any, int], None]:
    """What writes the small dataset of a number into a group."""
    from h5py import h5a, h5d, h5p, h5s, h5t

    kinds = []
    for (rows, *others), dtype, chunk_rows, level in KINDS:
        shape = times * rows, *others
        plist = h5p.create(h5p.DATASET_CREATE)
        if chunk_rows:
            plist.set_chunk((times * chunk_rows,))
        if level:
            plist.set_shuffle()
            plist.set_deflate(level)
        kinds.append((shape, np.dtype(dtype), h5t.py_create(np.dtype(dtype)), plist))
    text, scalar = h5t.py_create(_text(), logical=True), h5s.create(h5s.SCALAR)
    attributes = [
        (b"units", text, scalar, _text()),
        (b"kind", h5t.py_create(np.dtype("S8")), scalar, np.dtype("S8")),
        (b"gain", h5t.py_create(np.dtype("<f8")), scalar, np.dtype("<f8")),
        (b"axes", h5t.py_create(np.dtype("<i4")), h5s.create_simple((2,)), np.dtype("<i4")),
    ]
    ramp = np.arange(512 * times)

    def write_one(group: Any, number: int) -> None:
        shape, dtype, kind, plist = kinds[number % len(kinds)]
        space, name = h5s.create_simple(shape), path_of(number).rpartition("/")[2].encode()
        dataset = h5d.create(group, name, kind, space, plist)
        values = (ramp[: math.prod(shape)] + number) % 1000
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values.reshape(shape), dtype))
        told = (f"V{number % 7}", b"signal", number / 8, (number, number % 5))
        for (name, kind, space, dtype), value in zip(attributes, told, strict=True):
            h5a.create(dataset, name, kind, space).write(np.array(value, dtype))

    return write_one


def _text() -> Any:
    """Text of variable length, as h5py writes ``str``."""
    import h5py

    return h5py.string_dtype()
