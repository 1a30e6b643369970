"""`tf_dataset`: batches through a generator of TensorFlow's."""

from __future__ import annotations

import gc
from pathlib import Path

import h5py
import numpy as np
import payload
import pytest
import several_files
from processes import run_script

pytest.importorskip("tensorflow")

# TensorFlow keeps threads and descriptors from its first use on, so it has a process of its own.
PROGRAM = """
import sys
import numpy as np
import h5py
import multitables
import tensorflow as tf

path, other, *several = sys.argv[1:]
data = multitables.tf_dataset(
    path, {"x": "/rows", "y": "/labels"}, 100, shuffle=True, n_procs=2, drop_last=True
)
assert data.element_spec["x"] == tf.TensorSpec((100, 64), tf.int64)
assert data.element_spec["y"] == tf.TensorSpec((100,), tf.int16)
orders = []
for epoch in range(2):
    rows = []
    for element in data.prefetch(2):
        x = element["x"].numpy()
        numbers = x[:, 0] // 64
        assert np.array_equal(x, numbers[:, None] * 64 + np.arange(64))
        assert np.array_equal(-element["y"].numpy(), numbers)
        rows.append(numbers)
    orders.append(np.concatenate(rows))
    assert np.array_equal(np.sort(orders[-1]), np.arange(6000))
assert not np.array_equal(*orders)
next(iter(data))

first, second = next(iter(multitables.tf_dataset(other, ("/big", "/text"), 7, n_procs=1)))
assert first.numpy().tolist() == list(range(7)) and second.numpy().tolist() == [b"ab"] * 7
assert multitables.tf_dataset(other, "/big", 7).element_spec.shape.as_list() == [None]
together = multitables.tf_dataset(several, "/y", 7, n_procs=1)
rows = [row for batch in together for row in batch.numpy()]
assert rows == [-row for row in range(33)]
clips = multitables.Clips(4, pad=0, mask="known")
clips = multitables.tf_dataset(path, {"x": "/rows"}, 5, n_procs=1, sample=clips)
assert clips.element_spec["known"] == tf.TensorSpec((None, 4), tf.bool)
element = next(iter(clips))
numbers = element["x"].numpy()[:, :, 0] // 64
assert np.array_equal(numbers, np.arange(5)[:, None] + np.arange(4))
try:
    multitables.tf_dataset(other, "/table", 7)
except multitables.UnsupportedDatasetError as error:
    print(error)
"""


@pytest.mark.hang(120)
def test_a_dataset_of_tensorflow(numbered: Path, h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["big"] = np.arange(20, dtype=">i4")
        file["text"] = np.array([b"ab"] * 20)
        file["table"] = np.zeros(20, [("a", "i4")])
    several = several_files.write(h5.parent, [several_files.Part(n) for n in (13, 20)])
    done = run_script(PROGRAM, numbered, h5, *several, seconds=110, flags=())
    assert done.stdout.startswith("TensorFlow has no dtype for [('a', '<i4')] of '/table'"), (
        done.stderr
    )
    assert payload.ROWS == 6000
    gc.collect()
