"""Files that are not trusted: no HDF5 library opens them, and what needs one says so.

Law
---
1. What the core reads is read as ever; everything else is an error before anything is decoded, or
   where it is found out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from elements import smooth
from oracle import same, streamed

import multitables

pytestmark = pytest.mark.usefixtures("few_filters")

OFF = r"needs an HDF5 library, which trusted=False switches off"


def ragged(file: Any, path: Path) -> None:
    rows = file.create_dataset("x", (3,), h5py.vlen_dtype("<i4"))
    rows[0] = [1, 2]


def virtual(file: Any, path: Path) -> None:
    file["y"] = smooth((12, 3)).astype("<i2")
    layout = h5py.VirtualLayout((12, 3), "<f8")
    layout[...] = h5py.VirtualSource(file["y"])
    file.create_virtual_dataset("x", layout)


def external(file: Any, path: Path) -> None:
    raw = [(str(path.with_name("raw")), 0, 20), (str(path.with_name("raw")), 20, 28)]
    file.create_dataset("x", (6,), "i8", external=raw)[...] = 1


def foreign_filter(file: Any, path: Path) -> None:
    file.create_dataset("x", data=np.arange(40), chunks=(8,), scaleoffset=0)


KINDS: dict[str, Callable[[Any, Path], None]] = {
    "ragged": ragged,
    "virtual": virtual,
    "external": external,
    "filter": foreign_filter,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_needs_a_library(h5: Path, kind: str) -> None:
    with h5py.File(h5, "w") as file:
        KINDS[kind](file, h5)
        file["plain"] = smooth((12, 3))
    streamer = multitables.Streamer(h5, trusted=False)
    if kind != "ragged":
        for ask in (streamer.get_queue, lambda path: list(streamer.get_batches(path, 4))):
            with pytest.raises(multitables.UnsupportedDatasetError, match=OFF):
                ask("/x")
    with multitables.Reader(h5, n_procs=1, trusted=False) as reader:
        with pytest.raises(multitables.UnsupportedDatasetError, match=OFF):
            reader.get_dataset("/x")
        plain = reader.get_dataset("/plain")
        np.testing.assert_array_equal(reader.request(plain[3:5]).get(), smooth((12, 3))[3:5])
    with streamer.get_queue("/plain", n_procs=1, remainder=True) as queue:
        np.testing.assert_array_equal(
            next(iter(streamer.get_generator("/plain"))), smooth((12, 3))[0]
        )
        assert len(list(queue)) > 0


def test_a_chunk_that_only_a_library_may_decode(h5: Path) -> None:
    """Its stored bytes are more than the core takes for a chunk of this size."""
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=np.arange(80), chunks=(8,), compression="gzip")
        made.id.write_direct_chunk((16,), zlib.compress(np.arange(8)) + bytes(1 << 18))
    same(streamed(h5, "/x", n_procs=1)[0][:16], np.arange(16))
    with pytest.raises(multitables.UnsupportedDatasetError, match=OFF) as caught:
        list(multitables.Streamer(h5, trusted=False).get_generator("/x", n_procs=1))
    assert isinstance(caught.value, multitables.UnsupportedDatasetError)
    with multitables.Reader(h5, n_procs=1, trusted=False) as reader:
        x = reader.get_dataset("/x")
        np.testing.assert_array_equal(reader.request(x[:16]).get(), np.arange(16))
        with pytest.raises(multitables.UnsupportedDatasetError, match=OFF):
            reader.request(x[:]).get()


def test_what_pytables_answers(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        file.create_table("/", "x", obj=np.array([(1, 2.0)], [("a", "<i4"), ("b", "<f8")]))
    with multitables.Reader(h5, n_procs=1, trusted=False) as reader:
        x = reader.get_dataset("/x")
        assert reader.request(x[0]).get()["a"] == 1
        with pytest.raises(multitables.UnsupportedDatasetError, match=OFF):
            reader.request(x.where("a > 0")).get()
