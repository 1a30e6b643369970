"""Each way of reading, over small files whose elements say what they are.

Law
---
1. A reading checks each element that comes, and at the end that all came, once and in order. It
   yields after each step, so that something may happen between any two.
2. It closes what it opened when its caller leaves it, and knows no fault.
3. Elements of stored chunks have checksums, so damage never passes for data.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import versioned
from plain_server import PlainServer

import multitables

ROWS, CHUNK = 1000, 50
ITEMS, KEYS = 20, 200
SUM = {"compression": "gzip", "fletcher32": True}
#: Rows of the versions that are read, at the first axis.
VERSIONS = ["r0", "r1", "r2"]


# ---- files


def ragged_row(number: int) -> np.ndarray:
    """Elements of a ragged row; every seventh has none."""
    return np.arange(number % 7, dtype="<i4") + 10 * number


def key_rows(key: int) -> np.ndarray:
    """The values of a key in a column."""
    return np.arange(key % 4, dtype="<i4") + 10 * key


def _numbered(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, chunk in (("rows", CHUNK), ("other", 2 * CHUNK)):
            made = {"data": payload.content(ROWS), "chunks": (chunk, payload.COLUMNS), **SUM}
            file.create_dataset(name, maxshape=(None, payload.COLUMNS), **made)


def _items(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for item in range(ITEMS):
            for name, n in (("a", 300), ("b", 40)):
                data = np.arange(n, dtype="<i4") + 1000 * item
                file.create_dataset(f"items/{item}/{name}", data=data, chunks=(40,), **SUM)


def _ragged(path: Path) -> None:
    rows = [ragged_row(number) for number in range(ROWS)]
    ends = np.cumsum([0, *map(len, rows)])
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.concatenate(rows), chunks=(100,), **SUM)
        file.create_dataset("ends", data=ends, chunks=(200,), **SUM)
        file["number"] = np.arange(ROWS)


def _columns(path: Path) -> None:
    rows = [key_rows(key) for key in range(KEYS)]
    keys = np.repeat(np.arange(KEYS), [len(row) for row in rows])
    with h5py.File(path, "w") as file:
        file.create_dataset("table/key", data=keys, chunks=(64,), **SUM)
        file.create_dataset("table/value", data=np.concatenate(rows), chunks=(64,), **SUM)


def _versions(path: Path) -> None:
    data = versioned.numbers(40, 3)
    with h5py.File(path, "w") as file:
        writer = versioned.Writer(file, **SUM)
        for number, name in enumerate(VERSIONS):
            data[number * 5] += 1
            writer.commit(name, {"x": data})
            np.save(path.with_suffix(f".{name}.npy"), data)


FILES: dict[str, Callable[[Path], None]] = {
    "numbered": _numbered,
    "items": _items,
    "ragged": _ragged,
    "columns": _columns,
    "versions": _versions,
}


def write(folder: Path) -> None:
    """Write a file of each kind, and where its stored chunks lie."""
    for name, make in FILES.items():
        path = folder / f"{name}.h5"
        make(path)
        places: list[tuple[int, int]] = []

        def visit(_: str, found: Any, places: list[tuple[int, int]] = places) -> None:
            if isinstance(found, h5py.Dataset) and found.chunks:
                chunks = map(found.id.get_chunk_info, range(found.id.get_num_chunks()))
                places += [(chunk.byte_offset, chunk.size) for chunk in chunks]

        with h5py.File(path) as file:
            file.visititems(visit)
        path.with_suffix(".json").write_text(json.dumps(places))


# ---- readings


@dataclass
class Place:
    """What is read: a file, and the server that has it, for a reading of one."""

    path: Path
    server: PlainServer
    #: Streamers that keep their readers for the next reading; None: each reading starts its own.
    kept: contextlib.ExitStack | None = None
    _streamers: dict[str, multitables.Streamer] = field(default_factory=dict)

    def streamer(self, name: str | None = None, **options: Any) -> multitables.Streamer:
        """A streamer of the file, or of an object by its name."""
        made = functools.partial(multitables.Streamer, name or self.path, **options)
        if self.kept is None:
            return made()
        known = repr((name, options))
        if known not in self._streamers:
            self._streamers[known] = self.kept.enter_context(made())
        return self._streamers[known]


Steps = Iterator[None]


def _together(block: Any) -> tuple[Any, ...]:
    return block if isinstance(block, tuple) else (block,)


def _blocks(stream: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """The arrays of each block, which is given back when the next one is pending for."""
    with stream:
        for guard in stream:
            with guard as block:
                yield tuple(block.values()) if isinstance(block, dict) else _together(block)
                del block
            del guard


def _all_rows(stream: Any) -> Steps:
    at = 0
    for arrays in _blocks(stream):
        for array in arrays:
            end = payload.check(array, at, ROWS)
        at = end
        del array, arrays
        yield
    assert at == ROWS, f"{at} of {ROWS} rows came"


def queue(place: Place, n_procs: int = 2, **options: Any) -> Steps:
    streamer = place.streamer(**options)
    return _all_rows(streamer.get_queue("/rows", n_procs, block_size=CHUNK, read_ahead=2))


def threads(place: Place) -> Steps:
    return queue(place, n_procs=0)


def direct(place: Place) -> Steps:
    return queue(place, DRIVER="H5FD_DIRECT")


def members(place: Place) -> Steps:
    streamer = place.streamer()
    names = ["/other", "/rows"]
    return _all_rows(streamer.get_queue(names, n_procs=2, block_size=CHUNK, read_ahead=2))


def generator(place: Place) -> Steps:
    at = 0
    rows = place.streamer().get_generator("/rows", n_procs=2, read_ahead=2)
    for row in rows:
        at = payload.check(row[None], at, ROWS)
        if at % CHUNK == 0:
            yield
    assert at == ROWS, f"{at} of {ROWS} rows came"


def _in_order(batches: Any) -> Steps:
    with batches:
        wanted = np.concatenate([batches.order(epoch) for epoch in range(2)])
        at = 0
        for rows, others in batches:
            numbers = wanted[at : at + len(rows)]
            for array in (rows, others):
                np.testing.assert_array_equal(array, payload.content(ROWS)[numbers])
            at += len(rows)
            del rows, others, array
            yield
        assert at == 2 * ROWS, f"{at} of {2 * ROWS} rows came"


def batches(place: Place, shuffle: str = "window", **options: Any) -> Steps:
    options = {"n_procs": 2, "shuffle": shuffle, "epochs": 2, "window_rows": 300, **options}
    return _in_order(place.streamer().get_batches(["/rows", "/other"], 64, **options))


def full(place: Place) -> Steps:
    return batches(place, "full")


def node(place: Place) -> Steps:
    return batches(place, share="node")


def requests(place: Place) -> Steps:
    content = payload.content(ROWS)
    with multitables.Reader(place.path, n_procs=2) as reader:
        dataset = reader.get_dataset("/rows")
        for begin in range(0, ROWS - 2 * CHUNK, 2 * CHUNK):
            keys = [slice(begin, begin + 70), [begin + 3, ROWS - 1, begin], begin + 5]
            pending = [reader.request(dataset[key]) for key in keys]
            yield
            for key, request in zip(keys, pending, strict=True):
                np.testing.assert_array_equal(request.get(), content[key])
            del request, pending


def opened(place: Place) -> Steps:
    content = payload.content(ROWS)
    for begin in range(0, ROWS, 4 * CHUNK):
        with multitables.open(place.path) as file:
            for name in ("rows", "other"):
                got = file[name][begin : begin + 70]
                np.testing.assert_array_equal(got, content[begin : begin + 70])
                yield
            assert sorted(file) == ["other", "rows"]


def collection(place: Place) -> Steps:
    came = []
    options: Any = {"n_procs": 2, "epochs": 2, "order": "random"}
    with place.streamer().get_collection("/items/*/*", **options) as items:
        for item in items:
            number = int(item.key)
            for name, n in (("a", 300), ("b", 40)):
                np.testing.assert_array_equal(item[name], np.arange(n) + 1000 * number)
            came.append(number)
            del item
            yield
    assert sorted(came) == sorted([*range(ITEMS)] * 2)


def columns(place: Place) -> Steps:
    at = 0
    options: Any = {"index": "key", "entries_per_block": 30, "n_procs": 2}
    with place.streamer().get_columns("table", ["value"], **options) as blocks:
        for block in blocks:
            keys = np.unique(block.index_of_rows()["key"])
            expected = np.concatenate([key_rows(key) for key in keys])
            np.testing.assert_array_equal(block["value"], expected)
            assert block.rows[0] == at
            at = block.rows[1]
            del block
            yield
    assert at == sum(len(key_rows(key)) for key in range(KEYS))


def ragged(place: Place) -> Steps:
    at = 0
    path = multitables.Ragged("/data", offsets="/ends")
    streamer = place.streamer()
    for (block,) in _blocks(streamer.get_queue(path, n_procs=2, block_size=40, remainder=True)):
        for row in block:
            np.testing.assert_array_equal(row, ragged_row(at))
            at += 1
        del block, row
        yield
    assert at == ROWS, f"{at} of {ROWS} rows came"


def follow(place: Place) -> Steps:
    at = 0
    streamer = place.streamer()
    stream: Any = streamer.get_queue("/rows", n_procs=2, block_size=CHUNK, follow=True)
    for (block,) in _blocks(stream):
        at = payload.check(block, at, ROWS)
        del block
        if at == ROWS:
            stream.stop()
        yield
    assert at == ROWS, f"{at} of {ROWS} rows came"


def versions(place: Place) -> Steps:
    at = 0
    expected = [np.load(place.path.with_suffix(f".{name}.npy")) for name in VERSIONS]
    streamer = place.streamer()
    for arrays in _blocks(streamer.get_queue("x", n_procs=2, version=VERSIONS)):
        for array, data in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, data[at : at + len(array)])
        at += len(array)
        del arrays, array
        yield
    assert at == 40, f"{at} of 40 rows came"


def remote(place: Place, **more: Any) -> Steps:
    place.server.objects["/numbered.h5"] = place.path.read_bytes()
    options = {"max_retries": 2, "retry_timeout_seconds": 3.0, "timeout_seconds": 2.0, **more}
    name = f"{place.server.endpoint}/numbered.h5"
    streamer = place.streamer(name, storage_options={**options, "allow_http": True})
    return _all_rows(streamer.get_queue("/rows", n_procs=2, block_size=CHUNK, read_ahead=2))


def cached(place: Place) -> Steps:
    """Read into a new cache on the disk, whose count of its bytes is whole at the end."""
    folder = place.path.parent / "cache"
    shutil.rmtree(folder, ignore_errors=True)
    yield from remote(place, cache_folder=str(folder))
    used, complement = np.frombuffer((folder / "used").read_bytes(), "<u8")
    assert used == ~complement
    assert 0 < used < 1 << 30


#: The kind of file that each one reads.
READINGS: dict[str, tuple[str, Callable[[Place], Steps]]] = {
    "queue": ("numbered", queue),
    "threads": ("numbered", threads),
    "members": ("numbered", members),
    "direct": ("numbered", direct),
    "generator": ("numbered", generator),
    "batches": ("numbered", batches),
    "full": ("numbered", full),
    "node": ("numbered", node),
    "requests": ("numbered", requests),
    "open": ("numbered", opened),
    "collection": ("items", collection),
    "columns": ("columns", columns),
    "ragged": ("ragged", ragged),
    "follow": ("numbered", follow),
    "versions": ("versions", versions),
    "remote": ("numbered", remote),
    "cached": ("numbered", cached),
}
