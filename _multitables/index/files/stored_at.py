"""Where the stored bytes of a dataset lie, told to its index.

Law
---
1. Pure: an index and numbers of the file in, an index out.
2. Nothing lies outside its file; an index that would say so is an error that names it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from _multitables.errors import FileOpenError
from _multitables.index.chunk_index import ManyFiles, Stored, changed, chunks_of

if TYPE_CHECKING:
    from _multitables.index.files.external_files import Piece

#: Of a file, in bytes.
LARGEST = 2**63 - 1


def at(index: Stored, offset: int, source: int = 0) -> Stored:
    """Return an index whose elements lie together, from this byte of one of its files on."""
    # More bytes may be stored than the dataset has, never fewer, and no file has more than these.
    size = min(math.prod(index.dims) * index.kind.element_bytes, LARGEST)
    return changed(index, chunks=chunks_of([0], offset, size, 0, source))


def in_pieces(index: Stored, pieces: Sequence[Piece], rows: int) -> Stored:
    """Return an index whose elements lie in raw files, in chunks of this number of rows."""
    files = tuple(dict.fromkeys(piece.file for piece in pieces))
    chunk_bytes = rows * math.prod(index.dims[1:]) * index.kind.element_bytes
    counts = [piece.n_bytes // chunk_bytes for piece in pieces]
    within = np.concatenate([np.arange(count, dtype=np.uint64) for count in counts])
    begins = np.array([piece.offset for piece in pieces], np.uint64)
    numbers = np.array([1 + files.index(piece.file) for piece in pieces], np.uint32)
    return changed(
        index,
        chunk_dims=(rows, *index.dims[1:]),
        chunks=chunks_of(
            np.arange(len(within)),
            np.repeat(begins, counts) + within * np.uint64(chunk_bytes),
            chunk_bytes,
            source=np.repeat(numbers, counts),
        ),
        files=(index.files[0], *files),
    )


def inside_file(index: Stored) -> Stored:
    """Return the index; raise if stored bytes would lie behind the end of their file."""
    chunks, files = index.chunks, index.files
    ends = chunks["byte_offset"] + chunks["stored_size"]
    if isinstance(files, ManyFiles):
        sizes = files.size_bytes
    else:
        sizes = np.array([file.fingerprint.size_bytes for file in files], np.uint64)
        sizes[0] = len(index.inline) or sizes[0]
    bad = (ends > sizes[chunks["source"]]) | (ends < chunks["byte_offset"])
    if bad.any():
        at = np.where(bad, ends, 0).argmax()
        number = chunks["source"][at]
        end, name, size = int(ends[at]), files[number].filename, int(sizes[number])
        raise FileOpenError(
            f"{name!r} is truncated: {index.path!r} needs its bytes up to {end} "
            f"(expected at least {end} bytes, got {size})",
            advice="Copy the file again from its source or from a backup",
            filename=name,
            path=index.path,
            expected=end,
            got=size,
        )
    return index
