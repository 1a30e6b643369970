"""What a library lacked in a reader, as an exception that says where to get it.

Law
---
1. A filter is named by its id and by the name that the file has for it.
2. Names a package only if that package has the filter, and only for the library that reads here.

Only composes, as error_report.py does.
"""

from __future__ import annotations

from _multitables.errors import (
    MissingFileError,
    MissingFilterError,
    MissingLibraryError,
    UnsupportedDatasetError,
    refused_error,
)
from _multitables.filter_names import HDF5PLUGIN, NAMES, PYTABLES
from _multitables.index.types import hdf5_errors
from _multitables.parent.readers.place import Place

_PYTABLES_FROM = "pip install tables, or conda install pytables"
#: The extras that bring the libraries of readers.
EXTRAS = {"h5py": "h5py", "tables": "pytables"}
_PLUGIN = (
    "Install the filter's HDF5 plugin and name its folder in HDF5_PLUGIN_PATH, or store the data "
    "without the filter where it was made: h5repack -f NONE"
)


def missing_filter(place: Place, text: str) -> MissingFilterError:
    """Compose the error for a filter that the library of a reader does not have.

    `text` is the filter's id, a space, and its name in the file.
    """
    digits, _, stored = text.partition(" ")
    number, by_h5py = int(digits), place.index.kind.library != "tables"
    known = NAMES.get(number)
    if by_h5py and number in HDF5PLUGIN:
        advice = "Install the filter: pip install hdf5plugin"
    elif number in PYTABLES:
        advice = f"Install a PyTables that has it: {_PYTABLES_FROM}"
        if by_h5py:
            advice += "; read the dataset with that, as h5py does not have the filter"
    else:
        advice = _PLUGIN
    named = stored or known or "the file has no name for it"
    return MissingFilterError(
        f"filter {number} ({named}) is not installed: needed to read {place.where}",
        good=place.lost,
        advice=advice,
        filter_id=number,
        filter_name=stored or known or "",
        **place.values(),
    )


def missing_library(place: Place, text: str) -> MissingLibraryError | None:
    """Compose the error for an HDF5 library that is not installed; None: it is, in part."""
    library = place.index.kind.library or "h5py"
    if repr(library) not in text:
        return None
    return MissingLibraryError(
        f"{library} is not installed, which is needed to read {place.where}",
        good=place.lost,
        advice=f"Install it: pip install 'multitables[{EXTRAS[library]}]'",
        **place.values(),
    )


def untrusted(place: Place, _: str) -> Exception:
    """Compose the error for a library that the user has ruled out."""
    return hdf5_errors.unsupported(
        "untrusted", place.index.filename, place.index.path, f"for {place.where}"
    )


def not_alone(place: Place, names: str) -> Exception:
    """Compose the error for files that HDF5 does not find where the dataset has them."""
    return hdf5_errors.unsupported("not_alone", place.index.filename, place.index.path, names)


def too_large(place: Place, sizes: str) -> Exception:
    """Compose the error for an object that is too large to be copied for PyTables."""
    got, most = map(int, sizes.split())
    return UnsupportedDatasetError(
        f"PyTables reads only copies of objects, and {place.index.filename!r} is too large "
        f"(expected at most {most} bytes, got {got}), for {place.where}",
        good=place.lost,
        advice="Download the file",
        expected=most,
        got=got,
        **place.values(),
    )


def missing_file(place: Place, name: str) -> Exception:
    """Compose the error for a file of raw data that is not where the dataset has it."""
    return refused_error(
        MissingFileError,
        f"no such file: {name!r}, in which the bytes of {place.where} lie",
        good=place.lost,
        advice="Put it there; HDF5 looks for it from the working directory, or from the folder in "
        "HDF5_EXTFILE_PREFIX",
        external=name,
        **place.values(),
    )
