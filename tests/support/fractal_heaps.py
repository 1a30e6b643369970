"""Files whose attributes lie in a fractal heap, and damage of it that its checksums do not show.

Law
---
1. A field is changed where the file format's specification has it (III.G), and the checksum of its
   block is made again: what is left to say no are the numbers themselves.
"""

from __future__ import annotations

import struct
from pathlib import Path

import h5py
import numpy as np

#: Fields of a heap's header: offset and format.
FIELDS = {
    "id_bytes": (5, "<H"),
    "max_managed": (10, "<I"),
    "huge_tree": (22, "<Q"),
    "width": (110, "<H"),
    "start_bytes": (112, "<Q"),
    "max_direct": (120, "<Q"),
    "bits": (128, "<H"),
    "root": (132, "<Q"),
    "rows": (140, "<H"),
}
HEADER_BYTES = 142
#: Of an indirect block, before its entries.
HEAD_BYTES = 18
WORD = 0xFFFFFFFF


def checksum(data: bytes) -> int:
    """Return what HDF5 writes behind metadata: lookup3."""

    def turned(word: int, by: int) -> int:
        return (word << by | word >> (32 - by)) & WORD

    a = b = c = (0xDEADBEEF + len(data)) & WORD
    padded = data.ljust(-(-len(data) // 12) * 12, b"\0")
    left = len(padded) // 12
    for words in struct.iter_unpack("<III", padded):
        a, b, c = (one + word & WORD for one, word in zip((a, b, c), words, strict=True))
        left -= 1
        for by in (4, 6, 8, 16, 19, 4) if left else ():
            a, b, c = b, c + b & WORD, (a - c & WORD) ^ turned(c, by)
    for by in (14, 11, 25, 16, 4, 14, 24):
        a, b, c = b, (c ^ b) - turned(b, by) & WORD, a
    return b


def write(path: Path) -> None:
    """Store attributes of 800 kB, for which the heap's root has an indirect block below it."""
    with h5py.File(path, "w", libver="latest") as file:
        x = file.create_dataset("x", data=np.arange(3))
        for number in range(200):
            x.attrs[f"a{number}"] = np.full(4000, number % 100, "u1")


def _summed(data: bytearray, begin: int, end: int) -> None:
    struct.pack_into("<I", data, end, checksum(bytes(data[begin:end])))


def damage(path: Path, entries: str | None = None, **fields: int) -> None:
    """Change fields of the heap's header, or let all entries of its root lead to some block."""
    data = bytearray(path.read_bytes())
    heap = data.index(b"FRHP")
    (root,) = struct.unpack_from("<Q", data, heap + FIELDS["root"][0])
    (rows,) = struct.unpack_from("<H", data, heap + FIELDS["rows"][0])
    (width,) = struct.unpack_from("<H", data, heap + FIELDS["width"][0])
    assert data[root : root + 4] == b"FHIB"
    if entries is not None:
        to = {"root": root, "heap": heap, "nothing": 2**63}[entries]
        end = root + HEAD_BYTES + 8 * rows * width
        for at in range(root + HEAD_BYTES, end, 8):
            struct.pack_into("<Q", data, at, to)
        _summed(data, root, end)
    for name, value in fields.items():
        at, form = FIELDS[name]
        struct.pack_into(form, data, heap + at, heap if value == -1 else value)
    _summed(data, heap, heap + HEADER_BYTES)
    path.write_bytes(data)
