"""A dataset of a file as the file describes it: before its index, which says where its chunks lie.

Law
---
1. Values: what was read of the file once.
2. A dataset that has no rows of one size is an error that names the file and the path.
3. The table of a dataset that lies in its file alone is made here, by one call of the core, for
   handles, requests and streams.
"""

from __future__ import annotations

from typing import NamedTuple

from _multitables import _core, sizes
from _multitables._core import Datatype, Mappings, StoredDataset
from _multitables.index.chunk_index import SourceFile
from _multitables.index.opened.open_files import OpenFile, Place
from _multitables.index.types import hdf5_errors, hdf5_metadata
from _multitables.index.types.element_type import FieldType, field_type
from _multitables.index.types.hdf5_metadata import Attribute
from _multitables.index.types.numpy_type import NoDtypeError, Unsupported


class DescribedDataset(NamedTuple):
    """What the core reports of a dataset."""

    place: Place
    stored: StoredDataset
    datatype: Datatype
    attributes: list[Attribute]
    #: Of a virtual dataset that grows, as long as it is by now.
    mappings: Mappings | None

    @property
    def pytables(self) -> bool:
        """Whether PyTables wrote it."""
        return hdf5_metadata.is_pytables(self.attributes)

    @property
    def dims(self) -> tuple[int, ...]:
        dims, is_null = self.stored.dims, self.stored.is_null
        if dims and not is_null:
            return dims
        raise hdf5_errors.no_dims(self.place.file.filename, self.place.path, is_null)

    @property
    def is_ragged(self) -> bool:
        """Whether each row has a length of its own."""
        is_any = self.datatype.kind in ("sequence", "variable_string")
        return is_any and len(self.stored.dims) == 1 and not self.stored.is_null


class StoredField(NamedTuple):
    """A dataset, or a column of it, that lies in one file."""

    dataset: DescribedDataset
    part: FieldType


def plain_table(file: OpenFile, stored: StoredDataset, part: FieldType) -> _core.Table | None:
    """Make the table of a dataset, or of a column, whose bytes lie in its file alone.

    None: other files have some, the core does not decode it, or it is damaged.
    """
    source = SourceFile(file.filename, file.fingerprint).for_table()
    piece = sizes.REMOTE_TASK_BYTES if file.fingerprint.access else sizes.PIECE_BYTES
    try:
        return stored.table(source, part.for_table, piece)
    except hdf5_errors.FROM_CORE:
        return None


def field_type_in(dataset: DescribedDataset, field: str | None, mixed: bool = False) -> FieldType:
    """Return what elements are, or a column of them; with `mixed`, less members of no fixed size.

    Raises
    ------
    UnsupportedDatasetError, MissingFieldError
        They have no fixed size; no such column.
    """
    path, filename = dataset.place.path, dataset.place.file.filename
    try:
        datatype = (mixed and dataset.datatype.fixed()) or dataset.datatype
        return field_type(datatype, field, dataset.pytables)
    except NoDtypeError:
        raise
    except Unsupported as error:
        left = dataset.datatype.fixed()
        others = left.fields if left else ()
        raise hdf5_errors.not_fixed(filename, path, str(error), others) from None
    except KeyError as error:
        raise hdf5_errors.no_such_field(filename, path, *error.args) from None
