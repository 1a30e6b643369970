"""From a file name and paths to indexes, and from a plan to a stream that runs.

Law
---
1. The file is open only while it is indexed.
2. What cannot work together (lengths, direct I/O on this file system) is an error before a ring
   is made; a ring that cannot be made is `SharedMemoryError`.
3. Which blocks a stream has is the plan's matter, whoever made it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _multitables import _core
from _multitables.errors import OptionsError, SharedMemoryError, UnsupportedDatasetError
from _multitables.index import device
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.hdf5_file import open_source
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.plan.stream_plan import ReadPlan
from _multitables.tree import Paths, members_of
from _multitables.wire import plan_bytes


@dataclass(frozen=True)
class Opened:
    """Datasets of equal outer length, and how their file is opened."""

    indexes: list[ChunkIndex]
    #: None for one dataset, [] for a tuple of them, or the keys of a dict.
    names: list[Any] | None
    field: str
    direct: bool
    open_options: Mapping[str, object]
    #: Readers take turns at the disk.
    turnstile: bool


def open_members(
    filename: str | os.PathLike[str],
    open_options: Mapping[str, Any],
    path: Paths,
    field: str | None,
    rotational: bool | None = None,
) -> Opened:
    """Index the datasets that `path` names; `rotational` is what the user says of the disk."""
    names, paths = members_of(path)
    with open_source(filename, dict(open_options)) as source:
        indexes = [source.index(one, field) for one in paths]
        turnstile = device.rotates(indexes[0].filename) if rotational is None else rotational
        opened = Opened(indexes, names, field or "", source.direct, source.open_options, turnstile)
    _check_lengths(indexes)
    if opened.direct and device.refuses_direct(indexes[0].filename):
        raise OptionsError(
            f"the file system of {indexes[0].filename!r} refuses direct I/O (O_DIRECT)",
            advice="Leave DRIVER='H5FD_DIRECT' out, or put the file on another file system",
            filename=indexes[0].filename,
        )
    return opened


def launch(
    opened: Opened,
    plan: ReadPlan,
    block_size: int,
    readers: Readers,
    give_back: Callable[[Readers, bool], None],
) -> StreamQueue:
    """Let `readers` run `plan`."""
    fields = [opened.field] * len(opened.indexes)
    control_bytes = _control_bytes(plan)
    encoded = plan_bytes.encode_plan(
        plan, control_bytes, opened.open_options, fields, opened.turnstile
    )
    ring = _make_ring(plan, encoded, opened.names)
    readers.assign(ring)
    return StreamQueue(ring, readers, plan, block_size, give_back)


def _check_lengths(indexes: Sequence[ChunkIndex]) -> None:
    first = indexes[0]
    for index in indexes[1:]:
        if index.n_rows != first.n_rows:
            raise UnsupportedDatasetError(
                f"datasets of one stream differ in length in {first.filename!r}: "
                f"{first.path!r} has {first.n_rows} rows, {index.path!r} has {index.n_rows}",
                advice="Stream datasets of equal outer length together, others on their own",
                expected=first.n_rows,
                got=index.n_rows,
            )


def _control_bytes(plan: ReadPlan) -> int:
    page = _core.PAGE_BYTES
    return -(-_core.control_bytes(plan.n_readers, plan.n_slots) // page) * page


def _make_ring(plan: ReadPlan, encoded: bytes, names: list[Any] | None) -> _core.Ring:
    views = [(m.index.dtype, [int(n) for n in m.index.row_shape]) for m in plan.datasets]
    try:
        return _core.Ring(encoded, views, names)
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        needed = plan.ring_payload_bytes
        raise SharedMemoryError(
            f"shared memory for the ring cannot be reserved ({needed} bytes): {reason}",
            advice="Free memory, or choose a smaller block_size or read_ahead",
            expected=needed,
        ) from error
