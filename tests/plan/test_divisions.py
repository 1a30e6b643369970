"""Tables cut by the values of their index.

1. A partition has whole values, no more rows than were wanted unless it has one value, and the same
   range of values of each table.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from _multitables.plan.divisions import cut_by_value

DTYPES = ["i4", "u2", "f8"]


@given(
    tables=st.lists(
        st.tuples(st.lists(st.integers(0, 12), max_size=30), st.sampled_from(DTYPES)), min_size=1
    ),
    rows=st.integers(1, 9),
)
def test_partitions(tables: list[tuple[list[int], str]], rows: int) -> None:
    keys = [np.array(sorted(values), dtype) for values, dtype in tables]
    divisions, starts = cut_by_value(keys, rows)
    every = sorted(value for values, _ in tables for value in values)
    assert (divisions[0], divisions[-1]) == ((every[0], every[-1]) if every else (0, 0))
    assert divisions[:-1] == sorted(set(divisions[:-1]))
    for key, begins in zip(keys, starts, strict=True):
        assert begins[0] == 0
        assert len(begins) == len(divisions) - 1
        for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(key)], strict=True)):
            inside = key[begin:end].tolist()
            is_last = number + 2 == len(divisions)
            assert all(value >= divisions[number] for value in inside)
            assert all(value < divisions[number + 1] or is_last for value in inside)
            if len(inside) > rows:
                assert len(set(inside)) == 1
    # None could begin later: with the first value of the next one it would be too large.
    for number, border in enumerate(divisions[1:-1]):
        sizes = [
            np.searchsorted(key, border, "right") - begins[number]
            for key, begins in zip(keys, starts, strict=True)
        ]
        assert max(sizes) > rows
