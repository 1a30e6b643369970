"""`tf_dataset`: batches as a `tf.data.Dataset`.

Law
---
1. TensorFlow copies each batch that a Python generator gives it; then the block goes back.
2. Order and epochs are those of `Batches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from _multitables.adapters import no_dtype
from _multitables.index.files.name import Filename
from _multitables.index.joined.kept_source import KeptSource
from _multitables.options import wrong
from _multitables.parent.ragged.open_rows import OpenedRows
from _multitables.parent.ragged.open_samples import open_samples
from _multitables.parent.ragged.rows_of_requests import nothing
from _multitables.parent.stream.open_stream import DataSpec, Opened, open_data
from _multitables.parent.streamer import Streamer
from _multitables.parent.titles import file_title
from _multitables.plan.casts import bfloat16_of, check_casts
from _multitables.plan.samples import Ranges
from _multitables.tree import Paths, map_arrays, native


def tf_dataset(
    filename: Filename | Iterable[Filename],
    path: Paths,
    batch_size: int,
    *,
    open_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> tf.data.Dataset:
    """Stream a dataset, or several in lock-step, as a dataset of TensorFlow.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length: elements are then tuples, or dicts with
        the same keys, of tensors.
    batch_size : int
        Rows of a batch. Tensors have the shape ``(None, *row_shape)``, or with
        ``drop_last=True`` ``(batch_size, *row_shape)``.
    open_options : mapping, optional
        Options of `tables.open_file`, and ``storage_options``, as for `Streamer`.
    **options
        Those of `Streamer.get_batches`.

    Returns
    -------
    tf.data.Dataset
        Each iteration to its end is followed by the next epoch. Use ``.map`` and ``.prefetch`` on
        it; its batches are copies.

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`).
    UnsupportedDatasetError
        TensorFlow has no such dtype, as of compound types (a `ValueError`).

    Examples
    --------
    >>> dataset = multitables.tf_dataset("run7.h5", ("/images", "/labels"), 256)  # doctest: +SKIP
    >>> model.fit(dataset.prefetch(2))  # doctest: +SKIP
    """
    opened_with = dict(open_options or {})
    streamer = Streamer(filename, **opened_with)
    batches = streamer.get_batches(path, batch_size, **options)
    skips = bool(opened_with.get("skip_missing"))
    file = KeptSource(streamer.filename, opened_with, keeps=False, skip_missing=skips)
    sample = options.get("sample")
    if isinstance(sample, Ranges):
        raise wrong("sample", "has samples of different lengths", sample, "Give Clips or At")
    dtype = options.get("dtype")
    if dtype is not None and any(bfloat16_of(path, dtype)):
        raise wrong("dtype", "cannot be bfloat16 here", dtype, "Let TensorFlow cast what it gets")
    casts = check_casts(path, dtype, options.get("scale"), options.get("decode"))
    spec = DataSpec(file, path, options.get("field"), sample=sample, casts=casts)
    opened: Opened | OpenedRows
    if sample is None:
        opened = open_data(spec)
        shapes = [(index.dtype, index.row_shape) for index in opened.indexes]
    else:
        opened = open_samples(spec)
        empty = [nothing(entry) for entry in opened.entries]
        shapes = [(one.dtype, one.shape[1:]) for one in empty]
    rows = batch_size if options.get("drop_last") else None
    specs = []
    for index, (dtype, shape) in zip(opened.indexes, shapes, strict=True):
        try:
            known = tf.as_dtype(dtype.newbyteorder("="))
        except TypeError:
            where = f"{index.path!r} in {file_title(index.filenames)}"
            raise no_dtype("TensorFlow", dtype, where) from None
        specs.append(tf.TensorSpec((rows, *shape), known))

    def generate() -> Iterator[Any]:
        for batch in batches:
            yield map_arrays(native, batch)

    return tf.data.Dataset.from_generator(generate, output_signature=opened.structure.pack(specs))
