"""From groups and names to columns: which datasets they are, and the rows of each index value.

Law
---
1. The columns of the index are read as a whole, in this process; of all others only where they lie.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from _multitables.errors import OptionsError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.hdf5_file import Source
from _multitables.index.open_files import children
from _multitables.parent.readers.whole_dataset import whole
from _multitables.parent.stream.open_stream import DataSpec, Opened, check_lengths, opened_of
from _multitables.plan.key_groups import KeyRows, UnsortedError, rows_by_key
from _multitables.tree import structure_of


@dataclass(frozen=True)
class OpenedColumns:
    """Columns by group, and the rows of each value of their index."""

    filename: str
    #: What each group is called in blocks.
    groups: Mapping[str, Opened]
    index: tuple[str, ...]
    rows: KeyRows
    #: One group was named, not a dict of some.
    is_single: bool

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of every group."""
        opened = self.groups.values()
        return sum(index.row_bytes for one in opened for index in one.indexes)


def open_columns(
    spec: DataSpec,
    groups: str | Mapping[str, Sequence[str] | None],
    columns: Sequence[str] | None,
    index: str | Sequence[str],
) -> OpenedColumns:
    """Find the columns of some groups.

    Raises
    ------
    OptionsError
        Columns beside a dict of groups, or no groups.
    UnsupportedDatasetError
        Columns of different lengths, an index of more than one axis or that does not ascend.
    """
    named = {groups: columns} if isinstance(groups, str) else dict(groups)
    keys = (index,) if isinstance(index, str) else tuple(index)
    if not named or not keys or (columns is not None and not isinstance(groups, str)):
        raise OptionsError(
            f"columns must be given with one group, or in a dict of groups, got {groups!r}",
            advice="Write get_columns({'a': ['x'], 'b': ['y']}, index='evt.seq')",
            option="group",
            got=groups,
        )
    found: dict[str, Opened] = {}
    values: dict[str, list[npt.NDArray[Any]]] = {}
    with spec.file.open() as source:
        for group, chosen in named.items():
            names = list(chosen) if chosen is not None else list(_columns(source, group, keys))
            structure, _ = structure_of({name: name for name in names or keys})
            key_indexes = [source.index(f"{group}/{name}") for name in keys]
            indexes = [source.index(f"{group}/{name}") for name in names]
            check_lengths([*key_indexes, *indexes])
            opened = opened_of(spec, source, structure, indexes or key_indexes)
            found[group] = replace(opened, indexes=indexes)
            values[group] = [_key(one) for one in key_indexes]
        filename = source.filename
    try:
        rows = rows_by_key(values)
    except UnsortedError as error:
        path = posixpath.join(error.group, keys[0])
        raise UnsupportedDatasetError(
            f"row {error.row} of {path!r} in {filename!r} comes before the row above it by "
            f"{', '.join(keys)} (expected several groups to be sorted by their index)",
            advice="Stream the groups one by one, or sort the file",
            path=path,
            filename=filename,
        ) from None
    return OpenedColumns(filename, found, keys, rows, isinstance(groups, str))


def _columns(source: Source, group: str, keys: Sequence[str]) -> Iterator[str]:
    """Yield the names of a group's datasets, except the index."""
    place = source.find(group)
    for name in sorted(children(place)):
        inside = source.find(f"{group}/{name}")
        if name not in keys and inside.file.metadata.kind(inside.offset) == "dataset":
            yield name


def _key(index: ChunkIndex) -> npt.NDArray[Any]:
    if any(dim != 1 for dim in index.shape[1:]) or index.dtype.kind not in "iufSb":
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r} cannot be an index (expected numbers or strings "
            f"of one size, one for each row, got {index.dtype} of shape {index.shape})",
            advice="Name columns whose rows can be compared",
            path=index.path,
            filename=index.filename,
        )
    return whole(index).reshape(-1)
