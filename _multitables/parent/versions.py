"""The public `versions`: what versions a file has, and which rows differ between two of them.

Law
---
1. The file is open while its versions are read, and while maps are compared; no data is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from _multitables.errors import public
from _multitables.index.datasets.source import open_source
from _multitables.index.files.name import one_file_named
from _multitables.index.versions.diff import differing_rows
from _multitables.index.versions.sources import of_version, whole_history
from _multitables.index.versions.version import Version, VersionKey
from _multitables.options import Links, check_version
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.titles import count, file_title
from _multitables.remote.options import StorageOptions


@public
def versions(
    filename: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    links: Links | None = None,
) -> Versions:
    """List the versions of a file that the package versioned-hdf5 wrote.

    Parameters
    ----------
    filename : str or path-like
        The HDF5 file.
    storage_options : mapping, optional
        Of an object in a store; see `Streamer`.
    links : {"anywhere", "folder", "none"}, optional
        Which other files it may lead to; see `Streamer`.

    Returns
    -------
    Versions
        A mapping from names to versions, each after the one that it was made from.

    Raises
    ------
    MissingFileError, FileOpenError
        The file cannot be opened (`FileNotFoundError`, `OSError`).
    UnsupportedDatasetError
        It has no versions, or the package refuses its layout as well (a `ValueError`).

    Examples
    --------
    >>> for version in multitables.versions("prices.h5").values():  # doctest: +SKIP
    ...     print(version.name, version.time, version.parent)
    """
    return Versions(filename, storage_options, links)


@public
class Versions(Mapping[str, Version], InNotebooks):
    """The versions of a file, as they were when it was made; by `multitables.versions`.

    Names are in the order of the history: each version comes after the one that it was made from,
    and otherwise by time. ``versions[...]`` takes a name, an index or a time, as ``version=`` does.
    Versions that were not committed are left out.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        links: Links | None = None,
    ) -> None:
        storage = StorageOptions.of(storage_options)
        name, storage = one_file_named(filename, "versions", storage)
        self._options = {"storage_options": storage, "links": links}
        with open_source(name, self._options) as source:
            self._history = whole_history(source)
        self._names = [version.name for version in self._history.in_order()]

    def __getitem__(self, version: VersionKey) -> Version:
        """Return a version.

        Raises
        ------
        MissingVersionError
            No version has this name, or it was not committed (a `KeyError` and an `IndexError`).
        """
        return self._history.find(check_version("version", version))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        found = count(len(self), "version")
        return f"<Versions of {file_title(self._history.filename)}: {found}>"

    def diff(self, path: str, old: VersionKey, new: VersionKey) -> list[slice]:
        """Tell which rows of a dataset differ between two versions.

        What is compared is where their chunks are stored, not the data: rows of a chunk that was
        written anew are told together.

        Parameters
        ----------
        path : str
            Dataset in both versions.
        old, new : str, int, datetime or numpy.datetime64
            The versions, as ``version=`` names them.

        Returns
        -------
        list of slice
            Ranges of rows in ascending order, as far as the longer dataset has them. Rows outside
            are equal in both. Rows of different shapes or types all differ.

        Raises
        ------
        MissingVersionError, MissingDatasetError
            No such version, or no such dataset in it (a `KeyError`).
        UnsupportedDatasetError
            It is not stored in chunks that versions share (a `ValueError`).
        """
        with open_source(self._history.filename, self._options) as source:
            both = [of_version(source, self[one].name) for one in (old, new)]
            places = [(one, one.find(path)) for one in both]
            old_index, new_index = (one.index_at(place, as_stored=True) for one, place in places)
            types = {one.stored(place).datatype for one, place in places}
            return differing_rows(old_index, new_index, same_type=len(types) == 1)
