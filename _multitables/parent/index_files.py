"""The public face of manifests: one saved index of many files.

Law
---
1. Only files that changed since a manifest was written are read again for the next one.
2. A manifest takes the place of another when it is whole.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from _multitables.errors import (
    CorruptFileError,
    FileOpenError,
    MissingFileError,
    MissingFileWarning,
    MultitablesError,
    OptionsError,
    public,
)
from _multitables.index.files.name import Filename
from _multitables.index.files.names import files_named, whole_names
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.files.progress import shown
from _multitables.index.files.stored_files import fingerprint_of
from _multitables.index.files.stored_objects import concurrently
from _multitables.index.joined.manifest import Manifest
from _multitables.index.joined.source import is_missing
from _multitables.index.kerchunk.layout import is_references
from _multitables.index.opened.open_files import OpenFile, open_file
from _multitables.index.saved.format import replaced
from _multitables.index.saved.places import SUFFIX, is_manifest
from _multitables.index.written.saved_index import save_all
from _multitables.remote.names import absolute, is_remote
from _multitables.remote.options import StorageOptions

#: Objects of a store that are opened at a time.
AT_A_TIME = 64


@public
def index_files(
    filenames: Filename | Iterable[Filename],
    to: str | os.PathLike[str],
    *,
    skip_missing: bool = False,
    progress: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Save one index of many HDF5 files, a manifest, by which they are opened as one at once.

    A manifest stands for the list of its files, in their order: `Streamer` and `open` take its
    name. It holds what `index_file` saves of each file, so none is opened before its data is read.
    Then each has to be the file that was indexed, by its size, time of modification and inode, or
    by its ETag in a store; it is a `FileChangedError` if it is not.

    Called again with the same `to`, it reads only files that are new or have changed, and drops
    those that are not named any more.

    Parameters
    ----------
    filenames : str, bytes, path-like, or a list of these
        Names of files, objects of stores, and patterns of them, as `Streamer` takes them.
    to : str or path-like
        Name of the manifest, which ends with ``.mtidx``. It is replaced when the new one is whole.
    skip_missing : bool
        Whether to leave out, with a warning, the files that do not exist or are no intact HDF5
        files. Default: False, which raises an error.
    progress : bool
        Whether to show on standard error how many files are indexed. Default: True.
    storage_options : mapping, optional
        Of objects in a store; see `Streamer`. They are not saved: give them where the manifest is
        opened, too.

    Returns
    -------
    str
        The name of the manifest.

    Raises
    ------
    MissingFileError, FileOpenError, CorruptFileError
        A file cannot be opened, or the manifest cannot be written.
    FileChangedError
        A file changed while it was indexed. Nothing was written.
    OptionsError
        `to` is no such name, or a file is no HDF5 file but a list of others.

    Examples
    --------
    >>> multitables.index_files("runs/*.h5", to="runs.mtidx")  # doctest: +SKIP
    >>> streamer = multitables.Streamer("runs.mtidx")  # doctest: +SKIP
    """
    where = os.fspath(to)
    if not is_manifest(where):
        raise OptionsError(
            f"to must be a name on this machine that ends with {SUFFIX}, got {to!r}",
            advice="Write it to a file here, and read objects of a store through it",
            to=to,
        )
    named, storage = files_named(filenames, StorageOptions.of(storage_options))
    names = whole_names(named)
    for name in names:
        if is_references(name) or is_manifest(name):
            raise OptionsError(
                f"filenames must be HDF5 files, got a list of others: {name!r}",
                advice="Give the files that it is of",
                filename=name,
            )
    options = OpenOptions(storage=storage)
    opened = _opener(_known(absolute(where), options), options)
    missing: dict[str, MultitablesError] = {}
    with shown(progress, where, " files", len(names)) as advance:
        files = _files(names, opened, missing if skip_missing else None, advance)
        _write(where, files)
    for name, error in missing.items():
        warnings.warn(
            MissingFileWarning(
                f"{name!r} is left out: {error.happened}",
                good=f"{len(names) - len(missing)} files are in {where!r}",
                filename=name,
            ),
            stacklevel=2,
        )
    return where


def _write(where: str, files: Iterator[OpenFile]) -> None:
    try:
        with replaced(where) as out:
            save_all(files, out)
    except OSError as error:
        if isinstance(error, MultitablesError):
            raise
        raise FileOpenError(
            f"the manifest {where!r} cannot be written: {error.strerror}",
            advice="Give the name of a file in a folder where you may write",
            filename=where,
        ) from None


def _known(where: str, options: OpenOptions) -> Manifest | None:
    """Return the manifest that is to be replaced, if there is one that can be read."""
    try:
        return Manifest(where, options)
    except (MissingFileError, CorruptFileError):
        return None


def _opener(known: Manifest | None, options: OpenOptions) -> Callable[[str], OpenFile]:
    """Return what opens a file: it is read if it is not known, or has changed."""
    numbers = {} if known is None else {n: i for i, n in enumerate(known.files.filenames)}

    def opened(name: str) -> OpenFile:
        if known is None or name not in numbers:
            return open_file(name, options)
        before = known.open_file(numbers[name])
        try:
            is_same = fingerprint_of(name, options.storage) == before.fingerprint
        except OSError:
            is_same = False  # what opens it says what is wrong
        return before if is_same else open_file(name, options)

    return opened


def _files(
    names: Sequence[str],
    opened: Callable[[str], OpenFile],
    missing: dict[str, MultitablesError] | None,
    advance: Callable[[int], Any],
) -> Iterator[OpenFile]:
    """Yield the files, of objects some at a time; those that cannot be opened are `missing`."""

    def attempt(name: str) -> OpenFile | MultitablesError:
        try:
            return opened(name)
        except MultitablesError as error:
            return error

    has_objects, n_files, last = any(map(is_remote, names)), 0, None
    step = AT_A_TIME if has_objects else 1
    for begin in range(0, len(names), step):
        some = names[begin : begin + step]
        found = concurrently(attempt, some) if has_objects else map(attempt, some)
        for name, file in zip(some, found, strict=True):
            if isinstance(file, OpenFile):
                n_files += 1
                yield file
            elif missing is None or not is_missing(file):
                raise file
            else:
                missing[name] = last = file
            advance(1)
    if not n_files and last is not None:
        raise last
