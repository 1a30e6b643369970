"""Where references and their targets are: this machine, or stores, whose requests are counted.

Law
---
1. All files and objects are asked for with the same options. Any thread may use it.
2. What references lead to is within their reach.

This file must never know their contents.
"""

from __future__ import annotations

from dataclasses import replace

from _multitables.errors import MissingFileError
from _multitables.index.chunk_index import Fingerprint
from _multitables.index.files.reach import Reach
from _multitables.index.files.stored_files import fingerprint_of, read_whole
from _multitables.index.files.stored_objects import listed
from _multitables.options import ANYWHERE, FOLDER
from _multitables.remote.names import absolute, is_remote, query_of
from _multitables.remote.options import StorageOptions


class Store:
    """Reads files and objects, and asks for their states."""

    def __init__(self, storage: StorageOptions, reach: Reach) -> None:
        self._storage, self._reach = storage, reach
        #: Files of the references themselves are in their folder.
        self._parts = reach if reach.links == ANYWHERE else replace(reach, links=FOLDER)
        #: The bytes that each request of a store brought.
        self._brought: list[int] = []

    @property
    def requests(self) -> tuple[int, int]:
        """Requests of stores, and the bytes that they brought."""
        return len(self._brought), sum(self._brought)

    def state(self, name: str) -> Fingerprint:
        """Return what identifies a file, whose name may have a query.

        Raises
        ------
        LinkRefusedError
            It is out of reach.
        """
        whole, query = absolute(name), query_of(name)
        self._reach.check(whole)
        self._count(whole, 0)
        state = fingerprint_of(whole, self._storage.with_query(whole, query))
        self._reach.check_opened(whole, state.device, state.inode)
        return state

    def read(self, name: str) -> tuple[Fingerprint, bytes]:
        """Return what identifies a file of the references, and all its bytes."""
        self._parts.check(name)
        state, data = read_whole(name, self._storage)
        self._count(name, len(data))
        return state, data

    def read_if_there(self, name: str) -> bytes | None:
        """Return all bytes of a file that may be missing."""
        try:
            return self.read(name)[1]
        except MissingFileError:
            self._count(name, 0)
            return None

    def listed(self, name: str) -> list[str]:
        """Return the names of the objects that begin with a name."""
        self._count(name, 0)
        return listed(name, self._storage)

    def _count(self, name: str, n_bytes: int) -> None:
        if is_remote(name):
            self._brought.append(n_bytes)
