"""Rows that a program chooses by number, for libraries with samplers of their own.

Law
---
1. It is a description until a process asks it for rows: it can be pickled and forked, and each
   process has readers of its own, which its threads share.
2. The rows of a batch are one request for each dataset, all under way at once.
3. `_made`, which a library's class overrides, makes values of an array: this file knows
   none.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import UnsupportedDatasetError
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
from _multitables.plan.casts import Dtype, Images, Scales, check_casts
from _multitables.plan.samples import Sample, numbered
from _multitables.plan.taken import Taken
from _multitables.remote.options import StorageOptions
from _multitables.select.selection import Selection
from _multitables.tree import Paths, Structure, structure_of

#: A request, if anything is read, and what makes samples of its result.
Asked = tuple[Request | None, Taken | None]


class NumberedRows:
    """The base of what has rows by number; `TorchMapDataset` says what its arguments mean."""

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
        check_open_options(f"{type(self).__name__}(open_options=...)", open_options or (), own)
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
        self._dtype = dtype
        self._opened: Opened | OpenedRows | None = None
        #: The process, its Reader, and the datasets to index for rows, or that were indexed.
        self._mine: tuple[int, Reader, list[Selection | DatasetHandle]] | None = None
        #: Of each process, so that a fork does not find it held.
        self._locks: dict[int, threading.Lock] = {}

    def __len__(self) -> int:
        """Rows of the dataset, or samples."""
        return self._indexed().indexes[0].n_rows

    def close(self) -> None:
        """End the readers of this process. Asking for rows starts new ones."""
        if self._mine is not None:
            self._mine[1].stop()
            self._mine = None

    # ---- for the class of a library

    def _made(self, array: Any, where: str) -> Any:
        """Return an array, which is lent, as the library takes it."""
        raise NotImplementedError

    def _procs(self) -> int | None:
        """Return how many readers this process has; None: the default."""
        return self._n_procs

    def _one(self, row: Any) -> Any:
        """Read one row."""
        arrays = self._read(self._request(operator.index(row)))
        if not self._is_plain:
            arrays = [one[0] for one in arrays]
        return self._transformed(self._packed.pack(arrays))

    def _several(self, rows: Sequence[Any]) -> tuple[list[Any], Iterator[Any]]:
        """Read rows: each dataset's in one piece, and one by one."""
        arrays = self._read(self._request([operator.index(row) for row in rows]))
        return arrays, map(self._transformed, self._packed.rows(arrays))

    def _transformed(self, sample: Any) -> Any:
        return sample if self._transform is None else self._transform(sample)

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

    def _read(self, requests: list[Asked]) -> list[Any]:
        where = f"{self.path!r} in {file_title(self.filename)}"
        arrays = []
        for request, taken in requests:
            if request is None:
                arrays.append(self._made(taken and taken.inside, where))
                continue
            with request.get_unsafe() as array:
                arrays.append(self._made(array if taken is None else taken.made(array), where))
        return arrays

    def _reader(self) -> tuple[Reader, list[Selection | DatasetHandle]]:
        mine, process = self._mine, os.getpid()
        if mine is None or mine[0] != process:
            with self._locks.setdefault(process, threading.Lock()):
                mine = self._mine
                if mine is None or mine[0] != process:
                    mine = self._mine = process, *self._started()
        return mine[1:]

    def _started(self) -> tuple[Reader, list[Selection | DatasetHandle]]:
        reader = Reader(
            self._names,
            self._procs(),
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
        return reader, datasets

    def _rows_of(self, reader: Reader, path: str) -> Selection:
        dataset = reader.get_dataset(path, self._version)
        if isinstance(dataset, VLArrayDataset):
            raise UnsupportedDatasetError(
                f"rows of {path!r} in {file_title(self.filename)} differ in length, which one "
                "array cannot hold",
                advice="Request them from a multitables.Reader, and pad them",
                path=path,
            )
        whole = Selection(dataset[:].dataset)
        return whole if self._field is None else whole[self._field]

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_mine": None,
            "_opened": None,
            "_locks": {},
            "_siblings": Siblings(),
        }


def _checked(numbers: int | list[int], n: int) -> npt.NDArray[np.int64]:
    """Return numbers of samples; negative ones are counted from the end."""
    wanted = np.atleast_1d(np.array(numbers, np.int64))
    bad = (wanted < -n) | (wanted >= n)
    if bad.any():
        raise IndexError(f"there is no sample {wanted[bad][0]} (expected {-n} to {n - 1})")
    return np.where(wanted < 0, wanted + n, wanted)
