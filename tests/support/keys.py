"""Keys that NumPy takes, drawn by Hypothesis: numbers, slices, lists and masks, mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st


@st.composite
def a_slice(draw: st.DrawFn, length: int) -> slice:
    bound = st.none() | st.integers(-length - 2, length + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


@st.composite
def a_list(draw: st.DrawFn, length: int, size: int | None = None) -> Any:
    if length == 0:
        return []
    low, high = (0, 4) if size is None else (size, size)
    numbers = draw(st.lists(st.integers(-length, length - 1), min_size=low, max_size=high))
    kinds = [list, np.array]
    return numbers if not numbers else draw(st.sampled_from(kinds))(numbers)


@st.composite
def a_mask(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(draw(st.integers(0, 9))).random(shape) < draw(
        st.sampled_from([0.0, 0.3, 1.0])
    )


@st.composite
def a_key(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A key for an array of this shape, mostly one that NumPy takes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(a_mask(shape))
    items: list[Any] = []
    at, size = 0, draw(st.integers(1, 3))
    how = draw(st.sampled_from(["basic", "basic", "list", "lists", "any"]))
    while at < len(shape) and draw(st.integers(0, 4)):
        length = shape[at]
        number = st.integers(-length - (how == "any"), max(0, length - 1))
        kinds: dict[str, list[st.SearchStrategy[Any]]] = {
            "basic": [number, number.map(np.int64), a_slice(length)],
            "list": [number, a_slice(length), a_list(length)],
            "lists": [a_list(length, size), a_slice(length), a_list(length, size)],
            "any": [number, a_list(length), st.just(None), a_mask(shape[at : at + 1])],
        }
        if how == "any" and length:
            kinds["any"].append(st.just(np.zeros((2, 1), int)))
        item = draw(st.one_of(kinds[how]))
        items.append(item)
        at += item is not None
    if draw(st.integers(0, 3)) == 0:
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)
