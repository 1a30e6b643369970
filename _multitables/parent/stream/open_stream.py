"""From a file name and paths to indexes, and from a plan to a stream that runs.

Law
---
1. The file is open only while it is indexed.
2. What cannot work together (lengths, direct I/O on this file system) is an error before a ring
   is made; a ring that cannot be made is a `SharedMemoryError`.
3. The caller's plan decides which blocks a stream has; this file only runs it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from _multitables import _core, machine
from _multitables.errors import (
    OptionsError,
    SharedMemoryError,
    UnsupportedDatasetError,
    advice_for,
    note,
)
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import Source
from _multitables.index.files import device
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.joined.source import JoinedSource, MissingFiles, Wanted, index_all
from _multitables.index.names.dataset_names import datasets_named
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.index.versions.sources import of_version
from _multitables.options import CheckedVersion
from _multitables.parent.readers.reader_choice import readers_for
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.readers.threads import Threads
from _multitables.parent.stream.ring_blocks import RingBlocks
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.stream.warnings_of_streams import warn_of_missing, warn_of_slow_filters
from _multitables.parent.titles import file_title
from _multitables.plan.casts import Casts, cast_indexes
from _multitables.plan.inner_selection import select_inner
from _multitables.plan.placing import Placing
from _multitables.plan.reader_options import ReaderCount
from _multitables.plan.ring_size import whole_pages
from _multitables.plan.samples import Sample
from _multitables.plan.stream_plan import ReadPlan
from _multitables.plan.weights import Weights
from _multitables.tree import Leaf, Paths, Ragged, Structure, structure_of
from _multitables.wire import plan_bytes


@dataclass(frozen=True)
class DataSpec:
    """Which data a stream is of, as the user said it."""

    file: KeptSource
    path: Paths
    field: str | None = None
    #: What the user says of the disk; None: what the kernel says.
    rotational: bool | None = None
    #: What rows have of the axes behind the first, as `select_inner` takes it.
    inner: Any = None
    version: CheckedVersion | None = None
    #: What batches are of; None: each row is one.
    sample: Sample | None = None
    #: The weights of samples or rows, and the draws of an epoch; None: each comes once.
    weights: Weights | None = None
    draws: int | None = None
    #: The types and scales that readers convert numbers to.
    casts: Casts | None = None
    #: Where they place the elements of each row.
    placing: Placing | None = None

    def __post_init__(self) -> None:
        structure_of(self.path)  # to check it
        if self.field is not None and not isinstance(self.field, str):
            raise OptionsError(
                f"field must be a str, got {self.field!r}",
                advice="Name one column; of one in another, 'a/b'",
                option="field",
                got=self.field,
            )


@dataclass(frozen=True)
class Opened:
    """Datasets of equal outer length, and how their file is opened."""

    indexes: list[ChunkIndex]
    structure: Structure
    field: str
    direct: bool
    open_options: Mapping[str, object]
    #: Readers take turns at the disk.
    turnstile: bool
    #: Others write the file meanwhile.
    grows: bool = False
    #: In SWMR mode.
    is_swmr: bool = False
    #: Of several, those that are left out, and why.
    missing_files: MissingFiles = dataclasses.field(default_factory=dict)

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        return [np.empty((0, *index.row_shape), index.dtype) for index in self.indexes]

    def facts(self) -> dict[str, Any]:
        """Return what a plan must know of this machine, and of how the file is read."""
        return {
            "direct": self.direct,
            "native_filters": READERS_FILTERS,
            "memory_limit_bytes": machine.memory_limit_bytes(),
        }


def open_data(spec: DataSpec, *, grows: bool = False) -> Opened:
    """Index the datasets that `spec.path` names; while others write them with `grows`."""
    refuse_ragged(spec.path)
    with spec.file.open(grows=grows) as source:
        return data_in(spec, source, grows=grows)


def data_in(spec: DataSpec, source: Source, *, grows: bool = False) -> Opened:
    """Index the datasets of a file that is open; see `open_data`."""
    structure, paths = structure_of(spec.path)
    version = of_version(source, spec.version)
    indexes, missing = index_all(version, [Wanted(path, spec.field) for path in paths])
    opened = opened_of(spec, source, structure, indexes, grows=grows)
    warn_of_missing(missing)
    opened = replace(opened, missing_files=missing)
    if not grows:
        check_lengths(indexes, of_several=spec.file.is_several)
    if spec.inner is not None:
        opened = replace(opened, indexes=select_inner(indexes, spec.inner, structure))
    if spec.casts is not None:
        opened = replace(opened, indexes=cast_indexes(opened.indexes, spec.casts))
    return opened


def check_one_file(file: KeptSource, option: str, got: object) -> None:
    """Raise if there are several files, for an option that takes one."""
    if got is not None and got is not False and file.is_several:
        raise OptionsError(
            f"{option}={got!r} cannot be streamed, got {file_title(file.filename)} "
            "(expected one file)",
            advice="Make a Streamer for each file",
            option=option,
            got=got,
        )


def refuse_casts(casts: Casts | None, of: str) -> None:
    """Raise if `decode`, `dtype` or `scale` was given for data that readers do not convert."""
    if casts is not None and any((*casts.each, *casts.images)):
        raise OptionsError(
            f"{casts.option} cannot be given with {of}",
            advice="Convert what is delivered, as with transform",
            option=casts.option,
        )


def opened_of(
    spec: DataSpec,
    source: Source,
    structure: Structure,
    indexes: list[ChunkIndex],
    *,
    grows: bool = False,
) -> Opened:
    """Return datasets of an open file, and how readers shall open it."""
    filename, rotates = indexes[0].filename, spec.rotational
    if source.direct and not grows:
        device.check_direct(filename)
    return Opened(
        indexes=indexes,
        structure=structure,
        field=spec.field or "",
        direct=source.direct,
        open_options=source.open_options,
        turnstile=device.rotates(filename) if rotates is None else rotates,
        grows=grows,
        is_swmr=grows and source.files.is_swmr,
    )


def has_ragged(source: Source, spec: DataSpec) -> bool:
    """Whether some of the rows that `spec` names in an open file have lengths of their own.

    Of datasets that are joined, and of several files, the first one says it.
    """
    version = of_version(source, spec.version)

    def is_ragged(leaf: Leaf) -> bool:
        if isinstance(leaf, Ragged):
            return True

        def first(one: Source) -> bool:
            return one.is_ragged(datasets_named(one, leaf)[0])

        return version.of_first(first) if isinstance(version, JoinedSource) else first(version)

    return any(map(is_ragged, structure_of(spec.path)[1]))


def refuse_ragged(path: Paths) -> None:
    """Raise if rows of different lengths are named, before anything is opened or started."""
    for leaf in structure_of(path)[1]:
        if isinstance(leaf, Ragged):
            raise UnsupportedDatasetError(
                f"rows of different lengths ({str(leaf)!r}) cannot be taken here",
                advice="Stream them with Streamer.get_batches, and convert its blocks",
                path=str(leaf),
            )


def start_stream(
    pool: ReaderPool,
    wanted: ReaderCount,
    opened: Opened,
    planned: Callable[[Opened, int], tuple[ReadPlan, int]],
    readers: Readers | Threads | None = None,
    first_row: int = 0,
    made: Callable[..., RingBlocks] = RingBlocks,
    queue: type[StreamQueue] = StreamQueue,
) -> StreamQueue:
    """Let readers of `pool` run a plan.

    Parameters
    ----------
    planned : callable
        Returns the plan for what was opened and a number of readers, and the rows of a block.
    readers : optional
        Readers that start already. Default: new processes or threads, as the options say.
    first_row : int
        Rows that streams before this one delivered, where guards go on counting them.
    made, queue : callable
        Make the blocks, and their queue.
    """
    if readers is None:
        waits = opened.direct or opened.turnstile
        readers = readers_for(pool, opened.indexes, waits, wanted)
    try:
        plan, block_size = planned(opened, len(readers))
        paths, kind = [index.path for index in opened.indexes], type(readers).__name__.lower()
        note("%s are streamed in %d tasks; %s: %d", paths[:9], len(plan.tasks), kind, len(readers))
        warn_of_slow_filters(plan, READERS_FILTERS)
        ring = made_ring(encoded_plan(plan, opened), plan, opened, first_row)
        readers.assign(ring)
        end = partial(pool.give_back(), readers)
        return queue(made(ring, readers, plan, block_size, end, opened.missing_files))
    except BaseException:
        readers.stop()
        raise


def control_bytes(plan: ReadPlan) -> int:
    """Return what the ring's control header takes, in whole pages."""
    return whole_pages(_core.control_bytes(plan.n_readers, plan.n_slots, plan.n_consumers))


def check_lengths(indexes: Sequence[ChunkIndex], *, of_several: bool = False) -> None:
    """Raise if the datasets differ in length, in one file of several perhaps."""
    first = indexes[0]
    rows = [index.members.rows for index in indexes]
    if len(set(map(len, rows))) == 1:
        is_equal = all(np.array_equal(of, rows[0]) for of in rows)
        for together in () if is_equal else zip(*(index.members for index in indexes), strict=True):
            check_lengths(together)
    elif of_several:
        raise UnsupportedDatasetError(
            "datasets of one stream are joined of different numbers of datasets in several files "
            f"(got {[len(index.members) for index in indexes]}), so that rows of one file could "
            "come with those of another",
            advice="Join equally many datasets, or stream the files one by one",
        )
    for index in indexes[1:]:
        if index.n_rows != first.n_rows:
            raise UnsupportedDatasetError(
                f"datasets of one stream differ in length in {first.filename!r}: "
                f"{first.path!r} has {first.n_rows} rows, {index.path!r} has {index.n_rows}",
                advice="Stream datasets of equal outer length together, others on their own",
                expected=first.n_rows,
                got=index.n_rows,
            )


def encoded_plan(plan: ReadPlan, opened: Opened) -> bytes:
    """Return a plan as readers take it."""
    fields = [opened.field] * len(opened.indexes)
    options, turnstile = opened.open_options, opened.turnstile
    return plan_bytes.encode_plan(
        plan, control_bytes(plan), options, fields, turnstile, opened.grows
    )


def views_of(plan: ReadPlan) -> list[tuple[np.dtype[Any], list[int]]]:
    """Return dtype and shape of a row of each dataset."""
    return [(m.index.dtype, [int(n) for n in m.index.row_shape]) for m in plan.datasets]


def made_ring(
    encoded: bytes, plan: ReadPlan, opened: Opened, first_row: int = 0, consumer: int = 0
) -> _core.Ring:
    """Make the ring of a plan.

    Raises
    ------
    SharedMemoryError
        There is not enough memory.
    """
    try:
        return _core.Ring(encoded, views_of(plan), opened.structure.keys, first_row, consumer)
    except (OSError, MemoryError) as error:
        raise ring_shortage(error, plan.ring_payload_bytes) from error


def ring_shortage(error: BaseException, needed: int, of: str = "the ring") -> SharedMemoryError:
    """Compose the error for shared memory that is not available, of a ring or of something else."""
    reason = getattr(error, "strerror", None) or error
    advice = "Free memory, or choose a smaller block_size or read_ahead"
    return SharedMemoryError(
        f"shared memory for {of} cannot be reserved ({needed} bytes): {reason}",
        advice=advice_for(error, advice),
        expected=needed,
    )
