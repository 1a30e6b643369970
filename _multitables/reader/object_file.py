"""An object of a store for libraries that open files by their names.

Law
---
1. h5py reads ranges through `ObjectFile`; PyTables takes no file object, and reads a copy.
2. All bytes are of the version that was indexed, or a `StoreFailure` says why not.
3. HDF5 would look for files that an object names on this machine, or take the object for them:
   what needs any is refused.
"""

from __future__ import annotations

import io
import json
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

from _multitables.remote import client

#: Bytes that are fetched around the few that a library asks for, and how many times as many at once
#: where it reads on. HDF5 reads its structures in pieces of some hundred bytes.
BLOCK_BYTES, MAX_BLOCKS_AHEAD = 1 << 20, 8
#: Blocks of a file that are kept.
MAX_BLOCKS = 2 * MAX_BLOCKS_AHEAD
#: Larger ranges are fetched in pieces of this size, some at a time.
PIECE_BYTES, MAX_REQUESTS = 8 << 20, 8
#: An object with more bytes is not copied.
MAX_COPY_BYTES = 1 << 30


class TooLargeError(ValueError):
    """Text: the bytes of an object that only a copy would serve, a space, the bytes allowed."""


class OtherFilesError(ValueError):
    """Text: the names of files that a dataset needs and HDF5 does not find."""


class Access(TypedDict):
    """How an object is reached: what `Fingerprint.for_library` lays out."""

    #: Of the client: the version of the object, and the options of its store.
    client: list[str]
    size: int


class ObjectFile(io.RawIOBase):
    """An object as h5py's driver for file objects reads it."""

    def __init__(self, name: str, access: Access) -> None:
        self._name, self._access, self._at = name, access, 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        #: How many blocks the last request brought, and the one behind them.
        self._brought, self._next = 1, -1

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte."""
        self._at = offset + {os.SEEK_CUR: self._at, os.SEEK_END: self._access["size"]}.get(
            whence, 0
        )
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as the object goes."""
        out = memoryview(buffer).cast("B")
        out = out[: max(0, self._access["size"] - self._at)]
        if len(out) >= BLOCK_BYTES:
            fetch(self._name, self._access, self._at, out)
        filled = 0 if len(out) < BLOCK_BYTES else len(out)
        while filled < len(out):
            number, begin = divmod(self._at + filled, BLOCK_BYTES)
            behind = -(-(self._at + len(out)) // BLOCK_BYTES)
            part = self._block(number, behind)[begin : begin + len(out) - filled]
            out[filled : filled + len(part)] = part
            filled += len(part)
        self._at += filled
        return filled

    def _block(self, number: int, behind: int) -> bytes:
        """Return a block; the blocks up to `behind` are wanted, too."""
        if number not in self._blocks:
            reads_on, wanted = number == self._next, behind - number
            self._brought = min(2 * self._brought, MAX_BLOCKS_AHEAD) if reads_on else wanted
            begin, self._next = number * BLOCK_BYTES, number + self._brought
            end = min(self._next * BLOCK_BYTES, self._access["size"])
            data = memoryview(bytearray(end - begin))
            fetch(self._name, self._access, begin, data)
            for at in range(self._brought):
                self._blocks[number + at] = bytes(data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES])
            while len(self._blocks) > MAX_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def __repr__(self) -> str:
        return self._name  # to h5py, the name of the file


def fetch(name: str, access: Access, begin: int, out: memoryview) -> None:
    """Fill `out` with the bytes of an object from `begin` on."""
    told, n_bytes = json.dumps(access["client"]).encode(), len(out)

    def read(at: int) -> None:
        client.read(name.encode(), told, begin + at, out[at : at + PIECE_BYTES])

    if n_bytes <= PIECE_BYTES:
        read(0)
        return
    with ThreadPoolExecutor(MAX_REQUESTS) as threads:
        list(threads.map(read, range(0, n_bytes, PIECE_BYTES)))


def copy_of(name: str, access: Access) -> bytes:
    """Return all bytes of an object.

    Raises
    ------
    TooLargeError
        They are too many.
    """
    if access["size"] > MAX_COPY_BYTES:
        raise TooLargeError(f"{access['size']} {MAX_COPY_BYTES}")
    data = bytearray(access["size"])
    with memoryview(data) as out:
        fetch(name, access, 0, out)
    return bytes(data)


def check_alone(dataset: Any, access: Access | None) -> None:
    """Raise if an h5py dataset needs other files, and HDF5 would not find them.

    Raises
    ------
    OtherFilesError
        It names them.
    """
    names: list[str] = []
    if dataset.is_virtual:  # its sources in its own file may be virtual, too
        names = [source.file_name for source in dataset.virtual_sources()] if access else []
    elif access and dataset.external:
        names = [name for name, *_ in dataset.external]
    if names:
        raise OtherFilesError(", ".join(map(repr, dict.fromkeys(names))))
