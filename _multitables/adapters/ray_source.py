"""`RayDatasource`: datasets as a source of Ray Data.

Law
---
1. A task is a range of whole chunks. It is pickled as names and options, opens the files by these
   where it runs, and reads its own rows on threads, as Ray has processes of its own.
2. Columns are those of Arrow's streams; rows of more than one number are Ray's tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from ray import data
from ray.data.block import BlockMetadata
from ray.data.extensions import ArrowTensorArray

from _multitables.errors import UnsupportedDatasetError, public
from _multitables.index.files.name import Filename
from _multitables.parent.arrow import BlockTable, arrow_array
from _multitables.parent.ragged.open_rows import OpenedRows
from _multitables.parent.streamer import Streamer
from _multitables.parent.titles import file_title
from _multitables.plan.dataset_table import lead_of
from _multitables.tree import Paths

#: Bytes of a block that a task gives to Ray, about.
BLOCK_BYTES = 16 << 20


@public
class RayDatasource(data.Datasource):
    """A dataset, or several in lock-step, as a source of Ray Data.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`. Where tasks run on other machines, they have
        these names there.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length. Columns have the keys of a dict, or the
        last parts of the paths. The fields of a single table are columns.
    open_options : mapping, optional
        Options of `Streamer`. Tasks find credentials of stores in their environment, if not here.
    n_procs : int, optional
        Readers of a task. Default: 0, threads of the process of the task.
    **options
        Other options of `Streamer.get_queue` that say what is read of each row: ``field``,
        ``inner``, ``version``, ``dtype``, ``scale`` and ``decode``.

    Raises
    ------
    UnsupportedDatasetError
        Rows of different lengths, or a dtype that Arrow does not have (a `ValueError`). Other
        errors are those of `Streamer.get_queue`.

    Examples
    --------
    >>> source = multitables.RayDatasource("run7.h5", ("/images", "/labels"))  # doctest: +SKIP
    >>> ray.data.read_datasource(source).map_batches(train)  # doctest: +SKIP
    """

    def __init__(
        self,
        filename: Filename | Iterable[Filename],
        path: Paths,
        *,
        open_options: Mapping[str, Any] | None = None,
        n_procs: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        streamer = Streamer(filename, **(open_options or {}))
        chosen = {name: options[name] for name in ("field", "version") if name in options}
        with streamer.get_batches(path, 1, **chosen) as batches:
            opened = batches._opened()
        if isinstance(opened, OpenedRows):
            raise UnsupportedDatasetError(
                f"rows of {path!r} in {file_title(streamer.filename)} differ in length, and blocks "
                "of Ray Data have arrays",
                advice="Name datasets of equal rows, or stream it with Streamer.get_queue",
                path=path,
            )
        given = {**options, "n_procs": n_procs, "remainder": True}
        with streamer.get_queue(path, **given, rows=slice(0)) as queue:
            self._table, nothing = queue._block_table(), queue.source.nothing()
        self._n_rows = opened.indexes[0].n_rows
        self._row_bytes = sum(one.dtype.itemsize * math.prod(one.shape[1:]) for one in nothing)
        self._chunk_rows = opened.indexes[lead_of(opened.indexes)].block_size_default
        names = streamer.filename
        self._names = (names,) if isinstance(names, str) else tuple(names)
        given["block_size"] = max(1, BLOCK_BYTES // max(1, self._row_bytes))
        self._blocks = partial(_blocks, streamer, path, self._table, given)

    def get_name(self) -> str:
        """Return the name of the read tasks."""
        return "Multitables"

    def estimate_inmemory_data_size(self) -> int:
        """Return the bytes of all rows."""
        return self._n_rows * self._row_bytes

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: data.DataContext | None = None,
    ) -> list[data.ReadTask]:
        """Return tasks of about equally many whole chunks, at most `parallelism` of them."""
        chunks = math.ceil(self._n_rows / self._chunk_rows)
        step = self._chunk_rows * max(1, math.ceil(chunks / max(1, parallelism)))
        tasks = []
        for begin in range(0, self._n_rows, step):
            end = min(begin + step, self._n_rows)
            size = (end - begin) * self._row_bytes
            about = BlockMetadata(
                num_rows=end - begin, size_bytes=size, exec_stats=None, input_files=self._names
            )
            task = partial(self._blocks, slice(begin, end))
            tasks.append(data.ReadTask(task, about, per_task_row_limit=per_task_row_limit))
        return tasks


def _blocks(
    streamer: Streamer, path: Paths, table: BlockTable, options: Mapping[str, Any], rows: slice
) -> Iterator[pa.Table]:
    """Yield the blocks of a task, with memory of their own."""
    with streamer.get_queue(path, **options, rows=rows) as queue:
        for guard in queue:
            with guard as block:
                columns = table.columns(block)
                yield pa.table({name: _column(one, name) for name, one in columns.items()})


def _column(values: Any, name: str) -> Any:
    if isinstance(values, np.ndarray) and values.ndim > 1:
        return ArrowTensorArray.from_numpy(values.copy())
    return arrow_array(values, name, owns=True)
