"""What all objects of one `multitables.open` share, and what all of one file in a process share.

Law
---
1. `Shared` is made once for a file (as its fingerprint tells) and its options, and lives as long as
   a handle does: handles share the open files, the threads and the cache of decoded chunks. What it
   had is kept for some seconds (closed.py).
2. A `Handle` is one `open`. Closing it closes what was reached through it, and nothing else.
3. No lock is held, so a fork finds none held: threads that open a file at the same moment may share
   less. Children share what they decode (siblings.py).
4. A handle is pickled as the file's name, its fingerprint, the options and the version. A file that
   has another fingerprint where it is unpickled is a `FileChangedError`.
5. The root is that of the file, or the group of a version of it. Names are paths from the root,
   places have the paths in the file.

This file must never know what groups or datasets are: it is told their classes.
"""

from __future__ import annotations

import os
import posixpath
import sys
import weakref
from typing import TYPE_CHECKING, Any, cast

from _multitables import _core
from _multitables.errors import FileChangedError
from _multitables.index.chunk_index import Fingerprint
from _multitables.index.datasets.source import Source
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.opened.open_files import UNKNOWN, OpenFile, OpenFiles, Place, takes_locks
from _multitables.index.saved.places import is_manifest
from _multitables.index.types import hdf5_errors
from _multitables.options import CheckedVersion, FileOptions
from _multitables.parent.open import closed
from _multitables.parent.open.reading import Contents
from _multitables.parent.readers.siblings import Siblings
from _multitables.remote.names import absolute

if TYPE_CHECKING:
    from _multitables.index.metadata import Leading
    from _multitables.parent.open.library import Library

CACHED = _core.COUNTERS.index("cache_bytes")
_shared: weakref.WeakValueDictionary[Any, Shared] = weakref.WeakValueDictionary()
#: Class by what an object is: "group", "dataset", "datatype"; "file" of a file's root.
CLASSES: dict[str, Any] = {}


class Shared:
    """An open file, those that its links name, and who reads them."""

    def __init__(
        self,
        keys: tuple[Any, Any],
        state: closed.State,
        files: OpenFiles,
        options: FileOptions,
        source: Source | None = None,
    ) -> None:
        #: Where it is found after the last handle was closed, and before.
        self.keys = keys
        #: What it must be to be taken again.
        self.state = state
        self.files = files
        self.options = options
        #: Indexes datasets.
        self.source = source or Source(files.main.filename, open_options(options), files)
        #: File and offset of a dataset -> what reads it.
        self.contents: dict[tuple[str, int | str], Contents] = {}
        #: It holds the bytes of a file object.
        self.held: _core.Descriptor | None = None
        self._reader: _core.LocalReader | None = None
        self._library: Library | None = None

    def __del__(self) -> None:
        if "files" in self.__dict__ and not self._is_parked():  # an interrupt may have come before
            self.files.forget()  # though objects of the closed handles may still be there

    def _is_parked(self) -> bool:
        if sys.is_finalizing() or "_library" not in self.__dict__ or self.held is not None:
            return False
        if not takes_locks(self.options.locks):
            return False
        if any(contents.is_elsewhere for contents in self.contents.values()):
            return False
        cached = self._reader.counters()[CACHED] if self._reader else 0
        parts = {**self.__dict__, "_library": None}
        return closed.park(self.keys[0], self.state, self.files, cached, parts)

    @property
    def is_as_opened(self) -> bool:
        """Whether the name leads to the open file, and the file is unchanged."""
        main = self.files.main
        is_mine = type(main.metadata) is _core.MetadataFile and self.keys[1][-1] == os.getpid()
        is_locked = is_mine and takes_locks(self.options.locks) and self.state != ()
        return is_locked and closed.state_of(main.filename) == self.state

    @property
    def reader(self) -> _core.LocalReader:
        """The threads that read, and the cache; made when they are needed first."""
        found = self._reader
        if found is None:
            from _multitables.parent.readers.local_rows import local_reader

            found = local_reader(self.options.n_threads, self.options.cache_bytes)
            self._reader = found
        return found

    @property
    def library(self) -> Library:
        """Reads what the core does not; few files need it."""
        found = self._library
        if found is None:
            from _multitables.parent.open.library import Library

            found = Library(self.files.main.filename, self.options.trusted)
            self._library = found
        return found


def open_options(options: FileOptions, directory: str = "") -> OpenOptions:
    """Return how a file is opened."""
    return OpenOptions(
        trusted=options.trusted,
        links=options.links,
        locks=options.locks,
        storage=options.storage_options,
        directory=directory,
    )


def shared(filename: str, options: FileOptions, directory: str) -> Shared:
    """Open a file, or find it open already with these options."""
    kept = filename, options, directory
    found = _shared.get(filename)
    if found is not None and found.keys[0] == kept and found.is_as_opened:
        return found
    parts = closed.take(kept, filename)
    if parts is not None:
        again = Shared.__new__(Shared)
        again.__dict__.update(parts)
        _shared[again.keys[1]] = again
        return again
    state = closed.state_of(filename)  # before anything is read
    wanted, source = open_options(options, directory), None
    if is_manifest(filename):
        from _multitables.index.joined.manifest_source import open_manifest  # few need it

        source = open_manifest(filename, wanted)
    files = source.files if source else OpenFiles(filename, wanted)
    opened_by = files.main.fingerprint
    if files.main.opened_by != files.main.filename:  # references and manifests change, too
        opened_by = cast("Leading", files.main.metadata).fingerprint
    key = filename, files.main.fingerprint, opened_by, options, os.getpid()
    found = _shared.get(key)
    if found is None:
        _shared[key] = found = Shared((kept, key), state, files, options, source)
    _shared[filename] = found
    return found


class Handle:
    """One `open`, until it is closed."""

    __slots__ = (
        "__weakref__", "_shared", "contents", "directory", "filename", "main", "options", "root",
    )  # fmt: skip

    def __init__(
        self,
        filename: str,
        options: FileOptions,
        version: CheckedVersion | None = None,
        directory: str = "",
        held: _core.Descriptor | None = None,
    ) -> None:
        #: As the user gave it.
        self.filename = filename
        self.options = options
        #: Where names in references count from.
        self.directory = directory or absolute("")
        self._shared: Shared | None = shared(absolute(filename), options, self.directory)
        if held is not None:
            self._shared.held = held
        self.main: OpenFile = self._shared.files.main
        self.root: Place = self._shared.files.root
        if version is not None:
            from _multitables.index.versions.sources import of_version

            self.root = of_version(self._shared.source, version).find("/")
        #: What reads datasets, as long as the handle is open.
        self.contents = self._shared.contents

    @property
    def shared(self) -> Shared:
        """What handles of this file share.

        Raises
        ------
        ClosedError
            The handle is closed.
        """
        found = self._shared
        if found is None:
            raise hdf5_errors.closed(self.filename)
        return found

    @property
    def files(self) -> OpenFiles:
        """The open file, and those that its links name."""
        return self.shared.files

    @property
    def reader(self) -> _core.LocalReader:
        """The threads that read, and their cache of decoded chunks."""
        return self.shared.reader

    @property
    def trusted(self) -> bool:
        """Whether an HDF5 library, in a process of its own, may read what the core does not."""
        return self.options.trusted

    @property
    def held(self) -> _core.Descriptor | None:
        """The holder of the bytes of a file object, needed as long as the file is read."""
        return self.shared.held

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._shared is not None

    @property
    def inside(self) -> str:
        """The path of the root in its file, or "" if it is the file's."""
        return self.root.path.rstrip("/")

    def place(self, file: OpenFile, offset: int, name: str) -> Place:
        """Return the place of an object that has a name here."""
        return Place(file, offset, self.inside + name if name and file is self.main else name)

    def name(self, place: Place) -> str:
        """Return the name here of what is at a place."""
        is_inside = place.file is self.main and f"{place.path}/".startswith(f"{self.inside}/")
        return (place.path.removeprefix(self.inside) or "/") if is_inside else place.path

    def close(self) -> None:
        """Close what was reached through this handle."""
        self._shared, self.contents = None, {}

    def object(self, place: Place, name: str | bytes | None, kind: str = "") -> Any:
        """Return the object at a place: a group, a dataset or a named type.

        Where the core does not know the way, it is a dataset, or libhdf5 says what it is.

        Raises
        ------
        TypeError
            It is something else.
        """
        if place.offset == UNKNOWN:
            kind = "dataset"
        kind = kind or place.ask("kind")
        if kind not in CLASSES:
            raise TypeError("Unknown object type")
        return CLASSES[kind](self, place, name)

    def file(self, of: OpenFile) -> Any:
        """Return the `File` of a file: its root."""
        return CLASSES["file"](self, of)

    def of(self, file: OpenFile) -> Handle:
        """Return a handle whose main file is this one."""
        if file is self.main:
            return self
        return Handle(file.opened_by, self.options, directory=self.directory)

    def __reduce__(self) -> tuple[Any, ...]:
        version = posixpath.basename(self.inside) or None
        main = self.main
        return _reopened, (
            main.opened_by, main.fingerprint, self.options, version, self.directory, Siblings(),
        )  # fmt: skip


def _reopened(
    filename: str,
    fingerprint: Fingerprint,
    options: FileOptions,
    version: str | None,
    directory: str,
    _siblings: Siblings | None = None,
) -> Handle:
    handle = Handle(filename, options, None, directory)
    if handle.main.fingerprint != fingerprint:
        raise FileChangedError(
            f"{filename!r} is not the file that it was when it was pickled "
            f"(expected {fingerprint}, got {handle.main.fingerprint})",
            advice="Open it again with multitables.open",
            filename=filename,
            expected=fingerprint,
            got=handle.main.fingerprint,
        )
    return Handle(filename, options, version, directory) if version else handle
