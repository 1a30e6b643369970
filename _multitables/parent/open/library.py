"""What only an HDF5 library can read, read in a process of its own.

Law
---
1. The process starts when it is first needed, and ends with the file. A forked child has its own.
2. A file that is not trusted never reaches a library.
3. The answer is what the core would have given: same dtype, same shape.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.types import hdf5_errors
from _multitables.options import LIBRARY_TIMEOUT_SECONDS, checked
from _multitables.parent.random.dataset_handle import DatasetHandle, NoCatalogues
from _multitables.parent.random.service import Service
from _multitables.parent.random.stage import Stage
from _multitables.plan.reader_options import ReaderOptions
from _multitables.select.selection import Selection, Step


class Library:
    """The process in which a library reads one file's datasets.

    Parameters
    ----------
    filename : str
        The file.
    trusted : bool
        Whether an HDF5 library may open it.
    open_options : mapping, optional
        How the library opens it; values are JSON's.
    """

    def __init__(
        self,
        filename: str,
        trusted: bool,
        open_options: Mapping[str, object] | None = None,
    ) -> None:
        self._filename = filename
        self._trusted = trusted
        self._open_options = dict(open_options or {})
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._service: Service | None = None

    def read(
        self, index: ChunkIndex, steps: tuple[Step, ...], n_bytes: int, reason: str
    ) -> npt.NDArray[Any]:
        """Read a selection.

        Parameters
        ----------
        index : ChunkIndex
            The dataset as a whole.
        steps : tuple
            NumPy's indexes and names of fields, one after another.
        n_bytes : int
            Of the result.
        reason : str
            Why the core does not read it.

        Raises
        ------
        UnsupportedDatasetError
            The file is not trusted.
        SubprocessException
            The library failed, or its process died.
        """
        if not self._trusted:
            raise hdf5_errors.unsupported("untrusted", index.filename, index.path, reason)
        found: npt.NDArray[Any] = self._asked(index, steps, index.dtype, n_bytes)
        return found

    def objects(
        self, index: ChunkIndex, steps: tuple[Step, ...], atom: np.dtype[Any], reason: str
    ) -> list[npt.NDArray[Any]]:
        """Read strings or sequences of any length, each as an array of atoms; see `read`."""
        if not self._trusted:
            raise hdf5_errors.unsupported("untrusted", index.filename, index.path, reason)
        found: list[npt.NDArray[Any]] = self._asked(index, steps, atom, None)
        return found

    def _asked(
        self, index: ChunkIndex, steps: tuple[Step, ...], dtype: np.dtype[Any], n_bytes: int | None
    ) -> Any:
        """Ask the process; without `n_bytes`, for objects whose size nobody knows before."""
        rank = len(index.shape)
        kind = "table" if rank == 1 and dtype.names else "array"
        if n_bytes is None:
            kind = "objects"
        handle = DatasetHandle(
            filename=index.filename,
            path=index.path,
            kind=kind,
            shape=index.shape,
            dtype=dtype,
            n_dims=min(rank, len(index.dims)),
            library=index.kind.library,
            open_options=index.fingerprint.for_library(self._open_options),
            is_numpys=True,
            conversion=index.kind.conversion,
            catalogues=NoCatalogues(index),
        )
        # Of a scalar, h5py takes no other index than ().
        selection, service = Selection(handle, steps if rank else ((), *steps)), self._started()
        if n_bytes is None:
            return service.ask(selection, service.pool).get()
        stage = Stage(max(1, n_bytes))
        try:
            return service.ask(selection, stage).get()
        finally:
            stage.close()

    def _started(self) -> Service:
        if self._owner != os.getpid():  # in a fork, a thread that is not here may hold the lock
            self._lock, self._owner = threading.Lock(), os.getpid()
        with self._lock:
            if self._service is None or not self._service.mine:
                wanted = checked(
                    ReaderOptions,
                    n_procs=1,
                    memory_limit_bytes=None,
                    cache_limit_bytes=None,
                    library_timeout_seconds=LIBRARY_TIMEOUT_SECONDS,
                    trusted=self._trusted,
                )
                self._service = Service(self._filename, wanted, None)
                weakref.finalize(self, self._service.end)
            return self._service
