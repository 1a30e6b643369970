"""A path with wildcards -> the objects of a file that it names.

Law
---
1. ``*``, ``?`` and ``[...]`` stand for parts of one name; what a wildcard stands for is the whole
   name. Links are followed as in any path; one that leads nowhere names nothing.
2. ``**`` stands for any number of names. It follows hard links alone, and finds no object twice.
3. The paths of links are kept, because an object's header does not have its name.

This file must never know what an object is.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from _multitables.index.chunk_index import I64
from _multitables.index.datasets.source import Source
from _multitables.index.opened.open_files import (
    UNKNOWN,
    OpenFile,
    Place,
    children,
    prefetched,
)
from _multitables.index.opened.runs import FAR, Begins, Run
from _multitables.index.saved.metadata import SavedMetadata
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
    """Objects that links of one group lead to, and the names that the wildcards stand for."""

    #: What wildcards before the last part of the path stand for.
    values: tuple[str, ...]
    #: Of the group, with a slash; as `Source` takes it, also where links lead to other files.
    path: str
    #: The links. With `is_wild` a wildcard stands for each.
    names: tuple[str, ...]
    is_wild: bool
    run: Run
    #: Which of several files was looked through, and by which of several paths.
    file: int = 0
    pattern: int = 0
    #: The part of the value of ``**`` before each of the names, with a slash.
    before: str = ""

    def value(self, number: int) -> str:
        """Return the value of the last wildcard for one of the names."""
        return self.before + self.names[number]


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

    def __init__(self) -> None:
        self._listed: dict[Object, Listed] = {}
        #: Many groups have links of the same names.
        self._chosen: dict[tuple[tuple[str, ...], str], tuple[I64, tuple[str, ...]]] = {}

    def of(self, group: Place) -> Listed:
        """List a group, once."""
        known = self._listed.get((group.file, group.offset))
        if known is None:
            known = Listed(_prefix(group), *_links(group))
            self._listed[group.file, group.offset] = known
        return known

    @property
    def groups(self) -> list[str]:
        """The paths of the groups."""
        return [listed.prefix for listed in self._listed.values()]

    def chosen(self, listed: Listed, part: str) -> tuple[I64, tuple[str, ...]]:
        """Return the numbers and names of the links that a part with wildcards matches."""
        key = listed.names, part
        if key not in self._chosen:
            is_match = re.compile(fnmatch.translate(part)).match
            at = [number for number, name in enumerate(listed.names) if is_match(name)]
            names = tuple(listed.names[number] for number in at)
            self._chosen[key] = np.array(at, np.int64), names
        return self._chosen[key]

    def paths(self, file: OpenFile, offsets: I64) -> list[str]:
        """Return the paths of a file's objects; "" if no listed link leads to an object."""
        groups = [listed for (of, _), listed in self._listed.items() if of is file]
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

    def rest(self, level: list[Match]) -> list[Match]:
        """Return the objects that are not left out."""
        return [rest for match in level if (rest := self.rest_of(match)).names]

    def rest_of(self, match: Match) -> Match:
        """Return those of a match that are not left out."""
        if not self._all:
            return match
        group = parts_of(match.path)
        last = [
            names[-1]
            for names in self._all
            if len(names) == len(group) + 1
            and all(is_name(part) for is_name, part in zip(names[:-1], group, strict=True))
        ]
        at = [n for n, name in enumerate(match.names) if not any(is_it(name) for is_it in last)]
        if len(at) == len(match.names):
            return match
        run = match.run
        rest = Run(run.file, run.prefix, [run.names[number] for number in at], run.offsets[at])
        return replace(match, names=tuple(match.names[number] for number in at), run=rest)


def matches(
    source: Source,
    path: str,
    links: Links,
    *,
    lists_all: bool,
    exclude: Sequence[str] = (),
    groups_on_way: dict[str, Place] | None = None,
) -> list[Match]:
    """Return the objects that a path with wildcards names, in the order of the file.

    With `lists_all`, `links` has those of all groups on the way in the end; `groups_on_way` gets
    these groups, by their paths with a slash.

    Raises
    ------
    MissingDatasetError
        It names none, or all are left out.
    CorruptFileError
        A group on the way is damaged.
    """
    level = [Match((), "", ("",), False, _run_of(source.find("")))]
    excluded = Excluded(exclude)
    for part in parts_of(path):
        groups = [_Group(match, number) for match in level for number in range(len(match.names))]
        if groups_on_way is not None:
            groups_on_way.update((group.path, group.place) for group in groups)
        main = groups[0].place.file
        ahead = prefetched(main, groups, partial(_offset_in, main))
        if part == ANY:
            of_groups = (_below(group, links, excluded) for group in ahead)
        else:
            of_groups = (_inside(source, group, part, links, lists_all) for group in ahead)
        level = list(chain.from_iterable(of_groups))
        if not level:
            paths = [group.place.path for group in groups]
            names = children(groups[0].place)
            raise hdf5_errors.nothing_matches(source.filename, path, part, paths, names)
        level = excluded.rest(level)
        if not level:
            raise hdf5_errors.nothing_left(source.filename, path, exclude)
    return level


class _Group:
    """A group in which the next part of the path is searched."""

    def __init__(self, match: Match, number: int) -> None:
        self.values = (*match.values, match.value(number)) if match.is_wild else match.values
        self.of, self.name = match.path, match.names[number]
        self.path = f"{self.of}{self.name}/"
        self.place = match.run.place(number)


def _offset_in(file: OpenFile, group: _Group) -> int:
    return group.place.offset if group.place.file is file else UNKNOWN


def _inside(
    source: Source, group: _Group, part: str, links: Links, lists_all: bool
) -> Iterator[Match]:
    place, is_wild = group.place, bool(_WILD.search(part))
    if not (is_wild or lists_all):
        found = source.files.look(part, place)
        if isinstance(found, Place):
            yield Match(group.values, group.path, (part,), False, _run_of(found))
        return
    listed, prefix = links.of(place), _prefix(place)
    at, names = links.chosen(listed, part)
    targets = listed.targets[at]
    if len(names) and targets.min() >= 0:
        run = Run(place.file, prefix, names, targets)
        yield Match(group.values, group.path, names, is_wild, run)
        return
    for number, name in enumerate(names):
        run = Run(place.file, prefix, (name,), targets[number : number + 1])
        if targets[number] < 0:
            found = source.files.look(name, place)
            if not isinstance(found, Place):
                continue
            run = _run_of(found)
        yield Match(group.values, group.path, (name,), is_wild, run)


def _below(group: _Group, links: Links, excluded: Excluded) -> Iterator[Match]:
    """Yield a group, and each object below it once, by its shortest path."""
    yield Match((*group.values, ""), group.of, (group.name,), False, _run_of(group.place))
    left, seen = deque([(group.place, group.path, "")]), {-1, group.place.offset}
    while left:
        place, path, before = left.popleft()
        listed, prefix = links.of(place), _prefix(place)
        at = []
        for number, target in enumerate(listed.targets.tolist()):
            if target not in seen:
                seen.add(target)
                at.append(number)
        names, targets = tuple(listed.names[number] for number in at), listed.targets[at]
        run = Run(place.file, prefix, names, targets)
        match = excluded.rest_of(Match(group.values, path, names, True, run, before=before))
        if match.names:
            yield match
        for number, name in enumerate(match.names):
            left.append((match.run.place(number), f"{path}{name}/", f"{before}{name}/"))


def _prefix(group: Place) -> str:
    return f"{group.path.rstrip('/')}/"


def _run_of(place: Place) -> Run:
    return Run(place.file, place.path, ("",), np.array([min(place.offset, FAR)], np.int64))


def _links(group: Place) -> tuple[tuple[str, ...], I64]:
    """Return the names of a group's links and the targets of hard ones; other links have -1."""
    metadata = group.file.metadata
    if isinstance(metadata, SavedMetadata):
        listed = metadata.listed(group.offset)
        if listed is not None:
            return listed
    links = group.ask("links")
    names = (link[0].decode("utf-8", "surrogateescape") for link in links)
    targets = (min(link[3], FAR) if link[2] == "hard" else -1 for link in links)
    return tuple(names), np.fromiter(targets, np.int64, len(links))
