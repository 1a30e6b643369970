"""Blocks in other libraries: the same memory, lent for as long as they keep it.

1. Each way in is checked alike: same address, block still held when only the library has it,
   contents unchanged while the ring is written to, given back when the library drops it.
2. CuPy is the same protocol as PyTorch's on a GPU's host memory; it cannot run here.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import payload
import pytest

import multitables


def by_numpy(block: np.ndarray) -> tuple[Any, int]:
    array = np.from_dlpack(block)
    return array, array.ctypes.data


def by_memoryview(block: np.ndarray) -> tuple[Any, int]:
    view = memoryview(block)
    return view, np.frombuffer(view, np.uint8).ctypes.data


def by_torch(block: np.ndarray) -> tuple[Any, int]:
    tensor = pytest.importorskip("torch").from_dlpack(block)
    return tensor, tensor.data_ptr()


def by_torch_from_numpy(block: np.ndarray) -> tuple[Any, int]:
    tensor = pytest.importorskip("torch").from_numpy(block)
    return tensor, tensor.data_ptr()


def by_jax(block: np.ndarray) -> tuple[Any, int]:
    # as 32 bits, because it would make those of 64 by default
    array = pytest.importorskip("jax").dlpack.from_dlpack(block.view("<i4"), copy=False)
    return array, array.unsafe_buffer_pointer()


def by_arrow_buffer(block: np.ndarray) -> tuple[Any, int]:
    buffer = pytest.importorskip("pyarrow").py_buffer(block)
    return buffer, buffer.address


def by_arrow_array(block: np.ndarray) -> tuple[Any, int]:
    array = pytest.importorskip("pyarrow").array(block.reshape(-1))
    return array, array.buffers()[1].address


def by_polars(block: np.ndarray) -> tuple[Any, int]:
    pytest.importorskip("pyarrow")  # only to ask where the series lies
    series = pytest.importorskip("polars").Series(block.reshape(-1))
    return series, series.to_arrow().buffers()[1].address


WAYS = [
    by_numpy, by_memoryview, by_torch, by_torch_from_numpy, by_jax, by_arrow_buffer,
    by_arrow_array, by_polars,
]  # fmt: skip


def numbers(kept: Any) -> np.ndarray:
    if type(kept).__module__.startswith("pyarrow") and hasattr(kept, "address"):
        kept = np.frombuffer(kept, "<i8")
    elif hasattr(kept, "to_numpy"):  # Arrow's and Polars'
        kept = kept.to_numpy()
    return np.asarray(kept).reshape(-1).view("<i8")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__[3:])
def test_a_library_takes_a_block_without_a_copy(
    numbered: Path, way: Callable[[np.ndarray], tuple[Any, int]]
) -> None:
    streamer = multitables.Streamer(numbered)
    with streamer.get_queue("/rows", n_procs=1, cyclic=True, read_ahead=20) as stream:

        def held() -> int:
            gc.collect()
            return int(stream.statistics()["blocks_held"])

        with stream.get() as block:
            address, want = block.ctypes.data, block.reshape(-1).copy()
            kept, found = way(block)
        assert found == address
        del block
        assert held() == 1
        room = stream.statistics()["ring_rows"] // payload.CHUNK
        for _ in range(room // 2):  # the readers write to all else that there is
            with stream.get() as block:
                payload.check(block)
            del block
        assert np.array_equal(numbers(kept), want)
        assert held() == 1
        del kept
        assert held() == 0


@pytest.mark.parametrize("way", [by_numpy, by_torch_from_numpy], ids=lambda way: way.__name__[3:])
def test_a_library_takes_a_batch_without_a_copy(
    numbered: Path, way: Callable[[np.ndarray], tuple[Any, int]]
) -> None:
    streamer = multitables.Streamer(numbered)
    with streamer.get_batches("/rows", 100, n_procs=1, shuffle=True) as batches:
        iterator = iter(batches)
        batch = next(iterator)
        address = batch.ctypes.data
        kept, found = way(batch)
        del batch
        assert found == address
        assert iterator.statistics()["blocks_held"] == 1
        del kept
        assert iterator.statistics()["blocks_held"] == 0
        del iterator
