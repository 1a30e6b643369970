"""Files that hold rows in other ways than a plain dataset: virtual, in versions, of any length.

Law
---
1. `VirtualCopy` and `VersionedCopy` are made of a plain file, whose rows they show, so that what is
   read of all can be compared; `Ragged` says in `lengths` how long its rows are.
2. A file names in an attribute what it was made from, and is reused when that is right.
3. Versions are laid out as the package versioned-hdf5 does: a dataset of raw chunks, and for each
   version a virtual dataset that maps chunks to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.benchmark.data.workloads import PATH, Workload, kept, whole

MARK = "made_from"
TIME = "2024-01-01 00:00:00.000000+0000"
LATEST = "_version_data/versions"
#: Elements of a chunk of flat values.
CHUNK_ELEMENTS = 1 << 16
MEAN_LENGTH = 50
#: Of a sparse matrix.
N_COLUMNS = 30_000


@dataclass(frozen=True)
class VirtualCopy:
    """The rows of a plain file, stored in several sources and shown by a virtual dataset.

    `shape` is "whole chunks" (sources one behind the other, of whole chunks), "odd rows" (of
    lengths that no chunk fits), or "tiles" (side by side, with a column between that none has).
    """

    name: str
    workload: Workload
    plain: str
    shape: str
    n_sources: int

    @property
    def needed_bytes(self) -> int:
        """Free bytes the files may need."""
        return self.workload.needed_bytes

    def write(self, filename: str) -> None:
        """Write the sources and the virtual dataset."""
        import h5py
        import tables

        rows, columns = self.workload.rows, self.workload.columns
        with tables.open_file(self.plain) as plain:
            stored = plain.root.data
            chunk_rows = stored.chunkshape[0]
            layout = h5py.VirtualLayout((rows, columns), stored.dtype)
            for number, (down, across) in enumerate(self._parts(rows, columns, chunk_rows)):
                source = f"{os.path.basename(filename).split('.')[0]}.source{number}.h5"
                place = os.path.join(os.path.dirname(filename), source)
                with tables.open_file(place, "w") as made:
                    made.create_carray(
                        "/",
                        "data",
                        obj=stored[down, across],
                        filters=stored.filters,
                        chunkshape=(chunk_rows, across.stop - across.start),
                    )
                shape = (down.stop - down.start, across.stop - across.start)
                layout[down, across] = h5py.VirtualSource(source, "data", shape)
        with h5py.File(filename, "w", libver="latest") as file:
            file.create_virtual_dataset(PATH, layout, fillvalue=0)

    def _parts(self, rows: int, columns: int, chunk_rows: int) -> Iterator[tuple[slice, slice]]:
        """Yield which rows and columns each source has."""
        if self.shape == "tiles":
            width = columns // self.n_sources
            for left in range(0, width * self.n_sources, width):
                yield slice(0, rows), slice(left, left + width - 1)
            return
        step = max(1, -(-rows // self.n_sources))
        step = -(-step // chunk_rows) * chunk_rows
        if self.shape == "odd rows":
            step = max(1, step - chunk_rows // 3)
        for start in range(0, rows, step):
            yield slice(start, min(start + step, rows)), slice(0, columns)


@dataclass(frozen=True)
class VersionedCopy:
    """The rows of a plain file as the last of several versions; each changed one chunk."""

    name: str
    workload: Workload
    plain: str
    n_versions: int

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return 2 * self.workload.needed_bytes + (self.n_versions << 17)

    def write(self, filename: str) -> None:
        """Write the raw chunks by PyTables, which has the filters, and the versions by h5py."""
        import tables

        with tables.open_file(self.plain) as plain, tables.open_file(filename, "w") as made:
            stored = plain.root.data
            chunk_rows, n_chunks = stored.chunkshape[0], -(-len(stored) // stored.chunkshape[0])
            raw = made.create_earray(
                "/_version_data/data",
                "raw_data",
                tables.Atom.from_dtype(stored.dtype),
                (0, stored.shape[1]),
                filters=stored.filters,
                chunkshape=stored.chunkshape,
                createparents=True,
            )
            for first in range(0, len(stored), chunk_rows):
                rows = stored[first : first + chunk_rows]
                raw.append(np.pad(rows, ((0, chunk_rows - len(rows)), (0, 0))))
            rng = np.random.default_rng(0)
            for number in range(self.n_versions - 1):  # what older versions had in place of a chunk
                raw.append(raw[:chunk_rows] + stored.dtype.type(number + 1))
            replaced = rng.integers(n_chunks, size=self.n_versions - 1)
            shape = stored.shape
        self._map(filename, shape, chunk_rows, n_chunks, replaced)

    def _map(
        self,
        filename: str,
        shape: tuple[int, ...],
        chunk_rows: int,
        n_chunks: int,
        replaced: npt.NDArray[Any],
    ) -> None:
        import h5py

        with h5py.File(filename, "r+") as file:
            raw = file["_version_data/data/raw_data"]
            raw.attrs["chunks"] = raw.chunks
            versions = file.create_group(LATEST)
            versions.create_group("__first_version__").attrs["timestamp"] = TIME
            versions.attrs.update(data_version=4, current_version=f"r{self.n_versions - 1}")
            for number in range(self.n_versions):
                place = np.arange(n_chunks)
                # A version has the older rows of the chunk that the next one changed.
                older = np.arange(number, self.n_versions - 1)[::-1]
                place[replaced[older]] = n_chunks + older
                group = versions.create_group(f"r{number}")
                parent = f"r{number - 1}" if number else "__first_version__"
                group.attrs.update(prev_version=parent, committed=True, timestamp=TIME)
                self._dataset(h5py, group, raw, shape, chunk_rows, place)

    @staticmethod
    def _dataset(
        h5py: Any,
        group: Any,
        raw: Any,
        shape: tuple[int, ...],
        chunk_rows: int,
        place: npt.NDArray[Any],
    ) -> None:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        shown, source = map(h5py.h5s.create_simple, (shape, raw.shape))
        for number, at in enumerate(place.tolist()):
            first = number * chunk_rows
            block = (min(chunk_rows, shape[0] - first), *shape[1:])
            shown.select_hyperslab((first, 0), (1, 1), block=block)
            source.select_hyperslab((at * chunk_rows, 0), (1, 1), block=block)
            created.set_virtual(shown, b".", raw.name.encode(), source)
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(group.id, b"data", raw.id.get_type(), space, created)
        group["data"].attrs.update(raw_data=raw.name, chunks=raw.chunks)


@dataclass(frozen=True)
class RaggedFile:
    """Rows of 0 to some 100 float32, four times: a pair, sequences, a VLArray, and texts.

    Values lie in `/values` with `/offsets`, `/sequences`, `/vlarray` and `/texts`.
    """

    name: str
    n_rows: int
    complevel: int
    seed: int = 0

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return self.n_rows * MEAN_LENGTH * 40 + 2**22

    @property
    def n_values(self) -> int:
        """How many values all rows have."""
        return int(self.lengths().sum())

    def lengths(self) -> npt.NDArray[np.int64]:
        """How long each row is."""
        return np.random.default_rng(self.seed).poisson(MEAN_LENGTH, self.n_rows)

    def write(self, filename: str) -> None:
        """Write all four."""
        import h5py
        import tables

        rng = np.random.default_rng(self.seed + 1)
        ends = np.concatenate([[0], np.cumsum(self.lengths())])
        values = np.round(rng.standard_normal(ends[-1], dtype=np.float32) * 64) / 64
        rows = np.split(values, ends[1:-1])
        with tables.open_file(filename, "w") as file:
            filters = tables.Filters(self.complevel, "zlib") if self.complevel else None
            array = file.create_vlarray("/", "vlarray", tables.Float32Atom(), filters=filters)
            for row in rows:
                array.append(row)
        packed = {"compression": "gzip", "compression_opts": self.complevel, "shuffle": True}
        flat = {"chunks": (min(CHUNK_ELEMENTS, len(values)),), **(packed if self.complevel else {})}
        objects = np.empty(len(rows), object)
        with h5py.File(filename, "r+") as file:
            file.create_dataset("values", data=values, **flat)
            file.create_dataset("offsets", data=ends)
            objects[:] = rows
            kind = h5py.vlen_dtype("<f4")
            file.create_dataset(
                "sequences", data=objects, dtype=kind, chunks=(min(4096, self.n_rows),)
            )
            objects[:] = [row.tobytes().hex()[: len(row)] for row in rows]
            file.create_dataset(
                "texts", data=objects, dtype=h5py.string_dtype(), chunks=(min(4096, self.n_rows),)
            )


@dataclass(frozen=True)
class SparseFile:
    """A sparse matrix by rows, `/X`, as AnnData stores it: some 50 of 30,000 columns a row."""

    name: str
    n_rows: int
    complevel: int
    seed: int = 0

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file, and a copy of it in another format, may need."""
        return self.n_rows * MEAN_LENGTH * 20 + 2**22

    def write(self, filename: str) -> None:
        """Write values, columns and offsets."""
        import h5py

        rng = np.random.default_rng(self.seed)
        ends = np.concatenate([[0], np.cumsum(rng.poisson(MEAN_LENGTH, self.n_rows))])
        counts = rng.integers(1, 50, ends[-1]).astype("f4")
        columns = rng.integers(0, N_COLUMNS, ends[-1], dtype=np.int32)
        packed = {"compression": "gzip", "compression_opts": self.complevel}
        with h5py.File(filename, "w") as file:
            matrix = file.create_group("X")
            told = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
            matrix.attrs.update({**told, "shape": np.array([self.n_rows, N_COLUMNS])})
            for name, data in (("data", counts), ("indices", columns), ("indptr", ends)):
                chunks = (min(CHUNK_ELEMENTS, len(data)),)
                stored = {"chunks": chunks, **packed} if self.complevel else {"chunks": chunks}
                matrix.create_dataset(name, data=data, **stored)


Special = VirtualCopy | VersionedCopy | RaggedFile | SparseFile


def in_directory(special: Special, directory: str) -> str:
    """The file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    return kept(special, os.path.join(directory, f"{special.name}.h5"), _holds, _write)


def _write(special: Special, filename: str) -> None:
    import h5py

    with whole(special, filename) as part:
        special.write(part)
        with h5py.File(part, "r+") as file:
            file.attrs[MARK] = _told(special)


def _holds(special: Special, filename: str) -> bool:
    import h5py

    with h5py.File(filename) as file:
        return bool(file.attrs.get(MARK) == _told(special))


def _told(special: Special) -> str:
    """What the file was made from, wherever the plain file lies."""
    told = {name: value for name, value in vars(special).items() if name != "plain"}
    return repr(sorted(told.items()))


#: Kinds of virtual datasets.
SHAPES: tuple[str, ...] = ("whole chunks", "odd rows", "tiles")
