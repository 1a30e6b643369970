"""Parts of datasets as h5py has them: regions of references, and what virtual datasets show.

Law
---
1. Names and values are h5py's. Nothing of the parts is read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.opened.open_files import Place
from _multitables.index.types.references import RegionReference
from _multitables.parent.open.read_only import refused
from _multitables.select.region import RegionError, region_shape, region_steps

if TYPE_CHECKING:
    from _multitables._core import Grid, Mappings, StoredDataset

MAX_RANK = 32


class Regions:
    """What region references say: ``dataset.regionref.shape(reference)``."""

    def __init__(self, home: Any, place: Place) -> None:
        self._home, self._place = home, place

    def shape(self, reference: RegionReference) -> Any:
        """Return the extents of the dataset that is referred to."""
        return self._home.file[reference].shape

    def selection(self, reference: RegionReference) -> Any:
        """Return the shape of what is selected of it."""
        place, shape = self._place, self.shape(reference)
        metadata = place.file.metadata
        _, selected = place.call(metadata.region, reference.heap, reference.number)
        return _of_region(region_shape, place, selected, shape)

    def __getitem__(self, key: object) -> NoReturn:
        """Raise `ReadOnlyError`: a new reference is written to the file."""
        raise refused("a region reference", repr(self._home))


def steps_of_region(place: Place, selected: tuple[Any, ...], shape: Any) -> tuple[Any, ...]:
    """Return NumPy's indexes, one after another, for a selection in the dataset at a place."""
    steps: tuple[Any, ...] = _of_region(region_steps, place, selected, shape)
    return steps


def _of_region(ask: Callable[..., Any], place: Place, selected: Any, shape: Any) -> Any:
    try:
        return ask(selected, shape)
    except RegionError as error:
        raise _refused(place, f"has a region reference whose selection {error}") from None


@dataclass(frozen=True)
class Part:
    """Elements of a dataset: a grid of blocks; methods are those of h5py's ``SpaceID``."""

    #: Extents of the dataset; None where the mapping does not say them.
    shape: tuple[int, ...] | None
    start: tuple[int, ...]
    stride: tuple[int, ...]
    count: tuple[int, ...]
    block: tuple[int, ...]

    def get_regular_hyperslab(self) -> tuple[tuple[int, ...], ...]:
        """Return start, stride, count and block along each axis."""
        return self.start, self.stride, self.count, self.block

    def get_select_bounds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the first and the last element along each axis."""
        axes = zip(*self.get_regular_hyperslab(), strict=True)
        last = (start + stride * (count - 1) + block - 1 for start, stride, count, block in axes)
        return self.start, tuple(last)

    def get_select_npoints(self) -> int:
        """Return how many elements there are."""
        return math.prod(self.count) * math.prod(self.block)


class VDSmap(NamedTuple):
    """One mapping of a virtual dataset: a part of it, and the part of a source that it shows.

    ``src_space`` is None for all of the source, whose extents a mapping does not say.
    """

    vspace: Part
    file_name: str
    dset_name: str
    src_space: Part | None


def virtual_sources(place: Place, stored: StoredDataset) -> list[VDSmap]:
    """Return the mappings of a virtual dataset.

    Raises
    ------
    UnsupportedDatasetError
        It is not virtual, or a mapping is of single elements.
    """
    if stored.mappings is None:
        raise _refused(place, "is not a virtual dataset")
    mappings = place.call(place.file.metadata.mappings, *stored.mappings)
    names, found = mappings.names, []
    for number, named in enumerate(mappings.sources):
        file, path = names[named]
        shown = _part(place, mappings.shown(number, stored.dims), stored.dims)
        source = _source(place, mappings, number, shown)
        name = path.decode("utf-8", "surrogateescape")
        found.append(VDSmap(shown, os.fsdecode(file), name, source))
    return found


def _source(place: Place, mappings: Mappings, number: int, shown: Part) -> Part | None:
    """Return the part of a source, of the rank that gives as many elements as are shown."""
    if not mappings.says_which(number):
        return None
    for rank in range(1, MAX_RANK + 1):
        axes = mappings.in_source(number, rank)
        n_points = axes and math.prod(count * block for _, _, count, block in axes)
        if n_points == shown.get_select_npoints():
            return _part(place, axes, None)
    return _part(place, None, None)


def _part(place: Place, axes: Grid | None, dims: tuple[int, ...] | None) -> Part:
    if axes is None:
        raise _refused(place, "maps elements that are no grid of blocks, or that are not limited")
    return Part(dims, *zip(*axes, strict=True))


def _refused(place: Place, what: str) -> UnsupportedDatasetError:
    path, filename = place.path, place.file.filename
    return UnsupportedDatasetError(f"{path!r} in {filename!r} {what}", path=path, filename=filename)
