"""Batches for training: epochs, ranks and resume over the streams of the ring.

Law
---
1. Says where an iteration begins; `BatchIterator` goes through it, and `EpochStreams` starts its
   streams.
2. A state tells what was delivered and nothing else: neither readers nor damage have a part in it.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core, options
from _multitables.errors import ClosedError, CorruptChunkError, MultitablesError
from _multitables.options import check_number
from _multitables.parent.batches.batch_iterator import BatchIterator, Bookmark, Progress
from _multitables.parent.batches.epoch_streams import EpochStreams
from _multitables.parent.dependents import Dependents
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.parent.titles import count, file_title, title
from _multitables.plan.checkpoint import Position, position_of, state_of
from _multitables.plan.reader_options import BatchOptions
from _multitables.plan.row_order import CHUNKS, WINDOW
from _multitables.plan.sharding import shard_of
from _multitables.tree import structure_of


class Batches:
    """Batches of a training run; made by `Streamer.get_batches`.

    Iterating goes through `epochs` epochs, from `epoch` on; the next iteration goes on after
    them. Breaking out of a loop leaves `epoch` where it was.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.
    damage : list of CorruptChunkError
        The chunks that were left out so far, with ``skip_damaged=True``.

    Examples
    --------
    >>> batches = streamer.get_batches("/images", 256, shuffle=True)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     for batch in batches:
    ...         train(batch)
    """

    def __init__(
        self, spec: DataSpec, wanted: BatchOptions, pool: ReaderPool, owns_pool: bool
    ) -> None:
        self.batch_size = wanted.batch_size
        self._spec = spec
        self._paths = structure_of(spec.path)[1]
        self._wanted = wanted
        self._streams = EpochStreams(spec, wanted, pool)
        self.damage: list[CorruptChunkError] = self._streams.damage.errors
        self._bookmark = Bookmark(wanted.start_epoch)
        self._closed = self._begun = False
        #: Otherwise it is a streamer's, which keeps its readers for others, too.
        self._own_pool = pool if owns_pool else None
        self._latest: Callable[[], BatchIterator | None] = lambda: None
        self._iterators = Dependents[BatchIterator]()

    # ---- what there is

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        start = self._bookmark.resumed or Position(self._bookmark.epoch, None, ())
        progress = self._bookmark.progress or Progress((start, 0))
        return f"<Batches of {self._title()}, {progress}, {state}>"

    def _title(self) -> str:
        if self._streams.is_open:
            indexes = self._streams.open()[0].indexes
            of = title(indexes[0].filenames, [(index.path, index.shape) for index in indexes])
        else:
            of = title(self._spec.file.filename, [(str(path), None) for path in self._paths])
        shuffle, readers = self._wanted.shuffle, count(self._wanted.n_procs.count, "reader")
        rows = count(self.batch_size, "row")
        return f"{of}: batches of {rows}, shuffle={shuffle!r}, {readers}"

    @property
    def missing_files(self) -> dict[str, MultitablesError]:
        """Of several files, those that are left out with ``skip_missing=True``, and why."""
        opened = self._streams.open()[0]
        return dict(opened.missing_files)

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        mark = self._bookmark
        return mark.epoch if mark.resumed is None else mark.resumed.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin with `epoch`.

        It begins with the epoch's first batch, unless a state was loaded that stands in this
        epoch: then where that stands.
        """
        epoch = check_number("epoch", epoch)
        mark = self._bookmark
        if mark.resumed is None or mark.resumed.epoch != epoch:
            mark.epoch, mark.resumed, mark.progress = epoch, None, None

    def _expect_epochs(self) -> None:
        """Let the first iteration prefetch the next epoch already: all epochs have one ring."""
        self._streams.prefetches = True

    def _share_out(self, part: int, parts: int) -> None:
        """Let this be one of `parts` processes that share out the rank's batches."""
        shard, wanted = self._streams.shard, self._wanted
        self._streams.shard = replace(
            shard,
            rank=wanted.rank * parts + part,
            world_size=wanted.world_size * parts,
            parts=parts,
        )

    def __len__(self) -> int:
        """Count the batches of the next iteration, of this rank."""
        runs = self._streams.runs(self._start())
        if any(run.epochs is None for run in runs):
            raise TypeError("batches without end have no length: epochs is None")
        return sum(run.batches * (run.epochs or 0) for run in runs)

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
        streams = self._streams
        wanted = self._bookmark.epoch if epoch is None else check_number("epoch", epoch)
        order = streams.order(wanted)
        words, listed = order.words, order.listed_bytes
        shard = shard_of(streams.everything(), streams.shard)
        rows = [_core.order_rows(words, listed, begin, end) for begin, end in shard]
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
        progress, latest = self._bookmark.progress, self._latest()
        if progress is not None and progress.is_through and (latest is None or latest.is_over):
            return state_of(self._start(), self._streams.shard, self._identity())
        return self._state_of_pass()

    def _state_of_pass(self) -> dict[str, Any]:
        """Return the state of the latest iteration, also when it was left at its end."""
        progress = self._bookmark.progress
        position = self._start() if progress is None else progress.position
        return state_of(position, self._streams.shard, self._identity())

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
        position = position_of(state, self._streams.shard, self._identity())
        mark = self._bookmark
        mark.epoch, mark.resumed, mark.progress = position.epoch, position, None

    def _identity(self) -> dict[str, Any]:
        """All that an order depends on."""
        _, order = self._streams.open()
        identity: dict[str, Any] = {
            "rows": order.n_rows,
            "shuffle": options.SHUFFLES[order.shuffle],
            "seed": order.seed,
            "first_row": order.start if order.listed is None else int(order.listed[0]),
            "step": order.step,
        }
        if samples := self._streams.samples:
            identity["samples"] = samples.identity
        if order.listed is not None:
            identity["listed"] = zlib.crc32(order.listed_bytes)
        if order.shuffle in (CHUNKS, WINDOW):
            identity["chunk_rows"] = order.chunk_rows
        if order.shuffle == WINDOW:
            identity["window_rows"] = order.window_rows
        return identity

    # ---- iterating

    def __iter__(self) -> BatchIterator:
        if self._closed:
            raise ClosedError(
                f"the batches of {file_title(self._spec.file.filename)} are closed",
                advice="Make new ones with get_batches",
            )
        streams, start = self._streams, self._start()
        streams.prefetches = streams.prefetches or self._begun
        self._begun = True
        runs = streams.runs(start)
        self._bookmark.progress = Progress((start, 0))
        iterator = BatchIterator(self._title(), streams, runs, self._bookmark)
        self._latest = weakref.ref(iterator)
        return self._iterators.add(iterator)

    def statistics(self) -> dict[str, Any]:
        """Tell what the latest iteration has done; see `BatchIterator.statistics`."""
        latest = self._latest()
        return self._bookmark.told if latest is None else latest.statistics()

    def close(self) -> None:
        """End all iterations and readers. Batches that are held stay valid."""
        self._closed = True
        self._iterators.close()
        self._streams.close()
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> Position:
        mark, epochs = self._bookmark, self._wanted.epochs
        if mark.resumed is not None:
            return mark.resumed
        stop = None if epochs is None else mark.epoch + epochs
        return Position(mark.epoch, stop, self._streams.everything())
