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
from _multitables.index.datasets.heap import Heap
from _multitables.parent.ragged.open_rows import FILE_BYTES, Entry
from _multitables.parent.ragged.ragged_block import RaggedBlock
from _multitables.parent.random.dataset_handle import DatasetHandle
from _multitables.parent.random.request import Ask as Served
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import Service
from _multitables.plan.ragged import I64, Fetch
from _multitables.plan.taken import Taken, TakenBoxes
from _multitables.select.selection import Arrangement, Boxes, Selection, Spans
from _multitables.wire.request_bytes import LEFT_OUT, encode_arrangement, encode_heap

Array = npt.NDArray[Any]
#: Makes the request of a fetch, from the number of tries for a stage.
Ask = Callable[[int | None], Request]
#: Who is asked, and where the result lies.
Asking = tuple[Service, _core.Stages]


def asking_heap(
    asking: Asking, entry: Entry, handle: DatasetHandle, fetch: Fetch
) -> tuple[I64, Ask]:
    """Return where rows in global heaps end in the result, and what requests them."""
    assert entry.spans is not None
    assert entry.atom is not None
    (service, stages), (_, offsets) = asking, fetch.spans(entry.spans)
    shape = [int(offsets[-1]), *entry.atom.shape]
    words = encode_heap(_descriptors(entry, fetch.rows), entry.atom.itemsize)
    key, dtype = Selection(handle, (fetch.row_spans(),)), entry.atom.base
    return offsets, lambda tries: service.ask_heap(key, words, dtype, shape, stages, tries)


def asking_rows(asking: Asking, entry: Entry, handle: DatasetHandle, step: Spans | Boxes) -> Ask:
    """Return what requests rows of one size: of pictures in global heaps, or as they are stored."""
    (service, stages), key = asking, Selection(handle, (step,))
    if entry.descriptors is None:
        return lambda tries: service.ask(key, stages, tries)
    rows, (index,) = step.key[0] if isinstance(step, Boxes) else step.key, entry.indexes
    to = step.arrangement
    shape = [*rows.shape, *(index.row_shape if to is None else to.shape)]
    if to is not None and to.parts is not None:
        shape = [to.parts, *shape]
    words = encode_heap(_descriptors(entry, rows.reshape(-1)), 1, to)
    return lambda tries: service.ask_heap(key, words, index.dtype, shape, stages, tries)


def _descriptors(entry: Entry, rows: range | I64) -> npt.NDArray[np.uint8]:
    """Return the descriptors of rows; those that are left out name no file."""
    assert entry.descriptors is not None
    (index,) = entry.indexes
    assert isinstance(index, Heap)
    key = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
    chosen: npt.NDArray[np.uint8] = entry.descriptors[key]
    if index.left_out:
        chosen, bad = chosen.copy(), np.isin(rows, index.left_out)
        chosen[bad, -FILE_BYTES:] = np.array([LEFT_OUT], "<u4").view(np.uint8)
    return chosen


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
