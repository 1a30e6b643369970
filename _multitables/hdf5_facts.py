"""What HDF5 tells of one dataset: its filters, stored chunks, fill value, and who wrote it.

Law
---
1. One question, one function; each takes h5py's low-level dataset (or what that has).
2. Where HDF5's answer depends on its release, the file itself decides.

This file must never know of indexes, plans or options.
"""

from __future__ import annotations

import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Classes of datasets that PyTables wrote, in the attribute CLASS.
PYTABLES_CLASSES = (b"TABLE", b"ARRAY", b"CARRAY", b"EARRAY", b"VLARRAY")
#: H5D_FILL_VALUE_USER_DEFINED
USER_DEFINED = 2


@dataclass(frozen=True)
class FilterSpec:
    """One filter of a pipeline, as stored with the dataset."""

    id: int
    flags: int
    values: tuple[int, ...]
    name: str


def is_pytables(dataset: Any) -> bool:
    """Whether PyTables wrote a dataset, whose types then are what PyTables makes of them."""
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
    """Whether a row is what PyTables pickled, or a string of any length, not an array of atoms."""
    from h5py import h5a

    return bool(h5a.exists(dataset, b"PSEUDOATOM"))


def pipeline_of(plist: Any) -> tuple[FilterSpec, ...]:
    """Return the filters of a dataset's creation properties, in the order of writing."""
    return tuple(_filter_spec(plist, position) for position in range(plist.get_nfilters()))


def _filter_spec(plist: Any, position: int) -> FilterSpec:
    number, flags, values, name = plist.get_filter(position)
    text = name.split(b"\0")[0].decode("utf-8", "replace")
    return FilterSpec(number, flags, tuple(int(v) & 0xFFFFFFFF for v in values), text)


def chunk_records(dataset: Any, rank: int) -> npt.NDArray[np.uint64]:
    """Return a row of numbers for every stored chunk.

    Its `rank` elements of chunk_offset, filter_mask, byte_offset, stored_size.
    """
    numbers = array.array("Q")  # a million chunks in 40 MB; as tuples they take 300
    if hasattr(dataset, "chunk_iter"):
        dataset.chunk_iter(lambda chunk: numbers.extend((*chunk[0], *chunk[1:])))
    else:  # HDF5 before 1.12.3; costs milliseconds a chunk
        for position in range(dataset.get_num_chunks()):
            chunk = dataset.get_chunk_info(position)
            numbers.extend((*chunk[0], *chunk[1:]))
    return np.frombuffer(numbers, np.uint64).reshape(-1, rank + 3)


def missing_user_block(
    dataset: Any, filename: str, chunks: Iterable[tuple[Any, Any, Any]], block: int
) -> int:
    """Bytes to add to chunk addresses: some releases of HDF5 count them from the user block's end.

    Decided by the file itself: stored chunks are compared with the bytes at both places, until
    only one place fits.
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
    """The fill value as one stored element.

    h5py converts fill values through NumPy, which not every type has; HDF5 itself fills a dataset
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
