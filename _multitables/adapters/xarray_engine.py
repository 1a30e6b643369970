"""``xarray.open_dataset(file, engine="multitables")``: variables read by handles of `open`.

Law
---
1. h5netcdf says what a file means: dimensions, coordinates, attributes, encodings. It reads them
   through h5py, under xarray's lock.
2. Values are read by the core, by any number of threads at once, without that lock. What h5netcdf
   makes of stored elements is left to it: variables shorter than their dimensions, compounds.
3. As many files are open as xarray keeps open. A file that is read in one thread when another needs
   its place is closed when that read is done; what reads a closed file opens it again.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

from xarray import Dataset, Variable, get_options
from xarray.backends import (
    BackendArray,
    H5netcdfBackendEntrypoint,
    H5NetCDFStore,
    StoreBackendEntrypoint,
)
from xarray.core import indexing

from _multitables.index.chunk_index import Fingerprint
from _multitables.parent.open.file import File
from _multitables.parent.open.file import open as open_file
from _multitables.parent.open.group import Group

#: Before the name, in the file, of a variable that is called as a dimension that it does not have.
NOT_A_COORDINATE = "_nc4_non_coord_"
#: What `open_datatree` passes on, with its defaults, and does not apply to files that are local.
OF_H5NETCDF = ("format", "driver", "driver_kwds", "storage_options", "open_kwargs")


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
        for name in OF_H5NETCDF:
            options.pop(name, None)
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

    __slots__ = ("_decodes_strings",)

    @classmethod
    def of(cls, filename: str, *, decode_vlen_strings: bool, **opening: Any) -> _Store:
        store: _Store = cls.open(filename, decode_vlen_strings=decode_vlen_strings, **opening)
        store._decodes_strings = decode_vlen_strings
        return store

    def open_store_variable(self, name: str, var: Any) -> Variable:
        """Return a variable that reads when it is indexed."""
        found: Variable = super().open_store_variable(name, var)
        folder, last = posixpath.split(var.name)
        file = _files.opened(self._filename)
        hidden = posixpath.join(folder, NOT_A_COORDINATE + last)
        path = hidden if hidden in file else var.name
        shape, dtype = file[path].shape, file[path].dtype
        is_left = shape != found.shape or dtype.names is not None
        if is_left or (dtype.hasobject and not self._decodes_strings):
            return found
        values = _Values(self._filename, path, found.shape, found.dtype)
        lazy = indexing.LazilyIndexedArray(values)
        return Variable(found.dims, lazy, found.attrs, found.encoding)

    def close(self, **options: Any) -> None:
        """Close the file; what reads a variable later opens it again."""
        _files.close(self._filename)
        super().close(**options)


class _Values(BackendArray):
    """The values of one variable."""

    __slots__ = ("_filename", "_path", "dtype", "shape")

    def __init__(self, filename: str, path: str, shape: tuple[int, ...], dtype: Any) -> None:
        self._filename = filename
        self._path = path
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: Any) -> Any:
        stored = _files.opened(self._filename)[self._path]
        return (stored.asstr() if stored.dtype.hasobject else stored)[key]


class _OpenFiles:
    """Files that were read last, of this process; without a lock, which a fork might find held."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, Fingerprint], File] = {}

    def opened(self, filename: str) -> File:
        """Open a file, as it is now, or find it open."""
        key = filename, Fingerprint.of(os.stat(filename))
        self._files[key] = file = self._files.pop(key, None) or open_file(filename)
        while len(self._files) > get_options()["file_cache_maxsize"]:
            with contextlib.suppress(RuntimeError):  # other threads add some meanwhile
                self._files.pop(next(iter(self._files)), None)
        return file

    def close(self, filename: str) -> None:
        """Close a file, once nobody reads it."""
        for key in list(self._files):
            if key[0] == filename:
                self._files.pop(key, None)


_files = _OpenFiles()
