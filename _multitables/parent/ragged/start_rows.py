"""From ragged rows and options to a stream that runs.

Law
---
1. Options decide which rows come together; how much is asked for at once is decided here, and
   changes nothing that is delivered.
"""

from __future__ import annotations

from dataclasses import replace

from _multitables import _core, machine, options, sizes
from _multitables.index.chunk_index import ChunkIndex, changed
from _multitables.index.datasets.source import Source
from _multitables.index.files import device
from _multitables.options import checked
from _multitables.parent.ragged.open_rows import OpenedRows, open_rows
from _multitables.parent.ragged.requested_blocks import RequestedBlocks
from _multitables.parent.random.dataset_handle import DatasetHandle, handle_of
from _multitables.parent.random.service import Service
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.parent.stream.stream_queue import RaggedQueue
from _multitables.parent.stream.warnings_of_streams import warn_of_amplification
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.ragged import RaggedPlan
from _multitables.plan.reader_options import BatchOptions, ReaderOptions, StreamOptions
from _multitables.plan.row_order import CHUNKS, FILE_ORDER, FULL, WINDOW, OrderWords, laps_in_order
from _multitables.plan.sharding import Part, Ranges

#: Fetches of a full shuffle that are in memory at once, the one that is delivered among them.
FULL_FETCHES = 3
#: Ranks of a node keep the chunks of this many windows, as one may be ahead of another.
SHARED_WINDOWS = 2
#: Readers keep chunks of patches in one part in this many of the memory that is available.
MEMORY_SHARE = 4


def stream_plan(opened: OpenedRows, wanted: StreamOptions, tail_only: bool = False) -> RaggedPlan:
    """Plan a stream in the order of the file."""
    lead = opened.indexes[lead_of(opened.indexes)]
    size = wanted.block_size or max(1, min(lead.block_size_default, lead.n_rows))
    order, ranges, laps = laps_in_order(opened.indexes, wanted, size, tail_only)
    return _plan(
        opened, order, ranges, size, laps, wanted.cyclic, (0, 1), wanted.n_procs.count,
        wanted.read_ahead, sizes.RAGGED_FETCH_BYTES,
    )  # fmt: skip


def open_and_start(
    pool: ReaderPool,
    spec: DataSpec,
    source: Source,
    wanted: StreamOptions,
    readers: Readers | None,
    *,
    tail_only: bool = False,
) -> RaggedQueue:
    """Stream what `spec` names as `wanted` says; see `start_blocks`."""
    opened = open_rows(spec, source)
    plan = stream_plan(opened, wanted, tail_only)
    return start_rows(pool, wanted.n_procs.count, spec, opened, plan, readers)


def batch_plan(
    opened: OpenedRows,
    wanted: BatchOptions,
    order: OrderWords,
    ranges: Ranges,
    epochs: int | None,
    turn: Part,
) -> RaggedPlan:
    """Plan epochs of batches; ranks of a node take turns at them."""
    fetch_bytes = max(_fetch_bytes(opened, order, wanted) // turn[1], sizes.RAGGED_FETCH_BYTES)
    return _plan(
        opened, order, ranges, wanted.batch_size, epochs, False, turn, readers_of(wanted, turn),
        wanted.read_ahead, fetch_bytes,
    )  # fmt: skip


def readers_of(wanted: BatchOptions, turn: Part) -> int:
    """Return how many of the readers of a node are a rank's."""
    return -(-wanted.n_procs.count // turn[1])


def shared_bytes(opened: OpenedRows, order: OrderWords, wanted: BatchOptions) -> int:
    """Return how many bytes of decoded chunks the ranks of a node keep together."""
    every = sum(index.n_rows * index.row_bytes for index in opened.read)
    kept = opened.grid.kept_bytes(order) if opened.grid else _fetch_bytes(opened, order, wanted)
    needed = every if order.shuffle == FULL else SHARED_WINDOWS * kept
    most = machine.available_bytes() // MEMORY_SHARE
    return max(options.MIN_CACHE_BYTES, min(every, needed, most))


def _fetch_bytes(opened: OpenedRows, order: OrderWords, wanted: BatchOptions) -> int:
    """Return how many bytes are requested at once."""
    lead = opened.indexes[lead_of(opened.indexes)]
    n_bytes = {
        FILE_ORDER: 0,
        CHUNKS: 0,
        # Readers keep the chunks of a window of patches.
        WINDOW: 0 if opened.grid else (order.window_rows + wanted.batch_size) * lead.row_bytes,
        FULL: wanted.memory_limit_bytes // FULL_FETCHES,
    }
    return max(n_bytes[order.shuffle], sizes.RAGGED_FETCH_BYTES)


def _plan(
    opened: OpenedRows,
    order: OrderWords,
    ranges: Ranges,
    batch_size: int,
    laps: int | None,
    crosses: bool,
    turn: Part,
    n_readers: int,
    read_ahead: int | None,
    fetch_bytes: int,
) -> RaggedPlan:
    # The one that is delivered is among them; another may be held by its last blocks.
    depth = max(FULL_FETCHES - 1, min(n_readers + 1, sizes.RAGGED_AHEAD_BYTES // fetch_bytes))
    return RaggedPlan(
        order=order,
        ranges=ranges,
        batch_size=batch_size,
        laps=laps,
        crosses=crosses,
        turn=turn,
        fixed_bytes=opened.fixed_bytes,
        spans=[(one.spans, one.element_bytes) for one in opened.entries if one.spans is not None],
        fetch_bytes=fetch_bytes,
        depth=depth,
        max_batches=1 << 62 if read_ahead is None else max(1, read_ahead // depth),
    )


def start_rows(
    pool: ReaderPool,
    n_procs: int,
    spec: DataSpec,
    opened: OpenedRows,
    plan: RaggedPlan,
    readers: Readers | None = None,
    chunks: _core.Descriptor | None = None,
) -> RaggedQueue:
    """Let readers of `pool` read what a plan says; `chunks` they share with other processes."""
    needed = (plan.depth + 2) * max(plan.fetch_bytes, plan.longest_bytes)
    kept = None
    if opened.grid is not None:
        least, most = options.MIN_CACHE_BYTES, machine.available_bytes() // MEMORY_SHARE
        kept = max(least, min(opened.grid.kept_bytes(plan.order), most) // n_procs)
    wanted = checked(
        ReaderOptions,
        n_procs=n_procs,
        memory_limit_bytes=min(
            max(needed, options.REQUEST_BYTES), max(machine.memory_limit_bytes(), 1)
        ),
        cache_limit_bytes=kept,
        library_timeout_seconds=None,  # the pool's readers have it
        trusted=True,  # so is what is indexed
    )
    readers = readers or pool.take(n_procs)
    try:
        filename = opened.indexes[0].filename
        service = Service(filename, wanted, None, readers, chunks)
        if kept is not None:
            service.queue.keep_own()
        with spec.file.open() as source:
            if source.direct:
                device.check_direct(filename)
            handles = [
                [_handle(service.queue, spec, index, source) for index in entry.indexes]
                for entry in opened.entries
            ]
        return RaggedQueue(RequestedBlocks(service, opened, handles, plan, pool.give_back()))
    except BaseException:
        readers.stop()
        raise


def _handle(
    queue: _core.WorkQueue, spec: DataSpec, index: ChunkIndex, source: Source
) -> DatasetHandle:
    """Describe whole datasets to readers: each request names its selection."""
    whole = changed(index, windows=()) if index.windows else index
    return handle_of(queue, spec.file, index.path, whole, source, "array")


def window_of(opened: OpenedRows, order: OrderWords, wanted: BatchOptions) -> OrderWords:
    """Return an order with a window of patches of which readers keep all chunks."""
    grid = opened.grid
    has_chunks = opened.entries[0].descriptors is None
    if order.shuffle in (CHUNKS, WINDOW) and has_chunks:
        together = _fetch_bytes(opened, order, wanted) // max(1, opened.fixed_bytes)
        times = opened.times_decoded(order, together, options.MIN_CACHE_BYTES)
        of = "patches" if grid else "samples"
        warn_of_amplification(opened.entries[0].indexes[0], times or 1.0, of)
    if grid is None or order.shuffle != WINDOW:
        return order
    return order if wanted.window_rows else replace(order, window_rows=grid.window)
