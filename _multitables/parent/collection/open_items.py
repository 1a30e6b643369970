"""From a path with wildcards to items: their datasets, scales and attributes.

Law
---
1. The file is open only while it is looked through.
2. What the readers read in pieces is in one table; the other datasets are indexed one by one, as a
   `Reader` does, with the same refusals.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.elements.attribute import decoded
from _multitables.errors import OptionsError
from _multitables.index import device, hdf5_errors
from _multitables.index.hdf5_file import Source
from _multitables.index.kept_source import KeptSource
from _multitables.index.pattern import LinkPaths, Match, matches, wildcards
from _multitables.index.plugins import READERS_FILTERS
from _multitables.index.survey import ALONE, NO_DATASET, SCALE_NAME, Survey, survey
from _multitables.options import CollectionOptions
from _multitables.plan.collection import Layout, Members, layout_of, members_of
from _multitables.wire.survey_bytes import SurveyTable, encode_survey


@dataclass(frozen=True)
class ItemSpec:
    """Which items are wanted, as the user said it."""

    file: KeptSource
    path: str
    by: int
    scales: bool
    attrs: tuple[str, ...]
    #: Whether the file lies on a rotating disk; None: the kernel says.
    rotational: bool | None


@dataclass(frozen=True)
class OpenedItems:
    """The items of a collection."""

    filename: str
    path: str
    direct: bool
    survey: Survey
    table: SurveyTable
    items: Sequence[Members]
    #: Of all datasets, as any may turn out to be read by itself.
    paths: Sequence[str] = field(repr=False)
    #: What scales are called.
    scale_names: Mapping[int, str] = field(repr=False)
    attributes: Mapping[int, dict[str, Any]] = field(repr=False)

    def is_alone(self, number: int) -> bool:
        """Whether a dataset is read by itself."""
        return bool(self.survey.kind[number] == ALONE)

    @property
    def has_scales(self) -> bool:
        """Whether any dataset has one that is wanted."""
        return len(self.survey.scales) > 0

    def axes(self, number: int) -> tuple[dict[str, int], ...]:
        """Return the scales of each axis of a dataset, by name."""
        told = self.survey
        axes: tuple[dict[str, int], ...] = tuple({} for _ in range(int(told.rank[number])))
        begin, end = told.scales_at[number : number + 2].tolist()
        for _, at, scale in told.scales[begin:end].tolist():
            if at < len(axes) and scale not in axes[at].values():
                name = self.scale_names[scale]
                axes[at][name if name not in axes[at] else f"{name}_{len(axes[at])}"] = scale
        return axes

    def scales_of(self, members: Members) -> list[int]:
        """Return the scales of an item's datasets that are not among these, each once."""
        told, own = self.survey, list(members.objects.values())
        at = told.scales_at
        found = [told.scales[at[number] : at[number + 1], 2] for number in own]
        scales, datasets = dict.fromkeys(np.concatenate(found).tolist()), set(own)
        return [scale for scale in scales if scale not in datasets]

    @cached_property
    def shared(self) -> frozenset[int]:
        """Scales that several items have."""
        if not self.has_scales:
            return frozenset()
        uses = Counter(scale for item in self.items for scale in self.scales_of(item))
        return frozenset(scale for scale, count in uses.items() if count > 1)

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes of the scales that several items have."""
        number = self.table.number[list(self.shared)]
        return int(self.table.n_bytes[number[number >= 0]].sum())

    def layout(self, numbers: Sequence[int]) -> Layout:
        """Lay datasets out that are not alone."""
        found = self.table.number[numbers] if numbers else np.zeros(0, np.int64)
        return layout_of(found.tolist(), self.table.n_rows, self.table.n_bytes)

    @cached_property
    def item_bytes(self) -> list[int]:
        """Bytes of each item's result, less those of datasets that are alone."""
        number = self.table.number
        padded = np.append(-(-self.table.n_bytes // 64) * 64, 0)
        return [
            int(padded[number[[*item.objects.values(), *self.scales_of(item)]]].sum())
            for item in self.items
        ]

    @cached_property
    def first_bytes(self) -> list[tuple[int, int]]:
        """Where the first bytes of each item lie: file and offset."""
        survey, far = self.survey, 1 << 63
        chunks = np.append(survey.chunks[1], np.uint64(far)).astype(np.uint64)
        found = []
        for item in self.items:
            numbers = np.array(list(item.objects.values()))
            at = np.where(survey.n_chunks[numbers] > 0, survey.chunks_at[numbers], -1)
            offsets = chunks[at]
            first = int(np.argmin(offsets))
            found.append((int(survey.file[numbers[first]]), int(offsets[first])))
        return found

    @property
    def checksum(self) -> int:
        """What tells one set of keys from another."""
        return zlib.crc32("\0".join(item.key for item in self.items).encode("utf-8", "replace"))


def open_items(spec: ItemSpec, wanted: CollectionOptions) -> OpenedItems:
    """Find the datasets that a path with wildcards names.

    Raises
    ------
    OptionsError
        There is no such wildcard.
    MissingDatasetError
        Nothing matches.
    """
    wild = wildcards(spec.path)
    if not 0 <= spec.by < len(wild):
        raise OptionsError(
            f"by is out of range: expected less than the {len(wild)} wildcards of {spec.path!r}, "
            f"got {spec.by}"
            if wild
            else f"{spec.path!r} has no wildcard",
            advice="Write * for the part of the path that differs",
            option="by",
            expected=len(wild),
            got=spec.by,
        )
    with spec.file.open() as source:
        if source.direct:
            device.check_direct(source.filename)
        paths = LinkPaths() if spec.scales else None
        found = matches(source, spec.path, paths)
        told = survey(
            [match.place for match in found],
            READERS_FILTERS if source.trusted else _core.native_filters(),
            is_split=source.is_split,
            scales_named=None if paths is None else paths.known,
            attributes=spec.attrs,
        )
        rotates = spec.rotational
        turnstile = device.rotates(source.filename) if rotates is None else rotates
        items = _items(source, spec, found, told)
        attributes = {
            number: {name: decoded(told.places[number], *stored) for name, stored in those.items()}
            for number, those in (told.attributes.items() if spec.attrs else ())
            if number < len(found)
        }
        return OpenedItems(
            filename=source.filename,
            path=spec.path,
            direct=source.direct,
            survey=told,
            table=encode_survey(told, source.direct, turnstile),
            items=items,
            paths=[
                *(match.path for match in found),
                *(place.path for place in told.places[len(found) :]),
            ],
            scale_names=_scale_names(told),
            attributes=attributes,
        )


def _items(source: Source, spec: ItemSpec, found: list[Match], told: Survey) -> list[Members]:
    is_dataset = told.kind != NO_DATASET
    chosen = [
        (match.values, match.path.rpartition("/")[2], number)
        for number, match in enumerate(found)
        if is_dataset[number]
    ]
    if not chosen:
        groups = [match.place.path for match in found]
        raise hdf5_errors.nothing_matches(source.filename, spec.path, "dataset", groups, [])
    return members_of(chosen, spec.by)


def _scale_names(told: Survey) -> dict[int, str]:
    """Name the scales: as the file links them, or else as they name themselves."""
    names = {}
    for scale in np.unique(told.scales[:, 2]).tolist():
        name = told.places[scale].path.rpartition("/")[2]
        stored = told.attributes.get(scale, {}).get(SCALE_NAME)
        if not name and stored is not None:
            text = decoded(told.places[scale], *stored)
            name = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        names[scale] = name or "scale"
    return names
