"""From paths and a kind of sample to entries of a stream: the rows or box of each sample.

Law
---
1. As open_rows.py: what says where samples lie is read once, here, and checked.
2. Each file, and each dataset of several that are joined, is a segment: no clip has rows of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.joined.source import JoinedSource, Wanted, index_all
from _multitables.index.types.cast import BFLOAT16
from _multitables.index.versions.sources import of_version
from _multitables.options import wrong
from _multitables.parent.ragged.open_rows import (
    Entry,
    OpenedRows,
    column_of,
    descriptors_of,
    numbers_of,
    together,
)
from _multitables.parent.readers.local_rows import whole
from _multitables.parent.stream.open_stream import (
    DataSpec,
    check_lengths,
    refuse_ragged,
)
from _multitables.parent.stream.warnings_of_streams import warn_of_missing
from _multitables.plan.casts import cast_indexes
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.inner_selection import as_selected, select_inner
from _multitables.plan.placing import Placement, no_placing, placements
from _multitables.plan.ragged import as_rows
from _multitables.plan.row_spans import Numbers, row_spans
from _multitables.plan.sample_boxes import Segments, grid_of
from _multitables.plan.sample_rows import Samples, Take, clips, listed, segments_within
from _multitables.plan.samples import (
    At,
    Clips,
    EachRow,
    Patches,
    Ranges,
    Sample,
    box_of,
    offsets_of,
)
from _multitables.plan.taken import Extents
from _multitables.plan.weights import Chances, Weights, as_weights, by_label, chances, grouped
from _multitables.tree import Structure, structure_of

I64 = npt.NDArray[np.int64]


def open_samples(spec: DataSpec, seed: int = 0) -> OpenedRows:
    """Index datasets, and find the samples of `spec` in them; `seed` draws them.

    Raises
    ------
    OptionsError
        Samples lie outside the data, or the data has no sample.
    MissingDatasetError, UnsupportedDatasetError, ...
        As `Streamer.get_queue`.
    """
    refuse_ragged(spec.path)
    structure, paths = structure_of(spec.path)
    sample, weights = spec.sample, spec.weights
    named, weighed = _named(sample), _named_weights(weights)
    with spec.file.open() as source:
        version = of_version(source, spec.version)
        images = spec.casts.images if spec.casts else [None] * len(paths)
        pairs = zip(paths, images, strict=True)
        wanted = [Wanted(path, spec.field, image is not None) for path, image in pairs]
        wanted += [Wanted(path) for path in (*named.values(), *weighed.values())]
        indexes, missing = index_all(version, wanted)
        others = iter(indexes[len(paths) :])
        numbers = {kind: READ[kind](next(others), kind) for kind in named}
        weighing = {kind: _column(next(others), kind, indexes[0].n_rows) for kind in weighed}
        several = isinstance(source, JoinedSource)
    warn_of_missing(missing)
    indexes = indexes[: len(paths)]
    check_lengths(indexes, of_several=spec.file.is_several)
    if spec.inner is not None:
        indexes = select_inner(indexes, spec.inner, structure)
    if spec.casts is not None:
        indexes = cast_indexes(indexes, spec.casts)
    _check_pad(getattr(sample, "pad", None), indexes, spec)
    placed = _placements(spec, indexes, seed)
    if several and "offsets" in numbers:
        raise OptionsError(
            "offsets of segments cannot be taken from several files, where they begin anew",
            advice="Give the dataset of their lengths, as lengths",
            option="offsets",
        )
    if isinstance(sample, Ranges):
        if weights is not None:
            raise wrong("weights", "cannot be given with Ranges", weights, "Give At or Clips")
        entries = [_range_entry(sample, index) for index in indexes]
        return OpenedRows(entries, structure, missing_files=missing)
    takes: list[Take] = []
    selected = [as_selected(index) for index in indexes]
    if isinstance(sample, Patches):
        found, boxes = _patches(sample, selected, seed, numbers.get("where"))
        takes += boxes
    elif isinstance(sample, At) and sample.n_axes:
        given = _given(sample, structure, len(paths))
        found, boxes = _boxes(sample, selected, seed, given)
        takes += boxes
    else:
        offsets = _takes(sample, structure, len(paths))
        if isinstance(sample, Clips) and sample.axis:
            places = _places(sample, selected, numbers.get("lengths"))
            one = clips(sample, selected[0].dims, seed, offsets, *places, _core.order_rows)
            found = [replace(one, dims=index.dims) for index in selected]
        else:
            found = [_found(sample, selected[0], seed, offsets, numbers)] * len(paths)
        takes += offsets
    if weights is not None:
        drawn = _chances(weights, found[0], weighing, indexes[0])
        each = {one: replace(one, chances=drawn, draws=spec.draws) for one in found}
        found = [each[one] for one in found]
    entries = [
        Entry(
            one.as_rows(of, take),
            (index,),
            descriptors=descriptors_of(index),
            samples=one,
            take=take,
            placement=to,
        )
        for one, of, index, take, to in zip(found, selected, indexes, takes, placed, strict=True)
    ]
    opened = OpenedRows(entries, structure, missing_files=missing)
    if spec.placing is not None and spec.placing.into is not None:
        opened = together(opened, spec.placing.into)
    if isinstance(sample, Clips) and sample.mask:
        return _with_mask(opened, sample.mask)
    return opened


def _placements(spec: DataSpec, indexes: list[ChunkIndex], seed: int) -> list[Placement | None]:
    """Return what becomes of the rows of samples."""
    sample = spec.sample
    axis = sample.axis if isinstance(sample, Clips) else 0
    is_box = isinstance(sample, At) and sample.n_axes > 0
    if spec.placing is not None and (isinstance(sample, Patches | Ranges) or is_box or axis > 1):
        what = f"clips along axis {axis}" if axis else "boxes" if is_box else type(sample).__name__
        raise no_placing(spec.placing, what, indexes[0])
    return placements(spec.placing, indexes, seed, axis)


def _named_weights(weights: Weights | None) -> dict[str, str]:
    """Return the datasets of weights and labels."""
    if weights is None:
        return {}
    each = {"weights": weights.values, "labels": weights.labels}
    return {kind: one for kind, one in each.items() if isinstance(one, str)}


def _column(index: ChunkIndex, kind: str, n_rows: int) -> npt.NDArray[Any]:
    """Read the weight or label of each row."""
    advice = "Name a dataset that has one number for each row"
    column = column_of(index, kind, "biufS", "numbers or texts", advice)
    _check_count(kind, index.n_rows, n_rows, "row")
    return column


def _check_count(kind: str, got: int, expected: int, of: str, option: str = "weights") -> None:
    if got != expected:
        raise OptionsError(
            f"{kind} must be one for each {of} (expected {expected}, got {got})",
            advice=f"Give one for each {of}",
            option=option,
            expected=expected,
            got=got,
        )


def _chances(
    weights: Weights, samples: Samples, columns: dict[str, npt.NDArray[Any]], index: ChunkIndex
) -> Chances:
    """Return how likely each sample is."""
    if isinstance(samples.of, Clips) and samples.of.starts is not None:
        raise wrong("weights", "cannot be given with starts", samples.of.starts, "Leave one out")
    if weights.labels is not None:
        labels = columns.get("labels", weights.labels)
        _check_count("labels", len(labels), index.n_rows, "row")
        return by_label(weights, labels[samples.begins])
    if "weights" in columns:
        return chances(as_weights(columns["weights"][samples.begins]))
    if weights.of == "sample":
        _check_count("weights", len(weights.values), samples.n_all, "sample")
        return chances(weights.values)
    if weights.of == "segment":
        if not isinstance(samples.segments, Segments):
            raise wrong("of", "needs Clips, which have segments", weights.of, "Give sample=Clips")
        counts = samples.segments.counts
        _check_count("weights", len(weights.values), len(counts) - 1, "segment")
        return chances(weights.values, counts)
    ends = np.cumsum(index.members.rows) if index.members else np.array([index.n_rows])
    _check_count("weights", len(weights.values), len(ends), "file")
    return grouped(weights.values, np.searchsorted(ends, samples.begins, side="right"))


def _check_pad(pad: Any, indexes: list[ChunkIndex], spec: DataSpec) -> None:
    """Raise if delivered elements cannot hold the number for padding."""
    if pad is None or isinstance(pad, str):
        return
    if spec.casts is not None and any(one and one.name == BFLOAT16 for one in spec.casts.each):
        advice = "Give pad='edge', or another dtype"
        raise wrong("pad", "cannot be a number with bfloat16", pad, advice)
    for index in indexes:
        try:
            np.full((), pad, index.dtype)
        except (TypeError, ValueError, OverflowError):
            advice = "Give a number that the datasets can hold, or a dtype that can"
            of = f"must be an element of {index.path!r}, which are {index.dtype}"
            raise wrong("pad", of, pad, advice) from None


def _named(sample: Sample | None) -> dict[str, str]:
    """Return the datasets of lengths, offsets or masks that a sample names."""
    names = ("lengths", "offsets", "where")
    each = {name: getattr(sample, name, None) for name in names}
    return {kind: one for kind, one in each.items() if isinstance(one, str)}


def _where(index: ChunkIndex, kind: str) -> Numbers:
    """Read the mask of patches."""
    return Numbers(kind, whole(index), index)


#: Readers of the datasets that a sample names.
READ = {"lengths": numbers_of, "offsets": numbers_of, "where": _where}


def _patches(
    sample: Patches, indexes: list[ChunkIndex], seed: int, named: Numbers | None
) -> tuple[list[Samples], list[Extents]]:
    """Return the patches of datasets of equal extents."""
    k, lead = len(sample.shape), indexes[lead_of(indexes)]
    for index in indexes:
        if index.dims[:k] != lead.dims[:k]:
            raise OptionsError(
                f"{index.path!r} and {lead.path!r} differ in shape, and cannot share patches "
                f"(expected {lead.dims[:k]} along the first axes, got {index.dims[:k]})",
                advice="Take patches of each of them, or of axes in which they are equal",
                option="path",
                expected=lead.dims[:k],
                got=index.dims[:k],
            )
    rows = np.zeros(1, np.int64), np.array([lead.n_rows])
    grid, extents = grid_of(sample, lead, *segments_within(*rows, lead.members.rows))
    if sample.where is not None:
        grid = grid.only(np.asarray(sample.where) if named is None else named.values)
    return [Samples(sample, lead.dims, seed, grid)] * len(indexes), [extents] * len(indexes)


def _boxes(
    sample: At, indexes: list[ChunkIndex], seed: int, takes: list[Any]
) -> tuple[list[Samples], list[Extents]]:
    """Return boxes at the starts that the user gave."""
    found, boxes = list[Samples](), list[Extents]()
    for index, given in zip(indexes, takes, strict=True):
        box = box_of("take", given)
        if len(box) != sample.n_axes or len(box) > len(index.dims):
            axes = min(sample.n_axes, len(index.dims))
            advice = "Give an extent for each axis in which samples begin"
            raise wrong("take", f"must have {axes} axes", given, advice)
        sizes = zip(box, index.dims, strict=False)
        boxes.append(tuple(dim if one is None else one for one, dim in sizes))
        found.append(listed(sample, index.dims, seed, boxes[-1:]))
    return found, boxes


def _places(sample: Clips, indexes: list[ChunkIndex], named: Numbers | None) -> tuple[I64, I64]:
    """Return where each row begins and ends, in places along the axis of clips."""
    axis, lead = sample.axis, indexes[0]
    for index in indexes:
        if axis >= len(index.dims) or index.dims[axis] != lead.dims[axis]:
            got = index.dims[axis] if axis < len(index.dims) else f"{len(index.dims)} axes"
            raise OptionsError(
                f"{index.path!r} has no axis {axis} for clips (expected one of "
                f"{lead.dims[axis] if axis < len(lead.dims) else 'some'} elements, got {got})",
                advice="Give an axis that all datasets have, of equal length",
                option="axis",
                got=axis,
            )
    n_rows, extent = lead.n_rows, lead.dims[axis]
    begins = np.arange(n_rows, dtype=np.int64) * extent
    if sample.lengths is None:
        return begins, begins + extent
    numbers = named or Numbers("lengths", np.asarray(sample.lengths), None)
    _check_count("lengths", len(numbers.values), n_rows, "row", "lengths")
    numbers.check_least(0, "is negative")
    numbers.check_most(extent, "lies beyond the elements")
    return begins, begins + numbers.values.astype(np.int64)


def _range_entry(sample: Ranges, index: ChunkIndex) -> Entry:
    pairs = {"starts": sample.starts, "ends": sample.stops}
    given = {kind: Numbers(kind, np.asarray(one), None) for kind, one in pairs.items()}
    spans = row_spans(given, index, gaps=True)
    outer = index.chunk_dims[0] if index.chunk_dims else None
    rows = as_rows(index, spans, index.row_bytes, outer)
    return Entry(rows, (index,), spans, descriptors=descriptors_of(index))


def _takes(sample: At | Clips | None, structure: Structure, n_paths: int) -> list[I64]:
    """Return the offsets of each dataset's rows from where a sample begins."""
    given = _given(sample, structure, n_paths)
    name = "take" if isinstance(sample, At) else "per_path"
    return [offsets_of(name, one) for one in given]


def _given(sample: At | Clips | None, structure: Structure, n_paths: int) -> list[Any]:
    """Return the take of each dataset, as the user gave it."""
    if sample is None:
        return [1] * n_paths
    name = "take" if isinstance(sample, At) else "per_path"
    given: Any = sample.take if isinstance(sample, At) else sample.per_path or {}
    if not isinstance(given, Mapping):
        return [given] * n_paths
    keys = structure.keys or ()
    if unknown := [key for key in given if key not in keys]:
        expected = ", ".join(map(repr, keys)) or "a dict of paths"
        raise wrong(name, f"names no path: expected {expected}", unknown[0], "Name keys of paths")
    if isinstance(sample, Clips):
        usual = np.arange(sample.steps) - sample.before
        return [given.get(key, usual) for key in keys] or [usual] * n_paths
    if missing := [key for key in keys if key not in given]:
        raise wrong(name, f"lacks a path: expected {missing[0]!r}, too", given, "Name all paths")
    return [given[key] for key in keys]


def _found(
    sample: At | Clips | None,
    index: ChunkIndex,
    seed: int,
    takes: list[I64],
    named: dict[str, Numbers],
) -> Samples:
    if sample is None:
        each = EachRow(index.n_rows)
        return Samples(At(each, 1), index.dims, seed, are_rows=True)
    if isinstance(sample, At):
        return listed(sample, index.dims, seed, takes)
    given = {
        kind: named.get(kind) or Numbers(kind, np.asarray(one), None)
        for kind, one in (("lengths", sample.lengths), ("offsets", sample.offsets))
        if one is not None
    }
    begins, ends = np.zeros(1, np.int64), np.array([index.n_rows])
    if given:
        spans = row_spans(given, index, gaps="offsets" in given)
        begins, ends = spans.begins, spans.ends
    begins, ends = segments_within(begins, ends, index.members.rows)
    return clips(sample, index.dims, seed, takes, begins, ends, _core.order_rows)


def _with_mask(opened: OpenedRows, mask: str | bool) -> OpenedRows:
    keys = opened.structure.keys
    if keys and (mask is True or mask in keys):
        raise wrong("mask", "must be a key beside those of the paths", mask, "Give its key")
    if not keys and mask is not True:
        raise wrong("mask", "must be True, as paths are no dict", mask, "It comes last in a tuple")
    one = replace(opened.entries[0], indexes=(), is_mask=True, placement=None)
    return replace(
        opened,
        entries=[*opened.entries, one],
        structure=Structure((*keys, mask) if keys else ()),
        together=opened.together and (*opened.together, (len(opened.entries),)),
    )
