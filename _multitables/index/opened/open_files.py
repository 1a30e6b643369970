"""HDF5 files that are open to be indexed, and the objects that paths lead to.

Law
---
1. The core reads the files: no HDF5 library opens one in this process. A file that is open for
   writing, truncated or a part of several is refused, as HDF5 refuses it.
2. A path is followed through soft links by the core, and through external links here: where HDF5
   looks for the other file, as far as `reach` lets it.
3. Each file is opened once, and holds the lock of HDF5's readers as long as it is open. One that
   grows is opened without, in whatever state its writer has it.
4. A file stays the one that was opened, also after it lost its name.

This file must never know datasets: what an object is, others ask.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from _multitables import _core
from _multitables.errors import FileChangedError, MultitablesError
from _multitables.index.chunk_index import Fingerprint
from _multitables.index.chunk_index import changed as changed_fields
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.files.reach import Reach
from _multitables.index.files.stored_files import (
    NO_OPTIONS,
    current_name,
    fingerprint_of,
    is_file,
    opening_name,
    written_here,
)
from _multitables.index.kerchunk.layout import is_references
from _multitables.index.saved.places import with_saved_index
from _multitables.index.types import hdf5_errors
from _multitables.remote.names import absolute, folder_of, is_remote
from _multitables.remote.names import joined as in_folder
from _multitables.remote.options import StorageOptions

if TYPE_CHECKING:
    from _multitables.index.metadata import Metadata

UNKNOWN = -1
UNKNOWN_WAY = "a group on the way to it is stored as the core does not know"
#: Headers of this many objects are fetched from a store at a time.
PREFETCHED = 256
PLAIN = OpenOptions()
LINKS_FOLLOWED = 16  # as HDF5 does
LOCKING = {"FALSE": False, "0": False, "TRUE": True, "1": True, "BEST_EFFORT": True}
ORIGIN = "${ORIGIN}"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class OpenFile:
    """One file."""

    filename: str
    fingerprint: Fingerprint
    metadata: Metadata
    #: The name that opens it like this: its own, or that of the references to it.
    opened_by: str

    def check_unchanged(self) -> None:
        """Raise `FileChangedError` if the file is not the one that was opened."""
        access = self.fingerprint.access
        opened = opening_name(self.filename, self.fingerprint)
        got = _fingerprint(opened, access.options if access else NO_OPTIONS)
        if got != self.fingerprint:
            raise self._changed("while it was read", self.fingerprint, got)

    def check_is(self, before: Fingerprint) -> None:
        """Raise `FileChangedError` if the file is not the one that was opened before."""
        if self.fingerprint != before:
            raise self._changed("after it was opened", before, self.fingerprint)

    def _changed(self, when: str, expected: Fingerprint, got: Fingerprint) -> FileChangedError:
        return FileChangedError(
            f"{self.filename!r} changed {when} (expected {expected}, got {got})",
            advice="Open it again when it is complete",
            filename=self.filename,
        )


class Place(NamedTuple):
    """An object: its file, where its header is (from the superblock), and its path there."""

    file: OpenFile
    #: `UNKNOWN` where the core cannot follow the path, and HDF5's library might.
    offset: int
    path: str

    def ask(self, question: str, *arguments: Any) -> Any:
        """Ask the core about the object, by a method that takes its offset; errors as of `call`."""
        if self.offset == UNKNOWN:
            raise hdf5_errors.unsupported("unknown", self.file.filename, self.path, UNKNOWN_WAY)
        return self.call(getattr(self.file.metadata, question), self.offset, *arguments)

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call what asks the core, the system or a store; what it raises names the object then."""
        try:
            return function(*arguments)
        except hdf5_errors.FROM_CORE as error:
            raise hdf5_errors.of_core(self.file.filename, self.path, error) from None

    def errors_named(self) -> contextlib.AbstractContextManager[None]:
        """Make what the core raises of the object an error that names it."""
        return hdf5_errors.named(self.file.filename, self.path)


class Lost(NamedTuple):
    """A path that leads nowhere."""

    #: What it leads to in another file, and that file.
    path: str = ""
    filename: str = ""
    has_file: bool = True


class OpenFiles:
    """A file, and those that its external links name; with `grows` they may be being written."""

    def __init__(
        self,
        filename: str,
        options: OpenOptions = PLAIN,
        *,
        grows: bool = False,
        main: OpenFile | None = None,
    ) -> None:
        self._grows, self.storage, self.reach = grows, options.storage, options.reach(filename)
        self.main = main or open_file(filename, options, grows=grows)
        self._others = replace(options, kind="plain", before=None)
        self._files = {filename: self.main}

    @property
    def root(self) -> Place:
        """The root group."""
        return Place(self.main, self.main.metadata.root, "/")

    def __len__(self) -> int:
        """Return how many files are open: more than one if links led to others."""
        return len(self._files)

    @property
    def is_swmr(self) -> bool:
        """A writer has all of them open in SWMR mode, or was killed."""
        return all(one.metadata.is_swmr for one in self._files.values())

    def close(self) -> None:
        """Release the locks. A file is closed when the last place in it is forgotten."""
        for file in self._files.values():
            file.metadata.release()
            if file.fingerprint.access:
                told = file.fingerprint.access.requests
                told.count, told.n_bytes = file.metadata.requests

    def forget(self) -> None:
        """Close the files for good, also for places in them that are still known."""
        for file in self._files.values():
            file.metadata.close()

    def reopen(self) -> bool:
        """Take the locks again; False if a file changed, or is open for writing."""
        try:
            for file in self._files.values():
                if (name := current_name(file.filename, file.fingerprint)) is None:
                    return False
                is_reference = file.opened_by != file.filename
                locks = takes_locks(self._others.locks) and not file.fingerprint.access
                if is_reference or locks:
                    file.metadata.lock(name)
        except OSError:
            self.close()
            return False
        return True

    def find(self, path: str, start: Place | None = None) -> Place:
        """Return the object of a path, which may be relative to a group.

        Raises
        ------
        MissingDatasetError
            Nothing is there.
        FileOpenError, CorruptFileError, UnsupportedDatasetError
            Something on the way is damaged, or is not known to the core.
        """
        found = self.look(path, start or self.root)
        if isinstance(found, Lost):
            raise self._where_it_ends(path, start or self.root)
        return found

    def look(self, path: str, start: Place) -> Place | Lost:
        """Return the object of a path, or that nothing is there."""
        place, lost = start, Lost()
        for _ in range(LINKS_FOLLOWED):
            kind, *told = _asked(place, path)
            if kind == "object":
                return Place(place.file, told[0], joined(place.path, path))
            if kind != "external":
                return lost
            named, path = os.fsdecode(told[0]), joined("/", _text(told[1]))
            filename = self._existing(place.file.filename, named, "EXT")
            if filename is None:
                return Lost(path, named, has_file=False)
            lost, file = Lost(path, filename), self._opened(filename)
            place = Place(file, file.metadata.root, "/")
        return lost

    def _where_it_ends(self, path: str, place: Place) -> MultitablesError:
        """Find out why a path leads nowhere."""
        filename, whole = place.file.filename, joined(place.path, path)
        parts = [part for part in whole.split("/") if part]
        place = Place(place.file, place.file.metadata.root, "/")
        for depth, part in enumerate(parts):
            inside = self.look(part, place)
            if isinstance(inside, Lost):
                return self._nothing(filename, whole, place, part, inside)
            if depth + 1 < len(parts) and inside.ask("kind") != "group":
                return hdf5_errors.not_a_group(filename, whole, inside.path)
            place = inside
        return hdf5_errors.leads_nowhere(filename, whole, whole)  # through too many links

    def _nothing(
        self, filename: str, path: str, group: Place, name: str, lost: Lost
    ) -> MultitablesError:
        names = children(group)
        if name not in names:
            return hdf5_errors.no_such_path(filename, path, group.path, name, names)
        if lost.filename:
            return hdf5_errors.leads_nowhere(filename, path, *lost)
        target, kind = self._target(group, name)
        if kind is not None:
            return hdf5_errors.defined_elsewhere(filename, path, kind)
        return hdf5_errors.leads_nowhere(filename, path, target)

    def _target(self, place: Place, name: str) -> tuple[str, int | None]:
        """Return what a soft link in a group names, through all that follow it.

        And the type of the last one, if a program defined it.
        """
        for _ in range(LINKS_FOLLOWED):
            links = {_text(link[0]): link[2:] for link in place.ask("links")}
            kind, *told = links.get(name, ("none",))
            if kind == "user_defined":
                return joined(place.path, name), told[0]
            if kind != "soft":
                break
            group, _, name = joined(place.path, _text(told[0])).rpartition("/")
            found = self.look(group or "/", place)
            if isinstance(found, Lost):
                return f"{group}/{name}", None
            place = found
        return joined(place.path, name), None

    @contextlib.contextmanager
    def source(self, home: OpenFile, named: str) -> Iterator[OpenFile | None]:
        """Open a file that a virtual dataset in `home` names, for a while; None: it is missing."""
        filename = self._existing(home.filename, named, "VDS") if named != "." else None
        known = home if named == "." else self._files.get(filename or "")
        if known is not None or filename is None:
            yield known
            return
        file = open_file(filename, self._others, by=self.reach)  # there may be too many to keep
        try:
            yield file
        finally:
            file.metadata.close()

    def _opened(self, filename: str) -> OpenFile:
        if filename not in self._files:
            file = open_file(filename, self._others, grows=self._grows, by=self.reach)
            self._files[filename] = file
        return self._files[filename]

    def _existing(self, home: str, named: str, kind: str) -> str | None:
        """Return the file that a link ("EXT") or a mapping ("VDS") means.

        Raises
        ------
        LinkRefusedError
            It is out of reach.
        """
        for place in map(absolute, _places(home, named, kind)):
            self.reach.check(place)
            if is_file(place, self.storage):
                return place
        return None


def _places(home: str, named: str, kind: str) -> Iterator[str]:
    """Yield where a file that a link or a mapping names may be, as HDF5 tries them.

    Source: the reference manual of ``H5Lcreate_external`` and ``H5Pset_virtual_prefix``. Names
    count from the folder of an object as from that of a file.
    """
    is_local = not is_remote(home)
    if os.path.isabs(named):
        if is_local:
            yield named
        named = os.path.basename(named)
    folder = folder_of(home)
    prefix = os.environ.get(f"HDF5_{kind}_PREFIX", "")
    prefixes = prefix.split(":") if not is_remote(prefix) else [prefix]
    if kind == "VDS" and prefix.startswith(ORIGIN):
        prefixes.append(folder + prefix.removeprefix(ORIGIN))
    folders = [one for one in prefixes if one and is_remote(one) != is_local]
    for one in (*folders, folder):
        yield os.path.join(one, named) if is_local else in_folder(one, named)
    if is_local:  # the name of an object is one of a file here, as to HDF5
        yield os.path.join(absolute("") or os.curdir, named)
        yield os.path.join(os.path.dirname(os.path.realpath(home)), named)


def prefetched(file: OpenFile, items: Sequence[_T], offset: Callable[[_T], int]) -> Iterator[_T]:
    """Yield items of a file in a store, and fetch the objects at their offsets, many at a time."""
    metadata = file.metadata
    # A saved index needs no bytes of the object.
    if not (file.fingerprint.access and isinstance(metadata, _core.MetadataFile)):
        yield from items
        return
    for at in range(0, len(items), PREFETCHED):
        some = items[at : at + PREFETCHED]
        metadata.prefetch([found for found in map(offset, some) if found != UNKNOWN])
        yield from some


def open_file(
    filename: str,
    options: OpenOptions = PLAIN,
    *,
    uses_index: bool = True,
    grows: bool = False,
    by: Reach | None = None,
) -> OpenFile:
    """Open a file, and its saved index if it has one that may be used.

    If another file led to it, it is within reach of that one (`by`), and an HDF5 file.

    Raises
    ------
    MissingFileError, FileOpenError
        No such file; not an HDF5 file, truncated, locked by a writer, not allowed.
    CorruptFileError
        Its first structures are damaged.
    """
    if by is None and is_references(filename):
        return _open_references(filename, options)
    if is_remote(filename):
        return _open_object(filename, options.storage, uses_index)
    before = options.before
    opened = opening_name(filename, before)
    fingerprint = _fingerprint(opened)  # before anything is read
    locks = takes_locks(options.locks) and not grows
    with _refusals(filename, opened):
        metadata = _core.MetadataFile(opened, takes_lock=locks)
    if by is not None:
        _check_reached(by, filename, fingerprint, metadata)
    if grows:
        return OpenFile(filename, fingerprint, metadata, filename)
    if metadata.is_written or (not locks and written_here(opened)):
        raise _written(filename, opened, "written")
    if before is not None and before.opened is not None and before == fingerprint:
        fingerprint = before
    else:
        fingerprint = changed_fields(fingerprint, opened=metadata.opened)
    found: Metadata = metadata
    if options.kind != "split":
        _checked(filename, fingerprint, metadata)
        if uses_index:
            found = with_saved_index(filename, fingerprint, metadata)
    return OpenFile(filename, fingerprint, found, filename)


def _check_reached(
    by: Reach, filename: str, fingerprint: Fingerprint, metadata: _core.MetadataFile
) -> None:
    """Raise unless the file that is open, and was looked at before, is in reach by its name."""
    descriptor = metadata.opened.descriptor if metadata.opened else None
    now = fingerprint if descriptor is None else Fingerprint.of(os.fstat(descriptor))
    by.check_opened(filename, now.device, now.inode)
    by.check_opened(filename, fingerprint.device, fingerprint.inode)


@contextlib.contextmanager
def _refusals(filename: str, opened: str = "") -> Iterator[None]:
    """Turn the core's errors about a file's first structures into errors that name the file."""
    try:
        yield
    except hdf5_errors.FROM_CORE as error:
        if isinstance(error, _core.Corrupt) and error.args[2].startswith("HDF5's signature"):
            raise hdf5_errors.refused(filename, "signature") from None
        if isinstance(error, OSError) and error.errno == errno.EWOULDBLOCK:
            raise _written(filename, opened or filename, "locked") from None
        raise hdf5_errors.of_core(filename, "/", error) from None


def _open_object(name: str, storage: StorageOptions, uses_index: bool) -> OpenFile:
    """Open an object of a store: by one request for its state where an index of it is at hand.

    Without one, it requests an index beside the object and its first bytes at a time.
    """
    from _multitables.index.opened.whole_object import (
        WholeObject,
        first_bytes_and_index,
        has_cached_index,
        keep_index,
        of_object,
    )

    filename = absolute(name)
    if uses_index and has_cached_index(filename):
        fingerprint = _fingerprint(filename, storage)
        whole = WholeObject(filename, fingerprint)
        found = with_saved_index(filename, fingerprint, whole)
        if found is not whole:
            return OpenFile(filename, fingerprint, found, filename)
    with _refusals(filename):
        looks = uses_index and storage.at(filename).get("looks_for_index")
        fingerprint, first, beside = first_bytes_and_index(filename, storage, looks)
        metadata = of_object(filename, fingerprint, first)
    _checked(filename, fingerprint, metadata)
    if not (beside and keep_index(filename, beside)):
        return OpenFile(filename, fingerprint, metadata, filename)
    found = with_saved_index(filename, fingerprint, metadata)
    return OpenFile(filename, fingerprint, found, filename)


def _checked(filename: str, fingerprint: Fingerprint, metadata: _core.MetadataFile) -> None:
    """Raise if a file of this state cannot be read alone and whole."""
    if fingerprint.access and metadata.is_written:
        raise hdf5_errors.refused(filename, "written")
    if metadata.driver:
        raise hdf5_errors.refused(filename, "parts")
    if metadata.end > fingerprint.size_bytes:
        raise hdf5_errors.truncated(filename, metadata.end, fingerprint.size_bytes)


def _open_references(filename: str, options: OpenOptions) -> OpenFile:
    from _multitables.index.kerchunk.metadata import open_references  # few need it

    if not is_remote(filename) and os.path.exists(filename) and not os.path.isdir(filename):
        _fingerprint(filename)  # refuses a pipe, which would wait for its writer
    with _refusals(filename):
        reach = options.reach(absolute(filename))
        target, metadata = open_references(filename, reach, options.storage, options.directory)
    return OpenFile(target.filename, target.fingerprint, metadata, filename)


def takes_locks(wanted: bool) -> bool:
    """Whether the lock of readers is taken; as in HDF5, the environment has the last word."""
    return LOCKING.get(os.environ.get("HDF5_USE_FILE_LOCKING", "").upper(), wanted)


def _fingerprint(filename: str, storage: StorageOptions = NO_OPTIONS) -> Fingerprint:
    with _refusals(filename):
        fingerprint = fingerprint_of(filename, storage)
    if not fingerprint.access and not os.path.isfile(filename):
        raise hdf5_errors.no_file(filename)
    return fingerprint


def _written(filename: str, opened: str, where: str) -> MultitablesError:
    return hdf5_errors.refused(filename, "here" if written_here(opened) else where)


def _asked(place: Place, path: str) -> tuple[Any, ...]:
    try:
        return place.file.metadata.find(stored_name(path), place.offset)
    except _core.Unknown:
        return "object", UNKNOWN
    except hdf5_errors.FROM_CORE as error:
        whole = joined(place.path, path)
        raise hdf5_errors.of_core(place.file.filename, whole, error) from None


def children(place: Place) -> list[str]:
    """Return the names of a group's links, in the order of the file."""
    return [_text(link[0]) for link in place.ask("links")]


def joined(group: str, path: str) -> str:
    """Return a path, which may be relative to a group, as ``/a/b``."""
    parts = [] if path.startswith("/") else group.split("/")
    return "/" + "/".join(part for part in (*parts, *path.split("/")) if part not in ("", "."))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def stored_name(name: str) -> bytes:
    """Return a name, or a path, as files have it."""
    return name.encode("utf-8", "surrogateescape")
