"""The queue of a stream: blocks of any source, handed to the user.

Law
---
1. A block that is ready costs one call of its source.
2. After an error each later call raises it again; after the end each returns `QueueClosed`.
3. However a stream ends (closed, dropped, left by an exception, interpreter exit), its readers end
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
from typing import TYPE_CHECKING, Any, Generic

from _multitables.errors import ClosedError, MultitablesError, QueueClosed, StalledError, public
from _multitables.parent.arrow import BlockTable
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.stream.block_source import BlockSource
from _multitables.parent.stream.ring_blocks import RingBlocks
from _multitables.parent.titles import count
from _multitables.parent.typed import Block

if TYPE_CHECKING:
    from typing_extensions import Self

    from _multitables.parent.typed import Guard


@public
class StreamQueue(InNotebooks, Generic[Block]):
    """Blocks of one stream, in order; made by `Streamer.get_queue`.

    Every block goes to exactly one caller, from whichever thread.

    Attributes
    ----------
    block_size : int
        Rows of a block.
    missing_files : dict of str to MultitablesError
        Of several files, those that are left out with ``Streamer(skip_missing=True)``, and why.

    Notes
    -----
    Libraries that take streams of Arrow (Polars, DuckDB, pyarrow) take a queue as one, with the
    blocks that are left, each as a record batch. It must have been made with ``remainder=True``.

    Examples
    --------
    >>> for guard in queue:  # doctest: +SKIP
    ...     with guard as block:
    ...         total += block.sum()
    >>> frame = polars.DataFrame(queue)  # doctest: +SKIP
    """

    def __init__(self, source: BlockSource) -> None:
        self.source = source
        #: Makes a table of a block without rows; given by the `Streamer`.
        self.as_table: Callable[[list[Any]], BlockTable] | None = None
        self.block_size, self.missing_files = source.block_size, source.missing_files
        self._error: Exception | None = None
        #: Whose release says whether this thread has it, also after an interrupt.
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end, source)

    def get(self, block: bool = True, timeout: float | None = None) -> Guard[Block] | Any:
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
        deadline = math.inf
        if timeout is not None:
            if timeout < 0:
                raise ValueError(f"'timeout' must be a non-negative number, got {timeout!r}")
            deadline = time.monotonic() + timeout
        if not block:
            deadline = 0.0
        source = self.source
        if source.takes_turns and not self.mine:  # a lock may be held by a thread that is not here
            return self._over()
        try:
            if source.takes_turns:
                left = -1 if deadline == math.inf else max(0.0, deadline - time.monotonic())
                if not self._lock.acquire(timeout=left):
                    raise queue.Empty
                if not self._finalizer.alive:
                    return self._over()
            guard = source.take(deadline)
            return self._over() if guard is None else guard
        except (queue.Empty, StalledError):
            raise
        except Exception as error:
            if self._error is None and not self._finalizer.alive:  # another thread has closed it
                return QueueClosed
            if not (source.takes_turns or isinstance(error, MultitablesError)):
                raise  # a source that is taken in turns may stand within a block
            error = self._fail(error)
            raise error from error.__cause__
        finally:
            if source.takes_turns:
                try:  # noqa: SIM105 (`suppress` is a call, after which an interrupt may come)
                    self._lock.release()
                except RuntimeError:  # it was not taken
                    pass

    def get_nowait(self) -> Guard[Block] | Any:
        """Take the next block if it is ready, otherwise raise `queue.Empty`."""
        return self.get(block=False)

    def _over(self) -> Any:
        """Return that there is no other block, or raise why."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        if not self.mine:
            raise ClosedError(
                f"this stream belongs to process {self._owner}, of which this one "
                f"({os.getpid()}) is a fork",
                good="The stream goes on there",
                advice="Open a stream in this process, with a Streamer of its own",
                owner=self._owner,
            )
        self.close()
        return QueueClosed

    def _fail(self, error: Exception) -> Exception:
        with self._lock:
            if self._error is None:
                self._error = error
            error = self._error
        if self._finalizer.detach() is not None:
            _end(self.source, sound=False)
        return error.with_traceback(None)

    def __repr__(self) -> str:
        of, n_readers = self.source.title()
        rows, readers = count(self.block_size, "row"), count(n_readers, "reader")
        return f"<{type(self).__name__} of {of}: blocks of {rows}, {readers}, {self._state()}>"

    def _state(self) -> str:
        if not self.mine:
            return f"of process {self._owner}"
        state = "open" if self._finalizer.alive else "closed"
        if self._error is not None:
            state = f"failed: {type(self._error).__name__}"
        return f"{self.source.delivered()} delivered, {state}"

    def iter(self) -> Iterator[Guard[Block]]:
        """Yield guards until the stream is over."""
        if type(self.source) is RingBlocks:
            return self.source.ring.guards(self.get)
        return iter(self.get, QueueClosed)

    def __iter__(self) -> Iterator[Guard[Block]]:
        return self.iter()

    # ---- Arrow's PyCapsule interface

    def __arrow_c_schema__(self) -> Any:
        """Return the schema of the queue as a stream of Arrow."""
        return self._block_table().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the blocks that are left as a stream of Arrow, which takes them one by one."""
        reader = self._block_table().reader(self._kept())
        return reader.__arrow_c_stream__(requested_schema)

    def _kept(self) -> Iterator[tuple[Any, bool]]:
        """Yield blocks, and whether readers need the memory of each again."""
        for guard in self.iter():
            is_needed = self.source.is_needed(guard)
            with guard as block:
                pass
            del guard
            yield block, is_needed

    def _block_table(self) -> BlockTable:
        assert self.as_table is not None  # as who has it has called `Streamer.get_queue`
        return self.as_table(self.source.nothing())

    def qsize(self) -> int:
        """Blocks that are ready and not yet taken."""
        return self.source.ready()

    def empty(self) -> bool:
        """True when no block is ready."""
        return self.qsize() == 0

    def statistics(self) -> dict[str, Any]:
        """Tell what the stream has done so far.

        Returns
        -------
        dict
            ``blocks_received``, ``blocks_total`` (None when endless), ``blocks_ready``,
            ``block_size`` (rows); of a `RaggedQueue` the statistics of its requests, as from
            `Reader.statistics`; of others ``blocks_held``; ``ring_rows``, ``ring_bytes``; ``tasks``
            (in one pass over the data); ``readers_replaced``; ``library``: path -> why it is read
            through an HDF5 library instead of natively; ``readers``: for each, counts
            (``tasks``, ``chunks``, ``library_tasks``, ``fetches``), bytes (``fetched_bytes``,
            ``decoded_bytes``) and seconds (``open_seconds``, ``fetch_seconds``,
            ``decode_seconds``, ``wait_seconds``: the ring was full). Of objects of stores, a fetch
            is a request; ``metadata`` has the ``requests`` and ``bytes`` of their metadata.
        """
        received, total = self.source.progress()
        return {
            "blocks_received": received,
            "blocks_total": total,
            "blocks_ready": self.qsize(),
            "block_size": self.block_size,
            **self.source.statistics(),
        }

    def read_amplification(self) -> float | None:
        """Estimate how often each chunk of the largest dataset is decoded in a lap, if possible."""
        return self.source.read_amplification()

    @property
    def endless(self) -> bool:
        """The stream has no last block."""
        return self.source.endless

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made the stream."""
        return os.getpid() == self._owner

    @property
    def is_open(self) -> bool:
        """The stream was not closed and did not end."""
        return self._finalizer.alive

    def stop(self) -> None:
        """End the stream. A `FollowQueue` delivers first what its file has now.

        Then comes `QueueClosed`. Any thread may call it, also while another waits for a block.
        """
        if not self.source.stop():
            self.close()

    def close(self) -> None:
        """End the stream and its readers. Blocks that are held stay valid. May be called again."""
        self.source.close()  # after this an interrupt leaves no thread waiting
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(source: BlockSource, sound: bool = True) -> None:
    source.close()
    source.end(sound)


@public
class FollowQueue(StreamQueue[Block]):
    """Blocks of datasets that grow; made by `Streamer.get_queue` with ``follow=True``.

    It is used as any `StreamQueue`, and ends when it is stopped or closed. A block that had to wait
    for too long for its last rows is shorter. Its statistics have ``rows_received``, too;
    ``ring_rows`` and ``ring_bytes`` are of the stream that ran last, ``tasks`` of all.

    Examples
    --------
    >>> with streamer.get_queue("/log", follow=True) as queue:  # doctest: +SKIP
    ...     for guard in queue:
    ...         with guard as block:
    ...             plot(block)
    """


@public
class VersionsQueue(StreamQueue[dict[str, Any]]):
    """Blocks of several versions of a dataset; made by `Streamer.get_queue`.

    A block is a dict from the names of the versions to the same rows of each. Where a version has
    fewer rows, its array is shorter, or has none. Versions whose rows are stored in the same chunks
    have the same array: ``block["r1"] is block["r2"]``. Blocks have the rows of a chunk; what is
    counted as blocks in statistics are the chunks.
    """


@public
class RaggedQueue(StreamQueue[Block]):
    """Blocks with ragged rows; made by `Streamer.get_queue`.

    Blocks are `RaggedBlock`, or tuples or dicts of these and arrays; they are valid and unchanged
    as long as you hold them.
    """
