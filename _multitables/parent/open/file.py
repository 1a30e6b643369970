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
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Protocol

from _multitables.errors import public
from _multitables.index.files.name import is_name, one_file_named
from _multitables.index.opened.open_files import OpenFile, Place
from _multitables.options import FileOptions, Links, check_any_version, checked
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


class SupportsFilename(Protocol):
    """A file that another library has open."""

    @property
    def filename(self) -> Any: ...
    @property
    def mode(self) -> Any: ...


@public
class File(Group):
    """An open HDF5 file, which is its root group, in place of ``h5py.File(filename)``.

    It has the names and the meanings of h5py, read only. It may be used by any number of threads at
    once, pickled, and taken along by a fork. No HDF5 library reads the file in this process.
    `multitables.open` is another name for it.

    Parameters
    ----------
    filename : str, path-like, bytes, file object or open file
        Name of the file, with ``~`` and as ``file://`` too, or the URL of an object in a store; or
        of a manifest that `index_files` wrote: then a dataset has the rows of all its files, and
        groups, attributes and scalars are those of the first. A file object is opened by the name
        of its file; if it has none (`io.BytesIO`, `fsspec`), its bytes are read into memory. A
        `h5py.File` or `tables.File` that is open to be read stands for its file.
    mode : str
        ``"r"``: files are only read.
    driver : str, optional
        As h5py takes it. The file is read in the same way with all of them, and drivers that read
        parts in several files are refused. ``"ros3"`` may come with its credentials
        (``aws_region``, ``secret_id``, ``secret_key``, ``session_token``).
    swmr : bool
        As h5py takes it, for a file that no writer has open any more. One that is being written is
        refused: `Streamer.get_queue` with ``follow=True`` reads it.
    locking : bool or str, optional
        False: the lock that HDF5's readers take is not taken, unless the environment variable
        ``HDF5_USE_FILE_LOCKING`` says so. Otherwise it is, where the file system has locks.
    n_threads : int, optional
        Threads that decode chunks, the caller's included. Default: the cores available.
    cache_bytes : int, optional
        Bytes of decoded chunks that are kept, 0 for none. Default: a 64th of the memory that is
        available, 64 to 256 MiB, by powers of two, and at least ``rdcc_nbytes``. Handles of a file
        with the same options share them.
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
    **options
        Other options of `h5py.File`, which change nothing here: ``libver``, ``rdcc_nslots``,
        ``page_buf_size``, ``fs_strategy``, ``track_order`` and the rest. Names that h5py does not
        take are refused.

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`), or an unknown one (a `TypeError`).
    ReadOnlyError
        A mode that writes (an `OSError`, and a `ValueError`).
    MissingFileError, FileOpenError
        No such file; not an HDF5 file, truncated, open for writing, not allowed.
    CorruptFileError
        Its first structures are damaged.
    MissingVersionError
        No such version, or it was not committed.
    SharedMemoryError
        A file object has more bytes than there is memory.

    Examples
    --------
    >>> with multitables.open("run7.h5") as file:  # doctest: +SKIP
    ...     images = file["images"]
    ...     batch = images[128:256]
    ...     camera = images.attrs["camera"]
    """

    __slots__ = ()
    _as_h5py = "File"

    def __init__(
        self,
        filename: str | os.PathLike[str] | bytes | IO[bytes] | SupportsFilename,
        mode: str | None = "r",
        driver: str | None = None,
        *,
        swmr: bool = False,
        locking: bool | str | None = None,
        n_threads: int | None = None,
        cache_bytes: int | None = None,
        trusted: bool = True,
        links: Links | None = None,
        version: VersionKey | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        given: Any = filename
        taken, held = None, None
        if options or not (mode in ("r", None) and driver is locking is None):
            from _multitables.parent.open.h5py_options import taken as taken_of  # few need it

            taken = taken_of(mode, driver, locking, options, File.__init__.__kwdefaults__ or ())
            given = options.get("fileobj", filename)
        if mode not in ("r", None):
            raise refused(f"open(..., {mode!r})", repr(filename))
        if driver is not None or not is_name(given):
            from _multitables.parent.open.file_objects import named  # few are

            given, held = named(given, driver)
        storage = StorageOptions.of(storage_options or (taken and taken.storage_options))
        name, storage = one_file_named(given, "open", storage, takes_manifest=version is None)
        wanted = checked(
            FileOptions,
            n_threads=n_threads,
            cache_bytes=cache_bytes,
            locks=taken is None or taken.locks,
            trusted=trusted,
            links=links,
            storage_options=storage,
        )
        if taken and cache_bytes is None:
            wanted = replace(wanted, cache_bytes=max(taken.cache_bytes, wanted.cache_bytes))
        handle = Handle(name, wanted, check_any_version("version", version), held=held)
        self._take(handle, handle.main)

    def _take(self, handle: Handle, file: OpenFile) -> None:
        is_root = file is handle.root.file
        root = handle.root if is_root else Place(file, file.metadata.root, "/")
        super().__init__(handle, root, "/")

    @classmethod
    def _of(cls, handle: Handle, file: OpenFile) -> File:
        """Return a file that is open already."""
        made = cls.__new__(cls)
        made._take(handle, file)
        return made

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
        streamer._file.is_opened(file.fingerprint, self._handle.directory, self._handle.held)
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
    return File._of(handle, handle.main)


open = File  # noqa: A001 - as gzip.open and others are called
CLASSES.update(dataset=Dataset, group=Group, datatype=Datatype, file=File._of)
