"""Virtual datasets that grow with their sources: how long they are by now, and what they show.

Law
---
1. Pure but for what it asks of the sources: their extents. A source that is missing has none.
2. The extent is that of the longest mapping, as HDF5's view "last available" has it, and no shorter
   than what other mappings show. Of sources with numbered names, the first one that is missing ends
   the mapping. There are at most `MAX_STEPS` of both.

Source: the reference manual of ``H5Pset_virtual`` and ``H5Pset_virtual_view``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

import numpy as np

from _multitables.index.virtual import I64, REGULAR, UNLIMITED, Mappings, Selections, UnfitError

#: Start, stride, count and block of a selection along one axis.
Axis = tuple[int, int, int, int]
Name = tuple[bytes, bytes]
#: Mappings that those without an end stand for, all together.
MAX_STEPS = 1 << 18
NUMBER = re.compile(rb"%([%b])")


def grown(
    mappings: Mappings, dims: tuple[int, ...], dims_of: Callable[[Name], tuple[int, ...] | None]
) -> tuple[Mappings, tuple[int, ...]]:
    """Return mappings that have ends, and the dims of the virtual dataset.

    Parameters
    ----------
    dims : tuple of int
        As the file tells them: what does not grow is so long.
    dims_of : callable
        Tells the extent of a source, None if it is missing.

    Raises
    ------
    UnfitError
        A mapping that HDF5 takes, and this does not.
    """
    dims_of = functools.cache(dims_of)
    rank, known = len(dims), {name: number for number, name in enumerate(mappings.names)}
    ends: dict[int, int] = {}
    added: list[tuple[Name, list[Axis] | None, int, list[Axis]]] = []
    endless = np.zeros(len(mappings.source), bool)
    for number in np.flatnonzero(mappings.in_virtual.kinds == REGULAR).tolist():
        shown = _axes(mappings.in_virtual.of(number))
        axis = next((at for at, one in enumerate(shown) if UNLIMITED in one[2:]), None)
        if axis is None:
            continue
        endless[number] = True
        name = mappings.names[mappings.source[number]]
        named = None
        if mappings.in_source.kinds[number] == REGULAR:
            named = _axes(mappings.in_source.of(number))
        length = 0
        for of, one, begin, count in _steps(name, named, shown[axis], dims_of):
            whole = [*shown[:axis], _part(shown[axis], begin, count), *shown[axis + 1 :]]
            added.append((of, one, number, whole))
            if len(added) > MAX_STEPS:
                raise UnfitError(f"a virtual dataset that grows, with over {MAX_STEPS} sources")
            length = begin + count
        ends[axis] = max(ends.get(axis, 0), _extent(shown[axis], length))
    kept = np.flatnonzero(~endless)
    fixed = mappings.in_virtual.regular(kept, dims)
    if fixed is None:
        raise UnfitError("a virtual dataset that grows, with mappings of odd shapes")
    for axis, end in ends.items():
        start, stride, count, block = np.moveaxis(fixed[:, axis], -1, 0)
        reach = (start + stride * (count - 1) + block).tolist()
        ends[axis] = max(end, *reach, 0)
    numbers = [known.setdefault(of, len(known)) for of, *_ in added]
    order = [*kept.tolist(), *(number for _, _, number, _ in added)]
    sort = np.argsort(order, kind="stable")
    source = np.concatenate([mappings.source[kept], np.array(numbers, np.uint32)])[sort]
    in_source = [_told(mappings.in_source, number) for number in kept.tolist()]
    in_source += [
        _told(mappings.in_source, number) if one is None else (REGULAR, np.ravel(one))
        for _, one, number, _ in added
    ]
    in_virtual = [_told(mappings.in_virtual, number) for number in kept.tolist()]
    in_virtual += [(REGULAR, np.ravel(whole)) for *_, whole in added]
    sides = (_selections([side[at] for at in sort]) for side in (in_source, in_virtual))
    all_dims = tuple(ends.get(axis, dims[axis]) for axis in range(rank))
    return Mappings(list(known), source.astype(np.uint32), *sides), all_dims


def _axes(numbers: np.ndarray) -> list[Axis]:
    return [tuple(axis) for axis in numbers.reshape(-1, 4).tolist()]


def _steps(
    name: Name,
    named: list[Axis] | None,
    shown: Axis,
    dims_of: Callable[[Name], tuple[int, ...] | None],
) -> Iterator[tuple[Name, list[Axis] | None, int, int]]:
    """Yield sources, the selection in each, and which elements of the endless axis these are."""
    axes = enumerate(named or ())
    axis = next((at for at, one in axes if UNLIMITED in one[2:]), None)
    if named is None or axis is None:
        is_numbered = _numbered(name, 0) != _numbered(name, 1)
        for number in range(2**32 if is_numbered else 1):
            of = _numbered(name, number)
            if dims_of(of) is None:
                return
            yield of, named, number * shown[3], shown[3]
        return
    dims = dims_of(name)
    length = _length(named[axis], dims[axis]) if dims and len(dims) == len(named) else 0
    whole = length if _is_dense(shown) else length // shown[3] * shown[3]
    for begin, end in ((0, whole), (whole, length)):
        if end > begin:
            part = _part(named[axis], begin, end - begin)
            yield name, [*named[:axis], part, *named[axis + 1 :]], begin, end - begin


def _numbered(name: Name, number: int) -> Name:
    """Return a name with a number in place of ``%b``."""
    by = {b"b": b"%d" % number, b"%": b"%"}
    file, path = (NUMBER.sub(lambda found: by[found[1]], part) for part in name)
    return file, path


def _is_dense(axis: Axis) -> bool:
    return axis[3] == UNLIMITED or axis[1] == axis[3]


def _length(axis: Axis, dim: int) -> int:
    """Return how many elements a selection without an end has along an axis of this length."""
    start, stride, _, block = axis
    inside = max(0, dim - start)
    if _is_dense(axis):
        return inside
    return inside // stride * block + min(inside % stride, block)


def _extent(axis: Axis, length: int) -> int:
    """Return how long an axis is of which this many elements are selected."""
    start, stride, _, block = axis
    if not length or _is_dense(axis):
        return start + length if length else 0
    full, rest = divmod(length, block)
    return start + stride * full + rest if rest else start + stride * (full - 1) + block


def _part(axis: Axis, begin: int, count: int) -> Axis:
    """Return some of the elements of a selection without an end."""
    start, stride, _, block = axis
    if _is_dense(axis):
        return start + begin, 1, 1, count
    first = start + begin // block * stride
    if begin % block == 0 and count % block == 0:
        return first, stride, count // block, block
    if begin % block == 0 and count < block:
        return first, 1, 1, count
    raise UnfitError("a virtual dataset that grows by parts of blocks")


def _told(selections: Selections, number: int) -> tuple[int, I64]:
    return int(selections.kinds[number]), selections.of(number).astype(np.int64)


def _selections(told: list[tuple[int, I64]]) -> Selections:
    lengths = [len(numbers) for _, numbers in told]
    return Selections(
        np.array([kind for kind, _ in told], np.uint8),
        np.cumsum(lengths).astype(np.uint64),
        np.concatenate([np.zeros(0, np.int64), *(one for _, one in told)]).astype(np.uint64),
    )
