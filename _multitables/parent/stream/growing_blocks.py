"""Blocks of a file that grows: ordinary streams, one after another, over what was written.

Actors
------
::

    the writer's file    GrowingData            GrowingBlocks          StreamQueues, in turn

     rows appear <- look ---|  rows ------------->|  plan, start ------->|  readers of one pool
                            |                     |<-- blocks -----------|
                            |<-- is it still? ----|  (rows that may have moved meanwhile)
                                                  |--> blocks to the user

There is no thread here: who waits for a block looks at the file meanwhile, one at a time.

Law
---
1. Every row comes once and in order. What was handed out counts: a stream that is left begins again
   behind the last block.
2. A block of rows that are not firm (see `GrowingData`) is handed out only if nothing was written
   until it was read.
3. Nothing here can hang: each wait ends with the caller's time-out, by `stop` or by `close`.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from typing import Any

from _multitables.errors import CorruptChunkError, QueueClosed
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.block_source import BlockSource
from _multitables.parent.stream.growing_data import GrowingData, Patience
from _multitables.parent.stream.open_stream import DataSpec, Opened, start_stream
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import title
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.reader_options import StreamOptions
from _multitables.plan.stream_plan import ReadPlan, plan_reads

#: Seconds after `stop` in which a writer may pause; then what is known of its file is the end.
LAST_SECONDS = 1.0
#: The statistics before any stream ran.
_NOTHING: dict[str, Any] = {
    "blocks_held": 0,
    "ring_rows": 0,
    "ring_bytes": 0,
    "tasks": 0,
    "readers_replaced": 0,
    "library": {},
    "readers": [],
}


class GrowingBlocks(BlockSource):
    """Blocks of datasets that grow, in the order of their rows."""

    def __init__(self, pool: ReaderPool, wanted: StreamOptions, spec: DataSpec) -> None:
        (self._pool, self._own_pool), self._wanted = pool.keeping(), wanted
        self._data = GrowingData(spec)
        indexes = self._data.opened.indexes
        self.block_size = wanted.block_size or indexes[lead_of(indexes)].block_size_default
        self._owner = os.getpid()
        self.missing_files = {}
        self._wake = threading.Event()
        self._is_closed = False
        #: When `stop` was called, and the last row, when it is known.
        self._stopped = math.inf
        self._end: int | None = None
        self._stream: StreamQueue | None = None
        #: Rows of the stream that runs which need not be asked for again after they are read.
        self._firm = 0
        self._reading = Patience()
        self._delivered = self._blocks = 0
        self._waits_since: float | None = None
        self._counted = _NOTHING

    def take(self, deadline: float) -> Any:
        """Return the guard of the next block; a file that does not grow is waited for."""
        while True:
            self._wake.clear()
            if self._is_closed:
                self._leave()
                return None
            if self._stream is not None:
                guard = self._block(self._stream, deadline)
                if guard is not None:
                    return guard
            elif not (self._look() and self._begin()):
                if self._end is not None and self._delivered >= self._end:
                    return None
                left = deadline - time.monotonic()
                if left <= 0:
                    raise queue.Empty
                self._wake.wait(min(self._pause(), left))

    def _block(self, stream: StreamQueue, deadline: float) -> Any:
        """Take a block of the stream that runs. None: it has none that may be handed out."""
        try:
            left = max(0.0, deadline - time.monotonic())
            guard = stream.get(timeout=None if left == math.inf else left)
        except CorruptChunkError as error:
            # Perhaps its chunk was being written.
            self._leave()
            self._data.bear(self._reading, error)
            return self._later()
        if guard is QueueClosed:
            self._leave()
            return None
        end = guard.rows[1]
        if end > self._firm and not self._data.still():
            del guard
            self._leave()
            return self._later()
        self._delivered = end
        self._blocks += 1
        self._reading.reset()
        return guard

    def _later(self) -> None:
        """Give a writer time to complete what it is at."""
        self._wake.wait(self._data.pause())

    def _look(self) -> bool:
        """Look at the file if it is time to; false when it could not be read."""
        ends = self._stopped < math.inf and self._end is None
        if not (ends or self._data.due()):
            return True
        if not self._data.look():
            return False
        if ends and (self._data.complete or time.monotonic() >= self._stopped + LAST_SECONDS):
            self._end = max(self._delivered, self._data.rows)
        return True

    def _begin(self) -> bool:
        """Start a stream of what is there, if it is a block, or waited long enough to be one."""
        first, rows = self._delivered, self._data.rows
        if self._end is not None:
            rows = min(rows, self._end)
        waiting = rows - first
        if waiting <= 0:
            return False
        now = time.monotonic()
        self._waits_since = self._waits_since or now
        if self._end is None and waiting >= self.block_size:
            rows = first + waiting // self.block_size * self.block_size
        elif self._end is None and self._patience_left(now) > 0:
            return False
        opened = self._data.opened

        def planned(opened: Opened, n_readers: int) -> tuple[ReadPlan, int]:
            plan = plan_reads(
                opened.indexes,
                block_rows=self.block_size,
                n_readers=n_readers,
                read_ahead=self._wanted.read_ahead,
                remainder=True,
                first_row=first,
                end_row=rows,
                **opened.facts(),
            )
            return plan, self.block_size

        self._firm, self._waits_since = self._data.firm, None
        self._stream = start_stream(
            self._pool, self._wanted.n_procs, opened, planned, first_row=first
        )
        if self._is_closed:  # by another thread meanwhile
            self._leave()
        return True

    def _patience_left(self, now: float) -> float:
        """Seconds for which rows that fill no block may go on waiting."""
        if self._wanted.max_wait_seconds is None:
            return math.inf
        return self._wanted.max_wait_seconds - (now - (self._waits_since or now))

    def _pause(self) -> float:
        pause = self._data.pause()
        if self._waits_since is not None:
            pause = min(pause, max(0.001, self._patience_left(time.monotonic())))
        return pause

    def _leave(self) -> None:
        """Let go of the stream that runs."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._counted = _added(self._counted, stream.source.statistics())
            stream.close()

    def stop(self) -> bool:
        """End behind the rows that the file has now."""
        self._stopped = min(self._stopped, time.monotonic())
        self._wake.set()
        return True

    def close(self) -> None:
        """Let go of the thread that waits for a block."""
        if os.getpid() != self._owner:  # a lock may be held by a thread that is not here
            return
        self._is_closed = True
        self._wake.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def end(self, sound: bool) -> None:
        """End the readers that no other stream has."""
        if self._own_pool is not None and os.getpid() == self._owner:
            self._own_pool.close()

    def ready(self) -> int:
        """Count the blocks that need not be waited for."""
        stream = self._stream
        return 0 if stream is None else stream.qsize()

    def progress(self) -> tuple[int, int | None]:
        """Return how many blocks were taken; there is no last one."""
        return self._blocks, None

    def delivered(self) -> str:
        """Say how far the stream is."""
        return f"{self._delivered} rows"

    def title(self) -> tuple[str, int]:
        """Return the title of the data, and the number of readers."""
        indexes = self._data.opened.indexes
        of = title(indexes[0].filename, [(index.path, index.shape) for index in indexes])
        return of, self._wanted.n_procs.count

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        return self._data.opened.nothing()

    def statistics(self) -> dict[str, Any]:
        """Return the sums of all streams so far, and the rows."""
        stream, counted = self._stream, self._counted
        if stream is not None:
            counted = _added(counted, stream.source.statistics())
        return {**counted, "rows_received": self._delivered}

    def memory(self) -> list[tuple[int, int, object]]:
        """Return the memory of the stream that runs; each has its own."""
        stream = self._stream
        return [] if stream is None else stream.source.memory()


def _added(counted: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Join the statistics of two streams, of which the second one ran later."""
    joined = {**counted, **more}
    for name in ("tasks", "readers_replaced"):
        joined[name] = counted[name] + more[name]
    if counted["readers"]:
        joined["readers"] = [
            {key: value if key == "pid" else one[key] + value for key, value in other.items()}
            for one, other in zip(counted["readers"], more["readers"], strict=True)
        ]
    return joined
