"""The raw files that an external dataset's bytes lie in, found as HDF5 finds them.

Law
---
1. A name is below ``HDF5_EXTFILE_PREFIX``, in which a leading ``${ORIGIN}`` is the folder of the
   HDF5 file; without it, below the current directory.
2. An object of a store names objects, beside it or by URLs: of an absolute name, the last part
   counts.
3. Only files that have all of the dataset's bytes are returned. Others are left to HDF5, which
   shows zeros behind the end of a short one, and raises an error for a missing one.

This file must never know types.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import NamedTuple

from _multitables import sizes
from _multitables._core import StoredDataset
from _multitables.errors import StoreError
from _multitables.index.chunk_index import SourceFile
from _multitables.index.files.reach import Reach
from _multitables.index.files.stored_files import fingerprint_of
from _multitables.remote.names import absolute, folder_of, is_remote, joined
from _multitables.remote.options import StorageOptions

ORIGIN = "${ORIGIN}"
#: With more of them, which are tiny then, a library is as fast.
MAX_CHUNKS = 1 << 16


class Piece(NamedTuple):
    """Bytes of a dataset that lie together in a raw file."""

    file: SourceFile
    offset: int
    n_bytes: int


def whole_pieces(
    filename: str, stored: StoredDataset, reach: Reach, storage: StorageOptions
) -> tuple[list[Piece], int] | None:
    """Return where all bytes of a dataset lie, and the rows of chunks if in several."""
    dims, segments = stored.dims, stored.external_files
    row_bytes = math.prod(dims[1:]) * stored.element_bytes
    pieces = raw_pieces(filename, segments, math.prod(dims[:1]) * row_bytes, reach, storage)
    rows = rows_of_all(pieces, row_bytes) if len(pieces) > 1 else 0
    return (pieces, rows) if rows or len(pieces) == 1 else None


def raw_pieces(
    filename: str,
    segments: Sequence[tuple[bytes, int, int]],
    n_bytes: int,
    reach: Reach,
    storage: StorageOptions,
) -> list[Piece]:
    """Return where `n_bytes` of a dataset lie, in their order; nothing if some are not there.

    Parameters
    ----------
    filename : str
        The HDF5 file, absolute.
    segments : sequence of (bytes, int, int)
        Names of raw files, where bytes of the dataset begin in each, and how many may lie there.
    reach : Reach
        Which files it may name.
    storage : StorageOptions
        How stores are asked.

    Raises
    ------
    LinkRefusedError
        One of them is out of reach.
    StoreError
        A store does not say whether it has one of them.
    """
    pieces: list[Piece] = []
    for name, offset, size in segments:
        taken = min(size, n_bytes)
        if not taken:
            continue
        path = _place(filename, os.fsdecode(name))
        reach.check(path)
        try:
            found = fingerprint_of(path, storage)
        except StoreError:
            raise
        except OSError:
            return []
        is_file = is_remote(path) or os.path.isfile(path)
        if not is_file or found.size_bytes < offset + taken:
            return []
        reach.check_opened(path, found.device, found.inode)
        pieces.append(Piece(SourceFile(path, found), offset, taken))
        n_bytes -= taken
    return [] if n_bytes else pieces


def rows_of_all(pieces: Sequence[Piece], row_bytes: int) -> int:
    """Return how many rows make equal chunks of which none lies in two pieces; 0: none do.

    They are about as large as blocks of data without chunks.
    """
    common = math.gcd(*(piece.n_bytes for piece in pieces))
    if not row_bytes or common % row_bytes:
        return 0
    rows, most = common // row_bytes, max(1, sizes.UNCHUNKED_BLOCK_BYTES // row_bytes)
    rows = max(n for n in range(1, min(rows, most) + 1) if rows % n == 0)
    chunks = sum(piece.n_bytes for piece in pieces) // (rows * row_bytes)
    return rows if chunks <= MAX_CHUNKS else 0


def _place(filename: str, name: str) -> str:
    """Return where the raw file of a name is looked for."""
    folder, prefix = folder_of(filename), os.environ.get("HDF5_EXTFILE_PREFIX", "")
    if prefix.startswith(ORIGIN):
        prefix = joined(folder, prefix.removeprefix(ORIGIN).lstrip("/"))
    if not is_remote(filename):
        return absolute(os.path.join(absolute("") or os.curdir, prefix, name))
    if os.path.isabs(name):
        name = os.path.basename(name)
    return absolute(joined(prefix if is_remote(prefix) else folder, name))
