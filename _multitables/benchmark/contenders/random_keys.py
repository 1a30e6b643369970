"""The rows that random access is asked for, and what NumPy says they are.

Law
---
1. A draw is a value: the same seed asks every contender for the same rows in the same order.
2. The oracle is made from the generated rows; it never reads a file.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from _multitables.benchmark.data.workloads import Workload, slabs
from _multitables.benchmark.loops import random_loop, stream_loop

BATCH_ROWS = 256


@dataclass(frozen=True)
class Draw:
    """What is asked for, in order.

    Attributes
    ----------
    kind : str
        ``"coordinates"`` and ``"slices"`` are batches, ``"rows"`` are single ones.
    batches : sequence
        Of a batch the row numbers, or where it starts and stops; or the row numbers.
    """

    kind: str
    batches: Sequence[Any]

    @property
    def keys(self) -> list[Any]:
        """What an indexing takes."""
        return random_loop.keys_of(self.kind, self.batches)

    @property
    def batch_rows(self) -> int:
        """Rows of the largest batch."""
        if self.kind == "rows":
            return 1
        slices = self.kind == "slices"
        return max(batch[1] - batch[0] if slices else len(batch) for batch in self.batches)

    def rows(self, n_keys: int | None = None) -> Any:
        """The row numbers of the first `n_keys` keys, begun again at the end; of all by default."""
        n_keys = len(self.batches) if n_keys is None else n_keys
        if self.kind == "rows":
            return np.resize(np.array(self.batches), n_keys)
        batches = [
            np.arange(*batch) if self.kind == "slices" else np.array(batch)
            for batch in self.batches
        ]
        return np.concatenate([batches[at % len(batches)] for at in range(n_keys)])


def coordinates(n_rows: int, n_batches: int, seed: int) -> Draw:
    """Batches of uniformly random row numbers: in no order, and now and then one twice."""
    random = np.random.default_rng(seed)
    return Draw("coordinates", random.integers(0, n_rows, (n_batches, BATCH_ROWS)).tolist())


def slices(n_rows: int, n_batches: int, seed: int) -> Draw:
    """Batches of neighbouring rows, that start anywhere."""
    length = min(BATCH_ROWS, n_rows)
    starts = np.random.default_rng(seed).integers(0, n_rows - length + 1, n_batches).tolist()
    return Draw("slices", [[start, start + length] for start in starts])


def single_rows(n_rows: int, n_draws: int, seed: int) -> Draw:
    """Random ones of the first `n_rows` rows."""
    return Draw("rows", np.random.default_rng(seed).integers(0, n_rows, n_draws).tolist())


class Oracle:
    """Digests of any rows of a workload, as NumPy has them."""

    def __init__(self, workload: Workload) -> None:
        digest, words = stream_loop.Digest(), []
        for slab in slabs(workload):
            digest.see(slab)
            words.append(random_loop.first_words(slab))
        self._hashes = digest.hashes()
        self._words = np.concatenate(words)

    def rows(self, rows: Any) -> dict[str, Any]:
        """The digest of these rows, in this order."""
        return stream_loop.summed_up(self._hashes[rows])

    def first_words(self, rows: Any) -> dict[str, Any]:
        """The digest of the first words of these rows, in this order."""
        return stream_loop.digest_of(iter([self._words[rows]]))

    def seen(self, draw: Draw, n_keys: int) -> dict[str, Any]:
        """What `random_loop.timed` has seen after `n_keys` keys."""
        rows = draw.rows(n_keys)
        if draw.kind == "rows":
            return self.rows(rows[-random_loop.KEPT_ROWS :])
        return self.first_words(rows)


def oracle(workload: Workload) -> Oracle:
    """The oracle of a workload's values, whatever filters its file has."""
    return _oracle(replace(workload, name="", complib="", complevel=0))


@functools.lru_cache(maxsize=2)
def _oracle(workload: Workload) -> Oracle:
    return Oracle(workload)
