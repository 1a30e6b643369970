"""Arrays of arrays and of compounds, of any depth: every way to read them equals h5py.

1. Types, shapes and layouts are drawn; files are written with HDF5's own calls, in the very type.
2. The rows are h5py's; a field inside an array, of which h5py knows nothing, is NumPy's of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import DEEP, any_type, array_of, values
from h5py import h5d, h5p, h5s, h5t
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import either, fast, h5py_read, same
from reader_file import at
from test_reader_formats import _none_native, keys

import multitables

drawn = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TOP = {
    "numbers": array_of(">i4", (4,), (6, 3)),
    "strings": array_of("S5", (2,), (3,)),
    "bools": array_of("?", (2, 2), (1,), (3,)),
    "complex": array_of("<c16", (1,), (2,)),
    "compounds": array_of([("i", "<i4"), ("f", ">f4")], (4,)),
    "deep": array_of(DEEP, (2,), (3,)),
}


def write(file: h5py.File, name: str, dtype: np.dtype, shape: tuple[int, ...], layout: str) -> None:
    """Store values in just this type, whose dims NumPy would join."""
    plist = h5p.create(h5p.DATASET_CREATE)
    if layout != "contiguous":
        plist.set_chunk(tuple(max(1, n // 3) for n in shape))
    if layout == "compressed":
        plist.set_shuffle()
        plist.set_deflate(4)
    kind = h5t.py_create(dtype, logical=True)
    made = h5d.create(file.id, name.encode(), kind, h5s.create_simple(shape), plist)
    stored = values(dtype, shape, name)
    made.write(h5s.ALL, h5s.ALL, np.frombuffer(stored.tobytes(), np.uint8), kind)


def paths(dtype: np.dtype) -> Iterator[tuple[str, ...]]:
    """The names that lead to each field, also through arrays."""
    while dtype.subdtype is not None:
        dtype = dtype.base
    for name in dtype.names or ():
        yield (name,)
        yield from ((name, *rest) for rest in paths(dtype[name]))


def field_of(rows: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    for name in names:
        rows = rows[name]
    return np.ascontiguousarray(rows)


def clear_paths(dtype: np.dtype) -> list[tuple[str, ...]]:
    """Paths without a name that holds a slash, and that are not such a name themselves."""
    found = list(paths(dtype))
    joined = ["/".join(names) for names in found]
    return [
        names
        for names, path in zip(found, joined, strict=True)
        if joined.count(path) == 1 and path.count("/") == len(names) - 1
    ]


def requested(path: Path, dtypes: dict[str, np.dtype]) -> None:
    """Compare requests for rows and their fields, by the core where it can, and by a library."""
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            with multitables.Reader(path, n_procs=1) as reader:
                for name, dtype in dtypes.items():
                    _compare(reader.get_dataset(name), reader, h5py_read(path, name), dtype)
            patch.setattr("_multitables.parent.random.dataset_handle.lookup_table", _none_native)


def _compare(dataset: Any, reader: Any, rows: np.ndarray, dtype: np.dtype) -> None:
    assert (dataset.dtype, dataset.shape) == (rows.dtype, rows.shape)
    for key in keys(rows.shape):
        same(reader.request(dataset[key]).get(), at(rows, key))
    for names in paths(dtype):
        first, second, want = dataset, dataset[::2], field_of(rows, names)
        for name in names:
            first, second = first[name], second[name]
        for key in (slice(None, None, 3), [0, len(rows) - 1], len(rows) // 2, (..., -1)):
            same(reader.request(first[key]).get(), at(want, key))
        same(reader.request(second).get(), want[::2])


@pytest.mark.parametrize("layout", ["contiguous", "chunked", "compressed"])
@pytest.mark.parametrize("name", TOP)
def test_elements_that_are_arrays_of_arrays(h5: Path, name: str, layout: str) -> None:
    with h5py.File(h5, "w") as file:
        write(file, "x", TOP[name], (31, 2), layout)
    fast(h5, "/x", n_procs=1)
    rows = h5py_read(h5, "/x")
    for names in paths(TOP[name]):
        either(h5, "/x", field_of(rows, names), field="/".join(names), n_procs=1)


@pytest.mark.parametrize("padding", [h5t.STR_NULLTERM, h5t.STR_SPACEPAD], ids=["term", "space"])
def test_padded_strings_in_arrays_of_arrays(h5: Path, padding: int) -> None:
    string = h5t.C_S1.copy()
    string.set_size(4)
    string.set_strpad(padding)
    inner = h5t.create(h5t.COMPOUND, 13)
    inner.insert(b"n", 0, h5t.STD_I8LE)
    inner.insert(b"s", 1, h5t.array_create(string, (3,)))
    kind = h5t.array_create(h5t.array_create(inner, (2,)), (3,))
    stored = np.zeros((18, 3, 2), [("n", "i1"), ("s", "S4", (3,))])
    stored["s"] = np.tile(np.frombuffer(b"ab\0ya       wxyz\0\0 q a  ", "S4"), 54).reshape(
        18, 3, 2, 3
    )
    with h5py.File(h5, "w") as file:
        made = h5d.create(file.id, b"x", kind, h5s.create_simple((18,)))
        made.write(h5s.ALL, h5s.ALL, stored, kind)
    fast(h5, "/x")
    either(h5, "/x", field_of(h5py_read(h5, "/x"), ("s",)), field="s")


@pytest.mark.parametrize("layout", ["contiguous", "compressed"])
def test_requests_for_elements_that_are_arrays_of_arrays(h5: Path, layout: str) -> None:
    with h5py.File(h5, "w") as file:
        for name, dtype in TOP.items():
            write(file, name, dtype, (11,), layout)
    requested(h5, {f"/{name}": dtype for name, dtype in TOP.items()})


@pytest.mark.hang(180)
@drawn
@given(
    st.lists(any_type(), min_size=3, max_size=3),
    st.lists(st.integers(1, 9), min_size=1, max_size=2).map(tuple),
    st.sampled_from(["contiguous", "chunked", "compressed"]),
)
def test_any_type_in_every_way(
    h5: Path, dtypes: list[np.dtype], shape: tuple[int, ...], layout: str
) -> None:
    """Blocks, rows, batches in every order, and requests natively and through a library."""
    with h5py.File(h5, "w") as file:
        for number, dtype in enumerate(dtypes):
            write(file, f"{number}", dtype, shape, layout)
    names = [f"/{number}" for number in range(len(dtypes))]
    want = [h5py_read(h5, name) for name in names]
    with multitables.Streamer(h5) as streamer:
        for name, dtype, rows in zip(names, dtypes, want, strict=True):
            same(_blocks(streamer, name), rows)
            for path in clear_paths(dtype):
                same(_blocks(streamer, name, "/".join(path)), field_of(rows, path))
        for number, row in enumerate(streamer.get_generator(names, n_procs=1)):
            for part, rows in zip(row, want, strict=True):
                same(np.asarray(part), np.asarray(rows[number]))
        for shuffle in (None, "chunks", "window", "full"):
            batches = streamer.get_batches(names, 4, n_procs=1, shuffle=shuffle)
            order, at = batches.order(), 0
            for batch in batches:
                for part, rows in zip(batch, want, strict=True):
                    same(part, rows[order[at : at + len(part)]])
                at += len(batch[0])
            assert at == shape[0]
    requested(h5, dict(zip(names, dtypes, strict=True)))


def _blocks(streamer: Any, name: str, field: str | None = None) -> np.ndarray:
    blocks = []
    with streamer.get_queue(name, n_procs=1, remainder=True, field=field, block_size=4) as queue:
        for guard in queue:
            with guard as block:
                blocks.append(block.copy())
            del block, guard
    rows = np.empty((sum(map(len, blocks)), *blocks[0].shape[1:]), blocks[0].dtype)
    rows[...] = np.concatenate(blocks)
    return rows
