"""The attributes of an object.

Law
---
1. All attributes of an object are read at once, when one is asked for, and decoded one by one.
2. Names are in the order of their creation where the object keeps it, else sorted, as in h5py.
3. They keep the file open, as each object does: no other object of it has to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from _multitables.elements.attribute import decoded
from _multitables.errors import MissingAttributeError
from _multitables.index.opened.open_files import Place
from _multitables.index.types.as_h5py import AsH5py
from _multitables.index.types.hdf5_errors import close_matches, did_you_mean
from _multitables.index.types.numpy_type import dtype_of
from _multitables.parent.open.handle import Handle
from _multitables.parent.open.mapping import Names, encoded, text
from _multitables.parent.open.read_only import ATTRIBUTES, writes

if TYPE_CHECKING:
    from _multitables.parent.open.ids import AttributeId

#: Of an attribute, as the core describes it: its name, and its number in the order of creation.
NAMED, CREATED = itemgetter(0), itemgetter(1)


@writes(*ATTRIBUTES)
class Attributes(AsH5py, Names):
    """The attributes of an object: a read-only mapping from names to values.

    A value is what h5py gives: a NumPy scalar or array; str, or an array of them, for strings of
    variable length; `Empty` for a type without elements.

    Raises
    ------
    KeyError
        There is no attribute of this name (as `MissingAttributeError`).
    UnsupportedDatasetError
        The attribute has a type that NumPy does not have.
    CorruptFileError
        Its structure is damaged.
    """

    __slots__ = ("_found", "_handle", "_place")
    _as_h5py = "AttributeManager"

    def __init__(self, handle: Handle, place: Place) -> None:
        self._handle, self._place = handle, place
        self._found: dict[bytes, tuple[Any, ...]] | None = None

    def _all(self) -> dict[bytes, tuple[Any, ...]]:
        self._handle.shared  # noqa: B018 - which is an error once the file is closed
        if self._found is None:
            found = self._place.ask("attributes")
            is_ordered = None not in map(CREATED, found)
            found.sort(key=CREATED if is_ordered else NAMED)
            self._found = {one[0]: one[2:] for one in found}
        return self._found

    def __getitem__(self, name: str | bytes) -> Any:
        found = self._all().get(encoded(name))
        if found is None:
            raise self._missing(name)
        return self._place.call(decoded, self._place, *found)

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of an attribute; the default if there is no such attribute."""
        return default if encoded(name) not in self._all() else self[name]

    def dtype(self, name: str | bytes) -> np.dtype[Any]:
        """Return the type of an attribute as it is stored, with h5py's metadata of strings.

        Raises
        ------
        MissingAttributeError
            There is no attribute of this name (a `KeyError`).
        UnsupportedDatasetError
            NumPy has no such type.
        """
        found = self._all().get(encoded(name))
        if found is None:
            raise self._missing(name)
        return self._place.call(dtype_of, found[0])

    def get_id(self, name: str | bytes) -> AttributeId:
        """Return how an attribute is stored: its type and extents.

        Raises
        ------
        MissingAttributeError
            There is no attribute of this name (a `KeyError`).
        """
        from _multitables.parent.open.ids import AttributeId

        found = self._all().get(encoded(name))
        if found is None:
            raise self._missing(name)
        return AttributeId(self._place, encoded(name), *found)

    def _missing(self, name: object) -> MissingAttributeError:
        names, place = list(self), self._place
        close = close_matches(str(name), list(map(str, names)))
        there = ", ".join(map(repr, names[:20])) or "nothing"
        return MissingAttributeError(
            f"no attribute {name!r} of {place.path!r} in {place.file.filename!r} (it has {there})",
            advice=did_you_mean(close) or "Check the name",
            name=name,
            path=place.path,
            filename=place.file.filename,
            close_matches=close,
        )

    def __contains__(self, name: object) -> bool:
        return encoded(name) in self._all()

    def __iter__(self) -> Iterator[Any]:
        return map(text, list(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        if not self._handle.is_open:
            return "<Attributes of closed HDF5 object>"
        return f"<Attributes of HDF5 object {self._place.path!r}>"
