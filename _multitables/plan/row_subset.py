"""The rows that take part in a stream or in training: all, a slice, listed ones, or a mask.

Law
---
1. Pure: what the user wrote and the datasets' length in, rows in ascending order out.
2. A row that is listed several times takes part as often.
3. Nothing is clipped silently but by a slice, which NumPy clips too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError


@dataclass(frozen=True)
class Subset:
    """Rows ``start + i * step``, or those listed (then `step` is 0)."""

    n_rows: int
    start: int = 0
    step: int = 1
    listed: npt.NDArray[np.uint64] | None = field(default=None, repr=False)


def subset_of(rows: object, n_rows: int) -> Subset:
    """Return the rows of a dataset of `n_rows` rows that take part; `rows` is read as by NumPy.

    Raises
    ------
    OptionsError
        Not a slice, range, integers or mask, a mask of another length, or rows beyond the dataset.
    """
    if rows is None:
        return Subset(n_rows)
    if isinstance(rows, slice):
        try:
            return _stepped(range(n_rows)[rows])
        except (TypeError, ValueError):  # of something else than numbers, or in steps of 0
            raise _wrong(rows) from None
    if isinstance(rows, range) and all(0 <= end < n_rows for end in (*rows[:1], *rows[-1:])):
        return _stepped(rows)
    try:
        listed = np.asarray(rows)
    except (TypeError, ValueError):
        raise _wrong(rows) from None
    if listed.ndim != 1 or (listed.size and listed.dtype.kind not in "biu"):
        raise _wrong(rows)
    if listed.dtype.kind == "b":
        return _listed(_masked(listed, n_rows))
    if not listed.size:
        return Subset(0)
    low, high = int(listed.min()), int(listed.max())
    if low < -n_rows or high >= n_rows:
        raise OptionsError(
            f"rows lie outside the dataset: expected {-n_rows}:{n_rows}, got {low} to {high}",
            advice="Give rows that the dataset has",
            option="rows",
            expected=n_rows,
            got=high if high >= n_rows else low,
        )
    if low < 0:
        listed = listed.astype(np.int64)  # a narrow number has no room for the sum
        listed = np.where(listed < 0, listed + n_rows, listed)
    ascends = (listed[:-1] <= listed[1:]).all()
    return _listed((listed if ascends else np.sort(listed)).astype(np.uint64))


def _stepped(rows: range) -> Subset:
    if len(rows) == 0:
        return Subset(0)
    return Subset(len(rows), min(rows[0], rows[-1]), abs(rows.step) if len(rows) > 1 else 1)


def _masked(mask: npt.NDArray[Any], n_rows: int) -> npt.NDArray[np.uint64]:
    if len(mask) != n_rows:
        raise OptionsError(
            f"the mask of rows has another length than the dataset: expected {n_rows}, "
            f"got {len(mask)}",
            advice="Give a mask with one value for each row",
            option="rows",
            expected=n_rows,
            got=len(mask),
        )
    return np.flatnonzero(mask).astype(np.int64, copy=False).view(np.uint64)


def _listed(rows: npt.NDArray[np.uint64]) -> Subset:
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return Subset(len(rows), int(rows[0]), 1)
    return Subset(len(rows), 0, 0, rows) if len(rows) else Subset(0)


def _wrong(rows: object) -> OptionsError:
    return OptionsError(
        f"rows must be a slice, integers or a boolean mask, got {rows!r:.80}",
        advice="Leave rows out for all of them",
        option="rows",
        got=rows,
    )
