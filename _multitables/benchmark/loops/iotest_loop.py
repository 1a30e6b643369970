"""The loops of the parameterised I/O test: writing, and reading in the shares of a grid of ranks.

Law
---
1. One H5Dwrite and one H5Dread for each step, array and rank, steps outside, arrays inside. Values
   are made and compared outside the clock.
2. Processes stand for ranks. Each has loaded its library and read a block before all are told to
   start. Without MPI one process writes the blocks of all ranks.
3. This library delivers the same blocks in the same order through the open file, with one call for
   several arrays of a step that lie in one dataset.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from . import ranks, refusals
from .iotest_grid import ITEM_BYTES, Grid
from .shell import Clock, Loop

#: At least one array, and as many as fit these bytes, come with one call of this library.
BAND_BYTES = 1 << 20
CORE_STEP_BYTES = 64 << 20
SPLIT = ("-m.h5", "-r.h5")


# ---- HDF5, as published


class Hdf5:
    """How h5py opens the file of a request; `comm` is MPI's communicator where ranks share it."""

    def __init__(self, asked: dict[str, Any], comm: Any = None) -> None:
        self.h5py = importlib.import_module("h5py")
        self.asked = asked
        self.grid = Grid.of(asked)
        self.comm = comm
        self.transfer = self.h5py.h5p.create(self.h5py.h5p.DATASET_XFER)
        if comm is not None and asked["collective"]:
            self.transfer.set_dxpl_mpio(self.h5py.h5fd.MPIO_COLLECTIVE)

    def open(self, mode: str) -> Any:
        """The file."""
        asked, driver = self.asked, self.asked["driver"]
        names = importlib.import_module("h5py._hl.files").libver_dict
        bounds = [name if name in names else "latest" for name in asked["libver"]]
        options: dict[str, Any] = {"libver": tuple(bounds)}
        if self.comm is not None:
            options |= {"driver": "mpio", "comm": self.comm}
        elif driver == "core":
            options |= {"driver": driver, "block_size": CORE_STEP_BYTES, "backing_store": True}
        elif driver == "split":
            meta, raw = (ending.encode() for ending in SPLIT)
            options |= {"driver": driver, "meta_ext": meta, "raw_ext": raw}
        if asked["alignment"][1] > 1:
            threshold, interval = asked["alignment"]
            options |= {"alignment_threshold": threshold, "alignment_interval": interval}
        if asked["meta_block_size"] != 2048:  # HDF5's own
            options["meta_block_size"] = asked["meta_block_size"]
        return self.h5py.File(asked["filename"], mode, **options)

    def create(self, file: Any, path: str) -> Any:
        """A dataset, and the groups above it."""
        h5d, asked = self.h5py.h5d, self.asked
        stored = self.h5py.h5p.create(self.h5py.h5p.DATASET_CREATE)
        stored.set_fill_time(h5d.FILL_TIME_ALLOC if asked["fill"] else h5d.FILL_TIME_NEVER)
        filters: dict[str, Any] = {}
        if asked["gzip"]:
            filters = {"compression": "gzip", "compression_opts": asked["gzip"]}
        elif asked["szip"]:
            self._need_szip()
            mask, pixels = asked["szip"].split(",")
            filters = {"compression": "szip", "compression_opts": (mask, int(pixels))}
        else:
            stored.set_alloc_time(h5d.ALLOC_TIME_EARLY)  # as MPI-IO always has it
        grid = self.grid
        made = file.create_dataset(
            path,
            grid.shape,
            np.float64,
            maxshape=grid.maxshape,
            chunks=grid.chunks,
            track_times=True,
            dcpl=stored,
            **filters,
        )
        return made.id

    def _need_szip(self) -> None:
        h5z = self.h5py.h5z
        found = h5z.filter_avail(h5z.FILTER_SZIP) and h5z.get_filter_info(h5z.FILTER_SZIP)
        if not found & h5z.FILTER_CONFIG_ENCODE_ENABLED:
            raise refusals.CannotReadError("its HDF5 cannot encode szip")

    def select(self, dataset: Any, rank: int, step: int, array: int) -> Any:
        """The block of a rank in a dataset."""
        grid, space = self.grid, dataset.get_space()
        start = (*grid.place(step, array), *grid.origin(rank))
        count = (*[1] * (len(start) - 2), grid.rows, grid.columns)
        space.select_hyperslab(start, count)
        return space

    def write(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Write the blocks of some ranks; returns the seconds of the phase and its parts."""
        grid, native = self.grid, self.h5py.h5t.NATIVE_DOUBLE
        bases = {rank: grid.base(rank) for rank in numbers}
        block = np.ones((grid.rows, grid.columns))
        memory = self.h5py.h5s.create_simple(block.shape)
        phase, opened, created, valued = Clock(), Clock(), Clock(), Clock()
        wrote = {rank: Clock() for rank in numbers}
        dataset: Any = None
        path = ""
        with phase:
            with opened:
                file = self.open("w")
            for step in range(grid.steps):
                for array in range(grid.arrays):
                    if path != (path := grid.path(step, array)):
                        dataset = None  # closed before the next one is opened
                        is_new = not (grid.dataset_rank == 3 and not grid.by_step and step)
                        with created:
                            dataset = self.create(file, path) if is_new else file[path].id
                    for rank in numbers:
                        with valued:
                            grid.values(bases[rank], step, array, block)
                        space = self.select(dataset, rank, step, array)
                        with wrote[rank]:
                            dataset.write(memory, space, block, native, self.transfer)
            dataset = None
            file.close()
        return {
            "phase": phase.seconds - valued.seconds,
            "opened": opened.seconds,
            "created": created.seconds,
            "each": [one.seconds for one in wrote.values()],
        }

    def read(self, rank: int, compares: bool, steps: int, arrays: int) -> dict[str, Any]:
        """Read a rank's blocks of the first steps and arrays."""
        grid, native = self.grid, self.h5py.h5t.NATIVE_DOUBLE
        base, block = grid.base(rank), np.ones((grid.rows, grid.columns))
        memory = self.h5py.h5s.create_simple(block.shape)
        phase, clock = Clock(), Clock()
        dataset: Any = None
        path, n = "", 0
        with phase:
            file = self.open("r")
            for step in range(steps):
                for array in range(arrays):
                    if path != (path := grid.path(step, array)):
                        dataset = None
                        dataset = file[path].id
                    space = self.select(dataset, rank, step, array)
                    with clock:
                        dataset.read(memory, space, block, native, self.transfer)
                    n += block.size
                    if compares:
                        grid.compare(block, base, rank, step, array)
            dataset = None
            file.close()
        return {"phase": phase.seconds, "read": clock.seconds, "n": n}


# ---- this library


def read_ours(
    library: Any, asked: dict[str, Any], rank: int, compares: bool, steps: int, arrays: int
) -> dict[str, Any]:
    """Read a rank's blocks of the first steps and arrays through the open file."""
    grid = Grid.of(asked)
    base, (row, column) = grid.base(rank), grid.origin(rank)
    part = (slice(row, row + grid.rows), slice(column, column + grid.columns))
    fits = max(1, BAND_BYTES // (grid.rows * grid.columns * ITEM_BYTES))
    band = min(arrays, fits) if grid.has_arrays_in_one else 1
    room = np.ones((band, grid.rows, grid.columns))
    phase, clock, n = Clock(), Clock(), 0
    with phase, library.open(asked["filename"], n_threads=1) as file:
        dataset_of = functools.cache(file.__getitem__)
        for step in range(steps):
            for first in range(0, arrays, band):
                dataset, last = dataset_of(grid.path(step, first)), min(first + band, arrays)
                which: Any = slice(first, last) if grid.has_arrays_in_one else first
                found = room[: last - first] if grid.has_arrays_in_one else room[0]
                with clock:
                    dataset.read_direct(found, (*grid.place(step, which), *part))
                n += found.size
                if compares:
                    blocks = found if grid.has_arrays_in_one else [found]
                    for array, block in enumerate(blocks, first):
                        grid.compare(block, base, rank, step, array)
    return {"phase": phase.seconds, "read": clock.seconds, "n": n}


# ---- processes that stand for ranks

#: Reads a rank's blocks of the first steps and arrays, and compares them where told.
Read = Callable[[int, bool, int, int], dict[str, Any]]


def be_rank(read: Read, asked: dict[str, Any], pipe: Connection, rank: int) -> None:
    """Be a rank: read a block to be ready, then all at every word; ``"check"`` compares."""
    read(rank, True, 1, 1)
    whole = (asked["steps"], asked["arrays"])
    ranks.serve(pipe, lambda word: read(rank, word == "check", *whole))


def by_processes(read: Read, asked: dict[str, Any]) -> dict[str, Any]:
    """What a process for each rank says of its read, and the seconds until all are done."""
    n_ranks = asked["process_rows"] * asked["process_columns"]
    be = functools.partial(be_rank, read, asked)
    with ranks.forked(n_ranks, be) as processes, Clock() as wall:
        found = processes.ask(asked["verb"])
    return {**together(found), "wall": wall.seconds}


def together(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answers of all ranks as lists, and the elements that they read."""
    return {
        "phase": [one["phase"] for one in found],
        "each": [one["read"] for one in found],
        "n": sum(one["n"] for one in found),
    }


def file_bytes(asked: dict[str, Any]) -> int:
    """The size of the file, or of both files."""
    name = asked["filename"]
    names = [name + end for end in SPLIT] if asked["driver"] == "split" else [name]
    return sum(map(os.path.getsize, names))


def written(asked: dict[str, Any]) -> dict[str, Any]:
    """Write the file in this process."""
    hdf5 = Hdf5(asked)
    found = hdf5.write(range(hdf5.grid.n_ranks))
    for name in ("phase", "opened", "created"):
        found[name] = [found[name]]
    return {**found, "fsize": file_bytes(asked)}


def read_all(library: Any, asked: dict[str, Any]) -> Any:
    """Read the file; as published, when it was written."""
    if asked["recipe"] == "ours":
        return {"read": by_processes(functools.partial(read_ours, library, asked), asked)}
    return {"write": written(asked), "read": by_processes(Hdf5(asked).read, asked)}


def write(_library: Any, asked: dict[str, Any]) -> Any:
    """Write the file only."""
    return {"write": written(asked)}


LOOP = Loop({"check": read_all, "time": read_all, "write": write})
