"""The public `Dataset` of `multitables.open`: h5py's names, read by the core in this process.

Law
---
1. Making one reads nothing. What the file tells of it is read when it is first asked for, and kept.
2. Names, meanings and results are h5py's; what h5py refuses to select is selected as NumPy does.
3. Whole rows take the shortest way: a few checks, an array, one call into the core.
4. What reads is kept by the handle, so that closing it ends that, and other datasets share it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.elements.empty import Empty
from _multitables.elements.values import decode
from _multitables.errors import MultitablesError, public, selection_error
from _multitables.index.opened.open_files import UNKNOWN
from _multitables.index.types.references import RegionReference
from _multitables.parent.open.conversion import converted, encoding_of
from _multitables.parent.open.filters import Filter, Filtered
from _multitables.parent.open.kept import kept
from _multitables.parent.open.objects import Object
from _multitables.parent.open.read_only import DATASET, writes
from _multitables.parent.open.reading import Contents
from _multitables.parent.open.stored_type import StoredType
from _multitables.plan.sampled import Sampled
from _multitables.select.h5py_grammar import chunk_slices, names_and_items, steps_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from _multitables.parent.batches.batches import Batches
    from _multitables.parent.open.dataset_id import DatasetId
    from _multitables.parent.open.dimensions import Dimensions
    from _multitables.parent.open.regions import Regions, VDSmap
    from _multitables.parent.open.samples import SamplesView
    from _multitables.parent.open.views import AsStrView, AsTypeView, FieldsView
    from _multitables.parent.stream.stream_queue import StreamQueue
    from _multitables.parent.streamer import Streamer
    from _multitables.parent.typed import Array, BatchKeywords, Part, Place, StreamKeywords
    from _multitables.plan.samples import Sample
    from _multitables.select.selection import Step

#: Iteration reads whole chunks of about as many bytes at a time.
ITERATED_BYTES = 1 << 20
#: Kinds of types whose elements are empty strings where nothing was written, for h5py.
TEXTS = ("variable_string", "array")
#: Datasets of a file whose means of reading are kept.
MAX_CONTENTS = 1 << 13


@public
@writes(*DATASET)
class Dataset(Object, Filtered, Sampled["SamplesView"]):
    """A dataset of an open file, which is only read: ``dataset[...]``.

    Names, meanings and results are h5py's. Beyond the indexes that h5py takes, NumPy's work:
    negative steps, lists in any order and with repetitions, several lists, masks of some of the
    axes, and lists of names.

    Notes
    -----
    Chunks are decoded in this process, on the threads of `multitables.open`. Any number of threads
    may read at once. A dataset may be pickled, as its file's name and fingerprint, and used on
    after a fork.

    Examples
    --------
    >>> images = multitables.open("run7.h5")["images"]  # doctest: +SKIP
    >>> images[[3, 14, 15]].mean()  # doctest: +SKIP
    """

    _as_h5py = "Dataset"

    # ---- what the file tells

    @kept
    def _stored(self) -> _core.StoredDataset:
        return self._handle.shared.source.stored(self._place)

    @property
    def _pipeline(self) -> Sequence[Filter]:
        return self._stored.filters

    @kept
    def _type(self) -> StoredType:
        return StoredType(self._place, self._stored.datatype)

    @kept
    def _dtype(self) -> np.dtype[Any]:
        return self._type.dtype

    @kept
    def _shape(self) -> Any:
        return None if self._stored.is_null else self._stored.dims

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of one element, with h5py's metadata for strings, enums and what is of any length.

        What h5py lacks has the smallest that holds its values; PyTables' own types are PyTables'.

        Raises
        ------
        UnsupportedDatasetError
            NumPy has no such type.
        """
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...] | Any:
        """Extents; () of a scalar, None of a null dataspace."""
        return self._shape

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self._shape or ())

    @property
    def size(self) -> int | None:
        """How many elements there are; None of a null dataspace."""
        return None if self._shape is None else math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in an array."""
        return self._dtype.itemsize * (self.size or 0)

    @property
    def maxshape(self) -> Any:
        """Extents that it may grow to, None along an axis without a limit."""
        return None if self._shape is None else self._stored.max_dims

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Extents of one chunk, or None."""
        return self._stored.chunk_dims

    @property
    def fillvalue(self) -> Any:
        """What elements are that were never written, zero by default."""
        fill, size = self._stored.fill_value, self._type.datatype.size
        if not fill and self._dtype.hasobject and self._type.datatype.kind not in TEXTS:
            return np.empty(1, self._dtype)[0]  # as h5py, which finds no objects there
        stored = np.frombuffer(fill or bytes(size), f"V{size}")
        return self._place.call(decode, stored, self._type.datatype, self._place.file)[0]

    @property
    def external(self) -> list[tuple[str, int, int]] | None:
        """Name, offset and size of each file that the elements lie in, or None."""
        files = self._stored.external_files
        return [(os.fsdecode(name), offset, size) for name, offset, size in files] or None

    @property
    def is_virtual(self) -> bool:
        """Whether its elements are those of other datasets."""
        return self._stored.layout == "virtual"

    def virtual_sources(self) -> list[VDSmap]:
        """Return what it shows, if it is virtual: ``vspace, file_name, dset_name, src_space``."""
        from _multitables.parent.open.regions import virtual_sources

        return virtual_sources(self._place, self._stored)

    @property
    def regionref(self) -> Regions:
        """What region references say: ``shape(reference)`` and ``selection(reference)``."""
        from _multitables.parent.open.regions import Regions

        return Regions(self, self._place)

    @property
    def is_scale(self) -> bool:
        """Whether it is a dimension scale."""
        return self.attrs.get("CLASS", b"") in (b"DIMENSION_SCALE", "DIMENSION_SCALE")

    @property
    def id(self) -> DatasetId:
        """How it is stored: its chunks, where they are, and their bytes."""
        from _multitables.parent.open.dataset_id import DatasetId

        return DatasetId(self, self._place, self._stored)

    @property
    def dims(self) -> Dimensions:
        """The axes: their labels, and the dimension scales attached to them."""
        from _multitables.parent.open.dimensions import Dimensions

        return Dimensions(self)

    def len(self) -> int:
        """Return the length of the first axis.

        Raises
        ------
        TypeError
            It is a scalar, or a null dataspace.
        """
        if not self._shape:
            raise TypeError("a dataset without axes has no length")
        return int(self._shape[0])

    def __len__(self) -> int:
        return self.len()

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 dataset>"
        try:
            shape, kind = self.shape, str(self._type)
        except MultitablesError as error:
            return f"<HDF5 dataset: {error.happened}>"
        return f'<HDF5 dataset {self._title()}: shape {shape}, type "{kind}">'

    # ---- reading

    @overload
    def __getitem__(self, key: Part) -> Array: ...
    @overload
    def __getitem__(self, key: Place) -> Any: ...
    @overload
    def __getitem__(self, key: tuple[Any, ...]) -> Array: ...

    def __getitem__(self, key: Any) -> Any:
        """Read a selection.

        Parameters
        ----------
        key : int, slice, list, ndarray, str, ``...``, RegionReference or a tuple of them
            Names are fields: one gives its values, several (or a list of them) a compound. One list
            goes along its axis; several lists go together, as in NumPy.

        Returns
        -------
        ndarray, scalar, bytes or Empty
            A new array of the dataset's dtype; a scalar where no axis is left.

        Raises
        ------
        SelectionError
            The index does not fit the dataset (an `IndexError`, `TypeError` or `ValueError`).
        MissingFieldError
            No such field (a `KeyError`, and a `ValueError`).
        CorruptChunkError
            A chunk does not decode, with its place in the dataset and in the file.
        FileChangedError
            The file changed after it was opened.
        UnsupportedDatasetError
            Only an HDF5 library reads it, and ``trusted=False``; or NumPy has no such type.
        ClosedError
            The file is closed.
        """
        found = self._box(key)
        return self._selected(key) if found is None else found

    def _box(self, key: Any, out: npt.NDArray[Any] | None = None) -> Any:
        """Read a key of numbers and slices in one call. None: the key is another, or it fails."""
        contents = self._handle.contents.get(self._key)
        if contents is None and self._shape is not None:
            contents = self._contents()
        if contents is None or contents.boxes is None:
            return None
        room = contents.room if out is None else functools.partial(contents.room, out=out)
        try:
            found = contents.boxes.read_key(key, room)
        except _core.ReadFailed as failure:
            # The general read says why, or finds another way. A store was asked often enough.
            if _core.ERROR_KINDS[failure.args[0]] == "store":
                raise contents.error(failure) from None
            return None
        except (MemoryError, ValueError):
            return None  # the general read says what is too large, or wrong
        return found if found is None or found.ndim else found[()]

    def _selected(self, key: Any, out: npt.NDArray[Any] | None = None) -> Any:
        """Read any selection, into `out` if it is the result's like."""
        try:
            return self._any_selected(key, out)
        except (IndexError, TypeError, ValueError) as error:
            name = self._handle.name(self._place)
            raise selection_error(error, name, self._place.file.filename, self._shape) from None

    def _any_selected(self, key: Any, out: npt.NDArray[Any] | None) -> Any:
        names, items = names_and_items(key)
        if self._type.dtype_for(names).names is None and names is not None:
            raise ValueError(f"only a compound dataset has fields (got the name {names!r})")
        whole = items == () or (len(items) == 1 and items[0] is Ellipsis)
        if self._shape is None:
            if whole and names is None:
                return Empty(self._dtype)
            raise ValueError("an empty dataset cannot be sliced: it has a type, and no elements")
        shared, read = self._handle.shared, self._contents().read
        found = self._place.call(read, shared, self._steps(items), names, out)
        if found.ndim or (not self._shape and items):
            return found
        return found[()]

    def _steps(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(items) == 1 and isinstance(items[0], RegionReference):
            from _multitables.parent.open.regions import steps_of_region

            self._handle.shared  # noqa: B018 - which is an error once the file is closed
            region, place = items[0], self._place
            offset, told = place.call(place.file.metadata.region, region.heap, region.number)
            if offset != self._place.offset:
                raise ValueError("a region reference must refer to the dataset that it is used on")
            return steps_of_region(place, told, self._shape)
        return steps_of(items, self._shape)

    @kept
    def _key(self) -> tuple[str, int | str]:
        place = self._place
        return place.file.filename, place.path if place.offset == UNKNOWN else place.offset

    def _contents(self) -> Contents:
        """Return what reads this dataset, which all datasets of this place share."""
        known = self._handle.shared.contents
        found = known.get(self._key)
        if found is None:
            made = Contents(self._handle.shared, self._place, self._stored, self._type)
            if not self._type.is_readable:
                made.boxes = None  # whole ones have no dtype
            found = known.setdefault(self._key, made)
            if len(known) > MAX_CONTENTS:
                with contextlib.suppress(RuntimeError):  # others add some meanwhile
                    known.pop(next(iter(known)), None)
        return found

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows, reading whole chunks at a time.

        Raises
        ------
        TypeError
            It is a scalar, or a null dataspace.
        """
        n_rows = self.len()
        row_bytes, chunk = max(1, self.nbytes // max(1, n_rows)), (self.chunks or (1,))[0]
        band = max(1, ITERATED_BYTES // row_bytes // chunk) * chunk
        for start in range(0, n_rows, band):
            yield from self[start : start + band]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array of a dataset is always a copy (got copy=False)")
        if self._shape is None:
            raise TypeError("an empty dataset has no NumPy array")
        return self[...] if dtype is None else converted(self[...], np.dtype(dtype))

    def read_direct(
        self, dest: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None
    ) -> None:
        """Read into an array that is there; straight into it, if its part has the dataset's dtype.

        Parameters
        ----------
        dest : ndarray
            The array. Elements are converted to its dtype as HDF5 converts them.
        source_sel : index, optional
            What is read, as `numpy.s_` makes it. Default: everything.
        dest_sel : index, optional
            Where to, by NumPy's rules of assignment. Default: everything.

        Raises
        ------
        TypeError
            What is read does not fit there; or a null dataspace.
        """
        if self._shape is None:
            raise TypeError("an empty dataset has no NumPy array")
        items = dest_sel if isinstance(dest_sel, tuple) else (dest_sel,)
        window: npt.NDArray[Any] | None = None
        if dest_sel is None:
            window = dest
        elif all(isinstance(item, (slice, int, np.integer)) for item in items):
            window = dest[(*items, ...)]
        key = Ellipsis if source_sel is None else source_sel
        found = None if window is None else self._box(key, window)
        if found is None:
            found = self._selected(key, window)
        if found is window:
            return
        try:
            dest[... if dest_sel is None else dest_sel] = converted(np.asarray(found), dest.dtype)
        except ValueError as error:
            raise TypeError(f"what is read does not fit the array: {error}") from None

    def iter_chunks(self, sel: Any = None) -> Iterator[tuple[slice, ...]]:
        """Return an iterator over chunks: the slices of each that lie in a selection.

        Parameters
        ----------
        sel : slice, int or tuple of them, optional
            One for each axis. Default: everything.

        Raises
        ------
        TypeError
            The dataset has no chunks.
        ValueError
            The selection is not in the dataset.
        """
        if self.chunks is None:
            raise TypeError("a chunked dataset is needed, and this one has no chunks")
        return chunk_slices(self._shape, self.chunks, sel)

    def flush(self) -> None:
        """Do nothing, as nothing is written; for programs that call it."""

    def refresh(self) -> None:
        """Do nothing: what a writer adds is seen when the file is opened again."""

    # ---- views

    def astype(self, dtype: npt.DTypeLike) -> Dataset | AsTypeView:
        """Return a view that reads as another dtype: ``dataset.astype("f4")[:100]``."""
        wanted = np.dtype(dtype)
        if wanted == self._dtype:
            return self
        if wanted.kind == "T" and encoding_of(self._dtype) is None:
            raise TypeError(f"only strings can be read as {wanted!r}, this is {self._dtype}")
        from _multitables.parent.open.views import AsTypeView

        return AsTypeView(self, wanted)

    def asstr(self, encoding: str | None = None, errors: str = "strict") -> AsStrView:
        """Return a view that reads strings as str.

        Parameters
        ----------
        encoding : str, optional
            Default: the one that the file names, ASCII or UTF-8.
        errors : str
            As `bytes.decode` takes it. Default ``"strict"``.

        Raises
        ------
        TypeError
            The elements are no strings.
        """
        found = encoding_of(self._dtype)
        if found is None:
            raise TypeError(f"asstr() is for strings, and this dataset has {self._dtype}")
        from _multitables.parent.open.views import AsStrView

        return AsStrView(self, encoding or found, errors)

    def fields(self, names: str | Iterable[str]) -> FieldsView:
        """Return a view that reads one field, or a compound of several: ``["x", "y"]``.

        Raises
        ------
        ValueError
            There are no such fields.
        """
        from _multitables.parent.open.views import FieldsView

        return FieldsView(self, names, self._type.readable[1])

    def _samples(self, sample: Sample) -> SamplesView:
        from _multitables.parent.open.samples import SamplesView
        from _multitables.parent.stream.open_stream import DataSpec
        from _multitables.plan.samples import numbered

        source, path = self.file.streamer()._file, self._handle.name(self._place)
        spec = DataSpec(source, path, sample=numbered(sample))
        return SamplesView(self, self._taken, spec)

    def _taken(self, step: Step) -> npt.NDArray[Any]:
        """Read the elements of samples."""
        how = self._handle.shared, (step,), None, None
        return np.asarray(self._place.call(self._contents().read, *how))

    # ---- the fast ways

    def stream(self, **options: Unpack[StreamKeywords]) -> StreamQueue[Array]:
        """Stream the dataset through reader processes; options are `Streamer.get_queue`'s."""
        streamer: Streamer = self.file.streamer()
        return streamer.get_queue(self._handle.name(self._place), **options)

    def batches(
        self, batch_size: int, *, transform: Any = None, **options: Unpack[BatchKeywords]
    ) -> Batches:
        """Stream the dataset as batches for training; options are `Streamer.get_batches`'."""
        streamer: Streamer = self.file.streamer()
        name = self._handle.name(self._place)
        return streamer.get_batches(name, batch_size, transform=transform, **options)
