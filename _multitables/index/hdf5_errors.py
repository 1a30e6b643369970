"""What HDF5 says of a file or dataset that does not open, as one of our exceptions.

Law
---
1. One function for each thing that can be wrong. Only `SAYINGS` matches texts of the library, and
   a text that it does not know is passed on.
2. Names what there is instead: the group's children, the dataset's fields, close matches.
3. A link that leads nowhere is a missing dataset; a link to what does not open is damage.

This file must never decide what is wrong. It opens only the files that links name, for rule 3.
"""

from __future__ import annotations

import difflib
import errno
import os
import posixpath
import re
from collections.abc import Iterable
from typing import Any

from _multitables import _core
from _multitables.errors import (
    CorruptFileError,
    FileOpenError,
    MissingDatasetError,
    MissingFieldError,
    MissingFileError,
    MultitablesError,
    UnsupportedDatasetError,
)

NAMES_SHOWN = 20
LINKS_FOLLOWED = 16  # as HDF5 does

#: What h5py raises of a damaged file, depending on which bytes are damaged.
RAISED = (
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    SystemError,
    MemoryError,
)

_CLOSE_WRITER = "Close it there (or wait), then stream it"
#: A part of the library's text -> what happened, what to do.
SAYINGS = {
    "unable to lock file": (
        "is open for writing: in another process, or by another HDF5 library in this one",
        _CLOSE_WRITER,
    ),
    "already open for write": (
        "is open for writing elsewhere, or its writer was killed",
        f"{_CLOSE_WRITER}; if the writer is gone: h5clear -s FILE",
    ),
    "truncated file": ("is truncated", "Copy the file again from its source or from a backup"),
    "multi driver should be used": (
        "is one part of several, which HDF5's split or multi driver wrote",
        (
            "Open a split file (NAME-m.h5, NAME-r.h5) with Streamer('NAME', DRIVER='H5FD_SPLIT'); "
            "make one file of a multi file with h5repack"
        ),
    ),
    "file signature not found": (
        "is not an HDF5 file (expected HDF5's signature, got other bytes)",
        "Check the name; h5dump -H FILE shows what an HDF5 file holds",
    ),
}


def _text(error: BaseException) -> str:
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(said.split()) or type(error).__name__


def cannot_open(filename: str, error: BaseException) -> MultitablesError:
    """Compose the error for a file that does not open."""
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        folder = os.path.dirname(filename)
        where = "" if os.path.isdir(folder) else f" (there is no folder {folder!r} either)"
        return MissingFileError(
            f"no such file: {filename!r}{where}",
            advice="Check the name and the working directory",
            filename=filename,
        )
    said = _text(error)
    for part, (happened, advice) in SAYINGS.items():
        if part in said:
            return FileOpenError(
                f"{filename!r} {happened}{_sizes(said)}",
                advice=advice.replace("FILE", repr(filename)),
                filename=filename,
            )
    if number == errno.EISDIR or os.path.isdir(filename):
        return no_file(filename)
    if number is not None:
        reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
        advice = "Check the file's permissions and its file system"
    else:
        reason, advice = said, "Its structure is damaged: copy the file again from its source"
    return FileOpenError(
        f"{filename!r} cannot be opened: {reason}", advice=advice, filename=filename
    )


def _sizes(said: str) -> str:
    """Tell the sizes in ``truncated file: eof = 9, sblock->base_addr = 0, stored_eof = 12``."""
    found = re.search(r"\beof = (\d+).*\bstored_eof = (\d+)", said)
    return f" (expected {found[2]} bytes, got {found[1]})" if found else ""


def no_file(filename: str) -> FileOpenError:
    """Compose the error for a folder, a device or a pipe."""
    kind = "a folder" if os.path.isdir(filename) else "not a regular file"
    return FileOpenError(
        f"{filename!r} is {kind} (expected an HDF5 file)",
        advice="Give the name of one HDF5 file",
        filename=filename,
    )


def written_here(filename: str) -> FileOpenError:
    """Compose the error for a file that this process has open for writing."""
    return FileOpenError(
        f"{filename!r} is open for writing in this process: what is written may not be in the "
        "file yet",
        advice="Close it, then stream it",
        filename=filename,
    )


def damaged(filename: str, path: str, error: BaseException) -> FileOpenError:
    """Compose the error for a dataset that HDF5 fails to describe."""
    return FileOpenError(
        f"{path!r} in {filename!r} cannot be indexed: {_text(error)}",
        advice="Its structure is damaged: copy the file again from its source or from a backup",
        filename=filename,
        path=path,
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


def unknown(filename: str, path: str, error: _core.Unknown) -> UnsupportedDatasetError:
    """Compose the error for a structure that the core does not know."""
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} is stored in a way that the core does not know: {error.args[0]}",
        advice="Read it with h5py, and report it with multitables.build_info()",
        path=path,
        filename=filename,
    )


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    more = f", and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return ", ".join(shown[:NAMES_SHOWN]) + more or "nothing"


def no_such_path(file: Any, filename: str, path: str, error: BaseException) -> MultitablesError:
    """Compose the error for a path that leads nowhere, and say where it ends."""
    import h5py

    place: Any = file
    parts = path.strip("/").split("/")
    for depth, part in enumerate(parts):
        try:
            inside = place[part]
        except RAISED:
            break
        if not isinstance(inside, h5py.Group):
            if depth + 1 < len(parts):
                return MissingDatasetError(
                    f"{path!r} is not in {filename!r}: {inside.name!r} is a dataset, not a group",
                    advice="Columns of a table are chosen with field=",
                    path=path,
                    filename=filename,
                )
            break
        place = inside
    else:
        return damaged(filename, path, error)
    children = list(place)
    if part in children:
        return _does_not_open(place, part, filename, path, error)
    where = place.name.rstrip("/")
    close = [f"{where}/{name}" for name in difflib.get_close_matches(part, children, 3, 0.5)]
    return MissingDatasetError(
        f"no such dataset: {path!r} in {filename!r} ({place.name!r} holds {_listed(children)})",
        advice=_did_you_mean(close) or "Check the path",
        path=path,
        filename=filename,
        close_matches=close,
    )


def _did_you_mean(close: Iterable[str]) -> str:
    names = " or ".join(map(repr, close))
    return f"Did you mean {names}?" if names else ""


def _does_not_open(
    place: Any, part: str, filename: str, path: str, error: BaseException
) -> MultitablesError:
    """Compose the error for a name that is in its group: a link to nothing, or damage."""
    import h5py

    file, name = place.file, posixpath.join(place.name, part)
    target = ""
    for _ in range(LINKS_FOLLOWED):
        link = file.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            return _behind_external(link, file.filename, filename, path, error)
        if isinstance(link, h5py.SoftLink):
            name = posixpath.join(posixpath.dirname(name), link.path)
            target = f"{name!r}, which is not there"
        elif link is None:
            break
        else:
            return damaged(filename, path, error)
    return _leads_nowhere(filename, path, target)


def _behind_external(
    link: Any, home: str, filename: str, path: str, error: BaseException
) -> MultitablesError:
    import h5py

    named = os.fsdecode(link.filename)
    places = (os.path.join(os.path.dirname(home), named), named)  # where HDF5 looks for it
    found = next((os.path.abspath(place) for place in places if os.path.isfile(place)), None)
    if found is None:
        return _leads_nowhere(filename, path, f"{link.path!r} in {named!r}, which does not exist")
    try:
        with h5py.File(found, "r") as file:
            if link.path in file:
                return damaged(found, link.path, error)
    except RAISED as reason:
        return cannot_open(found, reason)
    return _leads_nowhere(filename, path, f"{link.path!r} in {found!r}, which is not there")


def _leads_nowhere(filename: str, path: str, target: str) -> MissingDatasetError:
    return MissingDatasetError(
        f"{path!r} in {filename!r} is a link that leads nowhere: to {target}",
        advice="Put what it names there, or give the path of a dataset",
        path=path,
        filename=filename,
    )


def no_dataset(found: Any, filename: str, path: str) -> UnsupportedDatasetError:
    """Compose the error for a group or a named type."""
    import h5py

    if isinstance(found, h5py.h5g.GroupID):
        children = _listed(h5py.Group(found))
        kind, advice = f"a group (it holds {children})", "Give the path of a dataset in it"
    else:
        kind, advice = "a named type", "Give the path of a dataset"
    return UnsupportedDatasetError(
        f"{path!r} in {filename!r} is {kind}, not a dataset",
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
        advice=_did_you_mean(difflib.get_close_matches(field, names, 3, 0.5)) or advice,
        path=path,
        filename=filename,
        field=field,
        fields=names,
    )
