"""Types of the native core; core/src/py says what each does."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

ENDED: int
EMPTY: int
FAILED: int
HELD: int
CLOSED: int
PAGE_BYTES: int
MAX_READERS: int
ENDLESS: int
TASK_LIBRARY: int
TASK_SHARE: int
SOURCE_DIRECT: int
SOURCE_TURNSTILE: int
SOURCE_GROWS: int
DATASET_CLIPPED: int
DATASET_WINDOWS: int
DATASET_JOINED: int
DATASET_LIBRARY: int
NO_CHUNK: int
REMOTE_FIRST_BYTES: int
STATE_FINISHED: int
STATE_FAILED: int
GROUP_CHUNKS: int
GROUP_BYTES: int
LITTLE_BYTES: int
ORDER_BY_ROWS: int
MAX_ORDER_ROWS: int
MAX_ORDER_CHUNKS: int
REQUEST_NATIVE: int
REQUEST_LIBRARY: int
REQUEST_HEAP: int
REQUEST_PIECES: int
SURVEY_ALONE: int
SURVEY_NO_DATASET: int
REQUEST_HEAD_WORDS: int
REQUEST_AXIS_WORDS: int
SHUFFLES: tuple[str | None, ...]
COUNTERS: tuple[str, ...]
ERROR_KINDS: dict[int, str]

def start_together(
    path: bytes, calls: list[tuple[list[bytes], int]], environment: list[bytes]
) -> list[int]: ...
def name_of_unlinked(device: int, inode: int) -> str | None: ...

class Corrupt(ValueError): ...  # noqa: N818 - becomes CorruptFileError
class Forbidden(ValueError): ...  # noqa: N818 - becomes UnsupportedDatasetError
class StoreFailed(OSError): ...  # noqa: N818 - becomes the error that names the object
class Unknown(ValueError): ...  # noqa: N818 - becomes UnsupportedDatasetError

_Numbers: TypeAlias = npt.NDArray[np.uint64]
_Selections: TypeAlias = tuple[npt.NDArray[np.uint8], _Numbers, _Numbers]

class OpenedFile:
    @property
    def descriptor(self) -> int | None: ...
    def close(self) -> None: ...

class MetadataFile:
    def __init__(self, filename: str, *, takes_lock: bool = False) -> None: ...
    def lock(self, filename: str) -> None: ...
    @property
    def opened(self) -> OpenedFile | None: ...
    def release(self) -> None: ...
    def close(self) -> None: ...
    @staticmethod
    def from_bytes(data: bytes, *, checks_sums: bool = True) -> MetadataFile: ...
    @staticmethod
    def of_object(
        name: bytes, access: bytes, size: int, version: int, first: bytes
    ) -> MetadataFile: ...
    @property
    def requests(self) -> tuple[int, int]: ...
    @property
    def root(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def driver(self) -> bytes: ...
    @property
    def is_written(self) -> bool: ...
    @property
    def is_swmr(self) -> bool: ...
    @property
    def user_block(self) -> int: ...
    def find(self, path: bytes, start: int | None = None) -> tuple[Any, ...]: ...
    def prefetch(self, offsets: Sequence[int]) -> None: ...
    def kind(self, offset: int) -> str: ...
    def links(self, offset: int) -> list[tuple[Any, ...]]: ...
    def link(self, offset: int, name: bytes) -> tuple[Any, ...] | None: ...
    def attributes(
        self, offset: int
    ) -> list[tuple[bytes, int | None, bytes, tuple[int, ...] | None, bytes]]: ...
    def datatype(self, offset: int) -> bytes: ...
    def dataset(self, offset: int) -> dict[str, Any]: ...
    def chunks(
        self, offset: int
    ) -> tuple[
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint32],
    ]: ...
    def mappings(
        self, heap: int, index: int
    ) -> tuple[
        list[tuple[bytes, bytes]],
        npt.NDArray[np.uint32],
        _Selections,
        _Selections,
    ]: ...
    def global_object(self, heap: int, index: int) -> bytes: ...
    def region(self, heap: int, index: int) -> tuple[int, tuple[Any, ...]]: ...
    def sequences(
        self, descriptors: bytes, element_bytes: int, each: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]: ...
    def strings(self, descriptors: bytes, each: int) -> list[bytes]: ...

def datatype(body: bytes) -> dict[str, Any]: ...
def converted(
    stored: bytes, size: int, delivered: int, words: Sequence[int]
) -> npt.NDArray[np.uint8]: ...

class ReadFailed(Exception):  # noqa: N818 - becomes the error that a Reader raises
    """A read of a `LocalDataset` failed; the result holds anything.

    ``args`` is what ``failure()`` of a handle gives: kind, filter, detail, task (0), chunk (its
    number in the dataset's table, or `NO_CHUNK`), expected, got, text. So ``Record.of(error.args)``
    of `parent.readers.error_report` names it. Kind "filter_unknown": only a library may know how to
    decode it, so the same selection can be asked of a library.
    """

    args: tuple[int, int, int, int, int, int, int, str]

class LocalReader:
    """Threads and decoded chunks that datasets read in this process share.

    Parameters
    ----------
    n_threads : int
        Threads that decode, at least 1: the caller's, and ``n_threads - 1`` of the core's, which
        start with the first read that is worth them and end with the last of the LocalReader and
        its datasets.
    cache_bytes : int
        Decoded chunks that are kept, in all. 0: none.

    Notes
    -----
    May be used by any number of threads at once. A forked child has threads and a cache of its own.
    """

    def __new__(cls, n_threads: int, cache_bytes: int) -> LocalReader: ...
    @property
    def n_threads(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    def dataset(self, table: bytes) -> LocalDataset:
        """Know a dataset by its table (`wire.plan_bytes.encode_datasets` of one dataset).

        Its file is opened by the first read, once for all datasets of the same file.

        Raises
        ------
        ValueError
            The table is malformed, has several datasets, or one that only a library reads.
        """

    def counters(self) -> list[int]:
        """What was done in this process so far, in the order of `COUNTERS`."""

class LocalDataset:
    """A dataset, or one field of it, that is read in this process; may outlive its LocalReader."""

    @property
    def row_bytes(self) -> int: ...
    def chunk(self, number: int) -> tuple[int, int, int] | None:
        """A stored chunk, by its number in the table: (grid index, byte offset, stored size)."""

    def read(self, words: bytes, out: npt.NDArray[Any]) -> None:
        """Read a hyperslab.

        Parameters
        ----------
        words : bytes
            As `wire.request_bytes.encode_hyperslab` lays it out.
        out : ndarray
            Is filled: writable, C-contiguous, of any dtype without objects, and exactly as many
            bytes as the result.

        Raises
        ------
        ReadFailed
            A chunk cannot be had, or is damaged; a panic of the core, too.
        ValueError
            The words do not fit the dataset, or `out` does not fit the result.
        KeyboardInterrupt
            Whatever a signal's handler raised: the read stops early.
        """

    def read_rows(self, start: int, step: int, count: int, out: npt.NDArray[Any]) -> None:
        """Read whole rows ``start``, ``start + step``, ...; the short way. As `read`."""

class ResultMemory:
    """Memory for a result of at least `MIN_BYTES`; what it holds is anything.

    ``np.asarray(ResultMemory(n))`` is a writable array of ``n`` bytes. When its last view is gone,
    the memory is kept for later ones, at most 1 GiB, unless the kernel needs it: new pages would
    have to be zeroed first, which takes as long as to fill them.
    """

    MIN_BYTES: int
    def __new__(cls, n_bytes: int) -> ResultMemory: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class Lease: ...

class Guard:
    @property
    def rows(self) -> tuple[int, int]: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: object, value: object, trace: object) -> None: ...

class Ring:
    def __init__(
        self,
        plan: bytes,
        views: list[tuple[np.dtype[Any], list[int]]],
        keys: tuple[Any, ...] | None,
        first_row: int = 0,
        consumer: int = 0,
    ) -> None: ...
    @staticmethod
    def attached(
        plan: int,
        ring: int,
        consumer: int = 0,
        views: list[tuple[np.dtype[Any], list[int]]] | None = None,
        keys: tuple[Any, ...] | None = None,
    ) -> Ring: ...
    def keep_open(self, descriptor: int) -> None: ...
    def leave(self, consumer: int) -> None: ...
    def stop(self) -> None: ...
    def descriptors(self) -> tuple[int, int]: ...
    def receive(self, timeout_seconds: float) -> Guard | int: ...
    def guards(self, get: Callable[[], object]) -> Iterator[Guard]: ...
    def ready_blocks(self) -> int: ...
    def progress(self) -> tuple[int, int | None]: ...
    def held(self) -> list[tuple[int, int, float]]: ...
    def memory(self) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...
    def failure(self) -> tuple[int, int, int, int, int, int, int, str] | None: ...
    def address(
        self, task: int, chunk: int | None = None
    ) -> tuple[int, int, int, tuple[int, int, int] | None]: ...
    def claimed(self, reader: int) -> list[int]: ...
    def inside(self, reader: int) -> tuple[int, int, int]: ...
    def counters(self, reader: int) -> list[int]: ...

class Trial:
    MARK: int
    def __init__(self, plan: bytes) -> None: ...
    def descriptors(self) -> tuple[int, int]: ...
    def wait(self, timeout_seconds: float) -> bool: ...
    def seconds(self) -> float: ...
    def failure(self) -> tuple[int, int, int, int, int, int, int, str] | None: ...
    def address(
        self, task: int, chunk: int | None = None
    ) -> tuple[int, int, int, tuple[int, int, int] | None]: ...

class Arena:
    def __init__(self, limit_bytes: int) -> None: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def is_mine(self) -> bool: ...

class Stages:
    def __init__(self, arena: Arena, n_bytes: int, count: int | None = None) -> None: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def count(self) -> int | None: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def lent(self) -> tuple[int, float]: ...
    def close(self) -> None: ...

class Dataset:
    def chunk(self, number: int) -> tuple[int, int, int] | None: ...

class RequestHandle:
    @property
    def needed_bytes(self) -> int | None: ...
    def poll(self) -> int: ...
    def wait(self, timeout_seconds: float) -> int: ...
    def array(self) -> np.ndarray[Any, Any] | None: ...
    def copy(self) -> np.ndarray[Any, Any] | None: ...
    def shape(self) -> list[int]: ...
    def failure(self) -> tuple[int, int, int, int, int, int, int, str] | None: ...
    def cancel(self) -> bool: ...
    def release(self) -> None: ...

def survey(
    file: MetadataFile, offsets: Sequence[int], with_scales: bool, names: Sequence[bytes]
) -> dict[str, Any]: ...
def saved_parts(
    fd: int,
    begins: npt.NDArray[np.uint64],
    counts: npt.NDArray[np.uint64],
    sums: npt.NDArray[np.uint32],
    widths: Sequence[int],
) -> list[npt.NDArray[np.uint8]]: ...

class Table:
    def __init__(self, queue: WorkQueue, table: bytes) -> None: ...
    def chunk(self, number: int) -> tuple[int, int, int] | None: ...
    def pieces(
        self, queue: WorkQueue, words: bytes, n_shares: int, stages: Stages, timeout: float
    ) -> RequestHandle: ...

class WorkQueue:
    MARK: int
    def __init__(self, arena: Arena, n_readers: int, n_slots: int, cache_bytes: int) -> None: ...
    def descriptors(self) -> tuple[int, int]: ...
    def dataset(self, table: bytes, dtype: np.dtype[Any], row_shape: Sequence[int]) -> Dataset: ...
    def rows(
        self,
        dataset: Dataset,
        start: int,
        step: int,
        count: int,
        scalar: bool,
        stages: Stages,
        timeout: float,
    ) -> RequestHandle: ...
    def hyperslab(
        self,
        dataset: Dataset,
        words: bytes,
        dtype: np.dtype[Any],
        shape: Sequence[int],
        stages: Stages,
        timeout: float,
    ) -> RequestHandle: ...
    def library(
        self, ask: bytes, dtype: np.dtype[Any], n_bytes: int, stages: Stages, timeout: float
    ) -> RequestHandle: ...
    def library_again(self, ask: bytes, handle: RequestHandle) -> RequestHandle: ...
    def claimed(self, reader: int) -> list[int]: ...
    def recover(self, reader: int, status: int) -> list[int]: ...
    def inside(self, reader: int) -> tuple[int, int, int]: ...
    def counters(self, reader: int) -> list[int]: ...
    def pending(self) -> int: ...
    def ended(self, handles: list[RequestHandle], timeout_seconds: float) -> list[int]: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...
    def stop(self) -> None: ...

class Refused(Exception): ...  # noqa: N818 - a refusal is no failure
class Closed(Refused): ...
class Exhausted(Refused): ...
class TooSmall(Refused): ...

HANDLE_PENDING: int
HANDLE_DONE: int
HANDLE_FAILED: int
HANDLE_MORE: int
HANDLE_CANCELLED: int
HANDLE_CLOSED: int

def serve_reader(
    socket: int,
    parent: int,
    read: Callable[
        [str | bytes, tuple[int, int] | None, memoryview, memoryview | None],
        tuple[int, list[int]],
    ],
    files: Callable[[int], list[str]],
) -> None: ...
def load_plugin(number: int, files: list[str]) -> int | None: ...
def native_filters() -> dict[int, str]: ...
def order_rows(
    words: tuple[int, int, int, int, int, int, int, int], listed: bytes, begin: int, end: int
) -> npt.NDArray[np.int64]: ...
def order_positions(
    words: tuple[int, int, int, int, int, int, int, int], listed: bytes, begin: int, end: int
) -> npt.NDArray[np.int64]: ...
def control_bytes(n_readers: int, n_slots: int, n_consumers: int) -> int: ...
def build_info() -> dict[str, Any]: ...
