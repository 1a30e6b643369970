"""Objects that are h5py's to ``isinstance``: programs written for h5py check what they are given.

Law
---
1. h5py is never imported: its class is looked up in ``sys.modules`` when a program asks for it.
2. ``type(x)`` is our class, and so is what is copied or unpickled. h5py's compiled functions look
   at the type itself, and refuse our objects with a `TypeError`.
3. anndata chooses its readers by ``type(x)``. Once it is imported, those of h5py's classes are
   entered for ours, too; it is never imported here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

#: Our classes by the names that h5py has for them.
OURS: dict[str, type[Any]] = {}
ANNDATA = "anndata._io.specs.registry"
#: Tables of functions in anndata's registries, and which part of a key is the type that is read.
TABLES = {"read": 0, "read_partial": 0, "write": 1}
_entered = 0  # functions there, ours included


class AsH5py:
    """An object of a class that h5py has under the name `_as_h5py`."""

    __slots__ = ()
    _as_h5py = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        OURS[cls._as_h5py] = cls

    if not TYPE_CHECKING:  # to type checkers, it is our class

        @property
        def __class__(self) -> type[Any]:
            own = type(self)
            h5py = sys.modules.get("h5py")
            if h5py is None:
                return own
            if ANNDATA in sys.modules:
                _enter_readers(sys.modules[ANNDATA], h5py)
            return getattr(h5py, own._as_h5py, own)  # which may be in the middle of its import

    def __dir__(self) -> list[str]:
        return dir(type(self))


class Value(AsH5py):
    """A value of such a class: its parts, by the names in `__match_args__`, are all that it is."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._parts()


def _enter_readers(anndata: Any, h5py: Any) -> None:
    """Enter what reads h5py's objects for ours, whenever anndata has got more of it."""
    global _entered
    names = ("_REGISTRY", "_LAZY_REGISTRY")
    registries = [getattr(anndata, name) for name in names if hasattr(anndata, name)]
    tables = [(getattr(of, name, {}), at) for of in registries for name, at in TABLES.items()]
    if sum(len(table) for table, _ in tables) == _entered:
        return
    ours = {getattr(h5py, name): OURS[name] for name in ("File", "Group", "Dataset")}
    for table, at in tables:
        for key, function in list(table.items()):
            if isinstance(key[at], type) and key[at] in ours:
                table.setdefault((*key[:at], ours[key[at]], *key[at + 1 :]), function)
    _entered = sum(len(table) for table, _ in tables)
