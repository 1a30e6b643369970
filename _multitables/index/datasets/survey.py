"""Describes many objects of several files at once: what they are, in a table of the core.

Law
---
1. One call of each file's metadata describes all its objects. An object's number is its row.
2. A dataset is `ALONE` if its storage is special (virtual, external) or the core does not read it:
   it is indexed separately.
3. Nothing is checked of chunks here: readers check each before they fetch it.

This file must never know patterns, items or streams.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.index import chunk_index
from _multitables.index.chunk_index import I64, U32, ChunkIndex, ManyFiles, SourceFile
from _multitables.index.opened.open_files import OpenFile
from _multitables.index.opened.runs import Places, Run
from _multitables.index.types import hdf5_metadata
from _multitables.index.types.element_type import field_type
from _multitables.index.types.kind import Kind
from _multitables.index.types.numpy_type import Unsupported, datatype_of

ALONE, NO_DATASET = _core.SURVEY_ALONE, _core.SURVEY_NO_DATASET


#: The attribute that names a dimension scale.
SCALE_NAME = "NAME"
#: A file and the offsets of objects -> their paths; "" if a path is not known.
Paths = Callable[[OpenFile, I64], list[str]]
#: Value of an attribute as it is stored: datatype, dims (None: null), elements.
Stored = tuple[bytes, "tuple[int, ...] | None", bytes]


@dataclass(frozen=True)
class Survey:
    """What objects are, by their numbers."""

    places: Places
    #: The files in which objects are, by number.
    files: Sequence[SourceFile]
    core: _core.Survey = field(repr=False)

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that datasets have, by number."""
        return tuple(kind for one in self.core.kinds if (kind := _kind(one)))

    @cached_property
    def kind(self) -> U32:
        """The number of each object's kind, or `ALONE`, or `NO_DATASET`."""
        return self.core.kind

    @cached_property
    def scales(self) -> I64:
        """Dimension scales: rows of object, axis and the object that is the scale, by object."""
        return self.core.numbered_scales

    @cached_property
    def scales_at(self) -> npt.NDArray[np.intp]:
        """Where the scales of each object begin, and where those of the last one end."""
        return np.searchsorted(self.scales[:, 0], np.arange(len(self) + 1))

    @property
    def attributes(self) -> dict[int, dict[str, Stored]]:
        """The named attributes, by object."""
        found: dict[int, dict[str, Stored]] = {}
        for number, name, datatype, dims, elements in self.core.attributes:
            of_object = found.setdefault(number, {})
            of_object[name.decode("utf-8", "surrogateescape")] = datatype, dims, elements
        return found

    @cached_property
    def is_remote(self) -> bool:
        """Whether a store has any of the files."""
        files = self.files
        if isinstance(files, ManyFiles):
            return files.is_remote
        return any(file.fingerprint.access for file in files)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a dataset that is not alone, as the user sees it."""
        return *self.core.dims_of(number), *self.kinds[self.kind[number]].part.element.dtype.shape

    def index(self, number: int) -> ChunkIndex:
        """Return the index of a dataset that is not alone, for errors that name it."""
        place, kind = self.places[number], int(self.kind[number])
        dims, chunk_dims, chunks, inline = self.core.one(number)
        return chunk_index.Stored(
            (SourceFile(place.file.filename, place.file.fingerprint),),
            place.path,
            self.kinds[kind],
            dims or (1,),
            (chunk_dims or (1,)) if self.core.kinds[kind].layout == "chunked" else None,
            chunks=chunks,
            inline=inline,
        )


def survey(
    runs: Sequence[Run],
    native_filters: Container[int],
    *,
    is_split: bool = False,
    scale_paths: Paths | None = None,
    attributes: Sequence[str] = (),
) -> Survey:
    """Describe objects.

    Parameters
    ----------
    native_filters : container of int
        The filters that readers decode. A dataset with another one is `ALONE`.
    is_split : bool
        Data lies in another file, so that all datasets are `ALONE`.
    scale_paths : callable, optional
        Describe the dimension scales, too, as the objects after those of `runs`. It returns their
        paths where they are known.
    attributes : sequence of str
        Names of attributes to return.
    """
    files = tuple(dict.fromkeys(run.file for run in runs))
    whole = _described(runs, files, scale_paths is not None, attributes)
    all_runs = list(runs)
    if scale_paths is not None:
        new = _scales(whole, files, scale_paths)
        for scales, names in zip(new, ([], [SCALE_NAME]), strict=True):
            more = _described(scales, files, False, names)
            whole, all_runs = _behind(whole, more, len(files)), all_runs + scales
    sources = [SourceFile(file.filename, file.fingerprint) for file in files]
    return surveyed(Places(all_runs), sources, whole, native_filters, is_split)


def surveyed(
    places: Places,
    files: Sequence[SourceFile],
    core: _core.Survey,
    native_filters: Container[int],
    is_split: bool = False,
) -> Survey:
    """Return a survey in which datasets are `ALONE` that readers do not read."""
    far = [
        number
        for number, stored in enumerate(core.kinds)
        if is_split
        or (kind := _kind(stored)) is None
        or any(spec.id not in native_filters for spec in kind.pipeline)
    ]
    return Survey(places, files, core.without(far) if far else core)


def joined_surveys(surveys: Sequence[Survey], counts: Sequence[int]) -> tuple[Survey, list[I64]]:
    """Join surveys, and return the new numbers of each file's objects.

    Parameters
    ----------
    counts : sequence of int
        How many objects were looked for in each file; the others are scales, which follow all.
    """
    numbers, runs = list[I64](), (list[Run](), list[Run]())
    found, scales = 0, sum(counts)
    for one, count in zip(surveys, counts, strict=True):
        others = len(one) - count
        own = np.arange(found, found + count), np.arange(scales, scales + others)
        numbers.append(np.concatenate(own))
        found, scales, at = found + count, scales + others, 0
        for run in one.places.runs:
            runs[at >= count].append(run)
            at += len(run.names)
    begins = accumulate((len(one.files) for one in surveys), initial=0)
    parts = [
        (one.core, list(range(begin, begin + len(one.files))), of)
        for one, begin, of in zip(surveys, begins, numbers, strict=False)
    ]
    files = [file for one in surveys for file in one.files]
    return Survey(Places(runs[0] + runs[1]), files, _core.Survey.joined(parts)), numbers


def _described(
    runs: Sequence[Run], files: tuple[OpenFile, ...], with_scales: bool, names: Sequence[str]
) -> _core.Survey:
    """Describe objects of some files, each by what answers for it."""
    of_run = [files.index(run.file) for run in runs]
    counts = [len(run.names) for run in runs]
    file = np.repeat(np.array(of_run, np.int64), counts)
    offsets = np.concatenate([np.zeros(0, np.int64), *(run.offsets for run in runs)])
    stored = [name.encode("utf-8", "surrogateescape") for name in names]
    parts = []
    for number, one in enumerate(files):
        objects = np.flatnonzero(file == number)
        if len(objects):
            at = offsets[objects].astype(np.uint64)  # a damaged link may lead anywhere
            parts.append((one.metadata.survey(at, with_scales, stored), [number], objects))
    return _core.Survey.joined(parts)


def _scales(
    whole: _core.Survey, files: tuple[OpenFile, ...], paths: Paths
) -> tuple[list[Run], list[Run]]:
    """Return the scales that are new: first the ones with a path, then the ones without."""
    runs: tuple[list[Run], list[Run]] = [], []
    for file, new in zip(files, whole.new_scales(len(files)), strict=True):
        offsets = new.astype(np.int64)
        names = paths(file, offsets)
        for has_path, of in zip((True, False), runs, strict=True):
            at = [number for number, name in enumerate(names) if bool(name) == has_path]
            of.append(Run(file, "", [names[number] for number in at], offsets[at]))
    return runs


def _behind(first: _core.Survey, more: _core.Survey, n_files: int) -> _core.Survey:
    """Join surveys of the same files, one behind the other."""
    ends, files = np.cumsum([0, len(first), len(more)]), list(range(n_files))
    parts = [(one, files, np.arange(*ends[at : at + 2])) for at, one in enumerate((first, more))]
    return _core.Survey.joined(parts)


@lru_cache(1024)
def _kind(stored: _core.StoredKind) -> Kind | None:
    """Return what readers need to know of a kind; None: its datasets are alone."""
    pytables = stored.class_name.rstrip(b"\0") in hdf5_metadata.PYTABLES_CLASSES
    try:
        part = field_type(datatype_of(stored.datatype), None, pytables)
    except Unsupported:
        return None
    element, size = part.element, stored.element_bytes
    if not element.direct or element.converted_bytes or not size:
        return None
    pipeline = hdf5_metadata.pipeline_of(stored.filters)
    library = element.library or hdf5_metadata.library_for(pytables, pipeline)
    return Kind(part, size, pipeline, stored.fill_value or bytes(size), library)
