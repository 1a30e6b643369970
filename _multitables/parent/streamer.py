"""The public `Streamer`: from a file name and paths to streams.

Law
---
1. Cheap to make; the file is opened, indexed and closed again at each call that needs it.
2. Options are checked before anything is started; readers start while the file is indexed.
3. Readers belong to one stream, or, inside ``with Streamer(...)``, to the streamer.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from _multitables import _core, device, options, wire
from _multitables.chunk_index import ChunkIndex, open_source
from _multitables.errors import (
    ClosedError,
    OptionsError,
    SharedMemoryError,
    UnsupportedDatasetError,
)
from _multitables.options import StreamOptions, check_options
from _multitables.parent.queue import StreamQueue, iterate_rows
from _multitables.parent.supervisor import Readers
from _multitables.read_plan import ReadPlan, plan_reads

#: What `path` may be: one path, or several of equal outer length.
Paths = str | Sequence[str] | Mapping[Any, str]


class Streamer:
    """Streams datasets of one HDF5 file through reader processes.

    Parameters
    ----------
    filename : str or path-like
        The HDF5 file.
    **kw_args
        Options of `tables.open_file`. ``DRIVER='H5FD_DIRECT'`` reads around the page cache, with
        any build of HDF5. ``root_uep`` prefixes paths. Others as PyTables treats them.

    Notes
    -----
    As a context manager the streamer keeps its readers between streams, and ends them at exit.

    Examples
    --------
    >>> import multitables
    >>> stream = multitables.Streamer("run7.h5")  # doctest: +SKIP
    >>> for guard in stream.get_queue("/images"):  # doctest: +SKIP
    ...     with guard as block:
    ...         train(block)
    """

    def __init__(self, filename: str | os.PathLike[str], **kw_args: Any) -> None:
        self.filename = filename
        self._open_options = kw_args
        self._lock = threading.Lock()
        self._keep = False
        self._closed = False
        self._resting: list[Readers] = []
        self._queues: weakref.WeakSet[StreamQueue] = weakref.WeakSet()
        self._finalizer = weakref.finalize(self, _stop_all, self._resting)

    # ---- streams

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
    ) -> StreamQueue:
        """Stream a dataset, or several in lock-step, as blocks of the shared-memory ring.

        Parameters
        ----------
        path : str, or list, tuple or dict of str
            Dataset in the file. Several datasets must have equal outer length; blocks are then
            tuples, or dicts with the same keys.
        n_procs : int, optional
            Reader processes. Default: 4, or the cores available to this process if fewer.
        read_ahead : int, optional
            Blocks that the ring holds. Default: the library's choice, at least
            ``2 * n_procs + 1``; never less than two blocks and two chunks.
        cyclic : bool, optional
            Start again at the end, for ever. A block that crosses the end holds the last rows,
            then the first.
        block_size : int, optional
            Rows of a block. Default: the chunk's outer length, or about 128 KiB of rows for
            unchunked data.
        ordered : bool, optional
            Blocks come in the order of the file. This promises it; it is so in any case.
        field : str, optional
            One column of a table or compound dataset: only this column reaches the ring.
            Columns inside columns: ``"outer/inner"``.
        remainder : bool, optional
            Deliver the tail that does not fill a block as a last, shorter block.

        Returns
        -------
        StreamQueue

        Raises
        ------
        OptionsError
            An option that cannot work (a `ValueError`).
        MissingFileError, FileOpenError
            The file cannot be opened (`FileNotFoundError`, `OSError`).
        MissingDatasetError, MissingFieldError
            No such path or field (`KeyError`).
        UnsupportedDatasetError
            Variable-length or object elements, scalars, groups (a `ValueError`).
        """
        wanted = check_options(n_procs, read_ahead, cyclic, block_size, ordered, remainder)
        return self._start(path, wanted, field)

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
        wanted = check_options(n_procs, read_ahead, cyclic, block_size, ordered, remainder)
        names, _ = _members(path)
        return iterate_rows(self._start(path, wanted, field), names)

    def get_remainder(self, path: Paths, block_size: int, field: str | None = None) -> Any:
        """Read the tail rows that do not fill a block.

        Parameters
        ----------
        path : str, or list, tuple or dict of str
            As in `get_queue`.
        block_size : int
            Rows of a block.
        field : str, optional
            As in `get_queue`.

        Returns
        -------
        numpy.ndarray, or tuple or dict of them
            A copy; of length 0 when `block_size` divides the dataset.
        """
        wanted = check_options(1, None, False, block_size, True, True)
        names, _ = _members(path)
        assert wanted.block_size is not None
        with self._start(path, wanted, field, tail_of=wanted.block_size) as stream:
            empty = stream._plan.members
            guard = stream.get()
            if stream._plan.lap_rows == 0:
                arrays = [np.empty((0, *m.index.row_shape), m.index.dtype) for m in empty]
            else:
                with guard as block:
                    members = [block] if names is None else block.values() if names else block
                    arrays = [member.copy() for member in members]
        if names is None:
            return arrays[0]
        return dict(zip(names, arrays, strict=True)) if names else tuple(arrays)

    # ---- life

    def close(self) -> None:
        """End all streams of this streamer and their readers. May be called again."""
        self._closed = True
        self._keep = False
        for stream in list(self._queues):
            stream.close()
        self._finalizer()

    def __enter__(self) -> Streamer:
        self._keep = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- inside

    def _start(
        self,
        path: Paths,
        wanted: StreamOptions,
        field: str | None,
        tail_of: int | None = None,
    ) -> StreamQueue:
        if self._closed:
            raise ClosedError(
                f"the streamer of {os.fspath(self.filename)!r} is closed",
                advice="Make a new Streamer",
            )
        names, paths = _members(path)
        readers = self._take_readers(wanted.n_procs)
        try:
            with open_source(self.filename, self._open_options) as source:
                indexes = [source.index(one, field) for one in paths]
                direct = source.direct
                open_options = source.open_options
            _check_lengths(indexes)
            if direct and device.refuses_direct(indexes[0].filename):
                raise OptionsError(
                    f"the file system of {indexes[0].filename!r} refuses direct I/O (O_DIRECT)",
                    advice="Leave DRIVER='H5FD_DIRECT' out, or put the file on another file system",
                    filename=indexes[0].filename,
                )
            size = wanted.block_size or indexes[0].block_size_default
            first = 0 if tail_of is None else indexes[0].n_rows // tail_of * tail_of
            plan = plan_reads(
                indexes,
                block_rows=size,
                n_readers=len(readers),
                read_ahead=wanted.read_ahead,
                cyclic=wanted.cyclic,
                remainder=wanted.remainder,
                first_row=first,
                direct=direct,
                native_filters=_core.native_filters(),
                page_bytes=_core.PAGE_BYTES,
                memory_limit_bytes=options.memory_limit_bytes(),
            )
            turnstile = not direct and device.rotates(indexes[0].filename)
            ring = _make_ring(
                plan,
                wire.encode_plan(
                    plan, _control_bytes(plan), open_options, [field or ""] * len(paths), turnstile
                ),
                names,
            )
            readers.assign(ring)
        except BaseException:
            readers.stop()
            raise
        stream = StreamQueue(ring, readers, plan, size, self._give_back())
        self._queues.add(stream)
        return stream

    def _take_readers(self, count: int) -> Readers:
        with self._lock:
            for at, readers in enumerate(self._resting):
                if len(readers) == count and readers.mine:
                    return self._resting.pop(at)
        return Readers(count)

    def _give_back(self) -> Any:
        """What a stream does with its readers at its end; it must not keep the streamer alive."""
        itself = weakref.ref(self)

        def give_back(readers: Readers, finished: bool) -> None:
            streamer = itself()
            if streamer is not None and streamer._keep and finished and readers.rest():
                with streamer._lock:
                    streamer._resting.append(readers)
            else:
                readers.stop()

        return give_back


def _stop_all(resting: list[Readers]) -> None:
    while resting:
        resting.pop().stop()


def _members(path: object) -> tuple[list[Any] | None, list[str]]:
    """Split `path` into the kind of container (None, [] or keys) and the paths."""
    if isinstance(path, str):
        return None, [path]
    if isinstance(path, bytes):
        return None, [os.fsdecode(path)]
    if isinstance(path, Mapping):
        names, paths = list(path), list(path.values())
    elif isinstance(path, Sequence):
        names, paths = [], list(path)
    elif isinstance(path, os.PathLike):
        return None, [os.fspath(path)]
    else:
        # A PyTables node or h5py dataset knows its own path.
        inside = getattr(path, "_v_pathname", None) or getattr(path, "name", None)
        if isinstance(inside, str):
            return None, [inside]
        names, paths = None, [path]
    if not paths or not all(isinstance(one, str) for one in paths):
        raise OptionsError(
            f"path is not a path or several: expected str, or a list, tuple or dict of str, "
            f"got {path!r}",
            advice="Give the dataset's path in the file, like '/images'",
            option="path",
            got=path,
        )
    return names, paths


def _check_lengths(indexes: Sequence[ChunkIndex]) -> None:
    first = indexes[0]
    for index in indexes[1:]:
        if index.n_rows != first.n_rows:
            raise UnsupportedDatasetError(
                f"datasets of one stream differ in length in {first.filename!r}: "
                f"{first.path!r} has {first.n_rows} rows, {index.path!r} has {index.n_rows}",
                advice="Stream datasets of equal outer length together, others on their own",
                expected=first.n_rows,
                got=index.n_rows,
            )


def _control_bytes(plan: ReadPlan) -> int:
    page = _core.PAGE_BYTES
    return -(-_core.control_bytes(plan.n_readers, plan.n_slots) // page) * page


def _make_ring(plan: ReadPlan, encoded: bytes, names: list[Any] | None) -> _core.Ring:
    views = [(m.index.dtype, [int(n) for n in m.index.row_shape]) for m in plan.members]
    try:
        return _core.Ring(encoded, views, names)
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        needed = plan.ring_payload_bytes
        raise SharedMemoryError(
            f"shared memory for the ring cannot be reserved ({needed} bytes): {reason}",
            advice="Free memory, or choose a smaller block_size or read_ahead",
            expected=needed,
        ) from error
