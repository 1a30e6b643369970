"""Where the saved index of a file may be, and whether there is one.

Law
---
1. Most files have none: what reads one is imported when the first is there.
2. A manifest is known by its name.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from _multitables.remote.names import is_remote

if TYPE_CHECKING:
    from _multitables.index.chunk_index import Fingerprint
    from _multitables.index.metadata import Metadata

SUFFIX = ".mtidx"


def cache_folder() -> str:
    """Return the user's cache directory for indexes, which need not exist."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "multitables")


def is_manifest(filename: object) -> bool:
    """Whether a name is that of a manifest of many files, or of the saved index of one."""
    if not isinstance(filename, (str, bytes, os.PathLike)) or is_remote(filename):
        return False
    return os.fsdecode(filename).endswith(SUFFIX)


def places(filename: str) -> tuple[str, str]:
    """Where the index of a file may be: beside it, and in the user's cache directory."""
    import hashlib

    real = os.fsencode(filename if is_remote(filename) else os.path.realpath(filename))
    name = f"{hashlib.sha256(real).hexdigest()[:32]}{SUFFIX}"
    return filename + SUFFIX, os.path.join(cache_folder(), name)


@lru_cache(maxsize=64)
def _cached_name(filename: str, *_same: int) -> str:
    """Return the name of an index in the cache directory: a file that stays the same keeps it."""
    return os.path.basename(places(filename)[1])


def with_saved_index(filename: str, fingerprint: Fingerprint, file: Metadata) -> Metadata:
    """Put the saved index of a file before it, if there is one for the file as it is."""
    is_beside = not is_remote(filename) and _may_exist(filename + SUFFIX)
    folder = cache_folder()
    has_cache = _may_exist(folder)
    if not is_beside and not has_cache:
        return file
    found: list[tuple[str, str | None]] = [(filename + SUFFIX, filename)] if is_beside else []
    if has_cache:
        name = _cached_name(filename, fingerprint.device, fingerprint.inode)
        cached = os.path.join(folder, name)
        if _may_exist(cached):
            found.append((cached, None))
    if not found:
        return file
    from _multitables.index.saved.metadata import with_first

    return with_first(found, fingerprint, file)


def _may_exist(name: str) -> bool:
    """Whether there is such a file, or none can be seen to be missing."""
    try:
        os.lstat(name)
    except OSError as error:  # what opens it says what else is wrong
        return not isinstance(error, FileNotFoundError)
    return True
