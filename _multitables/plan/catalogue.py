"""From a chunk index to the catalogue that readers of requests keep: where each chunk lies.

Law
---
1. A catalogue is a `ReadPlan` of one member without tasks: nothing is claimed, all is found.
2. Its chunks are the stored ones, sorted by grid index; of contiguous data there is one record,
   the base address.
3. Pure: equal arguments give equal catalogues.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np

from _multitables.index.chunk_index import ChunkIndex
from _multitables.plan.dataset_table import CHUNK, member_of, placed
from _multitables.plan.stream_plan import ReadPlan
from _multitables.plan.tasks import TASK

__all__ = ["plan_catalogue"]


def plan_catalogue(
    index: ChunkIndex,
    *,
    direct: bool,
    native_filters: Container[int],
    page_bytes: int = 4096,
) -> ReadPlan:
    """Return the catalogue of a dataset, or of a field of it.

    Parameters
    ----------
    direct : bool
        Readers bypass the page cache.
    native_filters : container of int
        Ids that the core decodes.

    Returns
    -------
    ReadPlan
        Its member has a `reason` when a library must read the dataset; then it has no chunks.
    """
    member = member_of(index, direct, native_filters)
    tape_bytes = max(1, -(-index.row_bytes // page_bytes)) * page_bytes
    stored = 0 if member.reason else len(index.grid_index)
    chunks = np.zeros(stored, CHUNK)
    for name in CHUNK.names or ():
        if name != "reserved" and stored:
            chunks[name] = getattr(index, name)
    return ReadPlan(
        members=tuple(placed([replace(member, tape_bytes=tape_bytes)], [chunks])),
        first_row=0,
        lap_rows=0,
        end_row=0,
        block_rows=1,
        capacity_rows=1,
        n_readers=1,
        n_slots=1,
        tasks=np.zeros(0, TASK),
        chunks=chunks,
    )
