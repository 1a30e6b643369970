"""`GrainSource` and `GrainDataset`: rows that Grain chooses, and batches that it takes in order.

Law
---
1. Each array is copied: the buffers of Grain hold more elements than the
   readers' memory may have.
2. `NumberedRows` reads the rows that are chosen; a `Loader` has order, epochs and states.
3. Each iterator over a dataset has a stream of its own, from the first epoch of its loader on. Of
   Grain's processes or threads each gets a part of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import grain
import numpy as np

from _multitables.adapters.numbered_rows import NumberedRows
from _multitables.errors import OptionsError, public
from _multitables.index.files.name import Filename
from _multitables.options import wrong
from _multitables.parent.batches.loader import Loader
from _multitables.parent.streamer import Streamer
from _multitables.plan.casts import bfloat16_of
from _multitables.tree import Paths, map_arrays, native


@public
class GrainSource(NumberedRows):
    """Rows of an HDF5 file by number, as a random access source of Grain.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length: elements are then tuples, or dicts with the
        same keys, of arrays.
    **options
        Those of `TorchMapDataset`, such as ``n_procs`` or ``sample``, but ``dtype="bfloat16"``.

    Raises
    ------
    MissingFileError, FileOpenError, MissingDatasetError, MissingFieldError
        The data cannot be opened, when rows or the length are first needed.
    UnsupportedDatasetError
        Ragged data.
    IndexError
        The dataset lacks the row.

    Notes
    -----
    Elements are copies. Any number of threads may ask. A copy in another process, as Grain's
    loaders make it, starts readers of its own. Where Grain reads in batches, a batch is one request
    for each dataset.

    Examples
    --------
    >>> source = multitables.GrainSource("run7.h5", {"x": "/images"})  # doctest: +SKIP
    >>> batches = grain.MapDataset.source(source).shuffle(seed=7).batch(64)  # doctest: +SKIP
    """

    def __init__(
        self, filename: Filename | Iterable[Filename], path: Paths, **options: Any
    ) -> None:
        _check_no_bfloat16(path, options)
        super().__init__(filename, path, **options)

    def __repr__(self) -> str:
        # Grain compares it with that of a checkpoint.
        return f"GrainSource({self.filename!r}, {self.path!r})"

    def __getitem__(self, row: int) -> Any:
        """Read one row; negative ones count from the end."""
        return self._one(row)

    def __getitems__(self, rows: Sequence[int]) -> list[Any]:
        """Read the rows of a batch, in one request for each dataset."""
        return list(self._several(rows)[1])

    _getitems = __getitems__  # Grain's name

    def _made(self, array: Any, where: str) -> Any:
        return _copied(array)


@public
class GrainDataset(grain.IterDataset[Any]):
    """Batches of an HDF5 file as a ``grain.IterDataset``, whose iterators can be resumed.

    Parameters
    ----------
    filename : str, path-like, sequence of them, or a loader
        The HDF5 file, or several, as for `Streamer`. Or, alone, what `Streamer.get_batches`,
        `Streamer.get_columns` or `Collection.to_batches` made.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length: elements are then tuples, or dicts with the
        same keys, of arrays.
    batch_size : int
        Rows of a batch.
    open_options : mapping, optional
        Options of `tables.open_file`, and ``storage_options``, as for `Streamer`.
    **options
        Other options of `Streamer.get_batches`, such as ``shuffle``, ``rank`` or ``epochs`` (None:
        without end).

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`). Errors of the file come with the first batch.

    Notes
    -----
    Batches are copies. Each iterator goes through the epochs of the loader from their start; its
    ``get_state`` and ``set_state`` are the ``state_dict`` and ``load_state_dict`` of the loader.
    With ``mp_prefetch`` each process has a part of the rows, and a reader of its own.

    Examples
    --------
    >>> dataset = multitables.GrainDataset(  # doctest: +SKIP
    ...     "run7.h5", {"x": "/images"}, 256, shuffle=True, epochs=None
    ... )
    >>> iterator = iter(dataset.map(augment))  # doctest: +SKIP
    """

    def __init__(
        self,
        filename: Filename | Iterable[Filename] | Loader,
        path: Paths | None = None,
        batch_size: int | None = None,
        *,
        open_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(filename, Loader):
            if path is not None or batch_size is not None or open_options or options:
                raise OptionsError(
                    f"a {type(filename).__name__} is given alone, got other arguments with it",
                    advice="Give them to the method that makes the loader",
                    option="path",
                    got=path,
                )
            self._loader = filename
        elif path is None or batch_size is None:
            raise TypeError("GrainDataset takes a file, a path and a batch_size, or a loader")
        else:
            _check_no_bfloat16(path, options)
            streamer = Streamer(filename, **(open_options or {}))
            self._loader = streamer.get_batches(path, batch_size, **options)
        #: Which part of the rows is this one's, and of how many.
        self._part: tuple[int, int] | None = None

    def __iter__(self) -> GrainIterator:
        """Begin a stream of its own."""
        return GrainIterator(self._loader, self._part)

    def set_slice(self, part: slice, sequential_slice: bool = False) -> None:
        """Keep one of ``part.step`` parts, as Grain asks of a copy in each of its processes."""
        number, parts = self._part or (0, 1)
        self._part = number * part.step + (part.start or 0), parts * part.step

    def __repr__(self) -> str:
        return f"GrainDataset({self._loader!r})"


class GrainIterator(grain.DatasetIterator[Any]):
    """One pass over a `GrainDataset`."""

    def __init__(self, loader: Loader, part: tuple[int, int] | None) -> None:
        super().__init__()
        self._loader = loader._shared_out(None, part, False)
        self._batches: Any = None

    def __next__(self) -> Any:
        self._assert_not_closed()
        if self._batches is None:
            self._batches = iter(self._loader)
        return map_arrays(_copied, next(self._batches))

    def get_state(self) -> dict[str, Any]:
        """Return what was delivered, as the loader's `state_dict`."""
        return self._loader.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken."""
        self._loader.load_state_dict(state)
        self._batches = None

    def close(self) -> None:
        """End the readers."""
        super().close()
        self._loader.close()


def _copied(array: Any) -> Any:
    return np.array(native(array))[()] if isinstance(array, np.ndarray | np.generic) else array


def _check_no_bfloat16(path: Paths, options: Mapping[str, Any]) -> None:
    if any(bfloat16_of(path, options)):
        raise wrong("dtype", "cannot be bfloat16 here", options["dtype"], "Let JAX cast rows")
