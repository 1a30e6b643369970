"""The public `Batches`: batches of rows or samples for training.

Law
---
1. It adds the order of rows to a loader.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.options import check_number
from _multitables.parent.batches.iteration import BatchIterator
from _multitables.parent.batches.loader import Loader
from _multitables.parent.batches.row_unit import RowUnit
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.plan.reader_options import BatchOptions
from _multitables.plan.sharding import shard_of


class Batches(Loader):
    """Batches of a training run; made by `Streamer.get_batches`.

    Iterating goes through `epochs` epochs, from `epoch` on; the next iteration goes on after
    them. Breaking out of a loop leaves `epoch` where it was.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.
    damage : list of CorruptChunkError
        The chunks that were left out so far, with ``skip_damaged=True``.

    Examples
    --------
    >>> batches = streamer.get_batches("/images", 256, shuffle=True)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     for batch in batches:
    ...         train(batch)
    """

    _unit: RowUnit
    iteration = BatchIterator

    def __init__(
        self, spec: DataSpec, wanted: BatchOptions, pool: ReaderPool, owns_pool: bool
    ) -> None:
        super().__init__(RowUnit(spec, wanted, pool), pool, owns_pool)
        self.batch_size = wanted.batch_size

    def _expect_epochs(self) -> None:
        """Let the first iteration prefetch the next epoch already: all epochs have one ring."""
        self._unit.prefetches = True

    def _share_out(self, part: int, parts: int) -> None:
        """Let this be one of `parts` processes that share out the rank's batches."""
        shard, wanted = self._unit.shard, self._unit.wanted
        self._unit.shard = replace(
            shard,
            rank=wanted.rank * parts + part,
            world_size=wanted.world_size * parts,
            parts=parts,
        )

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

    def __iter__(self) -> BatchIterator:
        return self._iterate()  # type: ignore[return-value]
