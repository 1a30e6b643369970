"""A dataset that is needed as a whole before anything else can be read: offsets, or keys.

Law
---
1. Read in this process, on threads of its own, natively or not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.machine import available_cores
from _multitables.parent.readers import error_report
from _multitables.parent.readers.place import place_of_request
from _multitables.plan.dataset_table import lookup_table
from _multitables.wire.plan_bytes import encode_datasets


def whole(index: ChunkIndex) -> npt.NDArray[Any]:
    """Read all of a dataset that the core reads.

    Raises
    ------
    UnsupportedDatasetError
        A library would have to read it.
    CorruptChunkError
        A chunk of it does not decode. Others as of a stream.
    """
    table = lookup_table(index, direct=False, native_filters=_core.native_filters())
    (dataset,) = table.datasets
    out = np.empty(index.shape, index.dtype)
    if dataset.reason:
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r}, which is needed as a whole, is not read "
            f"natively: {dataset.reason}",
            advice="Store it without this filter",
            path=index.path,
            filename=index.filename,
        )
    if not out.size:
        return out
    core = _core.LocalReader(available_cores(), 0).dataset(encode_datasets(table))
    try:
        core.read_rows(0, 1, index.n_rows, out)
    except _core.ReadFailed as failure:
        record = error_report.Record.of(failure.args)
        chunk = None if record.chunk is None else core.chunk(record.chunk)
        place = place_of_request(table.of_chunk(record.chunk), chunk)
        raise error_report.task_error(place, record) from None
    return out
