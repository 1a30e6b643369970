"""A `Dataset` in other processes and in threads.

Law
---
1. What is read there equals what h5py reads here.
2. A process started by forkserver leaves its server, so that is a script of its own.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import handle_reading
import numpy as np
import pytest
from elements import smooth
from handle_reading import sums
from processes import run_script

import multitables

SUPPORT = str(Path(handle_reading.__file__).parent)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("handle") / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=smooth((500, 40, 8)), chunks=(7, 40, 8), compression=1)
        file.create_dataset("rows", data=np.arange(3000), chunks=(100,), compression="lzf")
    return path


@pytest.fixture(scope="module")
def want(path: Path) -> list[Any]:
    data = smooth((500, 40, 8))
    return sums(data)


@pytest.mark.parametrize("reads_first", [False, True], ids=["new", "used before"])
def test_fork(path: Path, want: list[Any], reads_first: bool) -> None:
    """A child has threads of its own; the parent's go on."""
    file = multitables.open(path, n_threads=3)
    dataset = file["x"]
    if reads_first:
        dataset[...]
    theirs, ours = multiprocessing.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        child = multiprocessing.get_context("fork").Process(
            target=handle_reading.answer, args=(ours, dataset)
        )
        child.start()
    ours.close()
    assert theirs.recv() == want
    child.join()
    child.close()
    theirs.close()
    assert sums(dataset) == want
    file.close()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_new_interpreters(path: Path, want: list[Any], method: str) -> None:
    """A dataset, its views and its file travel as names and a fingerprint."""
    done = run_script(
        "import multiprocessing, sys\n"
        f"sys.path.insert(0, {SUPPORT!r})\n"
        "import handle_reading, multitables\n"
        "context = multiprocessing.get_context(sys.argv[2])\n"
        "with multitables.open(sys.argv[1]) as file, context.Pool(2) as pool:\n"
        "    print(*pool.apply(handle_reading.sums, (file['x'],)))\n"
        "    view = file['x'].astype('f8')\n"
        "    print(*pool.apply(handle_reading.sums, (view, [0, slice(3)])))\n"
        "    pool.close()\n"
        "    pool.join()\n",
        path,
        method,
        seconds=50,
    )
    as_floats = sums(smooth((500, 40, 8)).astype("f8"), [0, slice(3)])
    lines = [" ".join(map(str, numbers)) for numbers in (want, as_floats)]
    assert done.stdout.splitlines() == lines, done.stderr


def test_a_file_that_changed_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "changed.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(5)
    with multitables.open(path) as file:
        dataset = file["x"]
        os.utime(path, ns=(1, 1))
        done = run_script(
            "import pickle, sys\n"
            "try: pickle.loads(bytes.fromhex(sys.argv[1]))\n"
            "except Exception as error: print(type(error).__name__)",
            pickle.dumps(dataset).hex(),
        )
    assert done.stdout == "FileChangedError\n", done.stderr
    del dataset


def test_threads(path: Path) -> None:
    """Any number of threads read through one handle, and through handles of their own."""
    data, rows = smooth((500, 40, 8)), np.arange(3000)
    with multitables.open(path, n_threads=2, cache_bytes=1 << 20) as file:
        start = threading.Barrier(6)

        def read(seed: int) -> bool:
            rng = np.random.default_rng(seed)
            start.wait()
            ours = file if seed % 2 else multitables.open(path, n_threads=2, cache_bytes=1 << 20)
            good = True
            for _ in range(60):
                row, some = int(rng.integers(500)), np.sort(rng.choice(3000, 20, replace=False))
                good &= bool((ours["x"][row] == data[row]).all())
                good &= bool((ours["rows"][some] == rows[some]).all())
                good &= bool((ours["x"][row : row + 30, 3:5] == data[row : row + 30, 3:5]).all())
            return good

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(read, range(6)))
    gc.collect()


def test_forks_beside_threads_that_read(path: Path) -> None:
    """A child reads on, with any lock that a thread of its parent held at the fork."""
    done = run_script(
        f"""
import os, sys, threading, warnings
sys.path.insert(0, {SUPPORT!r})
import handle_reading, multitables
warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
file = multitables.open(sys.argv[1], n_threads=2, cache_bytes=1 << 20)
want = handle_reading.sums(file["x"])
stop = threading.Event()
def read():
    while not stop.is_set():
        assert handle_reading.sums(file["x"]) == want
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        good = handle_reading.sums(file["x"]) == want
        with multitables.open(sys.argv[1]) as other:
            good &= handle_reading.sums(other["x"]) == want
        os._exit(not good)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end="")
stop.set()
for thread in threads:
    thread.join()
""",
        path,
        seconds=50,
    )
    assert done.stdout == "0" * 20, done.stderr
    assert done.returncode == 0, done.stderr
