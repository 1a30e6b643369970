"""A path with wildcards -> the objects of a file that it names.

Law
---
1. ``*``, ``?`` and ``[...]`` stand for parts of one name; what a wildcard stands for is the whole
   name. Links are followed as in any path; one that leads nowhere names nothing.
2. The paths of links are kept, because an object's header does not have its name.

This file must never know what an object is.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from _multitables import _core
from _multitables.index import hdf5_errors
from _multitables.index.hdf5_file import Source, errors_named
from _multitables.index.open_files import UNKNOWN, Place, children
from _multitables.index.survey import Object

_WILD = re.compile(r"[*?\[]")


def only(path: str, by: int, value: str) -> str:
    """Narrow one wildcard of a path, by its number, to a single name."""
    parts, at = path.split("/"), -1
    plain = next((n for n, letter in enumerate(value) if letter.isalnum()), None)
    for number, part in enumerate(parts):
        at += bool(_WILD.search(part))
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
    """An object, and the names that the wildcards stand for."""

    values: tuple[str, ...]
    place: Place
    #: As `Source` takes it: a path in the first file, also where links lead to others.
    path: str


@dataclass
class LinkPaths:
    """Where links of the groups on the way lead, by path."""

    known: dict[Object, str] = field(default_factory=dict)
    _listed: set[Object] = field(default_factory=set)

    def add(self, group: Place) -> None:
        """List a group, once."""
        if (group.file, group.offset) in self._listed:
            return
        self._listed.add((group.file, group.offset))
        path = group.path.rstrip("/")
        for name, _, kind, *target in _links(group):
            if kind == "hard":
                text = name.decode("utf-8", "surrogateescape")
                self.known.setdefault((group.file, target[0]), f"{path}/{text}")


def wildcards(path: str) -> list[str]:
    """Return the names of a path that have wildcards."""
    return [part for part in path.split("/") if _WILD.search(part)]


def matches(source: Source, path: str, paths: LinkPaths | None = None) -> list[Match]:
    """Return the objects that a path with wildcards names, in the order of the file.

    Raises
    ------
    MissingDatasetError
        It names none.
    CorruptFileError
        A group on the way is damaged.
    """
    root = source.find("")
    level = [Match((), root, "")]
    for part in (part for part in path.split("/") if part):
        if paths is not None:
            for match in level:
                paths.add(match.place)
        inside = [found for match in level for found in _inside(source, match, part)]
        if not inside:
            groups = [match.place.path for match in level]
            names = children(level[0].place)
            raise hdf5_errors.nothing_matches(source.filename, path, part, groups, names)
        level = inside
    return level


def _inside(source: Source, match: Match, part: str) -> Iterator[Match]:
    group, path = match.place, match.path.rstrip("/")
    if not _WILD.search(part):
        found = source.files.look(part, group)
        if isinstance(found, Place):
            yield Match(match.values, found, f"{path}/{part}")
        return
    inside, is_match = group.path.rstrip("/"), re.compile(fnmatch.translate(part)).match
    for name, _, kind, *target in _links(group):
        text = name.decode("utf-8", "surrogateescape")
        if not is_match(text):
            continue
        values = (*match.values, text)
        if kind == "hard":
            place = Place(group.file, target[0], f"{inside}/{text}")
            yield Match(values, place, f"{path}/{text}")
        elif isinstance(found := source.files.look(text, group), Place):
            yield Match(values, found, f"{path}/{text}")


def _links(group: Place) -> list[tuple[Any, ...]]:
    with errors_named(group):
        if group.offset == UNKNOWN:
            raise _core.Unknown("a group is stored as the core does not know", 0)
        return group.file.metadata.links(group.offset)
