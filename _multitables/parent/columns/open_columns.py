"""From groups and names to columns: which datasets they are, and the keys of their rows.

Law
---
1. Nothing is read but where columns lie. Keys are read by this process, as far as it needs them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from _multitables import _core
from _multitables.errors import OptionsError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import Source
from _multitables.index.joined.source import JoinedSource, Wanted, index_all
from _multitables.index.opened.open_files import Place, children
from _multitables.index.types.numpy_type import datatype_of
from _multitables.machine import available_cores
from _multitables.parent.readers.local_rows import LocalRows, local_reader
from _multitables.parent.stream.open_stream import DataSpec, Opened, check_lengths, opened_of
from _multitables.parent.stream.warnings_of_streams import warn_of_missing
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
    """The columns of a group or a table, and its key."""

    #: What is streamed: a dataset for each column, by its name; or a table alone, whose `members`
    #: are the columns.
    indexes: Mapping[str, ChunkIndex]
    members: tuple[str, ...] | None
    keys: GroupKeys

    def columns(self, arrays: Iterator[npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Take its columns of a block from the arrays of all groups."""
        streamed = {name: next(arrays) for name in self.indexes}
        if self.members is not None:
            (table,) = streamed.values()
            streamed = {name: table[name] for name in self.members}
        return {name: _squeezed(column) for name, column in streamed.items()}


def _squeezed(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column of shape (n, 1) as (n,)."""
    return column.reshape(-1) if column.shape[1:] == (1,) else column


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
    tables = dict[str, _Table]()
    with spec.file.open() as source:
        for group, chosen in named.items():
            tables[group] = _table_of(source, group, keys, chosen)
        wanted = [one for table in tables.values() for one in (*table.keys, *table.streamed)]
        try:
            indexes, missing = index_all(source, wanted)
        except UnsupportedDatasetError as error:
            raise _without_others(source, tables, error) from None
        found, flat, any_index = dict[str, ColumnGroup](), list[ChunkIndex](), indexes[:1]
        reader, each = local_reader(available_cores(), KEPT_BYTES), iter(indexes)
        for group, table in tables.items():
            key_indexes = [next(each) for _ in keys]
            own = {name: next(each) for name in table.names}
            check_lengths([*key_indexes, *own.values()])
            group_keys = GroupKeys([_key(one, reader) for one in key_indexes])
            found[group] = ColumnGroup(own, table.members, group_keys)
            flat += own.values()
        structure, _ = structure_of([index.path for index in flat or any_index])
        opened = opened_of(spec, source, structure, flat or any_index)
    warn_of_missing(missing)
    opened = replace(opened, indexes=flat, missing_files=missing)
    filename = spec.file.filename if spec.file.is_several else source.filename
    return OpenedColumns(filename, found, opened, keys, isinstance(groups, str), reader)


@dataclass(frozen=True)
class _Table:
    """What is indexed for the columns of a group, or of a table."""

    keys: list[Wanted]
    #: By name of the column, or one of a table whose `members` are columns.
    names: list[str]
    streamed: list[Wanted]
    members: tuple[str, ...] | None = None


def _table_of(
    source: Source, group: str, keys: Sequence[str], chosen: Sequence[str] | None
) -> _Table:
    """Find out what is to be indexed, in the first file that has the group."""

    def table_in(one: Source) -> _Table:
        place = one.find(group)
        with place.errors_named():
            if place.ask("kind") == "dataset":
                return _of_table(one, place, group, keys, chosen)
            names = list(_columns(one, place, keys) if chosen is None else chosen)
        return _Table(
            [Wanted(f"{group}/{key}") for key in keys],
            names,
            [Wanted(f"{group}/{name}") for name in names],
        )

    return source.of_first(table_in) if isinstance(source, JoinedSource) else table_in(source)


def _of_table(
    source: Source, place: Place, group: str, keys: Sequence[str], chosen: Sequence[str] | None
) -> _Table:
    """Return what is indexed of a table: all of it at once, so that a chunk is decoded once."""
    names = [name for name in _members(source, place) if name not in keys]
    columns = names if chosen is None else list(chosen)
    of_keys = [Wanted(group, key) for key in keys]
    if len(columns) > 1 and set(columns) <= set(names) and _is_direct(source, place):
        return _Table(of_keys, [group], [Wanted(group)], tuple(columns))
    return _Table(of_keys, columns, [Wanted(group, name) for name in columns])


def _members(source: Source, place: Place) -> list[str]:
    datatype = datatype_of(source.stored(place).datatype)
    if datatype.kind != "compound":
        raise UnsupportedDatasetError(
            f"{place.path!r} in {place.file.filename!r} has no columns (expected a group, or a "
            f"table of compounds, got a dataset of another type: {datatype.kind})",
            advice="Name the group that has the datasets",
            path=place.path,
            filename=place.file.filename,
        )
    return [name for name, _, _ in datatype.fields]


def _is_direct(source: Source, place: Place) -> bool:
    """Whether all members of a table can be streamed together."""
    try:
        source.index_at(place)
    except UnsupportedDatasetError:
        return False
    return True


def _without_others(
    source: Source, tables: Mapping[str, _Table], error: UnsupportedDatasetError
) -> UnsupportedDatasetError:
    """Say which columns can be streamed where one cannot; other refusals stay as they are."""

    def is_streamed(one: Wanted) -> bool:
        try:
            index_all(source, [one])
        except UnsupportedDatasetError:
            return False
        return True

    for group, table in tables.items():
        good = [n for n, one in zip(table.names, table.streamed, strict=True) if is_streamed(one)]
        if all(map(is_streamed, table.keys)) and len(good) < len(table.names):
            advice = f"Name the others: columns={good!r}" if good else "Name another group"
            if len(tables) > 1:
                advice = f"Name the others of {group!r}: {good!r}"
            return UnsupportedDatasetError(error.happened, advice=advice)
    return error


def _columns(source: Source, group: Place, keys: Sequence[str]) -> Iterator[str]:
    """Yield the names of a group's datasets, except the index."""
    for name in sorted(children(group)):
        inside = source.files.find(name, group)
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
