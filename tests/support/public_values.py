"""References, saved indexes, states and cached pages that were changed, given to public calls.

Law
---
1. A variant is a number, as in `public_walk`; what is right to raise is said there.
2. A text is changed in its bytes, or one value of it becomes an odd one; a state is a value.
   Damage of the cache on disk is never an error: the server has the object.
3. Calls are made in a child, which prints a line for each variant.

The child: ``public_values.py KIND FOLDER NUMBER ...``.
"""

from __future__ import annotations

import contextlib
import copy
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
from damaged_files import Lines, child, limit_memory
from plain_server import plain_server
from public_walk import GOOD, is_right, variant

import multitables

ODD: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, 1.5, float("nan"), "", "x", "\0", [], {}, [0], [[]],
    {"a": 1},
]  # fmt: skip


def changed(value: Any, number: int) -> Any:
    """Return a copy of JSON's values with one of them changed, or left out."""
    if number == GOOD:
        return value
    random, value = np.random.default_rng(number), copy.deepcopy(value)
    places = list(_places(value)) or [({0: 0}, 0)]
    holder, key = places[random.integers(len(places))]
    if random.random() < 0.2:
        del holder[key]
    else:
        holder[key] = ODD[random.integers(len(ODD))]
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(items):
        yield value, key
        if isinstance(one, (dict, list)):
            yield from _places(one)


def _file(path: Path) -> None:
    with h5py.File(path, "w") as file:
        x = np.arange(120, dtype="<i4").reshape(24, 5)
        file.create_dataset("x", data=x, chunks=(4, 3), compression="gzip", shuffle=True)
        file["g/y"], file["h/y"], file["x"].attrs["units"] = np.arange(7.0), np.arange(3.0), "m"
        file["c/key"], file["c/value"] = np.arange(12) // 3, np.arange(12.0)


def _read(path: Path | str, **options: Any) -> None:
    with multitables.open(path, n_threads=1, cache_bytes=0, **options) as file:
        for name in ("x", "g/y"):
            file[name][:3], dict(file[name].attrs)
        list(file)


def references(folder: Path, numbers: Iterable[int]) -> Iterator[Callable[[], Any]]:
    """Yield what reads references, half of them changed in a value, half in their bytes."""
    good, path = folder / "good.json", folder / "some.json"
    multitables.index_file(folder / "x.h5", good, progress=False)
    text = good.read_bytes()
    for number in numbers:
        parsed = json.loads(text)
        if number % 2 and number != GOOD:
            path.write_bytes(variant(text, number))
        else:
            refs = parsed.get("refs", parsed)
            for key in refs if number % 4 else ():  # metadata of Zarr is JSON in JSON
                if isinstance(refs[key], str) and refs[key].startswith("{"):
                    refs[key] = json.dumps(changed(json.loads(refs[key]), number))
            path.write_text(json.dumps(parsed if number % 4 else changed(parsed, number)))
        yield lambda: _read(path)


def parquet(folder: Path, numbers: Iterable[int]) -> Iterator[Callable[[], Any]]:
    """Yield what reads references in Parquet, of which one file was changed."""
    references = folder / "good.parq"
    multitables.index_file(folder / "x.h5", references, progress=False)
    files = [path for path in sorted(references.rglob("*")) if path.is_file()]
    for number in numbers:
        path = files[number % len(files)]
        good = path.read_bytes()
        path.write_bytes(variant(good, number))
        yield lambda: _read(references)
        path.write_bytes(good)


def saved_index(folder: Path, numbers: Iterable[int]) -> Iterator[Callable[[], Any]]:
    """Yield what reads a file by its saved index, which was changed."""
    file = folder / "x.h5"
    index = Path(multitables.index_file(file, progress=False))
    good = index.read_bytes()

    def read() -> None:
        streamer = multitables.Streamer(file)
        with streamer, streamer.get_queue("/x", n_procs=1, remainder=True) as queue:
            for block in itertools.islice(iter(queue), 3):
                del block

    for number in numbers:
        made = folder / "made.index"
        made.write_bytes(variant(good, number))
        made.replace(index)
        yield read


def state(
    make: Callable[[multitables.Streamer], Any], folder: Path, numbers: Iterable[int]
) -> Iterator[Callable[[], Any]]:
    """Yield what resumes from a changed state."""
    with multitables.Streamer(folder / "x.h5") as streamer:
        with make(streamer) as loader:
            next(iter(loader))
            good = json.loads(json.dumps(loader.state_dict()))

        def resume(some: Any) -> None:
            with make(streamer) as loader:
                loader.load_state_dict(some)
                for one in itertools.islice(iter(loader), 2):
                    del one

        for number in numbers:
            yield lambda number=number: resume(changed(good, number))


def pages(folder: Path, numbers: Iterable[int]) -> Iterator[Callable[[], Any]]:
    """Yield what reads an object whose pages on disk were changed, and is right all the same."""
    kept = folder / "kept"
    options: dict[str, Any] = {"storage_options": {"cache_folder": str(kept)}}
    with plain_server(objects={"/x.h5": (folder / "x.h5").read_bytes()}) as server:
        name = f"{server.endpoint}/x.h5"
        with multitables.open(name, **options) as file:
            rows = file["x"][...]

        def read() -> None:
            _read(name, **options)
            with multitables.open(name, **options) as file:
                assert np.array_equal(file["x"][...], rows)

        for number in numbers:
            files = sorted(path for path in kept.iterdir() if path.stat().st_size)
            path = files[number % len(files)]
            path.write_bytes(variant(path.read_bytes(), number))
            yield read


#: Whose state it is.
LOADERS: dict[str, Callable[[multitables.Streamer], Any]] = {
    "batches": lambda of: of.get_batches("/x", 5, shuffle="full", seed=3, n_procs=1),
    "items": lambda of: of.get_collection("/*/y", seed=3, n_procs=1),
    "columns": lambda of: of.get_columns("/c", index="key", entries_per_block=4, n_procs=1),
}
KINDS: dict[str, Callable[[Path, Iterable[int]], Iterator[Callable[[], Any]]]] = {
    "references": references,
    "Parquet": parquet,
    "saved index": saved_index,
    "pages": pages,
    **{f"state of {name}": partial(state, make) for name, make in LOADERS.items()},
}


def value_leaks(kind: str, folder: Path, numbers: Iterable[int]) -> Iterator[str]:
    """Yield what is wrong with the calls on variants of a kind."""
    left = list(numbers)
    while left:
        with contextlib.closing(Lines(child(__file__, kind, folder, *left))) as lines:
            for line in lines:
                number, wrong = json.loads(line)
                left.remove(number)
                if wrong:
                    yield f"{kind} {number}: {wrong}"
        if left:
            yield f"{kind} {left.pop(0)}: it killed, or stopped, its process"


def main(kind: str, folder: Path, numbers: list[int]) -> None:
    """Print what is wrong with the calls on variants."""
    limit_memory()
    warnings.simplefilter("ignore")
    _file(folder / "x.h5")
    for number, call in zip(numbers, KINDS[kind](folder, numbers), strict=True):
        wrong = ""
        try:
            call()
        except Exception as error:
            if number == GOOD or not is_right(error):
                last = traceback.extract_tb(error.__traceback__)[-1]
                wrong = f"{type(error).__qualname__}: {str(error)[:150]} "
                wrong += f"({os.path.basename(last.filename)}:{last.lineno})"
        print(json.dumps([number, wrong]), flush=True)


if __name__ == "__main__":
    what, where, *chosen = sys.argv[1:]
    main(what, Path(where), [int(number) for number in chosen])
