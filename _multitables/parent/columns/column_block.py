"""A block of columns, and what other libraries make of it.

Law
---
1. Its arrays are views of the ring, which keep it. Tables of other libraries are made when they are
   asked for; Arrow's share the memory of columns where it can have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import UnsupportedDatasetError, public
from _multitables.parent.arrow import record_batch
from _multitables.parent.libraries import imported
from _multitables.parent.notebook import InNotebooks
from _multitables.tree import NamedArrays, native

I64 = npt.NDArray[np.int64]


@public
class GroupBlock(NamedArrays, InNotebooks):
    """The rows that one group has in a block: a mapping from columns to arrays of equal length.

    ``index`` are the columns of the index, a dict of arrays with an element for each of its values.
    Value ``i`` has the rows ``offsets[i]:offsets[i + 1]`` of the block. ``rows`` are the block's
    first row in the file, and the end.
    """

    __slots__ = ("index", "offsets", "rows")

    def __init__(
        self,
        arrays: dict[str, npt.NDArray[Any]],
        index: dict[str, npt.NDArray[Any]],
        offsets: I64,
        rows: tuple[int, int],
    ) -> None:
        super().__init__(arrays)
        self.index = index
        self.offsets = offsets
        self.rows = rows

    def __repr__(self) -> str:
        begin, end = self.rows
        return f"<GroupBlock of rows {begin}:{end}: {', '.join(map(repr, self))}>"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows[1] - self.rows[0]

    def index_of_rows(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the index with an element for each row."""
        counts = np.diff(self.offsets)
        return {name: np.repeat(values, counts) for name, values in self.index.items()}

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with the index as its index; rows of two axes become lists."""
        pd = imported("pandas", "a data frame of pandas")
        keys = self.index_of_rows()
        data = {name: _flat(name, column) for name, column in self.items()}
        if len(keys) == 1:
            ((name, values),) = keys.items()
            index: Any = pd.Index(native(values), name=name)
        else:
            arrays = [native(values) for values in keys.values()]
            index = pd.MultiIndex.from_arrays(arrays, names=list(keys))
        return pd.DataFrame(data, index=index)

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table: the index, then the columns; of two axes as fixed-size lists."""
        return imported("pyarrow", "Arrow").Table.from_batches([batch_of(self)])

    def to_polars(self) -> Any:
        """Return a polars.DataFrame: the index, then the columns."""
        return imported("polars", "a data frame of Polars").from_arrow(self.to_arrow())


@public
class ColumnsBlock(NamedArrays, InNotebooks):
    """The same values of the index in several groups: a mapping from groups to `GroupBlock`.

    ``index`` is that of each group; their ``offsets`` differ.
    """

    __slots__ = ("index",)

    def __init__(self, groups: dict[str, GroupBlock], index: dict[str, npt.NDArray[Any]]) -> None:
        super().__init__(groups)
        self.index = index

    def __repr__(self) -> str:
        rows = ", ".join(
            f"{name!r}: rows {one.rows[0]}:{one.rows[1]}" for name, one in self.items()
        )
        return f"<ColumnsBlock of {rows}>"

    def to_pandas(self) -> dict[str, Any]:
        """Return a pandas.DataFrame for each group."""
        return {name: group.to_pandas() for name, group in self.items()}

    def to_arrow(self) -> dict[str, Any]:
        """Return a pyarrow.Table for each group."""
        return {name: group.to_arrow() for name, group in self.items()}

    def to_polars(self) -> dict[str, Any]:
        """Return a polars.DataFrame for each group."""
        return {name: group.to_polars() for name, group in self.items()}


def batch_of(block: GroupBlock, *, owns: bool = False) -> Any:
    """Return a block as a record batch of Arrow: the index, then the columns."""
    return record_batch({**block.index_of_rows(), **block}, owns=owns)


def _flat(name: str, column: npt.NDArray[Any]) -> Any:
    if column.dtype.names is not None:
        raise UnsupportedDatasetError(
            f"column {name!r} has columns of its own ({', '.join(column.dtype.names)}), which a "
            "data frame of pandas does not have",
            good="The block itself is a mapping of NumPy arrays",
            advice=f"Name one of them in columns=, as {f'{name}/{column.dtype.names[0]}'!r}",
        )
    column = native(column)
    return column if column.ndim == 1 else list(column.reshape(len(column), -1))
