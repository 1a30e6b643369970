"""`jax_batches`: batches as arrays of JAX, by DLPack.

Law
---
1. An array shares the ring's memory where JAX can use it in place, and keeps it: a block goes back
   when its last array is gone. Elsewhere JAX copies, and the block goes back at once.
2. Order, epochs and resuming are those of `Batches`; an iteration only changes the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from _multitables.adapters import no_dtype
from _multitables.errors import public
from _multitables.index.files.name import Filename
from _multitables.parent.batches.loader import Changed, Loader
from _multitables.parent.ragged.ragged_block import RaggedBlock
from _multitables.parent.streamer import Streamer
from _multitables.parent.titles import file_title
from _multitables.plan.casts import as_bfloat16, bfloat16_of
from _multitables.tree import Paths, map_arrays, native

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from _multitables.parent.typed import OrderKeywords


@public
def jax_batches(
    filename: Filename | Iterable[Filename],
    path: Paths,
    batch_size: int,
    *,
    transform: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    open_options: Mapping[str, Any] | None = None,
    **options: Unpack[OrderKeywords],
) -> JaxBatches:
    """Stream a dataset, or several in lock-step, as batches of JAX arrays.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length: batches are then tuples, or dicts with the
        same keys, of arrays.
    batch_size : int
        Rows of a batch.
    transform : callable, optional
        Called with each batch of arrays; what it returns is delivered. For a device other than the
        CPU: ``transform=jax.device_put``, or `jax.device_put` with a sharding.
    rank, world_size : int, optional
        Which share of the rows this process gets. Default: `jax.process_index` and
        `jax.process_count`, so everything in a program of one process.
    open_options : mapping, optional
        Options of `tables.open_file`, and ``storage_options``, as for `Streamer`.
    **options
        Other options of `Streamer.get_batches`, such as ``shuffle`` or ``sample``.

    Returns
    -------
    JaxBatches
        An iterable.

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`). Errors of the file come with the first batch.
    UnsupportedDatasetError
        JAX has no such dtype, as of strings or compound types (a `ValueError`); raised by the
        first batch.

    Notes
    -----
    Arrays are on the CPU and share the ring's memory if their batch begins at a multiple of 64
    bytes. All batches do if ``batch_size`` rows are a multiple of 64 bytes, except those that
    follow an epoch's shorter last batch in the same iteration (``drop_last=True`` avoids it). JAX
    copies other batches, numbers in the other byte order, and 64-bit numbers unless
    ``jax_enable_x64`` is set.

    Examples
    --------
    >>> batches = multitables.jax_batches("run7.h5", "/images", 256, shuffle=True)  # doctest: +SKIP
    >>> for epoch in range(10):  # doctest: +SKIP
    ...     for images in batches:
    ...         state = train_step(state, images)
    """
    if rank is None and world_size is None:
        rank, world_size = jax.process_index(), jax.process_count()
    streamer = Streamer(filename, **(open_options or {}))
    batches = streamer.get_batches(
        path, batch_size, rank=rank or 0, world_size=world_size or 1, **options
    )
    brains = bfloat16_of(path, options)
    return JaxBatches(batches, transform, f"{path!r} in {file_title(streamer.filename)}", brains)


@public
class JaxBatches(Changed):
    """Batches as arrays of JAX; made by `jax_batches`.

    Attributes
    ----------
    batches : Batches
        The batches of NumPy arrays, of which it makes arrays of JAX.
    """

    def __init__(
        self,
        batches: Loader,
        transform: Callable[[Any], Any] | None,
        where: str,
        brains: Sequence[bool] = (),
    ) -> None:
        super().__init__(batches, transform, where, brains)
        self.batches = batches
        #: Which arrays are of bfloat16, if any.
        self._brains = brains if any(brains) else ()
        self._transform = transform
        self._where = where

    def __iter__(self) -> Iterator[Any]:
        return map(self._changed, self.batches)

    def _changed(self, batch: Any) -> Any:
        arrays = map_arrays(self._array, batch)
        if self._brains:
            arrays = as_bfloat16(arrays, self._brains, lambda one: one.view("bfloat16"))
        return arrays if self._transform is None else self._transform(arrays)

    def _array(self, array: Any) -> jax.Array:
        if isinstance(array, RaggedBlock):
            raise no_dtype("JAX", "rows of different lengths", self._where)
        try:
            return jax.dlpack.from_dlpack(native(array))
        except (BufferError, TypeError):
            raise no_dtype("JAX", array.dtype, self._where) from None
