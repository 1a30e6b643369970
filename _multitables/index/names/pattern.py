"""A path with wildcards -> the objects of a file that it names.

Law
---
1. ``*``, ``?`` and ``[...]`` stand for parts of one name; what a wildcard stands for is the whole
   name. Links are followed as in any path; one that leads nowhere names nothing.
2. ``**`` stands for any number of names. It follows hard links alone, and finds no object twice.
3. The paths of links are kept, because an object's header does not have its name.
4. The core is asked about all groups of a depth at once: there may be thousands.

This file must never know what an object is.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise, takewhile

import numpy as np

from _multitables import _core
from _multitables.index.chunk_index import I64
from _multitables.index.datasets.source import Source
from _multitables.index.opened.open_files import OpenFile, Place, children, stored_name
from _multitables.index.opened.runs import FAR, Begins, Run
from _multitables.index.types import hdf5_errors

#: An object: its file, and where its header is.
Object = tuple[OpenFile, int]

_WILD = re.compile(r"[*?\[]")
#: Any number of names.
ANY = "**"


def only(path: str, by: int, value: str) -> str:
    """Narrow one wildcard of a path, by its number, to a single name."""
    parts, at = path.split("/"), -1
    plain = next((n for n, letter in enumerate(value) if letter.isalnum()), None)
    for number, part in enumerate(parts):
        at += bool(_WILD.search(part))
        if at == by and part == ANY:  # its value may have any number of names
            return path
        if at == by and plain is not None:  # still a wildcard
            begin, end = glob.escape(value[:plain]), glob.escape(value[plain + 1 :])
            parts[number] = f"{begin}[{value[plain]}]{end}"
            break
        if at == by:
            parts[number] = "?" * len(value)
            break
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Match:
    """Objects below one group, and the names that the wildcards stand for."""

    #: What wildcards stand for, but for the last one with `is_wild`.
    values: tuple[str, ...]
    #: Of the group, with a slash; as `Source` takes it, also where links lead to other files.
    path: str
    #: What follows it. With `is_wild` the last wildcard stands for each, ``**`` also for slashes.
    names: tuple[str, ...]
    is_wild: bool
    run: Run
    #: The names that follow each of these, each with a slash before it.
    behind: str = ""
    #: Which of several files was looked through, and by which of several paths.
    file: int = 0
    pattern: int = 0

    def __len__(self) -> int:
        return len(self.names)

    def path_of(self, number: int) -> str:
        """Return the path of one of the objects."""
        return self.path + self.names[number] + self.behind

    def at(self, numbers: Sequence[int]) -> Match:
        """Return some of the objects."""
        names = tuple(self.names[number] for number in numbers)
        return replace(self, names=names, run=self.run.at(numbers))


@dataclass(frozen=True, slots=True)
class Listed:
    """The links of a group."""

    #: The path by which it was listed first, with a slash.
    prefix: str
    names: tuple[str, ...]
    #: Where the objects of hard links are; -1 of other links.
    targets: I64


class Links:
    """The links of the groups on the way."""

    def __init__(self, source: Source) -> None:
        self._source = source
        #: Objects in which names were looked up, and the names followed from there in one call.
        self._followed: list[tuple[list[Match], list[str]]] = []
        self._listed: dict[Object, Listed] = {}
        self._below: dict[tuple[OpenFile, int, str], Run] = {}
        #: Many groups have links of the same names.
        self._chosen: dict[tuple[tuple[str, ...], str], tuple[I64, tuple[str, ...]]] = {}

    def of(self, groups: Iterable[Place]) -> dict[Object, Listed]:
        """List groups, each once."""
        wanted = {(group.file, group.offset): group for group in groups}
        new = [group for of, group in wanted.items() if of not in self._listed]
        for file in dict.fromkeys(group.file for group in new):
            own = [group for group in new if group.file is file]
            offsets = np.array([min(group.offset, FAR) for group in own], np.int64)
            names, targets = _links(Run(file, "", [group.path for group in own], offsets))
            ends = accumulate(map(len, names), initial=0)
            for group, of, (begin, end) in zip(own, names, pairwise(ends), strict=True):
                listed = Listed(_prefix(group), of, targets[begin:end])
                self._listed[file, group.offset] = listed
        return {of: self._listed[of] for of in wanted}

    def passed(self, level: list[Match], parts: list[str]) -> None:
        """Note the groups of a level, and those on the way from there along several names."""
        self._followed.append((level, parts))

    @property
    def on_way(self) -> Iterator[Match]:
        """Objects in which names were looked up: groups, and perhaps others."""
        for begin, parts in self._followed:
            level = begin
            yield from level
            for part in parts[:-1]:
                level = list(_named(self._source, level, part))
                yield from level

    def all(self) -> dict[Object, Listed]:
        """List all groups on the way."""
        runs = chain((match.run for match in self.on_way), self._below.values())
        return self.of(run.place(number) for run in runs for number in range(len(run.names)))

    def chosen(self, listed: Listed, part: str) -> tuple[I64, tuple[str, ...]]:
        """Return the numbers and names of the links that a part with wildcards matches."""
        key = listed.names, part
        if key not in self._chosen:
            is_match = re.compile(fnmatch.translate(part)).match
            at = [number for number, name in enumerate(listed.names) if is_match(name)]
            names = tuple(listed.names[number] for number in at)
            self._chosen[key] = np.array(at, np.int64), names
        return self._chosen[key]

    def below(self, group: Place, path: str, excluded: Excluded) -> Run:
        """Return what is below a group, with names from it on; its path ends with a slash."""
        key = group.file, group.offset, path
        if key not in self._below:
            self._below[key] = _below(group, path, excluded)
        return self._below[key]

    def paths(self, file: OpenFile, offsets: I64) -> list[str]:
        """Return the paths of a file's objects; "" if no link on the way leads to an object."""
        if not len(offsets):
            return []
        groups = [listed for (of, _), listed in self.all().items() if of is file]
        targets = np.concatenate([np.full(1, -1), *(group.targets for group in groups)])
        begins = Begins([1, *(len(group.names) for group in groups)])
        order = np.argsort(targets, kind="stable")
        at = np.searchsorted(targets, offsets, sorter=order)
        numbers = order[np.minimum(at, len(order) - 1)]
        is_known, found = (targets[numbers] == offsets) & (offsets >= 0), []
        for number, is_it in zip(numbers.tolist(), is_known.tolist(), strict=True):
            group, link = begins.find(number)
            found.append(groups[group - 1].prefix + groups[group - 1].names[link] if is_it else "")
        return found


def wildcards(path: str) -> list[str]:
    """Return the names of a path that have wildcards."""
    return [part for part in path.split("/") if _WILD.search(part)]


def parts_of(path: str) -> list[str]:
    """Return the names of a path."""
    return [part for part in path.split("/") if part not in ("", ".")]


class Excluded:
    """Paths with wildcards whose objects, and what lies below these, are left out."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._all = [
            [re.compile(fnmatch.translate(part)).match for part in parts_of(path)] for path in paths
        ]

    def has(self, path: str) -> bool:
        """Whether an object is left out; without the root group everything is."""
        parts = parts_of(path) or [""]
        return any(
            len(names) == len(parts)
            and all(is_name(part) for is_name, part in zip(names, parts, strict=True))
            for names in self._all
        )

    def rest(self, level: list[Match]) -> list[Match]:
        """Return the objects that are not left out."""
        return [rest for match in level if len(rest := self._rest_of(match))]

    def _rest_of(self, match: Match) -> Match:
        if not self._all:
            return match
        return match.at([at for at in range(len(match)) if not self.has(match.path_of(at))])


def matches(source: Source, path: str, links: Links, *, exclude: Sequence[str] = ()) -> list[Match]:
    """Return the objects that a path with wildcards names, in the order of the file.

    At the end `links` has the groups on the way; earlier ones were found with this `exclude`.

    Raises
    ------
    MissingDatasetError
        It names none, or all are left out.
    CorruptFileError
        A group on the way is damaged.
    """
    level = [Match((), "", ("",), False, _run_of(source.find("")))]
    excluded, left = Excluded(exclude), parts_of(path)
    while left:
        parts = list(takewhile(lambda part: not _WILD.search(part), left)) or left[:1]
        # Each depth may leave objects out, and a store answers for all groups of one depth
        # together.
        if exclude or any(match.run.file.fingerprint.access for match in level):
            del parts[1:]
        left = left[len(parts) :]
        links.passed(level, parts)
        groups, part = level, parts[0]
        if part == ANY:
            level = [one for group in _each(groups) for one in _any(group, links, excluded)]
        elif _WILD.search(part):
            level = list(_chosen(source, groups, part, links))
        else:
            level = list(_named(source, groups, "/".join(parts)))
        if not level:
            groups, part = _where_it_ends(source, groups, parts)
            places = [match.run.place(at) for match in groups for at in range(len(match))]
            paths, names = [place.path for place in places], children(places[0])
            raise hdf5_errors.nothing_matches(source.filename, path, part, paths, names)
        level = excluded.rest(level)
        if not level:
            raise hdf5_errors.nothing_left(source.filename, path, exclude)
    return level


def _where_it_ends(
    source: Source, groups: list[Match], parts: list[str]
) -> tuple[list[Match], str]:
    """Return the first part that leads nowhere, behind the groups in which it does."""
    for part in parts[:-1]:
        level = list(_named(source, groups, part))
        if not level:
            return groups, part
        groups = level
    return groups, parts[-1]


def _each(level: Iterable[Match]) -> Iterator[Match]:
    """Yield each object of a level by itself, with the values of all wildcards."""
    for match in level:
        for number, name in enumerate(match.names):
            values = (*match.values, name) if match.is_wild else match.values
            run = match.run.at([number])
            yield Match(values, match.path_of(number), ("",), False, run)


def _named(source: Source, level: list[Match], part: str) -> Iterator[Match]:
    """Follow a name, or several with slashes, from each group."""
    leads = dict[int, I64]()
    for file in dict.fromkeys(match.run.file for match in level):
        own = [number for number, match in enumerate(level) if match.run.file is file]
        offsets = np.concatenate([level[number].run.offsets for number in own])
        found = file.metadata.find_from(offsets.astype(np.uint64), stored_name(part))
        ends = accumulate((len(level[number]) for number in own), initial=0)
        for number, (begin, end) in zip(own, pairwise(ends), strict=True):
            leads[number] = found[begin:end]
    for number, match in enumerate(level):
        targets, behind = leads[number], f"{match.behind}/{part}"
        here = np.flatnonzero(targets >= 0).tolist()
        if here:
            rest = replace(match if len(here) == len(match) else match.at(here), behind=behind)
            yield replace(rest, run=rest.run.followed(part, targets[here]))
        for at in np.flatnonzero(targets == _core.FIND_ELSEWHERE).tolist():
            place = source.files.look(part, match.run.place(at))
            if isinstance(place, Place):
                yield replace(match.at([at]), behind=behind, run=_run_of(place))


def _chosen(source: Source, level: list[Match], part: str, links: Links) -> Iterator[Match]:
    """Follow the links of each group whose names a part with wildcards matches."""
    places = [match.run.place(at) for match in level for at in range(len(match))]
    listed = links.of(places)
    for group, place in zip(_each(level), places, strict=True):
        of_group, path = listed[place.file, place.offset], f"{group.path}/"
        at, names = links.chosen(of_group, part)
        targets = of_group.targets[at]
        run = Run(place.file, _prefix(place), names, targets)
        if len(names) and targets.min() >= 0:
            yield Match(group.values, path, names, True, run)
            continue
        for number, name in enumerate(names):
            one = run.at([number])
            if targets[number] < 0:
                found = source.files.look(name, place)
                if not isinstance(found, Place):
                    continue
                one = _run_of(found)
            yield Match(group.values, path, (name,), True, one)


def _any(group: Match, links: Links, excluded: Excluded) -> Iterator[Match]:
    """Yield a group, and each object below it once, by its shortest path."""
    yield replace(group, values=(*group.values, ""))
    path = f"{group.path}/"
    run = links.below(group.run.place(0), path, excluded)
    if len(run.names):
        yield Match(group.values, path, tuple(run.names), True, run)


def _below(group: Place, path: str, excluded: Excluded) -> Run:
    level, seen = _run_of(group), {-1, group.offset}
    names, targets = list[str](), [np.zeros(0, np.int64)]
    while len(level.names):
        listed, found = _links(level)
        before = (f"{name}/" if name else "" for name in level.names)
        inside = [of + name for of, own in zip(before, listed, strict=True) for name in own]
        new = []
        for number, target in enumerate(found.tolist()):
            if target not in seen:
                seen.add(target)
                new.append(number)
        at = [number for number in new if not excluded.has(path + inside[number])]
        level = Run(group.file, _prefix(group), [inside[number] for number in at], found[at])
        names += level.names
        targets.append(level.offsets)
    return Run(group.file, _prefix(group), tuple(names), np.concatenate(targets))


def _prefix(group: Place) -> str:
    return f"{group.path.rstrip('/')}/"


def _run_of(place: Place) -> Run:
    return Run(place.file, place.path, ("",), np.array([min(place.offset, FAR)], np.int64))


def _links(groups: Run) -> tuple[list[tuple[str, ...]], I64]:
    """Return the names of each group's links, and the targets of all hard ones; others have -1."""
    offsets, ask = groups.offsets.astype(np.uint64), groups.file.metadata.listed
    try:
        return ask(offsets)
    except hdf5_errors.FROM_CORE:  # of one of them, which is named
        each = [groups.place(at).call(ask, offsets[at : at + 1]) for at in range(len(offsets))]
        return [of for names, _ in each for of in names], np.concatenate([of for _, of in each])
