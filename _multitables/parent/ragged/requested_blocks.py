"""Blocks of ragged rows, and of samples that are not rows, by requests of whole spans.

Actors
------
::

    RaggedPlan --- fetches --> RequestedBlocks - requests --> Service --> the reader processes
                                   |                                        |
    the user  <--- blocks ---------+ <------------- stages <----------------+

A fetch is several batches that are requested at once: of each flat dataset one request, whose
result lies in a stage of shared memory. Batches are views of it. While one fetch is delivered, the
next are with the readers.

Law
---
1. Blocks come in the order of the plan.
2. Nothing is copied: a block's arrays are views of a stage, which is used again when all of them
   are gone.
3. Held blocks never delay one that is ready. A stage is waited for only if no fetch is under way,
   and that wait ends with `StalledError`.
"""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any

from _multitables import _core
from _multitables.errors import MultitablesError, StalledError
from _multitables.parent.ragged.open_rows import Entry, OpenedRows
from _multitables.parent.ragged.rows_of_requests import (
    Ask,
    array_of,
    asking_heap,
    asking_rows,
    block_of,
)
from _multitables.parent.random.dataset_handle import DatasetHandle
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import AnyReaders, Service
from _multitables.parent.stream.block_source import BlockGuard, BlockSource
from _multitables.parent.titles import count, title
from _multitables.plan.ragged import I64, Fetch, RaggedPlan
from _multitables.plan.taken import Taken
from _multitables.select.selection import Boxes, Spans


@dataclass
class _Part:
    """The part of a fetch that belongs to one entry."""

    entry: Entry
    #: Where rows begin and end in the requested elements.
    offsets: I64 | None
    asks: list[Ask]
    requests: list[Request] = field(default_factory=list)
    #: Of samples.
    taken: Taken | None = None


@dataclass
class _Asked:
    """A fetch that readers work on, or that is delivered batch by batch."""

    fetch: Fetch
    parts: list[_Part]
    #: The blocks of all its rows, when they are there.
    whole: list[Any] = field(default_factory=list)
    #: Batches that were delivered.
    taken: int = 0

    @property
    def left(self) -> int:
        return len(self.fetch.batch_ends) - self.taken


class RequestedBlocks(BlockSource):
    """Blocks of ragged rows, or of samples, in order."""

    def __init__(
        self,
        service: Service,
        opened: OpenedRows,
        handles: list[list[DatasetHandle]],
        plan: RaggedPlan,
        give_back: Callable[[AnyReaders, bool], None],
    ) -> None:
        self.block_size, self.missing_files = plan.batch_size, opened.missing_files
        self.service, self._give_back = service, give_back
        self._plan, self._opened, self._handles = plan, opened, handles
        self._fetches = plan.fetches(_core.order_rows)
        self._asked: deque[_Asked] = deque()
        self._go_on()

    # ---- blocks

    def take(self, deadline: float) -> Any:
        """Return the guard of the next block, or None at the end."""
        try:
            return self._next(deadline)
        finally:
            if self.service.ended:  # perhaps before the last request was made
                self._asked.clear()

    def _next(self, deadline: float) -> Any:
        self._go_on()
        if not self._asked:
            return None
        asked = self._asked[0]
        if not asked.whole:
            asked.whole = self._taken(asked, deadline)
        ends, number = asked.fetch.batch_ends, asked.taken
        begin, end = ends[number - 1] if number else 0, ends[number]
        blocks = asked.whole
        if len(ends) > 1:
            blocks = [one[begin:end] for one in blocks]
        asked.taken += 1
        self.received += 1
        if not asked.left:
            self._asked.popleft()
            self._go_on()
        first = asked.fetch.position
        return BlockGuard(self._opened.structure.pack(blocks), (first + begin, first + end))

    def _taken(self, asked: _Asked, deadline: float) -> list[Any]:
        """Wait for the requests of a fetch, and return their results as blocks of all its rows."""
        for part in asked.parts:
            for request in part.requests:
                left = max(0.0, deadline - time.monotonic())
                try:
                    error = request.exception(None if left == math.inf else left)
                except FutureTimeoutError:
                    raise queue.Empty from None
                if error is not None:
                    raise self._explained(error)
        blocks = []
        for output in self._opened.outputs:
            parts = [asked.parts[at] for at in output]
            one = parts[0]
            if one.entry.is_part:
                each = [(part.entry, part.requests[0], part.taken) for part in parts]
                blocks.append(array_of(each))
            else:
                blocks.append(block_of(one.entry, one.requests, one.offsets, one.taken))
        return blocks

    def _explained(self, error: BaseException) -> BaseException:
        """Return the error of a request, with its consequence for the stream."""
        if isinstance(error, MultitablesError) and not isinstance(error, StalledError):
            good = f"{self.received} blocks were delivered and are good; the stream is closed"
            values = {"good": good, "advice": error.advice, **error.values}
            MultitablesError.__init__(error, error.happened, **values)  # type: ignore[arg-type]
        return error.with_traceback(None)

    # ---- requests

    def _go_on(self) -> None:
        """Request the next fetches, as far as there is memory for them."""
        try:
            while True:
                if self._asked and self._asked[-1].parts:
                    self._ask(self._asked[-1])
                if len(self._asked) >= self._plan.depth:
                    return
                fetch = next(self._fetches, None)
                if fetch is None:
                    return
                self._asked.append(_Asked(fetch, self._parts(fetch)))
        except _core.Exhausted:
            pass  # earlier requests are delivered first

    def _ask(self, asked: _Asked) -> None:
        # Only the first fetch waits for memory.
        tries = None if asked is self._asked[0] else 0
        for part in asked.parts:
            while part.asks:
                part.requests.append(part.asks[0](tries))
                part.asks.pop(0)

    def _parts(self, fetch: Fetch) -> list[_Part]:
        service, parts = self.service, list[_Part]()
        offsets: I64 | None
        step: Spans | Boxes
        each = zip(self._opened.entries, self._handles, self._stages(), strict=True)
        for entry, handles, stages in each:
            asking = service, stages
            offsets, taken, step = None, None, fetch.row_spans()
            if entry.are_taken:
                taken = entry.taken(fetch.numbers, self._plan.epoch_of(fetch))
                step = taken.step
            elif entry.atom is not None:
                offsets, ask = asking_heap(asking, entry, handles[0], fetch)
                parts.append(_Part(entry, offsets, [ask]))
                continue
            elif entry.spans is not None:
                step, offsets = fetch.spans(entry.spans)
            asks = [asking_rows(asking, entry, handle, step) for handle in handles]
            parts.append(_Part(entry, offsets, asks, taken=taken))
        return parts

    def _stages(self) -> list[_core.Stages]:
        """Return where the results of each entry lie; of those of one array in one stage."""
        pool = self.service.pool
        found = [pool] * len(self._opened.entries)
        for output in self._opened.together:
            one = pool.together()
            for at in output:
                found[at] = one
        return found

    def end(self, sound: bool) -> None:
        """End the requests, and give the readers back."""
        self.service.leave(self._give_back, sound)
        self._asked.clear()

    # ---- state

    def ready(self) -> int:
        """Count the blocks that need not be waited for."""
        ready = 0
        for asked in list(self._asked):
            requests = [request for part in asked.parts for request in part.requests]
            waits = any(part.asks for part in asked.parts)
            if not asked.whole and (waits or not all(one.done() for one in requests)):
                break
            ready += asked.left
        return ready

    def progress(self) -> tuple[int, int | None]:
        """Return how many blocks were taken, and how many there are."""
        return self.received, self._plan.n_batches

    def delivered(self) -> str:
        """Say how far the stream is."""
        return count(self.received, "block")

    def title(self) -> tuple[str, int]:
        """Return the title of the data, and the number of readers."""
        indexes = self._opened.indexes
        of = title(indexes[0].filename, [(index.path, index.shape) for index in indexes])
        return of, self.service.n_readers

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the requests, as `Reader.statistics` does."""
        return self.service.statistics()

    def read_amplification(self) -> float | None:
        """Estimate how often each chunk of the first dataset of samples is decoded in an epoch."""
        plan, kept = self._plan, self.service.statistics()["cache_limit_bytes"]
        together = plan.fetch_bytes // max(1, plan.fixed_bytes)
        return self._opened.times_decoded(plan.order, together, kept)

    def nothing(self) -> list[Any]:
        """Return the block of no rows."""
        return self._opened.nothing()
