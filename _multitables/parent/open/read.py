"""`multitables.read`: one selection of one dataset, in one call.

Law
---
1. It opens, reads and closes; who reads more than once keeps what `open` gives.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from _multitables.errors import public
from _multitables.index.types import hdf5_errors
from _multitables.index.versions.version import VersionKey
from _multitables.options import Links
from _multitables.parent.open.dataset import Dataset
from _multitables.parent.open.file import open as open_file
from _multitables.parent.open.group import Group
from _multitables.parent.open.objects import shown


@public
def read(
    filename: str | os.PathLike[str] | bytes,
    path: str,
    selection: Any = ...,
    *,
    n_threads: int | None = None,
    trusted: bool = True,
    links: Links | None = None,
    version: VersionKey | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Read a selection of a dataset, decoded by threads of this process.

    Parameters
    ----------
    filename : str, path-like or bytes
        Name of the file.
    path : str
        The dataset in the file.
    selection : index, optional
        What is read, as `numpy.s_` makes it and `Dataset` takes it. Default: everything.
    n_threads, trusted, links, version, storage_options : optional
        As in `multitables.open`.

    Returns
    -------
    ndarray, scalar, bytes or Empty
        As ``multitables.open(filename)[path][selection]``.

    Raises
    ------
    MissingDatasetError
        No such dataset (a `KeyError`). Other errors are those of `open` and of `Dataset`.

    Examples
    --------
    >>> multitables.read("run7.h5", "images", np.s_[:10, ::2]).shape  # doctest: +SKIP
    (10, 4, 8)
    """
    with open_file(
        filename,
        n_threads=n_threads,
        cache_bytes=0,
        trusted=trusted,
        links=links,
        version=version,
        storage_options=storage_options,
    ) as file:
        found = file[path]
        if isinstance(found, Dataset):
            return found[selection]
        children = list(map(shown, found)) if isinstance(found, Group) else None
        raise hdf5_errors.no_dataset(file.filename, shown(path), children)
