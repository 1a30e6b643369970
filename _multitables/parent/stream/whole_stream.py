"""Streams of little data, whose rings hold all of it.

Law
---
1. One plain dataset, or a field, in the order of the file: the core goes from its object header
   to a ring for all of its rows in one call.
2. The least is read on the caller's own thread before the first block is taken, and is a stream
   from here only if all its blocks were read. For anything else, such as damaged data, the usual
   stream is started, and reports what is wrong. What takes longer to decode is read by threads.
3. The index and the plan are made when they are first used: few streams use them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from _multitables import _core, sizes
from _multitables.index.chunk_index import SourceFile
from _multitables.index.datasets.described import StoredField
from _multitables.index.datasets.source import Source
from _multitables.index.files import device
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.threads import Threads
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.parent.stream.ring_blocks import RingBlocks
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.plan.reader_options import StreamOptions
from _multitables.plan.ring_size import Tape
from _multitables.plan.stream_plan import ReadPlan, plan_reads
from _multitables.plan.tasks import TASK
from _multitables.remote.names import is_remote


class _Done:
    """The reader of a stream that is read."""

    replaced = 0

    def watch(self) -> Death | None:
        """None: there is no process that can die."""
        return None


_DONE = _Done()


def whole_stream(pool: ReaderPool, spec: DataSpec, options: StreamOptions) -> StreamQueue | None:
    """Return a stream of little data, or None: it is more, or is not read like this.

    Raises
    ------
    MultitablesError
        The file cannot be opened, or there is no such dataset or field.
    """
    if type(spec.path) is not str or spec.file.is_several or not options.is_plain:
        return None
    if is_remote(spec.file.names[0]):
        return None  # to open an object twice takes a request more
    if options.block_size is not None and options.block_size > sizes.HERE_BYTES:
        return None  # perhaps more than memory has
    is_changed = spec.inner is not None or spec.casts is not None
    if is_changed or spec.version is not None or spec.rotational:
        return None
    with spec.file.open() as source:
        stored = source.stored_field(spec.path, spec.field)
        if stored is None or (spec.rotational is None and _rotates(stored)):
            return None
        filters = stored.dataset.stored.filters
        if filters and not _core.native_filters().keys() >= {one[0] for one in filters}:
            return None
        return _stream(pool, source, stored, options)


def _rotates(stored: StoredField) -> bool:
    return device.number_rotates(stored.dataset.place.file.fingerprint.device)


def _stream(
    pool: ReaderPool, source: Source, stored: StoredField, options: StreamOptions
) -> StreamQueue | None:
    file, element = stored.dataset.place.file, stored.part.element
    if file.fingerprint.opened is None:
        return None
    made = _core.whole_ring(
        stored.dataset.stored,
        file.fingerprint.opened,
        SourceFile(file.filename, file.fingerprint).for_table(),
        delivered=stored.part.for_table,
        dtype=element.dtype.base,
        inner=stored.part.leading_dims + element.dtype.shape,
        block_rows=options.block_size,
        unchunked_bytes=sizes.UNCHUNKED_BLOCK_BYTES,
        remainder=options.remainder,
        most_bytes=(sizes.WHOLE_BYTES, sizes.HERE_BYTES),
        n_readers=options.n_procs.count,
    )
    if made is None:
        return None
    ring, size, n_threads = made

    def plan() -> ReadPlan:
        tasks, chunks = ring.planned()
        ((_, twice_bytes),) = ring.memory()
        planned = plan_reads(
            [source.index_of(stored, chunks)],
            block_rows=size,
            n_readers=n_threads or 1,
            remainder=options.remainder,
            native_filters=READERS_FILTERS,
        )
        tapes = (Tape(0, twice_bytes // 2),)  # it is mapped twice
        return replace(planned, tapes=tapes, tasks=tasks.view(TASK))

    if not n_threads:
        return StreamQueue(RingBlocks(ring, _DONE, plan, size, _nobody, {}))
    threads = Threads(n_threads, pool.library_timeout_seconds, False)
    threads.assign(ring)
    end = partial(pool.give_back(), threads)
    return StreamQueue(RingBlocks(ring, threads, plan, size, end, {}))


def _nobody(_sound: bool) -> None:
    """No reader is to be ended."""
