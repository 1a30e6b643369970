"""The public `Batches`: batches of rows or samples for training.

Law
---
1. It adds the order of rows to a loader.
"""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import OptionsError, public
from _multitables.options import check_number
from _multitables.parent.arrow import BlockTable
from _multitables.parent.batches.iteration import BatchIterator
from _multitables.parent.batches.loader import Loader
from _multitables.parent.batches.row_unit import RowUnit
from _multitables.parent.ragged.open_rows import OpenedRows
from _multitables.parent.stream.open_stream import Opened
from _multitables.parent.titles import file_title
from _multitables.parent.typed import Block
from _multitables.plan.sharding import shard_of
from _multitables.tree import Structure


@public
class Batches(Loader, Generic[Block]):
    """Batches of a training run; made by `Streamer.get_batches`.

    Iterating goes through `epochs` epochs, from `epoch` on; the next iteration goes on after
    them. Breaking out of a loop leaves `epoch` where it was.

    Libraries that take streams of Arrow take an iteration over batches as one, with a record batch
    for each batch.

    Examples
    --------
    >>> batches = streamer.get_batches("/images", 256, shuffle=True)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     for batch in batches:
    ...         train(batch)
    """

    _unit: RowUnit
    iteration = BatchIterator

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self._unit.wanted.batch_size

    def _kinds(self) -> tuple[Structure, list[tuple[str, np.dtype[Any] | None, tuple[int, ...]]]]:
        """Return the structure of batches, and of each array where it is from, its dtype and the
        shape of a row; ragged rows have no dtype."""
        opened = self._opened()
        kinds = []
        indexes = opened.indexes
        if isinstance(opened, OpenedRows):
            indexes = [indexes[output[0]] for output in opened.outputs]
        for index, rows in zip(indexes, opened.nothing(), strict=True):
            where = f"{index.path!r} in {file_title(index.filenames)}"
            is_array = isinstance(rows, np.ndarray)
            kinds.append((where, rows.dtype, rows.shape[1:]) if is_array else (where, None, ()))
        return opened.structure, kinds

    def _opened(self) -> Opened | OpenedRows:
        """Return what was indexed of the datasets."""
        return self._unit.open()[0]

    def _table(self) -> BlockTable:
        """Return how batches that no transform has changed become record batches."""
        spec = self._unit.spec
        if self._unit.wanted.transform is not None or spec.placing is not None:
            raise OptionsError(
                "batches that a transform changes, or that are placed in another form, have no "
                "schema before they are there",
                advice="Leave out transform, crop, flip, channels and into, and change the tables",
                option="transform",
                got=self._unit.wanted.transform,
            )
        return BlockTable(spec.path, spec.field, self._opened().nothing())

    def __arrow_c_schema__(self) -> Any:
        """Return the schema of batches as a stream of Arrow."""
        return self._table().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return one iteration as a stream of Arrow, of copies of the batches."""
        reader = self._table().reader((batch, True) for batch in iter(self))
        return reader.__arrow_c_stream__(requested_schema)

    def order(self, epoch: int | None = None) -> npt.NDArray[np.int64]:
        """Return the rows of an epoch in the order in which this rank delivers them.

        Parameters
        ----------
        epoch : int, optional
            The default is the one with which the next iteration begins.

        Returns
        -------
        numpy.ndarray of int64
            Rows of the dataset.
        """
        unit = self._unit
        wanted = self._bookmark.epoch if epoch is None else check_number("epoch", epoch)
        order = unit.order(wanted)
        words, listed = order.words, order.listed_bytes
        shard = shard_of(unit.everything(), unit.shard)
        rows = [_core.order_rows(words, listed, begin, end) for begin, end in shard]
        return np.concatenate(rows) if rows else np.zeros(0, np.int64)

    def __iter__(self) -> BatchIterator[Block]:
        return self._iterate()  # type: ignore[return-value]
