"""What indexing a dataset describes, as written: a dataset and a chain of steps, nothing read.

Law
---
1. A `Selection` is an immutable value. Arrays of the user's are copied when it is made, so that
   what is changed later does not change the request.
2. Making one checks nothing but this: `dataset[...]` is the whole dataset, and takes no further
   index. Everything else that is wrong is told by `normalize.normalize`, for `get`.
3. Making one from an int, a slice or a column's name costs no NumPy call.

Pure: this file must never know readers, files or memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Arrangement",
    "Boxes",
    "Coordinates",
    "DatasetInfo",
    "Read",
    "RowAxis",
    "Selection",
    "Sorted",
    "Spans",
    "Step",
    "Where",
]

#: Keys that are kept as they are: nobody can change them later.
PLAIN = frozenset({int, slice, str, EllipsisType, type(None), np.int64, bool})


@dataclass(frozen=True, slots=True, eq=False)
class DatasetInfo:
    """What a selection must know of its dataset.

    Compared by identity: one for each dataset that a program got.
    """

    filename: str
    path: str
    #: "table", "array" or "vlarray"; "objects": an array of strings or sequences of any length, of
    #: which each one is an array of atoms.
    kind: str
    #: As the user sees it, the dims of subarrays included; of a ragged dataset its outer length.
    shape: tuple[int, ...]
    #: Of one element; of a ragged dataset that of an atom.
    dtype: np.dtype[Any]
    #: How many of `shape` are HDF5's own dims; the others are a subarray's.
    n_dims: int
    #: Which library reads what the core does not.
    library: str = "h5py"
    #: How that library opens the file; values are JSON's, and may be secrets of a store.
    open_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    #: Shape of one atom of a ragged dataset.
    atom_shape: tuple[int, ...] = ()
    #: The first index, too, means what NumPy means; else it follows PyTables' grammar.
    is_numpys: bool = False
    #: Bytes of a stored and of a delivered element and the words of conversions, where a library
    #: reads elements as they are stored, as it would deliver others. None: it delivers them.
    conversion: tuple[int, int, tuple[int, ...]] | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether elements have bytes that belong to no field."""
        dtype = self.dtype
        named = sum(dtype[name].itemsize for name in dtype.names or ())
        return dtype.names is not None and named < dtype.itemsize


class Read(NamedTuple):
    """A range of rows, as PyTables' ``read`` takes it."""

    start: Any = None
    stop: Any = None
    step: Any = None
    field: str | None = None


class Coordinates(NamedTuple):
    """Rows by their numbers, as PyTables' ``read_coordinates`` takes them."""

    coords: Any
    field: str | None = None


class Sorted(NamedTuple):
    """Rows in the order of a column's full index, as PyTables' ``read_sorted`` takes them."""

    sortby: str
    check_csi: bool = False
    field: str | None = None
    start: Any = None
    stop: Any = None
    step: Any = None


class Where(NamedTuple):
    """Rows that fulfil a condition, as PyTables' ``where`` takes it."""

    condition: str
    condvars: Mapping[str, Any] = {}
    start: Any = None
    stop: Any = None
    step: Any = None


class RowAxis(NamedTuple):
    """An axis of rows that are placed."""

    #: As it is read, and of the window that is delivered.
    extent: int
    window: int
    #: Which axis of a delivered row it is.
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Where the elements of rows are placed: a window of each, mirrored, its axes in an order."""

    #: Those up to the last that changes.
    axes: tuple[RowAxis, ...]
    #: Of each row the axes that are mirrored, a bit each, and where its window begins.
    mirrored: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    #: Of a delivered row.
    shape: tuple[int, ...]
    #: Axes that are read from where the window begins; 0: rows are read whole.
    n_box_axes: int = 0
    #: The result has rows of several datasets; these are one part of it. None: it has no other.
    parts: int | None = None
    part: int = 0
    #: Parts lie behind some axes of a row, or before some rows that follow each other.
    behind: int = 0
    group: int = 1

    @property
    def of_boxes(self) -> Arrangement:
        """The arrangement of the boxes that are read in the place of rows."""
        axes = (RowAxis(one.window, one.window, one.place) for one in self.axes)
        return replace(self, axes=tuple(axes), begins=np.zeros_like(self.begins), n_box_axes=0)

    @property
    def alone(self) -> Arrangement:
        """The same without other parts."""
        return replace(self, parts=None, part=0, behind=0, group=1)

    @property
    def words(self) -> npt.NDArray[np.int64]:
        """Its words for the core: the axes, and then each row."""
        head = [len(self.axes), self.parts or 1, self.part, self.behind, self.group]
        head += [word for axis in self.axes for word in axis]
        rows = np.column_stack([self.mirrored, self.begins[:, : len(self.axes)]])
        return np.concatenate([np.array(head, np.int64), rows.reshape(-1)])

    def meets(self, box: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
        """Return which rows have elements of a box of a row's first axes."""
        found = np.ones(len(self.begins), np.bool_)
        for axis, (low, high), begins in zip(self.axes, box, self.begins.T, strict=False):
            found &= (begins < high) & (begins + axis.window > low)
        return found


class Spans(NamedTuple):
    """Rows one after the other: of each span, none of which is empty, its first and how many."""

    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    #: What is taken of each axis behind the first: numbers and slices; (): all.
    inner: tuple[int | slice, ...] = ()
    #: Where the rows are placed; None: as they are read. Libraries do not know it.
    arrangement: Arrangement | None = None

    @classmethod
    def of(cls, rows: npt.NDArray[np.int64]) -> Spans:
        """Return rows, in their order, as the fewest spans."""
        return cls(rows, np.ones(len(rows), np.int64)).joined()

    def joined(self) -> Spans:
        """Join spans that follow each other."""
        begins, lengths, inner, arrangement = self
        if len(begins) < 2:
            return self
        first = np.flatnonzero(np.concatenate([[True], begins[1:] != begins[:-1] + lengths[:-1]]))
        return Spans(begins[first], np.add.reduceat(lengths, first), inner, arrangement)

    @property
    def key(self) -> Any:
        """The number of each row, and what is taken of the other axes, as NumPy takes them."""
        ends = np.cumsum(self.lengths)
        gaps = self.begins - (ends - self.lengths)
        numbers = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
        rows: npt.NDArray[np.int64] = numbers + np.repeat(gaps, self.lengths)
        return (rows, *self.inner) if self.inner else rows


class Boxes(NamedTuple):
    """Boxes of one shape along the leading axes: where each begins, of shape (boxes, axes)."""

    begins: npt.NDArray[np.int64]
    extents: tuple[int, ...]
    #: What is taken of each axis behind these: numbers and slices; (): all.
    inner: tuple[int | slice, ...] = ()
    #: As of `Spans`, where a row is what lies behind the first axes.
    arrangement: Arrangement | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The index by which NumPy takes these boxes."""
        k = len(self.extents)
        each: list[Any] = []
        for axis, extent in enumerate(self.extents):
            along = self.begins[:, axis, None] + np.arange(extent)
            each.append(along.reshape(-1, *(extent if at == axis else 1 for at in range(k))))
        return (*each, *self.inner)


def as_key(step: Step) -> Step:
    """Return spans and boxes as NumPy takes them, anything else as it is."""
    return step.key if isinstance(step, (Spans, Boxes)) else step


#: A method, or a key as it stands between brackets: a str is a field.
Step = Any


class Selection:
    """A dataset and what to take of it: each step acts on the result of the one before."""

    __slots__ = ("dataset", "finish", "steps")

    dataset: DatasetInfo
    steps: tuple[Step, ...]
    #: Makes samples from the result of the steps; they take no further index.
    finish: Callable[[Any], Any] | None

    def __init__(
        self,
        dataset: DatasetInfo,
        steps: tuple[Step, ...] = (),
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        self.dataset = dataset
        self.steps = steps
        self.finish = finish

    def __getitem__(self, key: Any) -> Selection:
        """Describe a further index, or a field by its name; nothing is read.

        Raises
        ------
        IndexError
            The selection is a bare ``dataset[...]``, or some samples.
        """
        steps = self.steps
        if self.finish is not None:
            raise IndexError(
                f"{self!r} has samples, which take no further index. Request them, and index the "
                "result."
            )
        if steps and steps[-1] is Ellipsis and len(steps) == 1:
            raise IndexError(
                f"{self.dataset.path!r} was selected with a single Ellipsis, which takes no "
                "further index (expected a slice or a number in its place). "
                "Write dataset[:][...] to index the whole dataset."
            )
        return Selection(self.dataset, (*steps, key if type(key) in PLAIN else frozen_key(key)))

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} is a description, not data: request it, then get() it")

    def col(self, name: str) -> Selection:
        """Describe one column; ``"a/b"`` is column ``b`` of column ``a``."""
        return self[name]

    def read(
        self, start: Any = None, stop: Any = None, step: Any = None, field: str | None = None
    ) -> Selection:
        """Describe a range of rows, as PyTables' ``read`` takes it."""
        return self._with(Read(start, stop, step, field))

    def read_coordinates(self, coords: Any, field: str | None = None) -> Selection:
        """Describe rows by their numbers, in any order and as often as named."""
        return self._with(Coordinates(frozen_key(coords), field))

    def read_sorted(
        self,
        sortby: str,
        check_csi: bool = False,
        field: str | None = None,
        start: Any = None,
        stop: Any = None,
        step: Any = None,
    ) -> Selection:
        """Describe rows in the order of a column that has a full index."""
        return self._with(Sorted(sortby, check_csi, field, start, stop, step))

    def where(
        self,
        condition: str,
        condvars: Mapping[str, Any] | None = None,
        start: Any = None,
        stop: Any = None,
        step: Any = None,
    ) -> Selection:
        """Describe the rows that fulfil a condition on columns and `condvars`."""
        held = {
            name: np.array(value.encode() if isinstance(value, str) else value)  # as PyTables does
            for name, value in (condvars or {}).items()
        }
        return self._with(Where(condition, held, start, stop, step))

    def _with(self, method: Step) -> Selection:
        if self.steps:
            raise TypeError(f"{self!r} is a selection: only the dataset itself has such methods")
        return Selection(self.dataset, (method,))

    def __repr__(self) -> str:
        written = "".join(
            f".{type(step).__name__}{tuple(step)}" if is_method(step) else f"[{step!r}]"
            for step in self.steps
        )
        return f"<selection of {self.dataset.path!r}: {written or 'all'}>"


def is_method(step: Step) -> bool:
    """Whether a step is one of a dataset's methods, not a key."""
    return isinstance(step, (Read, Coordinates, Sorted, Where))


def frozen_key(key: Any) -> Any:
    """Return a key that its owner cannot change: arrays are copied, lists become arrays."""
    if type(key) in PLAIN:
        return key
    if isinstance(key, tuple):
        return tuple(_item(item) for item in key)
    return _item(key)


def _item(item: Any) -> Any:
    if type(item) in PLAIN or isinstance(item, (bool, np.bool_)):
        return item
    if isinstance(item, list) and item and all(isinstance(name, str) for name in item):
        return FieldNames(item)
    try:
        return operator.index(item)  # NumPy takes a 0-d array of an integer for a number, too
    except TypeError:
        pass
    try:
        array = np.array(item)
    except ValueError:  # lists of unequal lengths
        array = np.array(None, object)
    if array.size == 0 and isinstance(item, (list, tuple)):
        array = array.astype(np.intp)  # as NumPy takes an empty list
    array.flags.writeable = False
    return array


class FieldNames(tuple[str, ...]):
    """Several fields at once, ``dataset[['a', 'b']]``."""

    __slots__ = ()
