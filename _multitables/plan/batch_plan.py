"""From chunk indexes, an order and positions to the read plan of batches.

Law
---
1. Pure: equal arguments give equal plans.
2. Rows that follow each other in the file need no order: their chunks are decoded in place. All
   others are shares of windows: each task delivers some chunks' rows of one window to their places
   in it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

import numpy as np

from _multitables import _core, sizes
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex, Records
from _multitables.plan.dataset_table import (
    Dataset,
    DatasetTable,
    dataset_of,
    lead_of,
    reader_bytes,
    stored_chunks,
    table_of,
)
from _multitables.plan.ring_size import check_memory, n_slots, tapes_of
from _multitables.plan.row_order import (
    CHUNKS,
    FILE_ORDER,
    FULL,
    WINDOW,
    OrderWords,
    goes_by_rows,
)
from _multitables.plan.sharding import Ranges, length
from _multitables.plan.stream_plan import ENDLESS, ReadPlan, plan_reads
from _multitables.plan.tasks import KIND_SHARE, TASK, bytes_per_task, check_plan, chunks_per_group

Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]

#: What each reader holds of a chunk in an order.
ORDER_CHUNK_BYTES = 16


def plan_batches(
    indexes: Sequence[ChunkIndex],
    *,
    order: OrderWords,
    ranges: Ranges,
    batch_size: int,
    n_readers: int,
    n_consumers: int = 1,
    epochs: int | None = 1,
    lap_blocks: bool = True,
    read_ahead: int | None = None,
    direct: bool = False,
    native_filters: Container[int] = (),
    memory_limit_bytes: int = 1 << 46,
) -> ReadPlan:
    """Plan `epochs` laps (None: without end) over `ranges` of positions of `order`.

    The last batch of a lap may be shorter; or, without `lap_blocks`, blocks go on in the next lap,
    as those of a stream. Other options are those of `plan_reads`.

    Raises
    ------
    OptionsError
        A batch or the ring does not fit into memory.
    UnsupportedDatasetError
        The plan does not.
    """
    rows, cyclic = length(ranges), epochs is None and not lap_blocks
    if order.shuffle == FILE_ORDER and order.step == 1 and len(ranges) <= 1:
        begin, end = ranges[0] if ranges else (0, 0)
        return plan_reads(
            indexes,
            block_rows=batch_size,
            n_readers=n_readers,
            n_consumers=n_consumers,
            read_ahead=read_ahead,
            remainder=True,
            cyclic=cyclic,
            first_row=order.start + begin,
            end_row=order.start + end,
            epochs=epochs,
            lap_blocks=lap_blocks,
            direct=direct,
            native_filters=native_filters,
            memory_limit_bytes=memory_limit_bytes,
        )
    row_bytes = sum(index.row_bytes for index in indexes)
    name = "batch" if lap_blocks else "block"
    check_memory(f"a {name}", batch_size, row_bytes, memory_limit_bytes, f"{name}_size")
    if not cyclic:
        batch_size = min(batch_size, max(rows, 1))
    lead = lead_of(indexes)
    _check_order(indexes[lead], order, n_readers, memory_limit_bytes)
    table = _with_chunks([dataset_of(index, direct, native_filters) for index in indexes])
    datasets = table.datasets
    n_windows = sum(-(-(end - begin) // order.window_rows) + 1 for begin, end in ranges)
    check_plan(datasets[lead], n_windows * len(datasets), len(table.chunks), memory_limit_bytes)
    windows = _order_windows(ranges, order, batch_size, row_bytes, len(indexes))
    window = int(windows[:, 1].max(initial=1))
    alone = (
        order.shuffle == WINDOW
        and row_bytes <= sizes.SMALL_ROW_BYTES
        and window * row_bytes <= 2 * sizes.WINDOW_BYTES  # as each reader has one in the ring
        and len(windows) >= n_readers
        and read_ahead is None
    )
    tasks = _tasks(datasets, windows, order, n_readers, alone, memory_limit_bytes)
    tape_rows = ENDLESS if epochs is None and rows else rows * (epochs or 1)
    least = window + 2 * n_consumers * batch_size
    in_flight = reader_bytes(indexes, direct) * n_readers // max(1, row_bytes)
    more = _rows_ahead(order, window, rows, row_bytes, n_readers, in_flight, alone)
    capacity = least + more
    if read_ahead is not None:
        capacity = max(least, read_ahead * batch_size)
    capacity = max(min(capacity, tape_rows), batch_size, 1)
    check_memory("the ring", capacity, row_bytes, memory_limit_bytes, f"window or {name}_size")
    return ReadPlan(
        table=table,
        tapes=tapes_of(datasets, capacity, _kept(datasets, lead)),
        first_row=0,
        lap_rows=rows,
        end_row=tape_rows,
        block_rows=batch_size,
        capacity_rows=capacity,
        n_readers=n_readers,
        n_slots=n_slots(tasks, rows, capacity, tape_rows > rows),
        tasks=tasks,
        lap_blocks=lap_blocks,
        order=order,
        cache_bytes=sizes.KEEP_BYTES,
        n_consumers=n_consumers,
    )


def _order_windows(
    ranges: Ranges, order: OrderWords, batch_size: int, row_bytes: int, n_datasets: int
) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Return the windows of an order, or less than these where readers hold places of rows."""
    windows = _windows(ranges, order.window_rows)
    by_rows = order.shuffle == FULL and goes_by_rows(order.n_rows, order.window_rows, n_datasets)
    if not by_rows or goes_by_rows(order.n_rows, int(windows[:, 1].max(initial=1)), n_datasets):
        return windows
    # A rank's part, or the rest of an epoch: `order_of` did not expect that.
    most = max(batch_size, order.window_rows * row_bytes // sizes.PLACE_BYTES)
    return _windows(ranges, min(most, order.window_rows), order.window_rows)


def _rows_ahead(
    order: OrderWords,
    window: int,
    rows: int,
    row_bytes: int,
    n_readers: int,
    in_flight: int,
    alone: bool,
) -> int:
    """Return how many rows the ring has beside the window and the batches that are delivered.

    There is a window in the making, or work for all readers. Of short windows there are more, or
    the parent would be woken for each. No epoch is read further ahead than the next.
    """
    many = 1 if order.shuffle == FULL else sizes.RING_BYTES // max(1, window * row_bytes) - 1
    ahead = window * max(n_readers if alone else 1, min(many, rows // window))
    if order.shuffle == CHUNKS:
        ahead = max(ahead, min(n_readers * order.chunk_rows, rows))
    if order.shuffle != FULL:  # whose memory is what the user allowed
        ahead = max(ahead, min(in_flight, rows))
    return ahead


def _check_order(
    index: ChunkIndex, order: OrderWords, n_readers: int, memory_limit_bytes: int
) -> None:
    """Raise if an order has more rows or chunks than the core numbers, or than memory holds."""
    n_chunks = 0  # where the order is not of chunks
    if order.shuffle != FILE_ORDER:
        n_chunks = -(-order.n_rows * max(1, order.step) // order.chunk_rows)
    needed = n_chunks * ORDER_CHUNK_BYTES * n_readers * (order.shuffle != FULL)
    fits = order.n_rows < _core.MAX_ORDER_ROWS and n_chunks < _core.MAX_ORDER_CHUNKS
    if fits and needed <= memory_limit_bytes:
        return
    raise UnsupportedDatasetError(
        f"an order of {order.n_rows} rows in {n_chunks} chunks of {index.path!r} in "
        f"{index.filename!r} cannot be made (expected less than 2**48 rows, 2**32 chunks and "
        f"{memory_limit_bytes} bytes, got {needed} bytes)",
        advice="Leave shuffle out, or let a part of the rows take part with rows=slice(...)",
        path=index.path,
        filename=index.filename,
        expected=memory_limit_bytes,
        got=needed,
    )


def _with_chunks(datasets: Sequence[Dataset]) -> DatasetTable:
    """Give every dataset the records of its stored chunks."""
    grids = [0 if dataset.reason else math.prod(dataset.grid) for dataset in datasets]
    tables = [stored_chunks(one, 0, end) for one, end in zip(datasets, grids, strict=True)]
    return table_of(datasets, tables)


def _kept(datasets: Sequence[Dataset], lead: int) -> set[int]:
    """Return whose decoded chunks readers keep: the lead's are wanted once, or too rarely."""
    return {
        number
        for number, dataset in enumerate(datasets)
        if number != lead and dataset.index.kind.pipeline and not dataset.reason
    }


def _stored_part(dataset: Dataset) -> float:
    """Which part of its grid is stored; what is not takes no time."""
    return 1.0 if dataset.reason else dataset.n_chunks / max(1, math.prod(dataset.grid))


def _windows(
    ranges: Ranges, window_rows: int, cut_at: int = 1
) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Position and rows of each window, or part of one, of `ranges`.

    None goes beyond a multiple of `cut_at`.
    """
    found = []
    for begin, end in ranges:
        cuts = np.arange(begin // window_rows + 1, -(-end // window_rows)) * window_rows
        if cut_at > 1:
            more = np.arange(begin // cut_at + 1, -(-end // cut_at)) * cut_at
            cuts = np.union1d(cuts, more)
        edges = np.concatenate([[begin], cuts, [end]])
        found.append(np.stack([edges[:-1], np.diff(edges)], axis=1))
    if not found:
        return np.zeros((0, 2), np.uint64)
    return np.concatenate(found).astype(np.uint64)


def _tasks(
    datasets: Sequence[Dataset],
    windows: np.ndarray[tuple[int, int], np.dtype[np.uint64]],
    order: OrderWords,
    n_readers: int,
    alone: bool,
    memory_limit_bytes: int,
) -> Records:
    """Cut each window into shares, for each dataset; one each where readers make windows alone."""
    ends = np.cumsum(windows[:, 1])
    tables = []
    for number, dataset in enumerate(datasets):
        if dataset.index.row_bytes == 0:
            continue
        shares = np.ones(len(windows), np.int64)
        if not alone:
            shares = _shares(dataset, windows[:, 1].astype(np.float64), order, n_readers)
            check_plan(dataset, int(shares.sum()), dataset.n_chunks, memory_limit_bytes)
        of = np.repeat(np.arange(len(windows)), shares)
        tasks = np.zeros(len(of), TASK)
        tasks["dataset"], tasks["tape"], tasks["kind"] = number, number, KIND_SHARE
        tasks["row_begin"] = (ends - windows[:, 1])[of]
        tasks["row_end"] = ends[of]
        tasks["position"] = windows[:, 0][of]
        first = np.repeat(np.cumsum(shares) - shares, shares)
        tasks["share"], tasks["shares"] = np.arange(len(of)) - first, shares[of]
        tasks["repeat"] = 1
        tables.append(tasks)
    if not tables:
        return np.zeros(0, TASK)
    tasks = np.concatenate(tables)
    return tasks[np.argsort(tasks["row_begin"], kind="stable")]


def _shares(
    dataset: Dataset, rows: Numbers, order: OrderWords, n_readers: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many shares each window has: as many as are worth a task."""
    outer = dataset.chunk_dims[0]
    chunk_bytes = max(1, outer * dataset.index.row_bytes)
    chunks: Numbers = np.ceil(_chunks_touched(rows, order, outer) * _stored_part(dataset))
    # A chunk of which little is wanted is decoded whole all the same.
    per_task = max(bytes_per_task(dataset) // chunk_bytes, chunks_per_group(dataset, chunk_bytes))
    fair = np.maximum(1, chunks // n_readers)
    shares = np.ceil(chunks / np.minimum(per_task, fair))
    return np.clip(shares, 1, 1 << 16).astype(np.int64)


def _chunks_touched(rows: Numbers, order: OrderWords, outer: int) -> Numbers:
    """Estimate of how many chunks of `outer` rows the windows have rows."""
    n_chunks = max(1.0, order.n_rows * max(1, order.step) / outer)
    scattered = n_chunks * -np.expm1(-rows / n_chunks)
    if order.shuffle == FULL:
        return np.ceil(scattered)
    # Chunks of the lead are whole; of another dataset, each touches as many as it is long.
    lead_chunks = np.ceil(rows / order.chunk_rows)
    each = max(1.0, order.chunk_rows * max(1, order.step) / outer)
    return np.ceil(np.minimum(np.minimum(lead_chunks * each, n_chunks), rows))


def read_amplification(plan: ReadPlan) -> float:
    """Estimate how often each chunk of the largest dataset is decoded in an epoch."""
    order = plan.order
    if order is None or not plan.lap_rows:
        return 1.0
    lead = plan.datasets[lead_of([dataset.index for dataset in plan.datasets])]
    # A library is asked for what is wanted of its pieces, which are chunks of the order, or more.
    outer = order.chunk_rows if lead.reason and order.shuffle != FULL else lead.chunk_dims[0]
    tasks = plan.tasks
    begins, first = np.unique(tasks["row_begin"], return_index=True)
    rows = (tasks["row_end"][first] - begins).astype(np.float64)
    chunks = _chunks_touched(rows, order, outer).sum()
    return float(max(1.0, chunks / max(1.0, np.ceil(plan.lap_rows * max(1, order.step) / outer))))
