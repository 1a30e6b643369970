"""From paths to ragged rows: what is indexed, and where each row's elements lie.

Law
---
1. What says where rows lie, and the descriptors of data of any length, are read once, in this
   process, and checked.
2. The file is open only while it is indexed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import CorruptFileError, OptionsError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.heap import Heap
from _multitables.index.datasets.source import Source
from _multitables.index.joined.source import JoinedSource, MissingFiles, Wanted, index_all
from _multitables.index.types.cast import BFLOAT16
from _multitables.index.versions.sources import of_version
from _multitables.parent.ragged.ragged_block import RaggedBlock
from _multitables.parent.readers.local_rows import whole
from _multitables.parent.stream.open_stream import DataSpec, check_lengths, refuse_casts
from _multitables.parent.stream.warnings_of_streams import warn_of_missing
from _multitables.plan.casts import Casts, cast_indexes
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.placing import Placement, Placing, as_part, no_placing, placements
from _multitables.plan.ragged import as_rows
from _multitables.plan.row_order import OrderWords
from _multitables.plan.row_spans import Numbers, RowSpans, row_spans
from _multitables.plan.sample_boxes import Grid
from _multitables.plan.sample_cost import times_decoded
from _multitables.plan.sample_rows import Samples, Take
from _multitables.plan.stacking import Into
from _multitables.plan.taken import Box, Taken, TakenBoxes, TakenRows, selected_box
from _multitables.tree import Ragged, Structure, structure_of

I64 = npt.NDArray[np.int64]
#: Of the descriptor of a row: its elements' number, then an address, the object there, and the
#: number of the file.
COUNT_BYTES = OBJECT_BYTES = FILE_BYTES = 4


ONE = Structure(None)


@dataclass(frozen=True)
class Entry:
    """One array of a block, or one ragged block."""

    #: Stands for its rows where an order is made, and in titles.
    rows: ChunkIndex
    #: What is read: the dataset itself, the flat ones, or that of descriptors.
    indexes: tuple[ChunkIndex, ...]
    #: Where rows lie in elements; None: rows have one size.
    spans: RowSpans | None = None
    #: Of the flat datasets: how they are put together, the last one aside if it has columns.
    structure: Structure = ONE
    has_columns: bool = False
    n_columns: int | None = None
    #: Of rows that lie in global heaps: what `descriptors_of` reads, and one element; without
    #: `atom`, each row is a picture.
    descriptors: npt.NDArray[np.uint8] | None = None
    atom: np.dtype[Any] | None = None
    is_text: bool = False
    #: Samples that are not rows, and the part of the dataset that each takes.
    samples: Samples | None = None
    take: Take | None = None
    #: It is the mask of rows that are not padding.
    is_mask: bool = False
    #: Where its rows are placed; None: they come as they are read.
    placement: Placement | None = None

    @property
    def are_taken(self) -> bool:
        """Whether `taken` says what is read."""
        return self.samples is not None or self.placement is not None

    @property
    def has_steps(self) -> bool:
        """Whether samples have an axis of steps before those of rows."""
        return self.samples is not None and not self.samples.are_rows

    @property
    def is_part(self) -> bool:
        """Whether others lie in its array."""
        return self.placement is not None and self.placement.parts is not None

    @property
    def is_in_heap(self) -> bool:
        """Whether its rows lie in the global heap."""
        return self.descriptors is not None

    @property
    def element_bytes(self) -> int:
        """Bytes of one element in all flat datasets; of a row, or sample, where these are alike."""
        if self.atom is not None:
            return self.atom.itemsize
        if self.samples is None and self.placement is not None:
            return math.prod(self.row_shape) * self.indexes[0].dtype.itemsize
        if self.samples is not None:
            of = np.dtype(np.bool_) if self.is_mask else self.indexes[0].dtype
            return math.prod(self.sample_shape) * of.itemsize
        return sum(index.row_bytes for index in self.indexes)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of what lies behind the axis of samples, as it is delivered."""
        shape = self.indexes[0].row_shape
        placed = () if self.placement is None else self.placement.row_shape
        return (*shape[: len(shape) - len(placed)], *placed)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample; of a mask, too."""
        assert self.samples is not None
        assert self.take is not None
        if self.is_mask:
            return (len(self.take),)
        (index,) = self.indexes
        return self.samples.shape_of(self.take, (index.n_rows, *self.row_shape))

    def taken(self, numbers: I64, epoch: int) -> Taken:
        """Return what samples take of the dataset."""
        windows = self.indexes[0].windows if self.indexes else ()
        if self.samples is None:
            taken: Taken = TakenRows(numbers[:, None], None, None, are_rows=True)
        else:
            assert self.take is not None
            taken = self.samples.taken(numbers, epoch, self.take, windows)
        if self.placement is None or self.is_mask or isinstance(taken, TakenBoxes):
            return taken
        to = self.placement.arrangement(epoch, numbers, taken.n_rows)
        return replace(taken, arrangement=to)

    def touched(self, numbers: I64, epoch: int, at: int, box: Box) -> npt.NDArray[np.bool_]:
        """Return which rows or samples have elements of a box of the dataset of number `at`."""
        if self.are_taken:
            within = selected_box(box, self.indexes[at].windows)
            if within is None:
                return np.zeros(len(numbers), np.bool_)
            return self.taken(numbers, epoch).touched(within)
        begin, end = box[0]
        if self.spans is None or self.atom is not None:
            return (numbers >= begin) & (numbers < end)
        begins, ends = self.spans.begins[numbers], self.spans.ends[numbers]
        return (begins < end) & (ends > begin) & (begins < ends)

    def nothing(self) -> Any:
        """Return the empty block."""
        if self.samples is not None and not self.samples.are_rows:
            dtype = np.dtype(np.bool_) if self.is_mask else self.indexes[0].dtype
            return np.empty((0, *self.sample_shape), dtype)
        arrays = [np.empty((0, *index.row_shape), index.dtype) for index in self.indexes]
        if self.spans is None:
            return np.empty((0, *self.row_shape), self.indexes[0].dtype)
        if self.atom is not None:
            arrays = [np.empty((0, *self.atom.shape), self.atom.base)]
        columns = arrays.pop() if self.has_columns else None
        values = self.structure.pack(arrays)
        return RaggedBlock(values, np.zeros(1, np.int64), columns, self.n_columns, self.is_text)


@dataclass(frozen=True)
class OpenedRows:
    """Ragged rows, perhaps beside others, of equal outer length."""

    entries: list[Entry]
    structure: Structure
    #: The entries that lie in each array; (): each has its own.
    together: tuple[tuple[int, ...], ...] = ()
    #: Of several files, those that are left out, and why.
    missing_files: MissingFiles = field(default_factory=dict)

    @property
    def indexes(self) -> list[ChunkIndex]:
        """What stands for the rows of each entry."""
        return [entry.rows for entry in self.entries]

    @property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the entries of each array, or ragged block."""
        return self.together or tuple((at,) for at in range(len(self.entries)))

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        found = list[Any]()
        for output in self.outputs:
            entry = self.entries[output[0]]
            one = entry.nothing()
            if entry.placement is not None and entry.placement.parts is not None:
                one = np.stack([one] * len(output), entry.placement.axis)
            found.append(one)
        return found

    @property
    def read(self) -> list[ChunkIndex]:
        """The datasets that are read, entry by entry."""
        return [index for entry in self.entries for index in entry.indexes]

    def reading(self, indexes: list[ChunkIndex]) -> OpenedRows:
        """Return the same with other datasets in the places of `read`."""
        left = iter(indexes)
        entries = [
            replace(entry, indexes=tuple(next(left) for _ in entry.indexes))
            for entry in self.entries
        ]
        return replace(self, entries=entries)

    def touched(
        self, numbers: I64, epoch: int, boxes: list[tuple[int, Box]]
    ) -> npt.NDArray[np.bool_]:
        """Return which rows or samples have elements of boxes, each of one of `read`."""
        found, at = np.zeros(len(numbers), np.bool_), 0
        for entry in self.entries:
            of = range(at, at + len(entry.indexes))
            for number, box in boxes:
                if number in of:
                    found |= entry.touched(numbers, epoch, number - at, box)
            at = of.stop
        return found

    @property
    def fixed_bytes(self) -> int:
        """Bytes of a row or sample in all entries but those of ragged rows."""
        return sum(one.element_bytes for one in self.entries if one.spans is None)

    def times_decoded(self, order: OrderWords, together: int, cache_bytes: int) -> float | None:
        """Estimate how often an epoch of samples decodes each chunk; None: rows are ragged."""
        entry = self.entries[lead_of(self.indexes)]
        if entry.samples is None or entry.take is None or entry.is_mask:
            return None
        of = entry.samples, entry.take, entry.indexes[0]
        return times_decoded(*of, order, together, cache_bytes)

    @property
    def grid(self) -> Grid | None:
        """The grid of patches, if samples are patches."""
        samples = self.entries[0].samples
        grid = None if samples is None else samples.segments
        return grid if isinstance(grid, Grid) else None


def open_rows(spec: DataSpec, source: Source, seed: int = 0) -> OpenedRows:
    """Index datasets of which some have ragged rows, and read where these lie.

    What is drawn for rows is drawn from `seed`.

    Raises
    ------
    CorruptFileError
        Offsets or descriptors contradict the data.
    UnsupportedDatasetError, MissingDatasetError
        As `Streamer.get_queue`.
    """
    for option, got in (("field", spec.field), ("inner", spec.inner)):
        if got is not None:
            raise OptionsError(
                f"{option} cannot be given with ragged rows, got {got!r}",
                advice="Name a dataset for each column",
                option=option,
                got=got,
            )
    structure, leaves = structure_of(spec.path)
    version = of_version(source, spec.version)
    plain = [Wanted(leaf, in_heap=True) for leaf in leaves if not isinstance(leaf, Ragged)]
    indexes, missing = index_all(version, plain) if plain else ([], {})
    warn_of_missing(missing)
    left, entries = iter(indexes), list[Entry]()
    for number, leaf in enumerate(leaves):
        casts = spec.casts and spec.casts.of(number)
        if isinstance(leaf, Ragged):
            refuse_casts(casts, "ragged rows")
            _check_one(source, leaf)
            entries.append(_pair(version, leaf))
        else:
            entries.append(_entry(next(left), casts))
    check_lengths([entry.rows for entry in entries], of_several=spec.file.is_several)
    opened = OpenedRows(entries, structure, missing_files=missing)
    return opened if spec.placing is None else _placed(opened, spec.placing, seed)


def _placed(opened: OpenedRows, placing: Placing, seed: int) -> OpenedRows:
    """Return rows with what becomes of them."""
    for entry in opened.entries:
        if entry.spans is not None:
            raise no_placing(placing, "ragged rows", entry.indexes[0])
    each = placements(placing, [entry.indexes[0] for entry in opened.entries], seed)
    both = zip(opened.entries, each, strict=True)
    opened = replace(opened, entries=[replace(entry, placement=one) for entry, one in both])
    return opened if placing.into is None else together(opened, placing.into)


def together(opened: OpenedRows, into: Into) -> OpenedRows:
    """Let entries lie in one array, as the user said it.

    Raises
    ------
    OptionsError
        They differ in shape or dtype, or an array has no such axis.
    """
    entries, n_paths = list(opened.entries), len(opened.entries)
    for _, numbers in into.groups:
        first = entries[numbers[0]]
        for part, number in enumerate(numbers):
            entry = entries[number]
            if _array_of(entry) != _array_of(first):
                one, other = entry.indexes[0], first.indexes[0]
                raise OptionsError(
                    f"{one.path!r} and {other.path!r} cannot lie in one array (expected "
                    f"{' of shape '.join(map(str, _array_of(first)[:2]))}, got "
                    f"{' of shape '.join(map(str, _array_of(entry)[:2]))})",
                    advice="Give crop, channels or dtype so that they are alike, or leave one out",
                    option="into",
                    expected=_array_of(first),
                    got=_array_of(entry),
                )
            steps, parts = entry.has_steps, len(numbers)
            row = entry.row_shape[entry.samples.axis if entry.samples else 0 :]
            placed = as_part(entry.placement, row, part, into, parts, steps)
            entries[number] = replace(entry, placement=placed)
    structure, outputs = into.structure(opened.structure, n_paths), into.outputs(n_paths)
    return replace(opened, entries=entries, structure=structure, together=tuple(outputs))


def _array_of(entry: Entry) -> tuple[Any, ...]:
    """Return what the arrays of entries must have in common to be one."""
    (index,) = entry.indexes
    cast = index.kind.cast and index.kind.cast.name
    shape = entry.sample_shape if entry.has_steps else entry.row_shape
    return index.dtype, shape, cast == BFLOAT16


def _entry(index: ChunkIndex, casts: Casts | None) -> Entry:
    if isinstance(index, Heap) and (casts is None or casts.images[0] is None):
        refuse_casts(casts, "ragged rows")
        return in_heap(index)
    (made,) = [index] if casts is None else cast_indexes([index], casts)
    return Entry(made, (made,), descriptors=descriptors_of(made))


def _check_one(source: Source, leaf: Ragged) -> None:
    """Raise if rows in a flat dataset are those of several files."""
    if isinstance(source, JoinedSource):
        raise UnsupportedDatasetError(
            f"rows of different lengths ({str(leaf)!r}) cannot be taken from several files",
            advice="Stream the files one by one",
            path=str(leaf),
        )


def _pair(source: Source, pair: Ragged) -> Entry:
    structure, paths = structure_of(pair.values)
    if pair.indices is not None:
        paths = [*paths, pair.indices]
    flats = [source.index(path) for path in paths]
    check_lengths(flats)
    given = {kind: _numbers(source, kind, one) for kind, one in pair.numbers.items()}
    spans = row_spans(given, flats[0], pair.gaps)
    outer = flats[0].chunk_dims[0] if flats[0].chunk_dims else None
    rows = as_rows(flats[0], spans, sum(index.row_bytes for index in flats), outer)
    return Entry(rows, tuple(flats), spans, structure, pair.indices is not None, pair.n_columns)


def _numbers(source: Source, kind: str, given: str | npt.NDArray[Any]) -> Numbers:
    """Return numbers that say where rows lie, which the user gave or the file has."""
    if not isinstance(given, str):
        return Numbers(kind, given, None)
    return numbers_of(source.index(given), kind)


def numbers_of(index: ChunkIndex, kind: str) -> Numbers:
    """Read the numbers of a dataset that say where rows lie."""
    advice = "Name the dataset that says where rows begin and end"
    return Numbers(kind, column_of(index, kind, "iu", "whole numbers", advice), index)


def column_of(
    index: ChunkIndex, kind: str, letters: str, expected: str, advice: str
) -> npt.NDArray[Any]:
    """Read a dataset of one dimension whose dtype has one of these letters.

    Raises
    ------
    UnsupportedDatasetError
        It has other elements, or more dimensions.
    """
    if len(index.shape) != 1 or index.dtype.kind not in letters:
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r} has no {kind} (expected {expected} in one "
            f"dimension, got {index.dtype} in {len(index.shape)})",
            advice=advice,
            path=index.path,
            filename=index.filename,
        )
    return whole(index)


def in_heap(index: Heap) -> Entry:
    """Return the entry of rows that lie in global heaps, as they are.

    Raises
    ------
    CorruptFileError, CorruptChunkError
        The descriptors are damaged.
    """
    stored = descriptors_of(index)
    assert stored is not None
    counts = stored[:, :COUNT_BYTES].copy().view("<u4").reshape(-1).astype(np.int64)
    counts[~stored[:, COUNT_BYTES : -OBJECT_BYTES - FILE_BYTES].any(axis=1)] = 0  # it names nothing
    atom = np.dtype(np.uint8) if index.atom is None else index.atom
    for part, first, _ in _parts(index):
        most = part.fingerprint.size_bytes // max(1, atom.itemsize)
        own = counts[first : first + part.n_rows]
        if not len(own) or own.max() <= most:
            continue
        row = int(np.argmax(own > most))
        raise CorruptFileError(
            f"row {row} of {part.path!r} in {part.filename!r} is longer than the file (expected at "
            f"most {most} elements, got {own[row]})",
            good="Other datasets of the file may be intact",
            advice="Copy the file again from its source or from a backup",
            path=part.path,
            filename=part.filename,
            expected=most,
            got=int(own[row]),
        )
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    spans = RowSpans.of_offsets(offsets)
    return Entry(
        as_rows(index, spans, atom.itemsize, None),
        (index,),
        spans,
        descriptors=stored,
        atom=atom,
        is_text=index.atom is None,
    )


def descriptors_of(index: ChunkIndex) -> npt.NDArray[np.uint8] | None:
    """Read the descriptors of rows in global heaps, each with the number of its file."""
    if not isinstance(index, Heap):
        return None
    of, n_bytes = index.descriptors, index.descriptors.kind.element_bytes
    found = np.zeros((of.n_rows, n_bytes + FILE_BYTES), np.uint8)
    found[:, :n_bytes] = whole(of).view(np.uint8).reshape(of.n_rows, n_bytes)
    for part, first, number in _parts(index):
        if number:
            of_file = np.array([number], "<u4").view(np.uint8)
            found[first : first + part.n_rows, n_bytes:] = of_file
    return found


def _parts(index: Heap) -> Iterator[tuple[ChunkIndex, int, int]]:
    """Yield each dataset of an index, with its first row and the number of its file."""
    numbers, first = {file: number for number, file in enumerate(index.files)}, 0
    for part in index.parts:
        yield part, first, numbers[part.files[0]]
        first += part.n_rows
