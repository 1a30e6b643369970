"""Where in the data something went wrong: the address that error messages and attributes give.

Law
---
1. A value, from the plan's numbers and the index: nothing is read or asked of a reader. (Which of
   several files changed, the system is asked.)
2. A place says what the failure took and what it did not touch. A stream loses rows, a request only
   itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from _multitables import _core
from _multitables.index.chunk_index import ChunkIndex, Joined
from _multitables.index.datasets.heap import Heap
from _multitables.index.files.stored_files import changed
from _multitables.parent.readers.death import Death
from _multitables.parent.titles import file_title
from _multitables.plan.dataset_table import Dataset
from _multitables.plan.shared_chunks import Chosen
from _multitables.plan.stream_plan import ReadPlan
from _multitables.select.selection import Boxes, Spans


@dataclass(frozen=True)
class Place:
    """Where a task, or one of its chunks, lies."""

    index: ChunkIndex
    row_begin: int
    row_end: int
    chunk_offset: tuple[int, ...] | None
    byte_begin: int | None
    byte_end: int | None
    of_request: bool = False
    #: The dataset that was asked for, if that shows the one which has the chunk, or has its rows.
    shown_by: ChunkIndex | None = None
    #: Where the bytes are, if that is not the dataset's own file.
    other_file: str = ""
    #: The stream's rows are not in the order of the file.
    of_order: bool = False
    #: Of the chunk, in its file.
    first_row: int | None = None
    #: In its file, of an element in a global heap.
    row: int | None = None

    def row_of(self, element: int) -> int | None:
        """Return the row of an element, by its number in the chunk; None: unknown."""
        if self.first_row is None:
            return self.row
        inner = (self.index.chunk_dims or self.index.dims)[1:]
        return self.first_row + element // max(1, math.prod(inner))

    @property
    def where(self) -> str:
        """``'/images' in 'run7.h5', chunk (192, 0, 0), file bytes 1048576:1061913``."""
        text = f"{self.index.path!r} in {file_title(self.index.filenames)}"
        if self.chunk_offset is not None:
            text += f", chunk {self.chunk_offset}"
        if self.other_file:
            text += f", in {self.other_file!r}"
        if self.byte_begin is not None:
            return f"{text}, file bytes {self.byte_begin}:{self.byte_end}"
        if self.chunk_offset is None and not self.of_request and not self.of_order:
            text += f", rows {self.row_begin}:{self.row_end}"
        return text

    @property
    def changed_file(self) -> str:
        """The file that changed: of several, the first one that is not as it was indexed."""
        of = self.shown_by or self.index
        files = (one for one in of.all_files if changed(one.filename, one.fingerprint))
        return next((one.filename for one in files), self.index.filename)

    @property
    def lost(self) -> str:
        """What the failure took."""
        if self.of_request:
            return "This request has no result"
        if self.of_order and self.chunk_offset is None:
            return "A block or batch was not delivered"
        return f"Rows {self.row_begin}:{self.row_end} were not delivered"

    @property
    def good(self) -> str:
        """What the failure took, and what it did not touch."""
        others = "other requests" if self.of_request else "other chunks"
        return f"{self.lost}; {others} are not affected"

    def values(self) -> dict[str, Any]:
        """The address as attributes of an exception."""
        return {
            "path": self.index.path,
            "filename": self.other_file or self.index.filename,
            "chunk_offset": self.chunk_offset,
            "byte_offset": self.byte_begin,
            "byte_range": None if self.byte_begin is None else (self.byte_begin, self.byte_end),
            "rows": (self.row_begin, self.row_end),
        }


def place_of(
    plan: ReadPlan, ring: _core.Ring | _core.Trial, task: int, chunk: int | None = None
) -> Place:
    """Name the place of a task, or of one of its chunks."""
    dataset, row_begin, row_end, found = ring.address(task, chunk)
    if dataset >= len(plan.datasets):  # of which a virtual dataset shows parts
        shown = plan.table.shown[dataset - len(plan.datasets)]
        place = _place(shown.index, shown.chunk_dims, 0, shown.index.n_rows, found)
        by = plan.datasets[0].index
        place = replace(place, row_begin=row_begin, row_end=row_end, shown_by=by)
        return replace(place, of_order=plan.order is not None)
    chosen = plan.datasets[dataset]
    place = _place(chosen.index, chosen.chunk_dims, row_begin, row_end, found, chosen.dims)
    return replace(place, of_order=plan.order is not None)


def place_of_request(dataset: Dataset, chunk: tuple[int, int, int] | None) -> Place:
    """Name the place of a request, or of one of its chunks: grid index, byte offset and size."""
    index = dataset.index
    rows = index.shape[0] if index.shape else 0
    return replace(_place(index, dataset.chunk_dims, 0, rows, chunk), of_request=True)


def place_in_heap(index: Heap, step: Spans | Boxes, number: int | None) -> Place:
    """Name the place of a request for rows in global heaps, or of the row of this number."""
    if number is None:
        return Place(index, 0, index.n_rows, None, None, None, of_request=True)
    rows = step.key[0] if isinstance(step, Boxes) else step.key
    part, first = index.in_file(int(rows.reshape(-1)[number]))
    row = int(rows.reshape(-1)[number]) - first
    return Place(part, row, row + 1, None, None, None, of_request=True, shown_by=index, row=row)


def place_of_death(plan: ReadPlan, ring: _core.Ring, death: Death) -> Place:
    """Name the place of a task of which readers died."""
    assert death.task is not None
    place = place_of(plan, ring, death.task)
    if not death.in_library:
        return place
    rows = None if death.chunk is None or place.of_order else (place.row_begin, place.row_end)
    found = place_in_library(place.index, death.chunk, rows=rows)
    if found.chunk_offset is None:
        return replace(place, chunk_offset=None, byte_begin=None, byte_end=None)
    return replace(found, of_order=place.of_order)


def place_in_library(
    index: ChunkIndex,
    number: int | None,
    rows: tuple[int, int] | None = None,
    of_request: bool = False,
) -> Place:
    """Name the place of what a library was at: a chunk of this number in the grid, if known."""
    row_begin, row_end = rows or (0, index.shape[0] if index.shape else 0)
    chunk: tuple[int, int | None, int] | None = None
    if number is not None and index.chunk_dims is not None:
        found = index.chunk(number)
        chunk = number, None, 0
        if found is not None:
            chunk = number, int(found["byte_offset"]), int(found["stored_size"])
    place = _place(index, index.chunk_dims or (), row_begin, row_end, chunk)
    return replace(place, of_request=of_request)


def _place(
    index: ChunkIndex,
    chunk_dims: tuple[int, ...],
    row_begin: int,
    row_end: int,
    chunk: tuple[int, int | None, int] | None,
    dims: tuple[int, ...] | None = None,
) -> Place:
    if isinstance(index, Chosen):
        index, numbers = index.chosen_from
        row_begin, row_end = 0, index.n_rows
        chunk = chunk and (int(numbers[chunk[0]]), *chunk[1:])
    if chunk is None:
        return Place(index, row_begin, row_end, None, None, None)
    number, byte_offset, stored_size = chunk
    offset, grid_index = [], number
    for dim, extent in zip(reversed(dims or index.dims), reversed(chunk_dims), strict=True):
        grid_index, at = divmod(grid_index, max(1, -(-dim // extent)))
        offset.append(at * extent)
    offset.reverse()
    row_begin = max(row_begin, offset[0])
    row_end = min(row_end, offset[0] + chunk_dims[0])
    known = None if index.chunk_dims is None else tuple(offset)
    end = None if byte_offset is None else byte_offset + stored_size
    file, by, first_row = index.file_of(number).filename, None, offset[0]
    if isinstance(index, Joined):
        by, (index, begin) = index, index.in_file(offset[0])
        first_row -= begin
        known = (first_row, *offset[1:])
    other = file if file != index.filename else ""
    place = Place(index, row_begin, row_end, known, byte_offset, end, other_file=other, shown_by=by)
    return replace(place, first_row=first_row)
