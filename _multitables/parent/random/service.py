"""What a `Reader` and its requests share: the work queue, the readers, the thread that watches.

Actors
------
::

    the user's threads                                   the reader processes

    Reader.request --> Service.ask --> [ work queue ] --> claim a task, write to the stage
         |                                                     |
         v                                                     v
    Request (a future) <-- handle <----- [ completion ] <-- answer
         ^      |
         |      +--> Service.settle: no result? the error, or another ask
         |
    Notifier's thread: callbacks, asyncio, and the end of a close that did not wait

The work queue and the handles are the core's, in shared memory. A user's thread that waits looks at
the readers itself (`look`), so `get` needs no other thread. The supervisor (`Readers`) replaces
readers that died, and the core queues their tasks again. The notifier's thread exists only where
something must be told without being asked.

Law
---
1. Nothing waits here without an end: each wait looks at the readers, and a user who holds every
   stage is told so.
2. A task that kills readers fails alone; readers that cannot even start end the service.
3. The watching thread is made when something must be told without being asked: callbacks, and
   the end of a `close` that did not wait. It alone tells requests their end.
4. It holds no `Reader` and no dataset, so that dropping the `Reader` ends it.
5. In a forked child everything is closed.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from _multitables import _core, options
from _multitables.errors import (
    ClosedError,
    OptionsError,
    QueueClosed,
    SharedMemoryError,
    StageBusyError,
    refused_error,
)
from _multitables.parent.random.dataset_handle import Catalogues, DatasetHandle
from _multitables.parent.random.notifier import Notifier
from _multitables.parent.random.pieces import PieceError, Pieces
from _multitables.parent.random.request import Ask, Request
from _multitables.parent.random.stage import Stage, arena, made, shortage, too_small, users
from _multitables.parent.readers import error_report
from _multitables.parent.readers.counters import counters
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.place import place_in_library, place_of_request
from _multitables.parent.readers.reader_choice import who_answers
from _multitables.parent.readers.request_threads import Answers, RequestThreads
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.titles import file_title
from _multitables.plan.reader_options import ReaderOptions
from _multitables.select.normalize import LibraryCall, Native, Refused, library_call, normalize
from _multitables.select.selection import Selection
from _multitables.wire.request_bytes import encode_hyperslab, encode_library

#: Who answers requests.
AnyReaders = Readers | RequestThreads


class Service:
    """Serves requests of one process by a group of readers."""

    def __init__(
        self,
        filename: Any,
        wanted: ReaderOptions,
        notify: Any,
        readers: AnyReaders | None = None,
        chunks: _core.Descriptor | None = None,
    ) -> None:
        self.filename = filename
        self.n_readers = n_readers = wanted.n_procs.count
        self._wanted = wanted.n_procs
        self.requests, self._cache_bytes = 0, wanted.cache_bytes
        #: Why it ended by itself. An exception kept here would keep the frames it was raised in.
        self._death: Death | None = None
        self.lock, self.owner = threading.RLock(), os.getpid()
        self._closing = self.ended = False
        self._looked = 0.0
        at_end = (lambda: None) if notify is None else partial(notify, QueueClosed)
        self.notifier = Notifier(self, at_end)
        n_slots = options.REQUEST_SLOTS if readers is None else options.ITERATION_SLOTS
        counts, most = (n_readers, n_slots, wanted.cache_bytes), wanted.memory_limit_bytes
        self.queue: _core.WorkQueue = made(lambda: _core.WorkQueue(arena(), *counts, chunks), 0)
        self.pool: _core.Stages = made(lambda: _core.Stages(arena(), most), most)
        kind = Readers if wanted.n_procs.threads is False else RequestThreads
        self.readers = readers or kind(n_readers, wanted.library_timeout_seconds)
        self.readers.assign(self.queue)
        users.add(self)
        if notify is not None:
            self.notifier.start()

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made this."""
        return os.getpid() == self.owner

    @property
    def closed(self) -> bool:
        """Whether no request can be made any more."""
        return self._closing or self.ended or not self.mine

    # ---- asking

    def ask(self, key: Selection, stages: _core.Stages, tries: int | None = None) -> Request:
        """Make a request in any case that can be made, waiting for a stage where need be.

        With `tries`, and where the core reads it, `_core.Exhausted` is raised when none was free
        so often.
        """
        if type(key) is not Selection or not isinstance(key.dataset, DatasetHandle):
            raise OptionsError(
                f"a request takes what indexing a dataset of a Reader gives, got {key!r}",
                advice="Write reader.request(dataset[...], stage)",
                option="key",
                got=key,
            )
        if not isinstance(stages, _core.Stages):
            raise OptionsError(
                f"a request takes a stage, a stage pool or None, got {stages!r}",
                advice="Make one with dataset.create_stage(rows), or leave it out",
                option="stage",
                got=stages,
            )
        form, request = normalize(key), Request(self, key, stages, None, key.finish)
        ask = Ask(request)
        if isinstance(form, Refused):
            self._check(stages)
            ask.error = refused_error(form.kind, form.text, good="Other requests are not affected")
            return request
        try:
            if isinstance(form, Native):
                ask.handle = self._ask_natively(key, form, stages, tries)
                if ask.handle is not None:
                    return request
                form = library_call(key)
            ask.handle = self._ask_library(form, stages, self._guess(form, stages))
        except SharedMemoryError as error:  # told when the result is asked for
            ask.error = error
            return request
        ask.by_library = True
        if form.ragged:
            ask.finish = key.dataset.unpacked
        return request

    def ask_heap(
        self,
        key: Selection,
        words: bytes,
        dtype: np.dtype[Any],
        shape: list[int],
        stages: _core.Stages,
        tries: int | None = None,
    ) -> Request:
        """Ask for elements in the global heap; `key` is the dataset that names them."""
        core = _catalogues(key).part("", self.queue).core
        assert core is not None
        request = Request(self, key, stages, None)
        Ask(request).handle = self._send(
            lambda patience: self.queue.hyperslab(core, words, dtype, shape, stages, patience),
            stages,
            tries,
        )
        return request

    def ask_pieces(self, wanted: Pieces, tries: int | None = None) -> Request:
        """Request whole datasets; a failure is a `PieceError`."""
        request = Request(self, wanted, self.pool, None)
        Ask(request).handle = self._send(
            lambda patience: wanted.send(self.queue, self.pool, patience, self.n_readers),
            self.pool,
            tries,
        )
        return request

    def _ask_natively(
        self, key: Selection, form: Native, stages: _core.Stages, tries: int | None = None
    ) -> _core.RequestHandle | None:
        """Ask the core; None if it does not read the dataset."""
        slab = form.hyperslab
        core = _catalogues(key).part(slab.field, self.queue).core
        if core is None:
            return None
        words, shape = encode_hyperslab(slab), list(slab.shape)
        return self._send(
            lambda patience: self.queue.hyperslab(core, words, slab.dtype, shape, stages, patience),
            stages,
            tries,
        )

    def _ask_library(
        self, call: LibraryCall, stages: _core.Stages, n_bytes: int, tries: int | None = None
    ) -> _core.RequestHandle:
        self._need_processes()
        ask, dtype = encode_library(call), call.dtype
        return self._send(
            lambda patience: self.queue.library(ask, dtype, n_bytes, stages, patience),
            stages,
            tries,
        )

    def _guess(self, call: LibraryCall, stages: _core.Stages) -> int:
        """Bytes of a stage for a library's result, whose size may not be known yet."""
        if call.shape is not None:
            return math.prod(call.shape) * call.dtype.itemsize
        return 0 if stages.count is not None else min(options.GUESSED_BYTES, stages.n_bytes)

    def _send(
        self,
        send: Callable[[float], _core.RequestHandle],
        stages: _core.Stages,
        tries: int | None = None,
    ) -> _core.RequestHandle:
        start, patience = time.monotonic(), 0.0
        while True:
            try:
                return send(patience)
            except _core.TooSmall as refusal:
                needed, have = refusal.args
                raise too_small(needed, have, stages) from None
            except _core.Exhausted as refusal:
                if tries is None:
                    if refusal.args == ("stage",):
                        self._may_wait(stages, start)
                elif tries == 0:
                    raise
                else:
                    tries -= 1
            except _core.Closed:
                raise self.closed_error(stages) from None
            except OSError as error:
                raise shortage(error, stages.n_bytes) from error
            except ValueError as error:
                self._check(stages)
                raise ClosedError(
                    f"the dataset or the stage is not of this process: {error}",
                    advice="Get datasets and make stages in the process that uses them",
                ) from error
            self.look()
            patience = options.WATCH_SECONDS

    def _may_wait(self, stages: _core.Stages, start: float) -> None:
        """Raise if waiting for a stage cannot help."""
        lent, age = stages.lent()
        if isinstance(stages, Stage) and stages.busy:
            raise StageBusyError(
                f"the stage holds, or waits for, the result of another request (for {age:.1f} s)",
                good="That request is not affected",
                advice="Take its result first, or use a pool: dataset.create_stage_pool(...)",
            )
        waited = time.monotonic() - start
        if lent and min(waited, age) >= options.STALL_SECONDS and not self.queue.pending():
            raise error_report.no_stage_error(waited, lent, age)

    def _check(self, stages: _core.Stages) -> None:
        """Raise if this stage, or this service, is closed, or the stage is busy."""
        if stages.closed or self.closed:
            raise self.closed_error(stages)
        self._may_wait(stages, time.monotonic())

    def closed_error(self, stages: _core.Stages | None = None) -> BaseException:
        """Compose the error for what cannot be asked, or answered, any more."""
        if not self.mine:
            return ClosedError(
                f"this Reader belongs to process {self.owner}, of which this one "
                f"({os.getpid()}) is a fork",
                good="It goes on there",
                advice="Make a Reader, its datasets and its stages in this process",
                owner=self.owner,
            )
        if self._death is not None:
            return error_report.request_death_error(self._death, None)
        if stages is not None and stages.closed and stages is not self.pool:
            return ClosedError("the stage is closed", advice="Make another with create_stage")
        return ClosedError(
            f"the Reader of {file_title(self.filename)} is closed",
            good="Results that were taken before are good",
            advice="Make a new Reader",
        )

    # ---- answers that are no results

    def settle(self, ask: Ask, handle: _core.RequestHandle, status: int, patience: float) -> None:
        """Give a request whose handle ended without result its error, or ask again."""
        if not self.mine:  # locks may be held by threads that are not here
            ask.error = self.closed_error()
            return
        with self.lock:
            if ask.handle is not handle or ask.error is not None:
                return
            try:
                self._settle(ask, handle, status, patience)
            except _core.Exhausted:
                now = time.monotonic()
                since = ask.waits_since = ask.waits_since or now
                lent, age = ask.stages.lent()
                if now - since >= options.STALL_SECONDS and not self.queue.pending():
                    ask.error = error_report.no_stage_error(now - since, lent, age)
            except _core.Closed:
                ask.error = self.closed_error()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what the user is told
                ask.error = error
            if ask.error is not None:
                handle.release()

    def _settle(self, ask: Ask, handle: _core.RequestHandle, status: int, patience: float) -> None:
        key, stages = ask.key, ask.stages
        if isinstance(key, Pieces):
            if status != _core.HANDLE_FAILED:
                raise self.closed_error()
            record = error_report.Record.of(handle.failure())
            number = key.number(record)
            raise PieceError(number, record.kind, self._task_error(key, record))
        if status == _core.HANDLE_MORE:
            needed = handle.needed_bytes or 0
            if stages.count is not None:
                raise too_small(needed, stages.n_bytes, stages)
            handle.release()
            form = normalize(key)
            call = form if isinstance(form, LibraryCall) else library_call(key)
            ask.handle = self._ask_library(call, stages, needed, 1 if patience else 0)
            ask.waits_since = None
        elif status == _core.HANDLE_FAILED:
            record = error_report.Record.of(handle.failure())
            if record.kind != "filter_unknown" or ask.by_library:
                raise self._task_error(key, record)
            _catalogues(key).by_library(_field(key))
            ask.by_library = True
            self._need_processes()
            ask.handle = self.queue.library_again(encode_library(library_call(key)), handle)
        else:
            raise self.closed_error()

    def _task_error(self, key: Selection | Pieces, record: error_report.Record) -> BaseException:
        death = self.readers.killers.get(record.task) if record.kind == "died" else None
        if isinstance(key, Pieces):
            place = place_of_request(*key.place(key.number(record), record))
        else:
            part = _catalogues(key).part(_field(key), self.queue)
            if death is not None and death.in_library:
                place = place_in_library(part.index, death.chunk, of_request=True)
                return error_report.request_death_error(death, place)
            place = part.place(record.chunk, key.steps)
        if death is not None:
            return error_report.request_death_error(death, place)
        return error_report.task_error(place, record)

    # ---- the readers

    def expect(self, dataset: DatasetHandle) -> None:
        """Let those begin who shall read a dataset."""
        part = dataset.catalogues.part("", self.queue)
        if isinstance(self.readers, RequestThreads):
            is_read = part.core is not None
            who = who_answers(part.index, part.direct, self._wanted)
            self.readers.let(who if is_read else Answers.PROCESSES)

    def mind(self, request: Request) -> None:
        """Let threads begin when a request is made before the last one's result, or is large."""
        readers = self.readers
        if isinstance(readers, RequestThreads) and not readers.is_started:
            handle = Ask(request).handle
            is_large = handle is not None and handle.out_bytes > _core.HELP_BYTES
            if is_large or self.queue.has_several():
                readers.start()

    def begin(self) -> None:
        """Let threads answer requests for which no thread of the program waits."""
        if isinstance(self.readers, RequestThreads):
            self.readers.start()

    def _need_processes(self) -> None:
        """Let processes go on, since a library or a plugin is never called by a thread."""
        if isinstance(self.readers, RequestThreads):
            self.readers.hand_over()

    def look(self) -> None:
        """Replace readers that died; end the service if they cannot live."""
        self._looked = time.monotonic()
        self.begin()
        death = self.readers.watch()
        if death is not None:
            self.end(death)

    def wake(self) -> None:
        """Wake the thread that tells requests their end."""
        self.queue.wake()

    def watch(self, ask: Ask) -> None:
        """Make a request a future for others, and tell them when it has ended."""
        self.begin()
        self.notifier.add(ask)

    def glance(self) -> None:
        """Look at the readers, if nobody did for a while."""
        self.begin()
        if time.monotonic() - self._looked > options.WATCH_SECONDS:
            self.look()

    # ---- the end

    def close(self, wait: bool) -> None:
        """Take no more requests; end when all are answered."""
        if not self.mine:
            return
        self._closing = True
        self.queue.close()
        if self.queue.pending():
            self.begin()
        self.end_if_drained()
        if not self.ended and self.notifier.start():
            self.queue.wake()
        if wait:
            self.notifier.join()

    def end_if_drained(self) -> None:
        """End after `close`, once everything is answered and told."""
        if self._closing and self.notifier.idle and not self.queue.pending():
            self.end()

    def leave(self, give_back: Callable[[AnyReaders, bool], None], sound: bool) -> None:
        """End the requests; the readers, which others gave, go back to these."""
        if not self.mine:
            self.readers.stop()
            return
        with self.lock:
            if self.ended:
                return
            self.ended = True
        self.queue.close()
        give_back(self.readers, sound)
        self.queue.stop(self.readers.outlived)
        self.pool.close()

    def end(self, death: Death | None = None) -> None:
        """End the readers and every request that is not answered. May be called again."""
        if not self.mine:
            self.readers.stop()
            return
        # Each step may be done twice, so that what an interrupt has left is done at the next call.
        with self.lock:
            self._death = self._death if self.ended else death
            self.ended = True
            self.readers.stop()
            self.queue.stop(self.readers.outlived)
            self.pool.close()
            self.notifier.end()

    # ---- numbers

    def statistics(self) -> dict[str, Any]:
        """Tell what was done so far; see `Reader.statistics`."""
        readers = [counters(self.queue.counters(n)) for n in range(self.n_readers)]
        lent, age = self.pool.lent()
        return {
            "requests": self.requests,
            "tasks": sum(reader["tasks"] for reader in readers),
            "tasks_pending": self.queue.pending(),
            "library_requests": sum(reader["library_tasks"] for reader in readers),
            "cache_hits": sum(reader["cache_hits"] for reader in readers),
            "cache_misses": sum(reader["cache_misses"] for reader in readers),
            "cache_bytes": sum(reader["cache_bytes"] for reader in readers),
            "cache_limit_bytes": self._cache_bytes * self.n_readers,
            "memory_bytes": self.pool.used_bytes,
            "memory_limit_bytes": self.pool.n_bytes,
            "stages_lent": lent,
            "stages_lent_seconds": age,
            "readers_replaced": self.readers.replaced,
            "readers": readers,
        }


def _catalogues(key: Selection) -> Catalogues:
    assert isinstance(key.dataset, DatasetHandle)  # `ask` has checked it
    return key.dataset.catalogues


def _field(key: Selection) -> str:
    """Return the column whose catalogue a request uses, or ""."""
    form = normalize(key)
    return form.hyperslab.field if isinstance(form, Native) else ""
