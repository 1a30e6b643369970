"""The space of options, end to end, against NumPy.

1. Shapes, chunks, dtypes, filters, block sizes, laps and processes are drawn by Hypothesis.
2. One file and one streamer serve many examples: what is drawn is the stream.
3. Every row of every block is compared; the number of blocks too.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from cut_chunks import cut_edges
from datasets_of_files import FILTERS, create, prepared
from elements import FAST, values
from h5py import h5d, h5s
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import same

import multitables

EXAMPLES = 120
NAMES = ["<f8", ">i2", "S7", "compound", "nested", "bool", "arrays", "deep"]
COLUMN = {"compound": "b", "nested": "outer", "arrays": "n", "deep": "a"}


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
    for number, ((shape, chunks), name) in enumerate(itertools.product(shapes, NAMES)):
        yield name, shape, chunks, filters[number % 3] if chunks else {}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Stored]]:
    path = tmp_path_factory.mktemp("space") / "space.h5"
    made = []
    with h5py.File(path, "w") as file:
        for number, (name, shape, chunks, options) in enumerate(_datasets()):
            data = values(FAST[name], shape, number)
            one = file.create_dataset(f"d{number}", data=data, chunks=chunks, **options)
            if chunks and number % 4 == 0:
                cut_edges(one, **options)
            made.append(Stored(f"/d{number}", data))
    return path, made


@pytest.fixture
def streamer(stored: tuple[Path, list[Stored]]) -> Iterator[multitables.Streamer]:
    """Opens the file, indexes a dataset and starts a reader once, not for each example."""
    with multitables.Streamer(stored[0]) as opened:
        yield opened


@dataclass(frozen=True)
class Wanted:
    """What is asked for, of which datasets."""

    datasets: list[int]
    kind: str
    options: dict[str, Any]


@st.composite
def a_stream(draw: st.DrawFn) -> Wanted:
    count = 8 * len(NAMES)
    kind = draw(st.sampled_from(["one", "one", "one", "tuple", "dict"]))
    size = 1 if kind == "one" else draw(st.integers(1, 3))
    return Wanted(
        draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size)),
        kind,
        {
            "n_procs": draw(st.integers(0, 3)),
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
def test_queues(
    stored: tuple[Path, list[Stored]], streamer: multitables.Streamer, wanted: Wanted
) -> None:
    _, datasets = stored
    chosen = [datasets[number] for number in wanted.datasets]
    options = wanted.options
    with streamer.get_queue(_paths(wanted, chosen), **options) as stream:
        size = stream.block_size
        if options["block_size"] is not None:
            assert size == options["block_size"]
        for begin, length in _spans(size, options):
            guard = stream.get()
            with guard as block:
                parts = {"one": lambda b: [b], "tuple": list, "dict": lambda b: list(b.values())}
                arrays = parts[wanted.kind](block)
                for array, one in zip(arrays, chosen, strict=True):
                    same(array, _wanted(one.rows, begin, length))
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


def _wanted(rows: np.ndarray, begin: int, length: int) -> np.ndarray:
    return rows[(begin + np.arange(length)) % len(rows)]


@pytest.mark.hang(180)
@space
@given(a_stream())
def test_generators(
    stored: tuple[Path, list[Stored]], streamer: multitables.Streamer, wanted: Wanted
) -> None:
    _, datasets = stored
    chosen = [datasets[number] for number in wanted.datasets]
    options = {**wanted.options, "remainder": True}
    rows = streamer.get_generator(_paths(wanted, chosen), **options)
    limit = 230 if options["cyclic"] else 102
    count = 0
    for row in itertools.islice(rows, limit):
        parts = (
            [row] if wanted.kind == "one" else list(row.values() if wanted.kind == "dict" else row)
        )
        for part, one in zip(parts, chosen, strict=True):
            same(np.asarray(part), np.asarray(one.rows[count % 101]))
        count += 1
    rows.close()
    assert count == (230 if options["cyclic"] else 101)


@pytest.mark.hang(180)
@settings(parent=space, max_examples=60)
@given(st.integers(0, 8 * len(NAMES) - 1), st.integers(1, 250))
def test_remainders(
    stored: tuple[Path, list[Stored]],
    streamer: multitables.Streamer,
    number: int,
    block_size: int,
) -> None:
    one = stored[1][number]
    tail = streamer.get_remainder(one.name, block_size)
    begin = 101 // block_size * block_size
    same(tail, one.rows[begin:])


@pytest.mark.hang(180)
@settings(parent=space, max_examples=60)
@given(st.sampled_from(sorted(COLUMN)), st.integers(0, 7), st.integers(1, 200), st.booleans())
def test_fields(
    stored: tuple[Path, list[Stored]],
    streamer: multitables.Streamer,
    kind: str,
    shape: int,
    block_size: int,
    cyclic: bool,
) -> None:
    one = stored[1][shape * len(NAMES) + NAMES.index(kind)]
    field = COLUMN[kind]
    rows = np.ascontiguousarray(one.rows[field])
    with streamer.get_queue(
        one.name, n_procs=1, block_size=block_size, cyclic=cyclic, remainder=True, field=field
    ) as stream:
        for begin, length in _spans(block_size, {"cyclic": cyclic, "remainder": True}):
            with stream.get() as block:
                same(block, _wanted(rows, begin, length))
            del block


class Layout(NamedTuple):
    """How one dataset is stored."""

    shape: tuple[int, ...]
    kind: str
    chunks: tuple[int, ...]
    #: Of each dimension: the same, more, or without end.
    limits: str
    libver: str
    early: bool
    #: Partial chunks stay unfiltered.
    plain_edges: bool
    filters: tuple[str, ...]
    fill: bool


@st.composite
def a_layout(draw: st.DrawFn) -> Layout:
    shape = tuple(draw(st.lists(st.integers(1, 30), min_size=1, max_size=4)))
    kind = draw(st.sampled_from(["chunked"] * 6 + ["contiguous", "compact"]))
    libver = draw(st.sampled_from(["earliest", "v108", "v110", "latest"]))
    return Layout(
        shape,
        kind,
        tuple(draw(st.integers(1, n)) for n in shape),
        "".join(draw(st.sampled_from("=>*")) for _ in shape),
        libver,
        draw(st.booleans()),
        draw(st.booleans()),
        tuple(name for name in ("shuffle", "deflate", "fletcher32") if draw(st.booleans())),
        draw(st.booleans()),
    )


def made_in(file: Any, layout: Layout, dtype: np.dtype) -> Any:
    how, limits = prepared(layout.kind, layout.chunks), layout.shape
    if layout.kind == "chunked":
        how += [FILTERS[name] for name in layout.filters]
        if layout.plain_edges and layout.libver in ("v110", "latest"):
            how.append(plain_edges)
        if layout.early:
            how.append(lambda plist: plist.set_alloc_time(h5d.ALLOC_TIME_EARLY))
        more = {"=": lambda n: n, ">": lambda n: n + 7, "*": lambda n: h5s.UNLIMITED}
        limits = tuple(more[c](n) for c, n in zip(layout.limits, layout.shape, strict=True))
    if layout.fill and dtype.names is None and dtype.kind in "iuf":
        how.append(lambda plist: plist.set_fill_value(np.array(7, dtype)))
    return create(file, "x", dtype, layout.shape, *how, maxshape=limits)


def plain_edges(plist: Any) -> None:
    set_options = ctypes.CDLL(h5py.h5d.__file__).H5Pset_chunk_opts  # which h5py does not wrap
    set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
    assert set_options(plist.id, 2) >= 0


@pytest.mark.hang(240)
@settings(parent=space, max_examples=100)
@given(
    a_layout(),
    st.sampled_from(sorted(FAST)),
    st.integers(1, 40),
    st.lists(st.tuples(*[st.floats(0, 1)] * 2), max_size=4),
    st.data(),
)
def test_any_dataset(
    tmp_path_factory: pytest.TempPathFactory,
    layout: Layout,
    name: str,
    block_size: int,
    written: list[tuple[float, float]],
    data: st.DataObject,
) -> None:
    """However stored, partly written: equal to what h5py reads, or refused where its index lies."""
    path = tmp_path_factory.mktemp("any") / "any.h5"
    dtype, shape = FAST[name], layout.shape
    if layout.kind == "compact" and int(np.prod(shape)) * dtype.itemsize > 60_000:
        shape = (1,) * len(shape)
        layout = layout._replace(shape=shape)
    with h5py.File(path, "w", libver=layout.libver) as file:
        made = made_in(file, layout, dtype)
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
                same(block, want[at : at + len(block)])
                at += len(block)
            del block, guard
        assert at == len(want)
        assert stream.statistics()["library"] == {}
    key = data.draw(st.tuples(*[st.slices(n) for n in shape]))
    with multitables.Reader(path, n_procs=1) as reader:
        same(reader.request(reader.get_dataset("/x")[key]).get(), want[key])
        assert reader.statistics()["library_requests"] == 0
    path.unlink()
