"""From chunk indexes and options to a read plan: which task reads what, and where it goes.

Law
---
1. Pure: no file, process, clock or shared memory; equal arguments give equal plans.
2. Rows are counted on the tape, from the start of a lap; tasks are sorted by their first row.
3. Every wanted row is covered by tasks, and no task reaches past the lap.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.index.chunk_index import ChunkIndex, Records, SourceFile
from _multitables.plan.dataset_table import (
    Dataset,
    DatasetTable,
    dataset_of,
    reader_bytes,
)
from _multitables.plan.ring_size import Tape, capacity_of, check_memory, n_slots, tapes_of
from _multitables.plan.row_order import OrderWords
from _multitables.plan.tasks import plan_tasks

#: Rows on the tape of a stream without end.
ENDLESS = _core.ENDLESS


@dataclass(frozen=True)
class ReadPlan:
    """A table of tasks, the datasets they read, and the tapes they fill."""

    table: DatasetTable
    tapes: tuple[Tape, ...]
    first_row: int
    lap_rows: int
    end_row: int
    block_rows: int
    capacity_rows: int
    n_readers: int
    n_slots: int
    tasks: Records = field(repr=False)
    #: Blocks end with the lap; the last one of each may be shorter.
    lap_blocks: bool = False
    #: Of a stream whose rows go where an order says.
    order: OrderWords | None = None
    #: Bytes of decoded chunks that a reader may keep.
    cache_bytes: int = 0
    #: Where blocks end that are not all of one size, for each set of datasets that have the same
    #: rows in them: a first row and an end of each block. Then all fields above count blocks
    #: where they say rows.
    ends: tuple[npt.NDArray[np.int64], ...] = field(default=(), repr=False)
    #: Processes that share the blocks: each has every n-th of a lap.
    n_consumers: int = 1

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The datasets, each with its tape."""
        return self.table.datasets

    @property
    def files(self) -> Iterator[SourceFile]:
        """The files of all datasets."""
        for dataset in self.datasets:
            yield from dataset.index.all_files

    @property
    def ring_payload_bytes(self) -> int:
        """Bytes of all tapes."""
        return sum(tape.n_bytes for tape in self.tapes)

    @property
    def lap_tasks(self) -> int:
        """Tasks of one lap."""
        return int(self.tasks["repeat"].sum())


def plan_reads(
    indexes: Sequence[ChunkIndex],
    *,
    block_rows: int,
    n_readers: int,
    n_consumers: int = 1,
    read_ahead: int | None = None,
    cyclic: bool = False,
    remainder: bool = False,
    first_row: int = 0,
    end_row: int | None = None,
    epochs: int | None = 1,
    lap_blocks: bool = False,
    direct: bool = False,
    native_filters: Container[int] = (),
    memory_limit_bytes: int = 1 << 46,
) -> ReadPlan:
    """Plan the stream of `indexes`, datasets of equal outer length, in lock-step.

    A lap has the rows from `first_row` on and before `end_row`, and is repeated `epochs` times
    (None: without end). With `lap_blocks`, blocks end with their lap. A `cyclic` stream has no end,
    and its blocks go on in the next lap. A library reads what has other than `native_filters`. Each
    of `n_consumers` gets every n-th block.

    Raises
    ------
    OptionsError
        A block or the ring does not fit into memory.
    UnsupportedDatasetError
        The plan does not.
    """
    row_bytes = sum(index.row_bytes for index in indexes)
    check_memory("a block", block_rows, row_bytes, memory_limit_bytes, "block_size")
    rows = (indexes[0].n_rows if end_row is None else end_row) - first_row
    lap_rows = rows if cyclic or remainder else rows // block_rows * block_rows
    if cyclic:
        epochs = None
    else:
        block_rows = min(block_rows, max(lap_rows, 1))
    datasets = [dataset_of(index, direct, native_filters) for index in indexes]
    each = reader_bytes(indexes, direct)
    table, tasks = plan_tasks(datasets, first_row, lap_rows, n_readers, memory_limit_bytes)
    tape_rows = ENDLESS if epochs is None and rows > 0 else lap_rows * (epochs or 1)
    span = int((tasks["row_end"] - tasks["row_begin"]).max()) if len(tasks) else 1
    most = None if epochs is None else tape_rows
    capacity = capacity_of(
        row_bytes, block_rows, span, n_readers, read_ahead, each, most, n_consumers
    )
    check_memory("the ring", capacity, row_bytes, memory_limit_bytes, "block_size or read_ahead")
    return ReadPlan(
        table=table,
        tapes=tapes_of(table.datasets, capacity),
        first_row=first_row,
        lap_rows=lap_rows,
        end_row=tape_rows,
        block_rows=block_rows,
        capacity_rows=capacity,
        n_readers=n_readers,
        n_slots=n_slots(tasks, lap_rows, capacity, tape_rows > lap_rows),
        tasks=tasks,
        lap_blocks=lap_blocks,
        n_consumers=n_consumers,
    )
