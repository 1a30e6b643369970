"""Objects of stores, by their names: what identifies them, and their bytes.

Law
---
1. A failure of a store is one of our exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from _multitables import _core
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import Fingerprint
from _multitables.remote import client
from _multitables.remote.access import Access, version_number
from _multitables.remote.failures import StoreFailure, error_of
from _multitables.remote.names import absolute
from _multitables.remote.options import StorageOptions

#: Requests to a store at a time, before readers have connections.
CONCURRENT = 16
#: More than any object has.
ALL_BYTES = 1 << 50
Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def state_of(name: str, options: StorageOptions) -> Fingerprint:
    """Return what identifies an object as it is now."""
    return _fingerprint(name, options, *_answer(client.head, name, options))


def read_whole(name: str, options: StorageOptions) -> tuple[Fingerprint, bytes]:
    """Return what identifies an object, and all its bytes, by one request."""
    etag, state, data = _answer(_whole, name, options)
    return _fingerprint(name, options, etag, state), bytes(data)


def first_bytes(name: str, options: StorageOptions) -> tuple[Fingerprint, bytes]:
    """Return what identifies an object, and its first bytes, by one request."""
    etag, state, data = _answer(_first_bytes, name, options)
    return _fingerprint(name, options, etag, state), bytes(data)


def concurrently(ask: Callable[[Thing], Answer], things: Sequence[Thing]) -> list[Answer]:
    """Ask a store for several things at a time; their order stays."""
    return client.concurrently(ask, things, CONCURRENT)


def listed(name: str, options: StorageOptions) -> list[str]:
    """Return the names of the objects that begin with a name."""
    return _answer(client.listed, name, options)


def put(name: str, options: StorageOptions, file: str) -> None:
    """Write a file of this machine as an object."""
    _answer(client.put, name, options, file)


def _fingerprint(
    name: str, options: StorageOptions, etag: str, state: tuple[int, int]
) -> Fingerprint:
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


def _answer(
    ask: Callable[..., Answer], name: str, options: StorageOptions, *arguments: Any
) -> Answer:
    """Ask a store; failures become errors that name the object and carry no other exception."""
    try:
        return ask(name, options.client_text(name), *arguments)
    except StoreFailure as failure:
        if failure.kind == "forbidden":
            client.forget_stores()
        error = error_of(absolute(name), failure, options.lost, options.withholds(name))
    raise error
