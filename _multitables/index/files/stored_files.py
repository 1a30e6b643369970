"""A file by its name, of this machine or of a store: what identifies it, and whether it is there.

Law
---
1. The only file of the index that asks for the state of a file of this machine.
2. stored_objects.py asks stores. It is imported when the first object is named.
"""

from __future__ import annotations

import fcntl
import os

from _multitables.errors import MissingFileError
from _multitables.index.chunk_index import Fingerprint
from _multitables.remote.names import is_remote
from _multitables.remote.options import StorageOptions

NO_OPTIONS = StorageOptions()
ALL_DESCRIPTORS = 1 << 16  # of a process, where the system does not list them


def fingerprint_of(name: str, options: StorageOptions) -> Fingerprint:
    """Return what identifies the file of a name as it is now.

    Raises
    ------
    OSError
        It is not there, or may not be asked for.
    """
    if not is_remote(name):
        return Fingerprint.of(os.stat(name))
    from _multitables.index.files import stored_objects

    return stored_objects.state_of(name, options)


def opening_name(name: str, before: Fingerprint | None) -> str:
    """Return a name that opens a file: its own, or a descriptor's if it lost its name.

    `before` is the file as it was opened before, if it was.
    """
    descriptor = before.opened.descriptor if before and before.opened else None
    if descriptor is None or os.path.exists(name):
        return name
    found = f"/proc/self/fd/{descriptor}"
    try:
        return found if Fingerprint.of(os.stat(found)) == before else name
    except OSError:  # it was closed meanwhile
        return name


def read_whole(name: str, options: StorageOptions) -> tuple[Fingerprint, bytes]:
    """Return what identifies a file, and all its bytes: of an object, by one request.

    Raises
    ------
    OSError
        It is not there, or may not be read.
    """
    if not is_remote(name):
        with open(name, "rb") as file:
            return Fingerprint.of(os.fstat(file.fileno())), file.read()
    from _multitables.index.files import stored_objects

    return stored_objects.read_whole(name, options)


def current_name(name: str, fingerprint: Fingerprint) -> str | None:
    """Return a name that opens the file that was indexed; None: it has changed."""
    access = fingerprint.access
    try:
        found = fingerprint_of(name, access.options if access else NO_OPTIONS)
        return name if found == fingerprint else None
    except OSError:
        opening = opening_name(name, fingerprint)
        return opening if opening != name else None


def changed(name: str, fingerprint: Fingerprint) -> bool:
    """Whether a file is not the one that was indexed."""
    return current_name(name, fingerprint) is None


def is_file(name: str, options: StorageOptions) -> bool:
    """Whether there is such a file."""
    if not is_remote(name):
        return os.path.isfile(name)
    try:
        fingerprint_of(name, options)
    except MissingFileError:
        return False
    return True


def written_here(filename: str) -> bool:
    """Whether this process has a file open for writing."""
    file = os.stat(filename)
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # /proc is hidden
        names = [str(number) for number in range(min(os.sysconf("SC_OPEN_MAX"), ALL_DESCRIPTORS))]
    for name in names:
        try:
            is_it = os.path.samestat(os.fstat(int(name)), file)
            if is_it and fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                return True
        except OSError:  # closed meanwhile
            continue
    return False
