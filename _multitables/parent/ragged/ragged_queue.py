"""A stream with ragged rows: what a `StreamQueue` is for others, over requests of whole spans.

Actors
------
::

    RaggedPlan --- fetches --> RaggedQueue --- requests --> Service --> the reader processes
                                   |                                        |
    the user  <--- blocks ---------+ <------------- stages <----------------+

A fetch is several batches that are asked for at once: of each flat dataset one request, whose
result lies in a stage of shared memory. Batches are views of it. While one fetch is delivered, the
next are with the readers.

Law
---
1. Blocks come in the order of the plan, each to one caller, from whichever thread.
2. Nothing is copied: a block's arrays are views of a stage, which is used again when all of them
   are gone.
3. Who holds blocks never keeps a ready one from being delivered; only with nothing in hand is a
   stage waited for, and that ends with `StalledError`.
4. After an error each later call raises it again; after the end each returns `QueueClosed`. However
   a stream ends, its readers end or go back to where they came from.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any

from _multitables import _core
from _multitables.errors import ClosedError, MultitablesError, QueueClosed, StalledError
from _multitables.parent.ragged.open_rows import Entry, OpenedRows
from _multitables.parent.ragged.rows_of_requests import Ask, asking_heap, block_of, nothing
from _multitables.parent.random.dataset_handle import DatasetHandle
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import AnyReaders, Service
from _multitables.parent.titles import count, title
from _multitables.plan.ragged import I64, Fetch, RaggedPlan
from _multitables.plan.sample_rows import Taken
from _multitables.select.selection import Selection


class RaggedGuard:
    """One block on its way through ``with guard as block``."""

    def __init__(self, block: Any, rows: tuple[int, int]) -> None:
        self._block = block
        #: Rows of this block, counted from the start of the stream.
        self.rows = rows

    def __enter__(self) -> Any:
        if self._block is None:
            raise ClosedError(
                "the guard was used after its with block",
                advice="Keep the block itself, or get the next guard",
            )
        return self._block

    def __exit__(self, *_: object) -> None:
        self._block = None


@dataclass
class _Part:
    """What a fetch has of one entry."""

    entry: Entry
    #: Where rows begin and end in the elements that were asked for.
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


class RaggedQueue:
    """Blocks of one stream with ragged rows, in order; made by `Streamer.get_queue`.

    It has the methods of `StreamQueue`. Blocks are `RaggedBlock`, or tuples or dicts of these and
    of arrays.

    Attributes
    ----------
    block_size : int
        Rows of a block.
    missing_files : dict
        As of `StreamQueue`; nothing where rows are ragged, which are those of one file.
    """

    def __init__(
        self,
        service: Service,
        opened: OpenedRows,
        handles: list[list[DatasetHandle]],
        plan: RaggedPlan,
        give_back: Callable[[AnyReaders, bool], None],
    ) -> None:
        self.block_size = plan.batch_size
        self.plan = plan
        self.missing_files: dict[str, MultitablesError] = opened.missing_files
        self._service = service
        self._opened, self._handles = opened, handles
        self._fetches = plan.fetches(_core.order_rows)
        self._asked: deque[_Asked] = deque()
        self._received = 0
        self._error: BaseException | None = None
        #: Whose release says whether this thread has it, also after an interrupt.
        self._lock = threading.RLock()
        self._finalizer = weakref.finalize(self, _end, service, give_back)
        with self._lock:
            self._go_on()

    # ---- blocks

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next block; see `StreamQueue.get`."""
        if timeout is not None and timeout < 0:
            raise ValueError(f"'timeout' must be a non-negative number, got {timeout!r}")
        limit = timeout if block else 0.0
        until = None if limit is None else time.monotonic() + limit
        try:
            if not self._lock.acquire(timeout=-1 if limit is None else limit):
                raise queue.Empty
            if self._error is not None:
                raise self._error.with_traceback(None)
            if not self.mine:
                raise self._service.closed_error()
            if not self._finalizer.alive:
                return QueueClosed
            return self._next(until)
        except (queue.Empty, KeyboardInterrupt):
            raise
        except BaseException as error:
            if not self._finalizer.alive and self._error is None:  # another thread has closed it
                return QueueClosed
            self._fail(error)
            raise
        finally:
            try:  # noqa: SIM105 (`suppress` is a call, after which an interrupt may come)
                self._lock.release()
            except RuntimeError:  # it was not taken
                pass
            if not self._finalizer.alive:  # perhaps closed before the last request was made
                self._asked.clear()

    def get_nowait(self) -> Any:
        """Take the next block if it is ready, otherwise raise `queue.Empty`."""
        return self.get(block=False)

    def _next(self, until: float | None) -> Any:
        self._go_on()
        if not self._asked:
            self.close()
            return QueueClosed
        asked = self._asked[0]
        if not asked.whole:
            asked.whole = self._taken(asked, until)
        ends, number = asked.fetch.batch_ends, asked.taken
        begin, end = ends[number - 1] if number else 0, ends[number]
        blocks = asked.whole
        if len(ends) > 1:
            blocks = [one[begin:end] for one in blocks]
        asked.taken += 1
        self._received += 1
        if not asked.left:
            self._asked.popleft()
            self._go_on()
        first = asked.fetch.position
        return RaggedGuard(self._opened.structure.pack(blocks), (first + begin, first + end))

    def _taken(self, asked: _Asked, until: float | None) -> list[Any]:
        """Wait for the requests of a fetch, and return their results as blocks of all its rows."""
        for part in asked.parts:
            for request in part.requests:
                left = None if until is None else max(0.0, until - time.monotonic())
                try:
                    error = request.exception(left)
                except FutureTimeoutError:
                    raise queue.Empty from None
                if error is not None:
                    raise self._told(error)
        return [
            block_of(part.entry, part.requests, part.offsets, part.taken) for part in asked.parts
        ]

    def _told(self, error: BaseException) -> BaseException:
        """Let the error of a request say what it means for the stream."""
        if isinstance(error, MultitablesError) and not isinstance(error, StalledError):
            good = f"{self._received} blocks were delivered and are good; the stream is closed"
            told = {"good": good, "advice": error.advice, **error.values}
            MultitablesError.__init__(error, error.happened, **told)  # type: ignore[arg-type]
        return error.with_traceback(None)

    # ---- requests

    def _go_on(self) -> None:
        """Ask for what comes next, as far as there is memory for it."""
        try:
            while True:
                if self._asked and self._asked[-1].parts:
                    self._ask(self._asked[-1])
                if len(self._asked) >= self.plan.depth:
                    return
                fetch = next(self._fetches, None)
                if fetch is None:
                    return
                self._asked.append(_Asked(fetch, self._parts(fetch)))
        except _core.Exhausted:
            pass  # what was asked for is delivered first

    def _ask(self, asked: _Asked) -> None:
        # Behind others nobody waits for memory.
        tries = None if asked is self._asked[0] else 0
        for part in asked.parts:
            while part.asks:
                part.requests.append(part.asks[0](tries))
                part.asks.pop(0)

    def _parts(self, fetch: Fetch) -> list[_Part]:
        service, parts = self._service, list[_Part]()
        offsets: I64 | None
        for entry, handles in zip(self._opened.entries, self._handles, strict=True):
            if entry.descriptors is not None and entry.spans is not None:
                offsets, ask = asking_heap(service, entry, handles[0], fetch)
                parts.append(_Part(entry, offsets, [ask]))
                continue
            if entry.samples is not None:
                parts.append(self._of_samples(entry, handles, fetch))
                continue
            offsets = None
            spans = fetch.row_spans()
            if entry.spans is not None:
                spans, offsets = fetch.spans(entry.spans)
            keys = [Selection(handle, (spans,)) for handle in handles]
            asks: list[Ask] = [_asking(service, key) for key in keys]
            parts.append(_Part(entry, offsets, asks))
        return parts

    def _of_samples(self, entry: Entry, handles: list[DatasetHandle], fetch: Fetch) -> _Part:
        assert entry.samples is not None
        assert entry.take is not None
        epoch = self.plan.epoch_of(fetch)
        taken = entry.samples.taken(fetch.numbers, epoch, entry.take)
        keys = [Selection(handle, (taken.step,)) for handle in handles]
        asks: list[Ask] = [_asking(self._service, key) for key in keys]
        return _Part(entry, None, asks, taken=taken)

    # ---- the end

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._asked.clear()
        called = self._finalizer.detach()
        if called is not None:
            service, give_back = called[2]
            _end(service, give_back, sound=False)

    def close(self) -> None:
        """End the stream and its readers. Blocks that are held stay valid. May be called again."""
        self._finalizer()
        self._asked.clear()

    def __enter__(self) -> RaggedQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what there is

    def iter(self) -> Iterator[Any]:
        """Yield guards until the stream is over."""
        while (guard := self.get()) is not QueueClosed:
            yield guard

    def __iter__(self) -> Iterator[Any]:
        return self.iter()

    def __repr__(self) -> str:
        indexes = self._opened.indexes
        of = title(indexes[0].filename, [(index.path, index.shape) for index in indexes])
        state = "open" if self.is_open else "closed"
        if self._error is not None:
            state = f"failed: {type(self._error).__name__}"
        rows, readers = count(self.block_size, "row"), count(self._service.n_readers, "reader")
        delivered = f"{self._received} blocks delivered"
        return f"<RaggedQueue of {of}: blocks of {rows}, {readers}, {delivered}, {state}>"

    def qsize(self) -> int:
        """Blocks that are ready and not yet taken."""
        ready = 0
        for asked in list(self._asked):
            requests = [request for part in asked.parts for request in part.requests]
            waits = any(part.asks for part in asked.parts)
            if not asked.whole and (waits or not all(one.done() for one in requests)):
                break
            ready += asked.left
        return ready

    def empty(self) -> bool:
        """True when no block is ready."""
        return self.qsize() == 0

    def statistics(self) -> dict[str, Any]:
        """Tell what the stream has done so far.

        Returns
        -------
        dict
            ``blocks_received``, ``blocks_total`` (None when endless), ``blocks_ready``,
            ``block_size``, and what `Reader.statistics` tells of its requests.
        """
        return {
            "blocks_received": self._received,
            "blocks_total": self.plan.n_batches,
            "blocks_ready": self.qsize(),
            "block_size": self.block_size,
            **self._service.statistics(),
        }

    def memory(self) -> list[tuple[int, int, object]]:
        """Return nothing: each stage is a mapping's part that others use, too."""
        return []

    def nothing(self) -> list[Any]:
        """Return what is delivered of no rows at all."""
        return [nothing(entry) for entry in self._opened.entries]

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made the stream."""
        return os.getpid() == self._service.owner

    @property
    def is_open(self) -> bool:
        """The stream was not closed and did not end."""
        return self._finalizer.alive

    @property
    def endless(self) -> bool:
        """The stream has no last block."""
        return self.plan.n_batches is None

    def read_amplification(self) -> float | None:
        """Return None: how often chunks are decoded depends on what readers keep of them."""
        return None


def _asking(service: Service, key: Selection) -> Ask:
    return lambda tries: service.ask(key, service.pool, tries)


def _end(
    service: Service, give_back: Callable[[AnyReaders, bool], None], sound: bool = True
) -> None:
    service.leave(give_back, sound)
