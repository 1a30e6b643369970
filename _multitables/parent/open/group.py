"""Groups: a mapping from names to objects, and ways through what is below.

Law
---
1. A path within the file is followed by the core. Other files, and what is missing, are
   `OpenFiles`' to find and to name.
2. Names are in the order of their creation where the group keeps it, else sorted, as in h5py;
   visits go by name.
3. `walk` lists only the groups that its pattern needs, when they are needed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from _multitables.errors import MissingDatasetError, UnsupportedDatasetError, public
from _multitables.index.opened.open_files import Lost, Place
from _multitables.index.types.references import Reference, RegionReference
from _multitables.parent.open.handle import CLASSES, Handle
from _multitables.parent.open.mapping import Names, encoded, text
from _multitables.parent.open.objects import Object, joined, shown
from _multitables.parent.open.read_only import GROUP, refused, writes
from _multitables.parent.open.visits import links_below, objects_below, paths_below

if TYPE_CHECKING:
    from _multitables.parent.open.dataset import Dataset
    from _multitables.parent.open.ids import GroupId

#: Paths that are completed in a shell or a notebook.
COMPLETIONS = 1000


@public
@writes(*GROUP)
class Group(Object, Names):
    """A group of a file: a read-only mapping from names, or paths, to objects.

    A path is relative to the group, or begins with a slash. Soft and external links are followed.
    """

    __slots__ = ("_names",)
    _as_h5py = "Group"

    def __init__(self, handle: Handle, place: Place, name: str | bytes | None) -> None:
        super().__init__(handle, place, name)
        self._names: list[Any] | None = None

    def _listed(self) -> list[Any]:
        """Return the names in the order of iteration, read once."""
        self._handle.shared  # noqa: B018 - which is an error once the file is closed
        if self._names is None:
            self._names = self._place.ask("names")
        return self._names

    @property
    def id(self) -> GroupId:
        """Which group it is, as h5py's low-level functions say it."""
        from _multitables.parent.open.ids import GroupId

        return GroupId(self)

    def __getitem__(self, name: str | bytes | Reference | RegionReference) -> Member | Any:
        """Return the object of a name, a path or a reference.

        Raises
        ------
        KeyError
            Nothing is there (as `MissingDatasetError`).
        ValueError
            The reference refers to nothing.
        """
        if isinstance(name, Reference | RegionReference):
            return self._referred(name)
        if not isinstance(name, str | bytes):
            raise TypeError(f"Accessing a group is done with bytes or str, not {type(name)}")
        files, file, path = self._handle.files, self._place.file, encoded(name)
        start, path = self._way(path)
        if path:
            place = start
            with contextlib.suppress(UnsupportedDatasetError):  # libhdf5 may know the way
                kind, *where = place.call(file.metadata.find, path, place.offset)
                if kind == "object":
                    return self._object(where[0], joined(self.name or "/", name))
        found = files.find(path.decode("utf-8", "surrogateescape"), start)
        if not path:
            raise MissingDatasetError("a name must not be empty", path="")
        return self._handle.object(found, self._handle.name(found))

    def _way(self, path: bytes) -> tuple[Place, bytes]:
        """Return where a path begins, and the path from there: in a version, from its group."""
        root = self._handle.root
        if self._handle.inside and path.startswith(b"/") and self._place.file is root.file:
            return root, path.lstrip(b"/") or b"."
        return self._place, path

    def _object(self, offset: int, name: str | bytes) -> Any:
        place = self._handle.place(self._place.file, offset, shown(name))
        return self._handle.object(place, name)

    def _referred(self, reference: Reference | RegionReference) -> Any:
        self._handle.shared  # noqa: B018
        if not reference:
            raise ValueError("Invalid HDF5 object reference")
        offset, place = 0, self._place
        if isinstance(reference, Reference):
            offset = reference.offset
        else:
            offset, _ = place.call(place.file.metadata.region, reference.heap, reference.number)
        return self._handle.object(Place(place.file, offset, "a reference's object"), None)

    def get(
        self,
        name: Any,
        default: Any = None,
        getclass: bool = False,
        getlink: bool = False,
        elink_mode: str | None = None,
        elink_locking: object = None,
        elink_swmr: object = None,
    ) -> Any:
        """Return an object, its class, or the link of this name.

        Parameters
        ----------
        name : str or bytes
            A name or a path.
        default : object
            What is returned if there is no such name; also for the object behind a link that leads
            nowhere. Default None.
        getclass : bool
            Return the class in place of the object: `Group`, `Dataset` or `Datatype`. Default
            False.
        getlink : bool
            Return the link in place of the object: a `HardLink`, `SoftLink`, `ExternalLink` or, of
            a type that a program defined, `UserLink`, or
            its class. Default False.
        elink_mode, elink_locking, elink_swmr : object
            As h5py has them, for other files that links name: these are always opened to be read.
        """
        if elink_mode not in (None, "r"):
            raise ValueError(f"elink_mode must be 'r', as files are only read, got {elink_mode!r}")
        if not getlink:
            try:
                found = self[name]
            except KeyError:
                return default
            return type(found) if getclass else found
        from _multitables.parent.open.links import link

        told = self._link(encoded(name))
        if told is None:
            return default
        found = link(told)
        return type(found) if getclass else found

    def _link(self, path: bytes) -> tuple[Any, ...] | None:
        """Return what the last name of a path says, whether it leads anywhere or not."""
        files = self._handle.files
        start, path = self._way(path)
        group, _, name = path.rstrip(b"/").rpartition(b"/")
        if name in (b"", b"."):
            return None
        place: Place | Lost = start
        if group or path.startswith(b"/"):
            before = (group or b"/").decode("utf-8", "surrogateescape")
            place = files.look(before, start)
        if isinstance(place, Lost):
            return None
        return place.ask("link", name) if place.ask("kind") == "group" else None

    def __contains__(self, name: object) -> bool:
        if not self:
            return False
        path = encoded(name)
        names = [part for part in path.split(b"/") if part not in (b"", b".")]
        if not names:
            return bool(path)
        return self._link((b"/" if path.startswith(b"/") else b"") + b"/".join(names)) is not None

    def __len__(self) -> int:
        self._handle.shared  # noqa: B018
        return self._place.ask("n_links") if self._names is None else len(self._names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed())

    def __reversed__(self) -> Iterator[Any]:
        return iter(self._listed()[::-1])

    def require_group(self, name: Any) -> Group:
        """Return an existing group; a missing one cannot be created.

        Raises
        ------
        TypeError
            It is something else.
        ReadOnlyError
            There is no such group.
        """
        found: Group = self._required(name, Group, "require_group")
        return found

    def require_dataset(
        self, name: Any, shape: Any, dtype: Any, exact: bool = False, **_: Any
    ) -> Any:
        """Return an existing dataset; a missing one cannot be created.

        Parameters
        ----------
        name : str or bytes
            A name or a path.
        shape, dtype : tuple of int, dtype-like
            What it has, or h5py's conversion could make of it.
        exact : bool
            Its dtype must be this one. Default False.

        Raises
        ------
        TypeError
            It is something else, or has another shape or dtype.
        ReadOnlyError
            There is no such dataset.
        """
        found = self._required(name, CLASSES["dataset"], "require_dataset")
        wanted, extents = np.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape)
        if extents != found.shape:
            raise TypeError(f"Shapes do not match (existing {found.shape} vs new {extents})")
        fits = found.dtype == wanted if exact else np.can_cast(wanted, found.dtype)
        if not fits:
            raise TypeError(f"Datatypes do not match (existing {found.dtype} vs new {wanted})")
        return found

    def _required(self, name: Any, kind: type[Any], what: str) -> Any:
        found = self.get(name)
        if found is None:
            raise refused(f"{what}({name!r})", repr(self))
        if not isinstance(found, kind):
            raise TypeError(f"Incompatible object ({type(found).__name__}) already exists")
        return found

    def visit(self, func: Callable[[Any], Any]) -> Any:
        """Call a function with the path of each object below, in the order of the names.

        Each object is visited once. Soft and external links are not followed.

        Parameters
        ----------
        func : callable
            Takes the path, relative to this group. What it returns, if not None, ends the visit.

        Returns
        -------
        object
            What the function returned last.
        """
        return self._visited(lambda name, offset, kind: func(text(name)))

    def visititems(self, func: Callable[[Any, Any], Any]) -> Any:
        """Call a function with the path and the object of each object below; see `visit`."""
        below = self._below_here()
        return self._visited(lambda path, *found: func(text(path), below(path, *found)))

    def _visited(self, func: Callable[[bytes, int, str], Any]) -> Any:
        self._handle.shared  # noqa: B018
        for found in objects_below(self._place):
            answer = func(*found)
            if answer is not None:
                return answer
        return None

    def _below_here(self) -> Callable[[bytes, int, str], Any]:
        """Return what makes the object of a path of links below, of its offset and its kind."""
        before = encoded(self.name or "/").rstrip(b"/") + b"/"
        handle, file = self._handle, self._place.file
        inside = handle.place(file, 0, "/").path[:-1]

        def below(path: bytes, offset: int, kind: str) -> Any:
            name = text(before + path)
            return handle.object(Place(file, offset, inside + shown(name)), name, kind)

        return below

    def visit_links(self, func: Callable[[Any], Any]) -> Any:
        """Call a function with the path of each link below, of all kinds; see `visit`."""
        return self.visititems_links(lambda name, _: func(name))

    def visititems_links(self, func: Callable[[Any, Any], Any]) -> Any:
        """Call a function with the path and the value of each link below; see `visit`."""
        from _multitables.parent.open.links import link

        self._handle.shared  # noqa: B018
        answers = (func(text(path), link(told)) for path, told, _ in links_below(self._place))
        return next((answer for answer in answers if answer is not None), None)

    def walk(self, pattern: str) -> Iterator[Any]:
        """Yield the objects whose paths match a pattern.

        Parameters
        ----------
        pattern : str
            A path with ``*``, ``?`` and ``[...]`` in its names, as `fnmatch` has them; ``**`` is
            any number of levels. Relative to this group, or from the root if it begins with a
            slash.

        Yields
        ------
        Group, Dataset or Datatype
            In the order of the names. Links are followed by names and by ``*``, but not by ``**``.
            Those that lead nowhere are left out.

        Examples
        --------
        >>> for signal in file.walk("/shots/*/signals/*"):  # doctest: +SKIP
        ...     print(signal.name, signal.shape)
        """
        from _multitables.tree import one_path

        pattern = one_path(pattern)
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        return (self.file if pattern.startswith("/") else self)._matching(parts)

    def _matching(self, parts: list[str]) -> Iterator[Any]:
        import fnmatch

        if not parts:
            yield self
        elif parts[:2] == ["**", "**"]:
            yield from self._matching(parts[1:])
        elif parts[0] == "**":
            below = (found for found in objects_below(self._place))
            made = self._below_here()
            groups = (made(*found) for found in below if found[2] == "group" or not parts[1:])
            for found in itertools.chain([self], groups):
                if isinstance(found, Group):
                    yield from found._matching(parts[1:])
                elif not parts[1:]:
                    yield found
        else:
            is_pattern = any(letter in parts[0] for letter in "*?[")
            names = fnmatch.filter(map(str, self), parts[0]) if is_pattern else [parts[0]]
            for found in map(self.get, sorted(names)):
                if isinstance(found, Group):
                    yield from found._matching(parts[1:])
                elif found is not None and not parts[1:]:
                    yield found

    def _ipython_key_completions_(self) -> list[Any]:
        """Return paths below, the nearest first."""
        self._handle.shared  # noqa: B018
        paths = itertools.islice(paths_below(self._place), COMPLETIONS)
        return [path for path in map(text, paths) if isinstance(path, str)]

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 group>"
        title = f'"{self.name}"' if self.name is not None else "(anonymous)"
        return f"<HDF5 group {title} ({len(self)} members)>"


if TYPE_CHECKING:

    class Member(Dataset, Group):  # type: ignore[misc]  # it stands for one or the other
        """The object of a name in a group: checkers allow what either of the two has.

        Methods return ``Member | Any``: then neither branch of an ``isinstance`` is unreachable.
        """
