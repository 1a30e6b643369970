"""A `Dataset` where other libraries take something that is indexed: NumPy, dask, torch.

Law
---
1. Each library runs in a script, as the threads that it makes stay; where it is not installed, its
   test is skipped.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import h5py
import handle_reading
import numpy as np
import pytest
from elements import smooth
from processes import run_script

import multitables

SUPPORT = str(Path(handle_reading.__file__).parent)
DATA = smooth((500, 40, 8))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("handle") / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=DATA, chunks=(7, 40, 8), compression=1)
    return path


def needs(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")


def test_numpy(path: Path) -> None:
    with multitables.open(path) as file:
        assert (np.asarray(file["x"]) == DATA).all()
        assert np.concatenate([file["x"], file["x"]]).sum() == 2 * DATA.sum()
        assert np.mean(file["x"]) == DATA.mean()


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask(path: Path, scheduler: str) -> None:
    needs("dask")
    done = run_script(
        "import sys, dask, dask.array as da, multitables\n"
        "with multitables.open(sys.argv[1]) as file:\n"
        "    array = da.from_array(file['x'], chunks=(150, 20, 8))\n"
        "    with dask.config.set(scheduler=sys.argv[2], num_workers=2):\n"
        "        print(int(array.sum().compute()), int(array[::7, 3].max().compute()))\n",
        path,
        scheduler,
        flags=(),
    )
    assert done.stdout == f"{DATA.sum(dtype=int)} {DATA[::7, 3].max()}\n", done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_loader_of_torch(path: Path, method: str) -> None:
    """The whole migration from h5py: the handle is made once, and the loader shares it out."""
    needs("torch")
    done = run_script(
        "import sys\n"
        f"sys.path.insert(0, {SUPPORT!r})\n"
        "import handle_reading, multitables, torch\n"
        "file = multitables.open(sys.argv[1])\n"
        "file['x'][0]\n"
        "loader = torch.utils.data.DataLoader(handle_reading.Rows(file['x']), 50, num_workers=2,\n"
        "    multiprocessing_context=sys.argv[2])\n"
        "print(sum(int(batch.sum()) for batch in loader))\n",
        path,
        method,
        seconds=55,
        flags=(),
    )
    assert done.stdout == f"{DATA.sum(dtype=int)}\n", done.stderr
