"""Hypothesis over selections: the fast path, the library and NumPy agree on every one.

1. The reader lives as long as the module's tests; each example is one request.
2. What NumPy refuses must be refused; what PyTables refuses in one step is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import same
from reader_file import at

import multitables

ROW = np.dtype([("a", "<i4"), ("b", ">f8", (2, 3)), ("c", "S5")])
SHAPES = {"/line": (97,), "/plane": (41, 23), "/cube": (17, 9, 11), "/table": (83,)}
CHUNKS = {"/line": (10,), "/plane": (7, 5), "/cube": (4, 9, 3), "/table": (8,)}
FIT = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def content(path: str) -> np.ndarray:
    return values(ROW if path == "/table" else np.dtype("<i4"), SHAPES[path], path)


def write(path: Path, **filters: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, chunks in CHUNKS.items():
            file.create_dataset(name, data=content(name), chunks=chunks, **filters)
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Dataset -> a function from an index of it to the results of each way."""
    fast = write(tmp_path / "fast.h5", compression="gzip", shuffle=True)
    # An unlimited filter that the core does not know: everything through the library.
    slow = tmp_path / "slow.h5"
    with h5py.File(slow, "w") as file:
        for name, chunks in CHUNKS.items():
            filters = {} if name == "/table" else {"scaleoffset": 0}
            file.create_dataset(name, data=content(name), chunks=chunks, **filters)
    with (
        multitables.Reader(fast, n_procs=2, cache_limit_bytes=20_000) as one,
        multitables.Reader(slow, n_procs=1) as two,
    ):
        found = {name: [(r, r.get_dataset(name)) for r in (one, two)] for name in SHAPES}
        yield found
        found.clear()
    del one, two


def agree(served: dict[str, Any], name: str, steps: list[Any]) -> None:
    want: Any = content(name)
    error = None
    try:
        for step in steps:
            want = want[step] if isinstance(step, str) else at(want, step)
    except (IndexError, ValueError) as raised:
        error = raised
    for reader, dataset in served[name]:
        selection = dataset
        for step in steps:
            selection = selection[step]
        request = reader.request(selection)
        if error is None:
            same(request.get(), np.asarray(want))
        else:
            with pytest.raises(type(error)):
                request.get()


def numbers(length: int) -> st.SearchStrategy[int]:
    return st.integers(-length, length - 1)


def slices(length: int) -> st.SearchStrategy[slice]:
    edge = st.one_of(st.none(), st.integers(-length - 3, length + 3))
    step = st.one_of(st.none(), st.integers(-5, 5).filter(bool))
    return st.builds(slice, edge, edge, step)


def basic(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Numbers, slices and at most one Ellipsis, as an array takes them in one step."""
    items = st.tuples(*(st.one_of(numbers(n), slices(n)) for n in shape))
    cut = st.integers(1, len(shape))
    return st.builds(
        lambda key, n, dots: (*key[:n], ...) if dots else key[:n], items, cut, st.booleans()
    )


def rows(length: int) -> st.SearchStrategy[Any]:
    """What chooses rows of a table, or of an array's first axis."""
    few = st.lists(numbers(length), max_size=12)
    mask = st.lists(st.booleans(), min_size=length, max_size=length).map(np.array)
    return st.one_of(
        numbers(length), slices(length), few, few.map(lambda n: np.array(n, int)), mask
    )


@FIT
@given(data=st.data())
def test_basic_indexes(served: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["/line", "/plane", "/cube"]))
    agree(served, name, [data.draw(basic(SHAPES[name]))])


@FIT
@given(data=st.data())
def test_rows_and_columns_of_tables(served: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(rows(SHAPES["/table"][0]))
    field = data.draw(st.sampled_from([None, "a", "b", "c"]))
    steps = [key] if field is None else data.draw(st.permutations([key, field]))
    if field == "b" and data.draw(st.booleans()):
        inner = data.draw(basic((2, 3)))
        steps = [*steps, inner if isinstance(key, int) else (slice(None), *inner)]
    agree(served, "/table", list(steps))


@FIT
@given(data=st.data())
def test_lists_and_masks_of_arrays(served: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["/line", "/plane", "/cube"]))
    shape = SHAPES[name]
    kind = data.draw(st.sampled_from(["rows", "points", "mask", "then"]))
    if kind == "rows":
        steps: list[Any] = [data.draw(st.lists(numbers(shape[0]), max_size=12))]
    elif kind == "points":
        points = data.draw(st.lists(st.tuples(*map(numbers, shape)), min_size=1, max_size=12))
        steps = [tuple(map(list, zip(*points, strict=True)))]
    elif kind == "mask":
        seed = data.draw(st.integers(0, 99))
        steps = [
            np.random.default_rng(seed).random(shape) < data.draw(st.sampled_from([0.02, 0.5]))
        ]
    else:
        steps = [slice(None), data.draw(rows(shape[0]))]
        if isinstance(steps[1], slice) and len(shape) > 1:
            steps.append((slice(None), data.draw(st.lists(numbers(shape[1]), max_size=9))))
    agree(served, name, steps)


@FIT
@given(data=st.data())
def test_indexes_of_indexes(served: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["/line", "/plane", "/cube"]))
    whole = content(name)
    steps: list[Any] = []
    for _ in range(data.draw(st.integers(1, 3))):
        if not whole.ndim or 0 in whole.shape:
            break
        steps.append(data.draw(basic(whole.shape)))
        whole = whole[steps[-1]]
    agree(served, name, steps or [slice(None)])
