"""`multitables.open`, and the file that it gives.

Law
---
1. Opening reads the first structures of the file, and nothing else.
2. The root group is the file, as in h5py; of a version, it is the version's group.

This file must never read what is stored; groups and datasets do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from _multitables.index.files.name import one_file_named
from _multitables.index.opened.open_files import OpenFile, Place
from _multitables.options import FileOptions, check_any_version, checked
from _multitables.parent.open.dataset import Dataset
from _multitables.parent.open.group import Group
from _multitables.parent.open.handle import CLASSES, Handle
from _multitables.parent.open.objects import Datatype
from _multitables.parent.open.read_only import refused
from _multitables.remote.options import StorageOptions

if TYPE_CHECKING:
    from _multitables.index.versions.version import VersionKey
    from _multitables.parent.open.ids import FileId
    from _multitables.parent.streamer import Streamer


def open(  # noqa: A001 - as gzip.open and others are called
    filename: str | os.PathLike[str] | bytes,
    mode: str | None = "r",
    *,
    libver: object = None,
    track_order: object = None,
    n_threads: int | None = None,
    cache_bytes: int | None = None,
    trusted: bool = True,
    links: str | None = None,
    version: VersionKey | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> File:
    """Open an HDF5 file to read it, in place of ``h5py.File(filename)``.

    What it gives has the names and the meanings of h5py, read only. It may be used by any number of
    threads at once, pickled, and taken along by a fork. No HDF5 library reads the file in this
    process.

    Parameters
    ----------
    filename : str, path-like or bytes
        Name of the file; or of a manifest that `index_files` wrote: then a dataset has the rows of
        all its files, and groups, attributes and scalars are those of the first.
    mode : str
        ``"r"``: files are only read.
    libver, track_order : object
        As h5py takes them; both matter to what writes.
    n_threads : int, optional
        Threads that decode chunks, the caller's included. Default: the cores available.
    cache_bytes : int, optional
        Bytes of decoded chunks that are kept, 0 for none. Default: a 64th of the memory that is
        available, 64 to 256 MiB, by powers of two. Handles of a file with the same options share
        them.
    trusted : bool, optional
        Whether what the core does not know may be read through an HDF5 library, in a process of its
        own. Default True. Take False for a file that may be hostile.
    links : {"anywhere", "folder", "none"}, optional
        Which other files it may lead to; see `Streamer`. Default: ``"anywhere"`` if it is trusted,
        ``"folder"`` if not.
    version : str, int, datetime or numpy.datetime64, optional
        A version of the file, as in `Streamer.get_queue`: the root is its group, and all names and
        paths are as they are in this version.
    storage_options : mapping, optional
        Of an object in a store (``s3://``, ``gs://``, ``az://``, ``https://``): how the store is
        asked; see `Streamer`.

    Returns
    -------
    File
        The root group; a context manager.

    Raises
    ------
    OptionsError
        An option that cannot work.
    ReadOnlyError
        A mode that writes (an `OSError`, and a `ValueError`).
    MissingFileError, FileOpenError
        No such file; not an HDF5 file, truncated, open for writing, not allowed.
    CorruptFileError
        Its first structures are damaged.
    MissingVersionError
        No such version, or it was not committed.

    Examples
    --------
    >>> with multitables.open("run7.h5") as file:  # doctest: +SKIP
    ...     images = file["images"]
    ...     batch = images[128:256]
    ...     camera = images.attrs["camera"]
    """
    if mode not in ("r", None):
        raise refused(f"open(..., {mode!r})", repr(filename))
    storage = StorageOptions.of(storage_options)
    name, storage = one_file_named(filename, "open", storage, takes_manifest=version is None)
    options = checked(
        FileOptions,
        n_threads=n_threads,
        cache_bytes=cache_bytes,
        trusted=trusted,
        links=links,
        storage_options=storage,
    )
    handle = Handle(name, options, check_any_version("version", version))
    return File(handle, handle.main)


class File(Group):
    """An open HDF5 file, which is its root group. Made by `multitables.open`."""

    __slots__ = ()
    _as_h5py = "File"

    def __init__(self, handle: Handle, file: OpenFile) -> None:
        is_root = file is handle.root.file
        root = handle.root if is_root else Place(file, file.metadata.root, "/")
        super().__init__(handle, root, "/")

    @property
    def filename(self) -> str:
        """The name that the file was opened by."""
        self._handle.shared  # noqa: B018 - which is an error once the file is closed
        file, handle = self._place.file, self._handle
        return handle.filename if file is handle.main else file.filename

    def __fspath__(self) -> str:
        """Return its name, for functions that open it themselves."""
        return self.filename

    @property
    def id(self) -> FileId:
        """Which file it is, as h5py's low-level functions say it."""
        from _multitables.parent.open.ids import FileId

        return FileId(self)

    @property
    def mode(self) -> str:
        """``"r"``: it is only read."""
        return "r"

    @property
    def driver(self) -> str:
        """``"sec2"``: h5py's word for a file on a file system."""
        return "sec2"

    @property
    def libver(self) -> tuple[str, str]:
        """The versions of HDF5's format that are read: all."""
        return "earliest", "latest"

    def flush(self) -> None:
        """Do nothing, as nothing is written; for programs that call it."""

    @property
    def swmr_mode(self) -> bool:
        """False: what a writer adds later is not seen."""
        return False

    @property
    def userblock_size(self) -> int:
        """Bytes of the user block before the file's first structure."""
        self._handle.shared  # noqa: B018
        return self._place.file.metadata.user_block

    def streamer(self, **options: Any) -> Streamer:
        """Return a `Streamer` of the file, trusted as far as this; options are the streamer's.

        Of a version, its paths are those of the version.
        """
        from _multitables.parent.streamer import Streamer

        self._handle.shared  # noqa: B018
        if self._handle.inside:
            options["root_uep"] = self._handle.inside + options.get("root_uep", "/")
        options.setdefault("storage_options", self._handle.options.storage_options)
        options.setdefault("links", self._handle.options.links)
        file = self._place.file
        streamer = Streamer(file.opened_by, trusted=self._handle.trusted, **options)
        streamer._file.is_opened(file.fingerprint, self._handle.directory)
        return streamer

    def close(self) -> None:
        """Close the file and all that was reached through it. May be called again."""
        self._handle.close()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{os.path.basename(self.filename)}" (mode r)>'

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._handle.of(self._place.file),)


def _restored(handle: Handle) -> File:
    return File(handle, handle.main)


CLASSES.update(dataset=Dataset, group=Group, datatype=Datatype, file=File)
