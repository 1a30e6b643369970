"""The public face of saved indexes.

Law
---
1. Beside the file, or in the user's cache directory where that cannot be: a file that is only read
   needs no folder that can be written.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from _multitables import _core
from _multitables.errors import (
    FileOpenError,
    OptionsError,
    SavedIndexWarning,
    StoreError,
    UnsupportedDatasetError,
    public,
)
from _multitables.index.files.name import one_file_named
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.files.progress import shown
from _multitables.index.files.stored_objects import put
from _multitables.index.kerchunk.layout import JSON, PARQUET, is_references
from _multitables.index.opened.open_files import OpenFile, open_file
from _multitables.index.saved.format import replaced
from _multitables.index.saved.places import places
from _multitables.index.types.hdf5_errors import cannot_open
from _multitables.index.written.references import replaced_folder, write_json, write_parquet
from _multitables.index.written.saved_index import save
from _multitables.index.written.zarr_nodes import Node, nodes
from _multitables.remote.names import absolute, is_remote, kind_of
from _multitables.remote.options import StorageOptions

CACHE = "cache"


@public
def index_file(
    filename: str | os.PathLike[str] | bytes,
    to: str | os.PathLike[str] | None = None,
    *,
    skip_unsupported: bool = False,
    progress: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Save the index of all datasets of an HDF5 file, so that they are listed faster from then on.

    The index holds what groups link to, and of each dataset its shape, type, attributes and filters
    and where its chunks are. `open`, `Streamer` and `Reader` use it without being asked, while the
    file's size, time of modification and inode are what they were then.

    With the name of a JSON file or a Parquet folder, references of Kerchunk are written in its
    place, with which Zarr reads the file. They can be opened here as if they were the file.

    Parameters
    ----------
    filename : str, bytes or path-like
        The file. Files that its external links name have indexes of their own.
    to : str or path-like, optional
        None (the default): beside the file, as ``FILE.mtidx``; where nothing can be written there,
        as for ``"cache"``. ``"cache"``: in the user's cache directory, which is
        ``$XDG_CACHE_HOME/multitables`` or ``~/.cache/multitables``. A name that ends with
        ``.json``, ``.parq`` or ``.parquet``: there, as references of Kerchunk. JSON may be an
        object of a store that takes objects.
    skip_unsupported : bool
        Whether to leave out of the references, with a warning, the datasets that Zarr cannot read:
        virtual ones, those of variable-length elements, and those with filters that numcodecs does
        not have, such as lz4 and lzf. Default: False, which raises an error.
    progress : bool
        Whether to show on standard error how many objects are indexed. Default: True.
    storage_options : mapping, optional
        Of objects in a store; see `Streamer`. The index of one is in the user's cache directory,
        and beside the object where that may be written.

    Returns
    -------
    str
        The name of what was written.

    Raises
    ------
    MissingFileError, FileOpenError, CorruptFileError
        The file cannot be opened, or the index cannot be written.
    FileChangedError
        The file changed while it was indexed. Nothing was written.
    UnsupportedDatasetError
        Zarr cannot read a dataset.
    MissingLibraryError
        Parquet is asked for, and pyarrow is not installed.
    OptionsError
        `to` is something else.
    """
    storage = StorageOptions.of(storage_options)
    name, storage = one_file_named(filename, "index_file", storage)
    name = absolute(name)
    where = None if to is None else os.fspath(to)
    storage = replace(storage, owners=None).given_for([name, where or ""])
    if is_references(name):
        raise OptionsError(
            f"filename must be an HDF5 file, got references of Kerchunk: {name!r}",
            advice="Give the file that they are of",
            filename=name,
        )
    is_kerchunk = where is not None and is_references(where)
    in_store = where is not None and is_remote(where)
    if in_store and (not str(where).endswith(JSON) or kind_of(str(where)) == "http"):
        raise OptionsError(
            "to must be a name that ends with .json where it is an object's, and not an HTTP "
            f"server's, got {to!r}",
            advice="Write to a file or a folder of this machine, and upload it",
            to=to,
        )
    if where not in (None, CACHE) and not is_kerchunk:
        raise OptionsError(
            f"to must be None, {CACHE!r} or a name that ends with {', '.join(JSON + PARQUET)}, "
            f"got {to!r}",
            to=to,
        )
    file = open_file(name, OpenOptions(storage=storage), uses_index=is_kerchunk)
    with _names_failures(name), shown(progress, name, " objects") as advance:
        if where is not None and is_kerchunk:
            if not in_store:
                return _write_references(file, where, skip_unsupported, advance)
            with tempfile.TemporaryDirectory(prefix="multitables-") as folder:
                local = os.path.join(folder, f"refs{JSON[0]}")
                put(where, storage, _write_references(file, local, skip_unsupported, advance))
            return where
        beside, cached = places(name)
        in_cache_alone = where == CACHE or is_remote(name)
        with _first_writable("" if in_cache_alone else beside, cached) as (written, out):
            save(file, out, advance)
    if is_remote(name) and where is None:
        with contextlib.suppress(StoreError):  # a right to read is no right to write
            put(beside, storage, written)
            return beside
    return written


@contextlib.contextmanager
def _names_failures(name: str) -> Iterator[None]:
    """Turn the core's errors about a store into errors that name the object."""
    try:
        yield
    except _core.StoreFailed as error:
        raise cannot_open(name, error) from None


def _write_references(
    file: OpenFile, where: str, skip_unsupported: bool, advance: Callable[[int], Any]
) -> str:
    def refused(path: str, reason: str) -> None:
        happened = f"Zarr cannot read '/{path}' in {file.filename!r}: {reason}"
        if not skip_unsupported:
            raise UnsupportedDatasetError(
                happened,
                advice="Give skip_unsupported=True to leave such datasets out",
                path=f"/{path}",
                filename=file.filename,
            )
        warnings.warn(SavedIndexWarning(happened, good="It is left out"), stacklevel=5)

    def told() -> Iterator[Node]:
        for node in nodes(file, refused):
            advance(1)
            yield node
        file.check_unchanged()

    if where.endswith(JSON):
        with replaced(where) as out:
            write_json(file.filename, told(), out)
    else:
        with replaced_folder(where) as folder:
            write_parquet(file.filename, told(), folder)
    return where


@contextlib.contextmanager
def _first_writable(beside: str, cached: str) -> Iterator[tuple[str, BinaryIO]]:
    """Open a new file of the first name that can be written; it has the name in the end."""
    reasons = []
    with contextlib.ExitStack() as stack:
        for name in filter(None, (beside, cached)):
            try:
                out = stack.enter_context(replaced(name, private=name == cached))
            except OSError as error:
                reasons.append(f"{name!r}: {error.strerror}")
            else:
                yield name, out
                return
    raise FileOpenError(
        f"the index cannot be written anywhere: {'; '.join(reasons)}",
        advice="Set XDG_CACHE_HOME to a folder of yours that no other user may write",
        filename=cached,
    )
