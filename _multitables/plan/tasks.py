"""From datasets to tasks: which rows, and which chunks, a reader claims at once.

Law
---
1. Pure, as stream_plan.py.
2. Rows are counted from the start of a lap; tasks are sorted by their first row.
3. Small chunks share a task; a chunk is in several tasks only where other datasets of the stream
   have much shorter ones, and only if little is decoded again for it.
4. Chunks that were never stored cost nothing each: they have no record, and stretches of them are
   tasks that are repeated.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from _multitables import _core, sizes
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import CHUNK, Records
from _multitables.plan.dataset_table import (
    Dataset,
    DatasetTable,
    lead_of,
    stored_chunks,
    table_of,
)

#: HDF5's id of the filter whose chunks are decoded side by side.
DEFLATE = 1
#: A part of all bytes that may be decoded again, so that the ring need not be long.
AGAIN_SHARE = 8
#: Where the first task of an object is cut, in parts that the last number counts: requests share
#: the bandwidth of a store, so a first request as large as the others ends as late as they do.
FIRST_PARTS = (0, 1, 2, 4, 8)
#: `kind` of a task.
KIND_CHUNKS, KIND_LIBRARY, KIND_SHARE = 0, _core.TASK_LIBRARY, _core.TASK_SHARE

#: One task; the layout is that of `Task` in the core's tables/plan.rs. Chunks are counted in the
#: dataset's grid, stored or not. A share has a position, which it is and of how many, instead.
TASK = np.dtype(
    [
        ("dataset", "<u4"),
        ("tape", "<u4"),
        ("kind", "<u4"),
        ("share", "<u4"),
        ("shares", "<u4"),
        ("reserved", "<u4"),
        ("row_begin", "<u8"),
        ("row_end", "<u8"),
        ("first_chunk", "<u8"),
        ("n_chunks", "<u8"),
        ("repeat", "<u8"),
        ("position", "<u8"),
    ]
)

U64 = npt.NDArray[np.uint64]


def plan_tasks(
    datasets: Sequence[Dataset],
    first_row: int,
    lap_rows: int,
    n_readers: int,
    memory_limit_bytes: int,
    piece_rows: int = sys.maxsize,
) -> tuple[DatasetTable, Records]:
    """Cut a lap into tasks of all datasets, each of which has a tape of its own number.

    Pieces of datasets may become shorter, where they can have any length; then tasks have at most
    `piece_rows` of them. Tables that do not fit into memory are an `UnsupportedDatasetError`.
    """
    most = sys.maxsize
    if len(datasets) > 1 and any(dataset.index.row_bytes for dataset in datasets):
        most = _most_rows(datasets, n_readers, lap_rows)
    each = [min(most, piece_rows) if dataset.clipped else most for dataset in datasets]
    datasets = [_in_pieces(*one) for one in zip(datasets, each, strict=True)]
    lap = range(first_row, first_row + lap_rows)
    tables = [
        _stored_tasks(dataset, number, lap, n_readers, rows, memory_limit_bytes)
        for number, (dataset, rows) in enumerate(zip(datasets, each, strict=True))
    ]
    fills = _fill_tasks(datasets, [gaps for *_, gaps in tables], lap, most, memory_limit_bytes)
    tasks = np.concatenate([tasks for tasks, *_ in tables] + fills)
    chunks = [chunks for _, chunks, _ in tables]
    tasks = tasks[np.argsort(tasks["row_begin"], kind="stable")]
    return table_of(datasets, chunks), tasks


def _most_rows(datasets: Sequence[Dataset], n_readers: int, lap_rows: int) -> int:
    """Return how many rows a task may have, of several datasets.

    The ring holds two of the longest tasks, with the rows of all datasets: a chunk of 8192 labels
    would make it hold 16384 images. Long chunks are cut, then, as far as little is decoded again
    for it.
    """
    row_bytes = [dataset.index.row_bytes for dataset in datasets]
    lead = datasets[lead_of([dataset.index for dataset in datasets])]
    n_chunks = -(-lap_rows // lead.chunk_dims[0]) * lead.inner_chunks
    joined = max(1, _chunks_per_task(lead, n_chunks, n_readers) // lead.inner_chunks)
    wanted = sizes.RING_BYTES // max(1, sum(row_bytes)) // 4
    most = max(1, wanted, joined * lead.chunk_dims[0])
    allowed = sum(map(_decoded_row_bytes, datasets)) // AGAIN_SHARE
    while sum(_decoded_again(dataset, most) for dataset in datasets) > allowed:
        most *= 2
    return most


def _decoded_again(dataset: Dataset, most: int) -> int:
    """Bytes a row that cutting a dataset's chunks into tasks of `most` rows costs."""
    parts = -(-_whole_rows(dataset) // most)
    return (parts - 1) * _decoded_row_bytes(dataset)


def _decoded_row_bytes(dataset: Dataset) -> int:
    """Bytes of a row with all its columns, of which one or some may be delivered."""
    return dataset.index.decoded_row_bytes


def _whole_rows(dataset: Dataset) -> int:
    """Rows that are decoded together, whatever is wanted of them."""
    return dataset.index.chunk_dims[0] if dataset.index.chunk_dims else 1


def _in_pieces(dataset: Dataset, most: int) -> Dataset:
    """Return `dataset` with pieces of about this many rows, if these can have any length."""
    if not (dataset.clipped or dataset.reason):
        return dataset
    whole = _whole_rows(dataset)
    rows = min(dataset.chunk_dims[0], max(1, most // whole) * whole)
    return replace(dataset, chunk_dims=(rows, *dataset.chunk_dims[1:]))


def _stored_tasks(
    dataset: Dataset, number: int, lap: range, n_readers: int, most: int, memory_limit_bytes: int
) -> tuple[Records, Records, U64]:
    """Tasks, of at most `most` rows, and chunks of what is stored of one dataset.

    The third result are begin and end of the lap's rows, in stretches, of which nothing is stored.
    """
    if not lap or dataset.index.row_bytes == 0:
        return np.zeros(0, TASK), np.zeros(0, CHUNK), np.zeros((0, 2), np.uint64)
    outer = dataset.chunk_dims[0]
    chunk_rows = range(lap.start // outer, -(-lap.stop // outer))
    if dataset.reason:
        check_plan(dataset, len(chunk_rows), 0, memory_limit_bytes)
        begins = np.arange(chunk_rows.start, chunk_rows.stop, dtype=np.uint64)
        tasks = _rows_of(begins, begins + np.uint64(1), outer, lap)
        tasks["kind"], chunks = KIND_LIBRARY, np.zeros(0, CHUNK)
    else:
        inner = dataset.inner_chunks
        chunks = stored_chunks(dataset, chunk_rows.start * inner, chunk_rows.stop * inner)
        n_chunks = len(chunk_rows) * inner if dataset.shown else len(chunks)
        per_task = _chunks_per_task(dataset, n_chunks, n_readers)
        per_task = min(per_task, max(1, most // outer) * inner)
        # Cut a chunk row into several tasks, or join several chunk rows into one, never both: so
        # the first rows of consecutive tasks never go back.
        step = max(1, per_task // inner)
        begins = _stored_rows(chunks, inner, chunk_rows, step)
        if dataset.shown:  # which has no chunks of its own
            check_plan(dataset, n_chunks, 0, memory_limit_bytes)
            begins = np.arange(chunk_rows.start, chunk_rows.stop, step, dtype=np.uint64)
        ends = np.minimum(begins + np.uint64(step), np.uint64(chunk_rows.stop))
        if dataset.index.is_remote and step >= FIRST_PARTS[-1]:
            begins, ends = _with_short_beginning(begins, ends)
        tasks = _rows_of(begins, ends, outer, lap)
    gaps = np.zeros((len(tasks) + 1, 2), np.uint64)
    gaps[1:, 0], gaps[:-1, 1], gaps[-1, 1] = tasks["row_end"], tasks["row_begin"], len(lap)
    if not dataset.reason:
        tasks = _columns(tasks, begins, ends, inner, per_task)
    tasks["dataset"] = tasks["tape"] = number
    return _cut(tasks, most), chunks, gaps[gaps[:, 0] < gaps[:, 1]]


def _with_short_beginning(begins: U64, ends: U64) -> tuple[U64, U64]:
    """Cut the first task: its first rows come while the others are still on their way."""
    if not len(begins):
        return begins, ends
    n_rows = ends[0] - begins[0]
    parts = np.array(FIRST_PARTS[:-1], np.uint64) * n_rows // np.uint64(FIRST_PARTS[-1])
    cut = begins[0] + parts
    cut = cut[np.append(True, cut[1:] > cut[:-1])]
    return np.concatenate([cut, begins[1:]]), np.concatenate([cut[1:], ends])


def _rows_of(begins: U64, ends: U64, outer: int, lap: range) -> Records:
    """Tasks for these rows of chunks: their rows, from the start of the lap."""
    tasks = np.zeros(len(begins), TASK)
    low, high = np.uint64(lap.start), np.uint64(lap.stop)
    tasks["row_begin"] = np.maximum(begins * np.uint64(outer), low) - low
    tasks["row_end"] = np.minimum(ends * np.uint64(outer), high) - low
    tasks["repeat"] = 1
    return tasks


def _stored_rows(chunks: Records, inner: int, chunk_rows: range, step: int) -> U64:
    """Return, of each `step` rows of chunks of which any chunk is stored, the first."""
    rows = chunks["grid_index"] // np.uint64(inner) - np.uint64(chunk_rows.start)
    steps = rows // np.uint64(step)
    is_first = np.ones(len(steps), bool)
    is_first[1:] = steps[1:] != steps[:-1]
    return steps[is_first] * np.uint64(step) + np.uint64(chunk_rows.start)


def _columns(tasks: Records, begins: U64, ends: U64, inner: int, per_task: int) -> Records:
    """Give tasks their chunks of the grid: all of their rows, or `per_task` columns each."""
    tasks["first_chunk"] = begins * np.uint64(inner)
    tasks["n_chunks"] = (ends - begins) * np.uint64(inner)
    if per_task >= inner:
        return tasks
    starts = np.arange(0, inner, per_task, dtype=np.uint64)
    parts = np.repeat(tasks, len(starts))
    parts["first_chunk"] += np.tile(starts, len(tasks))
    parts["n_chunks"] = np.tile(np.diff(starts, append=np.uint64(inner)), len(tasks))
    return parts


def _fill_tasks(
    datasets: Sequence[Dataset], gaps: Sequence[U64], lap: range, most: int, memory_limit_bytes: int
) -> list[Records]:
    """Tasks for rows of which nothing is stored, for each dataset.

    However long a stretch is of which no dataset has anything, it is one task for each, that is
    repeated, and the rest of it. Where others have tasks in between, it is as many tasks.
    """
    edges = np.sort(np.concatenate([gap.reshape(-1) for gap in gaps]))
    if not len(edges):
        return []
    edges = edges[np.append(True, edges[1:] != edges[:-1])]  # np.unique imports numpy.ma: 15 ms
    begin, end = edges[:-1], edges[1:]
    within = [
        np.searchsorted(gap[:, 0], begin, "right") > np.searchsorted(gap[:, 1], begin, "right")
        for gap in gaps
    ]
    rows = [dataset.index.row_bytes for dataset in datasets]
    common = np.all([one for one, n_bytes in zip(within, rows, strict=True) if n_bytes], axis=0)
    each = np.uint64(min(max(1, sizes.TASK_BYTES // max(1, sum(rows))), most))
    found = []
    for number, (dataset, here) in enumerate(zip(datasets, within, strict=True)):
        tasks = _fills(dataset, begin[here], end[here], lap, each)
        tasks["dataset"] = tasks["tape"] = number
        # Each begins at one of the edges, or is the rest of a stretch, and not repeated.
        at = np.searchsorted(begin, tasks["row_begin"], "right") - 1
        alone = ~common[at] & (tasks["repeat"] > 1)
        repeats = np.where(alone, tasks["repeat"], 1).astype(np.intp)
        check_plan(dataset, int(repeats.sum()), 0, memory_limit_bytes)
        before = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        tasks["repeat"][alone] = 1
        tasks = np.repeat(tasks, repeats)
        for name in ("row_begin", "row_end"):
            tasks[name] += before.astype(np.uint64) * each
        found.append(tasks)
    return found


def _fills(dataset: Dataset, begin: U64, end: U64, lap: range, each: np.uint64) -> Records:
    """For each stretch of rows a task of `each` rows, repeated, and one for the rest."""
    outer, inner = np.uint64(dataset.chunk_dims[0]), np.uint64(dataset.inner_chunks)
    whole = np.zeros(len(begin), TASK)
    whole["row_begin"], whole["row_end"] = begin, begin + each
    whole["repeat"] = (end - begin) // each
    first = (begin + np.uint64(lap.start)) // outer
    whole["first_chunk"] = first * inner
    whole["n_chunks"] = (
        (end + np.uint64(lap.start) + outer - np.uint64(1)) // outer - first
    ) * inner
    rest = whole.copy()
    rest["row_begin"] += whole["repeat"] * each
    rest["row_end"], rest["repeat"] = end, 1
    return np.concatenate([whole[whole["repeat"] > 0], rest[rest["row_begin"] < rest["row_end"]]])


def check_plan(dataset: Dataset, n_tasks: int, n_chunks: int, memory_limit_bytes: int) -> None:
    """Raise if a plan with this many tasks and chunks does not fit into memory."""
    # Tasks are put together from several tables, and sorted.
    needed = n_tasks * 5 * TASK.itemsize + n_chunks * 2 * CHUNK.itemsize
    if needed > memory_limit_bytes:
        index = dataset.index
        raise UnsupportedDatasetError(
            f"the plan for {index.path!r} in {index.filename!r}, of {n_tasks} tasks and {n_chunks} "
            f"chunks, does not fit into memory (expected at most {memory_limit_bytes} bytes, got "
            f"{needed})",
            advice="Stream a part of the rows, with rows=slice(...)",
            path=index.path,
            filename=index.filename,
            expected=memory_limit_bytes,
            got=needed,
        )


def _cut(tasks: Records, most: int) -> Records:
    """Cut tasks of more than `most` rows; each part decodes their chunks for itself."""
    rows = (tasks["row_end"] - tasks["row_begin"]).astype(np.int64)
    if not len(tasks) or rows.max() <= most:
        return tasks
    parts = -(-rows // most)
    cut = np.repeat(tasks, parts)
    part = np.arange(len(cut)) - np.repeat(np.cumsum(parts) - parts, parts)
    cut["row_begin"] += (part * most).astype(np.uint64)
    cut["row_end"] = np.minimum(cut["row_end"], cut["row_begin"] + np.uint64(most))
    return cut


def bytes_per_task(dataset: Dataset) -> int:
    """Decoded bytes that make a task worth its claim."""
    if dataset.index.is_remote:
        return sizes.REMOTE_TASK_BYTES
    if dataset.direct:
        return sizes.DIRECT_TASK_BYTES
    together = dataset.index.kind.part.element.size_bytes
    for dim, chunk in zip(dataset.dims[:0:-1], dataset.chunk_dims[:0:-1], strict=True):
        together *= chunk
        if chunk != dim:
            little = together < _core.LITTLE_BYTES
            return sizes.INTERLEAVED_TASK_BYTES if little else sizes.TASK_BYTES
    return sizes.TASK_BYTES


def _chunks_per_task(dataset: Dataset, n_chunks: int, n_readers: int) -> int:
    """Small chunks share a task, but there stay tasks enough for every reader."""
    chunk_bytes = max(1, math.prod(dataset.chunk_dims) * dataset.index.kind.element_bytes)
    task_bytes = bytes_per_task(dataset)
    fair = max(1, n_chunks // (4 * n_readers))
    return min(max(task_bytes // chunk_bytes, chunks_per_group(dataset, chunk_bytes)), fair)


def chunks_per_group(dataset: Dataset, chunk_bytes: int) -> int:
    """How many chunks are decoded side by side."""
    if all(spec.id != DEFLATE for spec in dataset.index.kind.pipeline):
        return 1
    return min(max(_core.GROUP_BYTES // chunk_bytes, 1), _core.GROUP_CHUNKS)
