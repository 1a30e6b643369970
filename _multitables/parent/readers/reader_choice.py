"""Who reads: threads of this process, or processes; of a request, also who waits for it.

Law
---
1. What a library or a plugin reads always has processes.
2. Where the user leaves it open, threads read what is little, and what the page cache has without a
   filter: that takes less time than processes need to begin. Everything else has processes, whose
   end harms nobody; but threads where no process can be started.
3. Of a store more is little: this process has a client and connections already, which each process
   would make first. Of much, processes send more requests than one can.
4. Who waits for an answer gives it where that is a copy, or little to do (request_threads.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from _multitables import _core, machine, sizes
from _multitables.errors import ReaderDiedError
from _multitables.index.chunk_index import ChunkIndex, SourceFile
from _multitables.index.datasets.survey import ALONE, Survey
from _multitables.index.files import device
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.request_threads import Answers
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
        is_plain = all(map(_is_plain, indexes))
        if not (is_cached and is_plain) and _starts_processes():
            return pool.take(wanted.count)
    here = is_cached and n_bytes <= sizes.HERE_BYTES
    return Threads(1 if here else wanted.count, pool.library_timeout_seconds, here)


def who_answers(index: ChunkIndex, waits: bool, wanted: ReaderCount) -> Answers:
    """Return who answers requests for a dataset; `waits` as in `readers_for`."""
    if wanted.threads is False or index.is_remote or index.why_library(_core.native_filters()):
        return Answers.PROCESSES
    n_bytes = index.n_rows * index.decoded_row_bytes
    if n_bytes <= sizes.HERE_BYTES and not waits:
        return Answers.CALLER
    is_copied = not waits and _is_plain(index) and _is_cached(index)
    is_little = n_bytes <= sizes.LITTLE_DATA_BYTES
    if not (wanted.threads or is_little or is_copied) and _starts_processes():
        return Answers.PROCESSES
    return Answers.CALLER if is_copied and n_bytes <= _core.HELP_BYTES else Answers.THREADS


def who_answers_items(
    survey: Survey, item_bytes: Sequence[int], direct: bool, wanted: ReaderCount
) -> Answers:
    """Return who answers requests for the items of a collection, in the same way."""
    filters = {one.id for kind in survey.kinds for one in kind.pipeline}
    is_native = filters <= _core.native_filters().keys()
    if wanted.threads is False or survey.is_remote or not is_native:
        return Answers.PROCESSES
    is_simple = not direct and ALONE not in survey.kind
    is_cached = is_simple and _are_cached(survey)
    n_bytes = sum(item_bytes)
    is_little = is_simple and n_bytes <= sizes.LITTLE_DATA_BYTES
    if not (wanted.threads or is_little or (is_cached and not filters)):
        return Answers.PROCESSES
    is_quick = not filters or n_bytes <= sizes.HERE_BYTES
    is_quick &= is_cached and max(item_bytes) <= sizes.TAKEN_BYTES
    return Answers.CALLER if is_quick else Answers.THREADS


def _is_plain(index: ChunkIndex) -> bool:
    """Say whether a dataset, and what it shows of others, has no filter."""
    return not any(one.kind.pipeline for one in (index, *index.shown))


def _is_cached(index: ChunkIndex) -> bool:
    """Say whether the page cache seems to have what is stored of a dataset."""
    return all(_is_cached(one) for one in index.shown) and all(
        device.is_cached(file, offsets) for file, offsets in _places(index)
    )


def _are_cached(survey: Survey) -> bool:
    """Say whether the page cache seems to have what is stored of datasets of one file."""
    if len(survey.files) > 1:
        return False
    chunks = survey.core.chunks["byte_offset"]
    looked = chunks[:: max(1, len(chunks) // LOOKS)].tolist()
    return device.is_cached(survey.files[0], looked)


def _places(index: ChunkIndex) -> Iterator[tuple[SourceFile, list[int]]]:
    """Some places in each file at which a dataset has stored bytes."""
    n_chunks = len(index.chunks)
    if not n_chunks or index.inline:
        return
    chosen = [at * (n_chunks - 1) // (LOOKS - 1) for at in range(LOOKS)] if n_chunks > 1 else [0]
    places: dict[SourceFile, list[int]] = {}
    for _, begin, size, _, source in index.chunks[list(dict.fromkeys(chosen))].tolist():
        looks = LOOKS if n_chunks == 1 and size > sizes.PIECE_BYTES else 1
        within = [begin + size * look // looks for look in range(looks)]
        places.setdefault(index.files[source], []).extend(within)
    yield from places.items()


def _starts_processes() -> bool:
    try:
        machine.python_program()
    except ReaderDiedError:
        return False
    return True
