"""When a rank started, opened, read and computed: a table of time stamps.

Law
---
1. It wraps any iterable and knows none: loops over other libraries are stamped alike, and a loop
   without it pays nothing.
2. Of the parts of a loop at most `MOST` events are kept, the latest ones.
"""

from __future__ import annotations

import csv
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from _multitables.errors import public
from _multitables.options import Rank
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.ranks import ranks

#: Events that are kept of parts.
MOST = 1 << 20
TABLE = np.dtype([("rank", "<i4"), ("event", "<U16"), ("part", "<i8"), ("time", "<f8")])

_T = TypeVar("_T")


@public
class EventLog(InNotebooks):
    """Time stamps of one rank: ``start`` when the log is made, then the events of its loops.

    Parameters
    ----------
    rank : int or "mpi", optional
        Its number in the table; ``"mpi"`` asks MPI's ``COMM_WORLD``.

    Examples
    --------
    >>> log = multitables.EventLog(rank="mpi")  # doctest: +SKIP
    >>> for block in log.over(streamer.get_columns("/rec.slc", index="evt.seq")):  # doctest: +SKIP
    ...     histogram.fill(block["calE"])
    >>> log.save(f"events_{log.rank}.csv")  # doctest: +SKIP
    """

    def __init__(self, rank: Rank = 0) -> None:
        self.rank = ranks(rank, 1)[0]
        self._begin: list[tuple[str, int, float]] = []
        self._latest: deque[tuple[str, int, float]] = deque(maxlen=MOST)
        self.add("start")

    def __repr__(self) -> str:
        return f"<EventLog of rank {self.rank}: {len(self._begin) + len(self._latest)} events>"

    def add(self, event: str) -> None:
        """Stamp an event with a name of at most 16 characters."""
        self._begin.append((event, -1, time.time()))

    def over(self, parts: Iterable[_T]) -> Iterator[_T]:
        """Go through a loop: ``opened``; of each part ``read`` and ``computed``; and ``finished``.

        Parameters
        ----------
        parts : iterable
            Blocks, batches, items, or anything else. A part is read when it comes, and computed
            when the next one is asked for.

        Yields
        ------
        part
        """
        self.add("opened")
        stamp, now = self._latest.append, time.time
        try:
            for number, part in enumerate(parts):
                stamp(("read", number, now()))
                yield part
                stamp(("computed", number, now()))
        finally:
            self.add("finished")

    def table(self) -> npt.NDArray[Any]:
        """Return the events in the order of time.

        Returns
        -------
        structured array
            ``rank``; ``event``; ``part``, the number of a loop's part (-1: of none); ``time``, in
            seconds since 1970. Tables of ranks go together by `numpy.concatenate`.
        """
        events = sorted([*self._begin, *self._latest], key=lambda event: event[2])
        return np.array([(self.rank, *event) for event in events], TABLE)

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Write the table as CSV, with a line of names."""
        with open(filename, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(TABLE.names or ())
            writer.writerows(self.table().tolist())
