"""A file's groups and datasets as Zarr's groups and arrays, whose chunks are ranges of the file.

Law
---
1. Each object once, at the first path that hard links lead to it by. Zarr has no links.
2. A dataset that Zarr cannot decode is told to `refused`, with the reason, and left out.
3. Attributes that JSON has no form for are left out, and those that only HDF5 needs.

This file must never know how references are written.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.index.chunk_index import NO_CHUNKS, Records, chunks_of, grid_of
from _multitables.index.kerchunk.datatype_message import texts
from _multitables.index.kerchunk.zarr_types import (
    NotRepresentableError,
    fill_to_zarr,
    filters_to_zarr,
    to_zarr,
)
from _multitables.index.metadata import Metadata
from _multitables.index.opened.open_files import OpenFile
from _multitables.index.types import hdf5_errors
from _multitables.index.types.element_type import ElementType, element_type, flat
from _multitables.index.types.hdf5_metadata import Attribute, is_pytables
from _multitables.index.types.numpy_type import PADDING_SPACEPAD, PADDINGS, Unsupported

#: What HDF5's dimension scales and netCDF-4 keep in attributes for themselves.
HIDDEN = {
    b"CLASS", b"NAME", b"DIMENSION_LIST", b"DIMENSION_LABELS", b"REFERENCE_LIST", b"_Netcdf4Dimid",
    b"_Netcdf4Coordinates", b"_NCProperties", b"_nc3_strict",
}  # fmt: skip
DIMENSIONS = "_ARRAY_DIMENSIONS"


@dataclass(frozen=True)
class Node:
    """A group; of an array, `zarray` too and where its chunks are."""

    #: Without a slash before it; the root's is "".
    path: str
    zattrs: dict[str, Any]
    zarray: dict[str, Any] | None = None
    #: Chunks along each axis.
    grid: tuple[int, ...] = ()
    chunks: Records = field(default_factory=lambda: NO_CHUNKS, repr=False)
    #: The only chunk, if its bytes lie among the file's metadata.
    inline: bytes = b""


class Naming:
    """The names of dimensions, as xarray wants them of Zarr: by scales, or by lengths."""

    def __init__(self, metadata: Metadata, paths: dict[int, str]) -> None:
        self._metadata, self._paths = metadata, paths
        self._offsets = {path: offset for offset, path in paths.items()}
        self._by_length: dict[tuple[int, int], str] = {}

    def names(
        self,
        path: str,
        attributes: list[Attribute],
        dims: tuple[int, ...],
        inner: tuple[int, ...],
    ) -> list[str]:
        """Name the dimensions of a dataset, and those of its elements."""
        scales = [0] * len(dims)
        for name, _, datatype, shape, elements in attributes:
            if name == b"CLASS" and elements.rstrip(b"\0") == b"DIMENSION_SCALE" and len(dims) == 1:
                scales = [self._offsets.get(path, 0)]
            if name == b"DIMENSION_LIST" and shape == (len(dims),):
                size = _core.datatype(datatype).size
                lists = texts(self._metadata.global_object, elements, size)
                scales = [int.from_bytes(text[:8], "little") for text in lists]
        dims, scales = dims + inner, scales + [0] * len(inner)
        return [
            _last(self._paths[scale])
            if scale in self._paths
            else self._phony(dim, dims[:axis].count(dim))
            for axis, (scale, dim) in enumerate(zip(scales, dims, strict=True))
        ]

    def _phony(self, length: int, which: int) -> str:
        """Name a dimension without a scale as those of its length; an array has no name twice."""
        number = len(self._by_length)
        return self._by_length.setdefault((length, which), f"phony_dim_{number}")


def nodes(file: OpenFile, refused: Callable[[str, str], None]) -> Iterator[Node]:
    """Yield all nodes of a file, groups before what is in them."""
    found = list(_objects(file))
    datasets = {offset: path for offset, path, kind in found if kind == "dataset"}
    naming = Naming(file.metadata, datasets)
    for offset, path, kind in found:
        with _errors_named(file, path):
            attributes = file.metadata.attributes(offset)
            node = Node(path, _json_attributes(file.metadata, attributes))
        if kind == "dataset":
            try:
                with _errors_named(file, path):
                    node = _array(file.metadata, naming, offset, node, attributes)
            except (NotRepresentableError, Unsupported) as reason:
                refused(path, str(reason))
                continue
        yield node


@contextlib.contextmanager
def _errors_named(file: OpenFile, path: str) -> Iterator[None]:
    try:
        yield
    except _core.Corrupt as error:
        raise hdf5_errors.corrupt(file.filename, f"/{path}", error) from None
    except _core.Unknown as error:
        raise hdf5_errors.unsupported("unknown", file.filename, f"/{path}", error.args[0]) from None


def _objects(file: OpenFile) -> Iterator[tuple[int, str, str]]:
    """Yield offset, path and kind of groups and datasets."""
    metadata = file.metadata
    seen, next_ones = {metadata.root}, [(metadata.root, "")]
    while next_ones:
        offset, path = next_ones.pop()
        with _errors_named(file, path):
            kind = metadata.kind(offset)
            links = metadata.links(offset) if kind == "group" else []
        if kind in ("group", "dataset"):
            yield offset, path, kind
        for link in links:
            if link[2] == "hard" and link[3] not in seen:
                seen.add(link[3])
                name = link[0].decode("utf-8", "surrogateescape")
                next_ones.append((link[3], f"{path}/{name}" if path else name))


def _array(
    metadata: Metadata,
    naming: Naming,
    offset: int,
    node: Node,
    attributes: list[Attribute],
) -> Node:
    dataset = metadata.dataset(offset)
    element = element_type(_core.datatype(dataset.datatype), is_pytables(attributes))
    _check(dataset, element)
    dtype, dims = flat(element.dtype), dataset.dims
    layout, inner = dataset.layout, dtype.shape
    chunk_dims = dims if dataset.chunk_dims is None else dataset.chunk_dims
    chunks = NO_CHUNKS
    n_bytes = math.prod(dims) * dataset.element_bytes
    if layout == "chunked":
        chunks = metadata.chunks(offset)
    elif layout == "contiguous" and dataset.byte_offset is not None and n_bytes:
        chunks = chunks_of([0], dataset.byte_offset, n_bytes)
    is_chunked, masks = layout == "chunked", chunks["filter_mask"]
    codecs = filters_to_zarr(dataset.filters, masks) if is_chunked else []
    chunk_dims = tuple(max(1, dim) for dim in chunk_dims)
    zarray = {
        "zarr_format": 2,
        "shape": [*dims, *inner],
        "chunks": [*chunk_dims, *inner],
        "dtype": to_zarr(dtype.base),
        "fill_value": _fill(dataset, dtype.base),
        "order": "C",
        "filters": codecs or None,
        "compressor": None,
        "dimension_separator": ".",
    }
    names = naming.names(node.path, attributes, dims, inner)
    return Node(
        node.path,
        {**node.zattrs, DIMENSIONS: names},
        zarray,
        (*grid_of(dims, chunk_dims), *(1 for _ in inner)),
        chunks,
        dataset.elements[:n_bytes] if layout == "compact" else b"",
    )


def _check(dataset: _core.StoredDataset, element: ElementType) -> None:
    """Refuse what is not stored as Zarr would have it."""
    kinds = {conversion.kind for conversion in element.changes}
    for is_so, reason in (
        (dataset.is_null, "a null dataspace, which has no elements"),
        (dataset.layout == "virtual", "a virtual dataset"),
        (bool(dataset.external_files), "bytes in external files"),
        (not element.direct, element.reason),
        (bool(element.converted_bytes), "elements that are converted"),
        (PADDING_SPACEPAD in kinds, "strings that are padded with spaces"),
        (bool(kinds.difference(PADDINGS)), "numbers of a format of their own"),
    ):
        if is_so:
            raise NotRepresentableError(reason)


def _fill(dataset: _core.StoredDataset, dtype: np.dtype[Any]) -> Any:
    stored = dataset.fill_value or b""
    if dataset.fill_is_never_written or not stored:
        return fill_to_zarr(bytes(dtype.itemsize), dtype)
    one = stored[: dtype.itemsize]
    if stored != one * (len(stored) // len(one)):
        raise NotRepresentableError("a fill value whose elements differ")
    return fill_to_zarr(one, dtype)


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _json_attributes(metadata: Metadata, attributes: list[Attribute]) -> dict[str, Any]:
    found = {}
    for name, _, datatype, dims, elements in attributes:
        if name in HIDDEN:
            continue
        try:
            value = _json_value(metadata, _core.datatype(datatype), dims, elements)
        except (NotRepresentableError, Unsupported, _core.Corrupt):
            continue
        found[name.decode("utf-8", "surrogateescape")] = value
    return found


def _json_value(
    metadata: Metadata,
    datatype: _core.Datatype,
    dims: tuple[int, ...] | None,
    elements: bytes,
) -> Any:
    if dims is None:
        return None
    if datatype.kind in ("string", "variable_string"):
        size = datatype.size
        if datatype.kind == "string":
            stored = [elements[at : at + size] for at in range(0, len(elements), size)]
        else:
            stored = texts(metadata.global_object, elements, size)
        padding = b" " if datatype.padding == PADDING_SPACEPAD else b"\0"
        words = np.array([_text(one.rstrip(padding)) for one in stored], object)
        return words.reshape(dims).tolist()
    element = element_type(datatype, False)
    if element.changes or element.dtype.kind not in "biuf":
        raise NotRepresentableError(f"an attribute of the type {element.dtype}")
    return np.frombuffer(elements, element.dtype).reshape(dims).tolist()


def _text(stored: bytes) -> str:
    stored = stored.partition(b"\0")[0]
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored.decode("latin-1")
