"""The datasets of the parameterised I/O test: names, shapes, the blocks of ranks, and values.

Law
---
1. A grid of ranks covers each array; rank ``r`` has the block in row ``r // process_columns``.
2. Each value tells its place: step, array, row and column, counted through. They are whole numbers,
   exact as float64.
3. Pure, and NumPy only: it also runs under the interpreter of a parallel h5py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .refusals import WrongError

ITEM_BYTES = 8
Index = tuple[Any, ...]


@dataclass(frozen=True)
class Grid:
    """The shape of one test; `rows` and `columns` are those of one rank's block."""

    steps: int
    arrays: int
    rows: int
    columns: int
    process_rows: int
    process_columns: int
    dataset_rank: int
    slowest: str
    chunked: bool

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Grid:
        """The grid of a request."""
        return cls(**{field.name: asked[field.name] for field in fields(cls)})

    @property
    def n_ranks(self) -> int:
        """Processes that share each array."""
        return self.process_rows * self.process_columns

    @property
    def array_shape(self) -> tuple[int, int]:
        """Rows and columns of all ranks."""
        return self.rows * self.process_rows, self.columns * self.process_columns

    @property
    def rank_bytes(self) -> int:
        """Bytes that one rank writes and reads."""
        return self.steps * self.arrays * self.rows * self.columns * ITEM_BYTES

    @property
    def n_bytes(self) -> int:
        """Bytes of all ranks."""
        return self.rank_bytes * self.n_ranks

    @property
    def by_step(self) -> bool:
        """Whether the step is the slowest dimension."""
        return self.slowest == "step"

    @property
    def outer(self) -> tuple[int, ...]:
        """The dimensions of a dataset in front of rows and columns."""
        both = (self.steps, self.arrays) if self.by_step else (self.arrays, self.steps)
        return both[4 - self.dataset_rank :]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each dataset."""
        return (*self.outer, *self.array_shape)

    @property
    def maxshape(self) -> tuple[int | None, ...] | None:
        """How far a dataset may grow; None where it may not."""
        if not self.chunked or self.dataset_rank == 2:
            return None
        if self.dataset_rank == 3:
            return None if self.by_step else (None, *self.array_shape)
        outer = (None, self.arrays) if self.by_step else (self.arrays, None)
        return (*outer, *self.array_shape)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Of each dataset; in four dimensions a chunk holds all arrays of a step."""
        if not self.chunked:
            return None
        of_four = (1, self.arrays) if self.by_step else (self.arrays, 1)
        outer = {2: (), 3: (1,), 4: of_four}[self.dataset_rank]
        return (*outer, self.rows, self.columns)

    def path(self, step: int, array: int) -> str:
        """The dataset that holds an array of a step."""
        if self.dataset_rank == 4:
            return "/dataset"
        names = [f"step={step}", f"array={array}"]
        if not self.by_step:
            names.reverse()
        return "/" + "/".join(names[: 4 - self.dataset_rank])

    def place(self, step: int, array: Any) -> Index:
        """Where it lies in that dataset; `array` may be a slice."""
        both = (step, array) if self.by_step else (array, step)
        return both[4 - self.dataset_rank :]

    @property
    def has_arrays_in_one(self) -> bool:
        """Whether one dataset holds all arrays of a step."""
        return self.dataset_rank == 4 or (self.dataset_rank == 3 and self.by_step)

    def origin(self, rank: int) -> tuple[int, int]:
        """The first row and column of a rank."""
        row, column = divmod(rank, self.process_columns)
        return row * self.rows, column * self.columns

    def base(self, rank: int) -> Any:
        """The values of a rank's block in the first array of the first step."""
        (row, column), (_, width) = self.origin(rank), self.array_shape
        rows = np.arange(row, row + self.rows, dtype=np.float64)[:, np.newaxis]
        return rows * width + np.arange(column, column + self.columns)

    def values(self, base: Any, step: int, array: int, out: Any = None) -> Any:
        """The values of a block of which `base` is the first."""
        height, width = self.array_shape
        return np.add(base, float((step * self.arrays + array) * height * width), out=out)

    def compare(self, found: Any, base: Any, rank: int, step: int, array: int) -> None:
        """Raise unless each element of a block is right.

        Raises
        ------
        WrongError
            It names the first element that is not.
        """
        expected = self.values(base, step, array)
        if np.array_equal(found, expected):
            return
        at = tuple(int(one) for one in np.argwhere(found != expected)[0])
        raise WrongError(
            f"rank {rank}, step {step}, array {array}, element {at} of its block: "
            f"{found[at]} instead of {expected[at]}"
        )
