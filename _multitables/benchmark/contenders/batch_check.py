"""Whether the delivered rows are right: each once, in the promised order, unchanged.

Law
---
1. The oracle is made from the generated rows; it never reads a file.
2. The first value of each row is its number, so every delivered row tells which one it must be.
3. The message is about the first wrong row. Nothing is read, timed or started here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from _multitables.benchmark.contract import WrongDataError
from _multitables.benchmark.data.workloads import Workload, slabs
from _multitables.benchmark.loops import batch_loop, stream_loop


@dataclass(frozen=True)
class Oracle:
    """What each row holds.

    Attributes
    ----------
    hashes : numpy.ndarray
        Of all its bytes.
    ends : numpy.ndarray
        The values at both its ends.
    """

    hashes: Any
    ends: Any

    def __len__(self) -> int:
        return len(self.ends)


def oracle(workload: Workload) -> Oracle:
    """The oracle of a workload's values, whatever chunks and filters its file has."""
    chunks: dict[str, Any] = {"chunk_rows": None, "chunk_columns": None}
    return _oracle(replace(workload, name="", complib="", complevel=0, **chunks))


@functools.lru_cache(maxsize=2)
def _oracle(workload: Workload) -> Oracle:
    digest, ends = stream_loop.Digest(), []
    for slab in slabs(workload):
        digest.see(slab)
        ends.append(batch_loop.sample(slab))
    return Oracle(digest.hashes(), np.concatenate(ends))


def check(rows: Oracle, kept: Mapping[str, Any], n_epochs: int, ended: bool) -> None:
    """Raise unless what a child has kept is right.

    Parameters
    ----------
    rows : Oracle
    kept : mapping
        ``seen``, and where known ``order`` and ``hashes``.
    n_epochs : int
        Passes over all rows that were asked for.
    ended : bool
        Whether the contender said that these were all.

    Raises
    ------
    WrongDataError
    """
    numbers = row_numbers(kept["seen"], len(rows))
    _same_rows(rows, kept, numbers)
    if "order" in kept:
        order = kept["order"]
        _each_once(order, len(rows), "the order that it tells")
        if len(order) != len(rows) * n_epochs:
            raise WrongDataError(f"the order that it tells has {len(order)} rows")
        _in_order(numbers, order)
    _each_once(numbers, len(rows), "what it delivered")
    if ended and len(numbers) != len(rows) * n_epochs:
        raise WrongDataError(f"{len(numbers)} rows instead of {len(rows) * n_epochs}")


def row_numbers(seen: Any, n_rows: int) -> Any:
    """The numbers that the rows carry."""
    values = seen[:, 0]
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.int64)
    wrong = (numbers != values) | (numbers < 0) | (numbers >= n_rows)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WrongDataError(f"data differs: place {at} has a row with the number {values[at]}")
    return numbers


def _same_rows(rows: Oracle, kept: Mapping[str, Any], numbers: Any) -> None:
    """Raise unless each row holds what the row of its number holds."""
    seen, expected = kept["seen"], rows.ends[numbers]
    wrong = (seen.view(np.uint32) != expected.view(np.uint32)).any(axis=1)
    if "hashes" in kept and len(kept["hashes"]) != len(numbers):
        raise WrongDataError(f"{len(kept['hashes'])} hashes of {len(numbers)} rows")
    if "hashes" in kept:
        wrong |= kept["hashes"] != rows.hashes[numbers]
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WrongDataError(f"data differs: place {at} has row {numbers[at]} with other values")


def _in_order(numbers: Any, order: Any) -> None:
    if len(numbers) > len(order):
        raise WrongDataError(f"{len(numbers)} rows instead of {len(order)}")
    wrong = numbers != order[: len(numbers)]
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WrongDataError(
            f"place {at} has row {numbers[at]} instead of row {order[at]}; "
            f"{int(wrong.sum())} places of {len(numbers)} differ"
        )


def _each_once(numbers: Any, n_rows: int, what: str) -> None:
    """Raise unless each whole epoch has every row, and the last part no row twice."""
    for start in range(0, len(numbers), n_rows):
        epoch = numbers[start : start + n_rows]
        if epoch.size and not 0 <= epoch.min() <= epoch.max() < n_rows:
            raise WrongDataError(f"{what} has a row number that does not exist")
        counts = np.bincount(epoch, minlength=n_rows)
        if counts.max() > 1:
            raise WrongDataError(f"{what} has row {int(np.argmax(counts > 1))} twice in an epoch")
