"""Where the objects of one path are in all files of a manifest, found at once.

Law
---
1. Files are taken to have the structure of the first one, and checked; where one has another, its
   links are searched.
2. Only hard links are followed here: where others lead, each file says.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from _multitables.index.chunk_index import U64
from _multitables.index.saved.format import GROUP, HARD, I64, SavedIndex


def rows_alike(index: SavedIndex, path: str) -> I64 | None:
    """Return the number of the object of a path in each file; None: each has to be searched."""
    ends = index.of_files("objects_end").astype(np.int64)
    begins = np.append(np.int64(0), ends[:-1])
    rows = _at(index, begins, ends, index.of_files("root"))
    for name in path.encode("utf-8", "surrogateescape").split(b"/"):
        if name and name != b"." and rows is not None:
            links = _links(index, rows, name)
            if links is None or np.any(index.link_kind[links] != HARD):
                return None
            rows = _at(index, begins, ends, index.link_target[links])
    return rows


def _at(index: SavedIndex, begins: I64, ends: I64, offsets: U64) -> I64 | None:
    """Return the objects at these offsets, one in each file."""
    headers = index.header_offset
    if not len(headers):
        return None
    near = begins + headers[begins[0] : ends[0]].searchsorted(offsets[0])
    rows: I64 = np.minimum(near, len(headers) - 1)
    is_other = (headers[rows] != offsets) | (rows >= ends)
    for number in np.flatnonzero(is_other).tolist():
        begin, end = int(begins[number]), int(ends[number])
        row = begin + int(headers[begin:end].searchsorted(offsets[number]))
        if row == end or headers[row] != offsets[number]:
            return None
        rows[number] = row
    return rows


def _links(index: SavedIndex, rows: I64, name: bytes) -> I64 | None:
    """Return the links of this name, one in each group."""
    if np.any(index.kind[rows] != GROUP):
        return None
    first, count = index.first[rows].astype(np.int64), index.second[rows].astype(np.int64)
    within = _search(index, int(first[0]), int(count[0]), name)
    if within is None:
        return None
    ends, stored = index.link_end.astype(np.int64), np.frombuffer(index.names, np.uint8)
    links: I64 = np.minimum(first + within, len(ends) - 1)
    begin: I64 = np.where(links > 0, ends[links - 1], 0)
    letters = np.frombuffer(name + b"\0", np.uint8)
    is_it = (within < count) & (ends[links] - begin == len(letters))
    at = begin[is_it, None] + np.arange(len(letters))
    is_it[is_it] = np.all(stored[at] == letters, axis=1)
    for number in np.flatnonzero(~is_it).tolist():
        found = _search(index, int(first[number]), int(count[number]), name)
        if found is None:
            return None
        links[number] = first[number] + found
    return links


def _search(index: SavedIndex, first: int, count: int, name: bytes) -> int | None:
    links = range(first, first + count)
    within = bisect_left(links, name, key=index.link_name)
    return within if within < count and index.link_name(first + within) == name else None
