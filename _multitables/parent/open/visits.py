"""Ways through the groups of a file, in the order of the names.

Law
---
1. Hard links are followed, and a group is gone through once: links may go in circles.
2. A group is listed when the way comes to it, and not before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from _multitables.index.opened.open_files import UNKNOWN, Place, prefetched

#: As the core tells a link: its name, its number in the order of creation, its kind, its target.
Link = tuple[Any, ...]


def stored_links(group: Place) -> list[Link]:
    """Return the links of a group as the file has them, in whatever order."""
    links: list[Link] = group.ask("links")
    return links


def sorted_links(group: Place) -> list[Link]:
    """Return the links of a group."""
    links = stored_links(group)
    links.sort(key=_by_name)
    return links


def _by_name(link: Link) -> bytes:
    name: bytes = link[0]
    return name


def links_below(
    group: Place, listed: Callable[[Place], list[Link]] = sorted_links
) -> Iterator[tuple[bytes, Link, str]]:
    """Yield the path and each link below a group; of a hard link, what its object is, else ""."""
    file, seen = group.file, {group.offset}
    levels = [(b"", prefetched(file, listed(group), _offset))]
    while levels:
        before, links = levels[-1]
        for link in links:
            path, kind = before + link[0], ""
            if link[2] == "hard":
                place = Place(file, link[3], group.path)
                kind = place.ask("kind")
            yield path, link, kind
            if kind == "group" and link[3] not in seen:
                seen.add(link[3])
                levels.append((path + b"/", prefetched(file, listed(place), _offset)))
                break
        else:
            levels.pop()


def paths_below(group: Place) -> Iterator[bytes]:
    """Yield the path of each link below a group, those of a level before those of the next."""
    waiting, seen = deque([(b"", group)]), {group.offset}
    while waiting:
        before, place = waiting.popleft()
        for link in prefetched(place.file, sorted_links(place), _offset):
            path = before + link[0]
            yield path
            if link[2] == "hard" and link[3] not in seen:
                below = Place(place.file, link[3], group.path)
                if below.ask("kind") == "group":
                    seen.add(link[3])
                    waiting.append((path + b"/", below))


def _offset(link: Link) -> int:
    return int(link[3]) if link[2] == "hard" else UNKNOWN


def objects_below(
    group: Place, listed: Callable[[Place], list[Link]] = sorted_links
) -> Iterator[tuple[bytes, int, str]]:
    """Yield the path, the offset and the kind of each object below a group, once."""
    seen = {group.offset}
    for path, link, kind in links_below(group, listed):
        if kind and link[3] not in seen:
            seen.add(link[3])
            yield path, link[3], kind
