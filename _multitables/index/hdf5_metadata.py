"""What HDF5 tells of one dataset: its filters, stored chunks, fill value, and who wrote it.

Law
---
1. One question, one function; each takes h5py's low-level dataset, or its creation properties.
2. Where HDF5's answer depends on its release, the file itself decides, or a small file in memory.
3. What h5py does not wrap is asked of the libhdf5 that h5py is linked to.

This file must never know of indexes, plans or options.
"""

from __future__ import annotations

import array
import ctypes
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Classes of datasets that PyTables wrote, in the attribute CLASS.
PYTABLES_CLASSES = (b"TABLE", b"ARRAY", b"CARRAY", b"EARRAY", b"VLARRAY")
#: H5D_FILL_VALUE_USER_DEFINED
USER_DEFINED = 2
#: H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
DONT_FILTER_PARTIAL_CHUNKS = 2
#: H5D_CHUNK_IDX_EARRAY
EXTENSIBLE_ARRAY = 4

#: H5S_UNLIMITED, which h5py gives with and without a sign
UNLIMITED = (-1, 2**64 - 1)

U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class FilterSpec:
    """One filter of a pipeline, as stored with the dataset."""

    id: int
    flags: int
    values: tuple[int, ...]
    name: str


def is_pytables(dataset: Any) -> bool:
    """Whether PyTables wrote a dataset: then its types are what PyTables makes of them."""
    from h5py import h5a

    if not h5a.exists(dataset, b"CLASS"):
        return False
    attribute = h5a.open(dataset, b"CLASS")
    kind = attribute.get_type()
    if attribute.shape != () or not hasattr(kind, "is_variable_str") or kind.is_variable_str():
        return False
    text = np.zeros((), attribute.dtype)
    attribute.read(text)
    return bytes(text[()]).rstrip(b"\0") in PYTABLES_CLASSES


def ragged_type(dataset: Any) -> Any:
    """Return the type of one atom of ragged data, or None for any other dataset."""
    from h5py import h5t

    kind = dataset.get_type()
    return kind.get_super() if kind.get_class() == h5t.VLEN else None


def is_pseudo_atom(dataset: Any) -> bool:
    """Whether a row is not an array of atoms but what PyTables pickled, or a string."""
    from h5py import h5a

    return bool(h5a.exists(dataset, b"PSEUDOATOM"))


def pipeline_of(plist: Any) -> tuple[FilterSpec, ...]:
    """Return the filters of a dataset's creation properties, in the order of writing."""
    return tuple(_filter_spec(plist, position) for position in range(plist.get_nfilters()))


def _filter_spec(plist: Any, position: int) -> FilterSpec:
    number, flags, values, name = plist.get_filter(position)
    text = name.split(b"\0")[0].decode("utf-8", "replace")
    return FilterSpec(number, flags, tuple(int(v) & 0xFFFFFFFF for v in values), text)


def partial_chunks_are_unfiltered(plist: Any) -> bool | None:
    """Whether partial edge chunks are stored unfiltered, whatever their filter mask says.

    None: this build of h5py does not let us ask (``H5Pget_chunk_opts``).
    """
    options = ctypes.c_uint(0)
    if _ask("H5Pget_chunk_opts", plist.id, options) is None:
        return None
    return bool(options.value & DONT_FILTER_PARTIAL_CHUNKS)


def swizzled_axis(dataset: Any) -> int | None:
    """Return the axis that an extensible array puts first when it numbers chunks; usually 0.

    None: this build of h5py does not let us ask (``H5Dget_chunk_index_type``).
    """
    most = dataset.get_space().get_simple_extent_dims(True)
    unlimited = [axis for axis, dim in enumerate(most) if dim in UNLIMITED]
    if len(unlimited) != 1 or not unlimited[0]:
        return 0  # only an extensible array has one unlimited axis and another order
    kind = ctypes.c_int(-1)
    if _ask("H5Dget_chunk_index_type", dataset.id, kind) is None:
        return None
    return unlimited[0] if kind.value == EXTENSIBLE_ARRAY else 0


@functools.cache
def _libhdf5() -> ctypes.CDLL:
    """Return h5py's libhdf5: a module of h5py finds the symbols of what it is linked to."""
    import h5py

    return ctypes.CDLL(h5py.h5d.__file__)


def _ask(name: str, identifier: int, answer: Any) -> Any:
    """Call a function of libhdf5 that fills `answer`, and return that; None: there is none."""
    try:
        function = getattr(_libhdf5(), name)
    except (AttributeError, OSError):
        return None
    function.argtypes, function.restype = [ctypes.c_int64, ctypes.c_void_p], ctypes.c_int
    if function(identifier, ctypes.byref(answer)) < 0:
        raise RuntimeError(f"{name} failed")
    return answer


def chunk_records(dataset: Any, rank: int) -> U64:
    """Return a row for each stored chunk: chunk_offset, filter_mask, byte_offset, stored_size.

    The chunk_offset is the row's first `rank` numbers.
    """
    records = _told_records(dataset, rank)
    axis = swizzled_axis(dataset)
    if axis and _tells_unswizzled():
        records = records.copy()
        records[:, :rank] = _swizzled_offsets(dataset, records[:, :rank], axis)
    return records


def _told_records(dataset: Any, rank: int) -> U64:
    numbers = array.array("Q")  # a file may have millions of chunks, and tuples are large
    if hasattr(dataset, "chunk_iter"):
        dataset.chunk_iter(lambda chunk: numbers.extend((*chunk[0], *chunk[1:])))
    else:  # HDF5 before 1.12.3, slowly
        for position in range(dataset.get_num_chunks()):
            chunk = dataset.get_chunk_info(position)
            numbers.extend((*chunk[0], *chunk[1:]))
    return np.frombuffer(numbers, np.uint64).reshape(-1, rank + 3)


@functools.cache
def _tells_unswizzled() -> bool:
    """Whether this HDF5 reports chunks of an extensible array at wrong places, as 2.0 does.

    The array numbers its chunks with the unlimited axis first, but `H5Dchunk_iter` counts as if
    the axes were in order. A file in memory shows it: its second chunk is at (1, 0).
    """
    from h5py import h5d, h5f, h5p, h5s, h5t

    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(4096, False)
    access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
    scratch = h5f.create(b"multitables chunk order", h5f.ACC_TRUNC, fapl=access)
    try:
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk((1, 1))
        space = h5s.create_simple((2, 2), (2, h5s.UNLIMITED))
        dataset = h5d.create(scratch, b"x", h5t.NATIVE_INT8, space, plist)
        dataset.write(h5s.ALL, h5s.ALL, np.ones((2, 2), np.int8))
        return bool(_told_records(dataset, 2)[1, 0] != 1)
    finally:
        scratch.close()


def _swizzled_offsets(dataset: Any, told: U64, axis: int) -> U64:
    """Return the true offsets of chunks that were told as if the axes were in order."""
    chunk = np.array(dataset.get_create_plist().get_chunk(), np.uint64)
    most = dataset.get_space().get_simple_extent_dims(True)
    # Chunks along each axis; along the unlimited one, and those before it, nothing is carried.
    counts = [
        1 if dim in UNLIMITED else -(-dim // int(n)) for dim, n in zip(most, chunk, strict=True)
    ]
    places = told // chunk
    number = places[:, axis]
    for later in range(axis + 1, len(counts)):
        number = number * np.uint64(counts[later]) + places[:, later]
    found = np.empty_like(told)
    for other in reversed([other for other in range(len(counts)) if other != axis]):
        number, found[:, other] = np.divmod(number, np.uint64(counts[other]))
    found[:, axis] = number
    return found * chunk


def missing_user_block(
    dataset: Any, filename: str, chunks: Iterable[tuple[Any, Any, Any]], block: int
) -> int:
    """Return what chunk addresses lack: some releases of HDF5 count from the user block's end.

    The file itself decides: stored chunks are compared with the bytes at both places until only
    one place fits.
    """
    with open(filename, "rb") as file:
        for offset, address, size in chunks:
            _, stored = dataset.read_direct_chunk(tuple(map(int, offset)))
            fits = []
            for missing in (0, block):
                file.seek(int(address) + missing)
                fits.append(file.read(int(size)) == stored)
            if fits[0] != fits[1]:
                return 0 if fits[0] else block
    return 0


def fill_value(dataset: Any) -> bytes:
    """Return the fill value as one stored element.

    h5py converts fill values through NumPy, which lacks some types. HDF5 itself fills a dataset
    that was never written, so one is made in memory and read in its own type.
    """
    from h5py import h5d, h5f, h5p, h5s

    plist, kind = dataset.get_create_plist(), dataset.get_type()
    element = np.zeros(kind.get_size(), np.uint8)
    if plist.fill_value_defined() != USER_DEFINED:
        return element.tobytes()
    plist = plist.copy()
    plist.set_layout(h5d.CONTIGUOUS)
    plist.remove_filter(0)  # H5Z_FILTER_ALL
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(4096, False)
    scratch = h5f.create(b"multitables fill value", h5f.ACC_TRUNC, fapl=access)
    try:
        one = h5s.create_simple((1,))
        h5d.create(scratch, None, kind, one, plist).read(one, one, element, mtype=kind)
    finally:
        scratch.close()
    return element.tobytes()


def compact_bytes(dataset: Any) -> bytes:
    """Return the elements of a compact dataset, 64 KiB at most, as they are stored."""
    from h5py import h5s

    kind = dataset.get_type()
    stored = np.zeros(dataset.get_space().get_simple_extent_npoints() * kind.get_size(), np.uint8)
    dataset.read(h5s.ALL, h5s.ALL, stored, mtype=kind)
    return stored.tobytes()
