"""The public `Columns`: blocks of columns that never split an index value.

Law
---
1. It adds the names of the index to a loader, and the time that its keys take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _multitables.errors import OptionsError, public
from _multitables.parent.arrow import reader_of
from _multitables.parent.batches.loader import Loader
from _multitables.parent.columns.column_block import GroupBlock, batch_of
from _multitables.parent.columns.key_unit import KeyUnit
from _multitables.parent.readers.counters import counters


@public
class Columns(Loader):
    """Blocks of columns; made by `Streamer.get_columns`.

    Iterating goes through this rank's blocks: `GroupBlock`, or `ColumnsBlock` of several groups;
    the next iteration goes on with the next epoch, or where a loaded state was saved.

    Libraries that take streams of Arrow take the blocks of a single group as one: an iteration, of
    which each block is a record batch.

    A state taken after a loop is the end of the loop: an iteration that resumes there has no block.

    Examples
    --------
    >>> blocks = streamer.get_columns("/rec.slc", ["calE"], index="evt.seq")  # doctest: +SKIP
    >>> for block in blocks:  # doctest: +SKIP
    ...     total += block["calE"].sum()
    """

    _unit: KeyUnit

    @property
    def index(self) -> tuple[str, ...]:
        """The names of the columns of the index."""
        return self._unit.opened.index

    # ---- Arrow's PyCapsule interface

    def __arrow_c_schema__(self) -> Any:
        """Return the schema of the blocks as a stream of Arrow."""
        return batch_of(self._nothing()).schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return one iteration as a stream of Arrow, of copies of the blocks."""
        schema = batch_of(self._nothing()).schema
        reader = reader_of(schema, (batch_of(block, owns=True) for block in iter(self)))
        return reader.__arrow_c_stream__(requested_schema)

    def _nothing(self) -> GroupBlock:
        """Return the block of a single group without rows."""
        groups = self._unit.opened.groups
        if not self._unit.opened.is_single:
            raise OptionsError(
                f"several groups are not one table, as their rows differ, got {list(groups)}",
                advice="Stream one group, or take the tables of each block with to_arrow",
                option="group",
                got=list(groups),
            )
        (group,) = groups.values()
        index = dict(zip(self.index, group.keys.rows(0, 0), strict=True))
        arrays = (np.empty((0, *one.row_shape), one.dtype) for one in group.indexes.values())
        return GroupBlock(group.columns(arrays), index, np.zeros(1, np.int64), (0, 0))

    def statistics(self) -> dict[str, Any]:
        """Count the work of the latest stream.

        Returns
        -------
        dict
            As `StreamQueue.statistics`. ``keys`` counts the reads of this process itself, in all
            loops, as a reader counts its own.
        """
        return {**super().statistics(), "keys": counters(self._unit.opened.reader.counters())}
