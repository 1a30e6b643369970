"""Ragged rows by requests: the spans to read, and the block made of the results.

Law
---
1. Nothing is copied: a block's arrays are views of what the requests' results lie in. But rows that
   a library read are placed here, if they are placed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.parent.ragged.open_rows import Entry
from _multitables.parent.ragged.ragged_block import RaggedBlock
from _multitables.parent.random.dataset_handle import DatasetHandle
from _multitables.parent.random.request import Ask as Served
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import Service
from _multitables.plan.ragged import I64, Fetch
from _multitables.plan.taken import Taken, TakenBoxes
from _multitables.select.selection import Arrangement, Selection
from _multitables.wire.request_bytes import encode_arrangement, encode_heap

Array = npt.NDArray[Any]
#: Makes the request of a fetch, from the number of tries for a stage.
Ask = Callable[[int | None], Request]


def asking_heap(
    asking: tuple[Service, _core.Stages],
    entry: Entry,
    handle: DatasetHandle,
    fetch: Fetch,
    epoch: int,
) -> tuple[I64 | None, Ask]:
    """Return where rows in the global heap end in the result, and what requests them."""
    assert entry.descriptors is not None
    rows, offsets, to = fetch.rows, None, None
    if entry.spans is None:  # rows are pictures, of bytes
        (index,) = entry.indexes
        dtype, atom_bytes, shape = index.dtype, 1, [len(rows), *entry.row_shape]
        if entry.placement is not None:
            to = entry.placement.arrangement(epoch, fetch.numbers, 1)
            shape = shape if to.parts is None else [to.parts, *shape]
    else:
        assert entry.atom is not None
        _, offsets = fetch.spans(entry.spans)
        dtype, atom_bytes = entry.atom.base, entry.atom.itemsize
        shape = [int(offsets[-1]), *entry.atom.shape]
    chosen = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
    words = encode_heap(entry.descriptors[chosen], atom_bytes, to)
    key = Selection(handle, (fetch.row_spans(),))
    service, stages = asking
    return offsets, lambda tries: service.ask_heap(key, words, dtype, shape, stages, tries)


def block_of(
    entry: Entry, requests: Sequence[Request], offsets: I64 | None, taken: Taken | None = None
) -> Any:
    """Make the block of all rows or samples (`taken`) of a fetch from results of requests."""
    if entry.is_mask:
        assert taken is not None
        return taken.inside
    arrays, to = [], taken and taken.placed
    for request in requests:
        with request.get_unsafe() as view:
            arrays.append(_arranged(view, to) if to and Served(request).by_library else view)
    if taken is not None:
        return taken.made(arrays[0])
    if offsets is None:
        return arrays[0]
    columns = arrays.pop() if entry.has_columns else None
    values = entry.structure.pack(arrays)
    if entry.is_text and not arrays[0].all():
        values, offsets = _ended(arrays[0], offsets)
    return RaggedBlock(values, offsets, columns, entry.n_columns, entry.is_text)


def array_of(parts: Sequence[tuple[Entry, Request, Taken | None]]) -> Array:
    """Make the array of all rows or samples of a fetch in which several entries lie."""
    found: Array | None = None
    for entry, request, taken in parts:
        to = entry.placement
        assert to is not None
        assert not isinstance(taken, TakenBoxes)  # these are no parts
        with request.get_unsafe() as view:
            array: Array = view
        if taken is not None and taken.placed is not None and Served(request).by_library:
            mine = taken.made(_arranged(array, taken.placed.alone))
        else:
            whole = to.whole(array, (-1,) if taken is None else taken.lead)
            if taken is not None and to.has_steps:
                steps = np.moveaxis(whole, to.axis, 0)[:, :, taken.steps]
                whole = np.moveaxis(steps, 0, to.axis)
            mine = np.moveaxis(whole, to.axis, 0)[to.part]
            if taken is not None and taken.inside is not None and taken.pad != "edge":
                mine[~taken.inside] = taken.pad
            found = whole if found is None else found
        if found is None:
            found = np.stack([mine] * len(parts), to.axis)
        place = np.moveaxis(found, to.axis, 0)[to.part]
        if place.ctypes.data != mine.ctypes.data:  # it has a stage of its own
            place[...] = mine
    assert found is not None
    return found


def _arranged(rows: Array, to: Arrangement) -> Array:
    """Return rows that a library read, as the core would have placed them."""
    made = _core.arranged(rows.tobytes(), encode_arrangement(to))
    return made.view(rows.dtype).reshape(rows.shape[: rows.ndim - len(to.shape)] + to.shape)


def _ended(text: Any, offsets: I64) -> tuple[Any, I64]:
    """End each string at its first NUL, as HDF5 does."""
    pairs = itertools.pairwise(offsets.tolist())
    rows = [text[begin:end].tobytes().split(b"\0", 1)[0] for begin, end in pairs]
    ends = np.array([0, *itertools.accumulate(map(len, rows))], np.int64)
    return np.frombuffer(b"".join(rows), np.uint8), ends
