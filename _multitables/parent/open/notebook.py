"""Objects of files in notebooks: a group as a tree that unfolds, a dataset as a table.

Law
---
1. Only hard links are followed, and a group is listed once: the levels next to it come first, and
   the rest is counted.
2. Elements of datasets are not read. In the place of an object that cannot be read is the reason.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from _multitables.errors import MultitablesError
from _multitables.parent.notebook import entry, escaped, fold, line, page, table
from _multitables.parent.open.facts import facts, type_name
from _multitables.parent.open.handle import CLASSES
from _multitables.parent.open.links import HardLink
from _multitables.parent.titles import size

#: Objects of a tree, and of one group.
OBJECTS, MEMBERS = 200, 50
#: Attributes, and letters of the value of one.
ATTRIBUTES, LETTERS = 30, 100


def html(found: Any) -> str:
    """Return what a notebook shows of a `File`, `Group`, `Dataset` or `Datatype`."""
    try:
        if found and isinstance(found, CLASSES["group"]):
            return page(_rendered(_tree(found), [*_attributes(found)], is_open=True))
        if found and isinstance(found, CLASSES["dataset"]):
            return page(fold(line(repr(found)), [table(_rows(found)), *_attributes(found)], True))
        return page(line(repr(found)))
    except MultitablesError as error:
        return page(entry(f"{type(found).__name__}: {error.happened}"))


@dataclass
class Node:
    """A line of a tree, as HTML, and the lines below it."""

    title: str
    below: list[Node] = field(default_factory=list)
    #: The other objects of the group.
    more: int = 0


def _tree(group: Any) -> Node:
    """Return the first objects below a group, level by level."""
    top, seen, left = Node(line(repr(group))), {group}, OBJECTS
    waiting = deque([(top, group)])
    while waiting:
        node, group = waiting.popleft()
        names = list(itertools.islice(group, min(left, MEMBERS)))
        left -= len(names)
        node.more = len(group) - len(names)
        for name in names:
            title, found = _member(group, name)
            node.below.append(Node(title))
            if isinstance(found, CLASSES["group"]) and found not in seen:
                seen.add(found)
                waiting.append((node.below[-1], found))
    return top


def _member(group: Any, name: Any) -> tuple[str, Any]:
    """Return a line for a member of a group, and the member, where a hard link leads to it."""
    shown = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    try:
        link = group.get(name, getlink=True)
        if not isinstance(link, HardLink):
            return entry(shown, repr(link)), None
        found = group[name]
        if isinstance(found, CLASSES["group"]):
            return f"<strong>{escaped(shown)}/</strong>", found
        said = type_name(found.dtype)
        if isinstance(found, CLASSES["dataset"]):
            said += f" {found.shape}" if found.shape is not None else " empty"
        return entry(shown, said), found
    except (MultitablesError, TypeError) as error:
        return entry(shown, getattr(error, "happened", str(error))), None


def _rendered(node: Node, first: list[str], is_open: bool = False) -> str:
    below = [*first, *(_rendered(one, []) for one in node.below)]
    if node.more:
        below.append(entry("", f"and {node.more} more"))
    return fold(node.title, below, is_open) if below else node.title


def _rows(dataset: Any) -> Iterator[tuple[str, object]]:
    for name, value in facts(dataset).items():
        if name.endswith("_bytes"):
            yield name.removesuffix("_bytes"), "unknown" if value is None else size(value)
        elif value not in (None, []):
            yield name, ", ".join(value) if isinstance(value, list) else value


def _attributes(found: Any) -> Iterator[str]:
    """Yield the attributes, folded, if there are any."""
    if not len(found.attrs):
        return
    rows: list[tuple[str, object]] = []
    for name in itertools.islice(found.attrs, ATTRIBUTES):
        try:
            value = str(found.attrs[name])
        except MultitablesError as error:
            value = error.happened
        rows.append((str(name), value if len(value) <= LETTERS else f"{value[:LETTERS]}..."))
    shown = f"{len(rows)} of {len(found.attrs)}" if len(rows) < len(found.attrs) else ""
    yield fold(entry("attributes", shown), [table(rows)])
