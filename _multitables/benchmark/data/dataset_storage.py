"""How a dataset is stored: chunks, filters in words, bytes; and a sample of a large one.

Law
---
1. It reads metadata with h5py, and copies chunks as they are stored; it decodes none.
2. A path without a dataset is refused with the datasets that the file holds.
3. Nothing is timed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_PATHS = 8  # of a file's datasets, in a message
SLAB_BYTES = 2**22
BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
BITSHUFFLE = {2: "lz4", 3: "zstd"}


def _level(values: Sequence[int]) -> str:
    return f" {values[0]}" if values else ""


def _blosc(values: Sequence[int]) -> str:
    """Its client values are the same in both releases: level, shuffle, compressor at 4, 5, 6."""
    if len(values) < 7:
        return ""
    name = BLOSC[values[6]] if values[6] < len(BLOSC) else f"compressor {values[6]}"
    shuffle = {1: ", shuffle", 2: ", bitshuffle"}.get(values[5], "")
    return f" ({name} {values[4]}{shuffle})"


def _bitshuffle(values: Sequence[int]) -> str:
    return f" ({BITSHUFFLE[values[4]]})" if len(values) > 4 and values[4] in BITSHUFFLE else ""


def _plain(_values: Sequence[int]) -> str:
    return ""


# id -> name, and what its client values say in words
FILTERS: dict[int, tuple[str, Callable[[Sequence[int]], str]]] = {
    1: ("deflate (zlib)", _level),
    2: ("shuffle", _plain),
    3: ("fletcher32", _plain),
    4: ("szip", _plain),
    5: ("nbit", _plain),
    6: ("scaleoffset", _plain),
    305: ("lzo", _plain),
    307: ("bzip2", _level),
    32000: ("lzf", _plain),
    32001: ("blosc", _blosc),
    32004: ("lz4", _plain),
    32008: ("bitshuffle", _bitshuffle),
    32013: ("zfp", _plain),
    32015: ("zstd", _level),
    32026: ("blosc2", _blosc),
}


class NoDatasetError(OSError):
    """There is no such dataset, or nothing in it; the message says what there is."""


@dataclass(frozen=True)
class Stored:
    """How one dataset is stored.

    Attributes
    ----------
    filename, path : str
    dtype : str
    shape : tuple of int
    chunks : tuple of int
        Empty for data without chunks.
    filters : tuple of str
        In words, in the order in which they were applied.
    row_bytes : int
        Decoded.
    stored_bytes : int
        In the file; 0 when nothing was ever written.
    offset : int
        Of the first stored byte in the file.
    elsewhere : bool
        The bytes lie in other files: it is a virtual dataset, or of external files.
    """

    filename: str
    path: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    filters: tuple[str, ...]
    row_bytes: int
    stored_bytes: int
    offset: int
    elsewhere: bool = False

    @property
    def rows(self) -> int:
        """The outer length."""
        return self.shape[0]

    @property
    def decoded_bytes(self) -> int:
        """Of the whole dataset."""
        return self.rows * self.row_bytes

    @property
    def ratio(self) -> float:
        """Decoded bytes to each stored one; 1 when nothing is stored."""
        return self.decoded_bytes / self.stored_bytes if self.stored_bytes else 1.0

    @property
    def chunk_bytes(self) -> int:
        """Decoded bytes of one chunk, or of one row without chunks."""
        if not self.chunks:
            return self.row_bytes
        size_bytes = self.row_bytes * self.chunks[0]
        for length, whole in zip(self.chunks[1:], self.shape[1:], strict=True):
            size_bytes = size_bytes * length // max(1, whole)
        return size_bytes

    @property
    def pipeline(self) -> str:
        """The filters in words: ``shuffle, deflate (zlib) 3``."""
        return ", ".join(self.filters) or "no filter"


@contextlib.contextmanager
def _file(filename: str) -> Iterator[Any]:
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401  (registers filters like blosc)
    try:
        file = h5py.File(filename, "r")
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {filename!r}. Give the name of an HDF5 file") from None
    except OSError as error:
        raise OSError(f"{filename!r} cannot be opened as an HDF5 file: {error}") from error
    with file:
        yield file


def describe(filename: str, path: str | None = None) -> Stored:
    """How a dataset is stored.

    Parameters
    ----------
    filename : str
    path : str, optional
        May be left out when the file holds one dataset only.

    Raises
    ------
    OSError
        The file is not there, or is no HDF5 file.
    NoDatasetError
        There is no such dataset, or nothing in it.
    """
    with _file(filename) as file:
        if path is None:
            found = datasets(file)
            if len(found) != 1:
                raise NoDatasetError(f"name one dataset of {filename!r}. {holds(found)}")
            (path,) = found
        dataset = _dataset(file, filename, path)
        plist = dataset.id.get_create_plist()
        filters = [plist.get_filter(number) for number in range(plist.get_nfilters())]
        size_bytes = dataset.id.get_type().get_size()
        for length in dataset.shape[1:]:
            size_bytes *= length
        return Stored(
            filename=os.path.abspath(filename),
            path=path,
            dtype=_dtype(dataset),
            shape=tuple(dataset.shape),
            chunks=tuple(dataset.chunks or ()),
            filters=tuple(_in_words(*one) for one in filters),
            row_bytes=int(size_bytes),
            stored_bytes=int(dataset.id.get_storage_size()),
            offset=_offset(dataset),
            elsewhere=dataset.is_virtual or plist.get_external_count() > 0,
        )


def _dataset(file: Any, filename: str, path: str) -> Any:
    import h5py

    node = file.get(path)
    if not isinstance(node, h5py.Dataset):
        what = "a group" if isinstance(node, h5py.Group) else "nothing"
        raise NoDatasetError(
            f"there is {what} at {path!r} in {filename!r}, where a dataset is wanted. "
            f"{holds(datasets(file))}"
        )
    if not node.shape or not node.size:
        raise NoDatasetError(
            f"{path!r} in {filename!r} holds no rows (shape {node.shape}): there is nothing to "
            "explain. Choose another dataset"
        )
    return node


def datasets(file: Any) -> list[str]:
    """The paths of the first datasets of a file, which h5py or multitables has open."""
    found: list[str] = []

    def see(name: str, node: Any) -> bool | None:
        if hasattr(node, "chunks"):
            found.append(f"/{name}")
        return len(found) > SHOWN_PATHS or None

    file.visititems(see)
    return found


def holds(paths: Sequence[str]) -> str:
    if not paths:
        return "It holds no dataset"
    more = ", ..." if len(paths) > SHOWN_PATHS else ""
    return f"It holds {', '.join(paths[:SHOWN_PATHS])}{more}"


def _in_words(number: int, _flags: int, values: Sequence[int], name: bytes) -> str:
    if number not in FILTERS:
        return f"filter {number} ({name.decode(errors='replace')})"
    word, told = FILTERS[number]
    return word + told(values)


def _dtype(dataset: Any) -> str:
    try:
        return "records" if dataset.dtype.names else str(dataset.dtype)
    except TypeError:
        return "of a type that NumPy lacks"


def _offset(dataset: Any) -> int:
    """The first stored byte; 0 where that cannot be told."""
    try:
        if dataset.chunks is None:
            return int(dataset.id.get_offset() or 0)
        return int(dataset.id.get_chunk_info(0).byte_offset or 0)
    except (OSError, RuntimeError, ValueError, TypeError):
        return 0


def sample(stored: Stored, filename: str, size_bytes: int) -> Stored:
    """Copy the first rows of a large dataset, as they are stored, into a file of their own.

    Parameters
    ----------
    stored : Stored
    filename : str
        Of the new file.
    size_bytes : int
        Decoded; at least one row of chunks is taken.

    Raises
    ------
    NoDatasetError
        It cannot be copied.
    """
    step = stored.chunks[0] if stored.chunks else 1
    rows = min(stored.rows, max(1, size_bytes // (step * stored.row_bytes)) * step)
    try:
        with _file(stored.filename) as source:
            _copy(source[stored.path], filename, rows)
    except (OSError, ValueError, RuntimeError) as error:
        raise NoDatasetError(f"no sample of {stored.path!r} could be copied: {error}") from error
    return describe(filename, "/sample")


def _copy(dataset: Any, filename: str, rows: int) -> None:
    import h5py

    shape = (rows, *dataset.shape[1:])
    with h5py.File(filename, "w") as file:
        space = h5py.h5s.create_simple(shape, shape)
        plist = dataset.id.get_create_plist()
        kind = dataset.id.get_type()
        made = h5py.Dataset(h5py.h5d.create(file.id, b"sample", kind, space, plist))
        if dataset.chunks is None:
            step = max(1, SLAB_BYTES // max(1, made.nbytes // rows))
            for start in range(0, rows, step):
                made[start : start + step] = dataset[start : min(start + step, rows)]
            return

        found: list[Any] = []
        dataset.id.chunk_iter(found.append)  # while it runs no chunk may be read
        for chunk in found:
            if chunk.chunk_offset[0] < rows:
                mask, raw = dataset.id.read_direct_chunk(chunk.chunk_offset)
                made.id.write_direct_chunk(chunk.chunk_offset, raw, mask)
