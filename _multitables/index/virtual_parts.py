"""A virtual dataset of any mappings: parts of its sources, of which its chunks are put together.

Law
---
1. Pure: mappings and the indexes of their sources in, an index out.
2. A part is a box with a step along each axis, on both sides (core/src/tables/parts.rs). Any other
   mapping is cut into the fewest such boxes, in the order of its elements if its sides differ in
   shape.
3. A mapping of some bytes may have any number of parts: a `Budget` bounds what is made of it.
   A virtual dataset beyond it is for a library.
4. Chunks are of a size that is good to read, and of whole chunks of the sources where these fit.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from _multitables import sizes
from _multitables.index.chunk_index import U64, ChunkIndex
from _multitables.index.virtual import (
    BLOCKS,
    I64,
    NONE,
    Mappings,
    Selections,
    UnfitError,
    paired_axes,
)

#: A chunk has as many bytes, or fewer where that makes less than these.
TASK_BYTES, TASKS = 4 << 20, 32
#: Along an axis of a source that is one element long.
NO_AXIS = -1
#: Elements that are looked at one by one, bytes of all parts, and parts that are cut one by one.
MAX_ELEMENTS, MAX_PARTS_BYTES, MAX_CUTS = 1 << 21, 128 << 20, 1 << 16


@dataclass
class Budget:
    """What the mappings of a virtual dataset may still take, all together."""

    parts: int
    elements: int = MAX_ELEMENTS
    cuts: int = MAX_CUTS

    def take(self, *, parts: int = 0, elements: int = 0, cuts: int = 0) -> None:
        """Raise `UnfitError` if that is more than there is."""
        self.parts, self.elements = self.parts - parts, self.elements - elements
        self.cuts -= cuts
        for left, what in (
            (self.parts, "parts"),
            (self.elements, "elements in mappings between different shapes"),
            (self.cuts, "parts of mappings that are not regular"),
        ):
            if left < 0:
                raise UnfitError(f"a virtual dataset of too many {what}")


def as_parts(
    index: ChunkIndex, mappings: Mappings, sources: Sequence[ChunkIndex | None]
) -> ChunkIndex:
    """Return the index of a virtual dataset as parts of its sources (None: missing).

    Raises
    ------
    UnfitError
        A source is read by a library, or a mapping is of no use.
    """
    shown = [source for source in sources if source is not None]
    for one in shown:
        if one.layout == "library":
            raise UnfitError(f"a virtual dataset of {one.path!r}: {one.reason}")
    places = np.cumsum([source is not None for source in sources]) - 1
    ranks = len(index.dims), max(len(source.dims) for source in shown)
    rows = [np.zeros((0, 2 + 3 * sum(ranks)), np.int64)]
    budget = Budget(MAX_PARTS_BYTES // (rows[0].itemsize * rows[0].shape[1]))
    alike: tuple[ChunkIndex, list[tuple[int, int]]] | None = None
    present = np.array([source is not None for source in sources])[mappings.source]
    present &= (mappings.in_virtual.kinds != NONE) & (mappings.in_source.kinds != NONE)
    numbers = np.flatnonzero(present)
    numbers = numbers[np.argsort(mappings.source[numbers], kind="stable")]
    for part in np.split(numbers, np.flatnonzero(np.diff(mappings.source[numbers])) + 1):
        source = sources[mappings.source[part[0]]] if len(part) else None
        if source is None:
            continue
        found, pairs = _of_source(index, mappings, source, part, budget)
        alike = alike or (source, pairs)
        row = np.zeros((len(found), rows[0].shape[1]), np.int64)
        row[:, 0], row[:, 1 : 1 + found.shape[1]] = places[mappings.source[part[0]]], found
        rows.append(row)
    if not alike:
        return replace(index, layout="contiguous")
    parts = np.concatenate(rows)
    parts = parts[np.lexsort((parts[:, 1], parts[:, 2]))]
    words: U64 = np.append(ranks[1], parts).astype(np.uint64)
    chunk_dims = readable_chunk_dims(index, *alike)
    return replace(index, layout="parts", chunk_dims=chunk_dims, shown=tuple(shown), parts=words)


def _of_source(
    index: ChunkIndex, mappings: Mappings, source: ChunkIndex, numbers: I64, budget: Budget
) -> tuple[I64, list[tuple[int, int]]]:
    """Return the parts of one source, without its number, and how axes belong together."""
    virtual = mappings.in_virtual.regular(numbers, index.dims)
    named = mappings.in_source.regular(numbers, source.dims)
    if virtual is not None and named is not None:
        _check(virtual, index.dims)
        _check(named, source.dims)
        (start, step, count), (first, stride, length) = map(_progressions, (virtual, named))
        pairs = paired_axes(count, length)
        if pairs is not None and np.all(step > 0) and np.all(stride > 0):
            budget.take(parts=len(numbers))
            return _words(numbers, (start, step, count), (first, stride), pairs), pairs
    if len(numbers) > 1:
        budget.take(cuts=len(numbers))
        each = [
            _of_source(index, mappings, source, one, budget)
            for one in np.split(numbers, len(numbers))
        ]
        return np.concatenate([found for found, _ in each]), each[0][1]
    if virtual is not None and named is not None:
        count = np.prod(virtual[..., 2:], axis=-1)
        pairs = paired_axes(count, np.prod(named[..., 2:], axis=-1))
        if pairs is not None:
            return _segments(numbers, virtual[0], named[0], pairs, budget), pairs
    number = int(numbers[0])
    shown = _elements(mappings.in_virtual, number, index.dims, budget)
    found = _elements(mappings.in_source, number, source.dims, budget)
    return _runs(numbers, (shown, index.dims), (found, source.dims), budget), []


def _check(axes: I64, dims: tuple[int, ...]) -> None:
    start, stride, count, block = np.moveaxis(axes, -1, 0)
    if np.any(start + stride * (count - 1) + block > dims):
        raise UnfitError("a virtual dataset whose mappings reach beyond its sources or itself")


def _progressions(axes: I64) -> tuple[I64, I64, I64]:
    """Return the first element, step and count along each axis; step 0 where that is not all."""
    start, stride, count, block = np.moveaxis(axes, -1, 0)
    step = np.where((count == 1) | (stride == block), 1, np.where(block == 1, stride, 0))
    return start, step, count * block


def _words(
    numbers: I64,
    virtual: tuple[I64, I64, I64],
    source: tuple[I64, I64],
    pairs: list[tuple[int, int]],
) -> I64:
    axes = np.full_like(source[0], NO_AXIS)
    for axis, number in pairs:
        axes[:, number] = axis
    sides = (np.stack(virtual, axis=-1), np.stack((*source, axes), axis=-1))
    order = numbers[:, None]
    return np.concatenate([order, *(side.reshape(len(side), -1) for side in sides)], axis=1)


def _segments(
    numbers: I64, virtual: I64, named: I64, pairs: list[tuple[int, int]], budget: Budget
) -> I64:
    """Cut a mapping along each axis where either side leaves its progression."""
    cut = []
    for axis, number in pairs:
        sides = virtual[axis], named[number]
        if np.array_equal(sides[0][2:], sides[1][2:]):
            cut.append(list(_alike(*sides, budget)))
            continue
        budget.take(elements=_length(sides[0]))
        cut.append(list(_progressing(_coordinates(sides[0]), _coordinates(sides[1]), budget)))
    n_parts = math.prod(map(len, cut))
    budget.take(parts=n_parts, cuts=n_parts)
    found = []
    for pieces in itertools.product(*cut):
        shown, taken = np.ones((len(virtual), 3), np.int64), np.ones((len(named), 3), np.int64)
        shown[:, 0], taken[:, 0], taken[:, 2] = virtual[:, 0], named[:, 0], NO_AXIS
        for (axis, number), (first, step, count, start, stride) in zip(pairs, pieces, strict=True):
            shown[axis], taken[number] = (first, step, count), (start, stride, axis)
        found.append(np.concatenate([numbers, shown.ravel(), taken.ravel()]))
    return np.array(found)


#: First, step and count, then first and step: of both sides of a part along one axis.
Piece = tuple[int, int, int, int, int]


def _alike(virtual: I64, named: I64, budget: Budget) -> Iterator[Piece]:
    """Yield the blocks of selections that have like ones, or what is at one place in each."""
    (start, stride, count, block), (first, step, *_) = virtual.tolist(), named.tolist()
    budget.take(cuts=min(count, block))
    if count < block:
        for at in range(count):
            yield start + at * stride, 1, block, first + at * step, 1
    else:
        for at in range(block):
            yield start + at, stride, count, first + at, step


def _length(axis: I64) -> int:
    return int(axis[2]) * int(axis[3])


def _coordinates(axis: I64) -> I64:
    start, stride, count, block = axis.tolist()
    steps: I64 = start + np.arange(count)[:, None] * stride + np.arange(block)
    return steps.ravel()


def _progressing(virtual: I64, named: I64, budget: Budget) -> Iterator[Piece]:
    """Yield parts with one step on both sides: first, step and count, then first and step."""
    steps = np.stack([np.diff(virtual), np.diff(named)])
    changes = np.flatnonzero((steps[:, 1:] != steps[:, :-1]).any(axis=0)) + 1
    budget.take(cuts=len(changes) // 2)  # a part ends at each of them, or at every other
    begin, length = 0, len(virtual)
    while begin < length:
        at = int(np.searchsorted(changes, begin + 1))
        end = int(changes[at]) + 1 if at < len(changes) else length
        step, stride = steps[:, begin].tolist() if end - begin > 1 else (1, 1)
        yield int(virtual[begin]), step, end - begin, int(named[begin]), stride
        begin = end


def _elements(selections: Selections, number: int, dims: tuple[int, ...], budget: Budget) -> I64:
    """Return the elements of a selection, in its order, as numbers in a dataspace."""
    grid = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    axes = selections.regular(np.array([number]), dims)
    if axes is not None:
        budget.take(elements=math.prod(map(_length, axes[0])))
        boxes = [[_coordinates(axis) for axis in axes[0]]]
    elif selections.kinds[number] == BLOCKS:
        bounds = selections.of(number).astype(np.int64).reshape(-1, 2, len(dims))
        if np.any(bounds[:, 1] >= dims):
            raise UnfitError("a virtual dataset whose mappings reach beyond its sources or itself")
        lengths = (bounds[:, 1] - bounds[:, 0] + 1).tolist()
        budget.take(elements=sum(map(math.prod, lengths)), cuts=len(lengths))
        boxes = [[np.arange(a, b + 1) for a, b in zip(*box, strict=True)] for box in bounds]
    else:
        raise UnfitError("a virtual dataset with a mapping of single points")
    found = []
    for box in boxes:
        each = (axis * stride for axis, stride in zip(box, grid, strict=True))
        found.append(functools.reduce(np.add.outer, each).ravel())
    return np.sort(np.concatenate(found))


def _runs(
    numbers: I64,
    virtual: tuple[I64, tuple[int, ...]],
    named: tuple[I64, tuple[int, ...]],
    budget: Budget,
) -> I64:
    """Cut a mapping into runs that lie in one row of the last axis, on both sides."""
    if len(virtual[0]) != len(named[0]):
        raise UnfitError("a virtual dataset with a mapping whose sides differ in length")
    goes_on = np.ones(max(0, len(virtual[0]) - 1), bool)
    for elements, dims in (virtual, named):
        goes_on &= np.diff(elements) == 1
        goes_on &= elements[1:] // dims[-1] == elements[:-1] // dims[-1]
    begins = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    budget.take(parts=len(begins))
    counts = np.diff(np.append(begins, len(virtual[0])))
    sides = []
    for elements, dims in (virtual, named):
        axes = np.ones((len(begins), len(dims), 3), np.int64)
        axes[:, :, 0] = np.stack(np.unravel_index(elements[begins], dims), axis=1)
        sides.append(axes)
    sides[0][:, -1, 2] = counts
    sides[1][:, :, 2] = NO_AXIS
    sides[1][:, -1, 2] = len(virtual[1]) - 1
    order = np.full((len(begins), 1), numbers[0])
    return np.concatenate([order, *(side.reshape(len(side), -1) for side in sides)], axis=1)


def readable_chunk_dims(
    index: ChunkIndex, source: ChunkIndex, pairs: list[tuple[int, int]]
) -> tuple[int, ...]:
    """Return how large a piece readers put together, if its axes are paired with a source's."""
    extents = [1] * len(index.dims)
    chunk_dims = source.chunk_dims or (1,) * len(source.dims)
    for axis, number in pairs:
        extents[axis] = min(chunk_dims[number], index.dims[axis])
    # Large, as chunks of the sources that two of them show may be decoded twice.
    all_bytes = math.prod(index.dims) * index.element_bytes
    wanted = min(max(all_bytes // TASKS, sizes.PIECE_BYTES), TASK_BYTES)
    for axis in reversed(range(len(extents))):
        others = math.prod(extents) // extents[axis] * index.element_bytes
        most = wanted // others
        if most >= index.dims[axis]:
            extents[axis] = index.dims[axis]
            continue
        extents[axis] *= max(1, most // extents[axis])
        break
    return tuple(extents)
