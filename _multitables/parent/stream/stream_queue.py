"""The direct queue: blocks of a ring, handed to the user.

Law
---
1. A block that is ready costs one call into the core; everything slow is in `_wait`.
2. Nothing here can hang: every wait ends by a look at the readers, by the user's own time-out, or
   by `StalledError` when the user holds every block that fits.
3. After an error each later call raises it again; after the end each returns `QueueClosed`.
4. However a stream ends (closed, dropped, left by an exception, interpreter exit), its readers end
   or go back to the pool that they came from; after an error they end.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from _multitables import _core, options
from _multitables.errors import ClosedError, MultitablesError, QueueClosed, ReaderDiedError
from _multitables.parent.readers import error_report
from _multitables.parent.readers.counters import counters
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.place import place_of, place_of_death
from _multitables.parent.titles import count, title
from _multitables.plan.batch_plan import read_amplification
from _multitables.plan.stream_plan import ENDLESS, ReadPlan
from _multitables.remote.access import told_requests

_Guard = _core.Guard


class Watched(Protocol):
    """The readers of a stream, which may serve other processes, too."""

    @property
    def replaced(self) -> int:
        """How many processes were replaced."""

    def watch(self) -> Death | None:
        """Return the death that ends the stream, if one does."""


class StreamQueue:
    """Blocks of one stream, in order; made by `Streamer.get_queue`.

    Every block goes to exactly one caller, from whichever thread.

    Attributes
    ----------
    block_size : int
        Rows of a block.
    missing_files : dict of str to MultitablesError
        Of several files, those that are left out with ``Streamer(skip_missing=True)``, and why.

    Examples
    --------
    >>> for guard in queue:  # doctest: +SKIP
    ...     with guard as block:
    ...         total += block.sum()
    """

    def __init__(
        self,
        ring: _core.Ring,
        readers: Watched,
        plan: ReadPlan | Callable[[], ReadPlan],
        block_size: int,
        end: Callable[[bool], object],
    ) -> None:
        self.block_size = block_size
        self._ring = ring
        self._readers = readers
        self._planned = plan
        self.missing_files: dict[str, MultitablesError] = {}
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end, ring, end)

    @property
    def plan(self) -> ReadPlan:
        """What is read, and where it goes."""
        if not isinstance(self._planned, ReadPlan):
            self._planned = self._planned()
        return self._planned

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next block.

        Parameters
        ----------
        block : bool, optional
            Wait for a block (default). False is `get_nowait`.
        timeout : float, optional
            Seconds to wait at most. The default waits as long as the readers work.

        Returns
        -------
        guard or multitables.QueueClosed
            A context manager whose ``with`` gives the block, or `QueueClosed` when the stream is
            over, then and at every later call.

        Raises
        ------
        queue.Empty
            No block within `timeout`.
        SubprocessException
            A reader failed: `CorruptChunkError`, `FileChangedError`, `ReaderDiedError`,
            `LibraryTimeoutError`, ...
        StalledError
            The caller holds every block that fits the ring, for 30 seconds.
        """
        if timeout is not None and timeout < 0:
            raise ValueError(f"'timeout' must be a non-negative number, got {timeout!r}")
        if not block:
            timeout = 0.0
        # Most waits are short: no look at the readers for them.
        patience = options.WATCH_SECONDS
        if timeout is not None:
            patience = min(patience, timeout)
            timeout -= patience
        got = self._ring.receive(patience)
        if type(got) is _Guard:
            return got
        return self._wait(got, timeout)

    def get_nowait(self) -> Any:
        """Take the next block if it is ready, otherwise raise `queue.Empty`."""
        return self.get(block=False)

    def _wait(self, got: object, timeout: float | None) -> Any:
        start = time.monotonic()
        deadline = math.inf if timeout is None else start + timeout
        held_since, held = start, 0
        while True:
            if type(got) is _Guard:
                return got
            if got == _core.ENDED:
                self.close()
                return QueueClosed
            if got == _core.CLOSED:
                return self._closed()
            if got == _core.FAILED:
                raise self._fail(self._task_error())
            try:
                death = self._readers.watch()
            except ReaderDiedError as error:
                raise self._fail(error) from None
            if death is not None:
                raise self._fail(self._death_error(death))
            now = time.monotonic()
            if got != _core.HELD or (received := self._ring.progress()[0]) != held:
                held_since = now
                held = self._ring.progress()[0] if got == _core.HELD else held
            elif now - held_since >= options.STALL_SECONDS:
                blocks = self._ring.held()
                if blocks and received == held:
                    raise error_report.stalled_error(now - held_since, blocks, self.plan)
                held_since = now
            if now >= deadline:
                raise queue.Empty
            got = self._ring.receive(min(options.WATCH_SECONDS, max(1e-6, deadline - now)))

    def _closed(self) -> Any:
        if self._error is not None:
            raise self._error.with_traceback(None)
        if os.getpid() != self._owner:
            raise ClosedError(
                f"this stream belongs to process {self._owner}, of which this one "
                f"({os.getpid()}) is a fork",
                good="The stream goes on there",
                advice="Open a stream in this process, with a Streamer of its own",
                owner=self._owner,
            )
        return QueueClosed

    def _fail(self, error: BaseException) -> BaseException:
        with self._lock:
            if self._error is None:
                self._error = error
            error = self._error
        called = self._finalizer.detach()
        if called is not None:
            ring, end = called[2]
            _end(ring, end, sound=False)
        return error.with_traceback(None)

    def _task_error(self) -> BaseException:
        record = error_report.Record.of(self._ring.failure())
        place = place_of(self.plan, self._ring, record.task, record.chunk)
        return error_report.task_error(place, record)

    def _death_error(self, death: Death) -> BaseException:
        place = None
        if death.task is not None:
            place = place_of_death(self.plan, self._ring, death)
        return error_report.death_error(death, place, *self._ring.progress())

    def __repr__(self) -> str:
        plan = self.plan
        indexes = [dataset.index for dataset in plan.datasets]
        of = title(indexes[0].filenames, [(index.path, index.shape) for index in indexes])
        rows, readers = count(self.block_size, "row"), count(plan.n_readers, "reader")
        return f"<StreamQueue of {of}: blocks of {rows}, {readers}, {self._state()}>"

    def _state(self) -> str:
        if not self.mine:
            return f"of process {self._owner}"
        received, total = self._ring.progress()
        of = "" if total is None else f" of {total}"
        state = "open" if self._finalizer.alive else "closed"
        if self._error is not None:
            state = f"failed: {type(self._error).__name__}"
        return f"{received}{of} blocks delivered, {state}"

    def iter(self) -> Iterator[Any]:
        """Yield guards until the stream is over."""
        return self._ring.guards(self.get)

    def __iter__(self) -> Iterator[Any]:
        return self.iter()

    def qsize(self) -> int:
        """Blocks that are ready and not yet taken."""
        return self._ring.ready_blocks()

    def empty(self) -> bool:
        """True when no block is ready."""
        return self.qsize() == 0

    def statistics(self) -> dict[str, Any]:
        """Tell what the stream has done so far.

        Returns
        -------
        dict
            ``blocks_received``, ``blocks_total`` (None when endless), ``blocks_ready``,
            ``blocks_held``; ``block_size`` and ``ring_rows`` (rows), ``ring_bytes``; ``tasks``
            (in one pass over the data); ``readers_replaced``; ``library``: path -> why it is read
            through an HDF5 library instead of natively; ``readers``: for each, counts
            (``tasks``, ``chunks``, ``library_tasks``, ``fetches``), bytes (``fetched_bytes``,
            ``decoded_bytes``) and seconds (``open_seconds``, ``fetch_seconds``,
            ``decode_seconds``, ``wait_seconds``: the ring was full). Of objects of stores, a fetch
            is a request; ``metadata`` has the ``requests`` and ``bytes`` of their metadata.
        """
        received, total = self._ring.progress()
        plan = self.plan
        return {
            "blocks_received": received,
            "blocks_total": total,
            "blocks_ready": self.qsize(),
            "blocks_held": len(self._ring.held()),
            "block_size": self.block_size,
            "ring_rows": plan.capacity_rows,
            "ring_bytes": plan.ring_payload_bytes,
            "tasks": plan.lap_tasks,
            "readers_replaced": self._readers.replaced,
            "library": {m.index.path: m.reason for m in plan.datasets if m.reason},
            "readers": [counters(self._ring.counters(n)) for n in range(plan.n_readers)],
            **told_requests(file.fingerprint.access for file in plan.files),
        }

    def read_amplification(self) -> float | None:
        """Estimate how often each chunk of the largest dataset is decoded in a lap."""
        return read_amplification(self.plan)

    def memory(self) -> list[tuple[int, int, object]]:
        """Return address, bytes and owner of each mapping in which blocks lie.

        There is one for each dataset; it lasts as long as its owner is held.
        """
        return [(address, size, self._ring) for address, size in self._ring.memory()]

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        indexes = [dataset.index for dataset in self.plan.datasets]
        return [np.empty((0, *index.row_shape), index.dtype) for index in indexes]

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made the stream."""
        return os.getpid() == self._owner

    @property
    def is_open(self) -> bool:
        """The stream was not closed and did not end."""
        return self._finalizer.alive

    @property
    def endless(self) -> bool:
        """The stream has no last block."""
        return self.plan.end_row == ENDLESS

    def stop(self) -> None:
        """End the stream; one that follows a file delivers first what is in it."""
        self.close()

    def close(self) -> None:
        """End the stream and its readers. Blocks that are held stay valid. May be called again."""
        self._ring.close()  # an interrupt behind this leaves nobody waiting
        self._finalizer()

    def __enter__(self) -> StreamQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(ring: _core.Ring, end: Callable[[bool], object], sound: bool = True) -> None:
    ring.close()
    end(sound)
