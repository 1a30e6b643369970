"""Drawn virtual datasets equal what h5py reads.

Law: mappings do not overlap: where some do and leave gaps, HDF5 leaves out the fill value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import fast, same

import multitables


def taken(draw: Any, count: int) -> tuple[slice, int]:
    """Select this many elements of an axis of this length."""
    start, step, rest = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
    stop = start + step * (count - 1) + 1
    return slice(start, stop, step), stop + rest


@st.composite
def layouts(draw: Any) -> tuple[tuple[int, ...], list[Any]]:
    """A shape, and mappings: where, the source's shape, chunks and filter, and what of it."""
    rank = draw(st.integers(1, 3))
    shape, mappings, row = [0] + [draw(st.integers(1, 9)) for _ in range(rank - 1)], [], 0
    for _ in range(draw(st.integers(1, 4))):
        row += draw(st.sampled_from([0, 0, 1, 5]))
        rows, step = draw(st.integers(1, 20)), draw(st.sampled_from([1, 1, 2, 3]))
        where = [slice(row, row + step * (rows - 1) + 1, step)]
        row += step * rows
        for extent in shape[1:]:
            first = draw(st.integers(0, extent - 1))
            where.append(slice(first, None, draw(st.integers(1, 2))))
        lengths = [rows] + [
            len(range(*one.indices(n))) for one, n in zip(where[1:], shape[1:], strict=True)
        ]
        named = [taken(draw, length) for length in lengths]
        if draw(st.booleans()):  # an axis more, of which one index is taken
            named.insert(draw(st.integers(0, rank)), (slice(1, 2), 3))
        dims = tuple(length for _, length in named)
        chunks = tuple(draw(st.integers(1, length)) for length in dims)
        how = draw(st.sampled_from([{}, {"chunks": chunks}, {"chunks": chunks, "compression": 1}]))
        mappings.append((tuple(where), dims, how, tuple(key for key, _ in named)))
    shape[0] = row + draw(st.integers(0, 3))
    return tuple(shape), mappings


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(layouts(), st.data())
def test_drawn_mappings(h5: Path, drawn: Any, data: Any) -> None:
    shape, mappings = drawn
    layout = h5py.VirtualLayout(shape, "<i4")
    with h5py.File(h5.with_name("sources.h5"), "w") as file:
        for number, (where, dims, how, named) in enumerate(mappings):
            rows = np.arange(np.prod(dims)).reshape(dims).astype("<i4") + 10_000 * number
            file.create_dataset(f"{number}", data=rows, **how)
            layout[where] = h5py.VirtualSource("sources.h5", f"{number}", dims)[named]
    with h5py.File(h5, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-1)
    with h5py.File(h5) as theirs:
        wanted = theirs["x"][...]
    with multitables.open(h5, trusted=False) as file:
        same(file["x"][...], wanted)
        key = tuple(
            slice(data.draw(st.integers(0, extent)), None, data.draw(st.integers(1, 4)))
            for extent in shape
        )
        same(file["x"][key], wanted[key])
        row = data.draw(st.integers(0, shape[0] - 1))
        same(file["x"][row], wanted[row])
    if data.draw(st.integers(0, 9)) == 0:
        fast(h5, "/x", wanted)


def test_columns_of_several_sources_side_by_side(h5: Path) -> None:
    """Their rows begin and end in the midst of others, and column 20 has no source."""
    layout = h5py.VirtualLayout((700, 40), "f8")
    with h5py.File(h5, "w") as file:
        for number, (rows, columns) in enumerate(
            [
                (slice(0, 700), slice(0, 13)),
                (slice(95, 600), slice(13, 20)),
                (slice(110, 700), slice(21, 40)),
            ]
        ):
            shape = rows.stop - rows.start, columns.stop - columns.start
            values = np.arange(np.prod(shape), dtype="f8").reshape(shape) + 10**6 * number
            source = file.create_dataset(f"of{number}", data=values)
            layout[rows, columns] = h5py.VirtualSource(source)
        file.create_virtual_dataset("data", layout, fillvalue=-1)
        expected = file["data"][...]
    with multitables.open(h5) as file:
        same(file["data"][...], expected)
        same(file["data"][101:650, 5:30], expected[101:650, 5:30])
    with multitables.Streamer(h5) as streamer:
        rows = np.concatenate(list(streamer.get_generator("data", remainder=True, n_procs=1)))
    same(rows.reshape(-1, 40), expected)
