"""Which datasets of a stream lie in one array, by `into`.

Law
---
1. Pure: an option in, the arrays of a batch out. An impossible one raises `OptionsError` before a
   file is opened.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _multitables.options import wrong
from _multitables.tree import Paths, Structure, structure_of

#: The axis of all paths in one array; or the keys that lie in the array of each name.
IntoOption = int | Mapping[Any, Sequence[Any]]

_ADVICE = "Give an axis from 1 on, or a dict such as {'fields': ('u', 'v')} for a dict of paths"


@dataclass(frozen=True)
class Into:
    """The arrays of a batch that have several datasets along an axis."""

    axis: int
    #: A name and the numbers of the datasets of each; without a name there is no other array.
    groups: tuple[tuple[Any, tuple[int, ...]], ...]

    def outputs(self, n_paths: int) -> list[tuple[int, ...]]:
        """Return the datasets of each array of a batch."""
        first = {min(numbers): numbers for _, numbers in self.groups}
        grouped = {number for _, numbers in self.groups for number in numbers}
        return [first.get(at, (at,)) for at in range(n_paths) if at in first or at not in grouped]

    def structure(self, of: Structure, n_paths: int) -> Structure:
        """Return how the arrays of a batch are put together."""
        names = {numbers: name for name, numbers in self.groups}
        if None in names.values():
            return Structure(None)
        keys: Any = of.keys
        outputs = self.outputs(n_paths)
        return Structure(tuple(names.get(one, keys[one[0]]) for one in outputs))


def check_into(path: Paths, into: Any) -> Into | None:
    """Check `into`, and return which datasets lie in one array.

    Raises
    ------
    OptionsError
        No such axis or keys.
    """
    if into is None:
        return None
    structure, paths = structure_of(path)
    if not isinstance(into, Mapping):
        try:
            axis = 0 if isinstance(into, bool) else operator.index(into)
        except TypeError:
            axis = 0
        if axis == 0:
            raise wrong("into", "must be an axis behind that of samples, or a dict", into, _ADVICE)
        return Into(axis, ((None, tuple(range(len(paths)))),))
    keys = list(structure.keys or ())
    groups, left = list[tuple[Any, tuple[int, ...]]](), list(keys)
    for name, named in into.items():
        if isinstance(named, str) or not isinstance(named, Sequence) or not named:
            raise wrong("into", "must have a sequence of keys for each name", named, _ADVICE)
        for one in named:
            if one not in left:
                raise wrong("into", f"names no key, or one twice: expected some of {keys}", one,
                            _ADVICE)  # fmt: skip
            left.remove(one)
        groups.append((name, tuple(keys.index(one) for one in named)))
    names = [name for name, _ in groups]
    if not names or None in names or any(name in left for name in names):
        raise wrong("into", f"needs names beside the keys {left}", names, _ADVICE)
    return Into(1, tuple(groups))
