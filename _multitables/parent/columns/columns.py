"""The public `Columns`: blocks of columns that never split an index value.

Law
---
1. It adds the names of the index to a loader, and the time that its keys take.
"""

from __future__ import annotations

from typing import Any

from _multitables.errors import public
from _multitables.parent.batches.loader import Loader
from _multitables.parent.columns.key_unit import KeyUnit
from _multitables.parent.readers.counters import counters


@public
class Columns(Loader):
    """Blocks of columns; made by `Streamer.get_columns`.

    Iterating goes through this rank's blocks: `GroupBlock`, or `ColumnsBlock` of several groups;
    the next iteration goes on with the next epoch, or where a loaded state was saved.

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

    def statistics(self) -> dict[str, Any]:
        """Count the work of the latest stream.

        Returns
        -------
        dict
            As `StreamQueue.statistics`. ``keys`` counts the reads of this process itself, in all
            loops, as a reader counts its own.
        """
        return {**super().statistics(), "keys": counters(self._unit.opened.reader.counters())}
