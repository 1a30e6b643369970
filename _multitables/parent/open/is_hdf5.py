"""`multitables.is_hdf5`: whether a file has HDF5's signature.

Law
---
1. As h5py's: the signature, which stands behind a user block of any size, and nothing else. What is
   not there, or is no file, is not HDF5.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from _multitables.errors import MissingFileError, public
from _multitables.index.files.name import one_file_named
from _multitables.index.files.stored_objects import first_bytes
from _multitables.remote.names import is_remote
from _multitables.remote.options import StorageOptions

SIGNATURE = b"\x89HDF\r\n\x1a\n"
FIRST_BLOCK = 512


@public
def is_hdf5(
    filename: str | os.PathLike[str] | bytes, storage_options: Mapping[str, Any] | None = None
) -> bool:
    """Whether a file is an HDF5 file, in place of `h5py.is_hdf5`.

    Parameters
    ----------
    filename : str, path-like or bytes
        The file, or the URL of an object in a store, of which the first bytes are looked at.
    storage_options : mapping, optional
        Of an object in a store; see `Streamer`.

    Returns
    -------
    bool
        Whether it has HDF5's signature. False: there is no such file, or it may not be read.

    Raises
    ------
    OptionsError
        It is no name.
    StoreError
        A store failed.
    """
    name, storage = one_file_named(filename, "is_hdf5", StorageOptions.of(storage_options))
    try:
        if is_remote(name):
            data = first_bytes(name, storage)[1]
            return any(data.startswith(SIGNATURE, at) for at in _places(len(data)))
        if not os.path.isfile(name):  # a pipe would wait for its writer
            return False
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return any(os.pread(file.fileno(), 8, at) == SIGNATURE for at in _places(size))
    except MissingFileError:
        return False
    except OSError:
        if is_remote(name):
            raise
        return False  # there is no right to read it


def _places(size: int) -> list[int]:
    """Return where the signature may stand in a file."""
    found = [0]
    while (at := FIRST_BLOCK << len(found) - 1) < size:
        found.append(at)
    return found
