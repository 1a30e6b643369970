"""``xarray.open_dataset(file, engine="multitables")``: files read by handles of `open`.

Law
---
1. `adapters.netcdf` says what a file means; here it becomes variables of xarray, with the encodings
   that the engine h5netcdf gives. No other library has a part in it, and no lock is taken.
2. Values are read by the core when they are needed, by any number of threads at once. Where a
   variable is shorter than its dimensions, the fill value stands behind its elements.
3. As many files are open as xarray keeps open. A file that is read in one thread when another needs
   its place is closed when that read is done; what reads a closed file opens it again.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from xarray import Dataset, Variable, get_options
from xarray.backends import BackendArray, H5netcdfBackendEntrypoint, StoreBackendEntrypoint
from xarray.backends.common import AbstractDataStore
from xarray.core import indexing

from _multitables.adapters import netcdf
from _multitables.errors import MissingLibraryError, OptionsError
from _multitables.index.chunk_index import Fingerprint
from _multitables.options import Links
from _multitables.parent.open.conversion import encoding_of
from _multitables.parent.open.file import File
from _multitables.parent.open.file import open as open_file
from _multitables.remote.names import absolute

#: Options of the engine h5netcdf that say nothing of a local file that is read.
OF_H5NETCDF = (
    "driver", "driver_kwds", "format", "invalid_netcdf", "lock", "open_kwargs", "storage_options",
)  # fmt: skip
PHONY_DIMS = (None, "access", "sort")
#: What h5netcdf calls compressions in encodings, by what h5py calls their filters; 32004 is LZ4.
COMPRESSIONS = {"szip": "szip", "307": "bzip2", "32004": "blosc", "32015": "zstd"}


class MultitablesBackend(H5netcdfBackendEntrypoint):
    """The engine ``"multitables"`` of xarray: netCDF-4 and HDF5 files, decoded natively.

    Arguments of ``xarray.open_dataset``, and what they mean, are those of the engine
    ``"h5netcdf"``, and so is the dataset. What NumPy has no type for is left out with a
    `LeftOutWarning`. Files that are not local, or are given as bytes or as file objects, are read
    by that engine, which needs h5netcdf.
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
        links: Links | None = None,
    ) -> Dataset:
        """Open a group of a file as a dataset of xarray; see the engine ``"h5netcdf"``.

        `links` says which other files it may lead to, as in `multitables.open`.
        """
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        opening = {"phony_dims": phony_dims, "decode_vlen_strings": decode_vlen_strings}
        if not _is_local(filename_or_obj, links):
            opening |= {"group": group, "lock": lock, "invalid_netcdf": invalid_netcdf}
            with _needs_h5netcdf(filename_or_obj):
                return super().open_dataset(filename_or_obj, **decoding, **opening)
        file = _Named(absolute(os.fspath(filename_or_obj)), links)
        store = _Store(file, _group(file, group, phony_dims), decode_vlen_strings)
        return StoreBackendEntrypoint().open_dataset(store, **decoding)

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        phony_dims: str | None = "access",
        decode_vlen_strings: bool = True,
        links: Links | None = None,
        **options: Any,
    ) -> dict[str, Dataset]:
        """Open a group and each below it, as datasets, by their paths from there."""
        if not _is_local(filename_or_obj, links):
            opening = {"phony_dims": phony_dims, "decode_vlen_strings": decode_vlen_strings}
            with _needs_h5netcdf(filename_or_obj):
                found: dict[str, Dataset] = super().open_groups_as_dict(
                    filename_or_obj, group=group, **opening, **options
                )
                return found
        for name in OF_H5NETCDF:
            options.pop(name, None)
        file = _Named(absolute(os.fspath(filename_or_obj)), links)
        read = StoreBackendEntrypoint().open_dataset
        return {
            path if not group else path.strip("/") or ".": read(
                _Store(file, one, decode_vlen_strings), **options
            )
            for path, one in _group(file, group, phony_dims).walk()
        }


class _Named(NamedTuple):
    """A file of this machine, and which other files it may lead to."""

    filename: str
    links: Links | None


def _is_local(given: Any, links: Links | None) -> bool:
    is_local = isinstance(given, (str, os.PathLike)) and os.path.isfile(given)
    if not is_local and links is not None:
        raise OptionsError(
            f"links={links!r} is for files of this machine that are given by name, got {given!r}",
            advice="Leave it out, or open the file with multitables.open",
            option="links",
            got=links,
        )
    return is_local


@contextlib.contextmanager
def _needs_h5netcdf(given: Any) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "h5netcdf":
            raise
        raise MissingLibraryError(
            f"the engine multitables reads {type(given).__name__!r} objects through h5netcdf, "
            "which is not installed (expected the name of a file of this machine)",
            good="Files that are given by name are read without it",
            advice="Give the name of a file, or install it: pip install h5netcdf",
            library="h5netcdf",
        ) from None


def _group(file: _Named, path: str | None, phony_dims: str | None) -> netcdf.NetcdfGroup:
    if not isinstance(path, str | None):
        raise OptionsError(
            f"group must be a string or None, got {path!r}", option="group", got=path
        )
    if phony_dims not in PHONY_DIMS:
        raise OptionsError(
            f"phony_dims must be one of {PHONY_DIMS}, got {phony_dims!r}",
            option="phony_dims",
            expected=PHONY_DIMS,
            got=phony_dims,
        )
    root = netcdf.NetcdfGroup(_files.opened(file), sorts=phony_dims == "sort")
    return root.find(path or "/")


class _Store(AbstractDataStore):
    """One group, as xarray wants it."""

    __slots__ = ("_decodes", "_file", "_group")

    def __init__(self, file: _Named, group: netcdf.NetcdfGroup, decodes_texts: bool) -> None:
        self._file, self._group, self._decodes = file, group, decodes_texts

    def get_variables(self) -> dict[str, Variable]:
        """Return variables that read when they are indexed."""
        return {name: self._variable(one) for name, one in self._group.variables.items()}

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the group."""
        return _attributes(self._group.group)

    def get_encoding(self) -> dict[str, Any]:
        """Return which dimensions may grow."""
        dims = self._group.dims.values()
        return {"unlimited_dims": {dim.name for dim in dims if dim.is_unlimited}}

    def _variable(self, of: netcdf.Variable) -> Variable:
        dataset, dtype = of.dataset, of.dataset.dtype
        known: Mapping[str, Any] = dtype.metadata or {}
        encoding = _encoding(of)
        named = self._group.named_type(dtype) if dtype.names or "enum" in known else None
        values = _Values(self._file, dataset.name, of.shape, dtype)
        values.reads_texts = dtype.kind == "O" and encoding_of(dtype) is not None and self._decodes
        if named is not None and dtype.names:
            values.view = netcdf.with_strings(dtype)
        elif named is not None:
            names = {**known, "enum_name": named.name.rpartition("/")[2]}
            encoding["dtype"] = np.dtype(dtype, metadata=names)
        elif known.get("vlen") is str:
            encoding["dtype"] = str
        encoding["source"] = self._file.filename
        lazy = indexing.LazilyIndexedArray(values)
        return Variable(of.dims, lazy, _attributes(dataset), encoding)

    def close(self) -> None:
        """Close the file; what reads a variable later opens it again."""
        _files.close(self._file.filename)


def _encoding(of: netcdf.Variable) -> dict[str, Any]:
    """Return how a variable is stored, in the words of netCDF4 and h5py."""
    dataset, shape = of.dataset, of.shape
    chunks, filters, compression = dataset.chunks, dataset.filters, dataset.compression
    found: dict[str, Any] = {"dtype": dataset.dtype, "contiguous": True, "chunksizes": None}
    if chunks and shape:
        preferred = dict(zip(of.dims, chunks, strict=True))
        found |= {"contiguous": False, "chunksizes": chunks, "preferred_chunks": preferred}
    names = ("zlib", *COMPRESSIONS.values())
    found |= dict.fromkeys(names, False)
    found |= {"shuffle": dataset.shuffle, "fletcher32": dataset.fletcher32}
    for name, settings in filters.items():
        if name in COMPRESSIONS:
            found[COMPRESSIONS[name]] = True
            if settings:
                found["complevel"] = settings[0]
    if compression == "gzip":
        found |= {"zlib": True, "complevel": dataset.compression_opts}
    elif compression is not None:
        found |= {"compression": compression, "compression_opts": dataset.compression_opts}
    found["original_shape"] = shape
    return found


def _attributes(of: Any) -> dict[str, Any]:
    found = netcdf.attributes(of)
    for name, value in found.items():
        if isinstance(value, bytes) and name not in ("_FillValue", "missing_value"):
            try:
                found[name] = value.decode("utf-8")
            except UnicodeDecodeError:
                warnings.warn(
                    f"the attribute {name!r} of {of.name!r} in {of.file.filename!r} stays bytes, "
                    "because it is not UTF-8",
                    UnicodeWarning,
                    stacklevel=2,
                )
    return found


class _Values(BackendArray):
    """The values of one variable."""

    __slots__ = ("_file", "_path", "dtype", "reads_texts", "shape", "view")

    def __init__(self, file: _Named, path: str | bytes, shape: tuple[int, ...], dtype: Any) -> None:
        self._file = file
        self._path = path
        self.shape = shape
        self.dtype = dtype
        #: Strings of any length become str.
        self.reads_texts = False
        #: What compounds of a named type are read as.
        self.view: np.dtype[Any] | None = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: Any) -> Any:
        stored = _files.opened(self._file)[self._path]
        found = self._selected(stored, stored.asstr() if self.reads_texts else stored, key)
        if self.view not in (None, self.dtype):
            return found.view(self.view)
        if self.dtype.kind == "O" and getattr(found, "dtype", None) not in (None, self.dtype):
            return _alone(found)
        return found

    def _selected(self, stored: Any, source: Any, key: Any) -> Any:
        if (stored.shape or ()) == self.shape:
            return source[key]
        inside, target, shape = netcdf.inside(key, self.shape, stored.shape)
        made = np.empty(shape, self.dtype)
        made.fill(self._fill(stored))
        if inside is not None:
            made[target] = source[inside]
        return made

    def _fill(self, stored: Any) -> Any:
        """Return what stands where a variable is shorter than its dimensions."""
        of_any_length = (self.dtype.metadata or {}).get("vlen")
        if isinstance(of_any_length, np.dtype):
            return np.empty(0, of_any_length)
        return "" if self.reads_texts else stored.fillvalue


def _alone(sequence: Any) -> Any:
    """Return one element that is an array as xarray wants an element: without axes."""
    made = np.empty((), object)
    made[()] = sequence
    return made


class _OpenFiles:
    """Files that were read last, of this process; without a lock, which a fork might find held."""

    def __init__(self) -> None:
        self._files: dict[tuple[_Named, Fingerprint], File] = {}

    def opened(self, named: _Named) -> File:
        """Open a file, as it is now, or find it open."""
        key = named, Fingerprint.of(os.stat(named.filename))
        self._files[key] = file = self._files.pop(key, None) or open_file(
            named.filename, links=named.links
        )
        while len(self._files) > get_options()["file_cache_maxsize"]:
            with contextlib.suppress(RuntimeError):  # other threads add some meanwhile
                self._files.pop(next(iter(self._files)), None)
        return file

    def close(self, filename: str) -> None:
        """Close a file, once nobody reads it."""
        for key in list(self._files):
            if key[0].filename == filename:
                self._files.pop(key, None)


_files = _OpenFiles()
