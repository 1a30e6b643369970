"""A file by its name, of this machine or of a store: what identifies it, and whether it is there.

Law
---
1. The only file of the index that asks for the state of a file.
2. A failure of a store is one of our exceptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from _multitables import _core
from _multitables.errors import MissingFileError, OptionsError
from _multitables.index.chunk_index import Fingerprint
from _multitables.remote import client
from _multitables.remote.access import Access, version_number
from _multitables.remote.failures import StoreFailure, error_of
from _multitables.remote.names import absolute, is_remote
from _multitables.remote.options import StorageOptions

#: Things that a store is asked for at a time, before readers have connections of their own.
CONCURRENT = 16
#: More than any object has.
ALL_BYTES = 1 << 50
Asked = TypeVar("Asked")
Told = TypeVar("Told")


def fingerprint_of(name: str, options: StorageOptions) -> Fingerprint:
    """Return what identifies the file of a name as it is now.

    Raises
    ------
    OSError
        It is not there, or may not be asked for.
    """
    if not is_remote(name):
        return Fingerprint.of(os.stat(name))
    return _told(name, options, *_asked(client.head, name, options))


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


def first_bytes(name: str, options: StorageOptions) -> tuple[Fingerprint, bytes]:
    """Return what identifies an object, and its first bytes, by one request."""
    etag, state, data = _asked(_first_bytes, name, options)
    return _told(name, options, etag, state), bytes(data)


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
    etag, state, data = _asked(_whole, name, options)
    return _told(name, options, etag, state), bytes(data)


def concurrently(ask: Callable[[Asked], Told], things: Sequence[Asked]) -> list[Told]:
    """Ask a store for several things at a time; their order stays."""
    return client.concurrently(ask, things, CONCURRENT)


def changed(name: str, fingerprint: Fingerprint) -> bool:
    """Whether a file is not the one that was indexed."""
    access = fingerprint.access
    try:
        options = access.options if access else StorageOptions()
        return fingerprint_of(opening_name(name, fingerprint), options) != fingerprint
    except OSError:
        return True


def is_file(name: str, options: StorageOptions) -> bool:
    """Whether there is such a file."""
    if not is_remote(name):
        return os.path.isfile(name)
    try:
        fingerprint_of(name, options)
    except MissingFileError:
        return False
    return True


def listed(name: str, options: StorageOptions) -> list[str]:
    """Return the names of the objects that begin with a name."""
    return _asked(client.listed, name, options)


def put(name: str, options: StorageOptions, file: str) -> None:
    """Write a file of this machine as an object."""
    _asked(client.put, name, options, file)


def _told(name: str, options: StorageOptions, etag: str, state: tuple[int, int]) -> Fingerprint:
    folder = options.at(name).get("cache_folder")
    if folder:
        _check_cache(folder)
    return Fingerprint(0, version_number(etag), state[1], 0, Access(absolute(name), etag, options))


def _check_cache(folder: str) -> None:
    try:
        _core.check_cache_folder(folder)
    except OSError as error:
        raise OptionsError(
            f"storage_options['cache_folder'] cannot be used: {folder!r}: {error}",
            advice="Name a folder of yours on a local disk, which no other user may write, such as "
            "'~/.cache/multitables'",
            option="cache_folder",
            got=folder,
        ) from None


def _whole(name: str, text: str) -> tuple[str, tuple[int, int], bytes | memoryview]:
    etag, state, data = _first_bytes(name, text, ALL_BYTES)
    if len(data) != state[1]:
        raise StoreFailure("short", f"expected {state[1]} bytes, got {len(data)}")
    return etag, state, data


def _first_bytes(
    name: str, text: str, most: int = _core.REMOTE_FIRST_BYTES
) -> tuple[str, tuple[int, int], bytes | memoryview]:
    try:
        return client.fetched(name, text, 0, most)
    except StoreFailure as failure:
        if failure.kind != "range":
            raise
    return *client.head(name, text), b""  # it is empty


def _asked(ask: Callable[..., Told], name: str, options: StorageOptions, *arguments: Any) -> Told:
    """Ask a store, and raise failures as errors that name the object and lead to nothing else."""
    try:
        return ask(name, options.client_text(name), *arguments)
    except StoreFailure as failure:
        if failure.kind == "forbidden":
            client.forget_stores()
        error = error_of(absolute(name), failure, options.lost, options.withholds(name))
    raise error
