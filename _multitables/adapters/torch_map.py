"""`TorchMapDataset`: rows that a sampler of torch chooses, as tensors.

Law
---
1. `NumberedRows` reads; here arrays become tensors.
2. A batch is a view of where the readers put it, and goes back when its last tensor is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from _multitables.adapters.numbered_rows import Asked, NumberedRows
from _multitables.adapters.torch_tensors import crossing, split, tensor
from _multitables.errors import OptionsError, SubprocessException, public
from _multitables.plan.casts import bfloat16_of


class Samples(list[Any]):
    """The samples of a batch, as torch's collate functions take them.

    Attributes
    ----------
    batch : torch.Tensor, or tuple or dict of them
        The same rows in one piece, of shape ``(len(samples), *row_shape)``; None if a transform
        has changed the samples.
    """

    __slots__ = ("batch",)

    def __init__(self, samples: Sequence[Any], batch: Any) -> None:
        super().__init__(samples)
        self.batch = batch


@public
class TorchMapDataset(NumberedRows, Dataset[Any]):
    """Rows of an HDF5 file by number, as tensors, for a `DataLoader` with a sampler.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or several, as for `Streamer`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length: samples are then tuples, or dicts with the
        same keys, of tensors.
    n_procs : int, optional
        Reader processes of each process that asks for rows. Default: 4, or the cores if fewer; one
        in each of a `DataLoader`'s processes.
    field : str, optional
        One column of a table or compound dataset.
    transform : callable, optional
        Called with each sample; what it returns is delivered. Without one, `collate` can take the
        rows of a batch in one piece.
    memory_limit_bytes : int, optional
        Memory of all batches that are held. Default: 256 MiB.
    cache_limit_bytes : int, optional
        Decoded chunks that each reader keeps. Default: 64 MiB.
    open_options : mapping, optional
        Options of `tables.open_file`, and ``storage_options``, as for `Reader`.
    version : str, int, datetime or numpy.datetime64, optional
        The version of the data, as in `Streamer.get_queue`.
    sample : Clips, Patches or At, optional
        What has a number. Default: a row. Samples that are drawn belong to `TorchDataset`: here it
        is the sampler that draws.
    dtype, scale, decode : optional
        What readers make of elements, as in `Streamer.get_batches`; ``"bfloat16"`` comes as that
        type. A library's data takes no `dtype` and `scale` here.

    Raises
    ------
    MissingFileError, FileOpenError, MissingDatasetError, MissingFieldError
        The data cannot be opened, when rows or the length are first asked for.
    UnsupportedDatasetError
        Ragged data, or torch has no such dtype, as of strings or compound types (a `ValueError`).
        Numbers in the other byte order are copied into this machine's.
    ImageError
        The bytes of a row are not such a picture as `decode` says.
    IndexError
        There is no such row.

    Notes
    -----
    In an order of your own, a chunk may be decoded for a single row. Where any random order will
    do, `TorchDataset` with ``shuffle`` decodes each chunk about once.

    Examples
    --------
    >>> dataset = multitables.TorchMapDataset("run7.h5", ("/images", "/labels"))  # doctest: +SKIP
    >>> loader = torch.utils.data.DataLoader(  # doctest: +SKIP
    ...     dataset, batch_size=256, sampler=sampler, collate_fn=dataset.collate
    ... )
    """

    def __getitem__(self, row: Any) -> Any:
        """Read one row.

        Parameters
        ----------
        row : int
            Negative ones count from the end.

        Returns
        -------
        torch.Tensor, or tuple or dict of them
            Of shape ``row_shape``.
        """
        return self._one(row)

    def __getitems__(self, rows: Sequence[Any]) -> Samples:
        """Read the rows of a batch, in one request for each dataset.

        Parameters
        ----------
        rows : sequence of int
            In any order, and as often as named.

        Returns
        -------
        list
            The samples; its attribute ``batch`` has them in one piece.
        """
        tensors, samples = self._several(rows)
        whole = self._packed.pack(tensors) if self._transform is None else None
        return Samples(list(samples), whole)

    @staticmethod
    def collate(samples: Any) -> Any:
        """Hand out a batch in one piece, without another copy: ``DataLoader(collate_fn=...)``.

        Raises
        ------
        OptionsError
            Not the samples that a TorchMapDataset without a transform gave.
        """
        batch = getattr(samples, "batch", None)
        if batch is None:
            raise OptionsError(
                "collate takes a batch of a TorchMapDataset without a transform, got "
                f"{type(samples).__name__}",
                advice="Leave collate_fn out, or give it to a DataLoader over the dataset itself",
                option="collate_fn",
                got=type(samples),
            )
        return batch

    # ---- inside

    def _procs(self) -> int | None:
        return self._n_procs or (None if split() is None else 1)

    def _made(self, array: Any, where: str) -> torch.Tensor:
        return tensor(array, where)

    def _read(self, requests: list[Asked]) -> list[Any]:
        try:
            tensors = super()._read(requests)
        except SubprocessException as error:
            raise crossing(error) from None
        for at in np.flatnonzero(bfloat16_of(self.path, {"dtype": self._dtype})):
            tensors[at] = tensors[at].view(torch.bfloat16)
        return tensors
