"""One array, or a tuple or dict of them: what a block or batch is, whatever made its arrays.

Law
---
1. A batch has the structure of the `path` that was asked for, also after a change of its arrays.
2. Only this file knows the three kinds of structure. As in JAX's pytrees, others pack arrays, take
   them out, or map over them.
3. Knows no library but NumPy, and no file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _multitables.errors import OptionsError


class NamedArrays(Mapping[str, Any]):
    """A mapping from names to arrays, or to what has some."""

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, kept as an offsets dataset beside flat ones.

    Row ``i`` has the elements ``offsets[i]:offsets[i + 1]`` of each flat dataset, as in sparse
    matrices by rows (AnnData's ``indptr``, 10x's) and in Awkward Array's buffers. It stands for a
    path where streams and batches take one.

    Parameters
    ----------
    values : str, or tuple or dict of str
        The flat dataset, or several of equal length.
    offsets : str, optional
        The dataset of offsets, which has one more than there are rows.
    indices : str, optional
        Of a sparse matrix, the flat dataset of column indices.
    n_columns : int, optional
        Columns of the sparse matrix, for what is made of its blocks.
    ends : str, optional
        In place of `offsets`, a dataset that says only where each row ends, as the indexes of NWB's
        tables do.

    Examples
    --------
    >>> X = multitables.Ragged("/X/data", "/X/indptr", indices="/X/indices", n_columns=30_000)
    """

    values: str | Sequence[str] | Mapping[Any, str]
    offsets: str | None = None
    indices: str | None = None
    n_columns: int | None = None
    ends: str | None = None

    def __post_init__(self) -> None:
        _, paths = structure_of(self.values)
        named = [*paths, self.offsets or self.ends, self.indices or ""]
        if not all(isinstance(one, str) for one in named) or (self.offsets and self.ends):
            raise _no_path(self, "made of a str for each dataset, and of offsets or ends")

    def __str__(self) -> str:
        return self.offsets or str(self.ends)


#: What stands for one array or ragged block.
Leaf = str | Ragged
#: What `path` may be: one, or several of equal outer length.
Paths = Leaf | Sequence[Leaf] | Mapping[Any, Leaf]


@dataclass(frozen=True)
class Structure:
    """How arrays are put together."""

    #: None for one array, () for a tuple of arrays, or the keys of a dict.
    keys: tuple[Any, ...] | None

    def pack(self, arrays: Iterable[Any]) -> Any:
        """Return the one array, or the arrays in their tuple or dict."""
        if self.keys is None:
            (array,) = arrays
            return array
        return dict(zip(self.keys, arrays, strict=True)) if self.keys else tuple(arrays)

    def arrays(self, packed: Any) -> list[Any]:
        """Return the arrays of what `pack` made."""
        if self.keys is None:
            return [packed]
        return list(packed.values() if self.keys else packed)

    def rows(self, arrays: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows of arrays of equal length, each packed."""
        if self.keys is None:
            return iter(arrays[0])
        rows = zip(*arrays, strict=True)
        return map(self.pack, rows) if self.keys else rows


def map_arrays(change: Callable[[Any], Any], batch: Any) -> Any:
    """Return the batch with `change` applied to every array."""
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


def structure_of(path: object) -> tuple[Structure, list[Any]]:
    """Split `path` into the structure of blocks and the paths of their arrays, or `Ragged`."""
    if isinstance(path, Ragged):
        return Structure(None), [path]
    if isinstance(path, Mapping):
        structure, paths = Structure(tuple(path)), list(path.values())
    elif isinstance(path, Sequence) and not isinstance(path, (str, bytes)):
        structure, paths = Structure(()), list(path)
    else:
        return Structure(None), [one_path(path, "a str, or a list, tuple or dict of str")]
    if not paths or not all(isinstance(one, (str, Ragged)) for one in paths):
        raise _no_path(path, "a str, or a list, tuple or dict of str")
    return structure, paths


def one_path(path: object, wanted: str = "a str") -> str:
    """Return the path of one dataset; a PyTables node or h5py dataset knows its own."""
    if isinstance(path, (str, bytes, os.PathLike)):
        return os.fsdecode(path)
    inside = getattr(path, "_v_pathname", None) or getattr(path, "name", None)
    if not isinstance(inside, str):
        raise _no_path(path, wanted)
    return inside


def _no_path(path: object, wanted: str) -> OptionsError:
    return OptionsError(
        f"path must be {wanted}, got {path!r}",
        advice="Give the dataset's path in the file, like '/images'",
        option="path",
        got=path,
    )
