"""`to_dask` and `to_dask_dataframe`: datasets as collections of Dask.

Law
---
1. A task is a selection of a handle of `open`, which is pickled as the file's name and fingerprint:
   it decodes where it runs, on one thread, as Dask has threads and processes of its own.
2. Partitions follow the borders of chunks, so that no chunk is decoded twice. By an index, they
   follow its values.
3. Keys name the file as it is, the path and the partitions, so that equal graphs share their tasks.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dask import array as da
from dask.array.core import normalize_chunks
from dask.base import tokenize

from _multitables.errors import MissingLibraryError, OptionsError, UnsupportedDatasetError, public
from _multitables.index.versions.version import VersionKey
from _multitables.options import Links
from _multitables.parent.open.dataset import Dataset
from _multitables.parent.open.file import File
from _multitables.parent.open.file import open as open_file
from _multitables.parent.open.group import Group
from _multitables.plan.divisions import cut_by_value

#: Bytes of the rows of a partition of a data frame, about.
PARTITION_BYTES = 64 << 20
#: Of a text or another object, about.
OBJECT_BYTES = 64


@public
def to_dask(
    filename: str | os.PathLike[str],
    path: str,
    *,
    chunks: Any = "auto",
    n_threads: int = 1,
    trusted: bool = True,
    links: Links | None = None,
    version: VersionKey | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> da.Array:
    """Give a dataset as an array of Dask, whose tasks decode natively.

    Parameters
    ----------
    filename : str or path-like
        The HDF5 file. Where tasks run on other machines, it has this name there.
    path : str
        The dataset in the file.
    chunks : int, tuple, dict or "auto", optional
        As in `dask.array.from_array`. Default: whole chunks of the file, as many as make up about
        ``dask.config.get("array.chunk-size")``.
    n_threads : int, optional
        Threads that decode the chunks of one task. Default: 1, as Dask runs many at once.
    trusted, links, version, storage_options : optional
        As in `multitables.open`. Tasks in other processes find credentials in their environment.

    Returns
    -------
    dask.array.Array
        A file that changes before a task runs is a `FileChangedError` of that task.

    Raises
    ------
    MissingDatasetError
        No such dataset (a `KeyError`). Other errors are those of `multitables.open`.

    Examples
    --------
    >>> images = multitables.to_dask("run7.h5", "images")  # doctest: +SKIP
    >>> images.mean(axis=0).compute()  # doctest: +SKIP
    """
    file = open_file(
        filename,
        n_threads=n_threads,
        cache_bytes=0,
        trusted=trusted,
        links=links,
        version=version,
        storage_options=storage_options,
    )
    dataset = _dataset(file[path])
    name = f"multitables-{tokenize(dataset, chunks)}"
    rows: Any = dataset if dataset.dtype.subdtype is None else _InnerAxes(dataset)
    meta = np.empty((0,) * rows.ndim, rows.dtype)
    if rows.dtype.hasobject:  # Dask does not guess the size of objects
        guessed = np.dtype(f"V{rows.dtype.itemsize + OBJECT_BYTES}")
        chunks = normalize_chunks(chunks, rows.shape, dtype=guessed, previous_chunks=rows.chunks)
    return da.from_array(rows, chunks, name=name, lock=False, meta=meta)


class _InnerAxes:
    """A dataset whose elements are arrays: their axes are its own, as in arrays of NumPy."""

    def __init__(self, dataset: Dataset) -> None:
        one = np.empty(0, dataset.dtype)
        inner = one.shape[1:]
        self._dataset, self.dtype = dataset, one.dtype
        self.shape = (*(dataset.shape or ()), *inner)
        self.ndim = len(self.shape)
        self.chunks = dataset.chunks and (*dataset.chunks, *inner)

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        outer = self._dataset.ndim
        return self._dataset[key[:outer]][(..., *key[outer:])]


@public
def to_dask_dataframe(
    filename: str | os.PathLike[str],
    path: str | Mapping[str, Sequence[str] | None],
    columns: Sequence[str] | None = None,
    *,
    index: str | None = None,
    rows_per_partition: int | None = None,
    n_threads: int = 1,
    trusted: bool = True,
    links: Links | None = None,
    version: VersionKey | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Give a table, or the columns of a group, as a data frame of Dask; or several of them.

    Parameters
    ----------
    filename : str or path-like
        The HDF5 file.
    path : str, or dict of str to sequence of str
        A compound dataset with one axis, as PyTables' tables are; or a group, whose datasets of
        shape (n,) or (n, 1) are columns of equal length. With an index also several of them, each
        with its columns (None: all).
    columns : sequence of str, optional
        Fields, or datasets of the group, of a single path. Default: all but the index. Only these
        are read.
    index : str, optional
        The column of each table, such as ``"evt.seq"``, that becomes the index of its frame. It has
        numbers in ascending order. Partitions never split the rows of one value, and those of
        several tables have the same ranges of values.
    rows_per_partition : int, optional
        Rows that a partition has of each table; with an index at most, unless a single value has
        more. Default: about 64 MiB, without an index in whole chunks of the longest.
    n_threads, trusted, links, version, storage_options : optional
        As in `to_dask`.

    Returns
    -------
    dask.dataframe.DataFrame, or dict of str to DataFrame
        With known divisions. Without `index`, the index is the number of the row. With it, the
        column is read as a whole now, and its rows again by each task.

    Raises
    ------
    UnsupportedDatasetError
        A column that has more than one axis, columns of different lengths, or an index that does
        not ascend (a `ValueError`).
    MissingFieldError, MissingDatasetError
        No such column (a `KeyError`).
    MissingLibraryError
        pandas is not installed (an `ImportError`).

    Examples
    --------
    >>> events = multitables.to_dask_dataframe("run7.h5", "events", ["time"])  # doctest: +SKIP
    >>> events.time.max().compute()  # doctest: +SKIP
    """
    _check_pandas()
    if index is not None and not isinstance(index, str):
        raise OptionsError(
            f"the index of a data frame of Dask is one column, got {index!r}",
            advice="Name one, or stream several with Streamer.get_columns",
            option="index",
            got=index,
        )
    wanted = {path: columns} if isinstance(path, str) else dict(path)
    in_dict = not isinstance(path, str)
    if not wanted or (in_dict and (index is None or columns is not None)):
        raise OptionsError(
            f"several tables need an index, and columns in the dict, got {path!r}",
            advice="Write to_dask_dataframe(file, {'a': ['x'], 'b': ['y']}, index='evt.seq')",
            option="path",
            got=path,
        )
    file = open_file(
        filename,
        n_threads=n_threads,
        cache_bytes=0,
        trusted=trusted,
        links=links,
        version=version,
        storage_options=storage_options,
    )
    parts = {name: _part(file, name, chosen, index) for name, chosen in wanted.items()}
    read = [column for part in parts.values() for column in part.columns.values()]
    step = _rows_per_partition(read, rows_per_partition)
    if index is None:
        (part,) = parts.values()
        first = list(range(0, max(part.n_rows, 1), step))
        divisions, starts = [*first, max(part.n_rows - 1, 0)], [first]
    else:
        divisions, starts = cut_by_value([part.key() for part in parts.values()], step)
    frames = {
        name: _frame(part, rows, divisions)
        for (name, part), rows in zip(parts.items(), starts, strict=True)
    }
    return frames[path] if isinstance(path, str) else frames


def _check_pandas() -> None:
    try:
        import dask.dataframe  # noqa: F401
    except ImportError:
        raise MissingLibraryError(
            "multitables.to_dask_dataframe needs pandas, which is not installed",
            good="to_dask works without it",
            advice="Install it: pip install dask[dataframe]",
            library="pandas",
        ) from None


def _frame(part: _Part, starts: Sequence[int], divisions: Sequence[Any]) -> Any:
    """Return the frame of a table whose partitions begin with these rows."""
    import dask.dataframe as dd

    return dd.from_map(
        part,
        list(zip(starts, [*starts[1:], part.n_rows], strict=True)),
        meta=part((0, 0)),
        divisions=tuple(divisions),
        label="multitables",
        enforce_metadata=False,
    )


def _part(file: File, path: str, names: Sequence[str] | None, index: str | None) -> _Part:
    """Find the columns of a table."""
    keys = {} if index is None else _columns(file[path], [index])
    found = _columns(file[path], names)
    if names is None and index is not None:
        found.pop(index)
    lengths = {name: len(column) for name, column in (found | keys).items()}
    n_rows = next(iter(lengths.values()), 0)
    if set(lengths.values()) - {n_rows}:
        raise UnsupportedDatasetError(
            f"columns of {path!r} in {file.filename!r} differ in length: expected {n_rows} rows as "
            f"{next(iter(lengths))!r} has, got {lengths}",
            advice="Name columns of equal length with columns=",
        )
    return _Part(found, keys, n_rows)


class _Column:
    """One column: a dataset, or a field of one."""

    def __init__(self, dataset: Dataset, field: str | None, dtype: np.dtype[Any]) -> None:
        self.dataset = dataset
        self.field = field
        self.dtype = dtype

    def __len__(self) -> int:
        return len(self.dataset)


class _Part:
    """Makes the data frame of a range of rows: the task of a partition."""

    def __init__(
        self, columns: Mapping[str, _Column], index: Mapping[str, _Column], n_rows: int
    ) -> None:
        self.columns = dict(columns)
        #: Of one column, or none.
        self.index = dict(index)
        self.n_rows = n_rows

    def __call__(self, rows: tuple[int, int], columns: Sequence[str] | None = None) -> Any:
        import pandas as pd

        names = list(self.columns) if columns is None else list(columns)
        wanted = {name: self.columns[name] for name in names} | self.index
        tables = _tables(wanted, slice(*rows))
        index = pd.RangeIndex(*rows)
        for name in self.index:
            index = pd.Index(tables[name], name=name)
        return pd.DataFrame({name: tables[name] for name in names}, index=index)

    def key(self) -> npt.NDArray[Any]:
        """Read the index, which must be numbers in ascending order."""
        ((name, column),) = self.index.items()
        where = f"{name!r} of {column.dataset.name!r} in {column.dataset.file.filename!r}"
        if column.dtype.kind not in "iuf" or column.dtype.itemsize > 8 or column.dtype == "f2":
            raise UnsupportedDatasetError(
                f"{where} cannot be the index of a data frame (expected integers, or floats of 4 "
                f"or 8 bytes, got {column.dtype})",
                advice="Name a column of numbers",
            )
        key = _tables(self.index, slice(None))[name]
        falls = np.flatnonzero(~(key[:-1] <= key[1:]))
        if len(falls):
            raise UnsupportedDatasetError(
                f"row {falls[0] + 1} of {where} comes before the row above it (expected an index "
                "in ascending order)",
                advice="Take the frame without an index, or sort the file",
            )
        return key


def _tables(columns: Mapping[str, _Column], rows: slice) -> dict[str, npt.NDArray[Any]]:
    """Read columns; the fields of one dataset together, as its chunks hold them all."""
    found: dict[str, npt.NDArray[Any]] = {}
    fields = {name: column for name, column in columns.items() if column.field is not None}
    if fields:
        table = next(iter(fields.values())).dataset
        together = table.fields([str(column.field) for column in fields.values()])[rows]
        found |= {name: together[column.field] for name, column in fields.items()}
    for name, column in columns.items():
        if column.field is None:
            found[name] = column.dataset[rows].reshape(-1)
    return {name: _native(values) for name, values in found.items()}


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In the byte order of this machine, and contiguous, as pandas needs it."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _columns(found: Any, names: Sequence[str] | None) -> dict[str, _Column]:
    if isinstance(found, Group):
        inside = [name for name in found if found.get(name, getclass=True) is Dataset]
        chosen = {name: _dataset(found[name]) for name in (inside if names is None else names)}
        return {name: _column(dataset, name) for name, dataset in chosen.items()}
    dataset = _dataset(found)
    if dataset.dtype.names is not None:
        view = dataset.fields(dataset.dtype.names if names is None else names)  # checks them
        fields = view.dtype.names or ()
        return {name: _column(dataset, name, view.dtype[name]) for name in fields}
    base = posixpath.basename(str(dataset.name))
    if names is not None and list(names) != [base]:
        raise OptionsError(
            f"columns of {dataset.name!r}, which is not a table, must be [{base!r}], got {names}",
            option="columns",
            got=names,
        )
    return {base: _column(dataset, base)}


def _column(dataset: Dataset, name: str, of_field: np.dtype[Any] | None = None) -> _Column:
    is_flat = dataset.ndim == 1 or (of_field is None and dataset.shape[1:] == (1,))
    if not is_flat or (of_field is not None and of_field.shape):
        raise UnsupportedDatasetError(
            f"column {name!r} of {dataset.name!r} in {dataset.file.filename!r} has more than one "
            "axis, and a data frame has columns of one",
            advice="Name the others with columns=, or take it with multitables.to_dask",
        )
    dtype = dataset.dtype if of_field is None else of_field
    metadata: Mapping[Any, Any] = dtype.metadata or {}
    if dtype.hasobject and metadata.get("vlen") not in (str, bytes):
        raise UnsupportedDatasetError(
            f"column {name!r} of {dataset.name!r} in {dataset.file.filename!r} has sequences, "
            "references or compounds of them, of which a data frame would make texts",
            advice="Name the others with columns=, or take it with multitables.to_dask",
        )
    return _Column(dataset, None if of_field is None else name, dtype)


def _dataset(found: Any) -> Dataset:
    if not isinstance(found, Dataset) or found.shape is None:
        raise UnsupportedDatasetError(
            f"{found!r} is not a dataset with elements", advice="Name a dataset"
        )
    return found


def _rows_per_partition(columns: Sequence[_Column], wanted: int | None) -> int:
    if wanted is not None:
        if wanted < 1:
            raise OptionsError(
                f"rows_per_partition must be at least 1, got {wanted}",
                option="rows_per_partition",
                got=wanted,
            )
        return wanted
    row_bytes = sum(max(1, column.dtype.itemsize) for column in columns)
    chunk = max(((column.dataset.chunks or (1,))[0] for column in columns), default=1)
    return max(1, math.floor(PARTITION_BYTES / max(1, row_bytes) / chunk)) * chunk
