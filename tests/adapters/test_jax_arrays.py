"""`jax_batches`: arrays of JAX that share the ring's memory where it lies at 64 bytes."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import pytest
import several_files
from loaders import damaged

jax = pytest.importorskip("jax")

import multitables  # noqa: E402 - JAX may be missing

ROWS, COLUMNS = 2000, 16


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/x, whose rows have 64 bytes; /y, of 2 bytes each; /z, in the other byte order."""
    path = tmp_path_factory.mktemp("jax") / "floats.h5"
    with h5py.File(path, "w") as file:
        x = np.arange(ROWS * COLUMNS, dtype="f4").reshape(ROWS, COLUMNS)
        file.create_dataset("x", data=x, chunks=(50, COLUMNS), compression="gzip")
        file.create_dataset("y", data=np.arange(ROWS, dtype="i2"), chunks=(50,))
        file.create_dataset("z", data=np.arange(ROWS, dtype=">i4"), chunks=(50,))
        file["s"] = np.array([b"abc"] * 10)
    return path


def rows_of(batches: Any) -> np.ndarray:
    found = []
    for batch in batches:
        array = np.asarray(batch)
        first = array[:, 0].astype(int)
        assert np.array_equal(array, first[:, None] + np.arange(COLUMNS))
        found.append(first // COLUMNS)
    return np.concatenate(found)


def test_several_files(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [several_files.Part(n) for n in (13, 24, 0, 9)])
    with multitables.jax_batches(names, "/x", 7, n_procs=1) as batches:
        found = [np.array(batch) for batch in batches]
    assert np.array_equal(np.concatenate(found), several_files.read(names))


def test_every_row_comes_once_and_epochs_follow(floats: Path) -> None:
    with multitables.jax_batches(floats, "/x", 64, shuffle=True, n_procs=2) as batches:
        assert len(batches) == -(-ROWS // 64)
        first = rows_of(batches)
        assert batches.epoch == 1
        second = rows_of(batches)
        batches.set_epoch(0)
        again = rows_of(batches)
    assert np.array_equal(np.sort(first), np.arange(ROWS))
    assert np.array_equal(np.sort(second), np.arange(ROWS))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, again)


def test_an_array_is_the_memory_of_the_ring(floats: Path) -> None:
    with multitables.jax_batches(floats, "/x", 64, n_procs=1) as batches:
        iterator = iter(batches)

        def held() -> int:
            gc.collect()
            return int(batches.batches.statistics()["blocks_held"])

        batch = next(iterator)
        [(address, n_bytes, _)] = batches.batches._bookmark.latest().memory()
        assert address <= batch.unsafe_buffer_pointer() < address + n_bytes
        assert batch.dtype == np.float32
        assert held() == 1
        total = jax.jit(lambda x: x.sum())(batch)
        for _ in range(3):
            next(iterator)
        assert float(total) == float(batch.sum())
        assert held() == 1
        del batch, total
        assert held() == 0
        del iterator


def test_what_lies_elsewhere_is_copied(floats: Path) -> None:
    """Batches of 33 rows of 2 bytes do not begin at 64 bytes; the block goes back at once."""
    with multitables.jax_batches(floats, ("/y", "/z"), 33, n_procs=1) as batches:
        at = 0
        kept = []
        for y, z in batches:
            assert np.array_equal(np.asarray(y), np.arange(at, at + len(y)))
            assert np.array_equal(np.asarray(z), np.arange(at, at + len(z)))
            at += len(y)
            kept.append(z)
        assert at == ROWS
        assert [int(z[0]) for z in kept] == list(range(0, ROWS, 33))


def test_a_state_goes_on_where_it_was_taken(floats: Path) -> None:
    def made() -> Any:
        return multitables.jax_batches(floats, {"x": "/x"}, 64, shuffle=True, epochs=2, n_procs=1)

    whole = rows_of(batch["x"] for batch in made())
    batches = made()
    iterator = iter(batches)
    head = rows_of(next(iterator)["x"] for _ in range(11))
    state = batches.state_dict()
    del iterator, batches
    batches = made()
    batches.load_state_dict(state)
    tail = rows_of(batch["x"] for batch in batches)
    assert np.array_equal(np.concatenate([head, tail]), whole)


def test_a_transform_gets_arrays(floats: Path) -> None:
    device = jax.devices()[0]
    batches = multitables.jax_batches(
        floats, ("/x", "/y"), 50, n_procs=1, transform=lambda batch: jax.device_put(batch, device)
    )
    for x, y in batches:
        assert isinstance(x, jax.Array)
        assert np.array_equal(np.asarray(x)[:, 0] / COLUMNS, np.asarray(y))


def test_ranks_share_the_rows_out(floats: Path) -> None:
    parts = [
        rows_of(multitables.jax_batches(floats, "/x", 64, n_procs=1, rank=rank, world_size=2))
        for rank in range(2)
    ]
    assert np.array_equal(np.concatenate(parts), np.arange(ROWS))


def test_errors(floats: Path, h5: Path) -> None:
    with pytest.raises(multitables.UnsupportedDatasetError, match="JAX has no dtype for"):
        next(iter(multitables.jax_batches(floats, "/s", 5, n_procs=1)))
    with pytest.raises(multitables.OptionsError):
        multitables.jax_batches(floats, "/x", 0)
    with pytest.raises(multitables.CorruptChunkError):
        for _ in multitables.jax_batches(damaged(h5), "/rows", payload.CHUNK, n_procs=1):
            pass
