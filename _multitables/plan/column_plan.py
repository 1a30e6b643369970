"""From groups of columns and the ends of their blocks to one read plan.

Law
---
1. Pure: equal arguments give equal plans.
2. The stream is counted in blocks, as its groups have rows of their own; tasks are sorted by the
   block in which they begin.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from _multitables import sizes
from _multitables.index.chunk_index import ChunkIndex, Records
from _multitables.plan.dataset_table import Dataset, dataset_of, reader_bytes, table_of
from _multitables.plan.ring_size import Tape, capacity_of, check_memory, n_slots, whole_pages
from _multitables.plan.stream_plan import ReadPlan
from _multitables.plan.tasks import check_plan, plan_tasks

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Columns of equal length, with the row at which their blocks begin, and where each ends."""

    indexes: Sequence[ChunkIndex]
    ends: I64


def plan_columns(
    groups: Sequence[Group],
    *,
    n_readers: int,
    n_consumers: int = 1,
    direct: bool = False,
    native_filters: Container[int] = (),
    memory_limit_bytes: int = 1 << 46,
) -> ReadPlan:
    """Plan a stream of blocks that have rows of several groups; one column at least has some.

    Raises
    ------
    OptionsError
        The ring does not fit into memory.
    UnsupportedDatasetError
        The plan does not.
    """
    n_blocks = len(groups[0].ends) - 1
    blocks = [np.diff(group.ends) * _row_bytes(group) for group in groups]
    block_bytes = int(np.sum(blocks, axis=0).mean())
    # The ring holds two of the longest tasks with the rows of all groups, and a group with few
    # bytes would have all its rows in one.
    together = min(n_blocks, max(1, sizes.MAX_RING_BYTES // 2 // max(1, block_bytes)))
    datasets, tables, parts = list[Dataset](), list[Records](), list[Records]()
    for group in groups:
        first, end = int(group.ends[0]), int(group.ends[-1])
        wanted = [dataset_of(index, direct, native_filters) for index in group.indexes]
        most = max(1, _most(group.ends, together))
        table, tasks = plan_tasks(wanted, first, end - first, n_readers, memory_limit_bytes, most)
        for dataset in table.datasets:
            chunks = table.chunks[dataset.chunks_at : dataset.chunks_at + dataset.n_chunks]
            tables.append(chunks)
        check_plan(table.datasets[0], int(tasks["repeat"].sum()), 0, memory_limit_bytes)
        parts.append(_single(tasks, len(datasets)))
        datasets += table.datasets
    of_group = np.repeat(np.arange(len(groups)), [len(group.indexes) for group in groups])
    tasks, steps = _in_order(np.concatenate(parts), groups, of_group)
    span = int((steps["row_end"] - steps["row_begin"]).max(initial=1))
    each = reader_bytes([index for group in groups for index in group.indexes], direct)
    capacity = capacity_of(block_bytes, 1, span, n_readers, None, each, n_blocks, n_consumers)
    ends = [_most(group.ends, capacity) for group in groups]
    tapes = tuple(
        Tape(number, whole_pages(ends[group] * dataset.index.row_bytes), ends=group)
        for number, (dataset, group) in enumerate(zip(datasets, of_group.tolist(), strict=True))
    )
    n_bytes = sum(tape.n_bytes for tape in tapes)
    check_memory("the ring", 1, n_bytes, memory_limit_bytes, "entries_per_block")
    return ReadPlan(
        table=table_of(datasets, tables),
        tapes=tapes,
        first_row=0,
        lap_rows=n_blocks,
        end_row=n_blocks,
        block_rows=1,
        capacity_rows=capacity,
        n_readers=n_readers,
        n_slots=n_slots(steps, n_blocks, capacity, False),
        tasks=tasks,
        ends=tuple(group.ends for group in groups),
        n_consumers=n_consumers,
    )


def _row_bytes(group: Group) -> int:
    return sum(index.row_bytes for index in group.indexes)


def _most(ends: I64, blocks: int) -> int:
    """Return the most rows that this many blocks in a row have."""
    return int((ends[blocks:] - ends[: len(ends) - blocks]).max())


def _single(tasks: Records, first: int) -> Records:
    """Write repeated tasks out, of datasets that are numbered from `first`."""
    again = tasks["repeat"].astype(np.intp)
    found = np.repeat(tasks, again)
    before = np.arange(len(found)) - np.repeat(np.cumsum(again) - again, again)
    rows = before.astype(np.uint64) * (found["row_end"] - found["row_begin"])
    for name in ("row_begin", "row_end"):
        found[name] += rows
    found["repeat"] = 1
    for name in ("dataset", "tape"):
        found[name] += np.uint32(first)
    return found


def _in_order(tasks: Records, groups: Sequence[Group], of_group: I64) -> tuple[Records, Records]:
    """Sort tasks by their first block; return them, and again with blocks in place of rows."""
    steps = tasks.copy()
    of_task = of_group[tasks["dataset"]]
    for number, group in enumerate(groups):
        here, ends = of_task == number, (group.ends - group.ends[0]).astype(np.uint64)
        begins = np.searchsorted(ends, tasks["row_begin"][here], side="right") - 1
        steps["row_begin"][here] = begins
        steps["row_end"][here] = np.searchsorted(ends, tasks["row_end"][here], side="left")
    order = np.argsort(steps["row_begin"], kind="stable")
    return tasks[order], steps[order]
