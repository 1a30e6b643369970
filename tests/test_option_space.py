"""The space of options, end to end, against NumPy.

1. Shapes, chunks, dtypes, filters, block sizes, laps and processes are drawn by Hypothesis.
2. One file and one streamer serve many examples: what is drawn is the stream.
3. Every row of every block is compared; the number of blocks too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from elements import FAST, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import multitables

EXAMPLES = 120
COLUMN = {"compound": "b", "nested": "outer"}


class Stored(NamedTuple):
    """One dataset, and the rows that it must give."""

    name: str
    rows: np.ndarray

    def __repr__(self) -> str:  # Hypothesis shows all of them when an example fails
        return self.name


def _datasets() -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...] | None, dict[str, Any]]]:
    """(dtype, shape, chunks, options) of a spread of datasets of 101 rows."""
    shapes: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
        ((101,), None),
        ((101,), (1,)),
        ((101,), (13,)),
        ((101,), (101,)),
        ((101, 6), (10, 6)),
        ((101, 6), (7, 4)),
        ((101, 3, 5), (20, 2, 5)),
        ((101, 0), None),
    ]
    filters = [{}, {"compression": "gzip", "shuffle": True}, {"fletcher32": True}]
    names = ["<f8", ">i2", "S7", "compound", "nested", "bool"]
    for number, ((shape, chunks), name) in enumerate(itertools.product(shapes, names)):
        yield name, shape, chunks, filters[number % 3] if chunks else {}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Stored]]:
    path = tmp_path_factory.mktemp("space") / "space.h5"
    made = []
    with h5py.File(path, "w") as file:
        for number, (name, shape, chunks, options) in enumerate(_datasets()):
            data = values(FAST[name], shape, number)
            file.create_dataset(f"d{number}", data=data, chunks=chunks, **options)
            made.append(Stored(f"/d{number}", data))
    return path, made


@dataclass(frozen=True)
class Wanted:
    """What is asked for, of which datasets."""

    datasets: list[int]
    kind: str
    options: dict[str, Any]


@st.composite
def a_stream(draw: st.DrawFn) -> Wanted:
    count = 8 * 6
    kind = draw(st.sampled_from(["one", "one", "one", "tuple", "dict"]))
    size = 1 if kind == "one" else draw(st.integers(1, 3))
    return Wanted(
        draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size)),
        kind,
        {
            "n_procs": draw(st.integers(1, 3)),
            "read_ahead": draw(st.one_of(st.none(), st.integers(1, 9))),
            "cyclic": draw(st.booleans()),
            "block_size": draw(st.one_of(st.none(), st.integers(1, 30), st.integers(1, 250))),
            "ordered": draw(st.booleans()),
            "remainder": draw(st.booleans()),
        },
    )


space = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.hang(180)
@space
@given(a_stream())
def test_queues(stored: tuple[Path, list[Stored]], wanted: Wanted) -> None:
    path, datasets = stored
    chosen = [datasets[number] for number in wanted.datasets]
    options = wanted.options
    with multitables.Streamer(path).get_queue(_paths(wanted, chosen), **options) as stream:
        size = stream.block_size
        if options["block_size"] is not None:
            assert size == options["block_size"]
        for begin, length in _spans(size, options):
            guard = stream.get()
            with guard as block:
                parts = {"one": lambda b: [b], "tuple": list, "dict": lambda b: list(b.values())}
                arrays = parts[wanted.kind](block)
                for array, one in zip(arrays, chosen, strict=True):
                    _same(array, one.rows, begin, length)
            del block, arrays, array, guard
        if not options["cyclic"]:
            assert stream.get() is multitables.QueueClosed


def _paths(wanted: Wanted, chosen: list[Stored]) -> Any:
    names = [one.name for one in chosen]
    if wanted.kind == "one":
        return names[0]
    return tuple(names) if wanted.kind == "tuple" else dict(enumerate(names))


def _spans(size: int, options: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """(first row, length) of the blocks that must come; some laps of an endless stream."""
    if options["cyclic"]:
        for number in range(min(60, 3 * 101 // size + 3)):
            yield number * size % 101, size
        return
    for begin in range(0, 101, size):
        length = min(size, 101 - begin)
        if length == size or options["remainder"]:
            yield begin, length


def _same(array: np.ndarray, rows: np.ndarray, begin: int, length: int) -> None:
    want = rows[(begin + np.arange(length)) % len(rows)]
    assert array.shape == want.shape
    assert array.dtype == want.dtype
    assert array.tobytes() == want.tobytes()


@pytest.mark.hang(180)
@space
@given(a_stream())
def test_generators(stored: tuple[Path, list[Stored]], wanted: Wanted) -> None:
    path, datasets = stored
    chosen = [datasets[number] for number in wanted.datasets]
    options = {**wanted.options, "remainder": True}
    rows = multitables.Streamer(path).get_generator(_paths(wanted, chosen), **options)
    limit = 230 if options["cyclic"] else 102
    count = 0
    for row in itertools.islice(rows, limit):
        parts = (
            [row] if wanted.kind == "one" else list(row.values() if wanted.kind == "dict" else row)
        )
        for part, one in zip(parts, chosen, strict=True):
            want = one.rows[count % 101]
            assert part.shape == want.shape
            assert part.dtype == want.dtype
            assert part.tobytes() == want.tobytes()
        count += 1
    rows.close()
    assert count == (230 if options["cyclic"] else 101)


@pytest.mark.hang(180)
@settings(parent=space, max_examples=60)
@given(st.integers(0, 47), st.integers(1, 250))
def test_remainders(stored: tuple[Path, list[Stored]], number: int, block_size: int) -> None:
    path, datasets = stored
    one = datasets[number]
    tail = multitables.Streamer(path).get_remainder(one.name, block_size)
    begin = 101 // block_size * block_size
    assert tail.shape == one.rows[begin:].shape
    assert tail.dtype == one.rows.dtype
    assert tail.tobytes() == one.rows[begin:].tobytes()


@pytest.mark.hang(180)
@settings(parent=space, max_examples=60)
@given(st.sampled_from([3, 4]), st.integers(0, 7), st.integers(1, 200), st.booleans())
def test_fields(
    stored: tuple[Path, list[Stored]], kind: int, shape: int, block_size: int, cyclic: bool
) -> None:
    path, datasets = stored
    one = datasets[shape * 6 + kind]
    field = COLUMN[list(COLUMN)[kind - 3]]
    rows = np.ascontiguousarray(one.rows[field])
    with multitables.Streamer(path).get_queue(
        one.name, n_procs=1, block_size=block_size, cyclic=cyclic, remainder=True, field=field
    ) as stream:
        for begin, length in _spans(block_size, {"cyclic": cyclic, "remainder": True}):
            with stream.get() as block:
                _same(block, rows, begin, length)
            del block


@st.composite
def a_dataset(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(st.integers(1, 30), min_size=1, max_size=4)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["compression"] = draw(st.sampled_from(["gzip", "lzf"]))
    options["shuffle"] = draw(st.booleans())
    options["fletcher32"] = draw(st.booleans())
    return draw(st.sampled_from(sorted(FAST))), shape, chunks, options


@pytest.mark.hang(180)
@settings(parent=space, max_examples=100)
@given(
    a_dataset(),
    st.integers(1, 40),
    st.lists(st.tuples(*[st.floats(0, 1)] * 2), max_size=4),
)
def test_any_dataset(
    tmp_path_factory: pytest.TempPathFactory,
    dataset: tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]],
    block_size: int,
    written: list[tuple[float, float]],
) -> None:
    """Of any shape and chunks, partly written: equal to what h5py reads."""
    name, shape, chunks, options = dataset
    path = tmp_path_factory.mktemp("any") / "any.h5"
    dtype = FAST[name]
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", shape, dtype, chunks=chunks, **options)
        for low, high in written:
            rows = slice(int(low * shape[0]), int(high * shape[0]))
            if rows.start < rows.stop:
                made[rows] = values(dtype, (rows.stop - rows.start, *shape[1:]))
    with h5py.File(path, "r") as file:
        want = file["x"][()]
    with multitables.Streamer(path).get_queue(
        "/x", n_procs=2, block_size=block_size, remainder=True
    ) as stream:
        at = 0
        for guard in stream:
            with guard as block:
                _same_fields(block, want[at : at + len(block)])
                at += len(block)
            del block, guard
        assert at == len(want)
        assert stream.statistics()["library"] == {}
    path.unlink()


def _same_fields(got: np.ndarray, want: np.ndarray) -> None:
    from oracle import same

    same(got, want)
