"""HDF5's own packings (scaleoffset, nbit, szip), bzip2, and numbers with unused bits, by the core.

1. h5py reads what each must equal. That no library was asked is checked too.
2. Types, digits, widths, fill values and shapes are drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from datasets_of_files import Dataset, Prepare, chunked, create
from h5py import h5t, h5z
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import h5py_read, same, streamed

import multitables
from multitables import Reader

ONE_FILE = settings(
    deadline=None,
    max_examples=6,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
INTEGERS = [order + kind for order in "<>" for kind in ("i1", "u1", "i2", "u2", "i4", "i8", "u8")]


def compared(h5: Path, rows: list[Dataset]) -> None:
    """By a stream, at random, and in this process."""
    with Reader(h5, n_procs=1) as reader, multitables.open(h5) as inside:
        for dataset in rows:
            want = h5py_read(h5, dataset.path)
            got, told = streamed(h5, dataset.path, n_procs=1)
            same(got, want)
            assert told["library"] == {}
            assert not any(counted["library_tasks"] for counted in told["readers"])
            same(reader.request(reader.get_dataset(dataset.path)[1::2]).get(), want[1::2])
            same(inside[dataset.path][...], want)
        assert reader.statistics()["library_requests"] == 0


@st.composite
def scaled(draw: Any) -> tuple[np.ndarray, list[Prepare]]:
    """Data, and what makes a dataset for it."""
    shape = draw(st.tuples(st.integers(2, 40), st.integers(1, 6)))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    chunks = draw(st.tuples(st.integers(1, 12), st.integers(1, 6)))
    how = [chunked(tuple(map(min, chunks, shape)))]
    if draw(st.booleans()):
        dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
        info, span = np.iinfo(dtype), draw(st.sampled_from([0, 1, 6, 100]))
        low = draw(st.sampled_from([info.min, 0, info.max - span]))
        data = (low + random.integers(0, span + 1, shape).astype(object)).astype(dtype)
        if draw(st.booleans()):
            data.flat[0], data.flat[-1] = info.min, info.max
        kind, factor = h5z.SO_INT, draw(st.sampled_from([0, 0, 3, 8 * dtype.itemsize]))
    else:
        dtype = np.dtype(draw(st.sampled_from(["<f4", ">f4", "<f8", ">f8"])))
        data = (random.normal(size=shape) * 10.0 ** draw(st.integers(-3, 5))).astype(dtype)
        kind, factor = h5z.SO_FLOAT_DSCALE, draw(st.integers(0, 5))
    # HDF5 reads random bytes where scaleoffset, told to leave data as they are, is one of several.
    alone = factor == 8 * dtype.itemsize and kind == h5z.SO_INT
    if not alone and draw(st.booleans()):
        how.append(lambda plist: plist.set_shuffle())
    how.append(lambda plist: plist.set_scaleoffset(kind, factor))
    if not alone and draw(st.booleans()):
        how += [lambda plist: plist.set_deflate(4), lambda plist: plist.set_fletcher32()]
    fill = draw(st.sampled_from([None, 0, 7, 99]))
    if fill is not None:
        how.append(lambda plist: plist.set_fill_value(np.array(fill, dtype)))
        data[random.random(shape) < 0.2] = fill
    return data, how


@pytest.mark.hang(180)
@ONE_FILE
@given(st.lists(scaled(), min_size=8, max_size=8))
def test_scaleoffset(h5: Path, drawn: list[tuple[np.ndarray, list[Prepare]]]) -> None:
    with h5py.File(h5, "w") as file:
        for number, (data, how) in enumerate(drawn):
            create(file, f"{number}", data.dtype, data.shape, *how)[...] = data
    with h5py.File(h5) as file:
        compared(h5, [Dataset(f"/{name}") for name in file if is_read(file[name])])


def is_read(made: h5py.Dataset) -> bool:
    """Whether HDF5 reads what it wrote: of some floats, scaled behind a shuffle, it does not."""
    try:
        made[...]
    except OSError:
        return False
    return True


@st.composite
def odd(draw: Any) -> h5t.TypeID:
    """An integer whose upper bits do not count."""
    size = draw(st.sampled_from([1, 2, 4, 8]))
    name = f"STD_{draw(st.sampled_from('IU'))}{8 * size}{draw(st.sampled_from(['LE', 'BE']))}"
    made = getattr(h5t, name).copy()
    made.set_precision(draw(st.integers(4 * size, 8 * size)))  # HDF5 refuses fewer
    return made


def compound(members: list[h5t.TypeID]) -> h5t.TypeID:
    made = h5t.create(h5t.COMPOUND, sum(member.get_size() + 1 for member in members))
    offset = 0
    for number, member in enumerate(members):
        made.insert(f"f{number}".encode(), offset, member)
        offset += member.get_size() + 1
    return made


TYPES = st.one_of(
    odd(),
    odd().map(lambda base: h5t.array_create(base, (2, 3))),
    st.lists(odd(), min_size=1, max_size=3).map(compound),
    st.tuples(odd(), st.sampled_from([h5t.IEEE_F32BE, h5t.IEEE_F64LE, h5t.STD_I16LE])).map(
        lambda members: compound([*members, h5t.array_create(members[0], (2,))])
    ),
)


@pytest.mark.hang(180)
@ONE_FILE
@given(st.lists(st.tuples(TYPES, st.integers(2, 50), st.booleans()), min_size=8, max_size=8))
def test_numbers_with_unused_bits(h5: Path, drawn: list[tuple[h5t.TypeID, int, bool]]) -> None:
    random = np.random.default_rng(5)
    rows = []
    with h5py.File(h5, "w") as file:
        for number, (kind, extent, packed) in enumerate(drawn):
            how = [chunked((max(1, extent // 3),))]
            if packed:
                how.append(lambda plist: plist.set_filter(5, 0, ()))
            made = create(file, f"{number}", kind, (extent,), *how)
            # Through the conversion, so that bits which do not count are as HDF5 leaves them.
            data = np.frombuffer(random.bytes(extent * made.dtype.itemsize), made.dtype)
            made[: extent - 1] = data[: extent - 1]
            rows.append(Dataset(f"/{number}"))
    compared(h5, rows)


def test_stored_bits_that_do_not_count(h5: Path) -> None:
    """Whatever they are in the file."""
    kind = h5t.STD_I16BE.copy()
    kind.set_precision(11)
    with h5py.File(h5, "w") as file:
        made = create(file, "x", kind, (300,), chunked((100,)))
        for at in (0, 200):
            noise = np.random.default_rng(at).bytes(200)
            made.id.write_direct_chunk((at,), noise)
    compared(h5, [Dataset("/x")])


def szip(coding: str, block: int) -> Prepare:
    mask = {"nn": h5z.SZIP_NN_OPTION_MASK, "ec": h5z.SZIP_EC_OPTION_MASK}[coding]
    return lambda plist: plist.set_szip(mask, block)


@st.composite
def riced(draw: Any) -> tuple[np.ndarray, list[Prepare]]:
    dtype = np.dtype(draw(st.sampled_from([*INTEGERS, "<f4", ">f8"])))
    shape = draw(st.tuples(st.integers(2, 40), st.integers(1, 150)))
    block = draw(st.sampled_from([2, 4, 8, 16, 32]))
    chunks = (draw(st.integers(1, shape[0])), shape[1])
    while np.prod(chunks) < block:
        block //= 2
    random = np.random.default_rng(draw(st.integers(0, 99)))
    scale = draw(st.sampled_from([0, 0.02, 1, 30, 120]))
    walk = np.cumsum(random.normal(scale=scale + 1e-9, size=shape), axis=1)
    data = (np.abs(walk) % 127).astype(dtype)
    if draw(st.booleans()):
        data = random.integers(0, 256, (*shape, dtype.itemsize)).astype("u1").view(dtype)[..., 0]
    how = [szip(draw(st.sampled_from(["nn", "ec"])), block)] if block >= 2 else []
    return data, [chunked(chunks), *how]


@pytest.mark.skipif(not h5z.get_filter_info(4) & 1, reason="this h5py writes no szip")
@pytest.mark.hang(180)
@ONE_FILE
@given(st.lists(riced(), min_size=12, max_size=12))
def test_szip(h5: Path, drawn: list[tuple[np.ndarray, list[Prepare]]]) -> None:
    with h5py.File(h5, "w") as file:
        for number, (data, how) in enumerate(drawn):
            create(file, f"{number}", data.dtype, data.shape, *how)[...] = data
    compared(h5, [Dataset(f"/{number}") for number in range(len(drawn))])


def test_bzip2(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for number, data in enumerate(
            (np.arange(40_000) % 1000, np.frombuffer(np.random.default_rng(1).bytes(9000), "u1"))
        ):
            for level in (1, 9):
                options = hdf5plugin.BZip2(blocksize=level)
                file.create_dataset(f"{number} {level}", data=data, chunks=(3333,), **options)
        names = list(file)
    compared(h5, [Dataset(f"/{name}") for name in names])
