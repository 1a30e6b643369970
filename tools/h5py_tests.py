"""Run h5py's own tests, and read all that they read through `multitables.open` as well.

Law
---
1. h5py's tests run as they are. What they read of a file is read a second time, of a copy that
   holds what was written up to then, and compared; nothing else of a test is looked at.
2. Differences are listed with the test that met them. Those of `KNOWN` are right, each for its
   reason; any other makes the program fail, and so does a test that fails only when its reads are
   compared, unless `DISTURBED` says why, and a run that compared nothing.
3. What cannot be compared is counted: objects without a name, references to regions as indexes,
   links to files that the test still writes, which we refuse to open.

Usage: ``python tools/h5py_tests.py [MODULE ...]``, of ``h5py.tests``. It ends with 1 when it fails.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 - filters that tests may ask for
import numpy as np
import pytest
from h5py._hl import dataset as _dataset

import multitables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from handle_oracle import Both  # type: ignore[import-not-found]  # of the tests

MODULES = (
    "test_dataset_getitem", "test_slicing", "test_dataset", "test_vds", "test_attrs",
    "test_attrs_data", "test_attribute_create", "test_group", "test_dimension_scales",
    "test_dims_dimensionproxy", "test_dtype", "test_datatype", "test_big_endian_file",
    "test_file", "test_file2", "test_selections", "test_native_complex", "test_npystrings",
    "test_filters", "test_completions", "test_h5t", "test_objects", "test_base",
)  # fmt: skip
PROPERTIES = {
    h5py.Dataset: (
        "shape", "dtype", "ndim", "size", "nbytes", "chunks", "maxshape", "compression",
        "compression_opts", "shuffle", "fletcher32", "scaleoffset", "fillvalue", "is_virtual",
        "external", "is_scale",
    ),
    h5py.Datatype: ("dtype",),
    h5py.Group: (),
}  # fmt: skip
METHODS = {
    h5py.Dataset: ("__getitem__", "__len__", "len", "__iter__", "__array__", "__repr__",
                   "virtual_sources", "read_direct", "iter_chunks"),
    h5py.Group: ("__getitem__", "get", "__contains__", "__iter__", "__reversed__", "__len__",
                 "__repr__"),
    h5py.AttributeManager: ("__getitem__", "__contains__", "__iter__", "__len__"),
    h5py.Datatype: ("__repr__",),
}  # fmt: skip
#: What differs rightly: the kind of difference, what its line has in it, and why.
KNOWN = (
    ("only h5py fails", "Indexing elements must be in increasing order", "indexes in any order"),
    ("only h5py fails", "Step must be >= 1", "steps backwards"),
    ("only h5py fails", "Changing external links access mode", "there is no such mode here"),
    ("another exception", "a mask does not fit along axis", "IndexError, as NumPy"),
    ("only we fail", "test_contents_efile_prefix", "the prefix is h5py's argument, not the file's"),
    ("other results", "TestBitfield::test_b8_bool", "truth values of PyTables are bool here"),
    ("other results", "test_virtual_prefix", "the prefix is h5py's argument, not the file's"),
)  # fmt: skip
#: Tests that fail because their reads are compared, and why.
DISTURBED = {
    "test_file.py::TestModes::test_mode_external": "opens a linked file once, in one mode",
    "test_file2.py::TestFileObj::test_exception_read": "its file object fails when it is read",
    "test_file2.py::TestFileObj::test_method_vanish": "its file object loses its methods",
}
#: What makes a view of a dataset; what a view is asked is compared.
VIEWS = ("asstr", "astype", "fields")
MAX_BYTES = 64 << 20
MAX_ROWS = 1000  # of what is iterated


class NotComparedError(Exception):
    """Its text says why."""


class Copy(Both):  # type: ignore[misc]  # of which mypy knows nothing
    """A file as it was, for us; and h5py's."""

    def __init__(self, path: Path) -> None:
        self.path, self.has_bools = path, False
        self.ours = multitables.open(path)


class Comparison:
    """Patches h5py, and keeps what was different."""

    def __init__(self) -> None:
        self.test = ""
        self.counts: collections.Counter[str] = collections.Counter()
        self.differences: dict[str, list[str]] = collections.defaultdict(list)
        self._inside = threading.local()
        self._copies: dict[str, tuple[tuple[bytes, int], Copy]] = {}

    def patch(self) -> None:
        """Have h5py's classes compare what they read."""
        for kind, names in METHODS.items():
            for name in names:
                setattr(kind, name, self._method(getattr(kind, name), name))
        for kind, names in PROPERTIES.items():
            for name in names:
                setattr(kind, name, self._property(vars(kind)[name], name))
        for name in ("visit", "visititems", "visit_links", "visititems_links"):
            setattr(h5py.Group, name, self._alone(getattr(h5py.Group, name)))
        for name in VIEWS:
            setattr(h5py.Dataset, name, _noted(getattr(h5py.Dataset, name), name))
        for kind in (_dataset.AsStrView, _dataset.AsTypeView, _dataset.FieldsView):
            for name in ("__getitem__", "__array__", "__len__"):
                setattr(kind, name, self._method(getattr(kind, name), name))

    def _method(self, theirs: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(theirs)
        def both(thing: Any, *args: Any, **options: Any) -> Any:
            return self._both(thing, name, theirs, args, options)

        return both

    def _alone(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        """Compare nothing that is read meanwhile: HDF5 cannot copy the file inside a visit."""

        @functools.wraps(theirs)
        def visit(group: Any, func: Any) -> Any:
            before, self._inside.depth = getattr(self._inside, "depth", 0), 1
            try:
                return theirs(group, func)
            finally:
                self._inside.depth = before

        return visit

    def _property(self, theirs: Any, name: str) -> Any:
        def both(thing: Any) -> Any:
            return self._both(thing, name, lambda one: theirs.__get__(one, type(one)), None, {})

        return property(both, getattr(theirs, "fset", None))

    def _both(self, thing: Any, name: str, theirs: Any, args: Any, options: Any) -> Any:
        if getattr(self._inside, "depth", 0):
            return theirs(thing, *(args or ()), **options)
        self._inside.depth = 1
        try:
            filled = _kept(name, args or ())
            want, failure = _outcome(functools.partial(theirs, thing, *filled, **options), name)
            self._compare(
                thing, name, None if args is None else filled, args or (), options, want, failure
            )
            return theirs(thing, *(args or ()), **options)
        finally:
            for _, copy in self._copies.values():
                copy.theirs = None  # what HDF5 has open for us, a test would count
            self._inside.depth = 0

    def _compare(
        self, thing: Any, name: str, filled: Any, args: Any, options: Any, want: Any, failure: Any
    ) -> None:
        what = f"{type(thing).__name__}.{name} {_short(args)}"
        try:
            copy, ours = self._ours(thing)
            mine = [_translated(one, thing, copy) for one in _kept(name, args)]
        except NotComparedError as reason:
            self.counts[f"not compared: {reason}"] += 1
            return
        if filled is None:
            question = functools.partial(getattr, ours, name)
        else:
            question = functools.partial(_asked, ours, name, mine, options)
        got, error = _outcome(question, name)
        if isinstance(error, multitables.FileOpenError) and "open for writing" in str(error):
            self.counts["not compared: a link to a file that is written"] += 1
            return
        self.counts["compared"] += 1
        if failure and error:
            if not isinstance(error, type(failure)):
                self._note("another exception", what, f"{error!r}, h5py: {failure!r}")
        elif failure:
            self._note("only h5py fails", what, f"{_short(got)}, h5py: {failure!r}")
        elif error:
            self._note("only we fail", what, repr(error))
        else:
            try:
                self._same(copy, got, want, name, mine, filled)
            except AssertionError as difference:
                self._note("other results", what, str(difference))

    def _same(self, copy: Copy, got: Any, want: Any, name: str, mine: Any, args: Any) -> None:
        if name == "read_direct":
            copy.array(np.asarray(mine[0]), np.asarray(args[0]))
            return
        if isinstance(want, h5py.Dataset | h5py.Group | h5py.Datatype):
            assert type(got).__name__ == type(want).__name__
            assert got.name == want.name
        elif isinstance(want, list):
            assert isinstance(got, list)
            assert len(got) == len(want), f"got {_short(got)}, expected {_short(want)}"
            for one, other in zip(got, want, strict=True):
                self._same(copy, one, other, "", (), ())
        elif hasattr(want, "vspace"):
            assert got[1:3] == want[1:3], f"got {got}, expected {want}"
        elif isinstance(want, type) or type(want).__name__.endswith("Link"):
            ours, theirs = (getattr(one, "__name__", type(one).__name__) for one in (got, want))
            assert ours == theirs, f"got {ours}, expected {theirs}"
        elif isinstance(want, np.dtype):
            assert got == want
        else:
            copy.same(got, want)

    def _note(self, kind: str, what: str, text: str) -> None:
        line = f"{self.test}: {what}: {' '.join(text.split())[:300]}"
        if line not in self.differences[kind]:
            self.differences[kind].append(line)

    def _ours(self, thing: Any) -> tuple[Copy, Any]:
        """Return a copy of the file and what stands for h5py's object in it."""
        dataset = getattr(thing, "_dset", thing)
        if not dataset:
            raise NotComparedError("closed")
        oid = getattr(dataset, "_id", None) or dataset.id
        name = h5py.h5i.get_name(oid)
        if name is None:
            raise NotComparedError("no name")
        copy = self._copy(h5py.h5i.get_file_id(oid))
        found = copy.ours[name]
        copy.theirs = h5py.File(h5py.h5i.get_file_id(oid))
        if isinstance(thing, h5py.AttributeManager):
            return copy, found.attrs
        if dataset is not thing:
            view, args, options = thing.made_by
            return copy, getattr(found, view)(*args, **options)
        return copy, found

    def _copy(self, file: Any) -> Copy:
        if file.get_intent() & h5py.h5f.ACC_RDWR:
            h5py.h5f.flush(file)
        name = os.fsdecode(h5py.h5f.get_name(file))
        try:
            image = file.get_file_image()
        except (OSError, ValueError, RuntimeError):
            raise NotComparedError("no image of the file") from None
        if len(image) > MAX_BYTES:
            raise NotComparedError("a large file")
        folder = os.path.dirname(os.path.abspath(name))
        folder = folder if os.path.isdir(folder) else tempfile.gettempdir()
        digest = hashlib.blake2b(image).digest()
        known = self._copies.get(name)
        if known is None or known[0] != (digest, os.stat(folder).st_mtime_ns):
            if known is not None:
                self._forget(known[1])
            number, path = tempfile.mkstemp(".copy", os.path.basename(name)[:40], folder)
            with os.fdopen(number, "wb") as out:
                out.write(image)
            known = (digest, os.stat(folder).st_mtime_ns), Copy(Path(path))
            self._copies[name] = known
        return known[1]

    def forget(self) -> None:
        """Close and remove the copies."""
        for _, copy in self._copies.values():
            self._forget(copy)
        self._copies.clear()

    def _forget(self, copy: Copy) -> None:
        copy.ours.close()
        copy.path.unlink(missing_ok=True)

    def wrong(self) -> int:
        """Print what is different; returns how much of that is not known."""
        wrong = 0
        for kind, lines in self.differences.items():
            print(f"\n{kind}: {len(lines)}")
            for line in lines:
                reasons = [why for of, text, why in KNOWN if of == kind and text in line]
                wrong += not reasons
                print(f"  known ({reasons[0]}): {line}" if reasons else f"  WRONG: {line}")
        return wrong

    # ---- what pytest calls

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Name the test whose reads are compared."""
        self.test = item.nodeid.rpartition("/")[2]
        try:
            return (yield)
        finally:
            self.forget()


def _noted(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(dataset: Any, *args: Any, **options: Any) -> Any:
        view = make(dataset, *args, **options)
        view.made_by = name, args, options
        return view

    return made


def _kept(name: str, args: Any) -> Any:
    """Return arguments of which an array that is filled is a copy."""
    if name == "read_direct" and args and isinstance(args[0], np.ndarray):
        return (args[0].copy(), *args[1:])
    return args


def _outcome(question: Callable[[], Any], name: str) -> tuple[Any, Any]:
    """Return an answer, or what was raised."""
    try:
        answer = question()
        if name in ("__iter__", "__reversed__", "iter_chunks"):
            answer = [one for one, _ in zip(answer, range(MAX_ROWS), strict=False)]
        return answer, None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return None, error


def _asked(ours: Any, name: str, args: Any, options: Any) -> Any:
    return getattr(type(ours), name)(ours, *args, **options)


def _translated(one: Any, thing: Any, copy: Copy) -> Any:
    if isinstance(one, h5py.RegionReference):
        raise NotComparedError("a reference to a region")
    if isinstance(one, h5py.Reference):
        if not one:
            return multitables.Reference(0)
        name = copy.theirs[one].name
        if name is None:
            raise NotComparedError("no name")
        return copy.ours[name].ref
    return one


def _short(value: object) -> str:
    return " ".join(repr(value).split())[:150]


class Failures:
    """The tests of a run that failed, by their names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure of any phase."""
        if report.failed:
            self.names.add(report.nodeid.rpartition("/")[2])


def run_tests(modules: list[str], *plugins: object) -> set[str]:
    """Run the tests of modules; returns which failed."""
    folder = Path(h5py.__file__).parent / "tests"
    paths = [folder / name for name in modules or MODULES]
    files = [str(path if path.is_dir() else path.with_suffix(".py")) for path in paths]
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder)]
    failures = Failures()
    ended = pytest.main(
        [*options, "--tb=no", "--no-summary", "-W", "ignore", *files], plugins=[failures, *plugins]
    )
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"h5py's tests did not run: {ended!r}")
    return failures.names


def main(modules: list[str]) -> int:
    """Run the tests alone and compared, and print what is different; returns the exit status."""
    alone = run_tests(modules)
    comparison = Comparison()
    comparison.patch()
    broken = run_tests(modules, comparison) - alone
    wrong = comparison.wrong()
    for name in sorted(broken):
        reason = DISTURBED.get(name)
        wrong += reason is None
        print(f"{name} fails: {reason or 'WRONG: only when its reads are compared'}")
    print(f"\n{dict(comparison.counts)}, {len(alone)} tests fail alone, too; {wrong} wrong")
    return int(wrong > 0 or not comparison.counts["compared"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
