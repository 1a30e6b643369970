"""``xarray.open_dataset(file, engine="multitables")``: variables read by handles of `open`.

Law
---
1. h5netcdf says what a file means: dimensions, coordinates, attributes, encodings. It reads them
   through h5py, under xarray's lock.
2. Values are read by the core, by any number of threads at once, without that lock. What h5netcdf
   makes of stored elements is left to it: variables shorter than their dimensions, compounds.
3. Files are closed and opened again by xarray's own cache of open files, also in other processes.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

from xarray import Dataset, Variable
from xarray.backends import (
    BackendArray,
    CachingFileManager,
    H5netcdfBackendEntrypoint,
    H5NetCDFStore,
    StoreBackendEntrypoint,
)
from xarray.core import indexing

from _multitables.errors import ClosedError
from _multitables.parent.open.file import File
from _multitables.parent.open.file import open as open_file
from _multitables.parent.open.group import Group

#: Before the name, in the file, of a variable that is called as a dimension that it does not have.
NOT_A_COORDINATE = "_nc4_non_coord_"


class MultitablesBackend(H5netcdfBackendEntrypoint):
    """The engine ``"multitables"`` of xarray: netCDF-4 and HDF5 files, decoded natively.

    Arguments of ``xarray.open_dataset``, and what they mean, are those of the engine
    ``"h5netcdf"``. Files that are not local, or are given as bytes or as file objects, are read by
    that engine.
    """

    description = "Read netCDF-4 and HDF5 files through the decoders of multitables"
    url = "https://multitables.readthedocs.io"

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return False: this engine is used where it is asked for."""
        return False

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        lock: Any = None,
        invalid_netcdf: bool | None = None,
        phony_dims: str | None = "access",
        decode_vlen_strings: bool = True,
    ) -> Dataset:
        """Open a group of a file as a dataset of xarray; see the engine ``"h5netcdf"``."""
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        opening = {
            "group": group,
            "lock": lock,
            "invalid_netcdf": invalid_netcdf,
            "phony_dims": phony_dims,
            "decode_vlen_strings": decode_vlen_strings,
        }
        if not _is_local(filename_or_obj):
            return super().open_dataset(filename_or_obj, **decoding, **opening)
        store = _Store.of(os.path.abspath(os.fspath(filename_or_obj)), **opening)
        return StoreBackendEntrypoint().open_dataset(store, **decoding)

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, group: str | None = None, **options: Any
    ) -> dict[str, Dataset]:
        """Open each group below `group`, as a dataset, by its path from there."""
        if not _is_local(filename_or_obj):
            found: dict[str, Dataset] = super().open_groups_as_dict(
                filename_or_obj, group=group, **options
            )
            return found
        top = posixpath.join("/", group or "")
        with open_file(filename_or_obj) as file:
            names = list(_groups(file[top], "/"))
        return {
            name: self.open_dataset(
                filename_or_obj, group=posixpath.join(top, name.strip("/")), **options
            )
            for name in names
        }


def _is_local(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike)) and os.path.isfile(given)


def _groups(group: Group, name: str) -> Iterator[str]:
    yield name
    for key in group:
        if group.get(key, getclass=True) is Group:
            yield from _groups(group[key], posixpath.join(name, key))


class _Store(H5NetCDFStore):
    """What h5netcdf says of a group, with values that the core reads."""

    __slots__ = ("_decodes_strings", "_files")

    @classmethod
    def of(cls, filename: str, *, decode_vlen_strings: bool, **opening: Any) -> _Store:
        store: _Store = cls.open(filename, decode_vlen_strings=decode_vlen_strings, **opening)
        store._files = CachingFileManager(_opened, filename, mode="r")
        store._decodes_strings = decode_vlen_strings
        return store

    def open_store_variable(self, name: str, var: Any) -> Variable:
        """Return a variable that reads when it is indexed."""
        found: Variable = super().open_store_variable(name, var)
        folder, last = posixpath.split(var.name)
        with self._files.acquire_context() as file:
            hidden = posixpath.join(folder, NOT_A_COORDINATE + last)
            path = hidden if hidden in file else var.name
            stored = file[path]
        is_left = stored.shape != found.shape or stored.dtype.names is not None
        if is_left or (stored.dtype.hasobject and not self._decodes_strings):
            return found
        values = _Values(self._files, path, found.shape, found.dtype)
        lazy = indexing.LazilyIndexedArray(values)
        return Variable(found.dims, lazy, found.attrs, found.encoding)

    def close(self, **options: Any) -> None:
        """Close the file; what reads a variable later opens it again."""
        self._files.close()
        super().close(**options)


class _Values(BackendArray):
    """The values of one variable."""

    __slots__ = ("_files", "_path", "dtype", "shape")

    def __init__(self, files: Any, path: str, shape: tuple[int, ...], dtype: Any) -> None:
        self._files = files
        self._path = path
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: Any) -> Any:
        while True:
            with self._files.acquire_context() as file:
                stored = file[self._path]
            try:
                return (stored.asstr() if stored.dtype.hasobject else stored)[key]
            except ClosedError:  # xarray's cache closed the file just now, to open another
                continue


def _opened(filename: str, mode: str) -> File:
    """Open a file as managers of xarray do, which give a mode too; there is one."""
    return open_file(filename)
