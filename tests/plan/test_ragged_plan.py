"""Plans of ragged rows against a naive walk over all rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _multitables import _core, options
from _multitables.plan.ragged import RaggedPlan
from _multitables.plan.row_order import OrderWords
from _multitables.plan.row_spans import RowSpans
from _multitables.plan.row_subset import subset_of
from _multitables.select.selection import Spans


@st.composite
def plans(draw: st.DrawFn) -> RaggedPlan:
    """Draw a plan of up to 60 rows, each of up to 9 elements."""
    each = draw(st.lists(st.integers(0, 9), min_size=1, max_size=60))
    spans = RowSpans.of_offsets(np.concatenate([[draw(st.integers(0, 3))], each]).cumsum())
    if draw(st.booleans()):
        begins = np.array(draw(st.permutations(spans.begins.tolist())))
        spans = RowSpans(begins, begins + each, in_line=False)
    rows = draw(st.sampled_from([None, slice(2, None, 3), [0, 0, len(each) - 1]]))
    order = OrderWords(
        **vars(subset_of(rows, len(each))),
        shuffle=draw(st.integers(0, len(options.SHUFFLES) - 1)),
        seed=draw(st.integers(0, 3)),
        first_epoch=draw(st.integers(0, 2)),
        chunk_rows=4,
        window_rows=8,
    )
    cuts = sorted(draw(st.lists(st.integers(0, order.n_rows), min_size=2, max_size=4)))
    ranges = [(a, b) for a, b in itertools.pairwise(cuts) if a < b][:: draw(st.integers(1, 2))]
    crosses = draw(st.booleans())
    count = 1 if crosses else draw(st.integers(1, 3))
    return RaggedPlan(
        order=order,
        ranges=ranges,
        batch_size=draw(st.integers(1, 20)),
        laps=None if crosses else draw(st.integers(1, 3)),
        crosses=crosses,
        turn=(draw(st.integers(0, count - 1)), count),
        fixed_bytes=draw(st.integers(0, 3)),
        spans=[(spans, 4)],
        fetch_bytes=draw(st.integers(1, 400)),
        depth=2,
        max_batches=draw(st.integers(1, 5)),
    )


def naive(plan: RaggedPlan, n_batches: int) -> list[list[int]]:
    """Return the rows of each batch."""
    own: list[list[int]] = []
    batches: list[list[int]] = []
    open_batch: list[int] = []
    for lap in itertools.count() if plan.laps is None else range(plan.laps):
        words = OrderWords(**{**vars(plan.order), "first_epoch": plan.order.first_epoch + lap})
        for begin, end in plan.ranges:
            rows = _core.order_rows(words.words, words.listed_bytes, begin, end)
            for row in rows.tolist():
                open_batch.append(row)
                if len(open_batch) == plan.batch_size:
                    batches.append(open_batch)
                    open_batch = []
        if open_batch and not plan.crosses:
            batches.append(open_batch)
            open_batch = []
        number, count = plan.turn
        own += batches[number::count]
        batches = []
        if len(own) >= n_batches:
            break
    return own[:n_batches]


@given(plans())
def test_batches_and_their_elements(plan: RaggedPlan) -> None:
    n_batches = 40 if plan.n_batches is None else plan.n_batches
    expected = naive(plan, n_batches) if plan.lap_rows else []
    lies = plan.spans[0][0]
    got: list[list[int]] = []
    position = 0
    fetches = plan.fetches(_core.order_rows)
    while len(got) < len(expected):
        fetch = next(fetches)
        rows = list(fetch.rows)
        assert fetch.position == position
        assert fetch.batch_ends[-1] == len(rows)
        assert len(fetch.batch_ends) <= plan.max_batches
        position += len(rows)
        spans, offsets = fetch.spans(lies)
        elements = [at for row in rows for at in range(lies.begins[row], lies.ends[row])]
        assert spans.key.tolist() == elements
        assert (spans.lengths > 0).all()
        assert offsets.tolist() == [0, *np.cumsum([lies.lengths[row] for row in rows])]
        assert fetch.row_spans().key.tolist() == rows
        n_bytes = 4 * len(elements) + plan.fixed_bytes * len(rows)
        assert len(fetch.batch_ends) == 1 or n_bytes <= plan.fetch_bytes
        for begin, end in itertools.pairwise([0, *fetch.batch_ends]):
            got.append(rows[begin:end])
            assert n_bytes <= max(plan.fetch_bytes, plan.longest_bytes)
    assert got[: len(expected)] == expected
    if plan.laps is not None:
        assert len(got) == plan.n_batches
        assert next(fetches, None) is None


@pytest.mark.parametrize(
    ("begins", "lengths", "rows"),
    [([], [], []), ([5], [2], [5, 6]), ([5, 0, 5], [1, 3, 2], [5, 0, 1, 2, 5, 6])],
)
def test_spans_name_rows(begins: list[int], lengths: list[int], rows: list[int]) -> None:
    spans = Spans(np.array(begins, np.int64), np.array(lengths, np.int64))
    assert spans.key.tolist() == rows
