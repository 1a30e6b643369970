"""Offsets that 32 bits do not hold: in the file, in the dataset, in rows, and on the tape.

1. Files are sparse: they are long, and take a few pages of a disk.
2. The oracle is h5py, for the rows that are looked at; only the tape needs gigabytes to pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import pytest
from elements import smooth
from oracle import fast
from payload import check, first_row

import multitables

BEYOND = 2**32 + 12_345  # bytes
ROW = np.dtype("<i4"), (1024,)  # 4 KiB
ROWS = 2**20 + 20
ROWS_OF_A_BLOCK = 1999  # of /raw, which it does not divide: 1 MB
WAYS = pytest.mark.parametrize("way", [{}, {"DRIVER": "H5FD_DIRECT"}], ids=["buffered", "direct"])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything lies behind 4 GiB of nothing, or has 4 GiB of nothing before its last rows."""
    path = tmp_path_factory.mktemp("large") / "large.h5"
    dtype, shape = ROW
    with h5py.File(path, "w") as file:
        file.create_dataset("padding", (BEYOND,), "u1")[-1] = 1  # allocates all of it
        x = smooth((300, 6))
        file["contiguous"] = x
        file.create_dataset("chunked", data=x, chunks=(40, 6))
        file.create_dataset("gzip", data=x, chunks=(40, 4), compression="gzip", fletcher32=True)
        tail = np.arange(30 * 1024, dtype=dtype).reshape(30, *shape)
        for name, options in {
            "long": {},
            "long_chunked": {"chunks": (8, *shape)},
            "long_gzip": {"chunks": (8, *shape), "compression": "gzip"},
        }.items():
            made = file.create_dataset(name, (ROWS, *shape), dtype, **options)
            made[-30:] = tail
        file.create_dataset("many_rows", (BEYOND,), "u1", chunks=(2**20,))[-5:] = range(5)
    assert path.stat().st_size > 2 * BEYOND
    assert path.stat().st_blocks * 512 < 2**26
    return path


@WAYS
@pytest.mark.parametrize("name", ["contiguous", "chunked", "gzip"])
def test_data_that_lies_behind_4_gib(large: Path, name: str, way: dict[str, Any]) -> None:
    fast(large, name, open_options=way)
    assert multitables.measure_limit(large, name, direct=bool(way)) > 0


@WAYS
@pytest.mark.parametrize("name", ["long", "long_chunked", "long_gzip"])
@pytest.mark.parametrize("block_size", [64, ROWS - 7])
def test_the_last_rows_of_more_than_4_gib(
    large: Path, name: str, block_size: int, way: dict[str, Any]
) -> None:
    rows = multitables.Streamer(large, **way).get_remainder(name, block_size)
    assert len(rows) == ROWS % block_size
    with h5py.File(large) as file:
        np.testing.assert_array_equal(rows, file[name][-len(rows) :])
    assert rows[-1, -1] == 30 * 1024 - 1


@WAYS
@pytest.mark.parametrize("name", ["many_rows", "padding"])
def test_more_rows_than_32_bits_hold(large: Path, name: str, way: dict[str, Any]) -> None:
    rows = multitables.Streamer(large, **way).get_remainder(name, 2**32)
    assert len(rows) == BEYOND % 2**32
    with h5py.File(large) as file:
        np.testing.assert_array_equal(rows, file[name][2**32 :])
    assert rows[-1]


@WAYS
def test_a_tape_longer_than_4_gib(numbered: Path, way: dict[str, Any]) -> None:
    at = 0
    with multitables.Streamer(numbered, **way).get_queue(
        "/raw", n_procs=2, cyclic=True, block_size=ROWS_OF_A_BLOCK
    ) as stream:
        for number, guard in enumerate(stream):
            with guard as block:
                assert first_row(block) == at
                late = number * block.nbytes > 2**32
                if late or number % 100 == 0:
                    check(block, at)
                at = (at + len(block)) % payload.ROWS
            del block, guard
            if late and at < ROWS_OF_A_BLOCK:  # over the end of the dataset once more
                break
