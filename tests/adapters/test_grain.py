"""`GrainSource` and `GrainDataset`, with Grain itself.

1. A test with processes of Grain, which are new interpreters, is a script.
"""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import pytest
from loaders import each_once, rows_of
from processes import children, run_script

grain = pytest.importorskip("grain")

import multitables  # noqa: E402 - Grain may be missing

BATCH = 100
PROCESSES = """
import sys
import grain, numpy as np
from absl import flags
import multitables

if __name__ == "__main__":
    flags.FLAGS.mark_as_parsed()
    source = multitables.GrainSource(sys.argv[1], "/labels", n_procs=1)
    loader = grain.load(
        source, num_epochs=1, worker_count=2, batch_size=500, shuffle=True, seed=1
    )
    found = np.concatenate(list(loader))
    assert np.array_equal(np.sort(-found.astype(int)), np.arange(6000)), found
    source.close()
    dataset = multitables.GrainDataset(sys.argv[1], "/labels", 500, shuffle=True, epochs=1)
    dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    iterator = iter(dataset)
    head = [next(iterator) for _ in range(5)]
    state = iterator.get_state()
    rest = list(iterator)
    assert np.array_equal(np.sort(-np.concatenate(head + rest).astype(int)), np.arange(6000))
    iterator.close()
    iterator = iter(dataset)
    iterator.set_state(state)
    assert np.array_equal(np.concatenate(list(iterator)), np.concatenate(rest))
    iterator.close()
    print("all")
"""


def source(path: Path, which: Any = "/rows", **options: Any) -> Any:
    return multitables.GrainSource(path, which, **{"n_procs": 1, **options})


def dataset(path: Path, which: Any = "/rows", **options: Any) -> Any:
    return multitables.GrainDataset(path, which, BATCH, **{"shuffle": True, **options})


def test_rows_are_those_of_h5py(numbered: Path) -> None:
    found = source(numbered, {"x": "/rows", "y": "/labels"})
    assert isinstance(found, grain.sources.RandomAccessDataSource)
    with h5py.File(numbered) as file:
        assert len(found) == len(file["rows"])
        for row in (0, 17, payload.ROWS - 1):
            assert np.array_equal(found[row]["x"], file["rows"][row])
            assert found[row]["y"] == file["labels"][row]
        wanted = file["rows"][:][[5, 3, 900]]
        several = found._getitems([5, 3, 900])
        assert np.array_equal([one["x"] for one in several], wanted)
        assert np.array_equal(found[-1]["x"], file["rows"][-1])
    with pytest.raises(IndexError):
        found[payload.ROWS]
    found.close()


def test_elements_are_kept_beyond_the_readers_memory(numbered: Path) -> None:
    """Grain's buffers hold more than the readers' memory has room for."""
    found = source(numbered, memory_limit_bytes=1 << 20)
    kept = [found[row] for row in range(0, payload.ROWS, 2)]
    assert all(payload.first_row(one[None]) == 2 * at for at, one in enumerate(kept))
    found.close()


def test_threads_share_the_readers(numbered: Path) -> None:
    found = source(numbered, n_procs=2)
    with ThreadPoolExecutor(16) as pool:
        rows = list(pool.map(found.__getitem__, range(200)))
    assert np.array_equal(rows, payload.content()[:200])
    assert len(children()) == 2
    found.close()
    assert not children()


def test_grain_chooses(numbered: Path) -> None:
    found = source(numbered)
    chosen = grain.MapDataset.source(found).shuffle(seed=3).batch(BATCH)
    rows = rows_of(chosen)
    assert each_once(rows)
    assert np.array_equal(rows, rows_of(chosen))
    iterator = iter(chosen.to_iter_dataset())
    head = rows_of(next(iterator) for _ in range(7))
    state = iterator.get_state()
    rest = rows_of(iterator)
    iterator.set_state(state)
    assert np.array_equal(rows_of(iterator), rest)
    assert each_once(np.concatenate([head, rest]))
    iterator.close()
    found.close()


def test_a_copy_reads_the_same(numbered: Path) -> None:
    found = source(numbered, "/labels")
    assert found[7] == -7
    copy = pickle.loads(pickle.dumps(found))
    assert repr(copy) == repr(found)
    assert copy[7] == -7
    copy.close()
    found.close()


def test_every_row_comes_once_in_each_epoch(numbered: Path) -> None:
    rows = rows_of(dataset(numbered, epochs=2))
    halves = rows[: payload.ROWS], rows[payload.ROWS :]
    assert all(map(each_once, halves))
    assert not np.array_equal(*halves)
    loader = multitables.Streamer(numbered).get_batches("/rows", BATCH, shuffle=True)
    assert np.array_equal(halves[0], loader.order(0))
    assert np.array_equal(halves[0], rows_of(multitables.GrainDataset(loader)))
    loader.close()


@pytest.mark.parametrize("epochs", [1, 2])
def test_it_resumes_again_and_again(numbered: Path, epochs: int) -> None:
    data = dataset(numbered, epochs=epochs)
    whole, found, state = rows_of(data), np.zeros(0, int), None
    for turn in (1, 30, 29, 0):
        iterator = iter(data)
        if state is not None:
            iterator.set_state(json.loads(json.dumps(state)))
        found = np.concatenate([found, rows_of(next(iterator) for _ in range(turn))])
        state = iterator.get_state()
        iterator.close()
    iterator = iter(data)
    iterator.set_state(state)  # at the end of the first epoch
    assert np.array_equal(np.concatenate([found, rows_of(iterator)]), whole)


def test_ranks_share_the_rows(numbered: Path) -> None:
    rows = [rows_of(dataset(numbered, rank=rank, world_size=2)) for rank in range(2)]
    assert each_once(np.concatenate(rows))


def test_transformations_of_grain(numbered: Path) -> None:
    data = dataset(numbered, ("/rows", "/labels")).map(lambda one: one[0][one[1] % 2 == 0])
    assert np.array_equal(np.sort(rows_of(data)), np.arange(0, payload.ROWS, 2))


def test_processes_of_grain(numbered: Path) -> None:
    done = run_script(PROCESSES, numbered, seconds=100)
    assert done.stdout.endswith("all\n"), done.stderr


def test_what_is_refused(numbered: Path, tmp_path: Path) -> None:
    with pytest.raises(multitables.MissingFileError):
        len(source(tmp_path / "none.h5"))
    with pytest.raises(multitables.MissingFileError):
        next(iter(dataset(tmp_path / "none.h5")))
    with pytest.raises(multitables.MissingDatasetError):
        source(numbered, "/none")[0]
    with pytest.raises(multitables.OptionsError, match="bfloat16"):
        source(numbered, dtype="bfloat16")
    loader = multitables.Streamer(numbered).get_batches("/rows", BATCH)
    with pytest.raises(multitables.OptionsError, match="is given alone"):
        multitables.GrainDataset(loader, "/rows")
    with pytest.raises(TypeError, match="a file, a path and a batch_size"):
        multitables.GrainDataset(numbered)
    iterator = iter(dataset(numbered))
    with pytest.raises(multitables.OptionsError):
        iterator.set_state({"version": 0})
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
