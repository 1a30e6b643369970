"""A store that does not exist: the manifest of its objects, and the requests that it would get.

Law
---
1. The library's own writer writes the manifest. Each object has the metadata of one small real
   file, and chunks whose sizes are drawn, one behind the other.
2. Requests are counted by the core's rule (core/crates/engine/src/fetch/coalesce.rs), repeated here
   because the core applies it while it reads. Its limits are the library's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import h5py
import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import Fingerprint, Records, chunks_of
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.metadata import Delegated, Metadata
from _multitables.index.opened.open_files import OpenFile, open_file
from _multitables.index.saved.format import replaced
from _multitables.index.written.saved_index import save_all
from _multitables.remote.access import Access, version_number
from _multitables.remote.options import MAX_GAP_BYTES, MAX_REQUEST_BYTES, StorageOptions

STORE = {"region": "us-east-1"}
#: What lies in a file before its first chunk.
HEAD_BYTES = 4096


class Data(Protocol):
    """The objects of the store."""

    files: int
    chunks_per_file: int
    chunk_rows: int
    row_bytes: int
    stored_share: float
    seed: int


class MadeFile(Delegated):
    """The metadata of a real file, with other chunks."""

    def __init__(self, file: Metadata, chunks: Records) -> None:
        self.file, self._chunks = file, chunks

    def chunks(self, _offset: int) -> Records:
        """Return the chunks of its only dataset."""
        return self._chunks

    def close(self) -> None:
        """Leave the real file open for the next one."""


def made_files(given: Data, real: Metadata) -> Iterator[OpenFile]:
    """Yield the objects, as if they had been opened."""
    storage, random = StorageOptions.of(STORE), np.random.default_rng(given.seed)
    mean = given.chunk_rows * given.row_bytes * given.stored_share
    grid = np.arange(given.chunks_per_file)
    for number in range(given.files):
        sizes = random.integers(int(mean * 0.75), int(mean * 1.25), len(grid), endpoint=True)
        ends = HEAD_BYTES + np.cumsum(sizes)
        name, etag = f"s3://simulated/runs/{number:06}.h5", f'"{number:032x}"'
        access = Access(name, etag, storage)
        of = Fingerprint(0, version_number(etag), int(ends[-1]), 0, access)
        yield OpenFile(name, of, MadeFile(real, chunks_of(grid, ends - sizes, sizes)), name)


def write_manifest(given: Data, folder: Path) -> Path:
    """Write the manifest of all objects."""
    template, manifest = folder / "template.h5", folder / "runs.mtidx"
    rows = given.chunks_per_file * given.chunk_rows
    with h5py.File(template, "w", libver="latest") as file:
        of_chunk = (given.chunk_rows, given.row_bytes)
        shape = (rows, given.row_bytes)
        file.create_dataset("x", shape, "u1", chunks=of_chunk, compression="gzip")
    real = open_file(str(template), OpenOptions(), uses_index=False).metadata
    with replaced(str(manifest)) as out:
        save_all(made_files(given, real), out)
    real.close()
    return manifest


def requests(records: Records, tasks: npt.NDArray[np.int64]) -> int:
    """Count the requests that fetch these chunks: neighbours of one task are fetched together."""
    if not len(records):
        return 0
    begins = records["byte_offset"].astype(np.int64)
    ends = begins + records["stored_size"].astype(np.int64)
    gaps = begins[1:] - ends[:-1]
    same = (tasks[1:] == tasks[:-1]) & (records["source"][1:] == records["source"][:-1])
    near = np.flatnonzero(same & (gaps >= 0) & (gaps <= MAX_GAP_BYTES)) + 1
    merged, last, run_begin = 0, -1, 0
    for at in near.tolist():
        if last != at - 1:
            run_begin = begins[at - 1]
        last = at
        if ends[at] - run_begin <= MAX_REQUEST_BYTES:
            merged += 1
        else:
            run_begin = begins[at]
    return len(records) - merged
