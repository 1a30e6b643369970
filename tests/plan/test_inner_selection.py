"""Inner selections as windows, and the plans of what they need.

1. NumPy says what a selection shows. Which chunks have any of it is found by looking at each.
2. The core accepts every plan: its own arithmetic of windows agrees.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from batch_cases import asked, many
from hypothesis import given
from hypothesis import strategies as st
from inner_selections import a_selection
from plans import NATIVE, an_index, encoded, plain_index, ring

from _multitables.index.chunk_index import AxisWindow, ChunkIndex, chunks_of
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.dataset_table import dataset_of
from _multitables.plan.inner_selection import select_inner
from _multitables.plan.row_order import order_of
from _multitables.plan.row_subset import subset_of
from _multitables.plan.stream_plan import plan_reads
from _multitables.tree import Structure
from multitables import OptionsError

ONE = Structure(None)


@many
@given(st.data(), st.integers(0, 30))
def test_selections_are_numpys(data: st.DataObject, rows: int) -> None:
    index = data.draw(an_index(rows))
    inner = data.draw(a_selection(index.dims[1:]))
    (selected,) = select_inner([index], inner, ONE)
    every = np.arange(math.prod(index.dims[1:])).reshape(index.dims[1:])
    shown = every[inner]
    assert selected.row_shape == shown.shape
    assert selected.row_bytes == shown.size * index.dtype.itemsize
    if selected is not index:
        keys = tuple(window.key for window in selected.windows)
    else:
        keys = (slice(None),) * (len(index.dims) - 1)
    np.testing.assert_array_equal(every[keys].reshape(-1), shown.reshape(-1))


@given(st.integers(0, 40), st.integers(1, 12), st.integers(-9, 9).filter(bool), st.data())
def test_chunks_are_numbered(dim: int, extent: int, step: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, dim))
    most = 0 if start == dim else (dim - 1 - start) // abs(step) + 1
    window = AxisWindow(start, step, data.draw(st.integers(0, most)))
    chunks = np.arange(-(-dim // extent), dtype=np.uint64)
    numbers, wanted = window.numbers(chunks, extent)
    held = sorted({at // extent for at in range(dim)[window.key]})
    assert window.n_chunks(extent) == len(held)
    assert chunks[wanted].tolist() == held
    assert numbers[wanted].tolist() == list(range(len(held)))


def needed(index: ChunkIndex, rows: range) -> list[int]:
    """Return which of the stored chunks have anything of these rows."""
    assert index.chunk_dims is not None
    grid = [-(-dim // extent) for dim, extent in zip(index.dims, index.chunk_dims, strict=True)]
    along = [set(range(count)) for count in grid[1:]]
    if index.windows:
        along = [
            {at // extent for at in range(dim)[window.key]}
            for window, dim, extent in zip(
                index.windows, index.dims[1:], index.chunk_dims[1:], strict=True
            )
        ]
    places = zip(*np.unravel_index(index.grid_index.astype(int), grid), strict=True)
    return [
        at
        for at, (outer, *inner) in enumerate(places)
        if outer in {row // index.chunk_dims[0] for row in rows}
        and all(one in some for one, some in zip(inner, along, strict=True))
    ]


@many
@given(st.data(), st.integers(0, 60))
def test_plans_have_the_chunks_that_are_needed(data: st.DataObject, rows: int) -> None:
    index = data.draw(an_index(rows))
    (selected,) = select_inner([index], data.draw(a_selection(index.dims[1:])), ONE)
    shuffle = data.draw(st.sampled_from([None, "chunks", "window", "full"]))
    step = data.draw(st.integers(1, 3))
    order = order_of([selected], subset_of(slice(0, None, step), rows), asked(shuffle=shuffle))
    ranges = [(0, order.n_rows)] if order.n_rows else []
    plan = plan_batches(
        [selected], order=order, ranges=ranges, batch_size=7, n_readers=2, native_filters=NATIVE
    )
    if index.is_chunked and not plan.datasets[0].reason and selected.row_bytes and rows:
        chunks = plan.table.chunks
        # Those of rows between the selected ones may be among them.
        least, most = (
            index.byte_offset[needed(selected, of)].tolist()
            for of in (range(0, rows, step), range(rows))
        )
        found = chunks["byte_offset"].tolist()
        assert set(least) <= set(found)
        assert found == most[: len(found)]
        grid = plan.datasets[0].grid
        assert (chunks["grid_index"] < math.prod(grid)).all()
        assert (np.diff(chunks["grid_index"].astype(int)) > 0).all()
    if plan.ring_payload_bytes < 64 << 20:
        ring(plan, encoded(plan)).close()


@pytest.mark.parametrize("direct", [False, True])
def test_rows_of_contiguous_data_are_fetched_in_part(direct: bool) -> None:
    """Where much of each is left out; then what lies together has all that is selected."""
    plain = plain_index(rows=50, element=4)
    index = replace(
        plain,
        kind=replace(plain.kind, pipeline=()),
        dims=(50, 8, 100, 100),
        chunk_dims=None,
        chunks=chunks_of([0], 512, 16_000_000),
    )
    whole = 4 * 8 * 100 * 100
    for inner, begin, end in [
        (np.s_[2:4], 80_000, 160_000),
        (np.s_[5:1:-3], 80_000, 240_000),
        (np.s_[3, 10:20, 5], 120_000 + 4000, 120_000 + 8000),
        (np.s_[7, 99, 99], whole - 4, whole),
        (np.s_[1:8], 0, None),
        (np.s_[:, :3], 0, None),
    ]:
        (selected,) = select_inner([index], inner, ONE)
        plan = plan_reads([selected], block_rows=10, n_readers=2, direct=direct)
        (dataset,), chunks = plan.datasets, plan.table.chunks
        assert dataset.clipped == (end is None)
        if end is None:
            assert chunks["stored_size"].sum() == 50 * whole
            continue
        rows = np.arange(50) * whole
        assert chunks["byte_offset"].tolist() == (512 + rows + begin).tolist()
        assert (chunks["stored_size"] == end - begin).all()
        ring(plan, encoded(plan)).close()


def test_a_library_reads_what_is_selected() -> None:
    index = plain_index().by_library("a test wants it")
    (selected,) = select_inner([index], np.s_[::-2], ONE)
    dataset = dataset_of(selected, False, NATIVE)
    assert (dataset.dims, dataset.windows) == ((100, 2), ())


def test_each_dataset_has_its_selection() -> None:
    indexes = [plain_index(), replace(plain_index(), dims=(100,), chunk_dims=(10,))]

    def shapes(inner: Any, keys: tuple[Any, ...] = ()) -> list[tuple[int, ...]]:
        return [one.row_shape for one in select_inner(indexes, inner, Structure(keys))]

    assert shapes(None) == shapes(...) == [(4,), ()]
    assert shapes([np.s_[:2], None]) == shapes({"x": np.s_[:2]}, ("x", "y")) == [(2,), ()]
    assert shapes([1, ...]) == [(), ()]


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        ([0, 1], r"inner must be integers, slices and '\.\.\.', got \[0, 1\]"),
        (np.array([True, False, True, True]), "inner must be integers"),
        (True, "inner must be integers"),
        (None, ""),
        ((None, 1), "inner must be integers"),
        ("x", "inner must be integers"),
        (np.s_[::0], "inner must be integers"),
        (np.s_["a":], "inner must be integers"),
        (4, r"inner lies outside axis 1 of '/x': expected -4 to 3, got 4"),
        (-5, "got -5"),
        (np.s_[:, 1], r"inner does not fit '/x': expected at most 1 axes .*got selections of 2"),
        ((..., ...), "more than one"),
        ({"y": 1}, r"inner has an unknown key: expected some of \['x'\], got 'y'"),
    ],
)
def test_bad_selections(inner: Any, says: str) -> None:
    keys = ("x",) if isinstance(inner, dict) else () if isinstance(inner, list) else None
    inner = [inner] if isinstance(inner, list) else inner
    index = plain_index()
    if not says:
        (same,) = select_inner([index], inner, Structure(keys))
        assert same is index
        return
    with pytest.raises(OptionsError, match=says) as caught:
        select_inner([index], inner, Structure(keys))
    assert caught.value.values["option"] == "inner"


@pytest.mark.parametrize("keys", [None, ()])
def test_a_list_has_a_selection_for_each_path(keys: Any) -> None:
    counts = itertools.repeat(plain_index(), 1 if keys is None else 3)
    with pytest.raises(OptionsError, match="has one for each path: expected"):
        select_inner(list(counts), [1, 2], Structure(keys))
