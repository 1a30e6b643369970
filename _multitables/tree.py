"""One array, or a tuple or dict of them: what a batch is, whatever library its arrays belong to.

Law
---
1. A batch has the form of the `path` that was asked for; who changes its arrays keeps its form.
2. Knows no library but NumPy, and no file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from _multitables.errors import OptionsError


def each(batch: Any, change: Callable[[Any], Any]) -> Any:
    """Return the batch with every array changed."""
    if isinstance(batch, dict):
        return {name: change(array) for name, array in batch.items()}
    if isinstance(batch, tuple):
        return tuple([change(array) for array in batch])
    return change(batch)


def native(array: Any) -> Any:
    """Return the array, or a copy in this machine's byte order if it has the other."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="))


#: What `path` may be: one path, or several of equal outer length.
Paths = str | Sequence[str] | Mapping[Any, str]


def members_of(path: object) -> tuple[list[Any] | None, list[str]]:
    """Split `path` into the kind of container (None, [] or keys) and the paths."""
    if isinstance(path, str):
        return None, [path]
    if isinstance(path, bytes):
        return None, [os.fsdecode(path)]
    if isinstance(path, Mapping):
        names, paths = list(path), list(path.values())
    elif isinstance(path, Sequence):
        names, paths = [], list(path)
    elif isinstance(path, os.PathLike):
        return None, [os.fspath(path)]
    else:
        # A PyTables node or h5py dataset knows its own path.
        inside = getattr(path, "_v_pathname", None) or getattr(path, "name", None)
        if isinstance(inside, str):
            return None, [inside]
        names, paths = None, [path]
    if not paths or not all(isinstance(one, str) for one in paths):
        raise OptionsError(
            f"path must be a str, or a list, tuple or dict of str, got {path!r}",
            advice="Give the dataset's path in the file, like '/images'",
            option="path",
            got=path,
        )
    return names, paths
