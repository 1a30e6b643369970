"""`tf_dataset`: batches as a `tf.data.Dataset`.

Law
---
1. TensorFlow copies each batch that a Python generator gives it; then the block goes back.
2. Order and epochs are those of `Batches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from _multitables.adapters import no_dtype
from _multitables.errors import public
from _multitables.index.files.name import Filename
from _multitables.options import wrong
from _multitables.parent.streamer import Streamer
from _multitables.plan.casts import bfloat16_of
from _multitables.plan.samples import Ranges
from _multitables.tree import Paths, map_arrays, native

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from _multitables.parent.typed import BatchKeywords


@public
def tf_dataset(
    filename: Filename | Iterable[Filename],
    path: Paths,
    batch_size: int,
    *,
    open_options: Mapping[str, Any] | None = None,
    **options: Unpack[BatchKeywords],
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
    if isinstance(sample := options.get("sample"), Ranges):
        raise wrong("sample", "has samples of different lengths", sample, "Give Clips or At")
    if any(bfloat16_of(path, options)):
        dtype = options["dtype"]
        raise wrong("dtype", "cannot be bfloat16 here", dtype, "Let TensorFlow cast what it gets")
    batches = Streamer(filename, **(open_options or {})).get_batches(path, batch_size, **options)
    rows = batch_size if options.get("drop_last") else None
    structure, kinds = batches._kinds()
    specs = []
    for where, dtype, shape in kinds:
        try:
            known = tf.as_dtype(dtype and dtype.newbyteorder("="))
        except TypeError:
            raise no_dtype("TensorFlow", dtype or "rows of different lengths", where) from None
        specs.append(tf.TensorSpec((rows, *shape), known))

    def generate() -> Iterator[Any]:
        for batch in batches:
            yield map_arrays(native, batch)

    return tf.data.Dataset.from_generator(generate, output_signature=structure.pack(specs))
