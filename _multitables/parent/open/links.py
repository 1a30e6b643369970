"""What links say: a path here, a path in another file, or an object.

Law
---
1. A link is a value: it tells where it leads, and follows nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from _multitables.errors import public
from _multitables.index.types.as_h5py import Value
from _multitables.parent.open.mapping import text


@public
@dataclass(frozen=True, eq=False)
class HardLink(Value):
    """A link to an object of the file."""

    _as_h5py = "HardLink"


@public
@dataclass(frozen=True, eq=False, repr=False)
class SoftLink(Value):
    """A link to a path of the file, which need not exist.

    Attributes
    ----------
    path : str
        Where it leads: from the root, or from the group that holds the link.
    """

    _as_h5py = "SoftLink"

    path: str | bytes

    def __repr__(self) -> str:
        return f'<SoftLink to "{self.path!s}">'


@public
@dataclass(frozen=True, eq=False, repr=False)
class ExternalLink(Value):
    """A link to a path of another file; neither need exist.

    Attributes
    ----------
    filename : str
        The other file, as the link names it.
    path : str
        The path in it.
    """

    _as_h5py = "ExternalLink"

    filename: str
    path: str | bytes

    def __repr__(self) -> str:
        return f'<ExternalLink to "{self.path!s}" in file "{self.filename}">'


@public
@dataclass(frozen=True, repr=False)
class UserLink:
    """A link of a type that a program defined, which only this program can follow.

    Attributes
    ----------
    type : int
        The number of its type: 65 to 255.
    """

    type: int

    def __repr__(self) -> str:
        return f"<UserLink of type {self.type}>"


def link(told: tuple[Any, ...]) -> HardLink | SoftLink | ExternalLink | UserLink:
    """Return the value of a link from the core's description."""
    _, _, kind, *target = told
    if kind == "hard":
        return HardLink()
    if kind == "soft":
        return SoftLink(text(target[0]))
    if kind == "external":
        return ExternalLink(os.fsdecode(target[0]), text(target[1]))
    return UserLink(target[0])
