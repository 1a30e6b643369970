"""`scan_polars`: datasets as a lazy frame of Polars.

Law
---
1. A scan is a queue as a stream of Arrow. Datasets that a query does not name as columns are not
   read, nor rows behind its row limit.
2. A filter is computed block by block, each as a frame of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from _multitables.errors import public
from _multitables.index.files.name import Filename
from _multitables.parent.libraries import imported
from _multitables.parent.streamer import Streamer
from _multitables.tree import Paths, structure_of

#: Options that may name each dataset of several.
OF_EACH = {"inner", "dtype", "scale", "decode"}


@public
def scan_polars(
    filename: Filename | Iterable[Filename],
    path: Paths,
    *,
    open_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Give a dataset, or several in lock-step, as a lazy frame of Polars.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length. Columns have the keys of a dict, or the
        last parts of the paths. The fields of a single table are columns.
    open_options : mapping, optional
        Options of `Streamer`.
    **options
        Other options of `Streamer.get_queue`, such as ``n_procs`` or ``inner``, but for ``rows``,
        ``remainder``, ``cyclic``, ``follow`` and several versions.

    Returns
    -------
    polars.LazyFrame
        Each query reads the file. Of several datasets, only those are read that it names, and of a
        table only the field if it names one. A row limit (``head``) is passed on.

    Raises
    ------
    MissingLibraryError
        pyarrow is not installed (an `ImportError`). Other errors are those of `Streamer.get_queue`.

    Examples
    --------
    >>> frame = multitables.scan_polars("run7.h5", {"t": "/time", "e": "/energy"})  # doctest: +SKIP
    >>> frame.filter(pl.col("e") > 9).select("t").collect()  # doctest: +SKIP
    """
    imported("pyarrow", "multitables.scan_polars")
    streamer = Streamer(filename, **(open_options or {}))
    given = {**options, "remainder": True}
    with streamer.get_queue(path, **{**given, "rows": slice(0), "n_procs": 0}) as queue:
        table = queue._block_table()
    structure, leaves = structure_of(path)
    of_datasets = dict(zip(table.names, leaves, strict=True))
    is_table = structure.keys is None and table.schema.names != table.names

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        chosen, field = path, options.get("field")
        if columns and not (is_table or options.keys() & OF_EACH):
            chosen = {name: of_datasets[name] for name in columns}
        elif columns and is_table and len(columns) == 1:
            field = "/".join(filter(None, (field, columns[0])))
        wanted = {**given, "field": field, "rows": slice(n_rows)}
        with streamer.get_queue(chosen, **wanted) as queue:
            reader = imported("pyarrow", "Arrow").RecordBatchReader.from_stream(queue)
            for batch in reader:
                frame = pl.DataFrame(batch)
                frame = frame if predicate is None else frame.filter(predicate)
                yield frame.select(columns) if columns else frame

    return register_io_source(read, schema=dict(pl.DataFrame(table.schema.empty_table()).schema))
