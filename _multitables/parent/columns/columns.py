"""The public `Columns`: blocks of columns that never split an index value.

Law
---
1. It adds the names of the index to a loader, and the time that its keys take.
"""

from __future__ import annotations

from typing import Any

from _multitables.parent.batches.loader import Loader
from _multitables.parent.columns.key_unit import KeyUnit
from _multitables.parent.columns.open_columns import OpenedColumns
from _multitables.parent.readers.counters import counters
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.plan.reader_options import ColumnOptions


class Columns(Loader):
    """Blocks of columns; made by `Streamer.get_columns`.

    Iterating goes through this rank's blocks: `GroupBlock`, or `ColumnsBlock` of several groups;
    the next iteration goes on with the next epoch, or where a loaded state was saved.

    ``index`` are the names of the columns of the index.

    Examples
    --------
    >>> blocks = streamer.get_columns("/rec.slc", ["calE"], index="evt.seq")  # doctest: +SKIP
    >>> for block in blocks:  # doctest: +SKIP
    ...     total += block["calE"].sum()
    """

    _unit: KeyUnit

    def __init__(
        self, opened: OpenedColumns, wanted: ColumnOptions, pool: ReaderPool, owns_pool: bool
    ) -> None:
        super().__init__(KeyUnit(opened, wanted, pool), pool, owns_pool)
        self.index = opened.index

    def state_dict(self) -> dict[str, Any]:
        """Return a state of the latest loop, to be saved.

        Returns
        -------
        dict
            Of JSON's types. After the end of a loop, a loop that goes on there has nothing left.
        """
        return self._state_of_pass()

    def statistics(self) -> dict[str, Any]:
        """Count the work of the latest stream.

        Returns
        -------
        dict
            As `StreamQueue.statistics`. ``keys`` counts the reads of this process itself, in all
            loops, as a reader counts its own.
        """
        return {**super().statistics(), "keys": counters(self._unit.opened.reader.counters())}
