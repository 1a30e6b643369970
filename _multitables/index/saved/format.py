"""A saved index: the tables of objects, links and chunks, as bytes of a file of their own.

What they are, and what is checked when they are read, stands where the core reads them:
core/crates/hdf5_format/src/saved_columns.rs.

Law
---
1. Written whole or not at all: under a name of its own, then renamed.
2. An index of another version, or of a file that has changed since, is not used.

This file must never know what HDF5 says of an object.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import BinaryIO

from _multitables import _core
from _multitables._core import Descriptor, SavedIndex
from _multitables.index.chunk_index import CHUNK, Fingerprint
from _multitables.index.saved.owners import folder_for, opened_index

MAGIC = b"\x89MTIDX\r\n"
VERSION, MANIFEST = 3, 4
HEADS = {VERSION: struct.Struct("<8sII15Q"), MANIFEST: struct.Struct("<8sII17Q")}
HEAD = HEADS[VERSION]
CHECKED_FROM = 16  # of the head
#: No creation order, no address; no value: the file itself answers.
NO_NUMBER, NO_VALUE = 2**64 - 1, 2**32 - 1
CHUNK_COLUMNS = {name: CHUNK[name] for name in (CHUNK.names or ())[:4]}

KINDS = ("group", "dataset", "datatype", "other")
LINK_KINDS = ("hard", "soft", "external", "user_defined")


@dataclass(frozen=True)
class Head:
    """The numbers of the head, in their order; a manifest has the last two, and no root."""

    size_bytes: int
    mtime_ns: int
    inode: int
    parts_bytes: int
    n_objects: int
    n_links: int
    n_values: int
    n_dims: int
    n_scales: int
    names_bytes: int
    kinds_bytes: int
    values_bytes: int
    tables_sum: int
    values_sum: int
    root: int
    n_files: int = 0
    files_bytes: int = 0

    @property
    def version(self) -> int:
        """Of what version the index is."""
        return MANIFEST if self.n_files else VERSION


#: Name, element type, and of what there is one entry each.
COLUMNS = tuple(
    (name, f"<u{width}", fields(Head)[count].name) for name, width, count in _core.SAVED_COLUMNS
)


@contextlib.contextmanager
def replaced(filename: str, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a new file, which takes the place of another when the context ends without an error.

    A private one is in a folder of this user's, which is made if it is missing.
    """
    name = os.path.basename(filename)
    part = f"{name}.{os.urandom(4).hex()}.tmp"
    folder = folder_for(filename, private=private)
    at = folder.fileno()
    try:
        written = Descriptor.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder)
        with open(written.fileno(), "wb", closefd=False) as file:
            yield file
        written.close()
        os.replace(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=at)
        raise


def read(filename: str, fingerprint: Fingerprint, of: str | None = None) -> SavedIndex | None:
    """Read a saved index; None if it is missing, or of another version or state of the file.

    `of` is the file beside which it lies; None: it is in the cache directory.

    Raises
    ------
    DamagedIndexError
        It contradicts itself, or is another kind of file.
    ForeignIndexError
        Another user may have written it.
    OSError
        It cannot be read.
    """
    file = opened_index(filename, of)
    if file is None:
        return None
    # Devices are numbered anew when a machine starts.
    state = fingerprint.size_bytes, unsigned(fingerprint.mtime_ns), fingerprint.inode
    return SavedIndex.read(file, state)


def read_manifest(filename: str) -> SavedIndex | None:
    """Read the index of many files; None if it is one of another version.

    Raises
    ------
    DamagedIndexError
        It contradicts itself, or is another kind of file.
    OSError
        It cannot be read.
    """
    return SavedIndex.read(Descriptor.open(filename, os.O_RDONLY | os.O_NONBLOCK))


def unsigned(number: int) -> int:
    """Times before 1970 are negative."""
    return number % 2**64
