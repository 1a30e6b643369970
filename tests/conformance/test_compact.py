"""Compact storage: the file has the rows among its metadata, and they travel with the plan.

1. No library reads them; the results are h5py's, whichever way they are asked for.
2. The file is looked at as for any other dataset: one that changed is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import FAST, values
from h5py import h5d, h5p, h5s, h5t
from indexes import index_of
from oracle import fast, h5py_read, same

import multitables
from multitables import FileChangedError

SHAPES = {"x": (40,), "y": (40, 3), "z": (40, 2, 5)}


def compact(file: Any, name: str, data: np.ndarray) -> None:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    kind = h5t.py_create(data.dtype, logical=True)
    made = h5d.create(file.id, name.encode(), kind, h5s.create_simple(data.shape), plist)
    h5py.Dataset(made)[...] = data


@pytest.fixture(params=["<i4", ">f8", "compound", "nested", "S7", "bool", "padded"])
def stored(h5: Path, request: pytest.FixtureRequest) -> Path:
    with h5py.File(h5, "w", userblock_size=512) as file:
        for name, shape in SHAPES.items():
            compact(file, name, values(FAST[request.param], shape))
        file.create_dataset("chunked", data=np.arange(40), chunks=(7,), compression="gzip")
    return h5


@pytest.mark.parametrize("name", SHAPES)
def test_streams(stored: Path, name: str) -> None:
    index = index_of(stored, name)
    assert (index.layout, index.reason) == ("contiguous", "")
    assert len(index.inline) == np.prod(SHAPES[name]) * index.element_bytes
    statistics = fast(stored, f"/{name}", block_size=3)
    assert statistics["readers"][0]["library_tasks"] == 0


def test_around_the_page_cache(stored: Path) -> None:
    for name in SHAPES:
        fast(stored, f"/{name}", block_size=3, open_options={"DRIVER": "H5FD_DIRECT"})


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_batches_beside_chunks(stored: Path, shuffle: str | None) -> None:
    want = {name: h5py_read(stored, name) for name in (*SHAPES, "chunked")}
    paths = {name: f"/{name}" for name in want}
    with multitables.Streamer(stored).get_batches(paths, 7, shuffle=shuffle, n_procs=2) as batches:
        order = batches.order(0)
        at = 0
        for batch in batches:
            for name, rows in batch.items():
                same(rows, want[name][order[at : at + len(rows)]])
            at += len(batch["x"])
        assert at == 40


def test_requests(stored: Path) -> None:
    with multitables.Reader(stored, n_procs=2) as reader:
        for name in SHAPES:
            want, dataset = h5py_read(stored, name), reader.get_dataset(f"/{name}")
            for key in (3, slice(2, 30, 3), [5, 5, 1], slice(None), (slice(4, 9), ..., -1)):
                if isinstance(key, tuple) and want.ndim == 1:
                    continue
                rows = np.asarray(want[key], want.dtype)  # of one number NumPy forgets the order
                same(reader.request(dataset[key]).get(), rows)
        assert reader.statistics()["library_requests"] == 0


def test_columns(h5: Path) -> None:
    data = values(FAST["nested"], (40,))
    with h5py.File(h5, "w") as file:
        compact(file, "x", data)
    for field in ("outer", "z", "s"):
        fast(h5, "/x", np.ascontiguousarray(data[field]), field=field)


def test_a_file_that_changed(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        compact(file, "x", np.arange(40))
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        with open(h5, "ab") as file:
            file.write(b"more")
        with pytest.raises(FileChangedError):
            reader.request(dataset[3]).get()
