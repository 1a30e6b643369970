"""What a library lacked when it failed: a filter, or a file of raw data that it does not name.

Law
---
1. Looks only after a failure. What it finds replaces the library's exception, which hides it
   ("can't open directory", "unable to open external raw data file").
2. Any other exception stays the library's own, in one sentence: a back trace is cut to its cause.

This file must never fail in a way of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from _multitables.filter_names import PYTABLES
from _multitables.reader.object_file import OtherFilesError, TooLargeError
from _multitables.remote.failures import StoreFailure

OF_HDF5 = range(256)


class NoFilterError(OSError):
    """Text: the filter's id, a space, its name as stored."""


class NoFileError(OSError):
    """Text: the file's name as stored."""


class UntrustedError(ValueError):
    """The user does not trust the file with a library. It has no text."""


@contextlib.contextmanager
def explained(library: str, open_h5py: Callable[[], tuple[Any, Any]]) -> Iterator[None]:
    """Raise what was missing in place of a library's exception.

    `open_h5py` opens the file and the dataset with h5py, to look for it.
    """
    try:
        yield
    except (StoreFailure, OtherFilesError, TooLargeError):
        raise
    except Exception as error:
        better = _missing(library, open_h5py) or _shortened(error)
        if better is None:
            raise
        raise better from error


def _missing(library: str, open_h5py: Callable[[], tuple[Any, Any]]) -> Exception | None:
    with contextlib.suppress(Exception):  # then nothing better is known
        file, dataset = open_h5py()
        with file:
            return _lacks(library, dataset)
    return None


def _lacks(library: str, dataset: Any) -> Exception | None:
    plist = dataset.id.get_create_plist()
    for position in range(plist.get_nfilters()):
        number, _, _, name = plist.get_filter(position)
        if not _has_filter(library, number):
            text = name.split(b"\0")[0].decode("utf-8", "replace")
            return NoFilterError(f"{number} {text}")
    external = plist.get_external_count() if dataset.external else 0
    for position in range(external):
        name = plist.get_external(position)[0]
        if not os.path.exists(_place(os.fsdecode(name), dataset.file.filename)):
            return NoFileError(os.fsdecode(name))
    return _sources_lack(library, dataset) if dataset.is_virtual else None


def _sources_lack(library: str, dataset: Any) -> Exception | None:
    import h5py

    folder = os.path.dirname(dataset.file.filename)
    for source in dataset.virtual_sources():
        name = dataset.file.filename
        if source.file_name != ".":
            name = os.path.join(folder, source.file_name)
        with contextlib.suppress(OSError, KeyError), h5py.File(name, "r") as file:
            found = _lacks(library, file[source.dset_name])
            if found is not None:
                return found
    return None


def _place(name: str, filename: str) -> str:
    """Where HDF5 looks for a file of raw data."""
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "")
    prefix = prefix.replace("${ORIGIN}", os.path.dirname(os.path.abspath(filename)))
    return os.path.join(prefix, name)


def _has_filter(library: str, number: int) -> bool:
    import h5py

    if library == "tables" and number not in OF_HDF5:
        import tables

        name = PYTABLES.get(number)
        return name is not None and tables.which_lib_version(name) is not None
    return bool(h5py.h5z.filter_avail(number))


def _shortened(error: Exception) -> Exception | None:
    trace = getattr(error, "h5backtrace", None)  # of PyTables' HDF5ExtError, the cause last
    if not trace:
        return None
    happened = str(error.args[0]).rstrip(".")
    return type(error)(f"{happened} ({trace[-1][-1]})", h5bt=False)  # type: ignore[call-arg]
