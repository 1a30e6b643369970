"""Bytes changed anywhere in a file's metadata: an exception of ours, whatever the bytes are.

Law
---
1. Every layout that HDF5 has, but virtual datasets: HDF5 itself crashes on some of these.
2. Indexed by a stream's way and by a Reader's; where type, shape or filters are others then, the
   rows are h5py's, or there is an error. Which chunks there are is not compared here.
"""

from __future__ import annotations

import dataclasses
import errno
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import FAST, smooth, values
from oracle import h5py_read, same, streamed

import multitables
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import open_source

CASES = 250
STREAMED = 6
LARGE = 1 << 20
#: Of an index: what is not compared.
PLACES = ("files", "chunks")
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {"data": smooth((12, 5))},
    "never written": {"shape": (12, 5), "dtype": "<i4", "fillvalue": 3},
    "chunks": {"data": smooth((12, 5)), "chunks": (4, 3)},
    "one chunk": {"data": smooth((12, 5)), "chunks": (12, 5), "compression": "gzip"},
    "filters": {"data": smooth((12, 5)), "chunks": (4, 3), "shuffle": True, "fletcher32": True},
    "extensible": {"data": smooth((12, 5)), "chunks": (4, 3), "maxshape": (None, 5)},
    "resizable": {"data": smooth((12, 5)), "chunks": (4, 3), "maxshape": (None, None)},
    "compound": {"data": values(FAST["deep"], (12,)), "chunks": (4,)},
    "enum": {"data": smooth((12,), "i2"), "dtype": h5py.enum_dtype({"a": 1, "b": 2}, "i2")},
    "strings": {"data": values(FAST["S7"], (12,)), "fillvalue": b"zz", "chunks": (5,)},
    "ragged": {"shape": (3,), "dtype": h5py.vlen_dtype("<i4")},
}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_anywhere(h5: Path, layout: str, libver: str) -> None:
    with h5py.File(h5, "w", libver=libver) as file:
        file.create_dataset("g/x", **LAYOUTS[layout]).attrs["CLASS"] = np.bytes_("ARRAY")
    good = h5.read_bytes()
    before, _ = _indexed(h5)
    rng = np.random.default_rng(len(good))
    changed = 0
    for _ in range(CASES):
        at, size = int(rng.integers(len(good))), int(rng.choice([1, 2, 4, 8]))
        by = bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF])]) * size
        h5.write_bytes((good[:at] + by + good[at + size :])[: len(good)])
        index, _ = _indexed(h5)
        if index is None or changed == STREAMED or _alike(index, before):
            continue
        changed += 1
        if math.prod(index.dims) > LARGE:
            _either_begins_or_an_error(h5)
        else:
            _either_rows_or_an_error(h5)


def _indexed(path: Path) -> tuple[ChunkIndex | None, ChunkIndex | None]:
    """What a stream and a Reader make of the dataset; None for an error of ours."""
    found: list[ChunkIndex | None] = []
    for how in (lambda source: source.index("/g/x"), lambda source: source.describe("/g/x")[1]):
        try:
            with open_source(path, {}) as source:
                found.append(how(source))
        except multitables.MultitablesError as error:
            assert "\n" not in str(error)  # noqa: PT017
            found.append(None)
    return found[0], found[1]


def _alike(index: ChunkIndex, other: ChunkIndex | None) -> bool:
    """Whether two indexes of a file that was written anew say the same, up to where it lies."""
    if other is None:
        return False
    names = {field.name for field in dataclasses.fields(index)} - set(PLACES)
    return all(np.array_equal(getattr(index, name), getattr(other, name)) for name in names)


def _either_begins_or_an_error(path: Path) -> None:
    """Of an extent that would take too long."""
    streamer = multitables.Streamer(path)
    for start in (
        lambda: streamer.get_queue("/g/x", n_procs=1, remainder=True),
        lambda: streamer.get_batches("/g/x", 8, n_procs=1),
        lambda: streamer.get_batches("/g/x", 8, n_procs=1, shuffle=True),
    ):
        try:
            with start() as stream:
                next(iter(stream), None)
        except multitables.MultitablesError as error:
            assert "\n" not in str(error)  # noqa: PT017


def _either_rows_or_an_error(path: Path) -> None:
    try:
        got, _ = streamed(path, "/g/x", n_procs=1)
    except multitables.MultitablesError:
        return
    same(got, h5py_read(path, "/g/x"))


def test_a_file_that_the_system_fails_to_read(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((5,))

    def failed(*_: Any) -> None:
        raise OSError(errno.EIO, "some disk")

    monkeypatch.setattr("_multitables.index.types.hdf5_metadata.pipeline_of", failed)
    for ask in (
        lambda: multitables.Streamer(h5).get_queue("/x", n_procs=1),
        lambda: _indexed_by_a_reader(h5),
    ):
        with pytest.raises(multitables.FileOpenError, match=r"data\.h5' cannot be opened: .*EIO"):
            ask()


def _indexed_by_a_reader(path: Path) -> None:
    with multitables.Reader(path, n_procs=1) as reader:
        reader.get_dataset("/x")


@pytest.mark.parametrize(
    ("dtype", "byte", "bits"),
    [("<i4", 8, 255), ("<i4", 10, 33), ("<u2", 10, 0), ("<f8", 12, 60)],
)
def test_bits_outside_of_an_element(h5: Path, dtype: str, byte: int, bits: int) -> None:
    with h5py.File(h5, "w", libver="earliest") as file:
        file.create_dataset("x", data=np.arange(9, dtype=dtype))
        datatype = file["x"].id.get_type().encode()[2:]
    stored = bytearray(h5.read_bytes())
    at = stored.index(datatype[:20]) + byte
    assert stored[at] != bits
    stored[at] = bits
    h5.write_bytes(stored)
    with pytest.raises(Exception), h5py.File(h5) as file:  # noqa: B017, PT011
        file["x"][()]
    with pytest.raises(multitables.CorruptFileError), multitables.open(h5) as ours:
        ours["x"][()]
    with pytest.raises(multitables.MultitablesError):
        list(multitables.Streamer(h5).get_generator("/x", 1))
