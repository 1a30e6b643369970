"""Random access: files that are damaged, cut, written to or gone.

Law
---
1. A request fails alone, typed and with its place; other requests, and the Reader, go on.
2. Nothing hangs: whatever waits gets a result or an error.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from oracle import same
from payload import ROWS
from reader_cases import DATA

import multitables


def test_a_corrupt_chunk_fails_the_requests_that_need_it(h5: Path) -> None:
    images = np.arange(1000 * 64, dtype="f4").reshape(1000, 8, 8)
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("images", data=images, chunks=(64, 8, 8), fletcher32=True)
        stored = made.id.get_chunk_info_by_coord((192, 0, 0))
    with open(h5, "r+b") as raw:
        raw.seek(stored.byte_offset + 100)
        raw.write(b"oops")
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/images")
        for key in (slice(100, 200), 193, [5, 255, 999], slice(None)):
            with pytest.raises(multitables.CorruptChunkError, match="fletcher32") as caught:
                reader.request(dataset[key]).get()
            error = caught.value
            assert isinstance(error, OSError)
            assert (error.path, error.chunk_offset) == ("/images", (192, 0, 0))
            assert error.byte_offset == stored.byte_offset
            assert error.byte_range == (stored.byte_offset, stored.byte_offset + stored.size)
            assert "chunk (192, 0, 0)" in str(error)
            assert "other requests are not affected" in str(error)
        for key in (slice(0, 192), 256, [191, 256], slice(256, None)):
            same(reader.request(dataset[key]).get(), np.asarray(images[key]))
        del error, caught


def test_a_file_that_is_cut_short(numbered: Path, h5: Path) -> None:
    h5.write_bytes(numbered.read_bytes())
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/raw")
        same(reader.request(dataset[5]).get(), DATA[5])
        os.truncate(h5, h5.stat().st_size // 4)
        kinds = (multitables.FileChangedError, multitables.CorruptChunkError)
        with pytest.raises(kinds, match=r"data\.h5") as caught:
            reader.request(dataset[ROWS - 300 :]).get()
        assert isinstance(caught.value, OSError)
        del caught
    with pytest.raises(multitables.FileOpenError, match="truncated"):
        multitables.Reader(h5)


def test_a_file_that_is_written_to(numbered: Path, h5: Path) -> None:
    h5.write_bytes(numbered.read_bytes())
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/rows")
        same(reader.request(dataset[5]).get(), DATA[5])
        with h5py.File(h5, "r+") as file:
            file["rows"][1000:2000] = 0
        with pytest.raises(multitables.FileChangedError, match="changed after it was indexed"):
            reader.request(dataset[1500:1600]).get()
        again = reader.get_dataset("/rows")
        assert not reader.request(again[1500:1600]).get().any()


def test_a_column_of_a_file_that_was_written_to(h5: Path) -> None:
    rows = np.zeros(100, [("a", "<i4"), ("b", "<f8")])
    with h5py.File(h5, "w") as file:
        file.create_dataset("t", data=rows, chunks=(10,))
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/t")
        with h5py.File(h5, "r+") as file:
            file["more"] = 3
        with pytest.raises(multitables.FileChangedError):
            reader.request(dataset["b"][3:5]).get()
