"""From options to a stream: of rows of one size, ragged ones, versions, or growing data.

Law
---
1. Which kind of stream it is, is decided here alone.
2. Modules of other streams than those of rows of one size are imported when first needed.
"""

from __future__ import annotations

from _multitables.errors import OptionsError, note
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import (
    DataSpec,
    Opened,
    check_one_file,
    data_in,
    has_ragged,
    refuse_casts,
    start_stream,
)
from _multitables.parent.stream.stream_queue import FollowQueue, StreamQueue
from _multitables.parent.stream.whole_stream import whole_stream
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.reader_options import StreamOptions
from _multitables.plan.row_order import laps_in_order
from _multitables.plan.stream_plan import ReadPlan
from _multitables.tree import Joined, structure_of


def start_blocks(
    pool: ReaderPool, spec: DataSpec, wanted: StreamOptions, *, tail_only: bool = False
) -> StreamQueue:
    """Stream what `spec` names as `wanted` says; with `tail_only`, the rows that fill no block."""
    check_one_file(spec.file, "version", wanted.version)
    check_one_file(spec.file, "follow", wanted.follow)
    if wanted.has_versions:
        _check_not_joined(spec, "version", wanted.version)
        if spec.inner is not None:
            raise OptionsError(
                f"inner cannot be given where several versions are streamed, got {spec.inner!r}",
                advice="Select of the blocks, or stream one version after the other",
                option="inner",
                got=spec.inner,
            )
        refuse_casts(spec.casts, "several versions")
        from _multitables.parent.stream.open_versions import start_versions

        return start_versions(pool, spec, wanted)

    if wanted.follow:
        _check_not_joined(spec, "follow", wanted.follow)
        from _multitables.parent.stream.growing_blocks import GrowingBlocks

        return FollowQueue(GrowingBlocks(pool, wanted, spec))

    def planned(opened: Opened, n_readers: int) -> tuple[ReadPlan, int]:
        indexes = opened.indexes
        size = wanted.block_size or indexes[lead_of(indexes)].block_size_default
        order, ranges, laps = laps_in_order(indexes, wanted, size, tail_only)
        plan = plan_batches(
            indexes,
            order=order,
            ranges=ranges,
            batch_size=size,
            n_readers=n_readers,
            epochs=laps,
            lap_blocks=False,
            read_ahead=wanted.read_ahead,
            **opened.facts(),
        )
        return plan, size

    stream = None if tail_only else whole_stream(pool, spec, wanted)
    if stream is not None:
        note("%r is read whole, before its first block is taken", spec.path)
        return stream
    with pool.starting(wanted.n_procs) as readers:
        with spec.file.open() as source:
            if has_ragged(source, spec):
                from _multitables.parent.ragged.start_rows import open_and_start

                return open_and_start(pool, spec, source, wanted, readers, tail_only=tail_only)
            opened = data_in(spec, source)
        return start_stream(pool, wanted.n_procs, opened, planned, readers)


def _check_not_joined(spec: DataSpec, option: str, got: object) -> None:
    """Raise if several datasets are given with an option that takes one."""
    joined = [leaf for leaf in structure_of(spec.path)[1] if isinstance(leaf, Joined)]
    if joined:
        raise OptionsError(
            f"{option}={got!r} cannot be streamed of joined datasets, got {str(joined[0])!r}",
            advice="Stream the datasets one by one",
            option=option,
            got=got,
        )
