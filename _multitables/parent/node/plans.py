"""What a rank has opened or planned, as bytes for the other ranks of its node.

Law
---
1. Whole values: a rank that is given them is as if it had opened and planned itself, and may plan
   the next stream. Only the file that is held open, and what was counted, stay behind.
2. The bytes name what their rank requested; a rank that requests something else gets an error.
3. No rank is given Python objects in arrays, nor classes but those named here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from _multitables import errors
from _multitables.errors import MultitablesError, OptionsError
from _multitables.index.chunk_index import (
    AxisWindow,
    ByLibrary,
    ChunkIndex,
    Fingerprint,
    Joined,
    ManyFiles,
    Members,
    Ragged,
    SourceFile,
    Stored,
    Virtual,
)
from _multitables.index.types.cast import Cast
from _multitables.index.types.element_type import Conversion, ElementType, FieldType
from _multitables.index.types.hdf5_metadata import FilterSpec
from _multitables.index.types.kind import Kind
from _multitables.parent.stream.open_stream import Opened
from _multitables.plan.dataset_table import Dataset, DatasetTable
from _multitables.plan.key_groups import KeyRows
from _multitables.plan.ring_size import Tape
from _multitables.plan.row_order import OrderWords
from _multitables.plan.shared_chunks import Chosen
from _multitables.plan.stream_plan import ReadPlan
from _multitables.remote.access import Access
from _multitables.remote.options import StorageOptions
from _multitables.tree import Structure
from _multitables.wire import values

CLASSES: dict[str, type] = {
    one.__name__: one
    for one in (
        Access,
        AxisWindow,
        ByLibrary,
        Cast,
        Chosen,
        Conversion,
        Dataset,
        DatasetTable,
        ElementType,
        FieldType,
        FilterSpec,
        Fingerprint,
        Joined,
        KeyRows,
        Kind,
        ManyFiles,
        Members,
        OrderWords,
        Ragged,
        ReadPlan,
        SourceFile,
        StorageOptions,
        Stored,
        Tape,
        Virtual,
    )
}


def encode(wanted: bytes, value: tuple[Any, ...], known: Sequence[ChunkIndex] = ()) -> bytes:
    """Lay out what this rank made of its request; the others have the `known` indexes."""
    return values.encode((wanted, *value), known)


def decode(data: bytes, wanted: bytes, known: Sequence[ChunkIndex] = ()) -> tuple[Any, ...]:
    """Return what another rank made.

    Raises
    ------
    OptionsError
        That rank requested something else.
    ValueError
        The bytes are something else.
    """
    given = values.decode(data, CLASSES, known)
    if not isinstance(given, tuple) or given[:1] != (wanted,):
        raise OptionsError(
            "this rank wants other data than the rank of this node that planned the stream "
            "(expected equal options, files and places to go on)",
            advice="Give all ranks of a node the same options, and the states of all ranks",
            option="share",
        )
    return given[1:]


def of_opened(opened: Opened) -> tuple[Any, ...]:
    """Return what was opened as values that travel."""
    missing = {name: _of_error(error) for name, error in opened.missing_files.items()}
    fields = {**vars(opened), "indexes": tuple(opened.indexes), "missing_files": missing}
    del fields["structure"]
    return ({**fields, "open_options": json.dumps(dict(opened.open_options))},)


def opened_of(given: tuple[Any, ...], structure: Structure) -> Opened:
    """Return what another rank opened."""
    (fields,) = given
    fields["indexes"] = list(fields["indexes"])
    fields["open_options"] = json.loads(fields["open_options"])
    missing = fields["missing_files"].items()
    fields["missing_files"] = {name: _error_of(*parts) for name, parts in missing}
    return Opened(structure=structure, **fields)


def _of_error(error: MultitablesError) -> tuple[Any, ...]:
    values = {
        name: value if isinstance(value, (int, float, str, type(None))) else str(value)
        for name, value in error.values.items()
    }
    return type(error).__name__, error.happened, error.good, error.advice, values


def _error_of(
    kind: str, happened: str, good: str, advice: str, values: dict[str, Any]
) -> MultitablesError:
    known = getattr(errors, kind, MultitablesError)
    is_ours = isinstance(known, type) and issubclass(known, MultitablesError)
    error: type[MultitablesError] = known if is_ours else MultitablesError
    return error(happened, good=good, advice=advice, **values)
