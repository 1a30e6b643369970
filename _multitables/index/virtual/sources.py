"""The sources of virtual datasets: found as HDF5 finds them, and indexed.

Law
---
1. Each file is opened once for a virtual dataset, and closed when its datasets are indexed.
2. A file or a dataset that is missing is no source: its elements are the fill value. One that is
   damaged is an error, which names it.
3. A library gets no more blocks of hyperslabs than it survives.
4. HDF5 would show the fill value for objects of a store, so no library reads such a dataset.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from _multitables._core import Mappings
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.opened.open_files import Lost, OpenFile, OpenFiles, Place
from _multitables.index.types import hdf5_errors

#: Of all hyperslabs: HDF5 has a structure for each, and crashes where they are many.
MAX_BLOCKS = 1 << 21


@contextlib.contextmanager
def source_of(
    files: OpenFiles, home: OpenFile, name: tuple[bytes, bytes]
) -> Iterator[Place | None]:
    """Find a source of a virtual dataset in `home`, for a while; None: it is missing."""
    with files.source(home, os.fsdecode(name[0])) as file:
        found: Place | Lost = Lost()
        if file is not None:
            found = files.look(_text(name[1]), Place(file, file.metadata.root, "/"))
        yield None if isinstance(found, Lost) else found


def sources_of(
    files: OpenFiles,
    home: OpenFile,
    mappings: Mappings,
    index_of: Callable[[Place], ChunkIndex],
) -> list[ChunkIndex | None]:
    """Index the sources of a virtual dataset in `home`, one for each name; None: it is missing."""
    found: list[ChunkIndex | None] = [None] * len(mappings.names)
    by_file: dict[bytes, list[int]] = {}
    for number, (name, _) in enumerate(mappings.names):
        by_file.setdefault(name, []).append(number)
    for name, numbers in by_file.items():
        with files.source(home, os.fsdecode(name)) as file:
            if file is None:
                continue
            root = Place(file, file.metadata.root, "/")
            for number in numbers:
                place = files.look(_text(mappings.names[number][1]), root)
                if not isinstance(place, Lost):
                    found[number] = index_of(place)
    return found


def for_library(
    index: ChunkIndex, mappings: Mappings, sources: Sequence[ChunkIndex | None], reason: str
) -> ChunkIndex:
    """Return a virtual dataset as one that a library reads, if HDF5 finds its sources."""
    if (n_blocks := mappings.n_blocks) > MAX_BLOCKS:
        raise hdf5_errors.too_many_blocks(index.filename, index.path, n_blocks, MAX_BLOCKS)
    if any(one is not None and one.is_remote for one in (index, *sources)):
        raise hdf5_errors.unsupported("not_alone", index.filename, index.path, reason)
    return index.by_library(reason)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
