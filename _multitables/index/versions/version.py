"""The versions of a file that the package versioned-hdf5 wrote, and which of them is meant.

Law
---
1. A version is a group; what it is of, its time and its parent are attributes. The datasets in it
   are not looked at.
2. Only the versions that a question needs are read: a name is one of them, an index those from the
   current version on, a time all of them.
3. What the package does not open is not opened here either: versions that were not committed, and
   files of its data versions 2 and 3, or later than 4.

Source: the package's ``versions.py`` and ``api.py``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from _multitables.errors import (
    CorruptFileError,
    MissingVersionError,
    UnsupportedDatasetError,
    public,
)
from _multitables.index.opened.open_files import Lost, OpenFiles, Place
from _multitables.index.types.hdf5_errors import close_matches, did_you_mean
from _multitables.index.types.hdf5_metadata import Attribute
from _multitables.index.types.numpy_type import datatype_of
from _multitables.options import CheckedVersion

GROUP = "/_version_data/versions"
#: The group in which what all versions of a dataset share has the dataset's path.
STORED = "/_version_data"
#: A group without datasets, the parent of versions that have none.
FIRST = "__first_version__"
#: The layout of these is damaged, as the package found out.
CORRUPT_LAYOUTS = (2, 3)
LATEST_LAYOUT = 4
#: Which version is meant, as users say it.
VersionKey = str | int | datetime | np.datetime64
VersionKeys = VersionKey | Sequence[VersionKey] | slice
TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f%z"


@public
@dataclass(frozen=True, slots=True)
class Version:
    """A version of a file that the package versioned-hdf5 wrote."""

    #: Its name.
    name: str
    #: The version that it was made from; None: it was made from nothing.
    parent: str | None
    #: When it was committed, in UTC, or the time that its writer gave.
    time: datetime


@dataclass(frozen=True)
class History:
    """The versions of a file, and which of them is the current one."""

    filename: str
    current: str
    #: None: it was not committed.
    versions: Mapping[str, Version | None]

    def find(self, key: CheckedVersion) -> Version:
        """Return the version of a name, an index or a time.

        Raises
        ------
        MissingVersionError
            The file has no such version, or it was not committed.
        """
        if isinstance(key, str):
            return self._named(key)
        return self._at(key) if isinstance(key, int) else self._latest_at(_in_utc(key))

    def find_all(self, keys: Sequence[CheckedVersion] | slice) -> list[Version]:
        """Return several versions; a slice is of the history of the current one."""
        if isinstance(keys, slice):
            return [*self.line()][::-1][keys]
        return [self.find(key) for key in keys]

    def line(self) -> Iterator[Version]:
        """Yield the current version, its parent, and so on to the first."""
        name: str | None = self.current
        seen: set[str] = set()
        while name not in (None, FIRST):
            if name in seen:
                raise self._in_a_circle(name)
            seen.add(name)
            version = self._named(name)
            yield version
            name = version.parent

    def in_order(self) -> list[Version]:
        """Return all versions: each after its parent, and otherwise by time."""
        found = {version.name: version for version in self._committed()}
        made_from: dict[str | None, list[Version]] = {}
        for version in found.values():
            parent = version.parent if version.parent in found else None
            made_from.setdefault(parent, []).append(version)
        ready = [(version.time, version.name) for version in made_from.get(None, ())]
        heapq.heapify(ready)
        ordered = []
        while ready:
            name = heapq.heappop(ready)[1]
            ordered.append(found[name])
            for version in made_from.get(name, ()):
                heapq.heappush(ready, (version.time, version.name))
        if len(ordered) < len(found):
            raise self._in_a_circle(min(set(found) - {version.name for version in ordered}))
        return ordered

    def _committed(self) -> Iterator[Version]:
        return (version for version in self.versions.values() if version is not None)

    def _named(self, name: str) -> Version:
        if name == FIRST:
            raise self._missing(
                name,
                f"{name!r} of {self.filename!r} is no version: the package keeps it, without "
                "datasets, as the parent of the first ones",
                "Version 0 is the first of the history",
            )
        if name not in self.versions:
            raise self._no_such(name)
        version = self.versions[name]
        if version is None:
            raise self._missing(
                name,
                f"version {name!r} of {self.filename!r} was not committed: its writer is about "
                "to do so, or was stopped before",
                "Take another one: multitables.versions(filename) lists those that were committed",
            )
        return version

    def _at(self, index: int) -> Version:
        line = []
        for version in self.line():
            line.append(version)
            if len(line) == -index:
                return version
        if 0 <= index < len(line):
            return line[-1 - index]
        raise self._missing(
            index,
            f"version {index} of {self.filename!r} is out of range: the history of the current "
            f"version has {len(line)} (expected {-len(line)} to {len(line) - 1})",
            "Index -1 is the current version, 0 the first of its history",
        )

    def _latest_at(self, time: datetime) -> Version:
        best = None
        for version in self._committed():
            if version.time <= time and (best is None or best.time < version.time):
                best = version
        if best is None:
            raise self._missing(
                time,
                f"{self.filename!r} has no version of {time} or before",
                "multitables.versions(filename) lists the versions with their times",
            )
        return best

    def _no_such(self, name: str) -> MissingVersionError:
        children = [child.name for child in self._committed() if child.parent == name]
        if children:
            return self._missing(
                name,
                f"version {name!r}, which {children[0]!r} of {self.filename!r} was made from, was "
                "deleted",
                "Give the name of a version",
            )
        close = close_matches(name, list(self.versions))
        return self._missing(
            name,
            f"no version {name!r} in {self.filename!r}, which has {len(self.versions)}",
            did_you_mean(close) or "multitables.versions(filename) lists them",
        )

    def _missing(self, version: object, happened: str, advice: str) -> MissingVersionError:
        return MissingVersionError(happened, advice=advice, filename=self.filename, version=version)

    def _in_a_circle(self, name: str | None) -> CorruptFileError:
        return CorruptFileError(
            f"{self.filename!r} is damaged: version {name!r} is one of its own ancestors",
            good="Each version can be read by its name",
            advice="Copy the file again from its source or from a backup",
            filename=self.filename,
            version=name,
        )


class _Stored(Mapping[str, "Version | None"]):
    """The versions of a file, each read when it is asked for."""

    def __init__(self, group: Place, filename: str) -> None:
        self._group, self._filename = group, filename
        self._known: dict[str, Version | None] = {}
        self._offsets: dict[str, int] = {}  # of those that were listed

    def __getitem__(self, name: str) -> Version | None:
        if name not in self._known:
            if name not in self._offsets:
                raw = name.encode("utf-8", "surrogateescape")
                self._add(self._group.ask("link", raw))
            self._known[name] = self._read(name, self._offsets[name])
        return self._known[name]

    def _add(self, link: tuple[Any, ...] | None) -> None:
        if link is not None and link[2] == "hard" and link[0] != FIRST.encode():
            self._offsets[link[0].decode("utf-8", "surrogateescape")] = link[3]

    def _read(self, name: str, offset: int) -> Version | None:
        place = Place(self._group.file, offset, f"{self._group.path}/{name}")
        told = {one[0]: one for one in place.ask("attributes")}
        if b"committed" not in told or not any(told[b"committed"][4]):
            return None
        time = _text(self._group, told.get(b"timestamp"))
        try:
            # `strptime` with this format takes fifty times as long.
            when = datetime.fromisoformat(f"{time[:-2]}:{time[-2:]}")
        except ValueError:
            when = datetime.min
        if when.tzinfo is None:
            raise CorruptFileError(
                f"{self._filename!r} is damaged: version {name!r} has no time of its commit "
                f"(expected {TIME_FORMAT}, got {time!r})",
                good="Other versions may be intact",
                filename=self._filename,
                version=name,
            )
        parent = _text(self._group, told.get(b"prev_version"))
        of = None if parent in ("", FIRST) else parent
        return Version(name, of, when.astimezone(timezone.utc))

    def __iter__(self) -> Iterator[str]:
        for link in self._group.ask("links"):
            self._add(link)
        return iter(sorted(self._offsets))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def history_of(files: OpenFiles) -> History:
    """Return the history of a file that is open; its versions are read as they are asked for.

    Raises
    ------
    UnsupportedDatasetError
        The file has no versions, or the package refuses its layout.
    """
    filename = files.main.filename
    group = files.look(GROUP, files.root)
    if isinstance(group, Lost):
        raise UnsupportedDatasetError(
            f"{filename!r} has no versions (expected the group {GROUP!r}, which the package "
            "versioned-hdf5 makes)",
            advice="Leave version out",
            filename=filename,
        )
    told = {one[0]: one for one in group.ask("attributes")}
    if b"data_version" in told:
        _check_layout(filename, int.from_bytes(told[b"data_version"][4], "little"))
    current = _text(group, told.get(b"current_version")) or FIRST
    return History(filename, current, _Stored(group, filename))


def version_path(files: OpenFiles, key: CheckedVersion) -> str:
    """Return the path of a version's group in a file that is open; see `History.find`."""
    return f"{GROUP}/{history_of(files).find(key).name}"


def _check_layout(filename: str, layout: int) -> None:
    if layout in CORRUPT_LAYOUTS:
        why = "whose hash tables are corrupt, so that versions may hold wrong data"
        advice = "Write the file anew with the package"
    elif layout > LATEST_LAYOUT:
        why = f"which is not known here (expected at most {LATEST_LAYOUT})"
        advice = "Update multitables"
    else:
        return
    raise UnsupportedDatasetError(
        f"{filename!r} has versions of data version {layout}, {why}",
        advice=f"{advice}; a path below {GROUP!r} is read as any other",
        filename=filename,
        got=layout,
    )


def _in_utc(time: np.datetime64) -> datetime:
    when: datetime = time.astype("datetime64[us]").item()
    return when.replace(tzinfo=timezone.utc)


def _text(group: Place, attribute: Attribute | None) -> str:
    """Return an attribute that is a string, of fixed or of variable length."""
    if attribute is None:
        return ""
    _, _, body, _, stored = attribute
    kind = datatype_of(body).kind
    if kind == "variable_string":
        stored = b"".join(group.file.metadata.strings(stored, 0))
    elif kind != "string":
        return ""
    return stored.rstrip(b"\0").decode("utf-8", "surrogateescape")
