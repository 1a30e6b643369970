"""Streams of little data, whose rings hold all of it.

Law
---
1. Plain datasets of one file and one length, or a field of them, in the order of the file: the core
   goes from their object headers to a ring for all of their rows in one call.
2. The least is read on the caller's own thread before the first block is taken, and is a stream
   from here only if all its blocks were read. For anything else, such as damaged data, the usual
   stream is started, and reports what is wrong. What takes longer to decode is read by threads.
3. The index and the plan are made when they are first used: few streams use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from _multitables import _core, sizes
from _multitables.index.chunk_index import SourceFile
from _multitables.index.datasets.described import DescribedDataset, StoredField
from _multitables.index.datasets.source import Source
from _multitables.index.files import device
from _multitables.index.opened.open_files import OpenFile
from _multitables.index.types.element_type import FieldType
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
from _multitables.tree import Structure, structure_of


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
    if spec.file.is_several or not options.is_plain:
        return None
    if is_remote(spec.file.names[0]):
        return None  # to open an object twice takes a request more
    if options.block_size is not None and options.block_size > sizes.HERE_BYTES:
        return None  # perhaps more than memory has
    is_changed = spec.inner is not None or spec.casts is not None
    if is_changed or spec.version is not None or spec.rotational:
        return None
    structure, paths = structure_of(spec.path)
    if not all(type(path) is str for path in paths):
        return None  # ragged rows
    with spec.file.open() as source:
        fields = list[StoredField]()
        for path in paths:
            found = source.stored_field(path, spec.field)
            if found is None or not _is_read(found.dataset.stored):
                return None
            fields.append(found)
            if found.dataset.place.file is not fields[0].dataset.place.file:
                return None
        if spec.rotational is None and _rotates(fields[0].dataset.place.file):
            return None
        return _stream(pool, source, fields, structure, options)


def _is_read(stored: _core.StoredDataset) -> bool:
    """Whether the core has all filters of a dataset."""
    filters = stored.filters
    return not filters or _core.native_filters().keys() >= {one[0] for one in filters}


def _described(dataset: DescribedDataset, part: FieldType) -> tuple[Any, ...]:
    """Return a field as the core takes it."""
    dtype = part.element.dtype
    return dataset.stored, part.for_table, dtype.base, part.leading_dims + dtype.shape


def _rotates(file: OpenFile) -> bool:
    return device.number_rotates(file.fingerprint.device)


def _stream(
    pool: ReaderPool,
    source: Source,
    fields: Sequence[StoredField],
    structure: Structure,
    options: StreamOptions,
) -> StreamQueue | None:
    file = fields[0].dataset.place.file
    if file.fingerprint.opened is None:
        return None
    made = _core.whole_ring(
        [_described(*one) for one in fields],
        structure.keys,
        file.fingerprint.opened,
        SourceFile(file.filename, file.fingerprint).for_table(),
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
        planned = plan_reads(
            [source.index_of(*one) for one in zip(fields, chunks, strict=True)],
            block_rows=size,
            n_readers=n_threads or 1,
            remainder=options.remainder,
            native_filters=READERS_FILTERS,
        )
        # Each is mapped twice.
        tapes = (Tape(number, twice // 2) for number, (_, twice) in enumerate(ring.memory()))
        return replace(planned, tapes=tuple(tapes), tasks=tasks.view(TASK))

    if not n_threads:
        return StreamQueue(RingBlocks(ring, _DONE, plan, size, _nobody, {}))
    threads = Threads(n_threads, pool.library_timeout_seconds, False)
    threads.assign(ring)
    end = partial(pool.give_back(), threads)
    return StreamQueue(RingBlocks(ring, threads, plan, size, end, {}))


def _nobody(_sound: bool) -> None:
    """No reader is to be ended."""
