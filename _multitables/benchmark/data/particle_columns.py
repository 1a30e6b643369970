"""Files as a particle-physics experiment keeps events: tables as groups, a dataset for each column.

Law
---
1. The same value gives the same datasets. A column is made by itself, so an oracle needs no file.
2. Every table has ``evt.seq``, the number of the spill in the file, which never falls. Columns have
   the shape (n, 1).
3. Weights and POT are small multiples of a power of two: their sums are exact in any order.

The schema is that of the published analysis: 123 datasets of 15 tables. With 410,679 spills they
have about 1.2 GB, as the sample of 165 files.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.benchmark.data.workloads import kept, whole

KEY = "evt.seq"
MARK = "made_from"
SAMPLE_SPILLS = 410_679
SUBRUN_SPILLS = 2489
CHUNK_ROWS = 256 * 1024
SMALL_CHUNK_ROWS = 128
STORAGES = ("gzip", "contiguous", "small-chunks")
#: Columns that say to which slice of which event a row belongs; spills have no slices.
INDEX = {"run": "<u4", "subrun": "<u4", "cycle": "<i4", "evt": "<u4", "subevt": "<u2"}
SPILL_INDEX = ("run", "subrun", "evt")
SLICES_PER_SPILL = 5.0
PRONGS_PER_SLICE = 2.6
#: Tables with another number of rows than one for each slice, by rows for each slice.
RAGGED = {
    "rec.vtx.elastic.fuzzyk.png.shwlid": PRONGS_PER_SLICE,
    "rec.trk.kalman.tracks": PRONGS_PER_SLICE,
    "rec.mc.nu": 0.0,
}
#: table -> its values: what they are, and a scale.
TABLES: dict[str, dict[str, tuple[str, float]]] = {
    "rec.energy.numu": {
        "trkccE": ("size", 2.2),
        **dict.fromkeys(("calccE", "angleE", "hadcalE", "hadtrkE", "ndhadE"), ("size", 1.5)),
        "ntracks": ("count", 2),
    },
    "rec.vtx.elastic.fuzzyk.png.shwlid": {
        **dict.fromkeys(("length", "gap", "width", "calE", "dedx"), ("size", 60)),
        "nhit": ("count", 20),
    },
    "rec.slc": {
        "calE": ("size", 1.8),
        **dict.fromkeys(("nhit", "ncontplanes", "firstplane", "lastplane"), ("count", 30)),
    },
    "rec.sel.contain": dict.fromkeys(("front", "back", "kalyposattrans"), ("count", 8)),
    "rec.sel.cvn": dict.fromkeys(("numuid", "nueid", "ncid"), ("part", 1)),
    "rec.trk.kalman.tracks": {"len": ("size", 90), "nhit": ("count", 25)},
    "rec.sel.remid": {"pid": ("part", 1)},
    "rec.sel.cosrej": {"numucontpid": ("part", 1)},
    "rec.hdr": {"ishealthy": ("count", 1)},
    "rec.trk.kalman": {"ntracks": ("count", 2)},
    "rec.trk.cosmic": {"ntracks": ("count", 1)},
    "rec.vtx.elastic": {"npng": ("count", 3)},
    "rec.weight": {"xsec": ("weight", 1)},
    "rec.mc.nu": {"E": ("size", 2)},
    "spill": {"spillpot": ("pot", 1)},
}


def index_of(table: str) -> tuple[str, ...]:
    """The names of a table's index columns, without the key."""
    return SPILL_INDEX if table == "spill" else tuple(INDEX)


def columns_of(table: str) -> tuple[str, ...]:
    """The names of a table's columns, without the key."""
    return (*index_of(table), *TABLES[table])


@dataclass(frozen=True)
class ParticleFile:
    """One file.

    Attributes
    ----------
    name : str
    n_spills : int
    storage : str
        Of `STORAGES`.
    first_spill : int
        Those of the files before it.
    """

    name: str
    n_spills: int
    storage: str = STORAGES[0]
    first_spill: int = 0
    seed: int = 0

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        times = 3 if self.storage == "small-chunks" else 1
        return self.n_spills * 4000 * times + 2**24

    @property
    def decoded_bytes(self) -> int:
        """Bytes of all columns but the keys."""
        return sum(
            len(self.rows(table)[0]) * self.column_bytes(table, name)
            for table in TABLES
            for name in columns_of(table)
        )

    @staticmethod
    def column_bytes(table: str, name: str) -> int:
        """Bytes of a value."""
        return np.dtype(INDEX[name]).itemsize if name in index_of(table) else 4

    def random(self, *words: str) -> np.random.Generator:
        """The random numbers of something."""
        return np.random.default_rng(
            (self.seed, self.first_spill, *(zlib.crc32(word.encode()) for word in words))
        )

    def rows(self, table: str) -> tuple[Any, Any]:
        """The spill and the slice of each row."""
        return _rows(self.n_spills, self.first_spill, self.seed, table)

    def column(self, table: str, name: str) -> Any:
        """The values of one column."""
        spills, slices = self.rows(table)
        if name == KEY:
            return spills
        if name in index_of(table):
            return self._index(name, spills, slices).astype(INDEX[name])
        kind, scale = TABLES[table][name]
        random, n = self.random(table, name), len(spills)
        if kind == "count":
            return random.poisson(scale, n).astype("<i4")
        if kind == "size":
            return (np.round(random.gamma(2.0, scale / 2, n) * 128) / 128).astype("<f4")
        if kind == "part":
            return (np.round(random.beta(0.6, 0.4, n) * 256) / 256).astype("<f4")
        if kind == "weight":
            return (random.integers(128, 384, n) / 256).astype("<f4")
        return (random.integers(8_000_000, 12_000_000, n) * 2.0**22).astype("<f4")

    def _index(self, name: str, spills: Any, slices: Any) -> Any:
        spill = self.first_spill + spills
        subrun = spill // SUBRUN_SPILLS
        return {
            "run": 10_000 + subrun // 64,
            "subrun": subrun % 64,
            "cycle": np.zeros_like(spill),
            "evt": spill % SUBRUN_SPILLS,
            "subevt": slices,
        }[name]

    def write(self, filename: str) -> None:
        """Write the file."""
        import h5py

        with h5py.File(filename, "w") as file:
            file.attrs[MARK] = repr(self)
            for table in TABLES:
                for name in (KEY, *columns_of(table)):
                    values = self.column(table, name)[:, np.newaxis]
                    _write(file.require_group(table), name, values, self.storage)


@functools.lru_cache(maxsize=32)
def _rows(n_spills: int, first_spill: int, seed: int, table: str) -> tuple[Any, Any]:
    every = np.arange(n_spills)
    if table == "spill":
        return every, np.zeros_like(every)
    made = ParticleFile("", n_spills, first_spill=first_spill, seed=seed)
    if table in RAGGED:
        spills, slices = _rows(n_spills, first_spill, seed, "slices")
        counts = made.random(table).poisson(RAGGED[table], len(spills))
        return np.repeat(spills, counts), np.repeat(slices, counts)
    if table != "slices":
        return _rows(n_spills, first_spill, seed, "slices")
    counts = made.random("slices").poisson(SLICES_PER_SPILL, n_spills)
    spills = np.repeat(every, counts)
    return spills, np.arange(len(spills)) - np.repeat(np.cumsum(counts) - counts, counts)


def _write(group: Any, name: str, values: Any, storage: str) -> None:
    """Write a column by the rules of the experiment's tool for merging files."""
    import h5py

    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    rows = len(values)
    longest = values.shape
    if rows == 0:
        made.set_layout(h5py.h5d.COMPACT)
    elif storage == "contiguous":
        made.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    else:
        chunk_rows = CHUNK_ROWS if storage == "gzip" else SMALL_CHUNK_ROWS
        made.set_chunk((min(rows, chunk_rows), 1))
        longest = (h5py.h5s.UNLIMITED, 1)
        made.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        if storage == "gzip":
            if name == KEY:
                made.set_shuffle()
            made.set_deflate(6)
    made.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(values.shape, longest)
    kind = h5py.h5t.py_create(values.dtype)
    dataset = h5py.h5d.create(group.id, name.encode(), kind, space, made)
    if rows:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values))


def files(n_spills: int, n_files: int, storage: str, seed: int = 0) -> list[ParticleFile]:
    """The spills over some files, as evenly as that goes."""
    ends = [n_spills * number // n_files for number in range(n_files + 1)]
    return [
        ParticleFile(
            f"particles_{storage}_{n_spills}_{number}of{n_files}_{seed}",
            ends[number + 1] - ends[number],
            storage,
            ends[number],
            seed,
        )
        for number in range(n_files)
    ]


def in_directory(made: ParticleFile, directory: str) -> str:
    """The file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    return kept(made, os.path.join(directory, f"{made.name}.h5"), _holds, _write_whole)


def _write_whole(made: ParticleFile, filename: str) -> None:
    with whole(made, filename) as part:
        made.write(part)


def _holds(made: ParticleFile, filename: str) -> bool:
    import h5py

    try:
        with h5py.File(filename, "r") as file:
            return bool(file.attrs.get(MARK) == repr(made))
    except OSError:
        return False


def schema() -> Mapping[str, list[str]]:
    """All columns of all tables, without the key."""
    return {table: list(columns_of(table)) for table in TABLES}
