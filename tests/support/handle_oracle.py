"""A file through h5py and through `multitables.open`, compared object by object.

Law
---
1. The oracle is h5py: structure, links, types, attributes and values are what it tells.
2. An error of h5py is an error of ours, and the other way round: but for what has no dtype for
   h5py alone, which `test_types_numpy_lacks` compares.
4. Bitfields of PyTables' datasets are bool here and uint8 there, with the same bytes.
3. References are compared by what they refer to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from oracle import same

import multitables
from _multitables.elements.empty import Empty
from _multitables.index.types.references import Reference, RegionReference

#: Of a dataset, what is compared beside its values.
PROPERTIES = (
    "shape", "ndim", "size", "nbytes", "chunks", "maxshape", "compression", "compression_opts",
    "shuffle", "fletcher32", "scaleoffset", "is_virtual", "name",
)  # fmt: skip
FAILED = object()
PYTABLES_CLASSES = {kind.encode() for kind in ("TABLE", "ARRAY", "CARRAY", "EARRAY", "VLARRAY")}


def same_dtype(got: np.dtype, want: np.dtype) -> None:
    """Fail unless both are the same dtype, h5py's metadata included."""
    assert got == want, f"dtype: got {got}, expected {want}"
    ours, theirs = dict(got.metadata or {}), dict(want.metadata or {})
    assert ours.keys() == theirs.keys(), f"metadata: got {ours}, expected {theirs}"
    own = {h5py.Reference: Reference, h5py.RegionReference: RegionReference}
    for key, value in ours.items():
        if isinstance(value, np.dtype):
            same_dtype(value, theirs[key])
        else:
            other = theirs[key]
            assert value == (own.get(other, other) if key == "ref" else other)
    if got.subdtype:
        same_dtype(got.base, want.base)
    for name in got.names or ():
        same_dtype(got[name], want[name])


def with_bools(theirs: np.dtype, ours: np.dtype) -> np.dtype:
    """h5py's dtype with bool where ours has it, for bytes of PyTables' bitfields."""
    if ours == np.bool_ and theirs == np.uint8:
        return ours
    if theirs.subdtype and ours.subdtype:
        return np.dtype((with_bools(theirs.base, ours.base), theirs.shape))
    if theirs.names is None or theirs.names != ours.names or theirs.fields is None:
        return theirs
    names = list(theirs.names)
    formats = [with_bools(theirs[name], ours[name]) for name in names]
    offsets = [theirs.fields[name][1] for name in names]
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": theirs.itemsize}
    )


class Both:
    """A file that is open in both ways; a context manager."""

    def __init__(self, path: Path) -> None:
        #: The dataset in hand is one of PyTables'.
        self.has_bools = False
        self.theirs = h5py.File(path, "r")
        self.ours = multitables.open(path)

    def __enter__(self) -> Both:
        return self

    def __exit__(self, *_: object) -> None:
        self.theirs.close()
        self.ours.close()

    def everything(self) -> None:
        """Compare all there is in the file."""
        self.object(self.ours, self.theirs)
        names: list[Any] = []
        theirs: list[Any] = []
        self.ours.visit_links(names.append)
        self.theirs.visit_links(theirs.append)
        assert names == theirs
        for name in names:
            try:
                self.link(name)
            except AssertionError as error:
                raise AssertionError(f"{name!r}: {error}") from error

    def link(self, name: Any) -> None:
        """Compare a link, and what it leads to."""
        ours, theirs = self.ours.get(name, getlink=True), self.theirs.get(name, getlink=True)
        assert type(ours).__name__ == type(theirs).__name__
        for part in ("path", "filename"):
            assert getattr(ours, part, None) == getattr(theirs, part, None)
        assert name in self.ours
        mine, other = tried(lambda: self.ours[name]), tried(lambda: self.theirs[name])
        assert (mine is FAILED) == (other is FAILED), f"got {mine}, expected {other}"
        if mine is not FAILED:
            self.object(mine, other)

    def object(self, ours: Any, theirs: Any) -> None:
        """Compare an object with its attributes, and a dataset with its values."""
        assert type(ours).__name__ == type(theirs).__name__
        assert ours.name == theirs.name
        assert list(ours.attrs) == list(theirs.attrs)
        for name in theirs.attrs:
            self.read(lambda name=name: ours.attrs[name], lambda name=name: theirs.attrs[name])
        if isinstance(theirs, h5py.Group):
            assert list(ours) == list(theirs)
            assert len(ours) == len(theirs)
            assert repr(ours) == repr(theirs)
        elif isinstance(theirs, h5py.Datatype):
            self.dtype(ours, theirs)
        else:
            self.dataset(ours, theirs)

    def dtype(self, ours: Any, theirs: Any) -> None:
        """Compare the dtype of an object; whether it has one."""
        other = tried(lambda: theirs.dtype)
        if other is not FAILED:
            mine = ours.dtype
            same_dtype(mine, with_bools(other, mine) if self.has_bools else other)

    def dataset(self, ours: Any, theirs: Any) -> None:
        """Compare a dataset and its values."""
        self.has_bools = theirs.attrs.get("CLASS") in PYTABLES_CLASSES
        try:
            self.values(ours, theirs)
        finally:
            self.has_bools = False

    def values(self, ours: Any, theirs: Any) -> None:
        self.dtype(ours, theirs)
        if tried(lambda: theirs.dtype) is FAILED:
            return
        for part in PROPERTIES:
            mine = tried(lambda part=part: getattr(ours, part))
            other = tried(lambda part=part: getattr(theirs, part))
            assert mine == other, f"{part}: got {mine}, expected {other}"
        want = tried(lambda: theirs.fillvalue)  # which h5py does not have of all types
        if want is not FAILED:
            self.same(ours.fillvalue, want)
        self.read(lambda: ours[()], lambda: theirs[()])

    def read(self, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        """Compare what two ways of reading give, or that both fail."""
        want = tried(theirs)
        if want is FAILED:
            got = tried(ours)
            assert got is FAILED, f"got {got!r}, where h5py fails"
        else:
            self.same(ours(), want)

    def same(self, got: Any, want: Any) -> None:
        """Fail unless both are the same value."""
        if isinstance(want, h5py.Empty):
            assert isinstance(got, Empty), f"got {got!r}, expected {want!r}"
            same_dtype(got.dtype, want.dtype)
        elif isinstance(want, h5py.Reference):
            self.reference(got, want)
        elif isinstance(want, (np.ndarray, np.generic)):
            is_bool = self.has_bools and type(got) is np.bool_ and type(want) is np.uint8
            assert type(got) is type(want) or is_bool, f"got {type(got)}, expected {type(want)}"
            self.array(np.asarray(got), np.asarray(want))
        else:
            assert type(got) is type(want), f"got {type(got)}, expected {type(want)}"
            assert got == want, f"got {got!r}, expected {want!r}"

    def array(self, got: np.ndarray, want: np.ndarray) -> None:
        """Fail unless both are the same array, element by element."""
        if self.has_bools and not want.dtype.hasobject:
            want = want.view(with_bools(want.dtype, got.dtype))
        same_dtype(got.dtype, want.dtype)
        assert got.shape == want.shape, f"shape: got {got.shape}, expected {want.shape}"
        if not want.dtype.hasobject:
            same(got, want)
        elif want.dtype.names is not None:
            for name in want.dtype.names:
                self.array(got[name], want[name])
        else:
            for one, other in zip(got.flat, want.flat, strict=True):
                self.same(one, in_order(other, want.dtype))

    def reference(self, got: Any, want: Any) -> None:
        """Fail unless both refer to the same object, or to nothing."""
        is_region = isinstance(want, h5py.RegionReference)
        assert isinstance(got, RegionReference if is_region else Reference)
        assert bool(got) == bool(want)
        if want:
            mine, other = tried(lambda: self.ours[got].name), tried(lambda: self.theirs[want].name)
            assert mine == other


def in_order(sequence: Any, dtype: np.dtype) -> Any:
    """Mend what h5py gives for a sequence: it takes any byte order for the machine's."""
    base = (dtype.metadata or {}).get("vlen")
    if not isinstance(base, np.dtype) or base.kind not in "iufc" or base.isnative:
        return sequence
    return sequence.view(base).astype(sequence.dtype)


def tried(question: Callable[[], Any]) -> Any:
    """Ask, and return `FAILED` for an error."""
    try:
        return question()
    except (AssertionError, AttributeError):
        raise
    except Exception:
        return FAILED


def check(path: Path) -> None:
    """Compare everything in a file."""
    with Both(path) as both:
        both.everything()
