"""From paths and what a sample is to entries of a stream: which rows each sample has.

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
from _multitables.index.joined.source import JoinedSource, index_all
from _multitables.index.versions.sources import of_version
from _multitables.options import wrong
from _multitables.parent.ragged.open_rows import Entry, OpenedRows, numbers_of
from _multitables.parent.stream.open_stream import (
    DataSpec,
    check_lengths,
    refuse_casts,
    refuse_ragged,
)
from _multitables.parent.stream.warnings_of_streams import warn_of_missing
from _multitables.plan.ragged import as_rows
from _multitables.plan.row_spans import Numbers, row_spans
from _multitables.plan.sample_rows import Samples, clips, listed, segments_within
from _multitables.plan.samples import At, Clips, Ranges, Sample, offsets_of
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
    refuse_casts(spec, "sample")
    if spec.inner is not None:
        raise wrong("inner", "cannot be given with sample", spec.inner, "Select of the batches")
    structure, paths = structure_of(spec.path)
    sample = spec.sample
    assert sample is not None
    named = _named(sample)
    with spec.file.open() as source:
        version = of_version(source, spec.version)
        wanted = [(path, spec.field) for path in paths] + [(path, None) for path in named.values()]
        indexes, missing = index_all(version, wanted)
        numbers = {
            kind: numbers_of(index, kind)
            for kind, index in zip(named, indexes[len(paths) :], strict=True)
        }
        several = isinstance(source, JoinedSource)
    warn_of_missing(missing)
    indexes = indexes[: len(paths)]
    check_lengths(indexes, of_several=spec.file.is_several)
    if several and "offsets" in numbers:
        raise OptionsError(
            "offsets of segments cannot be taken from several files, where they begin anew",
            advice="Give the dataset of their lengths, as lengths",
            option="offsets",
        )
    if isinstance(sample, Ranges):
        entries = [_range_entry(sample, index) for index in indexes]
        return OpenedRows(entries, structure, missing)
    takes = _takes(sample, structure, len(paths))
    found = _found(sample, indexes[0], seed, takes, numbers)
    entries = [
        Entry(found.as_rows(index, take), (index,), samples=found, take=take)
        for index, take in zip(indexes, takes, strict=True)
    ]
    if isinstance(sample, Clips) and sample.mask:
        entries.append(replace(entries[0], indexes=(), is_mask=True))
        structure = _with_mask(structure, sample.mask)
    return OpenedRows(entries, structure, missing)


def _named(sample: Sample) -> dict[str, str]:
    """Return the datasets that say where segments are."""
    if not isinstance(sample, Clips):
        return {}
    each = {"lengths": sample.lengths, "offsets": sample.offsets}
    return {kind: one for kind, one in each.items() if isinstance(one, str)}


def _range_entry(sample: Ranges, index: ChunkIndex) -> Entry:
    pairs = {"starts": sample.starts, "ends": sample.stops}
    given = {kind: Numbers(kind, np.asarray(one), None) for kind, one in pairs.items()}
    spans = row_spans(given, index, gaps=True)
    outer = index.chunk_dims[0] if index.chunk_dims else None
    return Entry(as_rows(index, spans, index.row_bytes, outer), (index,), spans)


def _takes(sample: At | Clips, structure: Structure, n_paths: int) -> list[I64]:
    """Return the offsets of each dataset's rows from where a sample begins."""
    name = "take" if isinstance(sample, At) else "per_path"
    given: Any = sample.take if isinstance(sample, At) else sample.per_path or {}
    if not isinstance(given, Mapping):
        return [offsets_of(name, given)] * n_paths
    keys = structure.keys or ()
    if unknown := [key for key in given if key not in keys]:
        expected = ", ".join(map(repr, keys)) or "a dict of paths"
        raise wrong(name, f"names no path: expected {expected}", unknown[0], "Name keys of paths")
    if isinstance(sample, Clips):
        usual = np.arange(sample.steps) - sample.before
        return [offsets_of(name, given[key]) if key in given else usual for key in keys] or [
            usual
        ] * n_paths
    if missing := [key for key in keys if key not in given]:
        raise wrong(name, f"lacks a path: expected {missing[0]!r}, too", given, "Name all paths")
    return [offsets_of(name, given[key]) for key in keys]


def _found(
    sample: At | Clips, index: ChunkIndex, seed: int, takes: list[I64], named: dict[str, Numbers]
) -> Samples:
    if isinstance(sample, At):
        return listed(sample, index.n_rows, seed, takes)
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
    return clips(sample, index.n_rows, seed, takes, begins, ends, _core.order_rows)


def _with_mask(structure: Structure, mask: str | bool) -> Structure:
    if structure.keys:
        if mask is True or mask in structure.keys:
            raise wrong("mask", "must be a key beside those of the paths", mask, "Give its key")
        return Structure((*structure.keys, mask))
    if mask is not True:
        raise wrong("mask", "must be True, as paths are no dict", mask, "It comes last in a tuple")
    return Structure(())
