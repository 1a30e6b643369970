"""`to_huggingface`: rows as an `IterableDataset` of Hugging Face's datasets.

Law
---
1. One stream delivers what one process gets: where the dataset is split among nodes and the
   processes of a `DataLoader`, each split is a part of the loader's rows, not a list of shards.
2. Each row is copied: a shuffle of the dataset keeps more of them than the ring has room for.
3. A state is the loader's before a batch, and how many of its rows were delivered.
4. A shuffle or an epoch of the dataset chooses an epoch of the loader, whose `shuffle` says whether
   that is another order.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import datasets
import numpy as np
from datasets.iterable_dataset import _BaseExamplesIterable

from _multitables.adapters import no_dtype
from _multitables.errors import OptionsError, public
from _multitables.index.files.name import Filename
from _multitables.options import whole, wrong
from _multitables.parent.batches.loader import Loader
from _multitables.parent.streamer import Streamer
from _multitables.plan.casts import bfloat16_of
from _multitables.tree import Paths, Structure, native, structure_of

#: Epochs that a shuffle chooses from.
EPOCHS = 1 << 31
#: Features of fixed shape, by their axes.
ARRAYS = {2: datasets.Array2D, 3: datasets.Array3D, 4: datasets.Array4D, 5: datasets.Array5D}


@public
def to_huggingface(
    filename: Filename | Iterable[Filename],
    path: Paths,
    *,
    num_shards: int = 1,
    batch_size: int = 256,
    open_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> datasets.IterableDataset:
    """Stream a dataset, or several of equal length, as a dataset of Hugging Face.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several. Columns have the keys of a dict; else the last part of each
        path.
    num_shards : int, optional
        Into how many parts the rows may be split: a multiple of the nodes of
        ``datasets.distributed.split_dataset_by_node`` times the processes of a `DataLoader`.
    batch_size : int, optional
        Rows that come from the readers at once.
    open_options : mapping, optional
        Options of `tables.open_file`, and ``storage_options``, as for `Streamer`.
    **options
        Other options of `Streamer.get_batches`, such as ``shuffle`` or ``sample``.

    Returns
    -------
    datasets.IterableDataset
        Rows as dicts, with features of the dtypes and shapes. Use ``.with_format("numpy")`` or
        ``"torch"`` for arrays. Its ``state_dict`` goes on where it was taken, without another read
        of what was delivered.

    Raises
    ------
    MissingFileError, FileOpenError, MissingDatasetError, MissingFieldError
        The data cannot be opened.
    OptionsError
        An option that cannot work (a `ValueError`).
    UnsupportedDatasetError
        The library lacks a feature for this, as for compound types, complex numbers and rows of
        different lengths (a `ValueError`).

    Notes
    -----
    ``set_epoch`` chooses another order, if `shuffle` is given here; this order reads each chunk
    about once. ``.shuffle()`` of the dataset mixes rows in a buffer in addition to it.

    Examples
    --------
    >>> rows = multitables.to_huggingface(  # doctest: +SKIP
    ...     "run7.h5", {"image": "/images", "label": "/labels"}, shuffle=True, num_shards=8
    ... )
    >>> loader = torch.utils.data.DataLoader(  # doctest: +SKIP
    ...     rows.with_format("torch"), batch_size=64, num_workers=2
    ... )
    """
    if any(bfloat16_of(path, options)):
        raise wrong("dtype", "cannot be bfloat16 here", options["dtype"], "Cast what you get")
    if options.get("epochs", 1) != 1:
        raise wrong("epochs", "must be 1 here", options["epochs"], "Loop, and call set_epoch")
    num_shards = whole("num_shards", num_shards, 1, "It is the number of parts")
    names = _names(path)
    with Streamer(filename, **(open_options or {})) as streamer:
        loader = streamer.get_batches(path, batch_size, **options)
        structure, kinds = loader._kinds()
        features = {name: _feature(*kind) for name, kind in zip(names, kinds, strict=True)}
        rows = _Rows(loader, structure, names, num_shards)
    return datasets.IterableDataset(
        rows, info=datasets.DatasetInfo(features=datasets.Features(features))
    )


class _Rows(_BaseExamplesIterable):
    """The rows of a part of a loader, one by one."""

    #: Nothing of it needs the pause that datasets makes for the threads of other sources.
    _sleep_on_threads_shutdown = False

    def __init__(
        self, loader: Loader, structure: Structure, names: list[str], num_shards: int
    ) -> None:
        super().__init__()
        self._state_dict: dict[str, Any] | None = None
        self._loader, self._structure = loader, structure
        self._names, self._shards = names, num_shards
        #: Which part of the rows is this one's, and of how many; None: nothing.
        self._part: tuple[int, int] | None = (0, 1)
        self._epoch = loader.epoch

    @property
    def num_shards(self) -> int:
        """Into how many parts this one can be split."""
        return self._shards

    def _init_state_dict(self) -> dict[str, Any]:
        self._state_dict = {"loader": None, "rows": 0, "type": type(self).__name__}
        return self._state_dict

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._part is None:
            return
        state: dict[str, Any] = self._state_dict or {"loader": None, "rows": 0}
        part = None if self._part == (0, 1) else self._part
        loader = self._loader._shared_out(None, part, False)
        loader.set_epoch(self._epoch)
        if state["loader"] is not None:
            loader.load_state_dict(state["loader"])
        number = 0
        state["loader"] = loader.state_dict()
        for batch in loader:
            arrays = [native(array) for array in self._structure.arrays(batch)]
            for row in range(state["rows"], len(arrays[0])):
                state["rows"] += 1
                values = [array[row].copy() for array in arrays]
                yield number, dict(zip(self._names, values, strict=True))
                number += 1
            del batch, arrays
            state.update(loader=loader.state_dict(), rows=0)

    def shuffle_data_sources(self, generator: np.random.Generator) -> _Rows:
        """Choose another epoch of the loader."""
        epoch = self._epoch + int(copy.deepcopy(generator).integers(EPOCHS))
        return self._with(_epoch=epoch % EPOCHS)

    def shard_data_sources(self, num_shards: int, index: int, contiguous: bool = True) -> _Rows:
        """Keep one part."""
        shards = len(self.split_shard_indices_by_worker(num_shards, index, contiguous=contiguous))
        parts = min(num_shards, self._shards)
        if self._part is None or index >= parts:
            return self._with(_part=None, _shards=0)
        of, among = self._part
        return self._with(_part=(of * parts + index, among * parts), _shards=shards)

    def reshard_data_sources(self) -> _Rows:
        """Return a copy: the rows can be split as they are."""
        return self._with()

    def _with(self, **changes: Any) -> _Rows:
        changed = copy.copy(self)
        changed.__dict__.update(changes, _state_dict=None)
        return changed


def _names(path: Paths) -> list[str]:
    """Return the names of the columns."""
    structure, paths = structure_of(path)
    names = [str(one).rpartition("/")[2] for one in paths]
    if structure.keys:
        names = [str(key) for key in structure.keys]
    if len(set(names)) < len(names) or not all(names):
        raise OptionsError(
            f"columns need different names, got {names}",
            advice="Name them: {'image': '/a/images', 'label': '/b/labels'}",
            option="path",
            got=path,
        )
    return names


def _feature(where: str, dtype: np.dtype[Any] | None, shape: tuple[int, ...]) -> Any:
    """Return the feature of a column."""
    if dtype is None:
        raise no_dtype("datasets", "rows of different lengths", where)
    kinds = {"S": "binary", "U": "string"}
    name = kinds.get(dtype.kind) or dtype.newbyteorder("=").name
    is_number = dtype.kind in "biuf" and dtype.itemsize <= 8
    if not (is_number or dtype.kind in kinds) or len(shape) > max(ARRAYS):
        raise no_dtype("datasets", dtype, where)
    if len(shape) in ARRAYS:
        return ARRAYS[len(shape)](shape, name)
    feature = datasets.Value(name)
    return datasets.Sequence(feature, length=shape[0]) if shape else feature
