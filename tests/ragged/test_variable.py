"""Rows of any length in the global heap: VLArrays, sequences and strings, against their writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from ragged_files import same_rows, write_variable, write_vlarray

import multitables
from multitables import Streamer


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip", "shuffle": True}])
def test_every_kind(tmp_path: Path, filters: dict[str, Any]) -> None:
    expected = write_variable(tmp_path / "a.h5", **filters)
    paths = {name: f"/{name}" for name in expected}
    got: dict[str, list[Any]] = {name: [] for name in expected}
    for guard in Streamer(tmp_path / "a.h5").get_queue(paths, 3, block_size=47, remainder=True):
        with guard as block:
            for name, rows in block.items():
                assert rows.is_text == (name in ("text", "ascii"))
                got[name] += rows.rows()
    for name, rows in expected.items():
        same_rows(got[name], rows)


def test_one_path_alone(tmp_path: Path) -> None:
    expected = write_variable(tmp_path / "a.h5")
    streamer = Streamer(tmp_path / "a.h5")
    same_rows(list(streamer.get_generator("/numbers", 2)), expected["numbers"])
    same_rows(list(streamer.get_generator("text", 1)), expected["text"])
    same_rows(streamer.get_remainder("/text", 300).rows(), expected["text"][300:])


def test_handles_lead_on_to_streams(tmp_path: Path) -> None:
    expected = write_variable(tmp_path / "a.h5")
    with multitables.open(tmp_path / "a.h5") as file:
        with file["text"].batches(32, n_procs=1) as batches:
            same_rows([row for block in batches for row in block.rows()], expected["text"])
        with file["numbers"].stream(n_procs=1) as stream, stream.get() as block:
            same_rows(block.rows(), expected["numbers"])


def test_a_saved_index(tmp_path: Path) -> None:
    expected = write_variable(tmp_path / "a.h5")
    multitables.index_file(tmp_path / "a.h5", progress=False)
    for name, rows in expected.items():
        same_rows(list(Streamer(tmp_path / "a.h5").get_generator(name, 1)), rows)


@pytest.mark.parametrize("shuffle", ["chunks", "window", "full"])
def test_batches(tmp_path: Path, shuffle: str) -> None:
    expected = write_variable(tmp_path / "a.h5")
    with Streamer(tmp_path / "a.h5").get_batches(
        ("/text", "/big", "/label"), 32, n_procs=2, shuffle=shuffle
    ) as batches:
        for text, big, label in batches:
            same_rows(text.rows(), [expected["text"][at] for at in label])
            same_rows(big.rows(), [expected["big"][at] for at in label])


def test_vlarrays(tmp_path: Path) -> None:
    rows = write_vlarray(tmp_path / "a.h5")
    streamer = Streamer(tmp_path / "a.h5")
    same_rows(list(streamer.get_generator("/ragged", 2)), rows)
    points = list(streamer.get_generator("/points", 1))
    assert [row.shape for row in points] == [(len(row), 2) for row in rows]
    assert all((row == number).all() for number, row in enumerate(points))


def test_compounds_in_sequences(tmp_path: Path) -> None:
    dtype = np.dtype([("x", "<f4"), ("n", "<i8")])
    rows = [np.array([(i, -i)] * i, dtype) for i in range(9)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("a", (9,), h5py.vlen_dtype(dtype))
        for number, row in enumerate(rows):
            dataset[number] = row
    same_rows(list(Streamer(tmp_path / "a.h5").get_generator("/a", 1)), rows)


def test_rows_that_were_never_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("numbers", (5,), h5py.vlen_dtype("i4"))
        file.create_dataset("text", (40,), h5py.string_dtype(), chunks=(7,))[20] = "x"
    streamer = Streamer(tmp_path / "a.h5")
    assert [len(row) for row in streamer.get_generator("/numbers", 1)] == [0] * 5
    text = list(streamer.get_generator("/text", 1))
    assert text == [b""] * 20 + [b"x"] + [b""] * 19


def test_strings_end_at_a_nul(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", (3,), h5py.string_dtype())[:] = ["abcdef", "ghi", "jk"]
    path = tmp_path / "a.h5"
    path.write_bytes(path.read_bytes().replace(b"abcdef", b"ab\0def"))
    with h5py.File(path) as file:
        expected = file["text"][:].tolist()
    assert list(Streamer(path).get_generator("/text", 1)) == expected == [b"ab", b"ghi", b"jk"]


def test_strings_in_sequences(tmp_path: Path) -> None:
    rows = [np.array([b"abc", b"d"]), np.array([b""], "S3")]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("a", (2,), h5py.vlen_dtype(np.dtype("S3")))
        dataset[0], dataset[1] = rows
    same_rows(list(Streamer(tmp_path / "a.h5").get_generator("/a", 1)), rows)


def test_what_is_not_streamed_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", (5,), h5py.vlen_dtype(h5py.vlen_dtype("i4")))
    with pytest.raises(multitables.UnsupportedDatasetError, match="'/a'"):
        Streamer(tmp_path / "a.h5").get_queue("/a", 1)


@pytest.mark.parametrize("path", ["numbers", "texts", "points", "vlarray", "contiguous"])
def test_datasets_without_rows(tmp_path: Path, path: str) -> None:
    with tables.open_file(tmp_path / "a.h5", "w") as file:
        file.create_vlarray("/", "vlarray", tables.Int32Atom((2,)))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.create_dataset("numbers", (0,), h5py.vlen_dtype("i4"), maxshape=(None,))
        file.create_dataset("contiguous", (0,), h5py.vlen_dtype("i4"))
        file.create_dataset("texts", (0,), h5py.string_dtype(), maxshape=(None,))
        points = np.dtype([("x", "f4"), ("n", "i8")])
        file.create_dataset("points", (0,), h5py.vlen_dtype(points), maxshape=(None,))
    streamer = Streamer(tmp_path / "a.h5")
    assert list(streamer.get_queue(path, 1, remainder=True)) == []
    assert list(streamer.get_generator({"a": path}, 1)) == []
    for shuffle in (None, "full"):
        assert list(streamer.get_batches(path, 4, n_procs=1, shuffle=shuffle)) == []
    tail = streamer.get_remainder(path, 4)
    assert tail.rows() == []
    assert tail.values.shape == {"vlarray": (0, 2)}.get(path, (0,))


@pytest.mark.parametrize("how", ["list", "pattern", "manifest"])
@pytest.mark.parametrize("n_procs", [0, 2])
def test_several_files(tmp_path: Path, how: str, n_procs: int) -> None:
    each = [write_variable(tmp_path / f"{n}.h5", n_rows) for n, n_rows in enumerate((50, 34, 90))]
    names = [tmp_path / f"{n}.h5" for n in range(3)]
    of: Any = {"list": names, "pattern": tmp_path / "?.h5", "manifest": tmp_path / "all.mtidx"}[how]
    if how == "manifest":
        multitables.index_files(names, to=of, progress=False)
    expected = {name: [row for one in each for row in one[name]] for name in each[0]}
    label = np.concatenate([np.arange(n) for n in (50, 34, 90)])
    paths = {**{name: f"/{name}" for name in expected}, "label": "/label"}
    for shuffle in (None, "chunks", "window", "full"):
        batches = Streamer(of).get_batches(paths, 16, n_procs=n_procs, shuffle=shuffle)
        order = batches.order()
        got: dict[str, list[Any]] = {name: [] for name in paths}
        with batches:
            for batch in batches:
                got["label"] += batch.pop("label").tolist()
                for name, rows in batch.items():
                    got[name] += rows.rows()
        assert got.pop("label") == label[order].tolist()
        for name, rows in got.items():
            same_rows(rows, [expected[name][row] for row in order])


def test_files_that_lack_rows_are_left_out_of_all(tmp_path: Path) -> None:
    each = [write_variable(tmp_path / f"{n}.h5", 40) for n in range(3)]
    with h5py.File(tmp_path / "1.h5", "a") as file:
        del file["big"]
    streamer = Streamer(tmp_path / "?.h5", skip_missing=True)
    with pytest.warns(multitables.MissingFileWarning, match=r"1\.h5"):
        batches = list(streamer.get_batches(("/numbers", "/big"), 20, n_procs=1))
    for at, name in enumerate(("numbers", "big")):
        rows = [row for batch in batches for row in batch[at].rows()]
        same_rows(rows, each[0][name] + each[2][name])


def test_what_is_wrong_in_one_of_several_files_names_it(tmp_path: Path) -> None:
    for number in range(2):
        write_variable(tmp_path / f"{number}.h5", 40)
    with h5py.File(tmp_path / "1.h5") as file:
        chunk = file["numbers"].id.get_chunk_info(0)
        row = next(n for n, one in enumerate(file["numbers"][:]) if len(one))
    with open(tmp_path / "1.h5", "r+b") as raw:
        raw.seek(chunk.byte_offset + 16 * row + 12)
        raw.write((60_000).to_bytes(4, "little"))
    with pytest.raises(multitables.CorruptFileError, match=r"1\.h5' is damaged.*object 60000"):
        list(Streamer(tmp_path / "?.h5").get_queue("/numbers", 1))
    with open(tmp_path / "1.h5", "r+b") as raw:
        raw.seek(chunk.byte_offset + 16 * row)
        raw.write((1 << 31).to_bytes(4, "little"))
    with pytest.raises(multitables.CorruptFileError, match=rf"row {row} of .*1\.h5' is longer"):
        Streamer(tmp_path / "?.h5").get_queue("/numbers", 1)
