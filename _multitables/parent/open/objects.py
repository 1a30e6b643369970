"""What groups, datasets and named types have in common.

Law
---
1. An object is a handle, a place and a name; nothing is read before it is asked for.
2. Objects are equal if they are the same object of the same file, whichever way led there.
3. The name is the path that was taken, as in h5py. What a reference led to is looked for when its
   name is asked for.
4. An object is pickled as its handle, its place in the file and its name.
"""

from __future__ import annotations

import posixpath
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from _multitables.errors import MultitablesError, public
from _multitables.index.opened.open_files import UNKNOWN, Place
from _multitables.index.types.as_h5py import AsH5py
from _multitables.index.types.numpy_type import dtype_of
from _multitables.index.types.references import Reference
from _multitables.parent.open.handle import Handle
from _multitables.parent.open.mapping import encoded, text
from _multitables.parent.open.visits import objects_below, stored_links

if TYPE_CHECKING:
    from _multitables.parent.open.attributes import Attributes
    from _multitables.parent.open.ids import TypeId

Name = str | bytes | None


@cache
def _attributes_class() -> type[Attributes]:
    """Return the class, which few programs need; an import for each object would cost more."""
    from _multitables.parent.open.attributes import Attributes

    return Attributes


class Object(AsH5py):
    """An object of a file: a `Group`, a `Dataset` or a `Datatype`.

    Parameters
    ----------
    handle : Handle
        What the file was opened as.
    place : Place
        Where the object is.
    name : str or None
        Its path. None: it is looked for when it is asked for.
    """

    __slots__ = ("__weakref__", "_attributes", "_handle", "_name", "_place")

    def __init__(self, handle: Handle, place: Place, name: Name) -> None:
        self._handle, self._place, self._name = handle, place, name
        self._attributes: Attributes | None = None

    @property
    def attrs(self) -> Attributes:
        """The attributes: a read-only mapping by name."""
        self._handle.shared  # noqa: B018 - which is an error once the file is closed
        if self._attributes is None:
            self._attributes = _attributes_class()(self._handle, self._place)
        return self._attributes

    @property
    def name(self) -> Any:
        """The path of the object in its file (str), or None if no link leads to it."""
        if self._name is None:
            self._name = _path_of(self._place, self._handle)
        return self._name

    @property
    def file(self) -> Any:
        """The `File` that the object is in."""
        self._handle.shared  # noqa: B018
        return self._handle.file(self._place.file)

    @property
    def parent(self) -> Any:
        """The group that `name` says the object is in.

        Raises
        ------
        ValueError
            The object has no name.
        """
        if self.name is None:
            raise ValueError("Parent of an anonymous object is undefined")
        return self.file[posixpath.dirname(self.name)]

    @property
    def ref(self) -> Reference:
        """A reference to the object: ``file[object.ref]`` is equal to the object."""
        return Reference(self._place.offset)

    def _ask(self, question: str, *arguments: Any) -> Any:
        """Ask the core about this object."""
        self._handle.shared  # noqa: B018
        return self._place.ask(question, *arguments)

    def _title(self) -> str:
        """Return the last part of the name, as it stands in a repr."""
        if self.name is None:
            return '("anonymous")'
        return f'"{posixpath.basename(shown(self.name)) or "/"}"'

    def _repr_html_(self) -> str:
        from _multitables.parent.open.notebook import html

        return html(self)

    def __bool__(self) -> bool:
        return self._handle.is_open

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Object):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, int | str]:
        place = self._place
        return place.file.fingerprint, place.path if place.offset == UNKNOWN else place.offset

    def __reduce__(self) -> tuple[Any, ...]:
        handle = self._handle.of(self._place.file)
        return _restored, (type(self), handle, self._place.offset, self._name)


def _restored(kind: type[Object], handle: Handle, offset: int, name: Name) -> Object:
    return kind(handle, handle.place(handle.main, offset, shown(name)), name)


@public
class Datatype(Object):
    """A named type of a file.

    Attributes
    ----------
    dtype : numpy.dtype
        The type, as NumPy knows it.
    """

    __slots__ = ()
    _as_h5py = "Datatype"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type, as NumPy knows it.

        Raises
        ------
        UnsupportedDatasetError
            NumPy has no such type.
        """
        return self._place.call(dtype_of, self._ask("datatype"))

    @property
    def id(self) -> TypeId:
        """The type in parts, as h5py's low-level functions say it."""
        from _multitables.parent.open.ids import TypeId

        return TypeId(self._place, self._ask("datatype"), is_named=True)

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 named type>"
        try:
            return f"<HDF5 named type {self._title()} (dtype {self.dtype.str})>"
        except MultitablesError as error:
            return f"<HDF5 named type: {error.happened}>"


def shown(name: Name) -> str:
    """Return a name as errors show it."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""


def joined(name: str | bytes, path: str | bytes) -> str | bytes:
    """Return the path of what is at a path, from the group of this name."""
    raw_name, raw = encoded(name), encoded(path)
    parts = [part for part in raw.split(b"/") if part not in (b"", b".")]
    before = b"" if raw.startswith(b"/") else raw_name.rstrip(b"/")
    return text(b"/".join([before, *parts]) or b"/")


def _path_of(place: Place, handle: Handle) -> Name:
    """Look for the path of hard links that HDF5 finds first to an object."""
    handle.shared  # noqa: B018
    root = handle.file(place.file)._place
    if place.offset == root.offset:
        return "/"
    below = objects_below(root, stored_links)
    return next((text(b"/" + path) for path, at, _ in below if at == place.offset), None)
