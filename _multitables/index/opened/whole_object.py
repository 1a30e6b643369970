"""The metadata of a store's object, read when they are first asked for, and where its index is.

Law
---
1. An object whose index is at hand is not read for its metadata at all.
2. An index beside an object is fetched once, into the user's cache; it is that of this version of
   the object, or it is not used.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

from _multitables import _core
from _multitables.index.chunk_index import Fingerprint
from _multitables.index.files.stored_objects import concurrently, first_bytes
from _multitables.index.metadata import Delegated
from _multitables.index.saved.format import replaced
from _multitables.index.saved.places import SUFFIX, places
from _multitables.remote import client
from _multitables.remote.failures import StoreFailure
from _multitables.remote.options import StorageOptions

#: An index beside an object is fetched if it has at most this many bytes.
MAX_INDEX_BYTES = 1 << 30


class WholeObject(Delegated):
    """As `_core.MetadataFile`, of an object. Any thread may use it."""

    def __init__(self, name: str, fingerprint: Fingerprint) -> None:
        self._name, self._fingerprint = name, fingerprint
        self._file: _core.MetadataFile | None = None
        self._lock, self._owner = threading.Lock(), os.getpid()

    @property
    def file(self) -> _core.MetadataFile:
        """The core's view of the object."""
        if self._owner != os.getpid():  # in a fork, a thread that is not here may hold the lock
            self._lock, self._owner = threading.Lock(), os.getpid()
        with self._lock:
            if self._file is None:
                assert self._fingerprint.access is not None
                options = self._fingerprint.access.options
                self._file = of_object(self._name, *first_bytes(self._name, options))
            return self._file

    @property
    def requests(self) -> tuple[int, int]:
        """Requests of the store, and the bytes that they brought; one was for its state."""
        n_requests, n_bytes = self._file.requests if self._file is not None else (0, 0)
        return n_requests + 1, n_bytes

    def lock(self, filename: str) -> None:
        """Hold no lock: an object is replaced, not written."""

    def release(self) -> None:
        """Hold no lock."""

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()


def of_object(name: str, fingerprint: Fingerprint, first: bytes) -> _core.MetadataFile:
    """Return the core's view of an object whose first bytes are known."""
    assert fingerprint.access is not None
    access, size = fingerprint.access.encoded, fingerprint.size_bytes
    return _core.MetadataFile.of_object(os.fsencode(name), access, size, fingerprint.inode, first)


def has_cached_index(name: str) -> bool:
    """Whether the user's cache has an index of an object, perhaps of another version."""
    return os.path.exists(places(name)[1])


def first_bytes_and_index(
    name: str, options: StorageOptions, looks: bool
) -> tuple[Fingerprint, bytes, bytes]:
    """Return what `first_bytes` does, and the index beside an object, by requests at a time.

    Without `looks` the index has no bytes.
    """
    if not looks:
        return *first_bytes(name, options), b""
    found: list[Any] = concurrently(lambda ask: ask(name, options), (_first, _index_beside))
    (error, first), beside = found
    try:
        if error is not None:
            raise error
    finally:
        del error, found  # or it would keep this frame
    return *first, beside


def _first(name: str, options: StorageOptions) -> Any:
    try:
        return None, first_bytes(name, options)
    except Exception as error:  # noqa: BLE001 - raised when the other request has ended, too
        return error, None


def _index_beside(name: str, options: StorageOptions) -> bytes:
    """Return the index beside an object; no bytes if it is missing or too long."""
    try:
        text = options.client_text(name)
        beside = name + SUFFIX
        etag, (_, size), head = client.fetched(beside, text, 0, _core.REMOTE_FIRST_BYTES)
        data = bytes(head)
        if len(data) < size <= MAX_INDEX_BYTES:
            data += client.fetched(beside, text, len(data), size, etag)[2]
        return data if len(data) == size else b""
    except StoreFailure:
        return b""  # most objects have no index, so its lack is no error


def keep_index(name: str, data: bytes) -> bool:
    """Keep the index of an object in the user's cache; returns whether it is there."""
    with contextlib.suppress(OSError), replaced(places(name)[1], private=True) as file:
        file.write(data)
        return True
    return False
