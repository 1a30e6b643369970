"""The public `Reader`: datasets to index, and requests for what was indexed.

Law
---
1. A request for whole rows in a stage that is free costs one call into the core; everything else
   is the service's.
2. Options and the file's name are checked before anything is started.
3. Dropping a `Reader` stops it: nothing that a program may keep longer refers to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from _multitables import _core, options
from _multitables.errors import public
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.files.name import Filename
from _multitables.index.files.open_options import check_open_options
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.versions.version import VersionKey
from _multitables.options import Links
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.ragged.open_rows import Entry
from _multitables.parent.ragged.rows_of_requests import asking_rows
from _multitables.parent.ragged.sample_keys import SampleKeys
from _multitables.parent.random.dataset import ArrayDataset, TableDataset, VLArrayDataset
from _multitables.parent.random.dataset_handle import DatasetHandle, handle_of, open_dataset
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import Service
from _multitables.parent.random.stage import Stage, StagePool
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.parent.titles import count, file_title
from _multitables.plan import reader_options
from _multitables.plan.samples import Sample, numbered
from _multitables.plan.taken import Taken
from _multitables.select.normalize import whole_rows
from _multitables.select.selection import Selection
from _multitables.tree import one_path

_KINDS: dict[str, type[TableDataset | ArrayDataset | VLArrayDataset]] = {
    "table": TableDataset,
    "array": ArrayDataset,
    "vlarray": VLArrayDataset,
}


@public
class Reader(InNotebooks):
    """Reads chosen rows and parts of HDF5 datasets, through reader processes or threads.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or the URL of an object in a store. Several files, also by a name with
        wildcards or a manifest, are one: a dataset has the rows of all, as for `Streamer`.
    n_procs : int, optional
        Reader processes; 0: threads of this process, but for data that a library reads. Default: 4,
        or the cores available to this process if fewer; threads until a dataset is got that is
        neither little, nor cached and without a filter.
    notify : callable, optional
        Is called with each request when it has ended, in a thread of the Reader's, and with
        `QueueClosed` at last.
    memory_limit_bytes : int, optional
        What the results of requests without a stage may take together. Default: 256 MiB.
    cache_limit_bytes : int, optional
        Decoded chunks that each reader process keeps between requests. Default: all readers
        together a 32nd of the memory that is available when they start, each 64 to 512 MiB.
    library_timeout_seconds : float, optional
        How long a reader may be inside an HDF5 library without reading from the file. Then it is
        replaced, once, and the next time the request fails with `LibraryTimeoutError`. None waits
        for ever.
    trusted : bool, default True
        False switches h5py, PyTables and HDF5's plugins off, as for `Streamer`: what needs them is
        an `UnsupportedDatasetError`.
    links : {"anywhere", "folder", "none"}, optional
        Which other files it may lead to, as for `Streamer`.
    storage_options : mapping, optional
        Of an object in a store, as for `Streamer`.
    **kw_args
        Options of `tables.open_file`, as for `Streamer`.

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`), or an unknown one (a `TypeError`).
    MissingFileError, FileOpenError
        The file cannot be opened (`FileNotFoundError`, `OSError`).

    Notes
    -----
    Requests may be made, and results taken, in any thread. As a context manager the Reader is
    closed at exit when all requests are answered, or stopped by an exception. A Reader that is
    dropped is stopped.

    Examples
    --------
    >>> with multitables.Reader("run7.h5") as reader:  # doctest: +SKIP
    ...     images = reader.get_dataset("/images")
    ...     request = reader.request(images[30:35])
    ...     print(request.get().mean())
    """

    def __init__(
        self,
        filename: Filename | Iterable[Filename],
        n_procs: int | None = None,
        notify: Callable[[Any], object] | None = None,
        *,
        memory_limit_bytes: int | None = None,
        cache_limit_bytes: int | None = None,
        library_timeout_seconds: float | None = options.LIBRARY_TIMEOUT_SECONDS,
        trusted: bool = True,
        links: Links | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **kw_args: Any,
    ) -> None:
        own = ("n_procs", "notify", *(Reader.__init__.__kwdefaults__ or ()))
        check_open_options("Reader", kw_args, own)
        wanted = options.checked(
            reader_options.ReaderOptions,
            n_procs=n_procs,
            memory_limit_bytes=memory_limit_bytes,
            cache_limit_bytes=cache_limit_bytes,
            library_timeout_seconds=library_timeout_seconds,
            trusted=trusted,
        )
        links = options.check_links("links", links)
        kw_args |= {"trusted": trusted, "links": links, "storage_options": storage_options}
        self._file = KeptSource(filename, kw_args, keeps=True)
        with self._file.open():
            pass  # what is wrong with it is told at once
        self.filename = self._file.filename  # without the query, which may be a signature
        self._notified = notify
        self._service = service = Service(self.filename, wanted, notify)
        self._queue, self._pool = service.queue, service.pool
        self._finalizer = weakref.finalize(self, service.end)

    def __repr__(self) -> str:
        service = self._service
        state = "closed" if service.closed else "open"
        if not service.mine:
            state = f"of process {service.owner}"
        readers, requests = count(service.n_readers, "reader"), count(service.requests, "request")
        return f"<Reader of {file_title(self.filename)}: {readers}, {requests} made, {state}>"

    def get_dataset(
        self, path: str, version: VersionKey | None = None
    ) -> TableDataset | ArrayDataset | VLArrayDataset:
        """Find a dataset, to be indexed for requests.

        Parameters
        ----------
        path : str
            Dataset in the file.
        version : str, int, datetime or numpy.datetime64, optional
            The version of it, as in `Streamer.get_queue`.

        Returns
        -------
        TableDataset, ArrayDataset or VLArrayDataset
            It has a ``dtype`` and a ``shape``, and can make stages. A table has its columns of a
            fixed size: text of any length, sequences and references are left out of its dtype.

        Raises
        ------
        MissingDatasetError
            No such path (a `KeyError`).
        MissingVersionError
            No such version, or it was not committed (a `KeyError`).
        UnsupportedDatasetError
            A group, a scalar, a null dataspace, or elements without a fixed size (a `ValueError`).
        ClosedError
            The Reader is closed.
        """
        if self._service.closed:
            raise self._service.closed_error()
        wanted = options.check_any_version("version", version)
        if self._file.is_several and wanted is not None:
            advice = "Make a Reader of each file"
            raise options.wrong("version", "needs a single file", version, advice)
        info = open_dataset(self._queue, self._file, one_path(path), wanted)
        self._service.expect(info)
        whole, file = Selection(info), self._file

        def samples(sample: Sample) -> SampleKeys:
            spec = DataSpec(file, path, version=wanted, sample=numbered(sample))
            return SampleKeys(whole, spec)

        return _KINDS[info.kind](info, whole, samples)

    def request(self, key: Selection, stage: Stage | StagePool | None = None) -> Request:
        """Ask for what indexing a dataset described; returns at once.

        Parameters
        ----------
        key : selection
            What indexing a dataset, or one of its methods, gives.
        stage : Stage or StagePool, optional
            Where the result goes. Waits while all stages of a pool are in use. Default: memory
            that the Reader keeps and grows, up to ``memory_limit_bytes``.

        Returns
        -------
        Request
            A future. Whatever is wrong with the selection is raised when its result is taken.

        Raises
        ------
        StageBusyError
            The result of the stage's last request was not taken yet (a `RuntimeError`).
        ClosedError
            The Reader or the stage is closed.
        StalledError
            All stages of the pool are held, for 30 seconds, by requests that the program keeps
            without taking their results; of results without a stage, by views too.
        """
        service = self._service
        service.requests += 1
        stages: _core.Stages = self._pool if stage is None else stage
        handle = self._whole_rows(key, stages)
        if handle is not None:
            request = Request(service, key, stages, handle)
        else:
            request = service.ask(key, stages)
        service.mind(request)
        if self._notified is not None:
            request.add_done_callback(self._notified)
        return request

    def _whole_rows(self, key: Selection, stages: _core.Stages) -> _core.RequestHandle | None:
        """Ask for whole rows, without waiting. None: the service asks, or tells what is wrong."""
        if type(key) is not Selection or type(key.dataset) is not DatasetHandle:
            return None
        rows = whole_rows(key)
        if rows is None or not isinstance(stages, _core.Stages):
            return None
        core = key.dataset.catalogues.native.get(rows[0])
        if core is None:
            return None
        try:
            return self._queue.rows(core, *rows[1:], stages, 0.0)
        except (_core.Refused, ValueError, OSError):
            return None

    def statistics(self) -> dict[str, Any]:
        """Tell what the Reader has done so far.

        Returns
        -------
        dict
            ``requests``; ``tasks`` (parts of requests, one for each reader that has to do with
            it) and ``tasks_pending``; ``library_requests`` (served through an HDF5 library);
            ``cache_hits`` and ``cache_misses`` (chunks), ``cache_bytes`` and
            ``cache_limit_bytes`` of all readers together; ``memory_bytes`` and
            ``memory_limit_bytes`` of requests without a stage, ``stages_lent`` of them and
            ``stages_lent_seconds`` (the oldest); ``readers_replaced``; ``readers``: for each
            its share of these, and what `StreamQueue.statistics` tells. Of an object of a store
            ``metadata``: the ``requests`` and ``bytes`` of its metadata.
        """
        return {**self._service.statistics(), **self._file.told_requests()}

    def close(self, wait: bool = False) -> None:
        """Take no more requests; those that were made are still answered. Then the readers end.

        Parameters
        ----------
        wait : bool, optional
            Return when everything is answered and the readers have ended.
        """
        self._file.close()
        self._service.close(wait)

    def stop(self) -> None:
        """End the readers now. Requests that are not answered fail with `ClosedError`."""
        self._file.close()
        self._finalizer()
        self._service.end()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.close(wait=True)
        else:
            self.stop()


def indexed_in(reader: Reader, index: ChunkIndex) -> DatasetHandle:
    """Return a dataset that was indexed for a reader, with what is made of its elements."""
    with reader._file.open() as source:
        handle = handle_of(reader._queue, reader._file, index.path, index, source, "array")
    reader._service.expect(handle)
    return handle


def request_taken(reader: Reader, entry: Entry, handle: DatasetHandle, taken: Taken) -> Request:
    """Request what samples, or rows, take of a dataset that was indexed for a reader."""
    asking = reader._service, reader._service.pool
    request = asking_rows(asking, entry, handle, taken.step)(None)
    reader._service.mind(request)
    return request
