"""The chunks of a benchmark file as a zarr array: what zarr-python and TensorStore read.

Law
---
1. Chunks are copied as they are stored, so that every library decodes the same bytes. Nothing is
   compressed again: a zlib stream only gets a blosc header, because TensorStore unshuffles only
   blosc chunks.
2. It is written once, when it is first asked for, and lies on the device when `make` returns.
3. The directory is the caller's to remove. Nothing here knows who reads the copy.

The format is zarr's second, which both read: ``.zarray`` describes the array, and the file ``3.0``
is the chunk in row 3 and column 0 of the grid
(https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html).
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.workloads import Workload

#: A blosc chunk of one block (c-blosc, README_CHUNK_FORMAT.rst): versions of blosc and of the
#: compressor, flags, size of an item; sizes decoded, of the block, of all; the block's place and,
#: before its bytes, how many they are. A block that is as large as decoded is not compressed.
BLOSC_BLOCK = struct.Struct("<BBBBIIIII")
BLOSC_SHUFFLED, BLOSC_ONE_STREAM, BLOSC_OF_ZLIB = 0x01, 0x10, 3 << 5


def as_blosc(stream: bytes, decoded_bytes: int, item_bytes: int, shuffled: bool) -> bytes:
    """A blosc chunk with the stream of zlib, or with what is not compressed."""
    flags = BLOSC_SHUFFLED * shuffled | BLOSC_ONE_STREAM | BLOSC_OF_ZLIB
    place = BLOSC_BLOCK.size - 4
    sizes = (decoded_bytes, decoded_bytes, BLOSC_BLOCK.size + len(stream), place, len(stream))
    return BLOSC_BLOCK.pack(2, 1, flags, item_bytes, *sizes) + stream


class NoCopyError(RuntimeError):
    """There is no zarr copy of this; the message says why."""


class ZarrCopy:
    """A copy of a dataset, in a directory of its own.

    Parameters
    ----------
    filename : str
        It holds the dataset, in chunks.
    workload : Workload
        What the file holds.
    directory : str
        Where its directory is made, at once.

    Attributes
    ----------
    path : str
        The zarr array.
    files : tuple of str
        All files of the copy; they exist after `make`.
    chunk_rows : int
    """

    def __init__(self, filename: str, workload: Workload, directory: str) -> None:
        import tables

        self._filename, self._workload = filename, workload
        self.path = tempfile.mkdtemp(suffix=".zarr", dir=directory)
        with tables.open_file(filename, "r") as file:
            node = file.get_node(workloads.PATH)
            self.chunk_rows = int(node.chunkshape[0])
            places = _grid(node.shape, node.chunkshape)
        self.files = tuple(
            os.path.join(self.path, name)
            for name in (".zarray", *(".".join(map(str, place)) for place in places))
        )
        self._is_made = False

    def make(self) -> str:
        """The path of the copy, which is written when it is not there yet.

        Raises
        ------
        NoCopyError
            Rows are records, no codec fits, or the disk is too small.
        """
        if self._workload.is_table:
            raise NoCopyError("records have no zarr copy here: choose a dataset of numbers")
        if not self._is_made:
            try:
                workloads.check_disk(self.path, self._workload.needed_bytes)
            except workloads.NotEnoughDiskError as error:
                raise NoCopyError(str(error)) from error
            self._write()
            _bring_to_device(self.path)
            self._is_made = True
        return self.path

    def _write(self) -> None:
        import tables

        with tables.open_file(self._filename, "r") as file:
            node = file.get_node(workloads.PATH)
            with open(self.files[0], "w") as described:
                json.dump(_description(node), described)
            chunks = _chunks(node)
            for filename, chunk in zip(self.files[1:], chunks, strict=True):
                with open(filename, "wb") as copy:
                    copy.write(chunk)


def _grid(shape: Sequence[int], chunk_shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The place of each chunk, in rows of chunks."""
    return itertools.product(
        *(range(-(-size // chunk)) for size, chunk in zip(shape, chunk_shape, strict=True))
    )


def _description(node: Any) -> dict[str, Any]:
    """What ``.zarray`` says."""
    filters, compressor = node.filters, None
    if filters.complevel:
        library, _, inner = filters.complib.partition(":")
        if library not in ("blosc", "zlib"):
            raise NoCopyError(
                f"zarr-python and TensorStore share no codec for {filters.complib!r}. "
                "To compare with them choose zlib or blosc."
            )
        compressor = {
            "id": "blosc",
            "cname": inner or {"blosc": "blosclz"}.get(library, library),
            "clevel": filters.complevel,
            "shuffle": int(filters.shuffle),
            "blocksize": 0,
        }
    return {
        "zarr_format": 2,
        "shape": [int(size) for size in node.shape],
        "chunks": [int(size) for size in node.chunkshape],
        "dtype": node.dtype.str,
        "compressor": compressor,
        "filters": None,
        "fill_value": None,
        "order": "C",
    }


def _chunks(node: Any) -> Iterator[bytes]:
    """The chunks of the copy, in the order of the grid."""
    item_bytes = node.dtype.itemsize
    decoded_bytes = math.prod(node.chunkshape) * item_bytes
    of_zlib = node.filters.complevel and node.filters.complib == "zlib"
    for place in _grid(node.shape, node.chunkshape):
        start = tuple(at * size for at, size in zip(place, node.chunkshape, strict=True))
        stored = node.read_chunk(start)
        # HDF5 leaves the compressor out of a chunk that it makes no smaller; zarr knows no such
        if of_zlib or node.chunk_info(start).filter_mask:
            shuffled = of_zlib and node.filters.shuffle
            stored = as_blosc(stored, decoded_bytes, item_bytes, shuffled)
        yield stored


def _bring_to_device(directory: str) -> None:
    """Have the file system that holds `directory` write what it has not written yet.

    One call for all files: an fsync of each would wait for the device thousands of times.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if libc.syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), directory)
    finally:
        os.close(descriptor)
