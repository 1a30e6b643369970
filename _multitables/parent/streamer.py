"""The public `Streamer`: from a file name and paths to streams.

Law
---
1. Cheap to make; the file is opened, indexed and closed again at each call that needs it. Inside
   ``with Streamer(...)`` what was read of it is kept.
2. Options are checked before anything is started; readers start while the file is indexed.
3. Readers belong to one stream, or, inside ``with Streamer(...)``, to the streamer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from _multitables import options
from _multitables.errors import QueueClosed, public
from _multitables.index.files.name import Filename
from _multitables.index.files.open_options import check_open_options
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.versions.version import VersionKey, VersionKeys
from _multitables.options import Links, check_any_version, checked
from _multitables.parent.arrow import table_of
from _multitables.parent.dependents import Dependents
from _multitables.parent.file_loaders import FileLoaders
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.start_blocks import start_blocks
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count, file_title
from _multitables.plan.casts import Dtype, Images, Scales
from _multitables.plan.reader_options import StreamerOptions, stream_options
from _multitables.tree import Paths, Ragged, structure_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from _multitables.parent.ragged.ragged_block import RaggedBlock
    from _multitables.parent.stream.stream_queue import VersionsQueue
    from _multitables.parent.typed import (
        Array,
        Arrays,
        Named,
        NamedArrays,
        One,
        Several,
        SeveralVersions,
        StreamKeywords,
        VersionKeywords,
    )


@public
class Streamer(FileLoaders, InNotebooks):
    """Streams datasets of one HDF5 file, or of several, through reader processes.

    Parameters
    ----------
    filename : str, path-like, or sequence of them
        The HDF5 file, or the URL of an object in a store (``s3://``, ``gs://``, ``az://``,
        ``https://``). Of several, a dataset has the rows of all, in the order of the list. A name
        with wildcards (``"runs/*.h5"``), also one in a list, means the files that match now, sorted
        by name, with numbers in order. A manifest that `index_files` wrote stands for its files.
    rotational : bool, optional
        Whether the file lies on a rotating disk, where readers take turns at the disk. Default:
        what the kernel says of the device; of disks behind a network, a hypervisor or FUSE it does
        not know.
    library_timeout_seconds : float, optional
        How long a reader may be inside an HDF5 library without reading from the file, for data that
        readers do not decode themselves. Then it is replaced, once, and the next time the stream
        ends with `LibraryTimeoutError`. None waits for ever.
    trusted : bool, default True
        What readers do not decode themselves is left to h5py, PyTables and HDF5's plugins in the
        reader processes. False switches these off, for files that may be made to attack them:
        what needs them is an `UnsupportedDatasetError`.
    links : {"anywhere", "folder", "none"}, optional
        Which other files it may lead to, by external links, virtual datasets, raw files or
        references. ``"anywhere"``: any, as with HDF5. ``"folder"``: those in its folder and below,
        or of an object those whose names begin as that of its folder. ``"none"``: none. What is
        ruled out is a `LinkRefusedError`. Default: ``"anywhere"`` if it is trusted, ``"folder"``
        if not.
    skip_missing : bool, default False
        Of several files, leave out those that do not exist, are broken or lack a path or column:
        each is reported by a `MissingFileWarning`, and is in ``missing_files`` of the stream.
        Datasets that are streamed together leave out the same files. What a store fails to give
        stays an error.
    storage_options : mapping, optional
        Of objects in stores: limits of requests and memory, a cache on disk, credentials, and other
        options of the store. Its values are texts, numbers and bools. What may be a secret is in no
        pickle, and in no message.
    **kw_args
        Options of `tables.open_file`. ``DRIVER='H5FD_DIRECT'`` reads around the page cache, with
        any build of HDF5. ``root_uep`` prefixes paths. Others as PyTables treats them; names that
        it does not have are an `UnknownOptionError`.

    Notes
    -----
    As a context manager the streamer keeps its readers between streams, of batches too, and ends
    them at exit: what streams many small datasets is several times as fast for it. A streamer can
    be pickled; its streams and readers stay where they are.

    Examples
    --------
    >>> import multitables
    >>> stream = multitables.Streamer("run7.h5")  # doctest: +SKIP
    >>> for guard in stream.get_queue("/images"):  # doctest: +SKIP
    ...     with guard as block:
    ...         train(block)
    """

    def __init__(
        self,
        filename: Filename | Iterable[Filename],
        *,
        rotational: bool | None = None,
        library_timeout_seconds: float | None = options.LIBRARY_TIMEOUT_SECONDS,
        trusted: bool = True,
        links: Links | None = None,
        skip_missing: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        **kw_args: Any,
    ) -> None:
        wanted = checked(StreamerOptions, **locals())
        check_open_options("Streamer", kw_args, Streamer.__init__.__kwdefaults__ or ())
        links = options.check_links("links", links)
        own = {"trusted": trusted, "links": links, "storage_options": storage_options}
        file = KeptSource(
            filename,
            kw_args | own,
            keeps=False,
            skip_missing=wanted.skip_missing,
        )
        self.__setstate__((wanted, file))

    def __setstate__(self, state: tuple[StreamerOptions, KeptSource]) -> None:
        super().__setstate__(state)
        self._queues: Dependents[StreamQueue] = Dependents()

    def __repr__(self) -> str:
        n_open = sum(stream.mine and stream.is_open for stream in self._queues)
        state = "closed" if self._closed else "open"
        return f"<Streamer of {file_title(self.filename)}: {count(n_open, 'open queue')}, {state}>"

    # ---- streams

    @overload
    def get_queue(
        self, path: One, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> StreamQueue[Array]: ...

    @overload
    def get_queue(
        self, path: Ragged, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> StreamQueue[RaggedBlock]: ...

    @overload
    def get_queue(
        self, path: Several, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> StreamQueue[Arrays]: ...

    @overload
    def get_queue(
        self, path: Named, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> StreamQueue[NamedArrays]: ...

    @overload
    def get_queue(
        self,
        path: Paths,
        n_procs: int | None = None,
        *,
        version: SeveralVersions,
        **options: Unpack[StreamKeywords],
    ) -> VersionsQueue: ...

    @overload
    def get_queue(
        self, path: Paths, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> StreamQueue[Any]: ...

    def get_queue(
        self,
        path: Paths,
        n_procs: int | None = None,
        read_ahead: int | None = None,
        cyclic: bool = False,
        block_size: int | None = None,
        ordered: bool = False,
        field: str | None = None,
        remainder: bool = False,
        *,
        rows: Any = None,
        inner: Any = None,
        version: VersionKeys | None = None,
        follow: bool = False,
        max_wait_seconds: float | None = options.MAX_WAIT_SECONDS,
        dtype: Dtype | None = None,
        scale: Scales | None = None,
        decode: Images | None = None,
    ) -> StreamQueue:
        """Stream a dataset, or several in lock-step, as blocks of the shared-memory ring.

        Parameters
        ----------
        path : str, Ragged or Joined, or list, tuple or dict of them
            Dataset in the file, or `Joined` for the rows of several, one after the other. Those of
            a list, tuple or dict come together, row by row: they must have equal outer length, and
            blocks are tuples, or dicts with the same keys. Rows of different lengths (`Ragged`,
            PyTables' VLArray, h5py's sequences and strings of any length) come as `RaggedBlock`.
        n_procs : int, optional
            Reader processes; 0: threads of this process. Default: 4, or the cores available to this
            process if fewer; threads for data that is little, or cached and without a filter.
        read_ahead : int, optional
            Blocks that the ring holds. Default: the library's choice, at least
            ``2 * n_procs + 1``; never less than two blocks and two chunks.
        cyclic : bool, optional
            Start again at the end, for ever. A block that crosses the end holds the last rows,
            then the first.
        block_size : int, optional
            Rows of a block. Default: the chunk's outer length, or about 128 KiB of rows for
            unchunked data; of several datasets, those of the one with the longest rows.
        ordered : bool, optional
            Blocks come in the order of the file. This promises it; it is so in any case.
        field : str, optional
            One column of a table or compound dataset: only this column reaches the ring.
            Columns inside columns: ``"outer/inner"``.
        remainder : bool, optional
            Deliver the tail that does not fill a block as a last, shorter block.
        rows : slice, array of int or array of bool, optional
            The rows that are streamed, in the order of the file: with steps, a list or a mask, too.
            Chunks without any of them are not fetched.
        inner : int, slice, ... or tuple of them, optional
            What is streamed of the axes behind the first, as NumPy indexes one row:
            ``inner=np.s_[..., :3]``. Only the chunks that it needs are fetched, and only what it
            selects reaches the ring. Of several datasets a dict or list of selections, or one for
            all.
        version : str, int, datetime or numpy.datetime64, optional
            Of a file that the package versioned-hdf5 wrote: the version in which `path` is. Its
            name; its index in the history of the current version, which is -1 (0 is the first); or
            a time, for the version that was the latest then (a datetime with a time zone, or a
            datetime64 in UTC). For several versions of one dataset, a list of these, or a slice of
            the history; their blocks have the rows of a chunk, and tails are delivered.
        follow : bool, optional
            The file is being written, or will be: go on with each row that is appended, once, until
            ``queue.stop()``. Of several datasets, the shorter ones are waited for.
        max_wait_seconds : float, optional
            Of a file that is followed: rows that do not fill a block come as a shorter one after
            this many seconds. None: they wait for the rest.
        dtype, scale, decode : optional
            As in `get_batches`; refused with several versions.

        Returns
        -------
        StreamQueue, or RaggedQueue where rows have different lengths
            With `follow`, a `FollowQueue`; of several versions, a `VersionsQueue`.

        Raises
        ------
        OptionsError
            An option that cannot work (a `ValueError`).
        MissingFileError, FileOpenError
            A file cannot be opened (`FileNotFoundError`, `OSError`).
        MissingDatasetError, MissingFieldError
            No such path or field (`KeyError`).
        MissingVersionError
            No such version, or it was not committed (`KeyError`, `IndexError`).
        CorruptFileError
            Offsets that decrease or lie outside the data (an `OSError`).
        UnsupportedDatasetError
            Elements that are objects, sequences of sequences, scalars, null dataspaces, groups (a
            `ValueError`). With `follow`, data that is not stored in chunks, or that a library has
            to read. Of several files, rows that differ in type or shape, have any length, or are
            read by a library.
        """
        return self._start(locals())

    @overload
    def get_generator(
        self, path: Several, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> Iterator[Arrays]: ...

    @overload
    def get_generator(
        self, path: Named, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> Iterator[NamedArrays]: ...

    @overload
    def get_generator(
        self, path: Paths, n_procs: int | None = None, **options: Unpack[VersionKeywords]
    ) -> Iterator[Any]: ...

    def get_generator(
        self,
        path: Paths,
        n_procs: int | None = None,
        read_ahead: int | None = None,
        cyclic: bool = False,
        block_size: int | None = None,
        ordered: bool = False,
        field: str | None = None,
        remainder: bool = True,
        *,
        rows: Any = None,
        inner: Any = None,
        version: VersionKey | None = None,
        follow: bool = False,
        max_wait_seconds: float | None = options.MAX_WAIT_SECONDS,
        dtype: Dtype | None = None,
        scale: Scales | None = None,
        decode: Images | None = None,
    ) -> Iterator[Any]:
        """Stream a dataset row by row.

        Rows are parts of copied blocks, so they can be kept. Closing the generator, leaving its
        loop or dropping it stops the readers. Parameters and errors are those of `get_queue`; the
        tail is included by default.

        Yields
        ------
        row : numpy.ndarray or scalar
            One row; a tuple or dict of rows for several paths.
        """
        given = {**locals()}
        structure, _ = structure_of(path)
        check_any_version("version", version)
        stream = self._start(given)
        from _multitables.parent.stream.row_generator import iterate_rows

        return iterate_rows(stream, structure)

    def get_remainder(
        self,
        path: Paths,
        block_size: int,
        field: str | None = None,
        *,
        rows: Any = None,
        inner: Any = None,
        version: VersionKey | None = None,
        dtype: Dtype | None = None,
        scale: Scales | None = None,
        decode: Images | None = None,
    ) -> Any:
        """Read the tail rows that do not fill a block.

        Parameters
        ----------
        path : str, or list, tuple or dict of str
            As in `get_queue`.
        block_size : int
            Rows of a block.
        field, rows, inner, version, dtype, scale, decode : optional
            As in `get_queue`.

        Returns
        -------
        numpy.ndarray, or tuple or dict of them
            A copy; of length 0 when `block_size` divides the dataset.
        """
        given = {**locals(), "remainder": True}
        structure, _ = structure_of(path)
        check_any_version("version", version)
        with self._start(given, tail_only=True) as stream:
            guard = stream.get()
            if guard is QueueClosed:
                return structure.pack(stream.source.nothing())
            with guard as block:
                return structure.pack(array.copy() for array in structure.arrays(block))

    # ---- inside

    def _start(self, given: Mapping[str, Any], *, tail_only: bool = False) -> StreamQueue:
        """Start a stream by a method's arguments; with `tail_only`, of rows that fill no block."""
        wanted = stream_options(given)
        spec = self._spec(given, None if wanted.has_versions else wanted.version)
        self._check_open()
        stream = start_blocks(self._reader_pool, spec, wanted, tail_only=tail_only)
        stream.as_table = partial(table_of, spec.path, spec.field, wanted)
        return self._queues.add(stream)

    def __enter__(self) -> Streamer:
        self._reader_pool.keep = self._file.keeps = True
        return self

    def close(self) -> None:
        """End all streams of this streamer and their readers. May be called again."""
        self._closed = True
        self._reader_pool.keep = False
        self._queues.close()
        self._reader_pool.close()
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()
