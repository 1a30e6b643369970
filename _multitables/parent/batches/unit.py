"""Units that loaders deliver: batches of rows or of samples, items, blocks of whole keys.

Law
---
1. A unit knows what an epoch has, which part of it is this rank's, and how its stream is started.
2. It keeps no state of an iteration: the loader has the position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from _multitables.errors import CorruptChunkError, MultitablesError
from _multitables.parent.node.place import NodePlace
from _multitables.parent.node.shared_readers import SharedReaders
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import file_title
from _multitables.plan.checkpoint import Position, position_of, state_of
from _multitables.plan.damaged_chunks import Rows
from _multitables.plan.reader_options import LoaderOptions, ReaderCount
from _multitables.plan.sharding import Part, Ranges, Shard, between, length, run_of_node, shard_of

if TYPE_CHECKING:
    from typing_extensions import Self


class Run(Protocol):
    """One stream of an iteration."""

    @property
    def batches(self) -> int:
        """Batches of this rank in each epoch; known when the stream has started."""

    @property
    def epochs(self) -> int | None:
        """How often the stream delivers them; None: without end."""

    @property
    def first_epoch(self) -> int:
        """The first of its epochs."""

    def position(self, epochs: int, batches: int) -> Position:
        """Return where an iteration stands behind epochs, and batches of another one."""

    def is_last(self, epochs: int) -> bool:
        """Whether nothing comes behind these epochs of it."""


@dataclass(frozen=True)
class EpochRun:
    """One stream of an iteration: `epochs` times (None: without end) the same positions."""

    first_epoch: int
    epochs: int | None
    #: What was left to all ranks when the epochs of this run began, and this rank's batches of it
    #: that were delivered before.
    begin: Position
    #: The positions that the stream delivers, and how many batches this rank gets of them.
    ranges: Ranges
    batches: int
    #: All positions of an epoch.
    everything: tuple[tuple[int, int], ...]

    def is_last(self, epochs: int) -> bool:
        """Whether nothing comes behind these epochs of it."""
        return epochs > 0 and self.first_epoch + epochs == self.begin.stop

    def position(self, epochs: int, batches: int) -> Position:
        """Return where an iteration stands: behind the last epoch still at its end."""
        if self.is_last(epochs):
            epochs, batches = epochs - 1, self.batches
        begin = self.begin
        if epochs:
            begin = Position(self.first_epoch + epochs, begin.stop, self.everything)
        return replace(begin, batches=begin.batches + batches)


class Unit:
    """A kind of batches or items; by default positions of an epoch are numbers."""

    #: The name of one, and the method that makes a loader of them.
    noun, maker = "batch", "get_batches"
    epochs: int | None
    start_epoch = 0
    shard = Shard(1)
    #: Its readers.
    pool: ReaderPool | None = None
    #: Another iteration is to come, for which its epoch is prefetched.
    prefetches = False
    #: After a loop the state is its end, and not the start of the next one.
    stays_at_end = False

    def title(self) -> str:
        """Describe the unit for messages, without opening a file."""
        raise NotImplementedError

    @property
    def where(self) -> str:
        """Name the file, or several, for messages."""
        raise NotImplementedError

    @property
    def missing_files(self) -> Mapping[str, MultitablesError]:
        """Of several files, those that are left out, and why."""
        raise NotImplementedError

    @property
    def damage(self) -> list[CorruptChunkError]:
        """The chunks that were left out so far."""
        return []

    def identity(self) -> dict[str, Any]:
        """Return all that an order depends on; ``rows`` is the number of positions."""
        raise NotImplementedError

    # ---- epochs and states

    def everything(self) -> tuple[Any, ...]:
        """Return all positions of an epoch."""
        return ((0, self.identity()["rows"]),)

    def runs(self, start: Position) -> Iterable[Any]:
        """Return the streams of an iteration that begins at `start`."""
        everything, runs, first = self.everything(), list[EpochRun](), start.epoch
        if start.ranges != everything or start.batches:
            rest = self._rest(start.ranges, start.batches)
            runs.append(EpochRun(first, 1, start, *rest, everything))
            first += 1
        left = None if start.stop is None else start.stop - first
        if left is None or left > 0:
            whole = Position(first, start.stop, everything)
            runs.append(EpochRun(first, left, whole, *self._rest(everything, 0), everything))
        return runs

    def _rest(self, ranges: Ranges, batches: int) -> tuple[Ranges, int]:
        """Return the rest of an epoch for a stream, and the batches that this rank gets of it."""
        shard = self.shard
        run = (run_of_node if shard.node > 1 else shard_of)(ranges, shard)
        rest = between(run, batches * shard.node * shard.batch_size, length(run))
        of_all = -(-length(rest) // shard.batch_size)
        return rest, -(-max(0, of_all - shard.number) // shard.node)

    def length(self, start: Position) -> int:
        """Count what an iteration from `start` on delivers to this rank."""
        return sum(run.batches * (run.epochs or 0) for run in self.runs(start))

    def state_of(self, position: Position) -> dict[str, Any]:
        """Return a position as a state."""
        return state_of(position, self.shard, self.identity())

    def position_of(self, state: Any) -> Position:
        """Return where a state goes on."""
        return position_of(state, self.shard, self.identity())

    # ---- streams

    def start(self, run: Any) -> StreamQueue | None:
        """Return the stream of a run; None: this rank gets nothing of it."""
        raise NotImplementedError

    def leave(self, stream: StreamQueue, run: Any) -> None:
        """End a stream behind its run, or let it rest."""
        stream.close()

    def delivered(self, block: Any, run: Any, taken: int) -> Any:
        """Return the batch to deliver for a block; None: nothing is left of it."""
        return block

    def transformed(self, block: Any) -> Any:
        """Return a batch after the user's transform."""
        return block

    def leave_out(self, error: CorruptChunkError) -> list[Rows]:
        """Leave a damaged chunk out of all streams to come, or raise the error."""
        raise error

    def close(self) -> None:
        """End streams that rest between epochs."""

    def shared_out(self, ranks: Part | None, part: Part | None) -> Unit:
        """Return the same unit for another rank, or for one of the processes that share a rank."""
        raise NotImplementedError


class FileUnit(Unit):
    """A unit that reads files, for one of several ranks.

    Parameters
    ----------
    spec
        The data.
    wanted : LoaderOptions
        How it is delivered.
    pool : ReaderPool
        Its readers.
    purpose : str
        With ``share="node"`` the same text in all ranks that share readers.
    """

    def __init__(self, spec: Any, wanted: LoaderOptions, pool: ReaderPool, purpose: str) -> None:
        self.spec, self.wanted = spec, wanted
        self.pool: ReaderPool = pool
        self.epochs, self.start_epoch = wanted.epochs, wanted.start_epoch
        self.shard = Shard(1, wanted.rank, wanted.world_size)
        #: The place of the rank among the ranks that share readers.
        self._place = NodePlace(0, 1)
        self._shared: SharedReaders | None = None
        if wanted.share:
            self._place = NodePlace.of(wanted.rank, wanted.world_size)
            self._shared = SharedReaders(self._place, purpose, pool.library_timeout_seconds)

    @property
    def filename(self) -> Any:
        """The file, or several."""
        return self.spec.file.filename

    @property
    def where(self) -> str:
        """Name the file, or several, for messages."""
        return file_title(self.filename)

    @property
    def elsewhere(self) -> LoaderOptions:
        """The options of the same unit in another process."""
        return self.wanted

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without its readers: the copy starts its own."""
        return _again, (type(self), self.spec, self.elsewhere, self.pool.library_timeout_seconds)

    def shared_out(self, ranks: Part | None, part: Part | None) -> Self:
        """Return the same unit for another rank, or for one of the processes that share a rank.

        Parameters
        ----------
        ranks : tuple of int, optional
            The rank, and how many there are. Default: its own.
        part : tuple of int, optional
            The number of a process among those that share the rank, and their number.

        Returns
        -------
        FileUnit
            A unit with its own readers; one in each of several processes, if `n_procs` is None.
        """
        wanted = self.elsewhere
        if ranks is not None:
            wanted = replace(wanted, rank=ranks[0], world_size=ranks[1])
        if part is not None and wanted.n_procs == ReaderCount(None, None):
            wanted = replace(wanted, n_procs=ReaderCount(1, threads=False))
        unit = _again(type(self), self.spec, wanted, self.pool.library_timeout_seconds)
        if part is not None:
            (number, parts), shard = part, unit.shard
            rank, world_size = shard.rank * parts + number, shard.world_size * parts
            unit.shard = replace(shard, rank=rank, world_size=world_size, parts=parts)
            unit.stays_at_end = True  # others may not be through with the loop
        return unit

    def close(self) -> None:
        """Leave the readers that ranks share."""
        if self._shared is not None:
            self._shared.close()


U = TypeVar("U", bound=FileUnit)


def _again(kind: Callable[..., U], spec: Any, wanted: LoaderOptions, timeout: float | None) -> U:
    return kind(spec, wanted, ReaderPool(True, timeout))
