"""Groups of a file as netCDF-4 has them: their dimensions, variables and attributes.

Law
---
1. A dimension is a dimension scale of the group, or of a group above it. An axis without one has a
   name of its own, such as "phony_dim_0". Where h5netcdf opens a file, all of this is as it says.
2. What h5netcdf does not open, because a scale is missing or in no group above, is an axis
   without a scale, and a warning says so. So is what is left out: what NumPy has no type for.
3. Of each object the attributes are read once, when its group is; elements never are.

This file must never know xarray.
"""

from __future__ import annotations

import contextlib
import posixpath
import warnings
from bisect import bisect_left
from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.elements.empty import Empty
from _multitables.errors import (
    CorruptFileError,
    FileOpenError,
    LeftOutWarning,
    MultitablesError,
    UnsupportedDatasetError,
)
from _multitables.parent.open.conversion import encoding_of
from _multitables.parent.open.dataset import Dataset
from _multitables.parent.open.group import Group
from _multitables.parent.open.objects import Datatype, Object

#: Attributes in which HDF5's dimension scales and netCDF-4 keep something for themselves.
HIDDEN = frozenset({
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates",
    "_NCProperties", "_nc3_strict",
})  # fmt: skip
#: Prefix in the file of a variable that has the name of a dimension, but not the dimension.
NOT_A_COORDINATE = "_nc4_non_coord_"
#: Start of the NAME of a scale that is a dimension and no variable.
NOT_A_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."
#: Errors of what a damaged list of references may name.
NOT_THERE = (AttributeError, IndexError, TypeError, ValueError)


@dataclass
class Dim:
    """A dimension."""

    name: str
    size: int
    is_unlimited: bool = False
    #: Its number in `_Netcdf4Coordinates`; None for a phony dimension.
    number: int | None = None


@dataclass
class Counts:
    """The number of phony dimensions that a file has so far."""

    scales: int = 0
    phony: int = 0


@dataclass(frozen=True)
class Variable:
    """A dataset, and what its axes are called."""

    dataset: Dataset
    dims: tuple[str, ...]
    #: The extents of its dimensions: an unlimited one may have grown since it was written.
    shape: tuple[int, ...]


class NetcdfGroup:
    """One group.

    Parameters
    ----------
    group : Group
        The group in its file.
    above : NetcdfGroup, optional
        The group that it is in. Default: it is the root.
    sorts : bool
        Number phony dimensions as netCDF-C does: behind the scales, and those of all groups now.
    """

    def __init__(
        self, group: Group, above: NetcdfGroup | None = None, *, sorts: bool = False
    ) -> None:
        self.group, self._above, self._sorts = group, above, sorts
        self._counts: Counts = Counts() if above is None else above._counts
        #: Of this group, by name; and of those above, too.
        self.dims: dict[str, Dim] = {}
        self.all_dims: ChainMap[str, Dim] = ChainMap(self.dims)
        self.scales: dict[Dataset, Dim] = {}
        self.types: list[Datatype] = []
        if above is not None:
            self.all_dims = above.all_dims.new_child(self.dims)
            self.scales, self.types = dict(above.scales), list(above.types)
        self._groups: dict[str, NetcdfGroup | None] = {}
        found: dict[str, Dataset] = {}
        for key in group:
            one, name = _at(group, key), _text(key)
            if isinstance(one, Dataset):
                found[name] = one
            elif isinstance(one, Datatype):
                self.types.append(one)
            elif one is not None:
                self._groups[name] = None
        for name, dataset in found.items():
            if _is_dimension(dataset):
                self._add_dim(name, dataset)
        axes = {name: self._axes(name, dataset) for name, dataset in found.items()}
        self._add_phony(found, axes)
        self.variables = {
            name.removeprefix(NOT_A_COORDINATE): self._variable(name, dataset, axes[name])
            for name, dataset in found.items()
            if _is_variable(dataset)
        }
        if sorts and above is None:
            for _ in self.walk():
                pass

    # ---- groups

    def find(self, path: str) -> NetcdfGroup:
        """Return a group below.

        Raises
        ------
        FileOpenError
            There is no such group.
        """
        group = self
        for name in filter(None, path.split("/")):
            if name not in group._groups:
                there = ", ".join(map(repr, group._groups)) or "none"
                raise FileOpenError(
                    f"no group {name!r} in {group.group.name!r} of {group.group.file.filename!r} "
                    f"(its groups: {there})",
                    advice="Check the name",
                    filename=group.group.file.filename,
                    path=path,
                )
            group = group._child(name)
        return group

    def walk(self, path: str = "/") -> Iterator[tuple[str, NetcdfGroup]]:
        """Yield this group and all below with their paths, each before those in it."""
        yield path, self
        for name in self._groups:
            child = self._child(name)
            if not child._is_above():
                yield from child.walk(posixpath.join(path, name))

    def _child(self, name: str) -> NetcdfGroup:
        found = self._groups[name]
        if found is None:
            found = NetcdfGroup(self.group[name], self, sorts=self._sorts)
            self._groups[name] = found
        return found

    def _is_above(self) -> bool:
        """Whether links go in a circle, so that the group is one of those above it."""
        above = self._above
        while above is not None and above.group != self.group:
            above = above._above
        return above is not None

    # ---- dimensions

    def _add_dim(self, name: str, scale: Dataset) -> None:
        size, is_unlimited = scale.shape[0], scale.maxshape == (None,)
        if is_unlimited:  # variables may be longer than it is
            size = max(size, *_extents(scale), 0)
        number = _attribute(scale, "_Netcdf4Dimid", None)
        if not isinstance(number, np.integer):
            number = self._counts.scales
        self._counts.scales += 1
        self.dims[name] = dim = Dim(name, size, is_unlimited, int(number))
        self.scales.setdefault(scale, dim)

    def _axes(self, name: str, dataset: Dataset) -> list[str | None]:
        """Return what the axes of a dataset are called; None: an axis has no scale."""
        shape: tuple[int, ...] = dataset.shape or ()
        if not _is_dimension(dataset):
            attached = enumerate(dataset.dims.attached)
            axes = [self._called(dataset, axis, scales) for axis, scales in attached]
        else:
            of_number = {self.all_dims[key].number: key for key in self.all_dims}
            numbers = np.ravel(_attribute(dataset, "_Netcdf4Coordinates", ())).tolist()
            axes = [of_number.get(number) for number in numbers] or [name]
        axes = [*axes, *[None] * len(shape)][: len(shape)]
        return [
            one if one is None or extent <= self.all_dims[one].size else None
            for one, extent in zip(axes, shape, strict=True)
        ]

    def _called(self, dataset: Dataset, axis: int, attached: Sequence[Any]) -> str | None:
        """Return what an axis is called after its last scale."""
        for error in attached:
            if isinstance(error, MultitablesError):
                _warn(error.happened, error.good)
        scales = [one for one in attached if isinstance(one, Dataset)]
        if not scales:
            return None
        scale, extent = scales[-1], dataset.shape[axis]
        dim = self.scales.get(scale)
        name = posixpath.basename(scale.name or "") if dim is None else dim.name
        known = self.all_dims.get(name)
        if known and extent <= known.size and (known is dim or extent == known.size):
            return name
        _warn(
            f"the scale {scale.name!r} of axis {axis} of {dataset.name!r} in "
            f"{dataset.file.filename!r} is no dimension of that length in its group or those above",
            "The variable is read, and the axis is one without a scale",
        )
        return None

    def _add_phony(
        self, found: Mapping[str, Dataset], axes: Mapping[str, Sequence[str | None]]
    ) -> None:
        """Add as many dimensions as the axes without a scale need."""
        wanted: Counter[int] = Counter()
        for name, dataset in found.items():
            if None in axes[name]:  # its axes have different names
                own = zip(axes[name], dataset.shape, strict=True)
                sizes = [
                    n if one is None else self.dims[one].size
                    for one, n in own
                    if one is None or one in self.dims
                ]
                wanted |= Counter(sizes)
        there = Counter(dim.size for dim in self.dims.values() if not dim.is_unlimited)
        for size, count in wanted.items():
            for _ in range(there[size], count):
                number = self._counts.phony + (self._counts.scales if self._sorts else 0)
                self._counts.phony += 1
                name = f"phony_dim_{number}"
                self.dims[name] = Dim(name, size)

    def _variable(self, name: str, dataset: Dataset, axes: Sequence[str | None]) -> Variable:
        shape: tuple[int, ...] = dataset.shape or ()
        dims, named = list(axes), self.all_dims.get(name)
        if len(shape) == 1 and named is not None and named.size == shape[0]:
            dims = [dims[0] or name]
        for axis, extent in enumerate(shape):
            if dims[axis] is None:
                own = (dim.name for dim in self.dims.values() if dim.size == extent)
                dims[axis] = next(one for one in own if one not in dims)
        names = tuple(filter(None, dims))
        return Variable(dataset, names, tuple(self.all_dims[one].size for one in names))

    def named_type(self, dtype: np.dtype[Any]) -> Datatype | None:
        """Return the named type, of this group or those above, that a dtype is of."""
        for one in self.types:
            # It is damaged, or NumPy has no such type.
            with contextlib.suppress(CorruptFileError, UnsupportedDatasetError, ValueError):
                if one.dtype == dtype and one.dtype.metadata == dtype.metadata:
                    return one
        return None


# ---- elements ----------------------------------------------------------------------------


def inside(
    key: tuple[Any, ...], shape: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[tuple[Any, ...] | None, tuple[Any, ...], tuple[int, ...]]:
    """Cut a key of a larger array to what is inside of a smaller one.

    Returns
    -------
    inside : tuple or None
        The key of the smaller array; None: it has nothing of it.
    target : tuple
        Where that lies in the result.
    shape : tuple of int
        Of the result.
    """
    inside: list[Any] = []
    target: list[Any] = []
    lengths: list[int] = []
    is_outside = False
    for one, length, extent in zip(key, shape, extents, strict=True):
        if isinstance(one, slice):
            wanted = range(length)[one]
            ascending = wanted if wanted.step > 0 else wanted[::-1]
            count = bisect_left(ascending, extent)
            begin = 0 if wanted.step > 0 else len(wanted) - count
            part = wanted[begin : begin + count]
            inside.append(slice(part.start, part.stop if part.stop >= 0 else None, part.step))
            target.append(slice(begin, begin + count))
            lengths.append(len(wanted))
            is_outside |= count == 0
        elif np.ndim(one) == 0:
            inside.append(int(one) % length)
            is_outside |= inside[-1] >= extent
        else:
            positions = np.asarray(one) % length
            inside.append(positions[positions < extent])
            target.append(np.flatnonzero(positions < extent))
            lengths.append(len(positions))
            is_outside |= len(inside[-1]) == 0
    return None if is_outside else tuple(inside), tuple(target), tuple(lengths)


def with_strings(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a compound dtype with strings in place of rows of letters."""
    fields: Any = dtype.fields
    formats = [
        np.dtype(f"S{one.shape[0]}") if one.base == "S1" and len(one.shape) == 1 else one
        for one, *_ in fields.values()
    ]
    offsets = [at for _, at, *_ in fields.values()]
    parts = {"names": dtype.names, "formats": formats, "offsets": offsets}
    whole: Any = {**parts, "itemsize": dtype.itemsize}
    return np.dtype(whole)


# ---- attributes ---------------------------------------------------------------------------


def attributes(of: Object) -> dict[str, Any]:
    """Return the attributes that are of the data, with values as h5netcdf gives them."""
    found = {}
    for name in of.attrs:
        if name in HIDDEN:
            continue
        try:
            dtype = of.attrs.dtype(name)
            found[_text(name)] = _value(of.attrs[name], dtype)
        except UnsupportedDatasetError as error:
            where = f"{name!r} of {of.name!r} in {of.file.filename!r}"
            _warn(f"the attribute {where} is left out: {error.happened}")
    return found


def _value(value: Any, dtype: np.dtype[Any]) -> Any:
    is_text, is_long = encoding_of(dtype), dtype.kind == "S" and dtype.itemsize > 1
    if isinstance(value, Empty):
        return b"" if dtype.kind == "S" and not is_long else np.array([], dtype)
    if is_text and is_long:  # which netCDF-C writes for texts; letters are bytes
        if isinstance(value, bytes):
            return value.decode(is_text, "surrogateescape")
        value = [one.decode(is_text, "surrogateescape") for one in value.flat]
    elif is_text and isinstance(value, np.ndarray):
        value = value.tolist()
    is_alone = isinstance(value, list | np.ndarray) and len(value) == 1
    return value[0] if is_alone else value


def _attribute(of: Object, name: str, default: Any) -> Any:
    """Return an attribute; the default also if NumPy has no type for it."""
    with contextlib.suppress(UnsupportedDatasetError):
        return of.attrs.get(name, default)
    return default


# ---- datasets -----------------------------------------------------------------------------


def _at(group: Group, key: str | bytes) -> Any:
    """Return what a link leads to; None: nothing, or an object of no known kind."""
    try:
        return group.get(key)
    except TypeError:
        where = f"{key!r} of {group.name!r} in {group.file.filename!r}"
        _warn(f"{where} is left out, because it is no group, dataset or named type")
        return None


def _is_dimension(dataset: Dataset) -> bool:
    kind = _attribute(dataset, "CLASS", None)
    return bool(dataset.shape) and isinstance(kind, bytes) and kind == b"DIMENSION_SCALE"


def _is_variable(dataset: Dataset) -> bool:
    name = _attribute(dataset, "NAME", b"")
    if NOT_A_VARIABLE in (name.encode("utf-8", "replace") if isinstance(name, str) else name):
        return False
    where = f"{dataset.name!r} in {dataset.file.filename!r}"
    why = f"{where} has a null dataspace: no elements" if dataset.shape is None else ""
    try:
        dataset.dtype  # noqa: B018 - which not every type has
    except UnsupportedDatasetError as error:
        why = error.happened
    if why:
        _warn(f"a variable is left out: {why}")
    return not why


def _extents(scale: Dataset) -> Iterator[int]:
    """Yield the extents of the axes that a scale lists as its own."""
    file = scale.file
    for one in np.atleast_1d(_attribute(scale, "REFERENCE_LIST", ())):
        with contextlib.suppress(CorruptFileError, UnsupportedDatasetError, *NOT_THERE):
            reference, axis = one
            yield file[reference].shape[axis]


def _text(name: str | bytes) -> str:
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def _warn(happened: str, good: str = "Everything else is there") -> None:
    warnings.warn(LeftOutWarning(happened, good=good), stacklevel=3)
