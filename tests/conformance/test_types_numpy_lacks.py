"""Numbers that NumPy lacks, and compounds laid out in any way, through every entry point.

Law
---
1. Types and stored bytes are drawn; what they mean is calculated by `odd_types`, and for numbers
   alone HDF5's own conversion says it, too.
2. Every way of reading has the same dtype, and no two fields of it overlap.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from datasets_of_files import create, prepared
from h5py import h5a, h5d, h5s
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from odd_types import NUMBERS, TYPES, Kind

import multitables
from _multitables.index.datasets.source import Source

MANY = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
N_ROWS = 23
#: Where values stay in their places, it is HDF5 that converts them for a library.
AS_HDF5 = TYPES.filter(lambda kind: not kind.has_odd_zeros)


def same(got: Any, want: Any, where: str) -> None:
    """The same numbers in every field, with signs and NaNs; bytes between fields are free."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, where
    if want.dtype.names is not None:
        assert got.dtype.names == want.dtype.names, where
        for name in want.dtype.names:
            same(got[name], want[name], f"{where}, field {name}")
        return
    assert got.dtype == want.dtype, where
    for ours, theirs in (got.real, want.real), (got.imag, want.imag):
        np.testing.assert_array_equal(ours, theirs, where)
        if want.dtype.kind in "fc":
            np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs), where)


def stored(file: h5py.File, name: str, kind: Kind, shape: tuple[int, ...], elements: bytes) -> None:
    """Store elements as they are, and the first one as an attribute of this name."""
    layout = ["contiguous", "chunked", "compressed"][int(name[-1]) % 3]
    chunks = tuple(max(1, extent // 3) for extent in shape)
    made = create(
        file.require_group(Path(name).parent.as_posix()),
        Path(name).name,
        kind.stored,
        shape,
        *prepared(layout, chunks),
    )
    data = np.frombuffer(elements, np.uint8).copy()
    made.id.write(h5s.ALL, h5s.ALL, data, kind.stored)
    first = data[: kind.size].copy()
    h5a.create(file.id, name.encode(), kind.stored, h5s.create(h5s.SCALAR)).write(
        first, kind.stored
    )


def chosen(rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The fields of rows, by their paths."""
    dtype = rows.dtype
    for name in dtype.names or ():
        yield name, rows[name]
        yield from ((f"{name}/{inner}", part) for inner, part in chosen(rows[name]))


def ways(path: Path, name: str, wanted: np.ndarray) -> None:
    fields = list(chosen(wanted))
    with multitables.open(path) as file:
        found = file[name]
        dtype = found.dtype
        same(found[...], wanted, f"open, {found!r}")
        same(found[1::2], wanted[1::2], "open, some rows")
        same(file.attrs[name], wanted.reshape(-1, *wanted.shape[1:])[0] if dtype.shape else
             wanted.reshape(-1)[0], "an attribute")  # fmt: skip
        for field, rows in fields:
            if "/" not in field and not dtype.shape:  # of arrays, h5py reads no field
                same(found[field], rows, f"open, {field}")
        if len(dtype.names or ()) > 1:
            names = list(dtype.names[:2])
            got = found[names]
            for one in names:
                same(got[one], wanted[one], f"open, {names}")
    with multitables.Streamer(path) as streamer:
        for field, rows in [(None, wanted), *fields]:
            with streamer.get_queue(name, field=field, n_procs=1, remainder=True) as queue:
                parts = [guard.__enter__().copy() for guard in queue]
            same(np.concatenate(parts, dtype=parts[0].dtype), rows, f"queue, {field}")
            if field is None and not dtype.shape:
                assert parts[0].dtype == dtype, "queue and open"
            assert queue.statistics()["library"] == {}, f"queue, {field}"
        with streamer.get_batches(name, 7, shuffle="window", window_rows=9, n_procs=1) as batches:
            order = batches.order(0)
            found = [batch.copy() for batch in batches]
        same(np.concatenate(found, dtype=found[0].dtype), wanted[order], "batches")
        rows = list(streamer.get_generator(name, n_procs=1))
        same(np.stack(rows).astype(wanted.dtype), wanted, "generator")
    with multitables.Reader(path, n_procs=1) as reader:
        whole = reader.get_dataset(name)
        same(reader.request(whole[::-2]).get(), wanted[::-2], "Reader")
        for field, rows in fields:
            if "/" not in field:
                same(reader.request(whole[field]).get(), rows, f"Reader, {field}")


@pytest.mark.hang(300)
@settings(MANY, max_examples=12)
@given(st.lists(TYPES, min_size=3, max_size=3), st.randoms(use_true_random=False))
def test_any_layout(h5: Path, kinds: list[Kind], random: Any) -> None:
    with h5py.File(h5, "w") as file:
        wanted = {}
        for number, kind in enumerate(kinds):
            elements = random.randbytes(N_ROWS * kind.size)
            name = f"item/{number}"
            stored(file, name, kind, (N_ROWS,), elements)
            wanted[name] = kind.values(elements)
        kind = kinds[0]
        h5d.create(file.id, b"zeros", kind.stored, h5s.create_simple((4,)))
    for name, rows in wanted.items():
        ways(h5, name, rows)
    with multitables.open(h5) as file:
        zeros = kind.values(bytes(kind.size))
        same(file["zeros"].fillvalue, zeros[0], "the fill value")
        same(file["zeros"][...], np.concatenate([zeros] * 4, dtype=zeros.dtype), "never written")
    with multitables.Streamer(h5).get_collection("/*/*", n_procs=1) as collection:
        (item,) = collection
        for name, rows in wanted.items():
            same(item[name.removeprefix("item/")], rows, f"collection, {name}")


@pytest.mark.hang(300)
@settings(MANY, max_examples=6)
@given(st.lists(AS_HDF5, min_size=2, max_size=2), st.randoms(use_true_random=False))
def test_any_layout_by_a_library(h5: Path, kinds: list[Kind], random: Any) -> None:
    """HDF5 reads stored elements; the core converts what changes its place."""
    with h5py.File(h5, "w") as file:
        wanted = []
        for number, kind in enumerate(kinds):
            elements = random.randbytes(N_ROWS * 2 * kind.size)
            stored(file, f"{number}", kind, (N_ROWS, 2), elements)
            rows = kind.values(elements)
            wanted.append(rows.reshape(N_ROWS, 2, *rows.shape[1:]))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", multitables.SlowFilterWarning)
        patch.setattr(Source, "_reason", lambda *_: "a test wants it")
        with multitables.Streamer(h5) as streamer, multitables.Reader(h5, n_procs=1) as reader:
            for number, rows in enumerate(wanted):
                name = f"{number}"
                fields = [field for field in chosen(rows) if "/" not in field[0]]
                for field, part in [(None, rows), *fields]:
                    with streamer.get_queue(name, field=field, n_procs=1, remainder=True) as queue:
                        parts = [guard.__enter__().copy() for guard in queue]
                    same(np.concatenate(parts, dtype=parts[0].dtype), part, f"queue, {field}")
                whole = reader.get_dataset(name)
                for key in (slice(3, 20, 4), [5, 2, 2, 9], (slice(None), 1), 4):
                    same(reader.request(whole[key]).get(), rows[key], f"Reader, {key}")
                for field, part in fields:
                    same(reader.request(whole[field][2:9]).get(), part[2:9], f"Reader, {field}")
        with multitables.open(h5) as file:
            for number, rows in enumerate(wanted):
                same(file[f"{number}"][2:9], rows[2:9], "open")


@settings(MANY, max_examples=150)
@given(NUMBERS, st.randoms(use_true_random=False))
def test_numbers_are_what_hdf5_says(h5: Path, kind: Kind, random: Any) -> None:
    """The oracle itself, and the library, against HDF5's conversion."""
    elements = random.randbytes(N_ROWS * kind.size)
    with h5py.File(h5, "w") as file:
        stored(file, "0", kind, (N_ROWS,), elements)
        try:
            theirs = file["0"][...]
        except TypeError:  # h5py has no dtype for integers of 3 bytes
            theirs = np.zeros(N_ROWS, kind.dtype)
            file["0"].id.read(h5s.ALL, h5s.ALL, theirs)
    if kind.has_odd_zeros:
        zeros = kind.values(elements) == 0
        theirs[zeros] = kind.values(elements)[zeros]
    same(kind.values(elements), theirs, kind.name)
    with multitables.open(h5) as file:
        same(file["0"][...], theirs, kind.name)
        assert file["0"][...].tobytes() == theirs.tobytes(), "NaNs as HDF5 writes them"
