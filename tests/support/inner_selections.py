"""Selections of rows and of the axes behind them, made up by Hypothesis.

Law
---
1. What is drawn is what a user writes, and NumPy takes it for rows of any length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st


@st.composite
def a_selection(draw: st.DrawFn, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """What NumPy's basic indexing takes of these axes."""
    ends = st.none() | st.integers(-8, 8)
    items: list[Any] = []
    for dim in dims[: draw(st.integers(0, len(dims)))]:
        steps = st.none() | st.integers(-7, 7).filter(bool)
        if dim and draw(st.booleans()):
            items.append(draw(st.integers(-dim, dim - 1)))
        else:
            items.append(slice(draw(ends), draw(ends), draw(steps)))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
        behind = len(items) - 1 - items.index(Ellipsis)
        at = len(dims) - behind  # an index must fit the axis on which it comes to lie
        for item, dim in zip(items[len(items) - behind :], dims[at:], strict=True):
            if not isinstance(item, slice) and not -dim <= item < dim:
                return (Ellipsis,)
    return tuple(items)


@st.composite
def some_rows(draw: st.DrawFn, n_rows: int) -> Any:
    """What takes part of this many rows, in their order."""
    kind = draw(st.sampled_from(["all", "slice", "list", "mask"]))
    if kind == "slice":
        ends = st.none() | st.integers(-n_rows, n_rows)
        return slice(draw(ends), draw(ends), draw(st.integers(1, 5)))
    if kind == "list":
        return np.array(sorted(draw(st.lists(st.integers(0, n_rows - 1), max_size=20))), int)
    if kind == "mask":
        return np.array(draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)), bool)
    return slice(None)
