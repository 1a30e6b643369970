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
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, public


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


#: The path of a dataset of whole numbers, or the numbers.
WholeNumbers = str | Sequence[int] | npt.NDArray[np.integer[Any]]
#: What may say where rows of different lengths lie.
NUMBERS = [
    {"offsets"},
    {"starts"},
    {"ends"},
    {"lengths"},
    {"starts", "ends"},
    {"starts", "lengths"},
]


@public
@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths, whose elements lie in flat datasets.

    It stands for a path where streams and batches take one. Where rows lie is said by one of
    `offsets`, `starts`, `ends` and `lengths`, or by `starts` with `ends` or `lengths`: each the
    path of a dataset, or an array of whole numbers.

    Parameters
    ----------
    values : str, or tuple or dict of str
        The flat dataset, or several of equal length.
    offsets : str or array of int, optional
        Row ``i`` has the elements ``offsets[i]:offsets[i + 1]``; there is one more of them than
        there are rows. As in sparse matrices by rows (AnnData's ``indptr``, 10x's) and in Awkward
        Array's buffers.
    indices : str, optional
        Of a sparse matrix, the flat dataset of column indices.
    n_columns : int, optional
        Columns of the sparse matrix, for what is made of its blocks.
    ends : str or array of int, optional
        Where each row ends, as the indexes of NWB's tables say. Without `starts`, it begins where
        the one before it ends.
    starts : str or array of int, optional
        Where each row begins, as NeXus' ``event_index`` says. Without `ends` and `lengths`, it ends
        where the next one begins, and the last one at the end of the data.
    lengths : str or array of int, optional
        How many elements each row has. Without `starts`, rows follow each other.
    gaps : bool, optional
        Leave out elements that belong to no row. Default: they are an error, as numbers of another
        kind than these would lose them.

    Examples
    --------
    >>> X = multitables.Ragged("/X/data", "/X/indptr", indices="/X/indices", n_columns=30_000)
    >>> pulses = multitables.Ragged("/event_id", starts="/event_index")
    """

    values: str | Sequence[str] | Mapping[Any, str]
    offsets: WholeNumbers | None = None
    indices: str | None = None
    n_columns: int | None = None
    ends: WholeNumbers | None = None
    _: KW_ONLY
    starts: WholeNumbers | None = None
    lengths: WholeNumbers | None = None
    gaps: bool = False

    def __post_init__(self) -> None:
        _, paths = structure_of(self.values)
        paths = paths if self.indices is None else [*paths, self.indices]
        if not all(isinstance(one, str) for one in paths):
            raise _no_path(self.values, "made of a str for each dataset")
        given = self.numbers
        if set(given) not in NUMBERS:
            raise OptionsError(
                "Ragged needs offsets, starts, ends or lengths, or starts with ends or lengths, "
                f"got {' and '.join(given) or 'none of them'}",
                advice="Name the dataset that says where rows begin and end",
                option=next(iter(given), "offsets"),
            )
        for name, one in given.items():
            object.__setattr__(
                self, name, one if isinstance(one, str) else whole_numbers(name, one)
            )

    @property
    def numbers(self) -> dict[str, str | npt.NDArray[Any]]:
        """The given offsets, starts, ends or lengths, by name."""
        each = {name: getattr(self, name) for name in ("offsets", "starts", "ends", "lengths")}
        return {name: one for name, one in each.items() if one is not None}

    def __str__(self) -> str:
        return str(structure_of(self.values)[1][0])


def whole_numbers(name: str, given: Any, most_axes: int = 1) -> npt.NDArray[Any]:
    """Return a private copy of whole numbers."""
    try:
        numbers = np.array(given)
    except Exception:  # noqa: BLE001 - what others make of themselves may fail in any way
        numbers = np.array(None)
    if numbers.shape == (0,) and numbers.dtype.kind == "f":  # an empty list
        numbers = np.zeros(0, np.int64)
    if not 1 <= numbers.ndim <= most_axes or numbers.dtype.kind not in "iu":
        raise OptionsError(
            f"{name} must be the path of a dataset, or whole numbers in "
            f"{'one dimension' if most_axes == 1 else 'one or two dimensions'}, got "
            f"{given!r:.60} ({type(given).__name__})",
            advice="Give the dataset's path in the file, like '/offsets', or an array of int",
            option=name,
            got=given,
        )
    numbers.setflags(write=False)
    return numbers


@public
@dataclass(frozen=True)
class Joined:
    """Datasets of one file whose rows follow each other, as if they were one.

    It stands for a path where streams and batches take one. Of several files, the rows of all
    datasets of the first come first, then those of the next.

    Parameters
    ----------
    paths : str or sequence of str
        The datasets, in the order of their rows, which are of one type and shape. A path with
        wildcards (``"/runs/*/images"``) means the datasets that match, sorted by name, with numbers
        in order. A path that is there as it is written is that dataset.

    Examples
    --------
    >>> images = multitables.Joined("/runs/*/images")
    >>> images = multitables.Joined(["/night/images", "/day/images"])
    """

    paths: str | Sequence[str]

    def __post_init__(self) -> None:
        paths: Any = self.paths
        is_several = isinstance(paths, Iterable) and not isinstance(paths, (str, bytes))
        named = tuple(paths) if is_several else (paths,)
        if not named or not all(isinstance(one, str) for one in named):
            raise _no_path(self.paths, "made of a str for each dataset")
        object.__setattr__(self, "paths", named)

    def __str__(self) -> str:
        return " + ".join(self.paths)


#: What stands for one array or ragged block.
Leaf = str | Ragged | Joined
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
    if isinstance(batch, dict | NamedArrays):
        return {name: map_arrays(change, array) for name, array in batch.items()}
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
    if isinstance(path, Leaf):
        return Structure(None), [path]
    if isinstance(path, Mapping):
        structure, paths = Structure(tuple(path)), list(path.values())
    elif isinstance(path, Sequence) and not isinstance(path, bytes):
        structure, paths = Structure(()), list(path)
    else:
        return Structure(None), [one_path(path, "a str, or a list, tuple or dict of str")]
    if not paths or not all(isinstance(one, Leaf) for one in paths):
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
