"""The raw file that an external dataset's bytes lie in, found as HDF5 finds it.

Law
---
1. A name is below ``HDF5_EXTFILE_PREFIX``, in which a leading ``${ORIGIN}`` is the folder of the
   HDF5 file; without it, below the current directory.
2. Only a file that has all of the dataset's bytes is told. What HDF5 makes of others (zeros behind
   the end of a short one, an error for a missing one) is left to it.

This file must never know chunks or types.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from _multitables.index.chunk_index import Fingerprint, SourceFile

ORIGIN = "${ORIGIN}"


def raw_file(
    filename: str, segments: Sequence[tuple[bytes, int, int]], n_bytes: int
) -> tuple[SourceFile, int] | None:
    """Return the file that holds `n_bytes` of a dataset, and where they begin in it.

    Parameters
    ----------
    filename : str
        The HDF5 file, absolute.
    segments : sequence of (bytes, int, int)
        Names of raw files, where the dataset's bytes begin in each, and how many may lie there.

    Returns
    -------
    None
        They lie in several, or not all of them are there.
    """
    name, offset, size = segments[0]
    if size < n_bytes:
        return None
    path = os.path.abspath(os.path.join(_prefix(filename), os.fsdecode(name)))
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_size < offset + n_bytes:
        return None
    return SourceFile(path, Fingerprint.of(found)), offset


def _prefix(filename: str) -> str:
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "")
    if prefix.startswith(ORIGIN):
        return os.path.dirname(filename) + os.sep + prefix[len(ORIGIN) :]
    return prefix
