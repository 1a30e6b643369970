"""Children of one process share the chunks that they decode.

1. A child that reads what another has read decodes nothing, and its values are the file's.
2. Where there is no memory to share, or no cache is wanted, each child reads for itself.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from _multitables import _core
from _multitables.parent.readers import siblings

SHAPE, CHUNK = (256, 40, 30), (8, 40, 30)
N_CHUNKS = SHAPE[0] // CHUNK[0]
VALUES = np.random.default_rng(1).integers(0, 99, SHAPE, "<i4")
DECODED = _core.COUNTERS.index("chunks")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared") / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=CHUNK, compression="gzip")
        file.create_dataset("y", data=VALUES + 1, chunks=CHUNK, compression="gzip")
    return path


@pytest.fixture(autouse=True)
def nothing_shared_yet() -> Iterator[None]:
    multitables.release_memory()
    yield
    multitables.release_memory()


def in_child(act: Callable[[], Any]) -> Any:
    """Return what `act` returns in a forked child."""
    end, begin = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(begin, json.dumps(act()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(begin)
    with os.fdopen(end) as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)


def decoded(path: Path, name: str = "x", **options: Any) -> int:
    """Read all of a dataset, and return how many chunks were decoded for it."""
    with multitables.open(path, n_threads=1, **options) as file:
        for row in range(0, SHAPE[0], 5):
            wanted = VALUES[row : row + 5] + (name == "y")
            np.testing.assert_array_equal(file[name][row : row + 5], wanted)
        np.testing.assert_array_equal(file[name][...], VALUES + (name == "y"))
        np.testing.assert_array_equal(file[name][:, 3], VALUES[:, 3] + (name == "y"))
        shared: Any = file._handle.shared
        return int(shared.reader.counters()[DECODED])


def test_what_one_child_decodes_the_others_copy(stored: Path) -> None:
    found = [in_child(lambda: decoded(stored)) for _ in range(3)]
    assert found[0] >= N_CHUNKS
    assert found[1:] == [0, 0]
    assert in_child(lambda: decoded(stored, "y")) >= N_CHUNKS


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_share(stored: Path, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with multitables.open(stored, n_threads=1) as file:
        for wanted in (N_CHUNKS, 0):
            results = context.Queue()
            child = context.Process(target=report, args=(file, file["y"], results))
            child.start()
            assert results.get(timeout=60) == wanted
            child.join()
            assert child.exitcode == 0
            child.close()
            results.close()
            results.join_thread()
            del child, results
            gc.collect()
    if method == "forkserver":
        multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]
    if method != "fork":
        multiprocessing.resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


def report(file: Any, dataset: Any, results: Any) -> None:
    """Read all of a dataset that came to this child, and say how many chunks were decoded."""
    for row in range(SHAPE[0]):
        np.testing.assert_array_equal(dataset[row], VALUES[row] + 1)
    results.put(file._handle.shared.reader.counters()[DECODED])


def test_children_of_children_share_too(stored: Path) -> None:
    def both() -> list[int]:
        return [decoded(stored), in_child(lambda: decoded(stored))]

    assert in_child(both)[1] == 0


def test_a_parent_decodes_for_itself(stored: Path) -> None:
    in_child(lambda: decoded(stored))
    assert decoded(stored) >= N_CHUNKS


def test_a_file_that_is_written_anew_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "data.h5"

    def write(values: Any) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, chunks=CHUNK, compression="gzip")

    def total() -> int:
        with multitables.open(path) as file:
            return sum(int(file["x"][row].sum()) for row in range(SHAPE[0]))

    for factor in (1, 2, 3):
        write(VALUES * factor)
        assert in_child(total) == int(VALUES.sum()) * factor


def test_without_a_cache_nothing_is_shared(stored: Path) -> None:
    found = [in_child(lambda: decoded(stored, cache_bytes=0)) for _ in range(2)]
    assert min(found) >= N_CHUNKS


def test_without_memory_to_share_each_child_decodes(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(siblings, "open_cache", lambda *_: 1 << 60)
    assert min(in_child(lambda: decoded(stored)) for _ in range(2)) >= N_CHUNKS
