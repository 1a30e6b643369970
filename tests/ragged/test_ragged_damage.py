"""Damage of what ragged rows are read by: a clear error, and never wrong rows."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from ragged_files import write_sparse, write_variable

import multitables
from multitables import CorruptFileError, Ragged, Streamer


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ([0, 3, 2, 5], "offset 2 of '/ends' .* is less than the one before it .*at least 3, got 2"),
        ([0, 3, 9, 11], "offset 3 of '/ends' .* lies beyond the elements .*at most 10, got 11"),
        ([-1, 3, 9], "offset 0 of '/ends' .* is negative .*got -1"),
        (
            [0, 3, 2**63],
            "offset 2 of '/ends' .* lies beyond the elements .*got 9223372036854775808",
        ),
    ],
)
def test_damaged_offsets(tmp_path: Path, ends: list[int], text: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = np.arange(10)
        file["ends"] = np.array(ends, "u8" if 2**63 in ends else "i8")
    streamer, pair = Streamer(tmp_path / "a.h5"), Ragged("/data", "/ends")
    opened: list[Callable[[], Any]] = [
        lambda: streamer.get_queue(pair, 1),
        lambda: list(streamer.get_generator({"a": pair}, 1)),
        lambda: list(streamer.get_batches(pair, 2, n_procs=1, shuffle=True)),
    ]
    for opening in opened:
        with pytest.raises(CorruptFileError, match=text):
            opening()


@pytest.mark.parametrize("dtype", ["f8", "S2"])
def test_offsets_are_whole_numbers(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"], file["ends"] = np.arange(10), np.zeros(3, dtype)
        file["square"] = np.zeros((3, 3), int)
    for path in ("/ends", "/square"):
        with pytest.raises(multitables.UnsupportedDatasetError, match="has no offsets"):
            Streamer(tmp_path / "a.h5").get_queue(Ragged("/data", path), 1)


def test_lengths_that_differ(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"], file["short"], file["ends"] = np.arange(9), np.arange(8), [0, 4, 9]
        file["label"] = np.arange(3)
    streamer = Streamer(tmp_path / "a.h5")
    data: list[Any] = [
        Ragged("/data", "/ends", indices="/short"),
        (Ragged("/data", "/ends"), "/label"),
    ]
    for one in data:
        with pytest.raises(multitables.UnsupportedDatasetError, match="differ in length"):
            streamer.get_queue(one, 1)


def test_a_damaged_chunk_of_flat_data(tmp_path: Path) -> None:
    write_sparse(tmp_path / "a.h5", fletcher32=True)
    with h5py.File(tmp_path / "a.h5") as file:
        chunk = file["X/data"].id.get_chunk_info(40)
    with open(tmp_path / "a.h5", "r+b") as raw:
        raw.seek(chunk.byte_offset + 5)
        byte = raw.read(1)[0]
        raw.seek(chunk.byte_offset + 5)
        raw.write(bytes([byte ^ 1]))
    streamer = Streamer(tmp_path / "a.h5")
    pair = Ragged("/X/data", "/X/indptr")
    with (
        streamer.get_queue(pair, 2, block_size=10) as stream,
        pytest.raises(
            multitables.CorruptChunkError,
            match=r"fletcher32.*[0-9] blocks were delivered and are good; the stream is closed",
        ) as caught,
    ):
        list(stream)
    assert caught.value.values["path"] == "/X/data"
    with pytest.raises(multitables.CorruptChunkError):
        stream.get()
    with pytest.raises(multitables.CorruptChunkError):
        list(streamer.get_batches(pair, 10, n_procs=1, shuffle="full"))


def _descriptor(path: Path, row: int) -> int:
    """Where in the file the descriptor of a row of ``/numbers`` lies."""
    with h5py.File(path) as file:
        chunk = file["numbers"].id.get_chunk_info(row // 33)
    return int(chunk.byte_offset) + row % 33 * 16


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ((None, None, 60_000), "expected object 60000 in the global heap"),
        ((None, 1 << 40, None), "'/numbers'"),
        ((5000, None, None), "'/numbers' expected 20000 bytes of object"),
        ((1 << 31, None, None), "row 7 of '/numbers' .* is longer than the file"),
    ],
)
def test_references_that_lead_nowhere(
    tmp_path: Path, change: tuple[int | None, ...], text: str
) -> None:
    path = tmp_path / "a.h5"
    expected = write_variable(path)
    row = 7
    assert len(expected["numbers"][row])
    with open(path, "r+b") as raw:
        raw.seek(_descriptor(path, row))
        stored = struct.unpack("<IQI", raw.read(16))
        raw.seek(_descriptor(path, row))
        mixed = [old if new is None else new for old, new in zip(stored, change, strict=True)]
        raw.write(struct.pack("<IQI", *mixed))
    with pytest.raises(CorruptFileError, match=text):
        list(Streamer(path).get_generator("/numbers", 2))


def test_a_file_that_changed(tmp_path: Path) -> None:
    write_variable(tmp_path / "a.h5")
    with Streamer(tmp_path / "a.h5").get_batches("/numbers", 10, n_procs=1) as batches:
        batches.order()
        with h5py.File(tmp_path / "a.h5", "a") as file:
            file["more"] = 1
        with pytest.raises(multitables.FileChangedError):
            list(batches)


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_rows_of_damaged_chunks_are_left_out(tmp_path: Path, shuffle: str | None) -> None:
    ends = np.concatenate([[0], np.cumsum(np.arange(40) % 7)])
    data = np.arange(ends[-1], dtype="i8")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = file.create_dataset("v", data=data, chunks=(10,), compression="gzip")
        columns = file.create_dataset("c", data=data * 2, chunks=(16,), compression="gzip")
        file["ends"], file["label"] = ends, np.arange(40)
        hurt = [values.id.get_chunk_info_by_coord((30,)), columns.id.get_chunk_info_by_coord((80,))]
    with (tmp_path / "a.h5").open("r+b") as raw:
        for chunk in hurt:
            raw.seek(chunk.byte_offset + 8)
            raw.write(bytes(8))
    lost = {*range(30, 40), *range(80, 96)}
    rows = [set(range(low, high)) for low, high in itertools.pairwise(ends)]
    wanted = [number for number, row in enumerate(rows) if not row & lost]
    paths = {"x": Ragged(["/v", "/c"], "/ends"), "label": "/label"}
    options: Any = {"skip_damaged": True, "shuffle": shuffle, "n_procs": 1, "epochs": 2}
    with Streamer(tmp_path / "a.h5").get_batches(paths, 6, **options) as batches:
        with pytest.warns(multitables.CorruptChunkWarning):
            found = list(batches)
        damage = sorted((one.path, one.chunk_offset) for one in batches.damage)
    assert damage == [("/c", (80,)), ("/v", (30,))]
    seen = [label for batch in found for label in batch["label"].tolist()]
    assert sorted(seen) == sorted(2 * wanted)
    for batch in found:
        for label, (values, columns) in zip(batch["label"], batch["x"], strict=True):
            np.testing.assert_array_equal(values, data[ends[label] : ends[label + 1]])
            np.testing.assert_array_equal(columns, values * 2)


def test_rows_of_a_block_by_their_numbers() -> None:
    block = multitables.RaggedBlock(np.arange(6), np.array([0, 2, 2, 5, 6]), np.arange(6) * 3, 20)
    rows = block.rows()
    for key in (np.array([3, 0, 0]), np.array([True, False, True, False]), np.array([], int)):
        chosen = block[key]
        wanted = [rows[number] for number in np.arange(4)[key]]
        assert [[one.tolist() for one in row] for row in chosen.rows()] == [
            [one.tolist() for one in row] for row in wanted
        ]
        assert chosen.n_columns == 20
