"""From a path with wildcards to items: their datasets, scales and attributes.

Law
---
1. A file is open only while it is looked through; of several, one after the other is.
2. What the readers read in pieces is in one table; the other datasets are indexed one by one, as a
   `Reader` does, with the same refusals.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.elements.attribute import decoded
from _multitables.errors import (
    CorruptFileError,
    MissingDatasetError,
    MultitablesError,
    OptionsError,
    UnsupportedDatasetError,
)
from _multitables.index.chunk_index import I64
from _multitables.index.datasets.source import Source
from _multitables.index.datasets.survey import (
    ALONE,
    NO_DATASET,
    SCALE_NAME,
    Survey,
    joined_surveys,
    survey,
)
from _multitables.index.files import device
from _multitables.index.files.progress import Steps
from _multitables.index.joined.source import MissingFiles, is_missing
from _multitables.index.names.pattern import Links, Match
from _multitables.index.opened.open_files import Place
from _multitables.index.opened.runs import distinct
from _multitables.index.types import hdf5_errors
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.parent.collection.item_spec import FILE, ItemSpec
from _multitables.parent.stream.warnings_of_streams import warn_of_missing
from _multitables.plan.collection import ALIGN_BYTES, Items, Layout, layout_of
from _multitables.wire.survey_bytes import SurveyTable, table_of


@dataclass(frozen=True)
class OpenedItems:
    """The items of a collection."""

    #: The name, or a list of several.
    filename: Any
    path: str
    direct: bool
    survey: Survey
    table: SurveyTable
    items: Items
    #: Scales without a path -> their names.
    scale_names: Mapping[int, str] = field(repr=False)
    #: Scales that are not there -> why.
    lost: dict[int, str] = field(repr=False)
    attributes: Mapping[int, dict[str, Any]] = field(repr=False)
    #: File and path of a group -> its attributes, of groups that have some.
    group_attributes: Mapping[tuple[int, str], dict[str, Any]] = field(repr=False)
    #: Of several files, those that are left out, and why.
    missing_files: MissingFiles = field(repr=False)

    def is_alone(self, number: int) -> bool:
        """Whether a dataset is read by itself."""
        return bool(self.survey.kind[number] == ALONE)

    def is_in_item(self, number: int) -> bool:
        """Whether a dataset is an item's own, rather than a scale only."""
        of_object = self.items.of_object
        return number < len(of_object) and bool(of_object[number] >= 0)

    def path_of(self, number: int) -> str:
        """Return the path by which a dataset, or a scale, was found."""
        is_dataset = number < len(self.items.of_object)
        return self.items.path(number) if is_dataset else self.survey.places[number].path

    def file_of(self, number: int) -> int:
        """Return in which of several files a dataset, or a scale, was found."""
        if number < len(self.items.of_object):
            return self.items.file(number)
        first = self.survey.scales[self.survey.scales[:, 2] == number, 0][0]
        return self.items.file(int(first))

    @property
    def has_scales(self) -> bool:
        """Whether any dataset has one that is wanted."""
        return len(self.survey.scales) > 0

    def groups_of(self, numbers: Iterable[int]) -> dict[str, dict[str, Any]]:
        """Return the attributes of the groups in which datasets lie, by path from the root on."""
        found: dict[str, dict[str, Any]] = {}
        folders = {(self.file_of(n), self.path_of(n).rpartition("/")[0]) for n in numbers}
        for file, folder in sorted(folders):
            for group in accumulate(folder.split("/"), "{}/{}".format):
                attributes = self.group_attributes.get((file, group or "/"), {})
                # A group that several files have is that of the first which has the attribute.
                if attributes:
                    found[group or "/"] = attributes | found.get(group or "/", {})
        return dict(sorted(found.items()))

    def axes(self, number: int) -> tuple[dict[str, int], ...]:
        """Return the scales of each axis of a dataset, by name."""
        surveyed = self.survey
        axes: tuple[dict[str, int], ...] = tuple({} for _ in surveyed.core.dims_of(number))
        begin, end = surveyed.scales_at[number : number + 2].tolist()
        for _, at, scale in surveyed.scales[begin:end].tolist():
            if at < len(axes) and scale not in axes[at].values():
                name = self._scale_name(scale)
                axes[at][name if name not in axes[at] else f"{name}_{len(axes[at])}"] = scale
        return axes

    def _scale_name(self, scale: int) -> str:
        path = self.survey.places[scale].path
        return path.rpartition("/")[2] or self.scale_names.get(scale) or "scale"

    @cached_property
    def _scales(self) -> tuple[I64, I64]:
        """Each item, by number, with each scale of its datasets that is not one of them."""
        objects, _, scales = self.survey.scales.T
        items, n_objects = self.items.of_object[objects], len(self.survey)
        is_other = np.append(self.items.of_object, np.full(n_objects, -1))[scales] != items
        is_other &= ~np.isin(scales, list(self.lost))
        pairs = distinct(items[is_other] * n_objects + scales[is_other])
        return pairs // n_objects, pairs % n_objects

    def scales_of(self, item: int) -> list[int]:
        """Return the scales of an item's datasets that are not among these, each once."""
        items, scales = self._scales
        if not len(items):
            return []
        begin, end = np.searchsorted(items, [item, item + 1])
        found: list[int] = scales[begin:end].tolist()
        return found

    @cached_property
    def shared(self) -> frozenset[int]:
        """Scales that several items have."""
        return frozenset(np.flatnonzero(np.bincount(self._scales[1]) > 1).tolist())

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes of the scales that several items have."""
        number = self.table.number[list(self.shared)]
        return int(self.table.n_bytes[number[number >= 0]].sum())

    def layout(self, numbers: Sequence[int]) -> Layout:
        """Lay datasets out that are not alone."""
        found = self.table.number[np.array(numbers, np.int64)]
        return layout_of(found, self.table.n_rows, self.table.n_bytes)

    def lengths(self, names: Sequence[str]) -> list[int]:
        """Return the rows of each item's longest dataset of some names; -1: it lacks one."""
        found = []
        for item in range(len(self.items)):
            objects = self.items.members(item).objects
            has_all = all(name in objects for name in names)
            dims = [self.survey.core.dims_of(objects[name]) for name in names if has_all]
            found.append(max((sum(one[:1]) for one in dims), default=-1))
        return found

    @cached_property
    def item_bytes(self) -> list[int]:
        """Bytes of each item's result, less those of datasets that are alone."""
        number, (items, scales) = self.table.number, self._scales
        padded = np.append(-(-self.table.n_bytes // ALIGN_BYTES) * ALIGN_BYTES, 0)
        sizes = np.add.reduceat(padded[number[self.items.objects]], self.items.begins[:-1])
        np.add.at(sizes, items, padded[number[scales]])
        n_bytes: list[int] = sizes.tolist()
        return n_bytes

    @cached_property
    def first_bytes(self) -> list[tuple[int, int]]:
        """Where the first bytes of each item lie: file and offset."""
        first, file = self.survey.core.first_bytes, self.survey.core.file
        found = []
        for item in range(len(self.items)):
            numbers = np.array(self.items.numbers(item))
            number = numbers[np.argmin(first[numbers])]
            found.append((int(file[number]), int(first[number])))
        return found

    @property
    def checksum(self) -> int:
        """What tells one set of keys from another."""
        return zlib.crc32("\0".join(self.items.keys).encode("utf-8", "replace"))


def open_items(spec: ItemSpec) -> OpenedItems:
    """Find the datasets that a path with wildcards names.

    Raises
    ------
    OptionsError
        There is no such wildcard, or several files have a dataset of the same path.
    MissingDatasetError
        Nothing matches.
    """
    spec.check()
    whole = _at_once(spec) or _file_by_file(spec)
    warn_of_missing(whole.missing)
    surveyed, found = whole.survey, whole.found
    is_dataset = surveyed.kind[: sum(map(len, found))] != NO_DATASET
    by = spec.file.filenames if isinstance(spec.by, str) else spec.by
    items = Items(found, by, is_dataset, spec.labels)
    if len(spec.paths) > 1:
        _check_names(spec, items)
    if spec.file.is_several:
        _check_once(spec, items)
    return OpenedItems(
        filename=spec.file.filename if spec.file.is_several else whole.first,
        path=spec.path,
        direct=whole.direct,
        survey=surveyed,
        table=table_of(surveyed, whole.direct, whole.rotates),
        items=items,
        scale_names=whole.scale_names,
        lost=whole.lost,
        attributes=whole.attributes,
        group_attributes=whole.group_attributes,
        missing_files=whole.missing,
    )


@dataclass(frozen=True)
class _Found:
    """What a path names in all files, and what it is."""

    found: list[Match]
    survey: Survey
    #: The name of the first file, and how it is read.
    first: str
    direct: bool
    rotates: bool
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)
    scale_names: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    group_attributes: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    missing: MissingFiles = field(default_factory=MissingFiles)


def _at_once(spec: ItemSpec) -> _Found | None:
    """Look through all files of a manifest that are alike; None: each has to be looked through."""
    if not (spec.file.is_several and spec.file.is_manifest) or spec.attrs:
        return None
    from _multitables.index.joined.manifest_survey import survey_of_all  # few need it

    with spec.file.one(0).open() as source:
        links = Links(source)
        try:
            first = spec.matches(source, links)
        except MultitablesError:
            return None  # its own error, or that of others
        if source.direct or any(match.run.file is not source.files.main for match in first):
            return None
        runs, manifest = [match.run for match in first], spec.file.listed
        groups = [listed.prefix for listed in links.all().values()]
        surveyed = survey_of_all(manifest, runs, groups, _filters(source))
    if surveyed is None:
        return None
    found = [replace(match, file=file) for file in range(len(surveyed.files)) for match in first]
    rotates = spec.rotational
    if rotates is None:
        rotates = device.rotates(source.filename)
    return _Found(found, surveyed, source.filename, direct=False, rotates=bool(rotates))


def _file_by_file(spec: ItemSpec) -> _Found:
    """Look through one file after the other."""
    found, surveys, lost = list[Match](), list[_OfFile](), MissingFiles()
    of_groups: dict[tuple[int, str], dict[str, Any]] = {}
    rotates, is_direct = spec.rotational, False
    filenames = spec.file.whole_names
    steps = Steps(f"items are looked for in {filenames[0]!r} and others, files", len(filenames))
    for number, name in enumerate(filenames):
        steps()
        try:
            with spec.file.one(number).open() as source:
                matched, one = _of_file(source, spec)
        except MultitablesError as error:
            is_lost = is_missing(error) if spec.file.skip_missing else _has_nothing(error)
            if not (spec.file.is_several and is_lost):
                raise
            lost[name] = error
            continue
        if rotates is None:
            rotates = device.rotates(source.filename)
        if spec.file.is_several:
            source.files.forget()
        found += [replace(match, file=number) for match in matched] if number else matched
        surveys.append(one)
        of_groups |= {(number, path): values for path, values in one.group_attributes.items()}
        is_direct = source.direct
    if not surveys:
        raise next(iter(lost.values()))
    surveyed, attributes, names, lost_scales = _joined(surveys)
    return _Found(
        found,
        surveyed,
        source.filename,
        is_direct,
        bool(rotates),
        attributes,
        names,
        lost_scales,
        of_groups,
        lost if spec.file.skip_missing else MissingFiles(),
    )


def _filters(source: Source) -> Container[int]:
    """Return the filters that readers of a file decode."""
    return READERS_FILTERS if source.trusted else _core.native_filters()


def _has_nothing(error: MultitablesError) -> bool:
    """Whether nothing in a file matches, so that it is passed over."""
    return isinstance(error, MissingDatasetError)


def _check_names(spec: ItemSpec, items: Items) -> None:
    """Raise if two datasets of an item have one name."""
    alike = items.alike()
    if alike is None:
        return
    item, name = alike
    raise OptionsError(
        f"item {items.keys[item]!r} has several datasets {name!r} of {spec.path!r}",
        advice="Give a dict of paths, whose keys are the names",
        option="path",
        got=spec.paths,
    )


def _check_once(spec: ItemSpec, items: Items) -> None:
    """Raise if an item would have a dataset twice."""
    twice = items.twice()
    if twice is None:
        return
    path, *numbers = twice
    names = spec.file.filenames
    raise OptionsError(
        f"{path!r} is in {names[numbers[0]]!r} and in {names[numbers[1]]!r}: expected each dataset "
        "of an item in one file",
        advice=f"Give by={FILE!r} for an item of each file, or each file once",
        option="by",
        got=spec.by,
    )


@dataclass(frozen=True)
class _OfFile:
    """The objects of one file: the first `count` match the path, and scales follow."""

    survey: Survey
    count: int
    attributes: dict[int, dict[str, Any]]
    scale_names: dict[int, str]
    #: By path, of groups that have some.
    group_attributes: dict[str, dict[str, Any]]
    lost: dict[int, str]


def _of_file(source: Source, spec: ItemSpec) -> tuple[list[Match], _OfFile]:
    """Look through one file.

    Raises
    ------
    MissingDatasetError
        Nothing in it matches.
    """
    if source.direct:
        device.check_direct(source.filename)
    links = Links(source)
    found = spec.matches(source, links)
    surveyed = survey(
        [match.run for match in found],
        _filters(source),
        is_split=source.is_split,
        scale_paths=links.paths if spec.scales else None,
        attributes=spec.attrs,
    )
    count = sum(map(len, found))
    if not np.any(surveyed.kind[:count] != NO_DATASET):
        groups = [match.run.place(at).path for match in found for at in range(len(match))]
        raise hdf5_errors.nothing_matches(source.filename, spec.path, "dataset", groups, [])
    attributes: tuple[dict[int, dict[str, Any]], ...] = {}, {}  # of datasets, and of scales
    for number, stored in surveyed.attributes.items():
        place = surveyed.places[number]
        with place.errors_named():
            values = {name: decoded(place, *of) for name, of in stored.items()}
        attributes[number >= count][number] = values
    names = {scale: _text(own[SCALE_NAME]) for scale, own in attributes[1].items()}
    of_groups = _of_groups(links.on_way, spec.attrs) if spec.attrs else {}
    return found, _OfFile(surveyed, count, attributes[0], names, of_groups, _lost(surveyed))


def _of_groups(on_way: Iterable[Match], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the wanted attributes of the groups on the way that have some, by path."""
    places = {
        match.path_of(at) or "/": match.run.place(at)
        for match in on_way
        for at in range(len(match))
    }
    found = {path: _of_group(place, names) for path, place in places.items()}
    return {path: values for path, values in found.items() if values}


def _of_group(group: Place, names: Sequence[str]) -> dict[str, Any]:
    """Return those of the wanted attributes that a group has."""
    wanted = {name.encode("utf-8", "surrogateescape"): name for name in names}
    with group.errors_named():
        stored = {one[0]: one[2:] for one in group.file.metadata.attributes(group.offset)}
        return {wanted[one]: decoded(group, *stored[one]) for one in wanted if one in stored}


def _lost(surveyed: Survey) -> dict[int, str]:
    """Return why scales are not there, by their numbers."""
    lost = {}
    for number in distinct(surveyed.scales[:, 2]).tolist():
        place = surveyed.places[number]
        if surveyed.kind[number] == NO_DATASET:
            lost[number] = "its reference leads to a group or a named type"
        elif surveyed.kind[number] == ALONE:
            try:
                with place.errors_named():
                    place.file.metadata.dataset(place.offset)
            except UnsupportedDatasetError:
                pass  # a library may know how it is stored
            except CorruptFileError:
                lost[number] = f"nothing is at offset {place.offset}, as after a deletion"
                continue
            if not place.path:
                lost[number] = "no link leads to it, and it cannot be read without one"
    return lost


def _joined(
    files: Sequence[_OfFile],
) -> tuple[Survey, dict[int, Any], dict[int, str], dict[int, str]]:
    """Join the surveys of all files, their attributes, and the names and losses of their scales."""
    if len(files) == 1:
        return files[0].survey, files[0].attributes, files[0].scale_names, files[0].lost
    surveyed, numbers = joined_surveys([one.survey for one in files], [one.count for one in files])
    attributes, names, lost = dict[int, Any](), dict[int, str](), dict[int, str]()
    for one, at in zip(files, numbers, strict=True):
        attributes |= {int(at[number]): values for number, values in one.attributes.items()}
        names |= {int(at[number]): name for number, name in one.scale_names.items()}
        lost |= {int(at[number]): why for number, why in one.lost.items()}
    return surveyed, attributes, names, lost


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
