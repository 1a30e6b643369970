"""Blocks as arrays, record batches and streams of Arrow.

Law
---
1. Every conversion of values to Arrow is `arrow_array`. It shares the memory of numbers of this
   machine's byte order that lie one after the other, and copies all else: fields of a table, which
   lie between others, numbers of the other byte order, bools, which are bits in Arrow, and texts.
2. A consumer of a stream may keep each record batch for ever. It gets the memory of a block only if
   readers do not need that memory again; of other blocks it gets a copy.
3. The schema is known before a block is taken: a consumer that only looks at it takes none.

This file must never know files or readers.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, UnsupportedDatasetError
from _multitables.parent.libraries import imported
from _multitables.plan.reader_options import StreamOptions
from _multitables.tree import Paths, structure_of

Array = npt.NDArray[Any]

#: Kinds of dtypes whose numbers Arrow has, too.
NUMBERS = "iufmM"


def arrow_array(values: Any, name: str, *, owns: bool = False) -> Any:
    """Return an array of Arrow with an element for each row.

    Parameters
    ----------
    values : numpy.ndarray, RaggedBlock, or tuple or dict of numpy.ndarray
        Of a compound type, and of a tuple or dict, structs. Rows of one axis or more become lists
        of a fixed size.
    name : str
        The column, for messages.
    owns : bool, optional
        Share no memory.
    """
    pa = imported("pyarrow", "Arrow")
    if isinstance(values, tuple):
        values = dict(enumerate(values))
    if not isinstance(values, dict | np.ndarray):
        return (values.copy() if owns else values).to_arrow()
    if not isinstance(values, dict) and values.ndim > 1:
        n_rows, extent, *others = values.shape
        inner = arrow_array(values.reshape(n_rows * extent, *others), name, owns=owns)
        kind = pa.list_(inner.type, extent)
        return pa.Array.from_buffers(kind, n_rows, [None], children=[inner])
    if not isinstance(values, dict) and values.dtype.names:
        values = {field: values[field] for field in values.dtype.names}
    if isinstance(values, dict):
        parts = [arrow_array(part, f"{name}/{key}", owns=owns) for key, part in values.items()]
        return pa.StructArray.from_arrays(parts, list(map(str, values)))
    return _flat(pa, values, name, owns)


def text_array(offsets: npt.NDArray[np.int64], text: Array) -> Any:
    """Return strings that lie one after the other, as UTF-8."""
    pa = imported("pyarrow", "Arrow")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    strings = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    try:
        strings.validate(full=True)
    except pa.ArrowException as error:
        raise UnsupportedDatasetError(
            f"strings are not UTF-8, as those of Arrow are: {error}",
            good="Blocks themselves are arrays of NumPy, with the bytes as they are stored",
            advice="Decode them as what they are",
        ) from None
    return strings


def _flat(pa: Any, values: Array, name: str, owns: bool) -> Any:
    dtype = values.dtype
    if dtype.kind == "S":
        return _texts(values)
    if dtype.kind == "V" and dtype.itemsize:
        opaque = pa.py_buffer(np.array(values, order="C", copy=owns or None))
        return pa.Array.from_buffers(pa.binary(dtype.itemsize), len(values), [None, opaque])
    try:
        if dtype.kind in NUMBERS:
            return pa.array(np.array(values, dtype.newbyteorder("="), order="C", copy=owns or None))
        if dtype.kind == "b":
            return pa.array(values)
    except pa.ArrowException:
        pass
    raise UnsupportedDatasetError(
        f"Arrow has no type for {dtype} of column {name!r}",
        good="Blocks themselves are arrays of NumPy",
        advice="Name the other columns, or datasets, and take this one as blocks of NumPy",
        dtype=dtype,
    )


def _texts(values: Array) -> Any:
    """Return strings of a fixed size without the zero bytes at their ends, as NumPy has them."""
    lengths = np.char.str_len(values)
    each = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return text_array(ends, each[np.arange(each.shape[1]) < lengths[:, None]])


class BlockTable:
    """How blocks become record batches.

    Parameters
    ----------
    path, field
        The datasets of the blocks, as the user named them.
    nothing : list
        The arrays of a block without rows.

    Notes
    -----
    Of a dict of paths, its keys are the columns; else the last part of each path, or the whole
    paths where these are equal. The fields of a single table are columns themselves.
    """

    def __init__(self, path: Paths, field: str | None, nothing: list[Any]) -> None:
        self._structure, leaves = structure_of(path)
        whole = [f"{leaf}/{field}" if field else str(leaf) for leaf in leaves]
        last = [posixpath.basename(one.rstrip("/")) for one in whole]
        names = last if len(set(last)) == len(last) else [one.strip("/") for one in whole]
        self.names = list(map(str, self._structure.keys)) if self._structure.keys else names
        if len(set(self.names)) < len(self.names):
            raise OptionsError(
                f"two columns of a table of Arrow have one name, got {self.names}",
                advice="Give the paths in a dict, whose keys are the names",
                option="path",
                got=path,
            )
        self.schema = self.batch(self._structure.pack(nothing)).schema

    def columns(self, block: Any) -> Mapping[str, Any]:
        """Return the values of each column of a block."""
        arrays = self._structure.arrays(block)
        first = arrays[0]
        if self._structure.keys is None and isinstance(first, np.ndarray) and first.dtype.names:
            return {name: first[name] for name in first.dtype.names}
        return dict(zip(self.names, arrays, strict=True))

    def batch(self, block: Any, *, owns: bool = False) -> Any:
        """Return a block as a record batch."""
        return record_batch(self.columns(block), owns=owns)

    def reader(self, blocks: Iterable[tuple[Any, bool]]) -> Any:
        """Return a reader of blocks, each with whether readers need its memory again."""
        batches = (self.batch(block, owns=owns) for block, owns in blocks)
        return reader_of(self.schema, batches)


def table_of(
    path: Paths, field: str | None, wanted: StreamOptions, nothing: list[Any]
) -> BlockTable:
    """Return the table of a stream with these options, or refuse what is not a table of all rows.

    Raises
    ------
    OptionsError
        The stream lacks the rows that fill no block, or has several versions.
    """
    if wanted.has_versions:
        raise OptionsError(
            f"several versions are not one table, got version={wanted.version!r}",
            advice="Stream one version after the other",
            option="version",
            got=wanted.version,
        )
    if not (wanted.remainder or wanted.cyclic or wanted.follow):
        raise OptionsError(
            "a table would lack the last rows, which do not fill a block (expected a queue with "
            "remainder=True, got remainder=False)",
            advice="Write get_queue(path, remainder=True)",
            option="remainder",
            expected=True,
            got=False,
        )
    return BlockTable(path, field, nothing)


def record_batch(columns: Mapping[str, Any], *, owns: bool = False) -> Any:
    """Return columns of equal length as a record batch."""
    pa = imported("pyarrow", "Arrow")
    arrays = [arrow_array(values, name, owns=owns) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def reader_of(schema: Any, batches: Iterator[Any]) -> Any:
    """Return a reader of record batches, which takes the next one when its consumer wants it."""
    return imported("pyarrow", "Arrow").RecordBatchReader.from_batches(schema, batches)
