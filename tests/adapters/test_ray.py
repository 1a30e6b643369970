"""`RayDatasource`: rows, blocks by chunk, and processes that read their own.

Law
---
1. Ray runs in scripts, as its processes and threads stay for a while. h5py says what is right.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import run_script

import multitables

if not importlib.util.find_spec("ray"):
    pytest.skip("could not import 'ray'", allow_module_level=True)

N_ROWS = 1003


@pytest.fixture
def path(h5: Path) -> Path:
    table = np.zeros(N_ROWS, [("a", ">i4"), ("s", "S4"), ("v", "f4", (2,))])
    table["a"], table["s"] = np.arange(N_ROWS), [b"%d" % (n % 50) for n in range(N_ROWS)]
    table["v"] = np.arange(2 * N_ROWS).reshape(-1, 2)
    with h5py.File(h5, "w") as file:
        images = np.arange(N_ROWS * 12, dtype="<i8").reshape(N_ROWS, 3, 4)
        file.create_dataset("images", data=images, chunks=(100, 3, 4), compression="gzip")
        file.create_dataset("table", data=table, chunks=(40,))
        file["labels"] = np.arange(N_ROWS)
        file["text"] = ["a", "b"]
        file["complex"] = np.zeros(3, "c8")
        file["none"] = np.zeros(0)
    return h5


SCRIPT = """
import os, sys, h5py, numpy as np, ray, multitables
path = sys.argv[1]
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
context = ray.data.DataContext.get_current()
context.enable_progress_bars = False
with h5py.File(path) as file:
    images, labels, table = file["images"][()], file["labels"][()], file["table"][()]

source = multitables.RayDatasource(path, {"i": "/images", "n": "/labels"})
data = ray.data.read_datasource(source, override_num_blocks=4)
found = {name: [] for name in "in"}
for batch in data.iter_batches(batch_size=64):
    for name, rows in batch.items():
        found[name].append(rows)
order = np.argsort(np.concatenate(found["n"]))
np.testing.assert_array_equal(np.concatenate(found["n"])[order], labels)
np.testing.assert_array_equal(np.concatenate(found["i"])[order], images)

rows = ray.data.read_datasource(multitables.RayDatasource(path, "/table")).take_all()
rows.sort(key=lambda row: row["a"])
assert [row["a"] for row in rows] == table["a"].tolist()
assert [row["s"] for row in rows] == [text.decode() for text in table["s"]]
np.testing.assert_array_equal(np.stack([row["v"] for row in rows]), table["v"])

def where(batch):
    return {"pid": np.full(1, os.getpid())}

pids = data.map_batches(where, batch_size=None).take_all()
assert os.getpid() not in {row["pid"] for row in pids}
empty = ray.data.read_datasource(multitables.RayDatasource(path, "/none"))
print(data.count(), empty.count())
ray.shutdown()
"""


@pytest.mark.hang(170)
def test_rows(path: Path) -> None:
    done = run_script(SCRIPT, path, flags=(), seconds=150)
    assert done.stdout.splitlines()[-1:] == [f"{N_ROWS} 0"], done.stderr


TASKS = """
import sys, multitables
source = multitables.RayDatasource(sys.argv[1], ("/images", "/labels"))
assert source.estimate_inmemory_data_size() == 1003 * 13 * 8
for parallelism in (1, 4, 100):
    tasks = source.get_read_tasks(parallelism)
    about = [task.metadata for task in tasks]
    print([one.num_rows for one in about])
    assert sum(one.size_bytes for one in about) == source.estimate_inmemory_data_size()
    assert about[0].input_files == (sys.argv[1],)
first, last = source.get_read_tasks(2)
print(*(block["labels"].to_numpy()[[0, -1]].tolist() for block in last()))
print(sum(block.num_rows for block in first()))
for path, options in (("/text", {}), ("/complex", {}), ("/table", {"field": "z"}), ("/x", {})):
    try:
        multitables.RayDatasource(sys.argv[1], path, **options)
    except multitables.MultitablesError as error:
        print(type(error).__name__)
"""


@pytest.mark.hang(100)
def test_tasks_are_ranges_of_whole_chunks(path: Path) -> None:
    done = run_script(TASKS, path, flags=(), seconds=90)
    assert done.stdout.splitlines() == [
        "[1003]",
        "[300, 300, 300, 103]",
        "[100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 3]",
        "[600, 1002]",
        "600",
        "UnsupportedDatasetError",
        "UnsupportedDatasetError",
        "MissingFieldError",
        "MissingDatasetError",
    ], done.stderr


def test_it_is_a_name_of_the_face() -> None:
    assert multitables.RayDatasource.__module__ == "multitables"
