"""`TorchMapDataset`: rows that a sampler of torch chooses, as tensors.

Law
---
1. A dataset is a description until a process asks it for rows: it can be pickled and forked, and
   each process has readers of its own.
2. The rows of a batch are one request for each dataset, all under way at once.
3. A batch is a view of where the readers put it, and goes back when its last tensor is gone.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset

from _multitables.adapters.torch_tensors import crossing, split, tensor
from _multitables.errors import OptionsError, SubprocessException, UnsupportedDatasetError, public
from _multitables.index.files.name import Filename
from _multitables.index.files.names import files_named, whole_names
from _multitables.index.files.open_options import check_open_options
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.versions.version import VersionKey
from _multitables.options import check_any_version
from _multitables.parent.ragged.open_rows import OpenedRows
from _multitables.parent.ragged.open_samples import open_samples
from _multitables.parent.random.dataset import VLArrayDataset
from _multitables.parent.random.dataset_handle import DatasetHandle
from _multitables.parent.random.request import Request
from _multitables.parent.random_reader import Reader, indexed_in, request_taken
from _multitables.parent.readers.siblings import Siblings
from _multitables.parent.stream.open_stream import DataSpec, Opened, open_data
from _multitables.parent.titles import file_title
from _multitables.plan.casts import Dtype, Images, Scales, bfloat16_of, check_casts
from _multitables.plan.samples import Sample, numbered
from _multitables.plan.taken import Taken
from _multitables.remote.options import StorageOptions
from _multitables.select.selection import Selection
from _multitables.tree import Paths, Structure, structure_of

#: A request, if anything is read, and what makes samples of its result.
Asked = tuple[Request | None, Taken | None]


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
class TorchMapDataset(Dataset[Any]):
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

    def __init__(
        self,
        filename: Filename | Iterable[Filename],
        path: Paths,
        *,
        n_procs: int | None = None,
        field: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        memory_limit_bytes: int | None = None,
        cache_limit_bytes: int | None = None,
        open_options: Mapping[str, Any] | None = None,
        version: VersionKey | None = None,
        sample: Sample | None = None,
        dtype: Dtype | None = None,
        scale: Scales | None = None,
        decode: Images | None = None,
    ) -> None:
        own = Reader.__init__.__kwdefaults__ or ()
        check_open_options("TorchMapDataset(open_options=...)", open_options or (), own)
        storage = StorageOptions.of((open_options or {}).get("storage_options"))
        #: Without a query, which may be a signature; the options have it.
        self.filename, storage = files_named(filename, storage)
        names = whole_names(self.filename)
        self._names: Any = names if isinstance(self.filename, list) else names[0]
        self.path = path
        _, self._paths = structure_of(path)
        self._n_procs = n_procs
        self._field = field
        self._transform = transform
        self._memory_limit_bytes = memory_limit_bytes
        self._cache_limit_bytes = cache_limit_bytes
        self._open_options = {**(open_options or {}), "storage_options": storage}
        self._version = check_any_version("version", version)
        self._sample: Sample | None = numbered(sample)
        self._casts = check_casts(path, dtype, scale, decode)
        #: Which tensors are of bfloat16.
        self._brains = bfloat16_of(path, {"dtype": dtype})
        self._opened: Opened | OpenedRows | None = None
        #: The process, its Reader, and the datasets to index for rows, or that were indexed.
        self._mine: tuple[int, Reader, list[Selection | DatasetHandle]] | None = None

    def __len__(self) -> int:
        """Rows of the dataset, or samples."""
        return self._indexed().indexes[0].n_rows

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
        tensors = self._read(self._request(operator.index(row)))
        if not self._is_plain:
            tensors = [one[0] for one in tensors]
        sample = self._packed.pack(tensors)
        return sample if self._transform is None else self._transform(sample)

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
        tensors = self._read(self._request([operator.index(row) for row in rows]))
        samples = self._packed.rows(tensors)
        if self._transform is None:
            return Samples(list(samples), self._packed.pack(tensors))
        return Samples([self._transform(sample) for sample in samples], None)

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

    def close(self) -> None:
        """End the readers of this process. Asking for rows starts new ones."""
        if self._mine is not None:
            self._mine[1].stop()
            self._mine = None

    # ---- inside

    @property
    def _is_plain(self) -> bool:
        """Whether samples are rows as they are stored."""
        return self._sample is None and self._casts is None

    @property
    def _packed(self) -> Structure:
        return structure_of(self.path)[0] if self._is_plain else self._indexed().structure

    def _indexed(self) -> Opened | OpenedRows:
        if self._opened is None:  # without readers: a DataLoader asks where nothing is read
            file = KeptSource(self._names, self._open_options, keeps=False)
            spec = DataSpec(
                file,
                self.path,
                self._field,
                version=self._version,
                sample=self._sample,
                casts=self._casts,
            )
            self._opened = open_data(spec) if self._is_plain else open_samples(spec)
        return self._opened

    def _request(self, numbers: int | list[int]) -> list[Asked]:
        reader, datasets = self._reader()
        if self._is_plain:
            rows = [one[numbers] for one in datasets if isinstance(one, Selection)]
            return [(reader.request(key), None) for key in rows]
        opened, requests, each = self._indexed(), list[Asked](), iter(datasets)
        assert isinstance(opened, OpenedRows)
        wanted = _checked(numbers, len(self))
        for entry in opened.entries:
            taken, request = entry.taken(wanted, 0), None
            if not entry.is_mask:
                handle = next(each)
                assert isinstance(handle, DatasetHandle)
                request = request_taken(reader, entry, handle, taken)
            requests.append((request, taken))
        return requests

    def _read(self, requests: list[Asked]) -> list[torch.Tensor]:
        try:
            tensors = [self._tensor(*one) for one in requests]
        except SubprocessException as error:
            raise crossing(error) from None
        for at in np.flatnonzero(self._brains):
            tensors[at] = tensors[at].view(torch.bfloat16)
        return tensors

    def _tensor(self, request: Request | None, taken: Taken | None) -> torch.Tensor:
        where = f"{self.path!r} in {file_title(self.filename)}"
        if request is None:
            return tensor(taken and taken.inside, where)
        with request.get_unsafe() as array:
            return tensor(array if taken is None else taken.made(array), where)

    def _reader(self) -> tuple[Reader, list[Selection | DatasetHandle]]:
        if self._mine is None or self._mine[0] != os.getpid():
            n_procs = self._n_procs or (None if split() is None else 1)
            reader = Reader(
                self._names,
                n_procs,
                memory_limit_bytes=self._memory_limit_bytes,
                cache_limit_bytes=self._cache_limit_bytes,
                **self._open_options,
            )
            datasets: list[Selection | DatasetHandle] = []
            if self._is_plain:
                datasets += [self._rows_of(reader, path) for path in self._paths]
            else:
                opened = self._indexed()
                assert isinstance(opened, OpenedRows)
                datasets += [indexed_in(reader, index) for index in opened.read]
            self._mine = os.getpid(), reader, datasets
        return self._mine[1:]

    def _rows_of(self, reader: Reader, path: str) -> Selection:
        dataset = reader.get_dataset(path, self._version)
        if isinstance(dataset, VLArrayDataset):
            raise UnsupportedDatasetError(
                f"rows of {path!r} in {file_title(self.filename)} differ in length, which one "
                "tensor cannot hold",
                advice="Request them from a multitables.Reader, and pad them",
                path=path,
            )
        whole = Selection(dataset[:].dataset)
        return whole if self._field is None else whole[self._field]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mine": None, "_opened": None, "_siblings": Siblings()}


def _checked(numbers: int | list[int], n: int) -> npt.NDArray[np.int64]:
    """Return numbers of samples, of which negative ones count from the end."""
    wanted = np.atleast_1d(np.array(numbers, np.int64))
    bad = (wanted < -n) | (wanted >= n)
    if bad.any():
        raise IndexError(f"there is no sample {wanted[bad][0]} (expected {-n} to {n - 1})")
    return np.where(wanted < 0, wanted + n, wanted)
