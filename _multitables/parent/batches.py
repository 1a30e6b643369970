"""Batches for training: epochs, ranks and resume over the streams of the ring.

Law
---
1. An iteration is a row of legs, each one stream: what is left of an epoch after a resume, then
   the others together. Inside a leg epochs follow each other without a pause.
   Whoever loops over one epoch a second time will do so again: that loop leaves its stream running,
   and the next one goes on with it, its ring filled while the user does other things.
2. What counts as delivered is what was handed to the user; a state says that and nothing else. With
   the last batch an iteration stands at the end of its epoch, until it is left; then at the next.
3. A batch is a view of the ring whose base is its lease: held as long as the user holds it.
4. The file is indexed once, at the first need. Readers rest between iterations.
"""

from __future__ import annotations

import math
import os
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core, options
from _multitables.batch_plan import CHUNKS, WINDOW, order_of, plan_batches, read_amplification
from _multitables.dealing import Deal, Ranges, between, dealt, length
from _multitables.errors import ClosedError
from _multitables.options import BatchOptions, check_epoch
from _multitables.parent.launch import Opened, Paths, launch, open_members
from _multitables.parent.queue import StreamQueue
from _multitables.parent.team import Team
from _multitables.read_plan import OrderWords
from _multitables.resume import Standing, standing_of, state_of
from _multitables.subset import subset_of


@dataclass(frozen=True)
class Leg:
    """One stream of an iteration: `epochs` times (None: without end) the same positions."""

    first_epoch: int
    epochs: int | None
    #: What was left to all ranks when the epochs of this leg began, and this rank's batches of it
    #: that were delivered before.
    standing: Standing
    ranges: Ranges


@dataclass(frozen=True)
class Parked:
    """A stream at the end of an epoch, and the epoch that comes next in it."""

    stream: StreamQueue
    epoch: int


@dataclass
class Progress:
    """Where an iteration stands: so many batches behind a standing, both told at once."""

    at: tuple[Standing, int]
    #: All its batches were delivered.
    is_through: bool = False

    @property
    def standing(self) -> Standing:
        start, batches = self.at
        return replace(start, batches=start.batches + batches)


class Batches:
    """Batches of a training run; made by `Streamer.get_batches`.

    Iterating goes through `epochs` epochs, from `epoch` on; the next iteration goes on after
    them. Breaking out of a loop leaves `epoch` where it was.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.

    Examples
    --------
    >>> batches = streamer.get_batches("/images", 256, shuffle=True)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     for batch in batches:
    ...         train(batch)
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        open_options: Mapping[str, Any],
        path: Paths,
        field: str | None,
        rotational: bool | None,
        rows: Any,
        transform: Callable[[Any], Any] | None,
        wanted: BatchOptions,
        team: Team | None = None,
    ) -> None:
        self.batch_size = wanted.batch_size
        self._source = (filename, dict(open_options), path, field, rotational)
        self._rows = rows
        self._transform = transform
        self._wanted = wanted
        self._deal = Deal(
            wanted.batch_size, wanted.rank, wanted.world_size, wanted.drop_last, wanted.even
        )
        self._epoch = wanted.start_epoch
        self._resumed: Standing | None = None
        self._opened: Opened | None = None
        self._order: OrderWords | None = None
        self._closed = False
        #: An iteration has begun; another one is to come, for which its epoch is prepared.
        self._begun = self._goes_on = False
        #: Readers are ours, or those of a streamer that keeps them for others, too.
        self._own_team = team is None
        self._team = Team(keep=True) if team is None else team
        self._progress: Progress | None = None
        self._parked: Parked | None = None
        self._latest: weakref.ref[BatchIterator] | None = None
        self._told: dict[str, Any] = {}
        self._iterators: weakref.WeakSet[BatchIterator] = weakref.WeakSet()

    # ---- what there is

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        return self._epoch if self._resumed is None else self._resumed.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin with `epoch`.

        It begins with the epoch's first batch, unless a state was loaded that stands in this
        epoch: then where that stands.
        """
        epoch = check_epoch("epoch", epoch)
        if self._resumed is None or self._resumed.epoch != epoch:
            self._epoch = epoch
            self._resumed = self._progress = None

    def _expect_epochs(self) -> None:
        """Let the first iteration prepare the next epoch already: all epochs have one ring."""
        self._goes_on = True

    def _share_out(self, part: int, parts: int) -> None:
        """Let this be one of `parts` processes that share out the rank's batches."""
        deal, wanted = self._deal, self._wanted
        self._deal = replace(
            deal,
            rank=wanted.rank * parts + part,
            world_size=wanted.world_size * parts,
            parts=parts,
        )

    def __len__(self) -> int:
        """Count the batches of the next iteration, of this rank."""
        legs = self._legs(self._start())
        if any(leg.epochs is None for leg in legs):
            raise TypeError("batches without end have no length: epochs is None")
        return sum(-(-length(leg.ranges) // self.batch_size) * (leg.epochs or 0) for leg in legs)

    def order(self, epoch: int | None = None) -> npt.NDArray[np.int64]:
        """Return the rows of an epoch in the order in which this rank delivers them.

        Parameters
        ----------
        epoch : int, optional
            The default is the one with which the next iteration begins.

        Returns
        -------
        numpy.ndarray of int64
            Rows of the dataset.
        """
        _, order = self._open()
        wanted = self._epoch if epoch is None else check_epoch("epoch", epoch)
        words = replace(order, first_epoch=wanted)
        rows = [_order_rows(words, begin, end) for begin, end in dealt(self._all(), self._deal)]
        return np.concatenate(rows) if rows else np.zeros(0, np.int64)

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return what was delivered so far by the latest iteration, to be saved.

        Returns
        -------
        dict
            Of JSON's types. It holds for any number of readers. Taken in a loop's last turn, it
            leaves nothing to the iteration that goes on there; taken behind the loop, it is that
            of the beginning of the next iteration.
        """
        is_left = self._latest is None or self._latest() is None
        if self._progress is not None and self._progress.is_through and is_left:
            return state_of(self._start(), self._deal, self._identity())
        return self._state_of_pass()

    def _state_of_pass(self) -> dict[str, Any]:
        """Return the state of the latest iteration, also when it was left at its end."""
        standing = self._start() if self._progress is None else self._progress.standing
        return state_of(standing, self._deal, self._identity())

    def load_state_dict(self, state: Any) -> None:
        """Let the next iteration go on where a state was taken, up to the end that it had.

        Parameters
        ----------
        state : dict, or list of dict
            What `state_dict` returned: of this rank, of one rank (all are taken to have delivered
            equally many batches), or of all ranks. Ranks and batch size may be other ones than
            before: what was delivered is not repeated, and nothing is lost.

        Raises
        ------
        OptionsError
            Not a state, or one of other data or another shuffle.
        """
        standing = standing_of(state, self._deal, self._identity())
        self._resumed, self._epoch = standing, standing.epoch
        self._progress = None

    def _identity(self) -> dict[str, Any]:
        """All that an order depends on."""
        _, order = self._open()
        identity = {
            "rows": order.n_rows,
            "shuffle": options.SHUFFLES[order.shuffle],
            "seed": order.seed,
            "first_row": order.start if order.listed is None else int(order.listed[0]),
            "step": order.step,
        }
        if order.listed is not None:
            identity["listed"] = zlib.crc32(order.listed.astype("<u8", copy=False).data)
        if order.shuffle in (CHUNKS, WINDOW):
            identity["chunk_rows"] = order.chunk_rows
        if order.shuffle == WINDOW:
            identity["window_rows"] = order.window_rows
        return identity

    # ---- iterating

    def __iter__(self) -> BatchIterator:
        if self._closed:
            raise ClosedError(
                f"the batches of {os.fspath(self._source[0])!r} are closed",
                advice="Make new ones with get_batches",
            )
        start = self._start()
        self._goes_on = self._goes_on or self._begun
        self._begun = True
        self._progress = Progress((start, 0))
        iterator = BatchIterator(self, self._legs(start), self._progress)
        self._iterators.add(iterator)
        self._latest = weakref.ref(iterator)
        return iterator

    def statistics(self) -> dict[str, Any]:
        """Tell what the latest iteration has done; see `BatchIterator.statistics`."""
        latest = None if self._latest is None else self._latest()
        return self._told if latest is None else latest.statistics()

    def close(self) -> None:
        """End all iterations and readers. Batches that are held stay valid."""
        self._closed = True
        for iterator in list(self._iterators):
            iterator.close()
        self._leave_parked()
        if self._own_team:
            self._team.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- inside

    def _open(self) -> tuple[Opened, OrderWords]:
        if self._opened is None or self._order is None:
            opened = open_members(*self._source)
            subset = subset_of(self._rows, opened.indexes[0].n_rows)
            self._order = order_of(opened.indexes, subset, self._wanted)
            self._opened = opened
        return self._opened, self._order

    def _all(self) -> tuple[tuple[int, int], ...]:
        """All positions of an epoch."""
        _, order = self._open()
        return ((0, order.n_rows),)

    def _stop(self, epoch: int) -> int | None:
        return None if self._wanted.epochs is None else epoch + self._wanted.epochs

    def _start(self) -> Standing:
        if self._resumed is not None:
            return self._resumed
        return Standing(self._epoch, self._stop(self._epoch), self._all())

    def _legs(self, start: Standing) -> list[Leg]:
        everything = self._all()
        legs = []
        first = start.epoch
        if start.ranges != everything or start.batches:
            share = dealt(start.ranges, self._deal)
            rest = between(share, start.batches * self.batch_size, length(share))
            legs.append(Leg(first, 1, start, rest))
            first += 1
        left = None if start.stop is None else start.stop - first
        if left is None or left > 0:
            whole = Standing(first, start.stop, everything)
            legs.append(Leg(first, left, whole, dealt(everything, self._deal)))
        return legs

    def _leave_parked(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.stream.close()

    def _stream(self, leg: Leg) -> StreamQueue:
        """Return the stream of a leg: a new one, or the one that was left before it."""
        opened, order = self._open()
        wanted = self._wanted
        whole = tuple(leg.ranges) == tuple(dealt(self._all(), self._deal))
        goes_on = self._goes_on and leg.epochs == 1 and whole
        if goes_on and self._parked is not None and self._parked.stream.mine:
            parked, self._parked = self._parked, None
            if parked.epoch == leg.first_epoch:
                return parked.stream
            parked.stream.close()
        readers = self._team.take(wanted.n_procs)
        try:
            plan = plan_batches(
                opened.indexes,
                order=replace(order, first_epoch=leg.first_epoch),
                ranges=leg.ranges,
                batch_size=self.batch_size,
                n_readers=len(readers),
                epochs=None if goes_on else leg.epochs,
                read_ahead=wanted.read_ahead,
                direct=opened.direct,
                native_filters=_core.native_filters(),
                page_bytes=_core.PAGE_BYTES,
                memory_limit_bytes=options.memory_limit_bytes(),
            )
            return launch(opened, plan, self.batch_size, readers, self._team.give_back())
        except BaseException:
            readers.stop()
            raise


class BatchIterator:
    """One iteration of `Batches`: yields batches, and ends its readers when it is left."""

    def __init__(self, batches: Batches, legs: list[Leg], progress: Progress) -> None:
        self._batches = batches
        self._legs = legs
        self._leg: Leg | None = None
        self._stream: StreamQueue | None = None
        self._guards: Iterator[Any] = iter(())
        self._progress = progress
        self._taken = self._per_epoch = 0
        #: Batches of the leg that are still to come; infinite for a leg without end.
        self._left: float = 0
        self._told: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while self._left == 0:
            if self._is_latest():
                self._batches._resumed = None  # it goes on here
            self._end_leg()
            if not self._next_leg():
                self._end()
                raise StopIteration
        guard = next(self._guards, None)
        if guard is None:  # closed by another thread
            self._legs, self._left = [], 0
            raise StopIteration
        with guard as batch:
            pass
        del guard
        self._count()
        transform = self._batches._transform
        return batch if transform is None else transform(batch)

    def _end_leg(self) -> None:
        stream = self._leave()
        if stream is None or self._leg is None:
            return
        self._told = self._batches._told = _told_of(stream)
        if stream.endless:
            self._batches._leave_parked()
            self._batches._parked = Parked(stream, self._leg.first_epoch + 1)
        else:
            stream.close()

    def _next_leg(self) -> bool:
        if not self._legs:
            return False
        self._leg = self._legs.pop(0)
        self._per_epoch = -(-length(self._leg.ranges) // self._batches.batch_size)
        self._taken = 0
        self._progress.at = self._leg.standing, 0
        if self._per_epoch == 0:  # this rank has nothing in these epochs
            self._end_epochs(self._leg.epochs)
            return self._next_leg()
        self._stream = self._batches._stream(self._leg)
        self._guards = self._stream.iter()
        self._left = self._per_epoch * (math.inf if self._leg.epochs is None else self._leg.epochs)
        return True

    def _count(self) -> None:
        self._taken += 1
        self._left -= 1
        start, batches = self._progress.at
        self._progress.at = start, batches + 1
        if self._taken % self._per_epoch == 0:
            self._end_epochs(1)

    def _end_epochs(self, epochs: int | None) -> None:
        """Stand at the beginning of an epoch, or at the end of the last one."""
        standing, batches = self._progress.standing, self._batches
        epoch = standing.epoch + (epochs or 0)
        if epoch != standing.stop:
            self._progress.at = Standing(epoch, standing.stop, batches._all()), 0
            return
        self._progress.at = replace(standing, epoch=epoch - 1), 0
        self._progress.is_through = True
        batches._epoch = epoch
        if self._is_latest():
            batches._resumed = None

    def _is_latest(self) -> bool:
        return self._progress is self._batches._progress

    def _end(self) -> None:
        if self._progress.is_through and self._is_latest():
            self._batches._latest = None

    def memory(self) -> list[tuple[int, int, object]]:
        """Return address, bytes and owner of each mapping in which batches lie at present.

        A mapping lasts as long as its owner is held.
        """
        return [] if self._stream is None else self._stream.memory()

    def ready(self) -> int:
        """Count the batches that need not be waited for."""
        return 0 if self._stream is None else self._stream.qsize()

    def statistics(self) -> dict[str, Any]:
        """Tell what this iteration has done.

        Returns
        -------
        dict
            Of the stream that runs: what `StreamQueue.statistics` tells, and
            ``read_amplification``, an estimate of how often each chunk of the largest dataset is
            decoded in an epoch. After the end, what the last stream told; empty before the first
            batch.
        """
        return self._told if self._stream is None else _told_of(self._stream)

    def close(self) -> None:
        """End this iteration. Batches that are held stay valid. May be called again."""
        self._legs, self._left = [], 0
        stream = self._leave()
        if stream is not None:
            stream.close()

    def _leave(self) -> StreamQueue | None:
        stream, self._stream = self._stream, None
        self._guards = iter(())  # the stream's own would keep it
        return stream


def _told_of(stream: StreamQueue) -> dict[str, Any]:
    return {**stream.statistics(), "read_amplification": read_amplification(stream._plan)}


def _order_rows(order: OrderWords, begin: int, end: int) -> npt.NDArray[np.int64]:
    listed = np.zeros(0, np.uint64) if order.listed is None else order.listed
    return _core.order_rows(order.words, listed.astype("<u8", copy=False).tobytes(), begin, end)
