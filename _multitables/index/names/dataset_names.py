"""What a stream names in one file -> its datasets: one, or several whose rows follow each other.

Law
---
1. A name that an object has is that object, also with wildcards in it. What matches a pattern
   comes by name, numbers in it as numbers, as files do.
"""

from __future__ import annotations

from _multitables.errors import MissingDatasetError
from _multitables.index.datasets.source import Source
from _multitables.index.files.name_order import natural
from _multitables.index.names.pattern import Links, matches, wildcards
from _multitables.index.opened.open_files import UNKNOWN, Place
from _multitables.index.types import hdf5_errors
from _multitables.tree import Joined


def datasets_named(source: Source, named: str | Joined) -> list[Place]:
    """Return where datasets are, in the order of their rows.

    Raises
    ------
    MissingDatasetError
        Nothing is there, or nothing matches a pattern.
    """
    if isinstance(named, str):
        return [source.find(named)]
    found = list[Place]()
    for path in named.paths:
        try:
            found.append(source.find(path))
        except MissingDatasetError:
            if not wildcards(path):
                raise
            found += _matching(source, path)
    return found


def _matching(source: Source, path: str) -> list[Place]:
    each = [
        (match.path_of(number), match.run.place(number))
        for match in matches(source, path, Links(source))
        for number in range(len(match))
    ]
    each.sort(key=lambda one: natural(one[0]))
    datasets = [place for _, place in each if _is_dataset(place)]
    if not datasets:
        groups = [name for name, _ in each]
        raise hdf5_errors.nothing_matches(source.filename, path, "dataset", groups, [])
    return datasets


def _is_dataset(place: Place) -> bool:
    # What the core does not know, the index of it refuses by name.
    return place.offset == UNKNOWN or place.ask("kind") == "dataset"
