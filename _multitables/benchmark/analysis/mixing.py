"""How well an order mixes rows: four figures of a permutation.

Law
---
1. Pure: an order comes in, numbers go out.
2. An order is the rows of a dataset as a stream delivers them, ``order[place] = row``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Mixing:
    """The figures of one order.

    Attributes
    ----------
    place_correlation : float
        Spearman's rank correlation of the place in the file and the place in the stream
        (Spearman 1904): 1 in file order, 0 where the one says nothing of the other.
    neighbour_correlation : float
        Correlation of the places in the file of rows that follow each other in the stream.
    chunks_in_batch : float
        Mean number of chunks that a batch has rows of.
    largest_share : float
        Mean share of a batch that its most frequent chunk has.
    """

    place_correlation: float
    neighbour_correlation: float
    chunks_in_batch: float
    largest_share: float


def mixing(order: Any, chunk_rows: int, batch_rows: int) -> Mixing:
    """The figures of an order of at least one whole batch; a shorter batch at the end is left out.

    Raises
    ------
    ValueError
        It is not an order of all rows.
    """
    n_rows = len(order)
    if not np.array_equal(np.sort(order), np.arange(n_rows)):
        raise ValueError(f"not each of the {n_rows} rows comes exactly once")
    # a permutation is its own ranks
    place = _correlation(np.arange(n_rows), order)
    neighbour = _correlation(order[:-1], order[1:])
    n_batches = n_rows // batch_rows
    chunks = np.sort(order[: n_batches * batch_rows].reshape(n_batches, -1) // chunk_rows, axis=1)
    counts = [np.unique(batch, return_counts=True)[1] for batch in chunks]
    return Mixing(
        place,
        neighbour,
        float(np.mean([len(count) for count in counts])),
        float(np.mean([count.max() for count in counts]) / batch_rows),
    )


def _correlation(one: Any, other: Any) -> float:
    return float(np.corrcoef(one, other)[0, 1])
