"""Every public call on damaged files: what comes out that is no error of the library.

Law
---
1. What is called is found by looking: each public name of each object that calls lead to. A method
   that takes arguments has them in `ARGUMENTS`; one without an entry there is a fault.
2. An error is right if it is one of the library's, or a builtin one that the library raises itself
   (a `raise` of its code), such as a TypeError for a type that NumPy lacks.
3. A variant of a file is a number, from which follows what is damaged; `GOOD` is the file as it is.
   A child with little memory calls, and prints a line for each variant: one that kills it is known.

The child: ``public_walk.py FILE FOLDER READERS NUMBER ...``.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from damaged_files import LAYOUTS, Lines, child, limit_memory

import multitables

#: What is read whole is not longer than this.
LARGE_BYTES = 1 << 20
BUILTIN = (TypeError, ValueError, KeyError, IndexError)
#: Names that are not called: they end what is looked at, or start what `streams` starts.
PASSED_OVER = {"close", "batches", "source", "stream", "streamer"}
_NOTHING: tuple[Any, ...] = ()
#: Name of a method -> what it is called with, each time.
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "asstr": [_NOTHING],
    "chunk_iter": [(lambda _: None,)],
    "clips": [(2,), (1000,)],
    "fields": [("a",), (["a", "b"],)],
    "get": [("x",), ("g/x",)],
    "equal": [(None,)],
    "get_chunk_info": [(0,), (99,)],
    "get_chunk_info_by_coord": [((0,),), ((4, 3),)],
    "get_fill_value": [(np.zeros((), object),)],
    "get_filter": [(0,), (9,)],
    "get_filter_by_id": [(1,), (9,)],
    "get_id": [("text",), ("none",)],
    "get_member_index": [(b"a",)],
    "get_member_name": [(0,), (9,)],
    "get_member_offset": [(0,), (9,)],
    "get_member_type": [(0,), (9,)],
    "iter_chunks": [_NOTHING],
    "patches": [((2, 2),), ((None, 4), 3), (1000,)],
    "read": [(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros((12, 5), object))],
    "read_direct_chunk": [((0,),), ((4, 3),)],
    "require_dataset": [("x", (12, 5), "<i4"), ("none", (1,), "f8")],
    "require_group": [("g",), ("none",)],
    "visit": [(lambda _: None,)],
    "visititems": [(lambda *_: None,)],
    "visit_links": [(lambda _: None,)],
    "visititems_links": [(lambda *_: None,)],
    "walk": [("**",), ("*/*",)],
}


def objects(path: Path, libver: str) -> None:
    """An object of every kind, links, attributes of many types, and scales."""
    compound = np.dtype([("a", "<i2"), ("b", "S3"), ("c", "<f8", 2)])
    with h5py.File(path, "w", libver=libver) as file:
        rows = np.arange(60, dtype="<i4").reshape(12, 5)
        x = file.create_dataset("x", data=rows, chunks=(4, 3), compression="gzip", fletcher32=True)
        file["t"] = compound
        file.create_dataset("table", data=np.zeros(9, compound), dtype=file["t"], chunks=(4,))
        file["text"] = ["a", "bb", ""]
        ragged = file.create_dataset("ragged", (3,), h5py.vlen_dtype("<i4"))
        ragged[1] = np.arange(3)
        file["scalar"], file["null"] = 5.0, h5py.Empty("f4")
        file["enum"] = np.zeros(3, h5py.enum_dtype({"A": 1, "B": 2}, "i2"))
        file.create_dataset("references", data=[x.ref, file["t"].ref], dtype=h5py.ref_dtype)
        file.create_dataset("regions", data=[x.regionref[2:4]], dtype=h5py.regionref_dtype)
        for name, length in (("rows", 12), ("columns", 5)):
            file[f"scales/{name}"] = np.arange(length)
            file[f"scales/{name}"].make_scale(name)
        for axis, name in enumerate(("rows", "columns")):
            x.dims[axis].label = f"label {name}"
            x.dims[axis].attach_scale(file[f"scales/{name}"])
        for name, value in {
            "number": 5, "text": "text", "bytes": np.bytes_(b"abc"), "array": np.arange(4.0),
            "texts": ["a", "b"], "compound": np.zeros(2, compound), "reference": x.ref,
            "region": x.regionref[1:3], "empty": h5py.Empty("S5"), "bool": True,
        }.items():  # fmt: skip
            x.attrs[name] = value
        file["g/x"], file["g/soft"] = rows, h5py.SoftLink("/x")
        file["g/out"] = h5py.ExternalLink("missing.h5", "/x")
        file["c/key"], file["c/value"] = np.arange(12) // 3, np.arange(12.0)


FILES: dict[str, Callable[[Path], None]] = {
    **LAYOUTS,
    "objects earliest": partial(objects, libver="earliest"),
    "objects latest": partial(objects, libver="latest"),
}
GOOD = -1


def variant(good: bytes, number: int) -> bytes:
    """The file with bytes changed in one place or two, or cut short."""
    if number == GOOD:
        return good
    random, data = np.random.default_rng(number), bytearray(good)
    if random.random() < 0.1:
        return good[: random.integers(len(good))]
    for _ in range(random.integers(1, 3)):
        at, size = random.integers(len(good)), random.choice([1, 1, 2, 4, 8])
        value = random.choice([0, 1, 2, 3, 9, 0x20, 0x7F, 0x80, 0xFF])
        data[at : at + size] = (
            bytes([value]) * size if random.random() < 0.7 else random.bytes(size)
        )
    return bytes(data[: len(good)])


def names_of(path: Path) -> list[str]:
    """Names of all objects, as long as the file is good."""
    found: list[str] = ["/"]
    with h5py.File(path) as file:
        file.visit(lambda name: found.append(f"/{name}"))
    return found


class Walk:
    """Calls on one file, and what they raise that is wrong."""

    def __init__(self, path: Path, names: Iterable[str]) -> None:
        self._path, self._names = path, list(names)
        #: Call, type and text.
        self.wrong: list[str] = []
        self._seen: set[str] = set()

    def _done(self, what: str, call: Callable[[], Any]) -> Any:
        """What a call gives, None if it raises."""
        try:
            return call()
        except BaseException as error:
            if not is_right(error):
                last = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{Path(last.filename).name}:{last.lineno}"
                kind = f"{type(error).__module__}.{type(error).__qualname__}"
                self.wrong.append(f"{what}: {kind}: {str(error)[:150]} ({at})")
            if not isinstance(error, Exception):
                raise
            return None

    def opened(self) -> None:
        """`open`, and everything that it leads to."""
        file = self._done("open", lambda: multitables.open(self._path, n_threads=1, cache_bytes=0))
        if file is None:
            return
        with file:
            listed = self._done("list(/)", lambda: list(file)) or []
            for name in dict.fromkeys([*self._names, *(f"/{one}" for one in listed)]):
                found = self._done(f"file[{name!r}]", lambda name=name: file[name])
                self._done(f"{name!r} in file", lambda name=name: name in file)
                link = lambda name=name: file.get(name, getlink=True)  # noqa: E731
                self._done(f"get({name!r})", link)
                if found is not None:
                    self._object(name, found)

    def _object(self, name: str, found: Any) -> None:
        self._public(name, found)
        if isinstance(found, multitables.Group):
            self._mapping(name, found)
        if isinstance(found, multitables.Dataset):
            self._read(name, found)
            stored = self._done(f"{name}.id", lambda: found.id)
            if stored is not None:
                self._public(f"{name}.id", stored)
                for which in ("get_create_plist", "get_space", "get_type"):
                    said = self._done(f"{name}.id.{which}", getattr(stored, which))
                    if said is not None:
                        self._public(f"{name}.id.{which}()", said)
        attributes = self._done(f"{name}.attrs", lambda: found.attrs)
        self._mapping(f"{name}.attrs", attributes)
        for attribute in self._done(f"list({name}.attrs)", lambda: list(attributes)) or ():
            one = lambda attribute=attribute: attributes[attribute]  # noqa: E731
            self._done(f"{name}.attrs[{attribute!r}]", one)
            dtype = lambda attribute=attribute: attributes.dtype(attribute)  # noqa: E731
            self._done(f"{name}.attrs.dtype({attribute!r})", dtype)

    def _public(self, name: str, found: Any) -> None:
        """All public names of an object."""
        self._done(f"repr({name})", lambda: (repr(found), bool(found), hash(found)))
        for one in dir(type(found)):
            if one.startswith("_") or one in PASSED_OVER:
                continue
            got = self._done(f"{name}.{one}", lambda one=one: getattr(found, one))
            if not callable(got):
                continue
            arguments = ARGUMENTS.get(one) or self._no_arguments(one, got)
            if one == "astype":
                arguments = [(self._done(f"{name}.dtype", lambda: found.dtype),)]
            for given in arguments:
                call = lambda got=got, given=given: self._all(got(*given))  # noqa: E731
                self._done(f"{name}.{one}{given}", call)

    def _no_arguments(self, name: str, method: Any) -> list[tuple[Any, ...]]:
        needed = [
            one for one in inspect.signature(method).parameters.values()
            if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
        ]  # fmt: skip
        if needed and name not in ("read_direct", "astype"):
            self.wrong.append(f"no arguments for {name}")
        return [] if needed else [_NOTHING]

    def _all(self, found: Any) -> Any:
        """What a view or an iterator has."""
        if hasattr(found, "dtype") and not isinstance(found, (np.ndarray, np.generic, np.dtype)):
            repr(found)
            return found[()] if self._is_small(found) else None
        return list(itertools.islice(found, 99)) if isinstance(found, Iterable) else found

    def _mapping(self, name: str, found: Any) -> None:
        names = ("keys", "values", "items", "__iter__", "__reversed__", "__len__", "__repr__")
        for one in (one for one in names if hasattr(found, one)):
            call = lambda one=one: self._listed(getattr(found, one)())  # noqa: E731
            self._done(f"{name}.{one}()", call)

    def _listed(self, found: Any) -> None:
        repr(found)
        if isinstance(found, Iterable):
            list(found)

    def _read(self, name: str, found: Any) -> None:
        keys: list[Any] = [_NOTHING, 0, -1, slice(1, 3), ..., slice(None, None, 2), [0, 1], "a"]
        for key in keys if self._is_small(found) else keys[1:4]:
            self._done(f"{name}[{key!r}]", lambda key=key: found[key])
        if not self._is_small(found):
            return
        self._done(f"iter({name})", lambda: list(found))
        self._done(f"array({name})", lambda: np.asarray(found))
        into = self._done(f"empty({name})", lambda: np.empty(found.shape or (), found.dtype))
        self._done(f"{name}.read_direct", lambda: found.read_direct(into))
        for axis in self._done(f"list({name}.dims)", lambda: list(found.dims)) or ():
            self._mapping(f"{name}.dims", axis)
            for what in ("label", "__iter__", "__hash__"):
                self._done(f"{name}.dims.{what}", lambda axis=axis, what=what: getattr(axis, what))
            self._done(f"{name}.dims[0]", lambda axis=axis: len(axis) and axis[0])

    def _is_small(self, found: Any) -> bool:
        try:
            return bool(found.dtype.itemsize * (found.size or 0) <= LARGE_BYTES)
        except Exception:  # which `_public` has met
            return False

    def files(self) -> None:
        """Calls on a file as a whole, in this process."""
        path = self._path
        index, references = path.with_suffix(".i"), path.with_suffix(".json")
        self._done("index_file", lambda: multitables.index_file(path, index, progress=False))
        call = lambda: multitables.index_file(  # noqa: E731
            path, references, progress=False, skip_unsupported=True
        )
        self._done("index_file of references", call)
        self._done("versions", lambda: dict(multitables.versions(path)))
        for name in self._names:
            self._done(f"read({name})", lambda name=name: self._small_read(name))

    def _small_read(self, name: str) -> Any:
        return multitables.read(self._path, name, np.s_[:1])

    def streams(self, streamer: multitables.Streamer, reader: multitables.Reader) -> None:
        """Calls that readers answer."""
        for name in self._names:
            for what, start in {
                "get_queue": lambda name: streamer.get_queue(name, n_procs=1, remainder=True),
                "get_generator": lambda name: streamer.get_generator(name, 1),
                "get_remainder": lambda name: streamer.get_remainder(name, 5),
                "get_batches": lambda name: streamer.get_batches(name, 4, n_procs=1),
            }.items():
                call = lambda name=name, start=start: self._some(start(name))  # noqa: E731
                self._done(f"{what}({name})", call)
            self._done(f"request({name})", lambda name=name: self._requested(reader, name))
        for pattern in ("/*", "/g/*"):
            collection = lambda pattern=pattern: self._some(  # noqa: E731
                streamer.get_collection(pattern, n_procs=1, scales=True)
            )
            self._done(f"get_collection({pattern})", collection)
        columns = lambda: self._some(streamer.get_columns("/c", index="key"))  # noqa: E731
        self._done("get_columns", columns)

    def _requested(self, reader: multitables.Reader, name: str) -> None:
        whole = reader.get_dataset(name)
        repr(whole)
        reader.request(whole[0:1]).get()

    def _some(self, found: Any) -> None:
        """Look at a stream, and at its first blocks."""
        if isinstance(found, Iterator):
            list(itertools.islice(found, 4))
            return
        if not hasattr(found, "__exit__"):
            repr(found)
            return
        with found:
            repr(found)
            for block in itertools.islice(iter(found), 4):
                del block


def is_right(error: BaseException) -> bool:
    """Whether it is an error of the library, or a builtin one that the library raises."""
    if isinstance(error, multitables.MultitablesError):
        return getattr(multitables, type(error).__name__, None) is type(error) or (
            isinstance(error, multitables.SubprocessException)
        )
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = "/_multitables/" in last.filename and (last.line or "").startswith("raise")
    return type(error) in BUILTIN and is_ours


def walked(path: Path, names: Iterable[str], readers: Any = None) -> list[str]:
    """What is wrong with the public calls on a file; with a `Streamer` and a `Reader`, of all."""
    walk = Walk(path, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        walk.opened()
        walk.files()
        if readers is not None:
            walk.streams(*readers)
    return walk.wrong


def leaks(name: str, folder: Path, numbers: Iterable[int], *, readers: bool) -> Iterator[str]:
    """Yield what is wrong with the calls on variants of a file; `readers`: of streams, too."""
    good, left = folder / "good.h5", list(numbers)
    FILES[name](good)
    while left:
        with contextlib.closing(Lines(child(__file__, good, folder, int(readers), *left))) as lines:
            for line in lines:
                number, wrong = json.loads(line)
                left.remove(number)
                yield from (f"{name} {number}: {one}" for one in wrong)
        if left:
            yield f"{name} {left.pop(0)}: it killed, or stopped, its process"


def main(good_file: Path, folder: Path, readers: bool, numbers: list[int]) -> None:
    """Print what is wrong with the calls on variants."""
    limit_memory()
    names, good = names_of(good_file), good_file.read_bytes()
    path, made = folder / "damaged.h5", folder / "made.h5"
    path.write_bytes(good)
    with contextlib.ExitStack() as stack:
        both: Any = None
        if readers:
            opened = (multitables.Streamer(path), multitables.Reader(path, n_procs=1))
            both = tuple(map(stack.enter_context, opened))
        for number in numbers:
            made.write_bytes(variant(good, number))
            os.utime(made, ns=(number + 2, number + 2))  # so that each is known to be another one
            made.replace(path)
            print(json.dumps([number, walked(path, names, both)]), flush=True)


if __name__ == "__main__":
    file, where, uses, *chosen = sys.argv[1:]
    main(Path(file), Path(where), bool(int(uses)), [int(number) for number in chosen])
