"""From groups and names to columns: which datasets they are, and the keys of their rows.

Law
---
1. Nothing is read but where columns lie. Keys are read by this process, as far as it needs them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from _multitables import _core
from _multitables.errors import OptionsError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.hdf5_file import Source
from _multitables.index.open_files import children
from _multitables.machine import available_cores
from _multitables.parent.readers.local_rows import LocalRows
from _multitables.parent.stream.open_stream import DataSpec, Opened, check_lengths, opened_of
from _multitables.parent.titles import file_title
from _multitables.plan.key_groups import Key, Rows, UnsortedError
from _multitables.tree import structure_of

#: Decoded chunks of keys that are kept while parts of them are searched.
KEPT_BYTES = 64 << 20


class GroupKeys:
    """The key of a group's rows."""

    def __init__(self, columns: Sequence[LocalRows]) -> None:
        self._columns = columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._columns[0].index.n_rows

    def rows(self, begin: int, end: int) -> Key:
        """Return some rows of its columns."""
        return [column.read(begin, end).reshape(-1) for column in self._columns]


@dataclass(frozen=True)
class ColumnGroup:
    """A group's columns, by the names that they have in blocks, and its key."""

    indexes: Mapping[str, ChunkIndex]
    keys: GroupKeys


@dataclass(frozen=True)
class OpenedColumns:
    """Columns by group."""

    filename: str | list[str]
    groups: Mapping[str, ColumnGroup]
    #: All columns of all groups, one behind the other.
    opened: Opened
    #: Names of the columns of the index.
    index: tuple[str, ...]
    #: One group was named, not a dict of some.
    is_single: bool
    #: Reads keys.
    reader: _core.LocalReader

    @property
    def keys(self) -> list[GroupKeys]:
        """The key of each group."""
        return [group.keys for group in self.groups.values()]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of every group."""
        return sum(index.row_bytes for index in self.opened.indexes)

    @property
    def everything(self) -> tuple[Rows, Rows]:
        """All rows of all groups."""
        ends = tuple(keys.n_rows for keys in self.keys)
        return (0,) * len(ends), ends

    def unsorted(self, error: UnsortedError) -> UnsupportedDatasetError:
        """Compose the error for keys that do not ascend."""
        path = posixpath.join(list(self.groups)[error.group], self.index[0])
        return UnsupportedDatasetError(
            f"row {error.row} of {path!r} in {file_title(self.filename)} comes before the row "
            f"above it by {', '.join(self.index)} (expected several groups to be sorted by their "
            "index)",
            advice="Stream the groups one by one, or sort the file",
            path=path,
            filename=self.filename,
        )


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
        Columns of different lengths, or an index of more than one axis.
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
    found: dict[str, ColumnGroup] = {}
    reader = _core.LocalReader(available_cores(), KEPT_BYTES)
    with spec.file.open() as source:
        names = {
            group: list(_columns(source, group, keys) if chosen is None else chosen)
            for group, chosen in named.items()
        }
        paths = [f"{group}/{name}" for group in names for name in (*keys, *names[group])]
        each = iter(source.index_all(paths))
        for group, inside in names.items():
            key_indexes = [next(each) for _ in keys]
            indexes = {name: next(each) for name in inside}
            check_lengths([*key_indexes, *indexes.values()])
            group_keys = GroupKeys([_key(one, reader) for one in key_indexes])
            found[group] = ColumnGroup(indexes, group_keys)
        flat = [one for group in found.values() for one in group.indexes.values()]
        structure, _ = structure_of([index.path for index in flat or key_indexes])
        opened = opened_of(spec, source, structure, flat or key_indexes)
        opened = replace(opened, indexes=flat)
    filename = spec.file.filename if spec.file.is_several else source.filename
    return OpenedColumns(filename, found, opened, keys, isinstance(groups, str), reader)


def _columns(source: Source, group: str, keys: Sequence[str]) -> Iterator[str]:
    """Yield the names of a group's datasets, except the index."""
    place = source.find(group)
    for name in sorted(children(place)):
        inside = source.find(f"{group}/{name}")
        if name not in keys and inside.ask("kind") == "dataset":
            yield name


def _key(index: ChunkIndex, reader: _core.LocalReader) -> LocalRows:
    if any(dim != 1 for dim in index.shape[1:]) or index.dtype.kind not in "iufSb":
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r} cannot be an index (expected numbers or strings "
            f"of one size, one for each row, got {index.dtype} of shape {index.shape})",
            advice="Name columns whose rows can be compared",
            path=index.path,
            filename=index.filename,
        )
    return LocalRows(index, reader)
