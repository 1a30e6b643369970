"""The readers of a stream: threads of this process, or processes.

Law
---
1. What a library or a plugin reads always has processes.
2. Where the user leaves it open, threads read what is little, and what the page cache has without a
   filter: that takes less time than processes need to begin. Everything else has processes, whose
   end harms nobody; but threads where no process can be started.
3. Of a store more is little: this process has a client and connections already, which each process
   would make first. Of much, processes send more requests than one can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from _multitables import machine, sizes
from _multitables.errors import ReaderDiedError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.files import device
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.readers.threads import Threads
from _multitables.plan.reader_options import ReaderCount

#: Places of a dataset that are looked for in the page cache, at most.
LOOKS = 8


def readers_for(
    pool: ReaderPool, indexes: Sequence[ChunkIndex], waits: bool, wanted: ReaderCount
) -> Readers | Threads:
    """Return who reads some datasets; `waits`: reads go around the page cache, or take turns."""
    native = not any(index.why_library(READERS_FILTERS) for index in indexes)
    if wanted.threads is False or not native:
        return pool.take(wanted.count)
    is_remote = any(index.is_remote for index in indexes)
    n_bytes = sum(index.n_rows * index.decoded_row_bytes for index in indexes)
    is_cached = not (waits or is_remote) and all(_is_cached(index) for index in indexes)
    little = sizes.LITTLE_REMOTE_BYTES if is_remote else sizes.LITTLE_DATA_BYTES
    if wanted.threads is None and n_bytes > little:
        plain = not any(one.kind.pipeline for index in indexes for one in (index, *index.shown))
        if not (is_cached and plain) and _starts_processes():
            return pool.take(wanted.count)
    here = is_cached and n_bytes <= sizes.HERE_BYTES
    return Threads(1 if here else wanted.count, pool.library_timeout_seconds, here)


def _is_cached(index: ChunkIndex) -> bool:
    """Say whether the page cache seems to have what is stored of a dataset."""
    return all(_is_cached(one) for one in index.shown) and all(
        device.is_cached(filename, offsets) for filename, offsets in _places(index)
    )


def _places(index: ChunkIndex) -> Iterator[tuple[str, list[int]]]:
    """Some places in each file at which a dataset has stored bytes."""
    n_chunks = len(index.chunks)
    if not n_chunks or index.inline:
        return
    chosen = [at * (n_chunks - 1) // (LOOKS - 1) for at in range(LOOKS)] if n_chunks > 1 else [0]
    places: dict[str, list[int]] = {}
    for chunk in index.chunks[list(dict.fromkeys(chosen))]:
        name = index.files[chunk["source"]].filename
        begin, size = int(chunk["byte_offset"]), int(chunk["stored_size"])
        looks = LOOKS if n_chunks == 1 and size > sizes.PIECE_BYTES else 1
        places.setdefault(name, []).extend(begin + size * look // looks for look in range(looks))
    yield from places.items()


def _starts_processes() -> bool:
    try:
        machine.python_program()
    except ReaderDiedError:
        return False
    return True
