"""What is wrong with a file or dataset that does not open, as one of our exceptions.

Law
---
1. One function, or row of a table, for each thing that can be wrong. `of_core` is the only way from
   what the core raises of a file to what users see: all questions to the core go through it, or
   through `named`.
2. Names what there is instead: the group's children, the dataset's fields, close matches.
3. A link that leads nowhere is a missing dataset; a link to what does not open is damage.

This file must never decide what is wrong, and opens no file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence

from _multitables import _core
from _multitables.errors import (
    ClosedError,
    CorruptFileError,
    FileOpenError,
    MissingDatasetError,
    MissingFieldError,
    MissingFileError,
    MultitablesError,
    SharedMemoryError,
    UnsupportedDatasetError,
    advice_for,
)
from _multitables.index.types.numpy_type import NoDtypeError

NAMES_SHOWN = 20
#: How deep virtual datasets may show others.
VIRTUAL_ON_VIRTUAL = 16

_CLOSE_WRITER = "Close it there (or wait), then stream it"
#: Why HDF5 does not open such a file either -> what happened, what to do.
REFUSED = {
    "locked": ("is open for writing in another process", _CLOSE_WRITER),
    "here": (
        "is open for writing in this process: what is written may not be in the file yet",
        "Close it, then stream it",
    ),
    "written": (
        "is open for writing elsewhere, or its writer was killed",
        f"{_CLOSE_WRITER}, or stream it with follow=True; if the writer is gone: h5clear -s FILE",
    ),
    "parts": (
        "is one part of several, which HDF5's split, multi or subfiling driver wrote",
        (
            "Open a split file (NAME-m.h5, NAME-r.h5) with Streamer('NAME', DRIVER='H5FD_SPLIT'); "
            "make one file of a multi file with h5repack"
        ),
    ),
    "signature": (
        "is not an HDF5 file (expected HDF5's signature, got other bytes)",
        "Check the name; h5dump -H FILE shows what an HDF5 file holds",
    ),
}


def refused(filename: str, why: str) -> FileOpenError:
    """Compose the error for a file that HDF5 does not open: a key of `REFUSED`."""
    happened, advice = REFUSED[why]
    return FileOpenError(
        f"{filename!r} {happened}",
        advice=advice.replace("FILE", repr(filename)),
        filename=filename,
    )


def truncated(filename: str, expected: int, got: int) -> FileOpenError:
    """Compose the error for a file that is shorter than its writer left it."""
    return FileOpenError(
        f"{filename!r} is truncated (expected {expected} bytes, got {got})",
        advice="Copy the file again from its source or from a backup",
        filename=filename,
        expected=expected,
        got=got,
    )


def cannot_open(filename: str, error: OSError) -> MultitablesError:
    """Compose the error for a file that the system, or a store, does not open."""
    if isinstance(error, _core.StoreFailed):
        from _multitables.remote.failures import store_error

        return store_error(filename, error.args[0])
    number = error.errno or 0
    if number == errno.ENOENT:
        folder = os.path.dirname(filename)
        where = "" if os.path.isdir(folder) else f" (there is no folder {folder!r} either)"
        return MissingFileError(
            f"no such file: {filename!r}{where}",
            advice="Check the name and the working directory",
            filename=filename,
        )
    if number == errno.EISDIR or os.path.isdir(filename):
        return no_file(filename)
    check = "Check the file's permissions and its file system"
    return FileOpenError(
        f"{filename!r} cannot be opened: {os.strerror(number)} "
        f"({errno.errorcode.get(number, number)})",
        advice=advice_for(error, check, dict.fromkeys((errno.EACCES, errno.EPERM), check)),
        filename=filename,
    )


def no_file(filename: str) -> FileOpenError:
    """Compose the error for a folder, a device or a pipe."""
    kind = "a folder" if os.path.isdir(filename) else "not a regular file"
    return FileOpenError(
        f"{filename!r} is {kind} (expected an HDF5 file)",
        advice="Give the name of one HDF5 file",
        filename=filename,
    )


def corrupt(filename: str, path: str, error: _core.Corrupt) -> CorruptFileError:
    """Compose the error for a structure that contradicts HDF5's specification."""
    _, address, expected, got = error.args
    return CorruptFileError(
        f"{filename!r} is damaged: for {path!r} expected {expected} at byte {address}, got {got}",
        good="Other datasets of the file may be intact",
        advice="Copy the file again from its source or from a backup",
        filename=filename,
        path=path,
        address=address,
        expected=expected,
        got=got,
    )


def library_failed(filename: str, path: str, why: str) -> FileOpenError:
    """Compose the error for a structure that neither the core nor libhdf5 reads."""
    return FileOpenError(
        f"{path!r} in {filename!r} cannot be indexed: the core does not know how it is stored, and "
        f"the h5py library failed: {why}",
        advice="Its structure is damaged: copy the file again from its source or from a backup",
        filename=filename,
        path=path,
    )


#: A thing that only another program reads -> what happened, with the reason in place of {}; what is
#: still good; what to do.
UNSUPPORTED = {
    "unknown": (
        "is stored in a way that the core does not know: {}",
        "",
        "Read it with h5py, and report it with multitables.build_info()",
    ),
    "forbidden": (
        "has {}, which is not known here, and the file forbids to ignore it",
        "Other datasets are not affected",
        "Read it with the program that wrote it",
    ),
    "untrusted": (
        "needs an HDF5 library, which trusted=False switches off: {}",
        "",
        "If you trust the file, leave trusted out",
    ),
    "unbound": (
        "needs an HDF5 library, which follows links to any file, and links= rules some out: {}",
        "",
        "If you trust the file, give links='anywhere'",
    ),
    "not_alone": (
        "needs an HDF5 library, which finds no other files in a store: {}",
        "",
        "Download the files that it needs",
    ),
    "no_dtype": (
        "has elements of a type that NumPy does not have: {}",
        "Its shape and attributes, and fields of other types, can be read",
        (
            "HDF5 converts numbers: h5py's dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, array) "
            "fills an array of your dtype"
        ),
    ),
}


def unsupported(kind: str, filename: str, path: str, why: object) -> UnsupportedDatasetError:
    """Compose the error for a key of `UNSUPPORTED`."""
    happened, good, advice = UNSUPPORTED[kind]
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} {happened.format(why)}",
        good=good,
        advice=advice,
        path=path,
        filename=filename,
    )


def too_many_blocks(filename: str, path: str, got: int, most: int) -> UnsupportedDatasetError:
    """Compose the error for a virtual dataset whose hyperslabs no library would survive."""
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} is a virtual dataset whose mappings have too many blocks "
        f"(expected at most {most}, got {got})",
        good="Other datasets of the file are not affected",
        advice="Read its sources",
        path=path,
        filename=filename,
        expected=most,
        got=got,
    )


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    more = f", and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return ", ".join(shown[:NAMES_SHOWN]) + more or "nothing"


def not_a_group(filename: str, path: str, inside: str) -> MissingDatasetError:
    """Compose the error for a path that goes on behind a dataset."""
    return MissingDatasetError(
        f"{path!r} is not in {filename!r}: {inside!r} is a dataset, not a group",
        advice="Columns of a table are chosen with field=",
        path=path,
        filename=filename,
    )


def no_such_path(
    filename: str, path: str, group: str, name: str, names: list[str]
) -> MissingDatasetError:
    """Compose the error for a path that ends in a group, which has no such name."""
    where = group.rstrip("/")
    close = [f"{where}/{found}" for found in close_matches(name, names)]
    return MissingDatasetError(
        f"no such dataset: {path!r} in {filename!r} ({group!r} holds {_listed(sorted(names))})",
        advice=did_you_mean(close) or "Check the path",
        path=path,
        filename=filename,
        close_matches=close,
    )


def nothing_matches(
    filename: str, path: str, part: str, groups: list[str], names: list[str]
) -> MissingDatasetError:
    """Compose the error for a path with wildcards that names nothing; `names` are of one group."""
    where = repr(groups[0]) + (f" and {len(groups) - 1} others" if groups[1:] else "")
    close = close_matches(part, names)
    return MissingDatasetError(
        f"nothing matches {path!r} in {filename!r}: no {part!r} in {where} ({groups[0]!r} holds "
        f"{_listed(sorted(names))})",
        advice=did_you_mean(close) or "Check the path",
        path=path,
        filename=filename,
        close_matches=close,
    )


def nothing_left(filename: str, path: str, exclude: Sequence[str]) -> MissingDatasetError:
    """Compose the error for a path with wildcards of which everything is left out."""
    return MissingDatasetError(
        f"nothing is left of {path!r} in {filename!r}: exclude={list(exclude)!r} leaves out all",
        advice="Leave out less",
        path=path,
        filename=filename,
    )


def close_matches(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that are most like one that is missing."""
    import difflib

    return difflib.get_close_matches(name, names, 3, 0.5)


def did_you_mean(close: Iterable[str]) -> str:
    """Return the question that names them, or "" if there are none."""
    names = " or ".join(map(repr, close))
    return f"Did you mean {names}?" if names else ""


def leads_nowhere(
    filename: str, path: str, target: str, other: str = "", has_other: bool = True
) -> MissingDatasetError:
    """Compose the error for a link to what is not there, maybe in another file."""
    lacks = "which is not there" if has_other else "which does not exist"
    inside = f" in {other!r}" if other else ""
    return MissingDatasetError(
        f"{path!r} in {filename!r} is a link that leads nowhere: to {target!r}{inside}, {lacks}",
        advice="Put what it names there, or give the path of a dataset",
        path=path,
        filename=filename,
    )


def defined_elsewhere(filename: str, path: str, kind: int) -> MissingDatasetError:
    """Compose the error for a link of a kind that a program defined, and follows by itself."""
    return MissingDatasetError(
        f"{path!r} in {filename!r} is a link of type {kind}, which a program defined: only this "
        "program can follow it",
        advice="Give the path of what it leads to",
        path=path,
        filename=filename,
    )


def circle(filename: str, path: str) -> FileOpenError:
    """Compose the error for virtual datasets that show each other."""
    return FileOpenError(
        f"{path!r} in {filename!r} is a virtual dataset that shows another, and so on without an "
        f"end (expected at most {VIRTUAL_ON_VIRTUAL})",
        advice="Write the virtual datasets anew",
        path=path,
        filename=filename,
    )


def no_dataset(filename: str, path: str, children: list[str] | None) -> UnsupportedDatasetError:
    """Compose the error for a group with these children, or for a named type (None)."""
    kind, advice = "a named type", "Give the path of a dataset"
    if children is not None:
        kind = f"a group (it holds {_listed(sorted(children))})"
        advice = "Give the path of a dataset in it"
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} is {kind}, not a dataset",
        advice=advice,
        path=path,
        filename=filename,
    )


def lost_scale(filename: str, path: str, axis: int, why: str) -> MissingDatasetError:
    """Compose the error for a dimension scale that a dataset names and that is not there."""
    return MissingDatasetError(
        f"a dimension scale of axis {axis} of {path!r} in {filename!r} is missing: {why}",
        good="The dataset and its other scales are not affected",
        advice="Read it without this scale, or have its writer attach the scale again",
        path=path,
        filename=filename,
        axis=axis,
    )


def no_dims(filename: str, path: str, is_null: bool) -> UnsupportedDatasetError:
    """Compose the error for a dataset that has no rows to stream."""
    what = "has a null dataspace: no shape" if is_null else "is a scalar"
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} {what} (expected at least one dimension)",
        advice=f"Read it with multitables.open({filename!r})[{path!r}][()]",
        path=path,
        filename=filename,
    )


def not_fixed(
    filename: str, path: str, what: str, others: Sequence[tuple[str, int, object]] = ()
) -> UnsupportedDatasetError:
    """Compose the error for elements that have no size of their own; `others`: fields that have."""
    advice = f"Read it with multitables.open({filename!r})[{path!r}]"
    if others:
        name = others[0][0]
        advice += f", or another of its fields by name: field={name!r}, or Reader.get_dataset"
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} has elements without a fixed size: {what} "
        "(expected numbers, fixed-length strings or compounds of them)",
        advice=advice,
        path=path,
        filename=filename,
    )


def no_such_field(filename: str, path: str, field: str, names: list[str]) -> MissingFieldError:
    """Compose the error for a column that does not exist."""
    there = f"its fields: {_listed(names)}" if names else "its elements have no fields"
    advice = "Choose one of its fields" if names else "Leave field out"
    return MissingFieldError(
        f"no field {field!r} in {path!r} of {filename!r} ({there})",
        advice=did_you_mean(close_matches(field, names)) or advice,
        path=path,
        filename=filename,
        field=field,
        fields=names,
    )


def closed(filename: str) -> ClosedError:
    """Compose the error for a file that was closed."""
    return ClosedError(
        f"{filename!r} is closed",
        advice="Open it again with multitables.open",
        filename=filename,
    )


def no_memory(filename: str, path: str) -> SharedMemoryError:
    """Compose the error for a result that is larger than the available memory."""
    return SharedMemoryError(
        f"the selection of {path!r} in {filename!r} is larger than the available memory",
        advice="Read a part of it, or stream it",
        path=path,
        filename=filename,
    )


#: What the core raises of a file, and what the system raises; and of a type without a dtype.
FROM_CORE = (_core.Corrupt, _core.Unknown, _core.Forbidden, NoDtypeError, OSError, MemoryError)


def of_core(filename: str, path: str, error: Exception) -> MultitablesError:
    """Return the error that names the file and the object of which the core raised one."""
    match error:
        case MultitablesError():
            return error
        case _core.Corrupt():
            return corrupt(filename, path, error)
        case _core.Unknown():
            return unsupported("unknown", filename, path, error.args[0])
        case _core.Forbidden():
            return unsupported("forbidden", filename, path, error.args[0])
        case NoDtypeError():
            return unsupported("no_dtype", filename, path, error)
        case OSError(errno=errno.EBADF):  # it was closed meanwhile
            return closed(filename)
        case OSError():
            return cannot_open(filename, error)
        case MemoryError():
            return no_memory(filename, path)
    raise error


@contextlib.contextmanager
def named(filename: str, path: str) -> Iterator[None]:
    """Make what the core raises of a dataset an error that names it."""
    try:
        yield
    except FROM_CORE as error:
        raise of_core(filename, path, error) from None
