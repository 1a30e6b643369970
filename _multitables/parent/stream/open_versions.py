"""From versions of a dataset to a stream of the chunks that any of them has.

Law
---
1. As open_stream.py. The ring holds the chunks of two blocks, as those of a block are held at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.index.versions.sources import of_versions, stored_chunks
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.stream.open_stream import DataSpec, Opened, opened_of, start_stream
from _multitables.parent.stream.stream_queue import StreamQueue, VersionsQueue
from _multitables.parent.stream.version_blocks import VersionBlocks
from _multitables.plan.dataset_table import dataset_of
from _multitables.plan.reader_options import StreamOptions
from _multitables.plan.shared_chunks import SharedChunks, shared_chunks
from _multitables.plan.stream_plan import ReadPlan, plan_reads
from _multitables.tree import Structure, one_path


def start_versions(pool: ReaderPool, spec: DataSpec, wanted: StreamOptions) -> StreamQueue:
    """Stream several versions of the dataset that `spec.path` names, as `wanted` says."""
    with pool.starting(wanted.n_procs) as readers:
        return _started(pool, wanted, readers, *open_versions(spec, wanted.version))


def _started(
    pool: ReaderPool,
    wanted: StreamOptions,
    readers: Readers | None,
    opened: Opened,
    shared: SharedChunks,
    names: list[str],
) -> StreamQueue:
    def planned(opened: Opened, n_readers: int) -> tuple[ReadPlan, int]:
        rows = shared.chunk_dims[0]
        least = 2 * max(shared.counts, default=0) + 2
        for read_ahead in (wanted.read_ahead, least):
            plan = plan_reads(
                opened.indexes,
                block_rows=rows,
                n_readers=n_readers,
                read_ahead=read_ahead,
                cyclic=wanted.cyclic,
                remainder=True,
                **opened.facts(),
            )
            if plan.capacity_rows >= min(least * rows, plan.end_row):
                break
        return plan, rows

    made = partial(VersionBlocks, shared, names)
    return start_stream(
        pool, wanted.n_procs, opened, planned, readers, made=made, queue=VersionsQueue
    )


def open_versions(spec: DataSpec, wanted: Any) -> tuple[Opened, SharedChunks, list[str]]:
    """Index several versions of the dataset that `spec.path` names; return their names as well.

    Raises
    ------
    UnsupportedDatasetError
        They do not share chunks that the core reads.
    """
    path = one_path(spec.path)
    with spec.file.open() as source:
        versions = of_versions(source, wanted)
        indexes = [version.index(path, spec.field) for version in versions.values()]
        shared = shared_chunks(stored_chunks(source, path, spec.field), indexes)
        opened = opened_of(spec, source, Structure(None), [shared.index])
    # A library would not find the rows, as they are not in the order of any dataset.
    reason = dataset_of(shared.index, False, READERS_FILTERS).reason
    if reason:
        raise UnsupportedDatasetError(
            f"versions of {path!r} in {shared.index.filename!r} cannot be streamed together, as an "
            f"HDF5 library has to read them: {reason}",
            advice="Stream one version after the other",
            path=path,
            filename=shared.index.filename,
        )
    options = {**opened.open_options, "trusted": False}
    return replace(opened, open_options=options), shared, [*versions]
