"""How often a stream of samples decodes each chunk.

Law
---
1. Pure, and an estimate: the chunks of some samples that come together are counted, and all others
   are assumed to have the same number. Samples that come together share their chunks.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from _multitables.index.chunk_index import ChunkIndex
from _multitables.plan.row_order import CHUNKS, FILE_ORDER, FULL, WINDOW, OrderWords
from _multitables.plan.sample_boxes import Grid
from _multitables.plan.sample_rows import Samples, Take
from _multitables.select.selection import Boxes, Spans

#: Samples whose chunks are counted, at most.
COUNTED = 4096


def times_decoded(
    samples: Samples,
    take: Take,
    index: ChunkIndex,
    order: OrderWords,
    together: int,
    cache_bytes: int,
) -> float:
    """Return how often an epoch decodes each chunk that it needs, about.

    Parameters
    ----------
    index : ChunkIndex
        Of the dataset that is read, with what the user selected of it.
    together : int
        Samples that are requested at once.
    cache_bytes : int
        Of the chunks that readers keep, in all.
    """
    n = len(samples)
    if index.descriptors is not None:  # a picture is decoded for each sample that has it
        rows = take[0] if isinstance(take, tuple) else len(take)
        return max(1.0, n * rows / max(1, index.n_rows))
    if not n or not index.kind.pipeline or order.shuffle == FILE_ORDER:
        return 1.0  # what is not compressed is not decoded, and neighbours share their chunks
    chunk_bytes = math.prod(index.chunk_dims or index.dims) * index.kind.element_bytes
    needed, grid = _n_chunks(index), samples.segments
    if isinstance(grid, Grid) and order.shuffle in (CHUNKS, WINDOW):
        return grid.decoded
    kept = cache_bytes / max(1, needed * chunk_bytes)
    if kept >= 1:
        return 1.0
    # Neighbours come together, group by group; of a full shuffle any samples.
    in_group = min(order.chunk_rows, n) if order.shuffle in (CHUNKS, WINDOW) else 1
    groups = max(1, min(together, n) // in_group)
    looked_at = max(1, COUNTED // in_group)
    firsts = np.unique(np.linspace(0, n - in_group, looked_at).astype(np.int64))
    each = [_chunks(samples, take, index, first, in_group) for first in firsts.tolist()]
    of_group = float(np.mean(each))
    # Some groups of a window have chunks in common.
    of_window = needed * -math.expm1(groups * math.log1p(-min(of_group / needed, 1 - 1e-9)))
    decodes = of_window * n / (in_group * groups)
    times = max(1.0, decodes / min(needed, of_group * math.ceil(n / in_group)))
    # A full shuffle comes back to every chunk with each request, and finds those that are kept.
    return 1.0 + (times - 1.0) * (1.0 - kept) if order.shuffle == FULL else times


def _n_chunks(index: ChunkIndex) -> int:
    chunk = index.chunk_dims or index.dims
    along = zip(index.dims, chunk, strict=True)
    inner = [one.n_chunks(extent) for one, extent in zip(index.windows, chunk[1:], strict=False)]
    counts = [-(-dim // extent) for dim, extent in along]
    return max(1, counts[0] * math.prod(inner or counts[1:]))


def _chunks(samples: Samples, take: Take, index: ChunkIndex, first: int, count: int) -> int:
    """Return how many chunks some samples that follow each other have."""
    numbers = np.arange(first, min(first + count, len(samples)), dtype=np.int64)
    step = samples.taken(numbers, 0, take, index.windows).step
    chunk = index.chunk_dims or index.dims
    if not isinstance(step, Boxes):
        rows = Spans(*step[:2]).key
        return len(np.unique(rows // chunk[0])) * (_n_chunks(index) // -(-index.n_rows // chunk[0]))
    k = len(step.extents)
    low = step.begins // np.array(chunk[:k])
    high = (step.begins + np.array(step.extents) - 1) // np.array(chunk[:k])
    found = set[tuple[int, ...]]()
    for one, other in zip(low.tolist(), high.tolist(), strict=True):
        along = (range(a, b + 1) for a, b in zip(one, other, strict=True))
        found.update(itertools.product(*along))
    behind = [-(-dim // extent) for dim, extent in zip(index.dims[k:], chunk[k:], strict=True)]
    return len(found) * math.prod(behind)
