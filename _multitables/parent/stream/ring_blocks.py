"""The blocks of a ring of shared memory, which readers fill.

Law
---
1. A block that is ready costs one call into the core; everything slow is in `_wait`.
2. Nothing here can hang: every wait ends by a look at the readers, by the deadline, or by
   `StalledError` when the user holds every block that fits.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from _multitables import _core, options
from _multitables.errors import MultitablesError
from _multitables.parent.readers import error_report
from _multitables.parent.readers.counters import counters
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.place import place_of, place_of_death
from _multitables.parent.stream.block_source import BlockSource
from _multitables.parent.titles import title
from _multitables.plan.batch_plan import read_amplification
from _multitables.plan.stream_plan import ReadPlan
from _multitables.remote.access import told_requests

_Guard = _core.Guard


class Watched(Protocol):
    """The readers of a stream, which may serve other processes, too."""

    @property
    def replaced(self) -> int:
        """How many processes were replaced."""

    def watch(self) -> Death | None:
        """Return the death that ends the stream, if one does."""


class RingBlocks(BlockSource):
    """Blocks of a ring, taken by any thread at any time."""

    takes_turns = False

    def __init__(
        self,
        ring: _core.Ring,
        readers: Watched,
        plan: ReadPlan | Callable[[], ReadPlan],
        block_size: int,
        end: Callable[[bool], object],
        missing_files: dict[str, MultitablesError],
    ) -> None:
        self.block_size, self.missing_files = block_size, missing_files
        self.ring, self.readers = ring, readers
        self._planned, self._end = plan, end

    @property
    def plan(self) -> ReadPlan:
        """The plan of the stream."""
        if not isinstance(self._planned, ReadPlan):
            self._planned = self._planned()
        return self._planned

    def take(self, deadline: float) -> Any:
        """Return the guard of the next block."""
        # Most waits are short: no look at the readers for them.
        got = self.ring.receive(_patience(deadline))
        return got if type(got) is _Guard else self._wait(got, deadline)

    def _wait(self, got: object, deadline: float) -> Any:
        held_since, held = time.monotonic(), 0
        while True:
            if type(got) is _Guard:
                return got
            if got in (_core.ENDED, _core.CLOSED):
                return None
            if got == _core.FAILED:
                raise self._task_error()
            if (death := self.readers.watch()) is not None:
                raise self._death_error(death)
            now = time.monotonic()
            if got != _core.HELD or (received := self.ring.progress()[0]) != held:
                held_since = now
                held = self.ring.progress()[0] if got == _core.HELD else held
            elif now - held_since >= options.STALL_SECONDS:
                blocks = self.ring.held()
                if blocks and received == held:
                    raise error_report.stalled_error(now - held_since, blocks, self.plan)
                held_since = now
            if now >= deadline:
                raise queue.Empty
            got = self.ring.receive(max(1e-6, _patience(deadline)))

    def _task_error(self) -> Exception:
        record = error_report.Record.of(self.ring.failure())
        place = place_of(self.plan, self.ring, record.task, record.chunk)
        return error_report.task_error(place, record)

    def _death_error(self, death: Death) -> Exception:
        place = None
        if death.task is not None:
            place = place_of_death(self.plan, self.ring, death)
        return error_report.death_error(death, place, *self.ring.progress())

    def ready(self) -> int:
        """Count the blocks that need not be waited for."""
        return self.ring.ready_blocks()

    def progress(self) -> tuple[int, int | None]:
        """Return how many blocks were taken, and how many there are."""
        return self.ring.progress()

    def statistics(self) -> dict[str, Any]:
        """Return the counts of the ring and its readers."""
        plan = self.plan
        return {
            "blocks_held": len(self.ring.held()),
            "ring_rows": plan.capacity_rows,
            "ring_bytes": plan.ring_payload_bytes,
            "tasks": plan.lap_tasks,
            "readers_replaced": self.readers.replaced,
            "library": {m.index.path: m.reason for m in plan.datasets if m.reason},
            "readers": [counters(self.ring.counters(n)) for n in range(plan.n_readers)],
            **told_requests(file.fingerprint.access for file in plan.files),
        }

    def title(self) -> tuple[str, int]:
        """Return the title of the data, and the number of readers."""
        indexes = [dataset.index for dataset in self.plan.datasets]
        of = title(indexes[0].filenames, [(index.path, index.shape) for index in indexes])
        return of, self.plan.n_readers

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        indexes = [dataset.index for dataset in self.plan.datasets]
        return [np.empty((0, *index.row_shape), index.dtype) for index in indexes]

    def is_needed(self, guard: Any) -> bool:
        """False of blocks that lie in the ring with all that come after them."""
        plan = self.plan
        return bool(plan.ends) or guard.rows[0] < plan.end_row - plan.capacity_rows

    def memory(self) -> list[tuple[int, int, object]]:
        """Return the mapping of each dataset."""
        return [(address, size, self.ring) for address, size in self.ring.memory()]

    def read_amplification(self) -> float | None:
        """Estimate how often each chunk of the largest dataset is decoded in a lap."""
        return read_amplification(self.plan)

    def close(self) -> None:
        """Let go of threads that wait for a block."""
        self.ring.close()

    def end(self, sound: bool) -> None:
        """End the readers, or give them back."""
        self._end(sound)


def _patience(deadline: float) -> float:
    """Seconds to wait before the next look at the readers."""
    if deadline == math.inf:
        return options.WATCH_SECONDS
    return min(options.WATCH_SECONDS, max(0.0, deadline - time.monotonic()))
