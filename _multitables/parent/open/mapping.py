"""Mappings by name, and views of them, that behave as h5py's.

Law
---
1. A mapping tells its names, whether it has one, and gets one; what a view shows is asked of it
   while it is looked at.
2. Values are got with `get`: of a link that leads nowhere, None.
"""

from __future__ import annotations

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Reversible,
    ValuesView,
)
from typing import Any, cast


class Keys(KeysView[Any]):
    """The names."""

    _mapping: Names

    def __reversed__(self) -> Iterator[Any]:
        return iter(reversed(self._mapping))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self)}>"


class Values(ValuesView[Any]):
    """The values, in the order of the names."""

    _mapping: Names

    def __contains__(self, value: object) -> bool:
        return any(value == own for own in self)

    def __iter__(self) -> Iterator[Any]:
        return map(self._mapping.get, self._mapping)

    def __reversed__(self) -> Iterator[Any]:
        return map(self._mapping.get, reversed(self._mapping))


class Items(ItemsView[Any, Any]):
    """Names and values."""

    _mapping: Names

    def __contains__(self, item: object) -> bool:
        name, value = cast(tuple[Any, Any], item)
        return name in self._mapping and bool(value == self._mapping.get(name))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._pairs(self._mapping)

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        return self._pairs(reversed(self._mapping))

    def _pairs(self, names: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return ((name, self._mapping.get(name)) for name in names)


class Names(Mapping[Any, Any], Reversible[Any]):
    """A mapping by name."""

    __slots__ = ()

    def __reversed__(self) -> Iterator[Any]:
        return iter(list(self)[::-1])

    def keys(self) -> Keys:
        """Return a view of the names."""
        return Keys(self)

    def values(self) -> Values:
        """Return a view of the values."""
        return Values(self)

    def items(self) -> Items:
        """Return a view of the names and values."""
        return Items(self)

    def _ipython_key_completions_(self) -> list[Any]:
        return sorted(self)


def encoded(name: object) -> bytes:
    """Return a name as it stands in the file.

    Raises
    ------
    TypeError
        It is neither text nor bytes.
    """
    if isinstance(name, str):
        return name.encode("utf-8", "surrogateescape")
    if isinstance(name, bytes):
        return name
    raise TypeError(f"A name should be string or bytes, not {type(name)}")


def text(name: bytes) -> str | bytes:
    """Decode a name of the file; bytes that are not UTF-8 stay bytes, as in h5py."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name
